//! Changes that others make while decree works, and what a routine leaves outside the tree.

use std::fs;
use std::process::Command;

use decree::error::IoContext;
use decree::fs::quarantine::{numbered, take_free_name};

use super::{dead, end_of, process, project, tracker, tree, wait_for};
use crate::harness::{Project, assert_same};

/// A project whose routine signals that it is running, then waits for a signal to continue.
fn waiting(script: &str) -> Project {
    let project = project(&format!(
        "echo > .decree/at-work\nwhile [ ! -e .decree/go-on ]; do sleep 0.01; done\n{script}"
    ));
    project.write(".decree/config.yml", "max_retries: 0\n");
    project
}

#[test]
fn a_concurrent_change_during_a_revert_is_saved_and_the_run_is_reverted() {
    let project = project("echo run > notes.txt\n(while :; do echo x >> .decree/x; done) & exit 1\n");
    project.write(".decree/config.yml", "max_retries: 0\n").write("decree.log", "");
    // decree's own output, in a file that another process writes and that grows between the record and the revert.
    let mut before = tree(&project);
    before.remove(b"decree.log".as_slice());
    let script = format!("'{}' process 2>&1 | tee -a decree.log >/dev/null", env!("CARGO_BIN_EXE_decree"));
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(project.root()).env("HOME", "/nonexistent");
    assert!(shell.status().unwrap().success());
    project.remove("decree.log");
    assert_same(&tree(&project), &before);
    assert_eq!(dead(&project).len(), 1);
}

#[test]
fn decrees_own_words_may_be_redirected_into_the_project() {
    let project = project("echo run > notes.txt\nexit 1\n");
    let before = tree(&project);
    let script = format!("'{}' process > decree.log 2>&1", env!("CARGO_BIN_EXE_decree"));
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(project.root()).env("HOME", "/nonexistent");
    assert_eq!(shell.status().unwrap().code(), Some(1));
    let log = String::from_utf8(project.read("decree.log")).unwrap();
    assert!(log.contains("the tree is reverted to its checkpoint"), "{log}");
    project.remove("decree.log");
    assert_same(&tree(&project), &before);
}

#[test]
fn a_message_that_replaces_the_running_one_is_not_lost() {
    let project = waiting("echo done >> notes.txt\n");
    project.remove("specs/01-work.spec.md").write(".decree/inbox/nightly.md", "first\n");
    let mut child = project.command().arg("process").spawn().unwrap();
    wait_for(&project.path(".decree/at-work"));
    project.write(".decree/inbox/nightly.md", "second\n").write(".decree/go-on", "");
    assert!(end_of(&mut child).success());
    let kept =
        Command::new("grep").args(["-rl", "second", ".decree"]).current_dir(project.root()).output().unwrap();
    assert!(!kept.stdout.is_empty(), "it is kept somewhere");
}

#[test]
fn specs_may_be_a_link() {
    for script in ["echo x >> notes.txt\n", "echo x >> notes.txt; exit 1\n"] {
        let project = project(script);
        fs::rename(project.path("specs"), project.path("docs")).unwrap();
        project.link("specs", "docs");
        process(&project);
        assert_eq!(fs::read_link(project.path("specs")).unwrap().to_str(), Some("docs"));
        assert_eq!(tracker(&project).len() + dead(&project).len(), 1);
    }
}

#[test]
fn a_run_that_is_reverted_leaves_no_routines_behind() {
    let project =
        project("echo evil > .decree/routines/evil.sh; echo evil > .decree/routines/develop.sh; exit 1\n");
    let routine = project.read(".decree/routines/develop.sh");
    process(&project).fails(1).mentions(&["set-aside"]);
    assert_eq!(project.read(".decree/routines/develop.sh"), routine);
    assert!(!project.exists(".decree/routines/evil.sh"));
}

#[test]
fn a_result_that_a_routine_wrote_is_not_taken_for_a_verdict() {
    for text in [
        "not even json",
        r#"{"status":"success","kept":true,"name":"x","routine":"develop","started_at":"","duration_ms":1}"#,
    ] {
        let project = project(&format!(
            "echo run > notes.txt\necho '{text}' > \"$message_dir/result.json\"\necho > .decree/at-work\nsleep 60\n"
        ));
        let before = tree(&project);
        let mut child = project.command().arg("process").spawn().unwrap();
        wait_for(&project.path(".decree/at-work"));
        child.kill().unwrap();
        child.wait().unwrap();
        project
            .write(".decree/routines/develop.sh", "exit 1\n")
            .write(".decree/config.yml", "max_retries: 0\n");
        process(&project).fails(1).mentions(&["was interrupted"]);
        assert_same(&tree(&project), &before);
    }
}

#[test]
fn a_name_that_another_process_takes_at_the_last_moment_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("name");
    let taken = take_free_name(
        |number| numbered(&name, ".", number),
        |path| {
            if path == name {
                fs::write(path, "of another process").unwrap();
            }
            fs::File::create_new(path).unless_exists().at("create", path)
        },
    );
    assert_eq!(taken.unwrap(), numbered(&name, ".", 2));
    assert_eq!(fs::read_to_string(name).unwrap(), "of another process");
}
