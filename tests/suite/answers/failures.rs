//! A failure is an object on standard output, too.

use std::fs;
use std::path::Path;

use super::json;
use crate::harness::Project;
use crate::rollback::contract::assert_valid;
use crate::rollback::project;

/// Every command with `--format`, with arguments that are valid as such.
const COMMANDS: [&[&str]; 15] = [
    &["checkpoint", "create"],
    &["checkpoint", "list"],
    &["checkpoint", "show", "chk_1999"],
    &["checkpoint", "verify", "chk_1999"],
    &["checkpoint", "verify", "--all"],
    &["checkpoint", "gc"],
    &["rollback", "chk_1999"],
    &["guard", "--format", "json", "--", "true"],
    &["status"],
    &["run", "-p", "x"],
    &["process"],
    &["doctor"],
    &["comment"],
    &["publish"],
    &["audit"],
];

fn with_format<'a>(command: &[&'a str], format: &'a str) -> Vec<&'a str> {
    // What follows the command of a guard is that command's.
    if command[0] == "guard" {
        return command.iter().map(|word| if *word == "json" { format } else { word }).collect();
    }
    [command, &["--format", format]].concat()
}

/// ANS-01.
#[test]
fn every_command_answers_a_failure_in_the_format_that_was_asked_for() {
    let nowhere = Project::bare();
    for command in COMMANDS {
        let output = nowhere.decree(with_format(command, "json")).fails(3);
        let answer = json(&output.out);
        assert_valid(&answer, "failure");
        let error = &answer["error"];
        assert_eq!(error["kind"], "project", "{command:?}: {answer}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("is not in a decree project"), "{command:?}: {message}");
        assert!(error["hint"].as_str().unwrap().contains("decree init"), "{command:?}: {answer}");
        // People find the same on standard error.
        assert!(output.err.contains(message) && output.err.starts_with("error: "), "{}", output.err);
        let contract = match command {
            ["checkpoint", "create"] => Some("checkpoint_created"),
            ["rollback", ..] | ["guard", ..] => Some("rolled_back"),
            _ => None,
        };
        for key in ["checkpoint_created", "rolled_back"] {
            let expected = if contract == Some(key) { Some(&false.into()) } else { None };
            assert_eq!(answer.get(key), expected, "{command:?}: {answer}");
        }
    }
    for command in
        [&["checkpoint", "create"][..], &["rollback", "x"], &["audit"], &["checkpoint", "verify", "x"]]
    {
        let output = nowhere.decree(with_format(command, "yaml")).fails(3);
        let answer: serde_json::Value = yaml_serde::from_slice(&output.out).unwrap();
        assert_valid(&answer, "failure");
        assert_eq!(answer["error"]["kind"], "project");
    }
    // Without a format, and in a format for people, standard output has data only.
    assert_eq!(nowhere.decree(["status"]).fails(3).text(), "");
    assert_eq!(nowhere.decree(["report", "--format", "junit"]).fails(3).text(), "");
    assert_valid(&json(&nowhere.decree(["report", "--format", "json"]).fails(3).out), "failure");
}

/// ANS-01.
#[test]
fn the_kind_of_a_failure_agrees_with_the_exit_code() {
    let project = project();
    let id = project.checkpoint();
    let kind = |args: &[&str], code: i32| {
        let answer = json(&project.decree(args).fails(code).out);
        assert_valid(&answer, "failure");
        answer["error"]["kind"].as_str().unwrap().to_owned()
    };
    assert_eq!(kind(&["run", "--format", "json"], 2), "usage");
    assert_eq!(kind(&["rollback", &id, "--scope", "..", "--format", "json"], 2), "usage");
    assert_eq!(kind(&["rollback", "chk_1999", "--format", "json"], 3), "project");
    let decree = env!("CARGO_BIN_EXE_decree");
    let inside = ["guard", "--", decree, "checkpoint", "create", "--format", "json"];
    let locked = json(&project.decree(inside).fails(5).out);
    assert_eq!((&locked["error"]["kind"], &locked["checkpoint_created"]), (&"locked".into(), &false.into()));
    fs::write(project.record(&id, "manifest.json"), "{}").unwrap();
    let answer = json(&project.decree(["rollback", &id, "--format", "json"]).fails(4).out);
    assert_valid(&answer, "failure");
    assert_eq!(
        (&answer["error"]["kind"], &answer["rolled_back"]),
        (&"integrity".into(), &false.into()),
        "{answer}"
    );
    let details = answer["error"]["details"].as_array().unwrap();
    assert!(details.iter().all(|line| line.is_string()), "{answer}");
    assert_eq!(kind(&["rollback", "--format", "json"], 2), "usage");
}

/// ANS-02.
#[test]
fn an_answer_that_is_also_a_failure_is_one_document() {
    let project = project();
    let old = project.decree(["checkpoint", "create", "--expiry", "1s"]).ok().line();
    let id = project.checkpoint();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    fs::write(project.record(&id, "manifest.json"), "{}").unwrap();
    let answer = json(&project.decree(["checkpoint", "gc", "--format", "json"]).fails(4).out);
    assert_valid(&answer, "gc");
    assert_eq!(answer["error"]["kind"], "integrity", "{answer:#}");
    assert_eq!(answer["checkpoints"][0]["id"], old.as_str());
    assert!(answer["content_kept_because"].is_string() && answer["store"].is_null(), "{answer:#}");
    fs::remove_dir_all(Path::new(&project.record(&id, ""))).unwrap();
    let answer = json(&project.decree(["checkpoint", "gc", "--format", "json"]).ok().out);
    assert_valid(&answer, "gc");
    assert!(answer.get("error").is_none() && answer["store"].is_object(), "{answer:#}");
    assert_valid(
        &json(&project.decree(["checkpoint", "gc", "--dry-run", "--format", "json"]).ok().out),
        "gc",
    );
}

/// ANS-02.
#[test]
fn an_interrupted_batch_answers_with_what_was_done_and_why_it_ended() {
    use rustix::process::{Pid, Signal, kill_process};
    let project =
        crate::pipeline::pipeline_project::PipelineProject::with("echo yes >.decree/begun; sleep 60");
    project.spec("01-a", "A\n");
    let mut command = project.command();
    command.args(["process", "--format", "json"]);
    let child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    crate::harness::wait_for(&project.path(".decree/begun"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    let answer = json(&output.stdout);
    assert_eq!(answer["error"]["kind"], "interrupted", "{answer:#}");
    assert_eq!(answer["messages"][0]["verdict"], "interrupted", "{answer:#}");
}

/// ANS-02. A batch that lost something answers with its summary and the error in one document.
#[test]
fn a_batch_that_could_not_restore_everything_answers_in_one_document() {
    let project = crate::pipeline::pipeline_project::PipelineProject::with("rm ignored; exit 1");
    project.config("max_retries: 0\n").write(".gitignore", "ignored\n").write("ignored", "x\n");
    let output = project.decree(["run", "-m", "x", "-p", "y", "--format", "json"]).fails(4);
    let answer = json(&output.out);
    assert_eq!(answer["error"]["kind"], "integrity", "{answer:#}");
    assert_eq!(answer["messages"][0]["put_back"]["not_restored"][0]["path"], "ignored", "{answer:#}");
}

/// SEE-35. Wrong usage is a failure like any other, whoever finds it.
#[test]
fn wrong_usage_is_answered_in_the_format_that_was_asked_for() {
    let project = project();
    for (args, words, contract) in [
        (&["status", "--format", "json", "--no-such-option"][..], "--no-such-option", None),
        (&["status", "--format=json", "surplus"], "surplus", None),
        (&["process", "--limit", "many", "--format", "json"], "many", None),
        (&["checkpoint", "create", "--format", "json", "--type", "x"], "--type", Some("checkpoint_created")),
        (&["checkpoint", "show", "--format", "json"], "<ID>", None),
        (&["-C", "/", "rollback", "--format", "json"], "<", Some("rolled_back")),
        (&["guard", "--format", "json"], "COMMAND", Some("rolled_back")),
        (&["guard", "--format", "json", "--expiry", "soon", "--", "status"], "soon", Some("rolled_back")),
        (&["run", "--format", "json"], "nothing to run", None),
    ] {
        let output = project.decree(args).fails(2);
        let answer = json(&output.out);
        assert_valid(&answer, "failure");
        assert_eq!(answer["error"]["kind"], "usage", "{args:?}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(words) && !message.starts_with("error"), "{args:?}: {answer}");
        for key in ["checkpoint_created", "rolled_back"] {
            assert_eq!(answer.get(key).is_some(), contract == Some(key), "{args:?}: {answer}");
        }
        assert!(output.err.contains(words), "{args:?}: {}", output.err);
    }
    let yaml = project.decree(["checkpoint", "list", "--format", "yaml", "--bad"]).fails(2).text();
    assert!(yaml.starts_with("error:\n") && yaml.contains("kind: \"usage\""), "{yaml}");
    // Without a format there is no object, and what is no failure is none.
    for args in [
        &["status", "--bad"][..],
        // This format is one of the guarded command.
        &["guard", "--bad", "true", "--format", "json"],
        &["status", "--format", "xml"],
        &["guard", "--bad", "--", "x", "--format", "json"],
    ] {
        assert_eq!(project.decree(args).fails(2).text(), "", "{args:?}");
    }
    for args in [["--help", "--format"], ["status", "--help"], ["--version", "--format"]] {
        let output = project.decree(args).ok();
        assert!(!output.text().contains("\"error\"") && !output.out.is_empty(), "{args:?}");
    }
}
