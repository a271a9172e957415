//! Dead letters, and `decree retry`.

use std::fs;

use super::pipeline_project::{PipelineProject, WORKS, WRECKS, assert_has, field};
use crate::harness::assert_same;

/// A project with two dead letters; the routine would succeed now.
fn project_with_two_dead_letters() -> PipelineProject {
    let project = PipelineProject::with("exit 2");
    project
        .config("max_retries: 0\n")
        .message("2025010101010100-0", "one\n")
        .message("two", "---\nid: 2025010101010101-0\n---\nsecond\n");
    project.process().fails(1);
    assert_eq!(project.dead(), ["2025010101010100-0", "two"]);
    project.routine("develop", WORKS);
    project
}

/// TRY-08.
#[test]
fn a_dead_letter_that_is_moved_back_to_the_inbox_is_processed_again_and_its_earlier_run_is_kept() {
    let project = PipelineProject::with(WRECKS);
    project.config("max_retries: 1\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = project.only_run();
    let (diff, log) = (project.of_run(&id, "changes.diff"), project.of_run(&id, "routine.log"));
    for round in 2..=3 {
        fs::rename(project.path(".decree/inbox/dead/x.md"), project.path(".decree/inbox/x.md")).unwrap();
        if round == 3 {
            project.routine("develop", WORKS);
        }
        let before = project.snapshot();
        assert_eq!(project.process().code, if round == 3 { 0 } else { 1 });
        assert_eq!(project.runs(), [id.as_str()], "the same message, the same run");
        if round == 2 {
            assert_same(&project.snapshot(), &before);
        }
    }
    for k in [1, 2] {
        assert_eq!(project.of_run(&id, &format!("previous/{k}/changes.diff")), diff);
        assert_eq!(project.of_run(&id, &format!("previous/{k}/routine.log")), log);
        for file in
            ["manifest.json", "message.md", "result.json", "failure-context.md", "attempts/2/routine.log"]
        {
            assert!(project.run_has(&id, &format!("previous/{k}/{file}")), "previous/{k}/{file}");
        }
    }
    assert_eq!((project.done(), project.dead()), (vec!["x".to_owned()], vec![]));
    let done = project.text(".decree/inbox/done/x.md");
    assert!(!done.contains("error:") && field(&done, "id") == Some(&id), "{done}");
    assert!(!project.run_has(&id, "failure-context.md"), "what is of the earlier run is not of this one");
}

/// TRY-08.
#[test]
fn retry_puts_a_dead_letter_back_by_its_id_its_name_or_the_beginning_of_one() {
    for (wanted, name) in [
        ("2025010101010101-0", "two"),
        ("two", "two"),
        ("tw", "two"),
        ("2025010101010101", "two"),
        ("2025010101010100-0", "2025010101010100-0"),
    ] {
        let project = project_with_two_dead_letters();
        project.decree(["retry", wanted]).ok().mentions(&["waits in the inbox", "decree process"]);
        assert_eq!((project.inbox(), project.dead().len()), (vec![name.to_owned()], 1), "{wanted}");
    }
}

/// TRY-08.
#[test]
fn retry_puts_all_of_them_back_and_the_next_process_takes_them_first() {
    let project = project_with_two_dead_letters();
    project.spec("01-a", "# A\n").decree(["retry", "--all"]).ok();
    assert_eq!((project.inbox().len(), project.dead().len()), (2, 0));
    project.process().ok();
    assert_eq!(
        project.text("work.txt"),
        "done 2025010101010100-0\ndone 2025010101010101-0\ndone specs/01-a.spec.md\n"
    );
    assert!(project.run_has("2025010101010101-0", "previous/1/result.json"));
    project.decree(["retry", "--all"]).ok().mentions(&["there are no dead letters"]);
}

/// TRY-11.
#[test]
fn retry_of_what_is_ambiguous_or_not_there_moves_nothing() {
    let project = project_with_two_dead_letters();
    project.decree(["retry", "2025"]).fails(3).mentions(&["'2025' is ambiguous", "two  2025010101010101-0"]);
    project
        .decree(["retry", "nope"])
        .fails(3)
        .mentions(&["no dead letter has the id or name 'nope'", "decree status"]);
    project.decree(["retry", "two", "nope"]).fails(3);
    project.decree(["retry"]).fails(2);
    assert_eq!((project.inbox().len(), project.dead().len()), (0, 2));
}

/// TRY-08.
#[test]
fn naming_a_dead_letter_twice_moves_it_once() {
    let project = project_with_two_dead_letters();
    project.decree(["retry", "two", "tw"]).ok();
    assert_eq!((project.inbox(), project.dead().len()), (vec!["two".to_owned()], 1));
}

/// TRY-08, TRY-09.
#[test]
fn a_retried_spec_is_processed_once_and_then_on_the_tracker() {
    let project = PipelineProject::with("exit 2");
    project.config("max_retries: 0\n").spec("01-a", "# A\n").process().fails(1);
    let id = project.only_run();
    project.decree(["retry", "01-a"]).ok();
    project.routine("develop", WORKS).process().ok();
    assert_eq!(project.runs(), [id], "in its old chain, and not in a new one besides");
    assert_eq!(project.text("work.txt"), "done specs/01-a.spec.md\n");
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
}

/// MSG-09.
#[test]
fn a_dead_letter_does_not_take_the_place_of_another() {
    let project = PipelineProject::with("exit 2");
    project.config("max_retries: 0\n");
    project.write(".decree/inbox/dead/job.md", "an old one\n");
    project.message("job", "a new one\n").process().fails(1);
    assert_eq!(project.dead(), ["job", "job-2"]);
    assert_eq!(project.dead_letter("job"), "an old one\n");
    assert_has(&project.dead_letter("job-2"), &["error: exit 2 (1 attempt)", "a new one"]);
}
