//! Every message has an id that no other message has or had.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::pipeline_project::{PipelineProject, WORKS, assert_has, field};
use crate::harness::run_command;

/// UTC, as it begins the ids of chains that are begun then.
fn second_in_ids(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let args = ["-u", "-d", &format!("@{seconds}"), "+%Y%m%d%H%M%S"];
    run_command(Command::new("date").args(args)).ok().line()
}

/// Writes messages that have the first id of each of the next seconds, in files that are as old as their ids.
fn take_the_next_seconds(project: &PipelineProject, dir: &str) {
    let now = SystemTime::now();
    for seconds in 0..40 {
        let time = now + Duration::from_secs(seconds);
        let id = format!("{}00-0", second_in_ids(time));
        let text =
            format!("---\nid: {id}\nerror: 'RoutineNotFound: x'\nverdict: failed-reverted\n---\nold\n");
        let file = format!(".decree/inbox/{dir}old-{seconds}.md");
        project.write(&file, text);
        let file = fs::File::options().write(true).open(project.path(&file)).unwrap();
        file.set_modified(time).unwrap();
    }
}

/// MSG-21.
#[test]
fn the_id_of_a_dead_letter_without_a_run_is_not_given_out_again() {
    for dir in ["dead/", "done/"] {
        let project = PipelineProject::with(WORKS);
        take_the_next_seconds(&project, dir);
        project.run(&["-m", "new", "-p", "y"]).ok();
        let id = project.only_run();
        assert!(!id.contains("00-0") && id.ends_with("01-0"), "{dir}: {id}");
    }
}

/// MSG-21.
#[test]
fn messages_that_follow_each_other_at_once_have_different_ids_and_are_retried_under_their_own() {
    let project = PipelineProject::with(WORKS);
    for number in 0..4 {
        let name = format!("lost-{number}");
        project.run(&["-m", &name, "-p", "y", "-v", "routine=nope"]).fails(1);
    }
    project.run(&["-m", "good", "-p", "y"]).ok();
    let id_of = |file: &str| field(&project.text(file), "id").unwrap().to_owned();
    let lost: Vec<String> =
        (0..4).map(|number| id_of(&format!(".decree/inbox/dead/lost-{number}.md"))).collect();
    let mut all = [lost.clone(), vec![id_of(".decree/inbox/done/good.md")]].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5, "{all:?}");

    project.routine("nope", WORKS).decree(["retry", &lost[1]]).ok();
    assert_eq!(project.inbox(), ["lost-1"]);
    project.process().ok();
    assert_eq!(id_of(".decree/inbox/done/lost-1.md"), lost[1], "under its id, in its own chain");
    assert_eq!(project.runs().len(), 2);
}

/// MSG-21.
#[test]
fn a_message_by_hand_does_not_get_the_id_of_a_dead_letter_without_a_run() {
    let project = PipelineProject::with(WORKS);
    project.message("first", "---\nid: 2025010101010100-0\nroutine: nope\n---\nfirst\n").process().fails(1);
    project
        .message("2025010101010100-0", "by its file name\n")
        .message("second", "---\nid: 2025010101010100-0\n---\nanother with the same id\n");
    project.process().ok();
    assert_eq!(project.runs(), ["2025010101010100-1", "2025010101010100-2"]);

    project.routine("nope", WORKS).decree(["retry", "2025010101010100-0"]).ok();
    project.process().ok();
    assert_eq!(
        project.runs(),
        ["2025010101010100-0", "2025010101010100-1", "2025010101010100-2"],
        "the dead letter has kept its id"
    );
    assert_has(&project.text(".decree/inbox/done/first.md"), &["id: 2025010101010100-0", "first"]);
}

/// MSG-21.
#[test]
fn two_messages_with_the_same_id_become_dead_letters_with_different_ids() {
    let project = PipelineProject::with(WORKS);
    for name in ["a", "b"] {
        project.message(name, "---\nid: 2025010101010100-0\nroutine: nope\n---\nthe same text\n");
    }
    project.process().fails(1);
    let id = |name: &str| field(&project.dead_letter(name), "id").unwrap().to_owned();
    assert_eq!([id("a"), id("b")], ["2025010101010100-0", "2025010101010100-1"]);
    project.decree(["retry", "2025010101010100-0"]).ok();
    assert_eq!(project.inbox(), ["a"]);
}

/// MSG-21.
#[test]
fn a_spec_that_is_processed_again_leaves_the_id_of_its_dead_letter_in_use() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "---\nroutine: nope\n---\n# A\n").process().fails(1);
    let id = field(&project.dead_letter("01-a"), "id").unwrap().to_owned();
    project.spec("01-a", "# A\n").process().ok();
    assert!(project.run_has(&id, "dead-letter.md"), "the dead letter is in its own directory");
    project.message(&id, "by hand\n").process().ok();
    let (chain, _) = id.split_once('-').unwrap();
    assert!(project.run_has(&format!("{chain}-1"), "result.json"), "{:?}", project.runs());
}
