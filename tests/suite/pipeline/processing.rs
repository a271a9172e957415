//! `decree process`: which specs and messages, in which order, and how often.

use super::pipeline_project::{PipelineProject, WORKS, assert_has, field};
use crate::harness::assert_same;

/// Fails for specs with `bad` in their names.
const PICKY: &str = "echo \"$message_id ${spec_file##*/}\" >>order.txt; case $spec_file in *bad*) echo no >>notes.txt; exit 4;; esac";

fn order(project: &PipelineProject) -> Vec<String> {
    let text = project.text("order.txt");
    text.lines().map(|line| line.split(' ').next_back().unwrap().to_owned()).collect()
}

/// RUN-01.
#[test]
fn specs_are_processed_in_the_order_of_their_names_each_in_its_own_chain() {
    let project = PipelineProject::with(PICKY);
    for name in ["10-last", "02-b", "01-a"] {
        project.spec(name, "# x\n");
    }
    project.spec(".hidden", "x").write("specs/notes.md", "no spec\n");
    project.process().ok();
    assert_eq!(order(&project), ["01-a.spec.md", "02-b.spec.md", "10-last.spec.md"]);
    assert_eq!(project.tracker(), order(&project));
    let runs = project.runs();
    assert!(runs.len() == 3 && runs.iter().all(|id| id.ends_with("-0")), "{runs:?}");
    assert_eq!(project.done(), ["01-a", "02-b", "10-last"]);
    let message = project.of_run(&runs[0], "message.md");
    assert_eq!((field(&message, "type"), field(&message, "seq")), (Some("spec"), Some("0")));
}

/// RUN-02.
#[test]
fn a_spec_is_processed_once() {
    let project = PipelineProject::with(WORKS);
    project
        .spec("01-a", "# A\n")
        .spec("02-b", "# B\n")
        .write("specs/processed-spec.md", "# done\n- 01-a.spec.md\n");
    project.process().ok();
    assert_eq!(project.text("work.txt"), "done specs/02-b.spec.md\n");
    assert_eq!(project.text("specs/processed-spec.md"), "# done\n- 01-a.spec.md\n02-b.spec.md\n");
    let output = project.process().ok();
    assert_eq!(output.text(), "nothing to do\n");
    assert_eq!(project.runs().len(), 1);
}

/// RUN-02.
#[test]
fn a_spec_that_a_run_adds_waits_for_the_next_process() {
    let project = PipelineProject::with(
        "case $spec_file in *01*) echo '# B' >specs/02-b.spec.md;; *) touch second;; esac",
    );
    let output = project.spec("01-a", "# A\n").process().ok();
    assert!(
        !project.exists("second") && output.err.contains("1 spec appeared during this run"),
        "{}",
        output.err
    );
    project.process().ok();
    assert!(project.exists("second"));
    assert_eq!(project.tracker(), ["01-a.spec.md", "02-b.spec.md"]);
}

/// RUN-03.
#[test]
fn what_waits_in_the_inbox_comes_first_and_the_oldest_first() {
    let project = PipelineProject::with("echo \"${spec_file:-$message_id}\" >>order.txt");
    project.spec("01-a", "# A\n");
    project.message("2025010101010101-0", "younger\n").message("2024010101010100-0", "older\n");
    project.process().ok();
    assert_eq!(project.text("order.txt"), "2024010101010100-0\n2025010101010101-0\nspecs/01-a.spec.md\n");
}

/// RUN-03.
#[test]
fn a_spec_that_waits_in_the_inbox_is_not_taken_twice() {
    let project = PipelineProject::with(PICKY);
    project.spec("01-a", "# A\n").message("queued", "---\ninput_file: specs/01-a.spec.md\n---\n");
    project.process().ok();
    assert_eq!(order(&project), ["01-a.spec.md"]);
    assert_eq!(
        (project.done(), project.tracker()),
        (vec!["queued".to_owned()], vec!["01-a.spec.md".to_owned()])
    );
}

/// RUN-07.
#[test]
fn a_spec_that_fails_is_a_dead_letter_and_the_next_one_is_processed() {
    let project = PipelineProject::with(PICKY);
    project.config("max_retries: 0\n").spec("01-a", "# A\n").spec("02-bad", "# B\n").spec("03-c", "# C\n");
    let output = project.process().fails(1);
    assert_eq!(project.verdicts(), ["01-a: success", "02-bad: failed-reverted", "03-c: success"]);
    assert_eq!(order(&project), ["01-a.spec.md", "03-c.spec.md"], "what the failed one wrote is not there");
    assert_eq!((project.dead(), project.tracker()), (vec!["02-bad".to_owned()], order(&project)));
    let id = project.run_of("02-bad");
    assert_has(
        &output.text(),
        &["✓ 2 kept", "✗ 1 reverted", "02-bad failed 1 of 1 attempt (exit 4)", "the tree is reverted"],
    );
    assert_has(
        &output.text(),
        &[
            &format!("decree log {id}"),
            &format!("decree diff {id} --attempt 1"),
            &format!("decree retry {id}"),
        ],
    );
}

/// RUN-07.
#[test]
fn specs_that_cannot_be_read_are_dead_letters_with_their_reason_and_the_next_one_runs() {
    let project = PipelineProject::with(PICKY);
    project.write("specs/01-bytes.spec.md", b"# caf\xe9\n");
    project
        .spec("02-open", "---\nroutine: develop\n")
        .spec("03-who", "---\nroutine: nobody\n---\n")
        .spec("04-time", "---\ntimeout: soon\n---\n")
        .spec("05-good", "# ok\n");
    project.mkdir("specs/06-dir.spec.md");
    project.process().fails(1).mentions(&["specs/06-dir.spec.md", "it is a directory"]);
    assert_has(&project.dead_letter("01-bytes"), &["BadSpec", "specs/01-bytes.spec.md is not UTF-8"]);
    assert_has(&project.dead_letter("02-open"), &["BadSpec", "specs/02-open.spec.md:1:", "not closed"]);
    assert_has(&project.dead_letter("03-who"), &["RoutineNotFound", "nobody"]);
    assert_has(&project.dead_letter("04-time"), &["BadSpec", "specs/04-time.spec.md: timeout", "'soon'"]);
    assert_eq!(project.tracker(), ["05-good.spec.md"]);
    let summary = project.summary();
    for (message, letter) in summary["messages"].as_array().unwrap().iter().zip(project.dead()) {
        let verdict = message["verdict"].as_str();
        assert_eq!(
            field(&project.dead_letter(&letter), "verdict"),
            verdict,
            "a verdict is the same everywhere"
        );
    }
}

/// TRY-09.
#[test]
fn a_dead_lettered_spec_is_tried_again_in_a_new_chain_and_has_at_most_one_dead_letter() {
    let project = PipelineProject::with(PICKY);
    project.config("max_retries: 0\n").spec("01-bad", "# B\n");
    for round in 1..=3 {
        project.process().fails(1);
        assert_eq!(project.dead(), ["01-bad"], "round {round}");
        assert_eq!(project.runs().len(), round, "a new chain each time");
    }
    let runs = project.runs();
    assert!(project.dead_letter("01-bad").contains(&runs[2]));
    for id in &runs[..2] {
        assert_has(&project.of_run(id, "dead-letter.md"), &["error: exit 4", id]);
    }
    project.routine("develop", WORKS).process().ok();
    assert_eq!((project.dead(), project.tracker()), (vec![], vec!["01-bad.spec.md".to_owned()]));
}

/// TRY-09.
#[test]
fn a_spec_that_cannot_be_read_has_at_most_one_dead_letter_too() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "---\nroutine: nobody\n---\n");
    project.process().fails(1);
    project.process().fails(1);
    assert_eq!(project.dead(), ["01-a"]);
    project.spec("01-a", "# repaired\n").process().ok();
    assert_eq!((project.dead().len(), project.tracker().len()), (0, 1));
}

/// RUN-01.
#[test]
fn nothing_to_do_is_no_failure_and_changes_nothing() {
    let project = PipelineProject::with(WORKS);
    let before = project.snapshot();
    let output = project.process().ok();
    assert_eq!(output.text(), "nothing to do\n");
    assert_same(&project.snapshot(), &before);
    assert_eq!(project.summary()["messages"], serde_json::json!([]));
}

/// RUN-01.
#[test]
fn outside_of_a_project_nothing_is_processed() {
    let bare = crate::harness::Project::bare();
    bare.decree(["process"]).fails(3).mentions(&["not in a decree project", "decree init"]);
    bare.decree(["run", "-p", "x"]).fails(3);
}

/// RUN-01.
#[test]
fn a_mistake_in_the_config_is_reported_before_anything_is_done() {
    let project = PipelineProject::with(WORKS);
    project.config("max_retries: 1\nmax_retrys: 3\n").spec("01-a", "# A\n");
    project.process().fails(3).mentions(&["config.yml:2", "max_retrys", "max_retries"]);
    assert!(project.runs().is_empty() && project.inbox().is_empty());
}
