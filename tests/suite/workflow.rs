//! What `process` reports to GitHub in a workflow.

use std::collections::BTreeMap;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{CommandOutput, wait_for};
use crate::pipeline::pipeline_project::{PipelineProject, WORKS, assert_has};

const SECRET: &str = "sk-live-0123456789";

/// `process` as a runner starts it; files of the runner are in `.decree/`, which no checkpoint holds.
fn in_actions(project: &PipelineProject, args: &[&str]) -> CommandOutput {
    let mut command = project.command();
    command.args(args).envs(runner(project));
    crate::harness::run_command(&mut command)
}

fn runner(project: &PipelineProject) -> Vec<(String, String)> {
    let path = |name: &str| project.path(format!(".decree/{name}")).display().to_string();
    vec![
        ("GITHUB_ACTIONS".into(), "true".into()),
        ("GITHUB_OUTPUT".into(), path("output")),
        ("GITHUB_STEP_SUMMARY".into(), path("step.md")),
        ("GITHUB_WORKSPACE".into(), project.root().parent().unwrap().display().to_string()),
        ("SAMPLE_API_KEY".into(), SECRET.into()),
    ]
}

/// The outputs, read as the runner does.
fn outputs(project: &PipelineProject) -> BTreeMap<String, String> {
    let text = project.text(".decree/output");
    let (mut found, mut lines) = (BTreeMap::new(), text.lines());
    while let Some(line) = lines.next() {
        let (name, word) = line.split_once("<<").unwrap();
        assert!(word.len() > 20, "{word}");
        let value: Vec<&str> = lines.by_ref().take_while(|line| *line != word).collect();
        found.insert(name.to_owned(), value.join("\n"));
    }
    found
}

fn failing(count: usize) -> PipelineProject {
    let project = PipelineProject::with("echo \"told $SAMPLE_API_KEY\"; echo half >half.txt; exit 7");
    project.config("max_retries: 0\n");
    for number in 0..count {
        project.spec(&format!("{number:02}-fail"), "Do\n");
    }
    project
}

/// WFL-01.
#[test]
fn each_dead_letter_has_an_annotation_up_to_ten() {
    for (count, lines) in [(1, 1), (10, 10), (13, 10)] {
        let project = failing(count);
        let output = in_actions(&project, &["process"]).fails(1);
        let found: Vec<&str> = output.err.lines().filter(|line| line.starts_with("::error ")).collect();
        assert_eq!(found.len(), lines, "{}", output.err);
        let place = project.root().file_name().unwrap().to_str().unwrap();
        let first = format!(
            "::error file={place}/specs/00-fail.spec.md,title=decree%3A 00-fail::failed 1 of 1 attempt (exit 7)"
        );
        assert!(found[0].starts_with(&first), "{}", found[0]);
        assert_eq!(found[lines - 1].contains("4 more"), count == 13, "{}", found[lines - 1]);
    }
    let output = in_actions(&failing(1), &["process", "--quiet", "--format", "json"]).fails(1);
    assert_has(&output.err, &["::error file="]);
    assert!(output.text().starts_with('{') && !output.text().contains("::error"));
}

/// WFL-02.
#[test]
fn outputs_name_verdict_counts_runs_and_the_summary() {
    let project =
        PipelineProject::with("case ${spec_file:-} in *2*) exit 1 ;; *3*) exit 0 ;; esac; echo x >>work.txt");
    project.config("max_retries: 0\n").spec("1-a", "A\n").spec("2-b", "B\n").spec("3-c", "C\n");
    in_actions(&project, &["process"]).fails(1);
    let found = outputs(&project);
    let value = |name: &str| found[name].as_str();
    assert_eq!(
        ["verdict", "processed", "kept", "failed", "skipped", "unchanged"].map(value),
        ["failed", "3", "2", "1", "0", "1"]
    );
    assert_eq!(value("failed-runs"), project.run_of("2-b"));
    assert_eq!(value("kept-runs"), format!("{} {}", project.run_of("1-a"), project.run_of("3-c")));
    assert_eq!(
        value("summary-path"),
        project.path(".decree/summary.json").canonicalize().unwrap().to_str().unwrap()
    );
    project.remove(".decree/output").remove("specs/2-b.spec.md");
    in_actions(&project, &["process"]).ok();
    assert_eq!(outputs(&project)["verdict"], "nothing");
}

/// WFL-02.
#[test]
fn a_spec_that_could_not_be_tried_shares_its_id_with_no_other() {
    let project = PipelineProject::with("echo x >>work.txt");
    project
        .spec("1-a", "---\nroutine: nobody\n---\nA\n")
        .spec("2-b", "---\nroutine: nobody\n---\nB\n")
        .spec("3-c", "C\n");
    in_actions(&project, &["process"]).fails(1);
    let found = outputs(&project);
    let ids: Vec<&str> = found["failed-runs"].split(' ').chain(found["kept-runs"].split(' ')).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids[0] < ids[1] && ids[1] < ids[2], "{ids:?}");
}

/// WFL-09.
#[test]
fn names_of_files_in_an_error_give_no_commands() {
    let names = ["::error title=forged::x", "##[error]y", "plain"];
    let project = PipelineProject::with(&names.map(|name| format!("echo run >'{name}'\n")).concat());
    project.spec("1-a", "A\n");
    in_actions(&project, &["process"]).ok();
    for name in names {
        project.write(name, "a person\n");
    }
    let output = in_actions(&project, &["revert", &project.run_of("1-a")]).fails(1);
    assert_has(&output.err, &["title=forged::x", "[error]y", "\n  plain"]);
    assert!(!output.err.lines().any(|line| line.trim_start().starts_with("::")), "{}", output.err);
    assert!(!output.err.contains("##["), "{}", output.err);
}

/// WFL-03.
#[test]
fn the_step_summary_shows_the_report_and_stays_within_its_limit() {
    let project = PipelineProject::with("seq 400000 >numbers.txt; echo 'Hello' >hello.txt");
    project.spec("01-numbers", "Count\n");
    let said_before = "written by another program\n".repeat(10_000);
    project.write(".decree/step.md", &said_before);
    in_actions(&project, &["process"]).ok();
    let text = project.text(".decree/step.md");
    assert!(text.starts_with(&said_before));
    assert_has(&text, &["### decree: 1 of 1 spec kept", "| 01-numbers | ✅ kept |", "+Hello"]);
    assert!(text.len() < 1 << 20 && text.len() > 900_000, "{}", text.len());
    // When there is no room, what is there stays as it is.
    let full = "x".repeat((1 << 20) - 100);
    project.write(".decree/step.md", &full);
    project.spec("02-more", "More\n");
    in_actions(&project, &["process"]).ok();
    assert_eq!(project.text(".decree/step.md"), full);
}

/// WFL-04.
#[test]
fn an_interrupted_run_is_reported() {
    let project = PipelineProject::with(
        "case ${spec_file:-} in *2*) echo yes >.decree/begun; sleep 60 ;; esac; echo x >>work.txt",
    );
    project.spec("1-a", "A\n").spec("2-b", "B\n");
    let child = project
        .command()
        .arg("process")
        .envs(runner(&project))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&project.path(".decree/begun"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let found = outputs(&project);
    assert_eq!((found["verdict"].as_str(), found["kept"].as_str()), ("interrupted", "1"));
    assert_has(&project.text(".decree/step.md"), &["interrupted", "| 1-a | ✅ kept |"]);
}

/// WFL-05.
#[test]
fn a_failure_to_report_is_a_warning() {
    let project = PipelineProject::with(WORKS);
    project.spec("1-a", "A\n").mkdir(".decree/output");
    in_actions(&project, &["process"]).ok().mentions(&["warning:", "cannot report to GitHub"]);
    assert_eq!(project.verdicts(), ["1-a: success"]);
}

/// WFL-06.
#[test]
fn a_secret_is_reported_nowhere() {
    let project = PipelineProject::with(
        r#"
echo "told $SAMPLE_API_KEY"; printf 'in \033[1m%s\033[0m colour\n' "$SAMPLE_API_KEY"
echo "key=$SAMPLE_API_KEY" >"file-$SAMPLE_API_KEY"; echo "key=$SAMPLE_API_KEY" >settings.ini
case ${spec_file:-} in *2*) echo "error: $SAMPLE_API_KEY is wrong"; exit 1 ;; esac
"#,
    );
    project.config("max_retries: 1\n").spec("1-a", "A\n").spec("2-b", "B\n");
    let output = in_actions(&project, &["process"]).fails(1);
    let nowhere = |what: &str, text: &str| assert!(!text.contains(SECRET), "{what}: {text}");
    nowhere("the log", &output.err);
    nowhere("the closing words", &output.text());
    nowhere("the step summary", &project.text(".decree/step.md"));
    nowhere("the outputs", &project.text(".decree/output"));
    nowhere("summary.json", &project.text(".decree/summary.json"));
    for run in project.runs() {
        nowhere("a log", &project.of_run(&run, "routine.log"));
    }
    for format in ["text", "markdown", "json", "junit", "html"] {
        let output = in_actions(&project, &["report", "--format", format]).ok();
        nowhere(format, &output.text());
    }
    nowhere("a comment", &in_actions(&project, &["comment", "--dry-run"]).ok().text());
    assert_has(&project.text(".decree/step.md"), &["key=***", "is wrong"]);
}

/// WFL-08.
#[test]
fn a_routine_for_what_names_none() {
    let project = PipelineProject::with("echo develop >>who.txt");
    project
        .routine("other", "echo other >>who.txt")
        .config("commands: { router: 'touch asked; echo develop' }\n");
    project.spec("1-a", "Plain\n").spec("2-b", "---\nroutine: develop\n---\nNamed\n");
    project.process_with(&["--routine", "other"]).ok();
    assert_eq!(project.text("who.txt"), "other\ndevelop\n");
    assert!(!project.exists("asked"));
    project.process_with(&["--routine", "../x"]).fails(2);
    project.spec("3-c", "More\n").process_with(&["--routine", "nobody"]).mentions(&["nobody"]);
}
