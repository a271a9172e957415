use std::process::Command;

use serde_json::Value;

use super::{change_everything, project};
use crate::harness::{assert_same, run_command};

/// Checks an answer against its schema in `docs/schemas/`.
#[track_caller]
pub fn assert_valid(answer: &Value, schema: &str) {
    let path = format!("{}/docs/schemas/{schema}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(answer).map(|error| format!("{error} at {}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?} in {answer:#}");
}

fn parsed(format: &str, out: &[u8]) -> Value {
    match format {
        "json" => serde_json::from_slice(out).unwrap(),
        _ => yaml_serde::from_slice(out).unwrap(),
    }
}

/// CPC-01.
#[test]
fn a_checkpoints_answer_has_every_field_and_every_value_is_true() {
    for format in ["json", "yaml"] {
        let project = project();
        project.write(".gitignore", "target/\n").write("target/x", "x");
        let before = project.snapshot();
        let args = ["checkpoint", "create", "--reason", "to be safe", "--expiry", "24h", "--format", format];
        let answer = parsed(format, &project.decree(args).ok().out);
        assert_valid(&answer, "checkpoint");
        let checkpoint = &answer["checkpoint"];
        let files = checkpoint["scope"]["files"].as_array().unwrap();
        assert!(files.contains(&"src/main.rs".into()) && files.contains(&"link".into()), "{files:?}");
        assert!(!files.contains(&"target/x".into()));
        assert_eq!((&answer["confidence"], &checkpoint["reason"]), (&1.0.into(), &"to be safe".into()));
        assert!(answer["assumptions"][0].as_str().unwrap().contains("target"));
        let id = checkpoint["id"].as_str().unwrap();
        let shown = project.decree(["checkpoint", "show", id, "--format", "json"]).ok();
        let tree = parsed("json", &shown.out)["tree"].as_str().unwrap().to_owned();
        assert_eq!(answer["pre_mutation_state"]["hash"], format!("sha256:{tree}"));
        for anchor in answer["evidence_anchors"].as_array().unwrap() {
            match anchor.as_str().unwrap().split_once(':').unwrap() {
                ("file", file) => assert!(project.exists(file), "{file}"),
                (_, command) => drop(run_as_printed(&project, command.strip_prefix("bash:").unwrap()).ok()),
            }
        }
        change_everything(&project);
        let restore = checkpoint["restore_command"].as_str().unwrap();
        run_as_printed(&project, restore).ok();
        assert_same(&project.snapshot(), &before);
    }
}

/// Runs a line with bash, in the project.
pub fn run_as_printed(project: &crate::harness::Project, line: &str) -> crate::harness::CommandOutput {
    let decree = std::path::Path::new(env!("CARGO_BIN_EXE_decree")).parent().unwrap();
    let path = format!("{}:{}", decree.display(), std::env::var("PATH").unwrap());
    run_command(Command::new("bash").args(["-c", line]).current_dir(project.root()).env("PATH", path))
}

/// CPC-02.
#[test]
fn a_scope_is_what_is_listed_hashed_and_reverted() {
    let project = project();
    let args = ["checkpoint", "create", "--scope", "src", "--format", "json"];
    let answer = parsed("json", &project.decree(args).ok().out);
    assert_valid(&answer, "checkpoint");
    let files = &answer["checkpoint"]["scope"]["files"];
    assert_eq!(*files, serde_json::json!(["src/gone.rs", "src/lib.rs", "src/main.rs"]));
    change_everything(&project);
    let id = answer["checkpoint"]["id"].as_str().unwrap();
    let back = parsed("json", &project.decree(["rollback", id, "--format", "json"]).ok().out);
    assert_valid(&back, "rollback");
    assert_eq!(back["verification"]["checkpoint_hash"], answer["pre_mutation_state"]["hash"]);
    assert_eq!(back["verification"]["match"], true);
    assert_eq!(project.read("src/main.rs"), b"fn main() {}\n");
    assert_eq!(project.read("docs"), b"a file now\n", "outside of its scope");
    // What it holds besides can be had by asking for it.
    project.decree(["rollback", id, "--scope", "docs"]).ok();
    assert_eq!(project.read("docs/guide.md"), b"# Guide\n");
}

/// CPC-03.
#[test]
fn confidence_drops_when_something_is_left_out() {
    let project = project();
    project.write(".env", "SECRET=1\n");
    let output =
        project.decree(["checkpoint", "create", "--format", "json"]).ok().mentions(&["warning:", ".env"]);
    let answer = parsed("json", &output.out);
    assert_valid(&answer, "checkpoint");
    assert!(answer["confidence"].as_f64().unwrap() < 0.96, "{}", answer["confidence"]);
    assert!(answer["assumptions"].to_string().contains(".env"));
    let within = project.decree(["checkpoint", "create", "--scope", "src", "--format", "json"]).ok();
    assert_eq!(parsed("json", &within.out)["confidence"], 1.0);
}

/// CPC-04.
#[test]
fn a_checkpoint_is_deleted_only_when_confirmed() {
    let project = project();
    let (first, second) = (project.checkpoint(), project.checkpoint());
    project.decree(["checkpoint", "delete", &first]).fails(2).mentions(&["--yes", "nothing was deleted"]);
    project.decree(["checkpoint", "delete", "--yes", &first, "chk_1999"]).fails(3);
    assert_eq!(project.names(".decree/checkpoints").len(), 2);
    project
        .decree(["checkpoint", "delete", "--yes", &first, &first, "--reason", "old"])
        .ok()
        .mentions(&["deleted"]);
    assert_eq!(project.names(".decree/checkpoints"), [second.as_str()]);
    project.decree(["rollback", &first]).fails(3);
    change_everything(&project);
    project.decree(["rollback", &second]).ok();
    assert!(project.decree(["audit"]).ok().text().contains("delete"));
}

/// RBK-06.
#[test]
fn the_answer_has_every_field_and_every_value_is_true() {
    for format in ["json", "yaml"] {
        let project = project();
        let id = project.checkpoint();
        change_everything(&project);
        let dry = project.decree(["rollback", &id, "--dry-run", "--format", format]).ok();
        assert_valid(&parsed(format, &dry.out), "rollback");
        let output = project.decree(["rollback", &id, "--reason", "a test", "--format", format]).ok();
        let answer = parsed(format, &output.out);
        assert_valid(&answer, "rollback");
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
            match anchor.as_str().unwrap().split_once(':').unwrap() {
                ("file", file) => assert!(project.exists(file), "{file}"),
                (_, command) => drop(run_as_printed(&project, command.strip_prefix("bash:").unwrap()).ok()),
            }
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

/// REV-34.
#[test]
fn the_coverage_lists_hard_links() {
    let project = super::project();
    std::fs::hard_link(project.path("notes.txt"), project.path("docs/again.txt")).unwrap();
    for _ in 0..2 {
        // The second one takes the files from the cache.
        let output = project.decree(["checkpoint", "create", "--format", "json"]).ok();
        let answer: serde_json::Value = serde_json::from_slice(&output.out).unwrap();
        assert_eq!(answer["coverage"]["hard_links"], serde_json::json!(["docs/again.txt", "notes.txt"]));
        let assumptions = answer["assumptions"].to_string();
        assert!(assumptions.contains("2 files with other names"), "{assumptions}");
    }
}
