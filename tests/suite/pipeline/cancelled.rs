//! A job that is cancelled: the tree is reverted before decree ends, and what can wait is left to the next command.

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::pipeline_project::PipelineProject;
use crate::harness::{assert_same, wait_for};

/// Changes, makes and deletes files in several directories, says so, and waits.
const CHANGES: &str = r#"
for d in 1 2 3 4 5; do
    for n in 1 2 3 4 5 6; do echo changed >>"d$d/changed-$n"; rm "d$d/gone-$n"; echo new >"d$d/new-$n"; done
done
echo yes >.decree/ready
sleep 60
"#;

fn project() -> PipelineProject {
    let project = PipelineProject::with(CHANGES);
    for d in 1..=5 {
        for n in 1..=6 {
            project.write(format!("d{d}/changed-{n}"), "x\n").write(format!("d{d}/gone-{n}"), "y\n");
        }
    }
    project.spec("01-change", "Change\n");
    project
}

/// The directories of restores.
fn restores(project: &PipelineProject) -> Vec<String> {
    project.names(".decree/tmp").into_iter().filter(|name| name.starts_with("restore-")).collect()
}

/// RCV-50.
#[test]
fn a_signal_reverts_the_tree_and_leaves_what_was_replaced_to_the_next_command() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let project = project();
        let before = project.snapshot();
        let child = project.command().arg("process").stderr(Stdio::piped()).spawn().unwrap();
        wait_for(&project.path(".decree/ready"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words}");
        assert!(words.contains("was reverted; its message waits in the inbox"), "{words}");
        assert_same(&project.snapshot(), &before);
        let left = restores(&project);
        let [left] = &left[..] else { panic!("one restore is over and not cleared away: {left:?}") };
        assert!(!project.exists(format!(".decree/tmp/{left}/journal.json")), "the restore is over");
        assert_eq!(fs::read_dir(project.path(format!(".decree/tmp/{left}/old"))).unwrap().count(), 60);

        let output = project.decree(["checkpoint", "create"]).ok();
        assert!(restores(&project).is_empty() && !output.err.contains("revert"), "{}", output.err);
        assert_same(&project.snapshot(), &before);
    }
}

/// RCV-50. Nothing waits for a command that nobody asked to stop.
#[test]
fn a_revert_without_a_signal_removes_what_was_replaced() {
    let project = project();
    project.routine("develop", "rm -r d1 d2; echo x >d3/changed-1; exit 3");
    project.config("max_retries: 0\n");
    let before = project.snapshot();
    project.process();
    assert_same(&project.snapshot(), &before);
    assert!(restores(&project).is_empty());
}
