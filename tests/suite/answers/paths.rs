//! Paths in answers are spelled as in the manifest: any name, and never two names the same way.

use serde_json::{Value, json};

use super::json as parsed;
use crate::pipeline::pipeline_project::PipelineProject;
use crate::rollback::contract::assert_valid;

/// Names that a program could confuse with their quoted form: a tab, that tab in git's quoting as a name, Latin-1.
const NAMES: [&[u8]; 4] = [b"a\tb", b"\"a\\tb\"", b"caf\xe9", "caf\u{e9}".as_bytes()];
/// The same as the manifest spells them.
const SPELLED: [&str; 4] = ["a\tb", "\"\\\"a\\\\tb\\\"\"", "\"caf\\351\"", "caf\u{e9}"];

fn sorted(mut list: Vec<Value>) -> Vec<Value> {
    list.sort_by_key(Value::to_string);
    list
}

fn spelled() -> Vec<Value> {
    sorted(SPELLED.iter().map(|name| json!(name)).collect())
}

/// ANS-05.
#[test]
fn a_name_is_spelled_as_in_the_manifest_in_every_answer() {
    let project = PipelineProject::with("true");
    for name in NAMES {
        project.write([&b"in/"[..], name].concat(), "one\n");
    }
    let dir = |list: &Value| {
        let inside = list.as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned());
        // A quoted path is quoted as a whole, directory included.
        sorted(inside.map(|path| json!(path.replacen("in/", "", 1))).collect())
    };
    let args = ["checkpoint", "create", "--scope", "in", "--format", "json"];
    let created = parsed(&project.decree(args).ok().out);
    assert_valid(&created, "checkpoint");
    assert_eq!(dir(&created["checkpoint"]["scope"]["files"]), sorted(within("in/")));
    let id = created["checkpoint"]["id"].as_str().unwrap();
    let manifest: Value =
        serde_json::from_slice(&project.read(format!(".decree/checkpoints/{id}/manifest.json"))).unwrap();
    for path in created["checkpoint"]["scope"]["files"].as_array().unwrap() {
        assert!(manifest["files"].get(path.as_str().unwrap()).is_some(), "{path} is not in the manifest");
    }
    let shown = parsed(&project.decree(["checkpoint", "show", id, "--files", "--format", "json"]).ok().out);
    let paths: Vec<Value> = shown["paths"].as_array().unwrap().clone();
    for path in created["checkpoint"]["scope"]["files"].as_array().unwrap() {
        assert!(paths.contains(path), "{path} in {paths:?}");
    }
    for name in NAMES {
        project.write([&b"in/"[..], name].concat(), "two\n");
    }
    let back = parsed(&project.decree(["rollback", id, "--format", "json"]).ok().out);
    assert_valid(&back, "rollback");
    let files: Vec<Value> =
        back["changes_reverted"].as_array().unwrap().iter().map(|it| it["file"].clone()).collect();
    assert_eq!(sorted(files), sorted(created["checkpoint"]["scope"]["files"].as_array().unwrap().clone()));
    // On a terminal, a name with control characters is quoted.
    for name in NAMES {
        project.write([&b"in/"[..], name].concat(), "two\n");
    }
    let text = project.decree(["rollback", id]).ok();
    assert!(text.err.contains("revert    \"in/a\\tb\"\n") && !text.err.contains("a\tb"), "{}", text.err);
}

/// The names below a directory, with `in/` removed as the test does.
fn within(dir: &str) -> Vec<Value> {
    let spell = |name: &[u8]| {
        let path = [dir.as_bytes(), name].concat();
        let spelled = match std::str::from_utf8(&path) {
            Ok(text) => text.to_owned(),
            Err(_) => "\"in/caf\\351\"".to_owned(),
        };
        json!(spelled.replacen(dir, "", 1))
    };
    NAMES.iter().map(|name| spell(name)).collect()
}

/// ANS-05.
#[test]
fn names_at_the_top_are_told_apart() {
    let project = PipelineProject::with("true");
    for name in NAMES {
        project.write(name, "one\n");
    }
    let args = ["checkpoint", "create", "--format", "json"];
    let created = parsed(&project.decree(args).ok().out);
    let files = created["checkpoint"]["scope"]["files"].as_array().unwrap();
    let found: Vec<Value> = spelled().into_iter().filter(|name| files.contains(name)).collect();
    assert_eq!(found, spelled(), "in {files:?}");
    let id = created["checkpoint"]["id"].as_str().unwrap();
    for name in NAMES {
        project.remove(name);
    }
    let back = parsed(&project.decree(["rollback", id, "--format", "json"]).ok().out);
    let files = back["changes_reverted"].as_array().unwrap().iter().map(|it| it["file"].clone()).collect();
    assert_eq!(sorted(files), spelled());
}

/// ANS-05.
#[test]
fn what_is_in_gits_index_is_a_path_too() {
    let project = crate::kinds::scene::git_stash();
    let id = project.checkpoint();
    crate::kinds::scene::git(&project.project, &["rm", "-q", "--cached", "src/lib.rs"]);
    let back = parsed(&project.project.decree(["rollback", &id, "--format", "json"]).ok().out);
    assert_valid(&back, "rollback");
    let change = &back["changes_reverted"][0];
    assert_eq!((&change["file"], &change["in_index"]), (&json!("src/lib.rs"), &json!(true)), "{back:#}");
    let again = project.checkpoint();
    crate::kinds::scene::git(&project.project, &["rm", "-q", "--cached", "src/lib.rs"]);
    project.project.decree(["rollback", &again]).ok().mentions(&["src/lib.rs (in git's index)"]);
}

/// ANS-05.
#[test]
fn messages_that_wait_are_named_as_they_are() {
    let project = PipelineProject::with("true");
    for name in NAMES {
        project.write([b".decree/inbox/", name, b".md"].concat(), "x\n");
    }
    let status = parsed(&project.decree(["status", "--format", "json"]).ok().out);
    let plan = parsed(&project.decree(["process", "--dry-run", "--format", "json"]).ok().out);
    let expected: Vec<Value> = ["a\tb.md", "\"\\\"a\\\\tb\\\".md\"", "\"caf\\351.md\"", "caf\u{e9}.md"]
        .iter()
        .map(|it| json!(it))
        .collect();
    assert_eq!(sorted(status["inbox"].as_array().unwrap().clone()), sorted(expected.clone()));
    assert_eq!(sorted(plan["messages"].as_array().unwrap().clone()), sorted(expected));
}

/// ANS-05.
#[test]
fn a_quoted_name_and_a_name_that_looks_quoted_differ_in_warnings() {
    let project = PipelineProject::new();
    let id = project.checkpoint();
    project.write(b"caf\xe9", "1\n").write(br#""caf\351""#, "2\n").write(b"a\nb", "3\n");
    let back = parsed(&project.decree(["rollback", &id, "--format", "json"]).ok().out);
    let mut warnings = super::texts(&back["warnings"]);
    warnings.sort_unstable();
    let orphan = |name: &str| format!("Orphaned file detected: {name} (removed)");
    assert_eq!(warnings, [orphan(r#""\"caf\\351\"""#), orphan(r#""a\nb""#), orphan(r#""caf\351""#)]);
}
