//! decree's own files, while a routine has the run of the place.

use super::workshop::{PipelineProject, WORKS, assert_has};
use crate::harness::assert_same;

/// RUN-25.
#[test]
fn a_routines_edits_to_the_tracker_do_not_stick() {
    for edit in [
        "printf '02-b.spec.md\\n99-x.spec.md\\n' >>specs/processed-spec.md",
        "rm -f specs/processed-spec.md",
        "rm -rf specs/processed-spec.md; mkdir -p specs/processed-spec.md/x",
    ] {
        let shop = PipelineProject::with(&format!(
            "case $spec_file in *01*) {edit};; esac; echo $spec_file >>order.txt"
        ));
        shop.spec("00-done", "# x\n")
            .spec("01-a", "# A\n")
            .spec("02-b", "# B\n")
            .write("specs/processed-spec.md", "00-done.spec.md\n");
        let said = shop.process();
        assert_has(&said.err, &["the routine changed specs/processed-spec.md; it was restored"]);
        assert_eq!(said.code, 0, "{edit}: {}", said.err);
        assert_eq!(shop.tracker(), ["00-done.spec.md", "01-a.spec.md", "02-b.spec.md"], "{edit}");
        assert_eq!(shop.text("order.txt"), "specs/01-a.spec.md\nspecs/02-b.spec.md\n");
    }
}

/// RUN-25.
#[test]
fn a_failing_routine_that_made_a_tracker_leaves_none() {
    let shop = PipelineProject::with("echo 01-a.spec.md >specs/processed-spec.md; exit 1");
    shop.config("max_retries: 1\n").spec("01-a", "# A\n");
    let before = shop.snapshot();
    shop.process().fails(1);
    assert_same(&shop.snapshot(), &before);
}

/// RUN-25.
#[test]
fn a_routine_that_removes_all_of_decrees_own_does_not_take_the_checkpoint_with_it() {
    for (ending, code) in [("exit 1", 1), ("true", 0)] {
        let shop = PipelineProject::with(&format!("rm -rf .decree docs notes.txt; {ending}"));
        shop.config("max_retries: 1\n").spec("01-a", "# A\n").message("2030010101010100-0", "waits\n");
        let before = shop.snapshot();
        let said = shop.process_with(&["--spec", "01*"]).fails(code);
        assert_has(&said.err, &["of decree's own; they were restored"]);
        if code == 1 {
            assert_same(&shop.snapshot(), &before);
            assert_has(&shop.dead_letter("01-a"), &["error: exit 1"]);
        } else {
            assert!(!shop.exists("docs") && !shop.exists("notes.txt"));
            shop.decree(["revert", &shop.run_of("01-a")]).ok();
            shop.remove("specs/processed-spec.md");
            assert_same(&shop.snapshot(), &before);
        }
        assert_eq!(shop.inbox(), ["2030010101010100-0"], "what waited still waits");
        assert_eq!(shop.text(".decree/config.yml"), "max_retries: 1\n");
    }
}

/// RUN-25.
#[test]
fn edits_to_settings_and_routines_stay_and_are_named() {
    let shop = PipelineProject::with(
        "echo '# better' >>.decree/routines/develop.sh; echo 'max_retries: 5' >.decree/config.yml; touch work",
    );
    shop.config("max_retries: 0\n").spec("01-a", "# A\n");
    shop.process().ok().mentions(&[
        ".decree/routines/develop.sh",
        ".decree/config.yml",
        "that is in no diff and stays",
    ]);
    assert_eq!(shop.text(".decree/config.yml"), "max_retries: 5\n");
}

/// RUN-25, RUN-20.
#[test]
fn a_routine_that_removes_its_own_log_and_message_has_them_afterwards() {
    let shop = PipelineProject::with("echo before; rm -rf \"$message_dir\"; echo after; touch work");
    shop.run(&["-m", "x", "-p", "y"]).ok();
    let id = shop.only_run();
    assert_has(&shop.of_run(&id, "routine.log"), &["before", "after"]);
    assert!(shop.run_has(&id, "message.md") && shop.run_has(&id, "manifest.json"));
    assert_eq!(shop.done(), ["x"]);
}

/// RUN-25.
#[test]
fn what_is_in_decrees_directory_is_in_no_diff() {
    let shop = PipelineProject::with(&format!("echo x >.decree/own.txt; {WORKS}"));
    shop.run(&["-m", "x", "-p", "y"]).ok();
    let diff = shop.of_run(&shop.only_run(), "changes.diff");
    assert!(diff.contains("work.txt") && !diff.contains(".decree"), "{diff}");
}
