//! `decree init`, and what `doctor` and `process --dry-run` find out before anything runs.

use std::process::Stdio;

use serde_json::Value;

use super::harness::{Project, wait_for};
use super::pipeline::pipeline_project::{PipelineProject, WORKS, assert_has};

fn routines(project: &Project) -> Vec<String> {
    let names = std::fs::read_dir(project.path(".decree/routines")).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// SEE-04.
#[test]
fn init_writes_the_routines_that_fit_the_project() {
    let project = Project::bare();
    project.write("main.py", "print()\n").decree(["init"]).ok();
    assert_eq!(routines(&project), ["develop.sh"]);

    let project = Project::bare();
    project.write("main.py", "print()\n").decree(["init", "--notebook"]).ok();
    assert_eq!(routines(&project), ["develop.ipynb", "develop.sh"]);

    let project = Project::bare();
    project.write("Cargo.toml", "[package]\n").decree(["init", "--notebook"]).ok();
    assert_eq!(routines(&project), ["develop.ipynb", "develop.sh", "rust-develop.ipynb", "rust-develop.sh"]);
    project.decree(["doctor"]);
}

/// A project with one good spec, one with a mistake, one with an unknown routine and one whose routine lacks a need.
fn with_broken_specs() -> PipelineProject {
    let project = PipelineProject::with(WORKS);
    project.routine("deploy", "# needs: no-such-program\n:\n");
    project
        .spec("01-good", "---\npriority: high\n---\n# A\n")
        .spec("02-typo", "---\nroutine: develop\nverfy: 'false'\n---\n# B\n")
        .spec("03-routine", "---\nroutine: devlop\n---\n# C\n")
        .spec("04-needs", "---\nroutine: deploy\n---\n# D\n")
        .spec("05-time", "---\ntimeout: soon\n---\n# E\n");
    project
}

const FOUND: [&str; 5] = [
    "specs/02-typo.spec.md:3: unknown key 'verfy'; did you mean 'verify'?",
    "RoutineNotFound: routine 'devlop' not found",
    "did you mean 'develop'?",
    "NeedsMissing: routine 'deploy' needs 'no-such-program', which is not on the PATH",
    "specs/05-time.spec.md: timeout",
];

/// SEE-05.
#[test]
fn doctor_reads_every_pending_spec_and_fails_if_one_cannot_run() {
    let project = with_broken_specs();
    let before = project.snapshot();
    let text = project.decree(["doctor"]).fails(1).text();
    assert_has(&text, &FOUND);
    assert_has(
        &text,
        &[
            "✓ specs        1 spec pending that can run",
            "✗ specs        specs/03-routine.spec.md: ",
            "! specs        specs/01-good.spec.md:2: unknown key 'priority'",
            "routines can run here; what is marked ✗ cannot until it is fixed",
        ],
    );
    let answer = project.decree(["doctor", "--format", "json"]).fails(1);
    let answer: Value = serde_json::from_slice(&answer.out).unwrap();
    assert_eq!(answer["ready"], false);
    crate::harness::assert_same(&project.snapshot(), &before);

    for name in ["02-typo", "03-routine", "04-needs", "05-time"] {
        project.remove(format!("specs/{name}.spec.md"));
    }
    assert_has(&project.decree(["doctor"]).ok().text(), &["1 spec pending", "routines can run here\n"]);
}

/// SEE-05.
#[test]
fn a_dry_run_reads_every_spec_that_it_lists() {
    let project = with_broken_specs();
    let output = project.process_with(&["--dry-run"]).fails(1).mentions(&["unknown key 'priority'"]);
    assert_has(&output.text(), &FOUND);
    assert!(
        output.text().lines().any(|line| line.trim_end().ends_with("specs/01-good.spec.md")),
        "{}",
        output.text()
    );
    let answer = project.process_with(&["--dry-run", "--format", "json"]).fails(1);
    let answer: Value = serde_json::from_slice(&answer.out).unwrap();
    assert_eq!(answer["specs"].as_array().unwrap().len(), 5);
    assert_eq!(answer["problems"].as_array().unwrap().len(), 5, "four errors and a warning: {answer}");
    assert_eq!(answer["problems"][1]["spec"], "specs/02-typo.spec.md");
    project.process_with(&["--dry-run", "--limit", "1"]).ok();
    assert!(project.runs().is_empty() && project.dead().is_empty());
}

/// SEE-37.
#[test]
fn doctor_reads_waiting_messages_and_the_config_as_it_is() {
    let project = PipelineProject::with(WORKS);
    let text = project.decree(["doctor"]).ok().text();
    assert_has(&text, &["config       none: every setting has its default"]);
    project.message("a-good", "x\n").decree(["doctor"]).ok();
    project.message("b-bad", "---\nroutine: nowhere\n---\nx\n");
    let text = project.decree(["doctor"]).fails(1).text();
    assert_has(
        &text,
        &[
            "✗ messages     b-bad.md: RoutineNotFound: ",
            "routines can run here; what is marked ✗ cannot until it is fixed",
        ],
    );
    assert_eq!(project.inbox(), ["a-good", "b-bad"]);
    project.decree(["init", "--ai", "none"]).ok();
    project.remove(".decree/config.yml").remove(".decree/inbox/b-bad.md");
    let text = project.decree(["doctor"]).ok().text();
    assert_has(&text, &["! config       there is no .decree/config.yml: every setting has its default"]);
}

/// SEE-37. bash says whether it can parse a routine, without running it.
#[test]
fn a_routine_that_bash_cannot_parse_is_found_before_anything_runs() {
    let project = PipelineProject::with("touch ran\necho \"unterminated\n");
    project.spec("01-a", "# A\n").spec("02-b", "---\nroutine: good\n---\n# B\n").message("task", "x\n");
    project.routine("good", WORKS);
    let before = project.snapshot();
    let why = "RoutineInvalid: .decree/routines/develop.sh: line 2: ";
    let text = project.decree(["doctor"]).fails(1).text();
    assert_has(
        &text,
        &[&format!("specs/01-a.spec.md: {why}"), &format!("task.md: {why}"), "1 spec pending that can run"],
    );
    let text = project.process_with(&["--dry-run"]).fails(1).text();
    assert_eq!(text.matches(why).count(), 2, "{text}");
    assert_eq!(project.snapshot(), before);
}

/// SEE-63.
#[test]
fn a_verification_whose_program_is_not_installed_is_found_before_anything_runs() {
    let project = PipelineProject::with(WORKS);
    project
        .spec("01-a", "---\nverify: no-such-checker --all\n---\n# A\n")
        .spec("02-script", "---\nverify: ./check.sh\n---\n# B\n")
        .spec("03-shell", "---\nverify: A=1 test -e work.txt\n---\n# C\n")
        .spec("04-guarded", "---\nverify: no-such-checker || true\n---\n# D\n");
    let why = "verify: `no-such-checker --all`: no-such-checker is not installed";
    let before = project.snapshot();
    let text = project.decree(["doctor"]).fails(1).text();
    assert_has(
        &text,
        &[&format!("✗ specs        specs/01-a.spec.md: NeedsMissing: {why}"), "3 specs pending"],
    );
    let text = project.process_with(&["--dry-run"]).fails(1).text();
    assert_eq!(text.matches("is not installed").count(), 1, "{text}");
    assert_has(&text, &[why]);
    assert_eq!(project.snapshot(), before);
    project.remove("specs/01-a.spec.md").decree(["doctor"]).ok();
    project.process_with(&["--dry-run"]).ok();
}

/// SEE-63.
#[test]
fn a_verification_of_the_config_is_checked_with_or_without_pending_work() {
    let project = PipelineProject::with(WORKS);
    project.config("verify: 'no-such-checker x'\n");
    let why = "verify: `no-such-checker x`: no-such-checker is not installed";
    assert_has(
        &project.decree(["doctor"]).fails(1).text(),
        &["✗ verify", "no-such-checker is not installed", "routines can run here; "],
    );
    project.spec("01-a", "# A\n").spec("02-b", "---\nverify: 'true'\n---\n# B\n").message("task", "x\n");
    let text = project.process_with(&["--dry-run"]).fails(1).text();
    assert_eq!(text.matches(why).count(), 2, "the message and the first spec: {text}");
    project.config("verify: ./check.sh\n").decree(["doctor"]).ok();
    project.process_with(&["--dry-run"]).ok();
    project.config("verify: 'true'\n");
    assert_has(&project.decree(["doctor"]).ok().text(), &["✓ verify       true"]);
}

/// SEE-64.
#[test]
fn what_a_killed_guard_left_is_found_before_anything_runs() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n");
    let script = "echo x >notes.txt; echo yes >.decree/begun; sleep 60";
    let mut guard = project.command();
    let mut guard = guard.args(["guard", "--", "bash", "-c", script]).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path(".decree/begun"));
    guard.kill().unwrap();
    guard.wait().unwrap();
    let why = "killed or stopped while it guarded";
    let refusal = "does not start on a tree that a guarded command may have left half done";
    project.process_with(&["--dry-run"]).fails(1).mentions(&[refusal, why]);
    let answer = project.process_with(&["--dry-run", "--format", "json"]).fails(1);
    let answer: Value = serde_json::from_slice(&answer.out).unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains(refusal), "{answer}");
    assert_eq!(answer["specs"][0], "specs/01-a.spec.md");
    let doctor = project.decree(["doctor"]).fails(1).text();
    assert_has(&doctor, &["✗ unfinished", refusal, "decree recover --keep", "routines cannot run until"]);
    for args in [&["checkpoint", "list"][..], &["checkpoint", "verify", "--all"], &["audit"], &["status"]] {
        project.decree(args).ok().mentions(&[why]);
    }
    project.decree(["recover", "--keep"]).ok();
    project.process_with(&["--dry-run"]).ok();
    assert!(!project.decree(["doctor"]).ok().text().contains("unfinished"));
}

/// SEE-64.
#[test]
fn an_unfinished_run_is_named_by_what_only_looks_also_behind_a_broken_config() {
    let project = PipelineProject::with("echo yes >.decree/begun; sleep 60");
    project.spec("01-a", "# A\n");
    let mut process = project.command();
    let mut process = process.arg("process").stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path(".decree/begun"));
    process.kill().unwrap();
    process.wait().unwrap();
    let why = "was interrupted; the next `decree process` recovers it";
    project.process_with(&["--dry-run"]).ok().mentions(&[why]);
    project.decree(["checkpoint", "list"]).ok().mentions(&[why]);
    assert_has(&project.decree(["doctor"]).ok().text(), &["! unfinished", "was interrupted"]);
    project.config("max_retries: [\n");
    project.process().fails(3).mentions(&[why, "config.yml"]);
    project.decree(["checkpoint", "gc", "--dry-run"]).ok().mentions(&[why, "config.yml"]);
}
