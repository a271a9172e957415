//! The flags of `process`, and its JSON answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use super::pipeline_project::{PipelineProject, WORKS, assert_has};
use crate::harness::assert_same;

fn project_with_specs(names: &[&str]) -> PipelineProject {
    let project = PipelineProject::with(
        "echo \"${spec_file##*/}\" >>order.txt; case $spec_file in *bad*) exit 4;; esac",
    );
    project.config("max_retries: 0\n");
    for name in names {
        project.spec(name, "# x\n");
    }
    project
}

/// Every file with its bytes and the time of its last change, `.decree/` too.
fn everything(dir: &Path, found: &mut BTreeMap<String, (SystemTime, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.path().symlink_metadata().unwrap();
        let bytes = fs::read(entry.path()).unwrap_or_default();
        found.insert(entry.path().display().to_string(), (metadata.modified().unwrap(), bytes));
        if metadata.is_dir() {
            everything(&entry.path(), found);
        }
    }
}

/// RUN-08.
#[test]
fn a_dry_run_reports_what_would_be_done_and_changes_nothing_at_all() {
    let project = project_with_specs(&["01-a", "02-b", "03-c"]);
    project.message("waiting", "x\n").write("specs/processed-spec.md", "02-b.spec.md\n");
    let look = || {
        let mut found = BTreeMap::new();
        everything(project.root(), &mut found);
        found
    };
    let before = look();
    let text = project.process_with(&["--dry-run"]).ok().text();
    assert_eq!(text, "message  waiting.md\nspec     specs/01-a.spec.md\nspec     specs/03-c.spec.md\n");
    let json: Value = serde_json::from_slice(
        &project.process_with(&["--dry-run", "--format", "json", "--limit", "1"]).ok().out,
    )
    .unwrap();
    assert_eq!(
        json,
        serde_json::json!({ "messages": ["waiting.md"], "specs": ["specs/01-a.spec.md"], "problems": [] })
    );
    project.process_with(&["--dry-run", "--spec", "9*"]).fails(3);
    assert!(look() == before, "something was written");
}

/// RUN-09.
#[test]
fn only_the_specs_that_match_are_processed() {
    for (globs, expected) in [
        (&["02-*"][..], "02-b.spec.md\n"),
        (&["specs/01-a.spec.md", "03-c"], "01-a.spec.md\n03-c.spec.md\n"),
        (&["0?-[bc]*"], "02-b.spec.md\n03-c.spec.md\n"),
    ] {
        let project = project_with_specs(&["01-a", "02-b", "03-c"]);
        let args: Vec<&str> = globs.iter().flat_map(|glob| ["--spec", glob]).collect();
        project.process_with(&args).ok();
        assert_eq!(project.text("order.txt"), expected, "{globs:?}");
    }
}

/// RUN-09.
#[test]
fn a_pattern_that_matches_no_spec_is_an_error_that_lists_them() {
    let project = project_with_specs(&["01-a", "02-b"]);
    project.process_with(&["--spec", "9-*"]).fails(3).mentions(&[
        "no spec matches '9-*'",
        "01-a.spec.md",
        "02-b.spec.md",
    ]);
    assert!(!project.exists("order.txt"));
}

/// RUN-09, RUN-03.
#[test]
fn a_selection_leaves_other_messages_where_they_are() {
    let project = project_with_specs(&["01-a", "02-b"]);
    project.message("task", "x\n").message("queued", "---\ninput_file: specs/02-b.spec.md\n---\n");
    project.process_with(&["--spec", "01*"]).ok();
    assert_eq!(
        (project.inbox(), project.tracker()),
        (vec!["queued".to_owned(), "task".to_owned()], vec!["01-a.spec.md".to_owned()])
    );
    project.process_with(&["--spec", "02*"]).ok();
    assert_eq!((project.inbox(), project.tracker().len()), (vec!["task".to_owned()], 2));
}

/// RUN-09.
#[test]
fn a_selected_spec_that_is_processed_already_is_nothing_to_do() {
    let project = project_with_specs(&["01-a"]);
    project.process().ok();
    assert_eq!(project.process_with(&["--spec", "01*"]).ok().text(), "nothing to do\n");
}

/// RUN-10.
#[test]
fn a_limit_is_kept_and_the_rest_is_for_the_next_time() {
    let project = project_with_specs(&["01-a", "02-bad", "03-c"]);
    project.process_with(&["--limit", "2"]).fails(1);
    assert_eq!(project.verdicts(), ["01-a: success", "02-bad: failed-reverted"]);
    project.process_with(&["--limit", "0"]).ok();
    project.process_with(&["--spec", "03*", "--limit", "5"]).ok();
    assert_eq!(project.tracker(), ["01-a.spec.md", "03-c.spec.md"]);
}

/// RUN-10.
#[test]
fn fail_fast_skips_everything_after_the_first_failure() {
    let project = project_with_specs(&["01-a", "02-bad", "03-c", "04-d"]);
    let text = project.process_with(&["--fail-fast"]).fails(1).text();
    assert_eq!(
        project.verdicts(),
        ["01-a: success", "02-bad: failed-reverted", "03-c: skipped", "04-d: skipped"]
    );
    assert_has(&text, &["2 skipped", "03-c: an earlier one failed"]);
    assert_eq!(
        (project.tracker(), project.dead()),
        (vec!["01-a.spec.md".to_owned()], vec!["02-bad".to_owned()])
    );
    assert_eq!(project.runs().len(), 2, "what was skipped left nothing behind");
}

/// RUN-11.
#[test]
fn the_answer_in_json_is_the_summary_and_nothing_else() {
    let project = project_with_specs(&["01-a", "02-bad"]);
    let output = project.process_with(&["--format", "json"]).fails(1);
    let answer: Value = serde_json::from_slice(&output.out).unwrap();
    assert_eq!(answer, project.summary());
    assert_eq!((&answer["version"], &answer["command"]), (&1.into(), &"process".into()));
    assert_eq!((&answer["kept"], &answer["put_back"], &answer["skipped"]), (&1.into(), &1.into(), &0.into()));
    let bad = &answer["messages"][1];
    assert_eq!(bad["spec"], "specs/02-bad.spec.md");
    assert_eq!(
        (&bad["verdict"], &bad["kept"], &bad["reason"]),
        (&"failed-reverted".into(), &false.into(), &"exit 4".into())
    );
    assert_eq!((&bad["attempts"][0]["exit_code"], &bad["attempts"][0]["number"]), (&4.into(), &1.into()));
    assert_eq!(bad["files"][0]["path"], "order.txt");
    assert_eq!(bad["put_back"]["paths"], 1);
    assert_eq!(bad["run_dir"], format!(".decree/runs/{}", project.run_of("02-bad")));

    let output = project.decree(["run", "-p", "x", "--format", "json"]).ok();
    let answer: Value = serde_json::from_slice(&output.out).unwrap();
    assert_eq!((&answer, &answer["command"]), (&project.summary(), &"run".into()));
}

/// RUN-11.
#[test]
fn quiet_leaves_only_the_answer() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n");
    let output = project.decree(["-q", "process", "--format", "json"]).ok();
    assert_eq!(output.err, "");
    assert_eq!(serde_json::from_slice::<Value>(&output.out).unwrap(), project.summary());
}

/// RUN-11.
#[test]
fn the_log_says_one_file_and_two_files() {
    let project = PipelineProject::with("touch a; [ $DECREE_ATTEMPT = 1 ] && exit 1; touch b");
    project.config("max_retries: 1\n").run(&["-m", "x", "-p", "y"]).ok().mentions(&[
        "+0 −0, 1 file\n",
        "+0 −0, 2 files\n",
        "reverted 1 path; ",
    ]);
}

/// CHK-09.
#[test]
fn another_running_decree_is_reported_without_waiting() {
    let project = PipelineProject::with("\"$decree\" process 2>inner.txt; echo $? >>inner.txt");
    let binary = env!("CARGO_BIN_EXE_decree");
    project.decree_with_env(&["run", "-p", "x"], &[("decree", binary)]).ok();
    assert_has(&project.text("inner.txt"), &["another decree", "\n5\n"]);
}

/// MSG-42. A message that cannot run is named like a spec that cannot.
#[test]
fn a_dry_run_names_messages_that_cannot_run() {
    let project = PipelineProject::with(WORKS);
    project
        .message("a-good", "x\n")
        .message("b-routine", "---\nroutine: nowhere\n---\nx\n")
        .message("c-broken", "---\nroutine: [\n---\nx\n")
        .message("d-verify", "---\nverify: x\n---\nx\n")
        .message("e-spec", "---\ninput_file: specs/none.spec.md\n---\nx\n")
        .message("f-timeout", "---\ntimeout: soon\n---\nx\n")
        .message("g-warned", "---\ncolour: red\n---\nx\n")
        .message("h-deep", "---\nchain: '2030010101010100'\nseq: 10\n---\nx\n");
    let (before, inbox) = (project.snapshot(), crate::harness::snapshot(&project.path(".decree")));
    let output =
        project.process_with(&["--dry-run"]).fails(1).mentions(&["g-warned.md:2: unknown key 'colour'"]);
    let text = output.text();
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(!line("a-good").contains("error") && !line("g-warned").contains("error"), "{text}");
    for (name, words) in [
        ("b-routine", "error: RoutineNotFound: "),
        ("c-broken", "error: BadMessage: "),
        ("d-verify", "'verify' is not a key of messages"),
        ("e-spec", "error: BadSpec: specs/none.spec.md cannot be read"),
        ("f-timeout", "f-timeout.md: timeout: "),
        ("h-deep", "error: MaxDepthExceeded: "),
    ] {
        assert!(line(name).contains(words), "{text}");
    }
    let output = project.process_with(&["--dry-run", "--format", "json"]).fails(1);
    let answer: serde_json::Value = serde_json::from_slice(&output.out).unwrap();
    assert_eq!(answer["messages"].as_array().unwrap().len(), 8);
    let problems = answer["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 7, "{answer}");
    assert_eq!(problems[0]["message"], "b-routine.md");
    assert!(problems[0]["error"].as_str().unwrap().starts_with("RoutineNotFound"), "{answer}");
    assert_same(&project.snapshot(), &before);
    assert_eq!(crate::harness::snapshot(&project.path(".decree")), inbox);
}
