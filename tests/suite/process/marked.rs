//! Processes left when both decree and its supervisor were killed.

use std::fs;
use std::path::Path;
use std::process::Command;

use decree::process::marked::{self, MARK_VARIABLE, ProcessMark};

use super::{alive, has, processes, unique_sleep, wait_for, wait_until};
use crate::harness::Project;

fn start(project: &Project, mark: &ProcessMark, script: &str) -> std::process::Child {
    let child = Command::new("setsid")
        .args(["bash", "-c", script])
        .current_dir(project.root())
        .env(MARK_VARIABLE, mark.as_str())
        .spawn()
        .unwrap();
    wait_for(&project.path("ready"));
    child
}

#[test]
fn what_carries_the_mark_is_ended_and_what_is_below_it() {
    let project = Project::bare();
    let (sleep, mark) = (unique_sleep(), ProcessMark::random());
    // One goes in peace, one has to be killed, and one has to be, has no mark, and soon no parent.
    let script = format!(
        "setsid sleep {sleep} & (trap '' TERM; exec setsid sleep {sleep}) & \
         (trap '' TERM; exec env -i setsid sleep {sleep}) & echo x > ready; wait"
    );
    let mut child = start(&project, &mark, &script);
    let is_sleeping = |process: &Path| {
        fs::read(process.join("comm")).is_ok_and(|name| name == b"sleep\n") && has(process, &sleep)
    };
    wait_until("all are there", || processes().filter(|process| is_sleeping(process)).count() == 3);
    let ended = marked::end(&mark);
    assert!(ended >= 4, "{ended}");
    child.wait().unwrap();
    assert_eq!(alive(&sleep), 0);
    assert_eq!(marked::end(&mark), 0);
}

#[test]
fn another_runs_processes_are_left_alone() {
    let project = Project::bare();
    let (sleep, mark) = (unique_sleep(), ProcessMark::random());
    let mut child = start(&project, &mark, &format!("echo x > ready; exec sleep {sleep}"));
    assert_eq!(marked::end(&ProcessMark::random()), 0);
    assert_eq!(alive(&sleep), 1);
    assert_eq!(marked::end(&mark), 1);
    child.wait().unwrap();
    assert_eq!(alive(&sleep), 0);
}
