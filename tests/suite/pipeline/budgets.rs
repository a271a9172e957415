//! Budgets, and the usage that routines report.

use super::pipeline_project::{PipelineProject, assert_has};
use crate::harness::assert_same;

/// Fails, and says that it cost 40 cents.
const COSTS: &str = r#"
touch "junk-$DECREE_ATTEMPT"
echo '{"usd": 0.4, "input_tokens": 1000, "output_tokens": 50, "model": "any"}' >"$message_dir/usage.json"
case $spec_file in *good*) exit 0;; *) exit 1;; esac
"#;

/// RUN-18.
#[test]
fn usage_is_summed_up_over_attempts_and_messages() {
    let project = PipelineProject::with(COSTS);
    project.config("max_retries: 1\n").spec("01-good", "# A\n").spec("02-b", "# B\n");
    let output = project.process().fails(1);
    let result = project.result(&project.run_of("02-b"));
    assert_eq!(
        result["usage"],
        serde_json::json!({ "usd": 0.8, "input_tokens": 2000, "output_tokens": 100 })
    );
    assert_eq!(result["attempts"][1]["usage"]["usd"], 0.4);
    let usage = project.summary()["usage"].clone();
    assert!((usage["usd"].as_f64().unwrap() - 1.2).abs() < 1e-9, "{usage}");
    assert_eq!(usage["input_tokens"], 3000);
    assert_has(&output.text(), &["$1.20"]);
    let id = project.run_of("02-b");
    assert!(project.run_has(&id, "attempts/1/usage.json") && !project.run_has(&id, "usage.json"));
}

/// RUN-18.
#[test]
fn usage_that_makes_no_sense_is_left_out_with_a_warning() {
    for (text, why) in [
        ("", "it is not an object"),
        ("[]", "it is not an object"),
        ("lots", "it is not an object"),
        ("{\"usd\": -1}", "usd is not an amount"),
        ("{\"usd\": \"much\"}", "invalid type"),
    ] {
        let project =
            PipelineProject::with(&format!("touch work; printf '%s' '{text}' >\"$message_dir/usage.json\""));
        project.run(&["-m", "x", "-p", "y"]).ok().mentions(&["usage.json is ignored", why]);
        assert_eq!(project.summary()["usage"]["usd"], 0.0);
    }
}

/// RUN-19.
#[test]
fn money_that_is_spent_stops_new_attempts_and_the_tree_is_reverted() {
    let project = PipelineProject::with(COSTS);
    project.config("budget: { usd: 0.8 }\n").spec("01-a", "# A\n").spec("02-b", "# B\n");
    let before = project.snapshot();
    let output = project.process().fails(1);
    assert_same(&project.snapshot(), &before);
    assert_eq!(project.verdicts(), ["01-a: budget", "02-b: budget"]);
    let result = project.result(&project.only_run());
    assert_eq!(result["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(result["reason"], "the budget is used up: $0.80 of $0.80");
    assert_has(&project.dead_letter("01-a"), &["verdict: budget", "$0.80 of $0.80"]);
    assert_eq!(
        (project.dead(), project.inbox()),
        (vec!["01-a".to_owned()], vec![]),
        "what was not begun is simply pending"
    );
    assert_has(&output.text(), &["1 skipped", "02-b: the budget is used up: $0.80 of $0.80"]);
}

/// RUN-19.
#[test]
fn attempts_are_counted_over_all_messages() {
    let project = PipelineProject::with(COSTS);
    project
        .config("budget: { attempts: 3 }\n")
        .spec("01-good", "# A\n")
        .spec("02-b", "# B\n")
        .spec("03-good", "# C\n");
    project.process().fails(1);
    assert_eq!(project.verdicts(), ["01-good: success", "02-b: budget", "03-good: budget"]);
    assert_eq!(project.result(&project.run_of("02-b"))["reason"], "the budget is used up: 3 attempts");
    assert_eq!(project.tracker(), ["01-good.spec.md"]);

    let project = PipelineProject::with("exit 1");
    let output = project.config("budget: { attempts: 1 }\n").run(&["-m", "x", "-p", "y"]).fails(1);
    assert_has(&output.text(), &["x failed after 1 attempt (the budget is used up: 1 attempt)"]);
    assert_eq!(project.result(&project.only_run())["reason"], "the budget is used up: 1 attempt");
}

/// RUN-19.
#[test]
fn time_that_is_over_begins_no_attempt() {
    let project = PipelineProject::with("touch junk; sleep 1.1; exit 1");
    project
        .config("budget: { time: 1s }\n")
        .message("2025010101010100-0", "a\n")
        .message("2025010101010101-0", "b\n");
    project.process().fails(1);
    assert_eq!(project.result(&project.only_run())["reason"], "the budget is used up: 1.0s");
    assert_eq!(project.inbox(), ["2025010101010101-0"], "a message that was not begun waits on");
    assert!(!project.exists("junk"));
}

/// RUN-19.
#[test]
fn the_last_attempt_that_the_budget_allows_may_succeed() {
    let project = PipelineProject::with("touch work; [ $DECREE_ATTEMPT = 2 ]");
    project.config("budget: { attempts: 2 }\n").spec("01-a", "# A\n").process().ok();
    assert_eq!(project.verdicts(), ["01-a: success"]);
}
