use std::fs;

use serde_json::Value;

use super::{change_everything, project};
use crate::pipeline::pipeline_project::PipelineProject;

/// AUD-01.
#[test]
fn every_deed_leaves_a_line() {
    let project = PipelineProject::with(
        "case ${spec_file:-} in *2*) echo half >half; exit 1 ;; esac; echo x >work.txt",
    );
    project.config("max_retries: 0\n").spec("1-a", "A\n").spec("2-b", "B\n");
    project.process().fails(1);
    let kept = project.run_of("1-a");
    project.decree(["revert", &kept]).ok();
    project.decree(["apply", &kept]).ok();
    project.decree(["apply", &kept]).ok();
    let id = project.checkpoint();
    project.write("work.txt", "other\n");
    project.decree(["rollback", &id, "--reason", "two\nlines"]).ok();
    let output = project.decree_with_env(&["audit", "--format", "json"], &[]).ok();
    let trail: Value = serde_json::from_slice(&output.out).unwrap();
    let answer: Vec<(&str, &str)> = trail["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (record["action"].as_str().unwrap(), record["subject"].as_str().unwrap()))
        .collect();
    let failed = project.run_of("2-b");
    assert_eq!(answer, [("put-back", &failed[..]), ("revert", &kept), ("apply", &kept), ("rollback", &id)]);
    for record in trail["records"].as_array().unwrap() {
        assert!(record["at"].as_str().unwrap().ends_with('Z') && !record["who"].as_str().unwrap().is_empty());
    }
    assert_eq!(project.decree(["audit"]).ok().text().lines().count(), 4);
}

/// AUD-02.
#[test]
fn a_trail_that_was_tampered_with_is_reported() {
    let project = project();
    let id = project.checkpoint();
    for _ in 0..3 {
        change_everything(&project);
        project.decree(["rollback", &id]).ok();
    }
    let path = project.path(".decree/audit.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let output = project.decree(["audit", "verify"]).ok();
    let head = output.line().rsplit(' ').next().unwrap().to_owned();
    project.decree(["audit", "verify", "--head", &head]).ok();
    fs::write(&path, whole.replacen(&id, "chk_20200101_000000_000000", 1)).unwrap();
    project.decree(["audit", "verify"]).fails(4).mentions(&["line 2"]);
    project.decree(["audit"]).fails(4);
    let lines: Vec<&str> = whole.lines().collect();
    fs::write(&path, format!("{}\n", lines[..2].join("\n"))).unwrap();
    project.decree(["audit", "verify"]).ok();
    project.decree(["audit", "verify", "--head", &head]).fails(4).mentions(&["was truncated"]);
}

/// AUD-03.
#[test]
fn a_line_that_was_cut_off_does_not_end_the_trail() {
    let project = project();
    let id = project.checkpoint();
    for cut in [false, true] {
        change_everything(&project);
        project.decree(["rollback", &id]).ok();
        if !cut {
            let path = project.path(".decree/audit.jsonl");
            let whole = fs::read(&path).unwrap();
            fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        }
    }
    project.decree(["audit"]).ok().mentions(&["line 1", "is incomplete"]);
}

/// AUD-04.
#[test]
fn a_routine_cannot_rewrite_the_trail() {
    for harm in ["rm .decree/audit.jsonl", "echo forged >.decree/audit.jsonl", ": >.decree/audit.jsonl"] {
        let project = PipelineProject::with(harm);
        let id = project.checkpoint();
        project.write("notes.txt", "changed\n");
        project.decree(["rollback", &id]).ok();
        let trail = project.read(".decree/audit.jsonl");
        project.spec("1-a", "A\n").process().ok();
        assert_eq!(project.read(".decree/audit.jsonl"), trail, "{harm}");
    }
}

/// AUD-04. A link in the place of the trail must not lead an entry into another file.
#[test]
fn a_planted_link_does_not_lead_entries_into_another_file() {
    let project = PipelineProject::with("ln -s \"$PWD/victim\" .decree/audit.jsonl; echo x >work.txt");
    project.write("victim", "mine\n");
    project.run(&["-m", "x", "-p", "y"]).ok();
    // The routine's link is set aside; one that is planted later is not followed.
    assert!(!project.exists(".decree/audit.jsonl"));
    project.link(".decree/audit.jsonl", "../victim");
    let id = project.only_run();
    project.decree(["revert", &id]).fails(1).mentions(&["audit.jsonl"]);
    assert_eq!(project.read("victim"), b"mine\n");
    assert!(!project.exists("work.txt"));
}
