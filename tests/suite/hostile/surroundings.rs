//! An unusual machine: missing tools, closed standard streams, odd permissions.

use std::process::Command;

use super::{dead, end_of, inbox, process, project, start, tracker, wait_for};
use crate::harness::{assert_same, run_command};
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
