//! Hooks: commands before and after the work.

use super::pipeline_project::{PipelineProject, WORKS, assert_has};
use crate::harness::assert_same;

fn hooks(before_all: &str, before_each: &str, after_each: &str, after_all: &str) -> String {
    format!(
        "max_retries: 0\nhooks:\n  before_all: {before_all:?}\n  before_each: {before_each:?}\n  after_each: {after_each:?}\n  after_all: {after_all:?}\n"
    )
}

/// RUN-17.
#[test]
fn each_hook_runs_when_its_name_says() {
    let project = PipelineProject::with(
        "echo \"routine $spec_file\" >>.decree/trail; case $spec_file in *bad*) exit 1;; esac; touch work-$seq",
    );
    project.config(&hooks(
        "echo \"$DECREE_HOOK\" >>.decree/trail",
        "echo \"$DECREE_HOOK $message_name $routine $spec_file\" >>.decree/trail",
        "echo \"$DECREE_HOOK $message_name $DECREE_VERDICT\" >>.decree/trail; ls \"$message_dir/result.json\"",
        "echo \"$DECREE_HOOK $DECREE_KEPT $DECREE_PUT_BACK $DECREE_SKIPPED\" >>.decree/trail",
    ));
    project.spec("01-a", "# A\n").spec("02-bad", "# B\n").process().fails(1);
    assert_eq!(
        project.text(".decree/trail"),
        "before_all\n\
         before_each 01-a develop specs/01-a.spec.md\nroutine specs/01-a.spec.md\nafter_each 01-a success\n\
         before_each 02-bad develop specs/02-bad.spec.md\nroutine specs/02-bad.spec.md\nafter_each 02-bad failed-reverted\n\
         after_all 1 1 0\n"
    );
}

/// RUN-17.
#[test]
fn a_failing_before_all_stops_everything() {
    let project = PipelineProject::with(WORKS);
    project
        .config(&hooks("echo no network; exit 6", "", "", "touch after"))
        .spec("01-a", "# A\n")
        .message("m", "x\n");
    let before = project.snapshot();
    project.process().fails(1).mentions(&[
        "hooks.before_all failed",
        "exit code 6",
        "no network",
        "nothing was processed",
    ]);
    assert_same(&project.snapshot(), &before);
    assert_eq!((project.inbox(), project.done(), project.dead()), (vec!["m".to_owned()], vec![], vec![]));
    project.run(&["-m", "x", "-p", "y"]).fails(1);
    assert_eq!(project.inbox(), ["m"], "not even the message is made");
    assert!(project.runs().is_empty(), "nor a directory for it");
}

/// RUN-17.
#[test]
fn a_failing_before_each_stops_its_message_and_no_other() {
    let project = PipelineProject::with(WORKS);
    project
        .config(&hooks("", "[ $message_name != 01-a ]", "", ""))
        .spec("01-a", "# A\n")
        .spec("02-b", "# B\n");
    project.process().fails(1);
    assert_eq!(project.verdicts(), ["01-a: skipped", "02-b: success"]);
    assert_has(&project.dead_letter("01-a"), &["hooks.before_each failed", "exit code 1"]);
    assert_eq!(project.text("work.txt"), "done specs/02-b.spec.md\n");
    assert_eq!(project.tracker(), ["02-b.spec.md"]);
}

/// RUN-17.
#[test]
fn a_failing_after_hook_is_reported_and_changes_nothing() {
    let project = PipelineProject::with(WORKS);
    project.config(&hooks("", "", "exit 3", "exit 4")).spec("01-a", "# A\n");
    project.process().ok().mentions(&[
        "hooks.after_each failed",
        "exit code 3",
        "hooks.after_all failed",
        "exit code 4",
    ]);
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
}

/// RUN-17.
#[test]
fn what_before_each_makes_is_no_part_of_the_run_and_stays_when_it_is_reverted() {
    let project = PipelineProject::with("echo more >>deps.txt; exit 1");
    project.config(&hooks("", "echo deps >deps.txt", "", "")).run(&["-m", "x", "-p", "y"]).fails(1);
    assert_eq!(project.text("deps.txt"), "deps\n");
}

/// RUN-17. Whatever of the store was read before the hook ran.
#[test]
fn content_that_before_each_deletes_from_the_store_is_stored_again() {
    let deletions = [
        "rm -rf .decree/store",
        "rm .decree/store/*.pack",
        "for pack in .decree/store/*.pack; do : >$pack; done",
        "for pack in .decree/store/*.pack; do printf x | dd of=$pack bs=1 seek=$(($(stat -c %s $pack) - 30)) conv=notrunc; done",
    ];
    for delete in deletions {
        let project = PipelineProject::with("rm -r notes.txt docs image.bin; exit 1");
        project.config(&hooks("", delete, "", "")).checkpoint();
        // The cache trusts no file that is as young as the clock's tick.
        std::thread::sleep(std::time::Duration::from_millis(30));
        project.checkpoint();
        let before = project.snapshot();
        project.run(&["-m", "x", "-p", "y"]).fails(1);
        assert_same(&project.snapshot(), &before);
        project.decree(["checkpoint", "verify", &project.only_run()]).ok();
    }
}
