//! `checkpoint verify --format json|yaml`.

use std::fs;

use super::json;
use crate::rollback::contract::assert_valid;
use crate::rollback::project;

/// ANS-03.
#[test]
fn verify_answers_for_each_checkpoint() {
    let project = project();
    let ids = [project.checkpoint(), project.checkpoint()];
    let all = ["checkpoint", "verify", "--all", "--format", "json"];
    let answer = json(&project.decree(all).ok().out);
    assert_valid(&answer, "verify");
    assert_eq!(answer["intact"], true);
    for (checkpoint, id) in answer["checkpoints"].as_array().unwrap().iter().zip(&ids) {
        assert_eq!((&checkpoint["id"], &checkpoint["intact"]), (&id.as_str().into(), &true.into()));
        assert!(checkpoint["entries"].as_u64().unwrap() >= 8, "{answer:#}");
        assert!(checkpoint["error"].is_null());
    }
    fs::write(project.record(&ids[0], "manifest.json"), "{}").unwrap();
    let output = project.decree(all).fails(4);
    let answer = json(&output.out);
    assert_valid(&answer, "verify");
    assert_eq!((&answer["intact"], &answer["error"]["kind"]), (&false.into(), &"integrity".into()));
    let broken = &answer["checkpoints"][0];
    assert_eq!((&broken["intact"], &broken["entries"]), (&false.into(), &serde_json::Value::Null));
    assert!(broken["error"]["message"].as_str().unwrap().contains(&ids[0]), "{answer:#}");
    assert_eq!(answer["checkpoints"][1]["intact"], true);
    assert!(output.err.contains(&ids[0]), "{}", output.err);
    let one = ["checkpoint", "verify", &ids[0], "--format", "yaml"];
    let answer: serde_json::Value = yaml_serde::from_slice(&project.decree(one).fails(4).out).unwrap();
    assert_valid(&answer, "verify");
    assert_eq!(
        (&answer["intact"], &answer["checkpoints"][0]["id"]),
        (&false.into(), &ids[0].as_str().into())
    );
    // A record that cannot be read is a checkpoint that is not intact.
    fs::write(project.record(&ids[1], "checkpoint.json"), "{}").unwrap();
    let answer = json(&project.decree(all).fails(4).out);
    assert_valid(&answer, "verify");
    let listed: Vec<_> =
        answer["checkpoints"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(listed.len(), 2, "{answer:#}");
    assert!(answer["checkpoints"].as_array().unwrap().iter().all(|it| it["intact"] == false), "{answer:#}");
}

/// ANS-03.
#[test]
fn without_checkpoints_everything_is_intact() {
    let project = project();
    let answer = json(&project.decree(["checkpoint", "verify", "--all", "--format", "json"]).ok().out);
    assert_valid(&answer, "verify");
    assert_eq!(answer, serde_json::json!({ "intact": true, "checkpoints": [] }));
}
