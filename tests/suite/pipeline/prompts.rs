//! What the routines that `decree init` writes give to the AI command.

use super::pipeline_project::{PipelineProject, assert_has};

/// An AI command that keeps its prompt and its arguments, prints one very long line with escapes and fails, but for its last
/// attempt.
const FAKE_AI: &str = r#"
cat >"$message_dir/seen-$DECREE_ATTEMPT.txt"
printf '%s\n' "$#" "$@" >"$message_dir/arguments-$DECREE_ATTEMPT.txt"
if [ "$DECREE_ATTEMPT" = "$DECREE_MAX_ATTEMPTS" ]; then echo "worked" >made.txt; exit 0; fi
printf '\033[1;31mA\033[0m\033]0;title\007'
printf 'é%.0s' {1..150000}
printf '\033[31m the end of attempt %s\033[0m\n' "$DECREE_ATTEMPT"
exit 1
"#;

/// A project as `decree init` makes it, whose AI command is this one.
fn initialised(ai: &str, more: &str) -> PipelineProject {
    let project = PipelineProject::new();
    project.decree(["init", "--ai", "none"]).ok();
    project.write("fake-ai.sh", FAKE_AI);
    project.config(&format!("commands: {{ ai: '{ai}' }}\n{more}"));
    project
}

#[track_caller]
fn assert_plain(text: &str, limit: usize) {
    assert!(text.len() < limit, "{} bytes", text.len());
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{fffd}']), "no escape and no half character");
}

/// TRY-12.
#[test]
fn one_long_line_of_output_does_not_keep_the_next_attempts_from_starting() {
    let project = initialised("bash fake-ai.sh -x", "max_retries: 2\n");
    project.spec("01-a", "# The task\n").process().ok();
    let id = project.run_of("01-a");
    assert_eq!(project.text("made.txt"), "worked\n");
    assert!(project.of_run(&id, "attempts/1/routine.log").len() > 300_000);

    let first = project.of_run(&id, "seen-1.txt");
    assert_has(&first, &["The task is in specs/01-a.spec.md.", "input_file: specs/01-a.spec.md"]);
    assert_eq!(project.of_run(&id, "arguments-1.txt"), "1\n-x\n", "the prompt is no argument");
    let second = project.of_run(&id, "seen-2.txt");
    assert_has(&second, &["The end of its log:", "é the end of attempt 1"]);
    assert_plain(&second, 20_000);
    let third = project.of_run(&id, "seen-3.txt");
    assert_has(&third, &["2 attempts failed", "é the end of attempt 1", "é the end of attempt 2"]);
    assert_plain(&third, 40_000);
    assert_plain(&project.of_run(&id, "failure-context.md"), 40_000);
    assert_plain(&project.of_run(&id, "attempts/2/log-tail.txt"), 16 * 1024 + 1);
    assert_eq!(project.of_run(&id, "prompt.md"), third);
    assert!(!project.run_has(&id, "attempts/3/log-tail.txt"), "it did not fail");
}

/// TRY-12.
#[test]
fn many_attempts_do_not_make_the_failure_context_long() {
    let project = initialised("bash fake-ai.sh", "max_retries: 22\n");
    project.write("fake-ai.sh", FAKE_AI.replace("150000", "15000"));
    project.spec("01-a", "# The task\n").process().ok();
    let context = project.of_run(&project.run_of("01-a"), "failure-context.md");
    assert_plain(&context, 64 * 1024 + 1);
    assert_has(
        &context,
        &["22 attempts failed", "The first 2 are left out.", "## Attempt 3:", "## Attempt 22:"],
    );
    assert!(!context.contains("## Attempt 2:"));
}

/// TRY-31.
#[test]
fn the_end_of_a_long_line_is_kept_although_a_short_one_follows() {
    let reason = "ERROR: assertion failed in foo.py\"}";
    let project = PipelineProject::with(&format!(
        "printf 'x%.0s' {{1..20000}}; echo '{reason}'; echo 'Tests failed.'; exit 1\n"
    ));
    project.config("max_retries: 1\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = project.only_run();
    let tail = project.of_run(&id, "attempts/1/log-tail.txt");
    assert!(tail.starts_with("…x") && tail.ends_with(&format!("x{reason}\nTests failed.\n")), "{tail}");
    assert!(tail.len() <= 16 * 1024, "{} bytes", tail.len());
    assert_has(&project.of_run(&id, "failure-context.md"), &[&format!("x{reason}\nTests failed.\n")]);
}

/// TRY-31.
#[test]
fn the_failure_context_has_at_most_64_kib_whatever_the_attempts_printed_and_changed() {
    for line in ["printf 'é%.0s' {1..9000}; echo", "printf '`%.0s' {1..400}; echo; seq 3000"] {
        let project = PipelineProject::with(&format!(
            "for n in {{1..60}}; do touch \"$(printf 'n%.0s' {{1..150}})-$DECREE_ATTEMPT-$n\"; done\n{line}\necho the end; exit 1\n"
        ));
        project.config("max_retries: 25\nretry_delay: 0s\n").run(&["-m", "x", "-p", "y"]).fails(1);
        let context = project.of_run(&project.only_run(), "failure-context.md");
        assert!(context.len() <= 64 * 1024, "{} bytes", context.len());
        assert_has(&context, &["25 attempts failed", "The first 5 are left out.", "## Attempt 6:"]);
        assert_eq!(context.matches("the end\n").count(), 20, "each attempt has its last words");
    }
}

/// TRY-12.
#[test]
fn an_ai_command_can_take_the_prompt_from_a_file() {
    let project = initialised("bash by-file.sh --message-file={prompt_file} --yes", "max_retries: 0\n");
    project.write(
        "by-file.sh",
        "cp \"${1#--message-file=}\" seen.txt; cat >stdin.txt; echo \"$2\" >second.txt\n",
    );
    project.run(&["-m", "x", "-p", "Paint it blue"]).ok();
    assert_has(&project.text("seen.txt"), &["The message with the task:", "Paint it blue"]);
    assert_eq!((project.text("stdin.txt").as_str(), project.text("second.txt").as_str()), ("", "--yes\n"));
}

/// TRY-12.
#[test]
fn a_failing_check_is_retried_whatever_its_exit_code() {
    let project = initialised("bash fake-ai.sh", "max_retries: 1\n");
    project.write("fake-ai.sh", "echo \"$DECREE_ATTEMPT\" >made.txt\n");
    project
        .spec("01-a", "---\ncheck: test $(cat made.txt) = 2 || no-such-command\n---\n# A\n")
        .process()
        .ok();
    let attempts = &project.result(&project.run_of("01-a"))["attempts"];
    assert_eq!((&attempts[0]["exit_code"], &attempts[1]["exit_code"]), (&1.into(), &0.into()));
}
