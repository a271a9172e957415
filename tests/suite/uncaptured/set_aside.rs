//! A rollback leaves likely secrets where they are, and nothing that was set aside is deleted unnamed.

use super::project;
use crate::harness::{Project, assert_same};
use crate::pipeline::pipeline_project::assert_has;

/// UNC-18.
#[test]
fn a_rollback_leaves_newer_likely_secrets_where_they_are() {
    let project = project("true");
    let id = project.checkpoint();
    let before = project.snapshot();
    project.write(".env.local", "LOCAL=1\n").write("notes.txt", "changed\n");
    project.write("new/.env", "NEW=1\n").write("new/file", "x\n").write("only/.env", "ONLY=1\n");
    project.chmod("only", 0o700).write(".env", "KEY=rotated\n");
    let output = project.decree(["rollback", &id]).ok();
    let newer = "likely secrets that are newer than the checkpoint stay where they are";
    assert_has(&output.err, &[&format!("{newer}: .env.local, new/.env, only/.env")]);
    assert_eq!(project.read("notes.txt"), before_bytes(&before, "notes.txt"));
    assert!(!project.exists("new/file"));
    let secrets = [(".env.local", "LOCAL=1\n"), ("new/.env", "NEW=1\n"), ("only/.env", "ONLY=1\n")];
    for (path, text) in secrets.into_iter().chain([(".env", "KEY=rotated\n")]) {
        assert_eq!(project.text(path), text);
    }
    let answer = project.decree(["rollback", &id, "--format", "json"]).ok().text();
    assert_has(&answer, &[newer, r#""match": true"#]);
    // And back to the present that was saved.
    let saved = output.err.split("decree rollback ").nth(1).unwrap().split('`').next().unwrap();
    project.decree(["rollback", saved]).ok();
    assert_eq!((project.text("new/file"), project.text("new/.env")), ("x\n".into(), "NEW=1\n".into()));
}

fn before_bytes(tree: &crate::harness::TreeSnapshot, path: &str) -> Vec<u8> {
    match &tree[path.as_bytes()] {
        crate::harness::TreeEntry::File { bytes, .. } => bytes.clone(),
        other => panic!("{other:?}"),
    }
}

/// A checkpoint that holds the only copy of a file that a rollback moved out of the way.
fn with_set_aside(project: &Project) -> String {
    let id = project.checkpoint();
    project.write(".gitignore", "/hidden\n").write("hidden", "only copy\n");
    let output = project.decree(["rollback", &id]).ok();
    let saved = output.err.split("decree rollback ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    assert_eq!(std::fs::read(project.record(&saved, "set-aside/hidden")).unwrap(), b"only copy\n");
    saved
}

/// UNC-19.
#[test]
fn a_checkpoint_with_the_only_copy_of_something_is_not_deleted_unnamed() {
    let project = Project::new();
    project.write("file", "x\n");
    let saved = with_set_aside(&project);
    let other = project.checkpoint();
    let output = project.decree(["checkpoint", "delete", "--yes", &other, &saved]).fails(1);
    assert_has(&output.err, &["set-aside/hidden", "nothing was deleted", "--with-set-aside"]);
    assert!(project.record(&other, "manifest.json").exists(), "nothing was deleted");
    assert_eq!(std::fs::read(project.record(&saved, "set-aside/hidden")).unwrap(), b"only copy\n");
    let output = project.decree(["rollback", &saved]).ok();
    assert_has(&output.err, &["stays where it is: ", "set-aside/hidden"]);
    project.decree(["checkpoint", "delete", "--yes", "--with-set-aside", &saved]).ok();
    assert!(!project.record(&saved, "").exists());
}

/// UNC-19.
#[test]
fn gc_keeps_an_expired_checkpoint_with_the_only_copy_of_something() {
    let project = Project::new();
    project.write("file", "x\n");
    let before = project.snapshot();
    let saved = with_set_aside(&project);
    crate::gc::expire(&project, &saved);
    for dry in [&["--dry-run"][..], &[]] {
        let output = project.decree([&["checkpoint", "gc"][..], dry].concat()).ok();
        assert_has(&output.err, &[&saved, "only copy of set-aside/hidden", "--with-set-aside"]);
        assert!(!output.text().contains(&saved), "{}", output.text());
    }
    let answer = project.decree(["checkpoint", "gc", "--format", "json"]).ok().text();
    assert_has(&answer, &["kept_for_set_aside", "set-aside/hidden"]);
    assert_eq!(std::fs::read(project.record(&saved, "set-aside/hidden")).unwrap(), b"only copy\n");
    assert_same(&project.snapshot(), &before);
}
