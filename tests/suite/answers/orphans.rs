//! Files that a failed operation left: removed within the scope, named beside it.

use super::{json, texts};
use crate::rollback::contract::{assert_valid, run_as_printed};
use crate::rollback::project;

/// RBK-11.
#[test]
fn a_backup_file_beside_the_scope_is_named_and_the_answer_removes_it() {
    let project = project();
    project.write("config/production.yaml", "a: 1\n").write("config/staging.yaml", "a: 2\n");
    let args = ["checkpoint", "create", "--scope", "config/production.yaml", "--format", "json"];
    let id = json(&project.decree(args).ok().out)["checkpoint"]["id"].as_str().unwrap().to_owned();
    project
        .write("config/production.yaml", "a: 3\n")
        .write("config/production.yaml.bak", "a: 1\n")
        .write("config/.production.yaml.swp", "swap\n")
        .write("config/unrelated.yaml", "mine\n")
        .write("config/productions.yaml", "mine\n")
        .write("other/production.yaml.bak", "mine\n");
    let output = project.decree(["rollback", &id, "--format", "json"]).ok();
    let answer = json(&output.out);
    assert_valid(&answer, "rollback");
    let warnings = texts(&answer["warnings"]);
    for name in ["config/production.yaml.bak", "config/.production.yaml.swp"] {
        let expected = format!("Orphaned file detected: {name} (outside the scope, not removed)");
        assert!(warnings.contains(&expected.as_str()), "{warnings:?}");
        assert!(project.exists(name), "what is outside of the scope is not touched");
    }
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(answer["confidence"].as_f64().unwrap() < 1.0, "{answer:#}");
    assert_eq!(answer["rolled_back"], true);
    // One command removes both, and saves them first.
    let remove =
        texts(&answer["next_actions"]).into_iter().find(|line| line.contains("production.yaml.bak")).unwrap();
    run_as_printed(&project, remove).ok();
    assert!(!project.exists("config/production.yaml.bak") && !project.exists("config/.production.yaml.swp"));
    for mine in ["config/unrelated.yaml", "config/productions.yaml", "other/production.yaml.bak"] {
        assert!(project.exists(mine), "{mine}");
    }
}

/// RBK-11.
#[test]
fn orphans_are_named_in_text_in_a_dry_run_and_by_a_guard() {
    let project = project();
    let id = project.decree(["checkpoint", "create", "--scope", "src"]).ok().line();
    project
        .write("src/main.rs", "changed\n")
        .write("src/made.rs", "made\n")
        .write("src.bak/main.rs", "copy\n");
    let dry = json(&project.decree(["rollback", &id, "--dry-run", "--format", "json"]).ok().out);
    assert_eq!(
        texts(&dry["warnings"]),
        [
            "Orphaned file detected: src/made.rs (would be removed)",
            "Orphaned file detected: src.bak/main.rs (outside the scope, not removed)"
        ]
    );
    let text = project.decree(["rollback", &id]).ok();
    text.mentions(&[
        "remove    src/made.rs",
        "Orphaned file detected: src.bak/main.rs (outside the scope, not removed)",
    ]);
    project.write("src/made.rs", "made\n").write("src/main.rs", "changed\n");
    let back = json(&project.decree(["rollback", &id, "--format", "json"]).ok().out);
    assert_eq!(texts(&back["warnings"])[0], "Orphaned file detected: src/made.rs (removed)");
    project
        .decree(["guard", "--scope", "notes.txt", "--", "sh", "-c", "cp notes.txt notes.txt.orig; exit 1"])
        .fails(1)
        .mentions(&["Orphaned file detected: notes.txt.orig (outside the scope, not removed)"]);
    assert!(project.exists("notes.txt.orig"));
}

/// RBK-11.
#[test]
fn what_was_there_before_is_no_orphan() {
    let project = project();
    project.write("notes.txt.bak", "old\n");
    let id = project.decree(["checkpoint", "create", "--scope", "notes.txt"]).ok().line();
    project.write("notes.txt", "new\n").write("notes.txt.bak", "newer\n");
    let back = json(&project.decree(["rollback", &id, "--format", "json"]).ok().out);
    assert_eq!((texts(&back["warnings"]).len(), &back["confidence"]), (0, &1.0.into()), "{back:#}");
    assert_eq!(project.read("notes.txt.bak"), b"newer\n");
}
