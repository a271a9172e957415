//! Parameters: what a routine declares, what a message sets, and what neither can set.

use super::pipeline_project::{PipelineProject, assert_has, field};

const REVIEW: &str = r#"#!/usr/bin/env bash
# Reviews a branch.
set -euo pipefail
target_branch="${target_branch:-main}"
reviewer="${reviewer:-nobody}"
depth="${depth:-3}"
echo "[$target_branch] [$reviewer] [$depth] [${undeclared:-unset}] [${late:-unset}]"
late="${late:-x}"
"#;

fn run_command(fields: &[&str]) -> (PipelineProject, String) {
    let project = PipelineProject::new();
    project.routine("pr-review", REVIEW);
    let pairs = fields.iter().flat_map(|pair| ["-v", pair]);
    let args: Vec<&str> = ["-p", "review", "-v", "routine=pr-review"].into_iter().chain(pairs).collect();
    project.run(&args).ok();
    let log = project.of_run(&project.only_run(), "routine.log");
    (project, log)
}

/// MSG-05, MSG-16.
#[test]
fn pairs_appear_in_the_message_and_are_passed_to_the_routine_as_parameters() {
    let (project, log) = run_command(&["target_branch=release/2", "reviewer=alice and bob"]);
    assert_eq!(log, "[release/2] [alice and bob] [3] [unset] [unset]\n");
    let message = project.of_run(&project.only_run(), "message.md");
    assert_eq!(field(&message, "target_branch"), Some("release/2"));
    assert_eq!(field(&message, "reviewer"), Some("alice and bob"));
}

/// MSG-16.
#[test]
fn a_missing_parameter_has_the_routines_default_without_a_prompt() {
    let (_, log) = run_command(&[]);
    assert_eq!(log, "[main] [nobody] [3] [unset] [unset]\n");
}

/// MSG-16.
#[test]
fn a_field_that_the_routine_does_not_declare_at_its_top_is_not_passed() {
    let (project, log) = run_command(&["undeclared=x", "late=y"]);
    assert_eq!(log, "[main] [nobody] [3] [unset] [unset]\n");
    assert_has(&project.of_run(&project.only_run(), "message.md"), &["undeclared: x", "late: y"]);
}

/// MSG-16.
#[test]
fn values_are_passed_as_they_are_written() {
    let project = PipelineProject::with(
        "a=\"${a:-}\"\nb=\"${b:-dflt}\"\nc=\"${c:-}\"\nd=\"${d:-}\"\necho \"[$a] [$b] [$c] [$d]\"\n",
    );
    project.message("x", "---\na: 1.10\nb: \"\"\nc: true\nd: |\n  two\n  lines\n---\n");
    project.process().ok();
    let log = project.of_run(&project.only_run(), "routine.log");
    assert_eq!(log, "[1.10] [dflt] [true] [two\nlines\n]\n", "an empty text is what `:-` replaces");
}

/// MSG-17.
#[test]
fn a_message_does_not_decide_what_runs() {
    let project = PipelineProject::with(
        "PATH=\"${PATH:-}\"\nLD_PRELOAD=\"${LD_PRELOAD:-}\"\nDECREE_ATTEMPT=\"${DECREE_ATTEMPT:-}\"\nmessage_dir=\"${message_dir:-}\"\necho \"[$PATH] [$LD_PRELOAD] [$DECREE_ATTEMPT]\"\n[ -d \"$message_dir\" ]\n",
    );
    project.message(
        "x",
        "---\nPATH: /evil\nLD_PRELOAD: /evil.so\nDECREE_ATTEMPT: 99\nmessage_dir: /evil\n---\n",
    );
    project.process().ok().mentions(&["a message cannot set PATH", "a message cannot set LD_PRELOAD"]);
    let log = project.of_run(&project.only_run(), "routine.log");
    assert!(!log.contains("evil") && log.ends_with("[] [1]\n"), "{log}");
}
