//! The messages that waited when decree was killed.

use std::fs;
use std::process::Stdio;

use super::pipeline_project::{PipelineProject, assert_has};
use crate::harness::{wait_for, wait_until};

const FIRST: &str = "2025022514320000-0.md";
const SECOND: &str = "2025022514330000-0.md";
const THIRD: &str = "2025022514340000-0.md";

/// A project with three messages. The first runs until decree is killed, in the middle of `script`.
fn killed(script: &str) -> PipelineProject {
    let work = format!(
        "[ $message_id != 2025022514320000-0 ] || {{ echo x >>notes.txt; {script}; echo x >.decree/ready; while :; do sleep 0.05; done; }}"
    );
    let project = PipelineProject::with(&work);
    project.config("max_retries: 0\n");
    for file in [FIRST, SECOND, THIRD] {
        project.write(format!(".decree/inbox/{file}"), format!("---\nroutine: develop\n---\nDo {file}.\n"));
    }
    let mut command = project.command();
    let mut child = command.arg("process").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    project.routine("develop", "true");
    project
}

/// MSG-60.
#[test]
fn waiting_messages_that_a_killed_run_deleted_are_restored_and_run() {
    let project = killed("rm -rf .decree/inbox");
    let output = project.process().ok();
    assert_has(&output.err, &["were gone when decree was killed, are in the inbox again: ", SECOND, THIRD]);
    let done = project.text(&format!(".decree/inbox/done/{THIRD}"));
    assert!(done.contains(&format!("Do {THIRD}.\n")), "{done}");
    for file in [FIRST, SECOND] {
        assert!(project.exists(format!(".decree/inbox/done/{file}")), "{file} has run");
    }
    let second_names = fs::read_dir(project.path(".decree/waiting")).unwrap().flatten();
    assert!(second_names.into_iter().all(|entry| entry.path().is_dir()), "nothing waits");
}

/// MSG-61.
#[test]
fn a_message_that_a_person_deletes_after_the_kill_is_not_run() {
    let project = killed(&format!("rm .decree/inbox/{SECOND}"));
    let time = |path: &str| fs::metadata(project.path(path)).and_then(|found| found.modified()).ok();
    wait_until("the run's processes have ended, and the kernel's clock has gone on", || {
        project.write(".decree/probe", "x");
        time(".decree/run-ended").is_some() && time(".decree/probe") > time(".decree/run-ended")
    });
    project.remove(format!(".decree/inbox/{THIRD}"));
    let output = project.process().ok();
    assert_has(
        &output.err,
        &["are in the inbox again: 2025022514330000-0.md", "are not run; a copy of each is kept: "],
    );
    assert!(project.exists(format!(".decree/inbox/done/{SECOND}")), "the run had deleted it");
    assert!(!project.exists(format!(".decree/inbox/done/{THIRD}")), "a person had deleted it");
    let copy = project.text(&format!(".decree/runs/2025022514320000-0/previous/1/set-aside/{THIRD}"));
    assert!(copy.contains(&format!("Do {THIRD}.\n")), "{copy}");
    assert!(!project.exists(".decree/run-ended"));
}

/// MSG-62.
#[test]
fn waiting_messages_of_which_nothing_is_left_are_an_error_that_names_them() {
    let project = killed("rm -rf .decree/inbox .decree/waiting");
    let output = project.process().fails(4);
    assert_has(
        &output.err,
        &[
            "error: 2 messages that waited when run 2025022514320000-0 began",
            SECOND,
            THIRD,
            "write them again",
        ],
    );
    assert!(!project.exists(".decree/running.json"), "the run is settled");
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
    project.process().ok();
    assert!(project.exists(format!(".decree/inbox/done/{FIRST}")));
}
