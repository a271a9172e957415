//! A `--scope` that matches nothing is an error, before anything happens.

use super::json;
use crate::harness::assert_same;
use crate::kinds::scene;
use crate::rollback::{change_everything, project};

/// CPC-05.
#[test]
fn a_mistyped_scope_makes_no_checkpoint() {
    let project = project();
    for (typed, meant) in [
        ("scr", "'src'"),
        ("src/mian.rs", "'src/main.rs'"),
        ("main.rs", "'src/main.rs'"),
        ("./docs/gudie.md", "'docs/guide.md'"),
    ] {
        let output = project.decree(["checkpoint", "create", "--scope", "src", "--scope", typed]).fails(3);
        assert_eq!(output.text(), "");
        let word = format!("scope '{}' matches nothing", typed.trim_start_matches("./"));
        output.mentions(&[&word, "no checkpoint was made", "did you mean", meant]);
    }
    let failed = project.decree(["checkpoint", "create", "--scope", "*.pyy", "--format", "json"]).fails(3);
    let answer = json(&failed.out);
    assert_eq!((&answer["checkpoint_created"], &answer["error"]["kind"]), (&false.into(), &"project".into()));
    assert!(answer["error"]["message"].as_str().unwrap().contains("'*.pyy'"), "{answer}");
    let guarded = project.decree(["guard", "--scope", "scr", "--", "touch", "ran"]).fails(3);
    guarded.mentions(&["scope 'scr' matches nothing", "did you mean 'src'", "the command was not run"]);
    assert!(!project.exists("ran") && !project.exists(".decree/guarding.json"));
    assert!(!project.exists(".decree/checkpoints") || project.names(".decree/checkpoints").is_empty());
}

/// CPC-05.
#[test]
fn a_mistyped_scope_makes_no_stash_entry() {
    let stash = scene::git_stash().project;
    stash
        .decree(["checkpoint", "create", "--type", "git_stash", "--scope", "scr"])
        .fails(3)
        .mentions(&["scope 'scr' matches nothing", "'src'"]);
    assert_eq!(scene::git(&stash, &["stash", "list"]), "");
    assert!(!stash.exists(".decree/checkpoints") || stash.names(".decree/checkpoints").is_empty());
}

/// CPC-05.
#[test]
fn a_scope_that_is_to_be_created_has_to_be_allowed() {
    let project = project();
    let args = ["checkpoint", "create", "--scope", "build", "--format", "json"];
    project.decree(args).fails(3).mentions(&["--allow-missing"]);
    let created = project.decree([&args[..], &["--allow-missing"]].concat()).ok();
    let answer = json(&created.out);
    created.mentions(&["'build' matches nothing now"]);
    assert!(answer["assumptions"].to_string().contains("nothing is at build yet"), "{answer:#}");
    let id = answer["checkpoint"]["id"].as_str().unwrap();
    // What was nothing then is nothing again.
    project.decree(["rollback", id]).ok();
    project.write("build/made", "made\n").write("other", "kept\n");
    project.decree(["rollback", id]).ok();
    assert!(!project.exists("build") && project.exists("other"));
    project
        .decree([
            "guard",
            "--allow-missing",
            "--scope",
            "build",
            "--",
            "sh",
            "-c",
            "mkdir build; touch build/x; exit 1",
        ])
        .fails(1);
    assert!(!project.exists("build"));
}

/// RBK-03.
#[test]
fn a_mistyped_scope_rolls_nothing_back() {
    let project = project();
    let id = project.checkpoint();
    change_everything(&project);
    let changed = project.snapshot();
    for (typed, meant) in
        [("scr", "'src'"), ("src/gnoe.rs", "'src/gone.rs'"), ("src/new/orphna.rs", "'src/new/orphan.rs'")]
    {
        let output = project.decree(["rollback", &id, "--scope", "docs", "--scope", typed]).fails(3);
        output.mentions(&[&format!("scope '{typed}' matches nothing"), &id, "did you mean", meant]);
        assert_same(&project.snapshot(), &changed);
    }
    // A path that is gone now is in the checkpoint, and one that came since is in the tree.
    project.decree(["rollback", &id, "--scope", "src/gone.rs", "--scope", "src/new"]).ok();
    assert!(project.exists("src/gone.rs") && !project.exists("src/new"));
    assert_eq!(project.read("src/main.rs"), b"fn main() { panic!() }\n");
}

/// RBK-03.
#[test]
fn a_scope_that_no_checkpoint_holds_is_named_as_such() {
    let project = project();
    project.write(".gitignore", "target/\n").write("target/x", "x\n");
    let id = project.checkpoint();
    project.write("src/lib.rs", "changed\n").write("target/x", "y\n");
    project
        .decree(["rollback", &id, "--scope", "target"])
        .fails(3)
        .mentions(&["'target' is ignored or left out"]);
    let output =
        project.decree(["rollback", &id, "--scope", "src", "--scope", "target", "--format", "json"]).ok();
    let answer = json(&output.out);
    assert!(answer["warnings"].to_string().contains("'target' is ignored or left out"), "{answer:#}");
    assert!(answer["confidence"].as_f64().unwrap() < 1.0);
    assert_eq!(
        (project.read("src/lib.rs"), project.read("target/x")),
        (b"// lib\n".to_vec(), b"y\n".to_vec())
    );
}
