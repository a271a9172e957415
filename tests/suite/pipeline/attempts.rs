//! Retries: what is in the tree when each attempt begins, and what is left when the last has failed.

use std::time::Instant;

use super::pipeline_project::{PipelineProject, WRECKS, assert_has};
use crate::harness::assert_same;

/// Writes down what it finds, adds a line, and fails until the given attempt.
fn until(attempt: u32) -> String {
    format!(
        "cat trail.txt >\"$message_dir/found-$DECREE_ATTEMPT\" 2>/dev/null\n\
         [ -f \"$message_dir/failure-context.md\" ] && echo context >>\"$message_dir/found-$DECREE_ATTEMPT\"\n\
         echo \"$DECREE_ATTEMPT\" >>trail.txt; echo \"said in $DECREE_ATTEMPT\"\n[ $DECREE_ATTEMPT -ge {attempt} ]"
    )
}

/// What each attempt found.
fn found(project: &PipelineProject) -> Vec<String> {
    let id = project.only_run();
    let attempts = project.names(&format!(".decree/runs/{id}/attempts"));
    attempts.iter().map(|n| project.of_run(&id, &format!("found-{n}")).replace('\n', " ")).collect()
}

/// TRY-01.
#[test]
fn after_a_failed_attempt_that_is_not_the_last_retry_the_changes_stay_and_the_routine_runs_again() {
    let project = PipelineProject::with(&until(2));
    project.run(&["-m", "x", "-p", "y"]).ok();
    assert_eq!(found(&project), ["", "1 "]);
    let id = project.only_run();
    assert_has(&project.of_run(&id, "attempts/1/changes.diff"), &["+++ b/trail.txt", "\n+1\n"]);
    assert_eq!(project.of_run(&id, "attempts/1/routine.log"), "said in 1\n");
    assert!(!project.run_has(&id, "failure-context.md"), "nothing was reverted");
    assert_eq!(project.text("trail.txt"), "1\n2\n");
}

/// TRY-02.
#[test]
fn after_the_last_retry_failed_the_tree_is_reverted_and_the_routine_runs_on_a_clean_slate_with_the_context() {
    let project = PipelineProject::with(&until(4));
    project.run(&["-m", "x", "-p", "y"]).ok();
    assert_eq!(found(&project), ["", "1 ", "1 2 ", "context "]);
    assert_eq!(project.text("trail.txt"), "4\n", "nothing is left of what failed");
    let result = project.result(&project.only_run());
    let slates: Vec<_> =
        result["attempts"].as_array().unwrap().iter().map(|a| a["clean_slate"] == true).collect();
    assert_eq!(slates, [false, false, false, true]);
}

/// TRY-03.
#[test]
fn when_the_final_attempt_fails_every_byte_is_reverted_and_all_artifacts_stay() {
    let project = PipelineProject::with(WRECKS);
    let before = project.snapshot();
    let output = project.run(&["-m", "x", "-p", "y"]).fails(1);
    assert_same(&project.snapshot(), &before);
    assert_eq!((project.inbox(), project.done(), project.dead()), (vec![], vec![], vec!["x".to_owned()]));
    let letter = project.dead_letter("x");
    assert_has(&letter, &["error: exit 3 (4 attempts)", "verdict: failed-reverted"]);
    assert!(letter.ends_with("---\ny\n"), "{letter}");
    let id = project.only_run();
    for attempt in 1..=4 {
        let diff = project.of_run(&id, &format!("attempts/{attempt}/changes.diff"));
        assert_has(
            &diff,
            &["docs/guide.md", "new/deep/blob.bin", "tool.sh", "attempt 1", "notes-link"]
                .map(|part| if part == "attempt 1" && attempt == 4 { "attempt 4" } else { part }),
        );
        assert_has(
            &project.of_run(&id, &format!("attempts/{attempt}/routine.log")),
            &["error: nothing works here"],
        );
    }
    assert_eq!(project.of_run(&id, "changes.diff"), project.of_run(&id, "attempts/4/changes.diff"));
    assert_eq!(project.of_run(&id, "routine.log"), project.of_run(&id, "attempts/4/routine.log"));
    let result = project.result(&id);
    assert_eq!((&result["status"], &result["kept"]), (&"failed-reverted".into(), &false.into()));
    assert_eq!(result["put_back"]["verified"], 5, "files in the tree: {}", result["put_back"]);
    assert_has(&output.text(), &["x failed 4 of 4 attempts (exit 3)", "nothing works here (clean slate)"]);
}

/// TRY-04.
#[test]
fn no_retries_are_one_attempt() {
    let project = PipelineProject::with(&until(9));
    project.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    assert_eq!(found(&project), [""]);
    assert!(!project.exists("trail.txt") && !project.run_has(&project.only_run(), "failure-context.md"));
}

/// TRY-04.
#[test]
fn one_retry_is_on_a_clean_slate() {
    let project = PipelineProject::with(&until(9));
    project.config("max_retries: 1\n").run(&["-m", "x", "-p", "y"]).fails(1);
    assert_eq!(found(&project), ["", "context "]);
    assert!(!project.exists("trail.txt"));
}

/// TRY-04.
#[test]
fn three_retries_are_four_attempts_and_the_flag_outranks_the_config() {
    let project = PipelineProject::with(&until(9));
    project.run(&["-m", "x", "-p", "y"]).fails(1);
    assert_eq!(found(&project), ["", "1 ", "1 2 ", "context "]);
    assert!(!project.exists("trail.txt"));

    let project = PipelineProject::with(&until(9));
    project.config("max_retries: 7\n").spec("01-a", "# A\n").process_with(&["--max-retries", "2"]).fails(1);
    assert_eq!(found(&project), ["", "1 ", "context "]);
}

/// TRY-05.
#[test]
fn the_failure_context_reports_of_each_attempt_how_it_ended_and_what_it_had_changed() {
    let project = PipelineProject::with(
        "case $DECREE_ATTEMPT in\n1) echo one >>notes.txt; echo 'first: ```oops```'; exit 5;;\n2) rm image.bin; kill -TERM $$;;\n3) git --version >/dev/null 2>&1; touch late;;\n4) cp \"$message_dir/failure-context.md\" learned.md;;\nesac",
    );
    project.config("verify: '[ ! -f late ]'\n").run(&["-m", "x", "-p", "y"]).ok();
    let id = project.only_run();
    let context = project.of_run(&id, "failure-context.md");
    assert_eq!(project.text("learned.md"), context);
    assert_has(
        &context,
        &[
            "3 attempts failed",
            "Attempt 1: exit 5",
            "exit code 5",
            "- took ",
            "notes.txt +1 −0",
            "first: ```oops```",
            "````text",
        ],
    );
    assert_has(
        &context,
        &[
            "Attempt 2: signal 15",
            "image.bin (binary)",
            "Attempt 3: verify: `[ ! -f late ]` exited 1",
            "late +0 −0",
        ],
    );
    for attempt in 1..=3 {
        assert_has(
            &context,
            &[
                &format!(".decree/runs/{id}/attempts/{attempt}/changes.diff"),
                &format!("attempts/{attempt}/routine.log"),
            ],
        );
    }
    assert_eq!(context.matches("## Attempt").count(), 3);
}

/// TRY-06.
#[test]
fn the_diff_of_a_kept_run_is_everything_since_its_checkpoint() {
    let project = PipelineProject::with(&WRECKS.replace("exit 3", "[ $DECREE_ATTEMPT = 2 ]"));
    let before = project.snapshot();
    project.run(&["-m", "x", "-p", "y"]).ok();
    let after = project.snapshot();
    let id = project.only_run();
    assert_has(&project.of_run(&id, "changes.diff"), &["+attempt 1\n+attempt 2\n", "docs/guide.md"]);
    assert_has(&project.of_run(&id, "attempts/1/changes.diff"), &["+attempt 1\n"]);
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &before);
    project.decree(["apply", &id]).ok();
    assert_same(&project.snapshot(), &after);
}

/// TRY-10.
#[test]
fn attempts_wait_for_the_retry_delay() {
    let project = PipelineProject::with("exit 1");
    project.config("retry_delay: 400ms\nmax_retries: 1\n");
    let began = Instant::now();
    project.run(&["-m", "x", "-p", "y"]).fails(1).mentions(&["waiting 0.", "before the next attempt"]);
    assert!(began.elapsed().as_millis() >= 300, "at most a quarter is taken off");
}

/// TRY-13.
#[test]
fn a_command_that_is_missing_or_not_executable_is_not_retried() {
    for (script, code, why) in [
        (
            "echo x >>work.txt\nno-such-command --flag\n",
            127,
            "exit 127 (a command was not found; not retried)",
        ),
        (
            "echo x >>work.txt\nexec ./notes.txt\n",
            126,
            "exit 126 (a command cannot be executed; not retried)",
        ),
    ] {
        let project = PipelineProject::with(script);
        let before = project.snapshot();
        project.run(&["-m", "x", "-p", "y"]).fails(1);
        assert_same(&project.snapshot(), &before);
        let result = project.result(&project.only_run());
        assert_eq!(result["attempts"].as_array().unwrap().len(), 1, "{result}");
        assert_eq!((&result["attempts"][0]["exit_code"], &result["reason"]), (&code.into(), &why.into()));
        assert_eq!(result["status"], "failed-reverted");
        assert_has(&project.dead_letter("x"), &[&format!("error: {why} (1 attempt)")]);
    }
}

/// TRY-13.
#[test]
fn a_verification_that_is_not_found_is_retried_because_the_routine_may_write_it() {
    let project =
        PipelineProject::with("[ \"$DECREE_ATTEMPT\" = 1 ] || echo exit 0 >check.sh\necho x >work.txt\n");
    project.config("verify: bash ./check.sh\nmax_retries: 1\n").run(&["-m", "x", "-p", "y"]).ok();
    assert_eq!(project.result(&project.only_run())["attempts"][0]["exit_code"], 127);
}

/// TRY-30. A program that is not installed does not appear between two attempts; a file of the project may.
#[test]
fn a_verification_by_a_program_that_is_not_installed_is_not_retried() {
    for verify in ["no-such-checker --all", "  no-such-checker", "A=1 no-such-checker"] {
        let project = PipelineProject::with("echo x >>work.txt\n");
        let before = project.snapshot();
        project.config(&format!("verify: '{verify}'\n")).run(&["-m", "x", "-p", "y"]).fails(1);
        assert_same(&project.snapshot(), &before);
        let result = project.result(&project.only_run());
        assert_eq!(result["attempts"].as_array().unwrap().len(), 1, "{verify}: {result}");
        let why = format!("verify: `{verify}` exited 127 (no-such-checker is not installed; not retried)");
        assert_eq!((&result["attempts"][0]["exit_code"], &result["reason"]), (&127.into(), &why.into()));
    }
    // It is there and must be made executable: the routine can do that.
    let project = PipelineProject::with(
        "[ \"$DECREE_ATTEMPT\" = 1 ] && echo true >check.sh || chmod +x check.sh\necho x >>work.txt\n",
    );
    project.config("verify: ./check.sh\nmax_retries: 2\n").run(&["-m", "x", "-p", "y"]).ok();
    assert_eq!(project.result(&project.only_run())["attempts"][0]["exit_code"], 126);
}
