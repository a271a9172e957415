//! An unusual machine: missing tools, closed standard streams, odd permissions.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::{Command, Stdio};

use super::{dead, end_of, inbox, process, project, start, tracker, wait_for};
use crate::harness::{assert_same, run_command, skip};
use crate::killed::has_strace;
use crate::revert::{as_nobody, hand_over};

#[test]
fn a_second_decree_reports_who_holds_the_lock() {
    let project =
        project("echo x > ready; while [ ! -e go ]; do sleep 0.02; done; rm go ready; echo work > work\n");
    let mut first = start(&project);
    wait_for(&project.path("ready"));
    let who = format!("pid {}", first.id());
    for args in [&["process"][..], &["run", "-p", "x"], &["checkpoint", "create"], &["retry", "--all"]] {
        project.decree(args).fails(5).mentions(&["another decree is working here", &who, "`decree process`"]);
    }
    project.decree(["status"]).ok();
    project.write("go", "x");
    assert_eq!(end_of(&mut first).code(), Some(0));
    assert_eq!(tracker(&project), ["01-work.spec.md"]);
}

#[test]
fn a_decree_directory_that_cannot_be_written_to_is_a_clear_error() {
    if !crate::harness::skip::as_root() {
        return;
    }
    let project = project("echo work > work\n");
    project.write(".decree/inbox/waiting.md", "x\n");
    for dir in [".decree", ".decree/runs", ".decree/inbox"] {
        project.mkdir(".decree/runs");
        hand_over(project.root());
        project.chmod(dir, 0o555);
        let before = project.snapshot();
        let output = as_nobody(&project, &["process"]);
        assert!([1, 3, 4].contains(&output.code), "{dir}: {}: {}", output.code, output.err);
        assert!(
            output.err.contains("Permission denied") || output.err.contains("written to"),
            "{dir}: {}",
            output.err
        );
        assert!(output.err.contains(".decree"), "{}", output.err);
        assert_same(&project.snapshot(), &before);
        assert_eq!((inbox(&project).len(), dead(&project).len()), (1, 0), "{dir}: nothing is lost");
        project.chmod(dir, 0o755);
    }
    as_nobody(&project, &["process"]).ok();
    assert_eq!(tracker(&project), ["01-work.spec.md"]);
}

#[test]
fn nothing_in_the_environment_is_needed_but_a_path() {
    let project = project("echo \"${HOME-none}\" > home\n");
    let mut command = Command::new(project.command().get_program());
    command
        .arg("process")
        .current_dir(project.root())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    run_command(&mut command).ok();
    assert_eq!(project.read("home"), b"none\n");
}

#[test]
fn a_project_with_an_odd_name_works() {
    let project = project("echo \"$PWD\" > where\n");
    let odd = project.path("a 'b' \"c\" $(touch pwned)\n;d");
    std::fs::create_dir(&odd).unwrap();
    for name in [".decree", "specs"] {
        std::fs::rename(project.path(name), odd.join(name)).unwrap();
    }
    let mut command = project.command();
    command.current_dir(&odd).arg("process");
    run_command(&mut command).ok();
    assert_eq!(std::fs::read(odd.join("where")).unwrap(), format!("{}\n", odd.display()).into_bytes());
    assert!(!project.exists("pwned"));
    assert_eq!(process(&project).code, 3, "the project is not here any more");
}

#[test]
fn directories_that_are_not_writable_are_set_aside_on_another_file_system() {
    if !skip::as_root() {
        return;
    }
    let project = project(
        "mkdir -p tools/mod/a; echo 1 >tools/mod/a/f; echo 2 >tools/x; chmod 555 tools/mod/a tools/mod; exit 1\n",
    );
    project.write(".gitignore", "mod/\n");
    let device = |path: &std::path::Path| fs::metadata(path).unwrap().dev();
    let others = ["/dev/shm", "/tmp", "/var/tmp"].map(std::path::Path::new);
    let other = others.iter().find(|dir| dir.is_dir() && device(dir) != device(project.root()));
    let Some(other) = other else { return skip::skip(skip::Lack::Right("there is only one file system")) };
    let elsewhere = tempfile::Builder::new().prefix("decree-test-").tempdir_in(other).unwrap();
    let decree = elsewhere.path().join("decree");
    let moved = Command::new("mv").arg(project.path(".decree")).arg(&decree).status().unwrap();
    assert!(moved.success());
    symlink(&decree, project.path(".decree")).unwrap();
    hand_over(project.root());
    hand_over(elsewhere.path());
    let before = project.snapshot();
    as_nobody(&project, &["process"]).fails(1).mentions(&["moved tools/mod to the run's set-aside/"]);
    assert_same(&project.snapshot(), &before);
    let runs: Vec<_> = fs::read_dir(decree.join("runs")).unwrap().map(|run| run.unwrap().path()).collect();
    let set_aside = runs[0].join("set-aside");
    let kept: Vec<_> = fs::read_dir(&set_aside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept, ["tools"]);
    assert_eq!(fs::read(set_aside.join("tools/mod/a/f")).unwrap(), b"1\n");
    assert_eq!(fs::metadata(set_aside.join("tools/mod/a")).unwrap().mode() & 0o7777, 0o555);
}

#[test]
fn a_file_system_without_hard_links_and_exclusive_renames_is_enough() {
    if !has_strace() {
        return;
    }
    let project = project("echo work > work\n");
    let refused = ["inject=renameat2:error=EINVAL", "inject=linkat:error=EPERM", "inject=link:error=EPERM"];
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null"]).args(refused.iter().flat_map(|inject| ["-e", inject]));
    command.arg(project.command().get_program()).arg("process").current_dir(project.root());
    run_command(command.stdin(Stdio::null())).ok();
    assert_eq!(tracker(&project), ["01-work.spec.md"]);
    assert!(dead(&project).is_empty() && inbox(&project).is_empty());
}
