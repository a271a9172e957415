//! decree's own files while a routine changes or deletes them.

use super::pipeline_project::{PipelineProject, WORKS, assert_has};
use crate::harness::assert_same;

/// RUN-25.
#[test]
fn a_routines_edits_to_the_tracker_do_not_stick() {
    for edit in [
        "printf '02-b.spec.md\\n99-x.spec.md\\n' >>specs/processed-spec.md",
        "rm -f specs/processed-spec.md",
        "rm -rf specs/processed-spec.md; mkdir -p specs/processed-spec.md/x",
    ] {
        let project = PipelineProject::with(&format!(
            "case $spec_file in *01*) {edit};; esac; echo $spec_file >>order.txt"
        ));
        project
            .spec("00-done", "# x\n")
            .spec("01-a", "# A\n")
            .spec("02-b", "# B\n")
            .write("specs/processed-spec.md", "00-done.spec.md\n");
        let output = project.process();
        assert_has(&output.err, &["the routine changed specs/processed-spec.md; it was restored"]);
        assert_eq!(output.code, 0, "{edit}: {}", output.err);
        assert_eq!(project.tracker(), ["00-done.spec.md", "01-a.spec.md", "02-b.spec.md"], "{edit}");
        assert_eq!(project.text("order.txt"), "specs/01-a.spec.md\nspecs/02-b.spec.md\n");
    }
}

/// RUN-25.
#[test]
fn a_failing_routine_that_made_a_tracker_leaves_none() {
    let project = PipelineProject::with("echo 01-a.spec.md >specs/processed-spec.md; exit 1");
    project.config("max_retries: 1\n").spec("01-a", "# A\n");
    let before = project.snapshot();
    project.process().fails(1);
    assert_same(&project.snapshot(), &before);
}

/// RUN-25.
#[test]
fn a_routine_that_removes_all_of_decrees_own_does_not_take_the_checkpoint_with_it() {
    for (ending, code) in [("exit 1", 1), ("true", 0)] {
        let project = PipelineProject::with(&format!("rm -rf .decree docs notes.txt; {ending}"));
        project.config("max_retries: 1\n").spec("01-a", "# A\n").message("2030010101010100-0", "waits\n");
        let before = project.snapshot();
        let output = project.process_with(&["--spec", "01*"]).fails(code);
        assert_has(&output.err, &["of decree's own; restored"]);
        if code == 1 {
            assert_same(&project.snapshot(), &before);
            assert_has(&project.dead_letter("01-a"), &["error: exit 1"]);
        } else {
            assert!(!project.exists("docs") && !project.exists("notes.txt"));
            project.decree(["revert", &project.run_of("01-a")]).ok();
            project.remove("specs/processed-spec.md");
            assert_same(&project.snapshot(), &before);
        }
        assert_eq!(project.inbox(), ["2030010101010100-0"], "what waited still waits");
        assert_eq!(project.text(".decree/config.yml"), "max_retries: 1\n");
    }
}

/// RUN-25.
#[test]
fn edits_to_settings_and_routines_stay_and_are_named() {
    let project = PipelineProject::with(
        "echo '# better' >>.decree/routines/develop.sh; echo 'max_retries: 5' >.decree/config.yml; touch work",
    );
    project.config("max_retries: 0\n").spec("01-a", "# A\n");
    project.process().ok().mentions(&[
        ".decree/routines/develop.sh",
        ".decree/config.yml",
        "the routine changed .decree/config.yml, which is in no diff",
        ".decree/config.yml is kept as the routine changed it",
    ]);
    assert_eq!(project.text(".decree/config.yml"), "max_retries: 5\n");
}

/// RUN-25, RUN-20.
#[test]
fn a_routine_that_removes_its_own_log_and_message_has_them_afterwards() {
    let project = PipelineProject::with("echo before; rm -rf \"$message_dir\"; echo after; touch work");
    project.run(&["-m", "x", "-p", "y"]).ok();
    let id = project.only_run();
    assert_has(&project.of_run(&id, "routine.log"), &["before", "after"]);
    assert!(project.run_has(&id, "message.md") && project.run_has(&id, "manifest.json"));
    assert_eq!(project.done(), ["x"]);
}

/// RUN-25.
#[test]
fn what_is_in_decrees_directory_is_in_no_diff() {
    let project = PipelineProject::with(&format!("echo x >.decree/own.txt; {WORKS}"));
    project.run(&["-m", "x", "-p", "y"]).ok();
    let diff = project.of_run(&project.only_run(), "changes.diff");
    assert!(diff.contains("work.txt") && !diff.contains(".decree"), "{diff}");
}

/// SEE-34. Settings that a failed run changed are restored; nothing calls them kept before.
#[test]
fn settings_that_a_failed_run_changed_are_not_called_kept() {
    let project = PipelineProject::with("echo 'max_retries: 5' >.decree/config.yml; exit 1");
    project.config("max_retries: 1\n").spec("01-a", "# A\n");
    let output = project.process().fails(1).mentions(&[
        "the routine changed .decree/config.yml, which is in no diff",
        ".decree/config.yml was restored; the routine's version is in",
    ]);
    assert!(!output.err.contains("kept\n") && !output.err.contains("is kept"), "{}", output.err);
    assert_eq!(project.text(".decree/config.yml"), "max_retries: 1\n");
}

/// SEE-34. A config that a routine deletes is restored, and named.
#[test]
fn a_config_that_a_routine_deletes_is_restored_and_named() {
    let project = PipelineProject::with("rm .decree/config.yml; echo x >work.txt");
    project.config("verify: 'true'\n").spec("01-a", "# A\n");
    project.process().ok().mentions(&[
        "the routine removed or replaced 1 file of decree's own; restored: .decree/config.yml\n",
    ]);
    assert_eq!(project.text(".decree/config.yml"), "verify: 'true'\n");
}

/// SEE-39. The directory of a message that never ran has no records that a routine could have deleted.
#[test]
fn the_dead_letter_of_a_spec_that_never_ran_is_not_called_a_deleted_run() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "---\nroutine: nowhere\n---\n# A\n").process().fails(1);
    project.spec("01-a", "# A\n");
    let output = project.process().ok();
    assert_eq!(project.runs().len(), 2, "the dead letter is with its id");
    assert!(!output.err.contains("warning"), "{}", output.err);
    assert_eq!(project.result(&project.run_of("01-a"))["warnings"], serde_json::json!([]));
}
