//! Letters in `dead/` and `done/`, and the tracker, after decree was killed.

use std::process::Stdio;

use super::pipeline_project::{PipelineProject, assert_has};
use crate::harness::{CommandOutput, wait_for};

const DEAD: &str = ".decree/inbox/dead/2025022514320000-0.md";
const DONE: &str = ".decree/inbox/done/2025022514310000-0.md";
const TRACKER: &str = "specs/processed-spec.md";
const LETTER: &str = "---\nroutine: develop\nerror: it failed\n---\nA failed message.\n";
const PROCESSED: &str = "# mine\n- 01-first.spec.md\n02-second.spec.md\n";

/// A project with a letter in `dead/`, one in `done/`, and a tracker. decree is killed after `script`, in a guard or a run.
fn killed(script: &str, is_guard: bool) -> PipelineProject {
    let script = format!("{script}; echo x >.decree/ready; while :; do sleep 0.05; done");
    let project = PipelineProject::with(&script);
    project.config("max_retries: 0\n");
    project.write(DEAD, LETTER).write(DONE, LETTER).write(TRACKER, PROCESSED);
    let mut command = project.command();
    let command = if is_guard {
        command.args(["guard", "--", "bash", "-c", &script])
    } else {
        project.message("2025022514330000-0", "---\nroutine: develop\n---\nDo it.\n");
        command.arg("process")
    };
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    project.routine("develop", "true");
    project
}

fn settle(project: &PipelineProject, is_guard: bool) -> CommandOutput {
    if !is_guard {
        return project.process();
    }
    let checkpoints = project.decree(["checkpoint", "list"]).ok().text();
    let checkpoint = checkpoints.split_whitespace().find(|word| word.starts_with("chk_")).unwrap().to_owned();
    project.decree(["rollback", &checkpoint])
}

/// MSG-70.
#[test]
fn letters_that_were_deleted_before_a_kill_are_there_again() {
    for is_guard in [true, false] {
        let project = killed("rm -rf .decree/inbox/dead .decree/inbox/done", is_guard);
        let output = settle(&project, is_guard).ok();
        let names = "dead/2025022514320000-0.md, done/2025022514310000-0.md";
        assert_has(&output.err, &[&format!("are there again: {names}")]);
        assert_eq!((project.text(DEAD), project.text(DONE)), (LETTER.to_owned(), LETTER.to_owned()));
        let again = project.process();
        assert!(!again.err.contains("there again"), "{}", again.err);
    }
}

/// MSG-71. What a person asked for since is done once.
#[test]
fn a_letter_that_is_tried_again_after_a_kill_is_not_in_two_places() {
    let project = killed("true", true);
    project.decree(["retry", "2025022514320000-0"]).ok();
    let output = settle(&project, true).ok();
    assert!(!project.exists(DEAD), "{}", output.err);
    assert!(project.exists(".decree/inbox/2025022514320000-0.md"), "{}", output.err);
}

/// MSG-72.
#[test]
fn lines_of_the_tracker_that_were_deleted_before_a_kill_are_there_again() {
    for is_guard in [true, false] {
        for script in [": >specs/processed-spec.md", "rm -r specs", "sed -i /first/d specs/processed-spec.md"]
        {
            let project = killed(script, is_guard);
            let output = settle(&project, is_guard).ok();
            assert_eq!(project.text(TRACKER), PROCESSED, "{script}: {}", output.err);
            assert_has(
                &output.err,
                &["restored: specs/processed-spec.md (lines that were gone: ", "01-first.spec.md"],
            );
        }
    }
}

/// MSG-73.
#[test]
fn a_line_of_the_tracker_that_is_new_since_a_kill_stays_and_is_named() {
    for is_guard in [true, false] {
        let project = killed("echo 09-evil.spec.md >specs/processed-spec.md", is_guard);
        project.write(TRACKER, "09-evil.spec.md\n03-mine.spec.md");
        let output = settle(&project, is_guard).ok();
        assert_eq!(project.text(TRACKER), format!("{PROCESSED}09-evil.spec.md\n03-mine.spec.md\n"));
        let named = "by it or by you, and left as they are: specs/processed-spec.md (new: 09-evil.spec.md, 03-mine.spec.md)";
        assert_has(&output.err, &[named]);
    }
}

/// MSG-74.
#[test]
fn a_letter_of_which_nothing_is_left_after_a_kill_is_named() {
    for is_guard in [true, false] {
        let project = killed("rm -rf .decree/inbox/dead .decree/waiting", is_guard);
        let output = settle(&project, is_guard).fails(4);
        assert_has(
            &output.err,
            &[&format!("{DEAD}: it was in the queue before, and has no second name any more")],
        );
        assert!(!output.err.contains(&format!("{DONE}:")), "{}", output.err);
        let again = project.process();
        assert!(!again.err.contains("second name"), "it is reported once: {}", again.err);
    }
}
