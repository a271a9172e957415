use serde_json::Value;

use super::{project, wreck};

/// RBK-06.
#[test]
fn the_answer_has_every_field_and_every_value_is_true() {
    for format in ["json", "yaml"] {
        let project = project();
        let id = project.checkpoint();
        wreck(&project);
        let said = project.decree(["rollback", &id, "--reason", "a test", "--format", format]).ok();
        let answer: Value = match format {
            "json" => serde_json::from_slice(&said.out).unwrap(),
            _ => serde_yaml::from_slice(&said.out).unwrap(),
        };
        assert_eq!(answer["rolled_back"], true);
        assert_eq!(answer["restored_to"]["checkpoint_id"], id);
        assert_eq!(answer["restored_to"]["checkpoint_type"], "file_backup");
        assert!(answer["restored_to"]["timestamp"].as_str().unwrap().ends_with('Z'));
        let verification = &answer["verification"];
        assert_eq!(verification["match"], true);
        assert_eq!(verification["post_state_hash"], verification["checkpoint_hash"]);
        assert_ne!(verification["pre_state_hash"], verification["checkpoint_hash"]);
        let shown = project.decree(["checkpoint", "show", &id, "--format", "json"]).ok();
        let shown: Value = serde_json::from_slice(&shown.out).unwrap();
        assert_eq!(verification["checkpoint_hash"], format!("sha256:{}", shown["tree"].as_str().unwrap()));
        let reverted = answer["changes_reverted"].as_array().unwrap();
        let operation =
            |file: &str| reverted.iter().find(|change| change["file"] == file).unwrap()["operation"].clone();
        assert_eq!(operation("src/main.rs"), "modify");
        assert_eq!(operation("src/gone.rs"), "delete");
        assert_eq!(operation("src/new/orphan.rs"), "create");
        let warnings = answer["warnings"].as_array().unwrap();
        assert!(
            warnings.iter().any(|line| line.as_str().unwrap().contains("src/new/orphan.rs")),
            "{warnings:?}"
        );
        assert_eq!(answer["confidence"], 1.0);
        assert!(answer["assumptions"].as_array().unwrap().is_empty());
        for anchor in answer["evidence_anchors"].as_array().unwrap() {
            let file = anchor.as_str().unwrap().strip_prefix("file:").unwrap();
            assert!(project.exists(file), "{file}");
        }
        // What it says to do next can be done.
        let next = answer["next_actions"][0].as_str().unwrap();
        project.decree(next.split(' ').skip(1)).ok();
        assert!(project.exists("src/new/orphan.rs"));
        let trail: Value =
            serde_json::from_slice(&project.decree(["audit", "--format", "json"]).ok().out).unwrap();
        assert_eq!(trail["records"][0]["before"], verification["pre_state_hash"]);
        assert_eq!(trail["records"][0]["after"], verification["post_state_hash"]);
        assert_eq!(trail["records"][0]["saved"], answer["saved_present_as"]);
        assert_eq!(trail["records"][0]["reason"], "a test");
    }
}
