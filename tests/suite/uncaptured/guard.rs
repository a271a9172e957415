//! The same around a guarded command.

use std::fs;

use super::{EMPTY_AND_REMOVE, WORD, head, holding, project, repository};
use crate::harness::assert_same;
use crate::pipeline::pipeline_project::assert_has;

const WRECKS: &str = "rm .env; rm -rf secrets; echo other >id_rsa; echo new >.env.local; echo x >>notes.txt";

/// UNC-11.
#[test]
fn a_guarded_command_that_fails_gives_likely_secrets_back_and_names_them() {
    let project = project("true");
    let before = project.snapshot();
    let script = format!("{WRECKS}; exit 3");
    let output = project.decree(["guard", "--", "bash", "-c", &script]).fails(3);
    assert_same(&project.snapshot(), &before);
    assert_has(
        &output.err,
        &[
            "left out of the checkpoint as likely secrets: .env, id_rsa, secrets/.env",
            ".env was deleted; it is restored",
            "secrets/.env was deleted; it is restored",
            "id_rsa was changed; it is restored",
            ".env.local was made; it is a likely secret, and is now ",
        ],
    );
    assert_eq!(holding(&project, WORD), [""; 0], "a secret is on decree's disk");
    let set_aside = output.err.split("and is now ").nth(1).unwrap().lines().next().unwrap();
    assert_eq!(fs::read(set_aside).unwrap(), b"new\n");
}

/// UNC-11.
#[test]
fn a_guarded_command_that_succeeds_keeps_what_it_did_and_names_likely_secrets() {
    let project = project("true");
    let output = project.decree(["guard", "--", "bash", "-c", WRECKS]).ok();
    assert!(!project.exists(".env"));
    assert_eq!(project.read("id_rsa"), b"other\n");
    assert_has(
        &output.err,
        &[".env was deleted; it is", "id_rsa was changed; it is", ".env.local was made; it is", "secrets"],
    );
}

/// UNC-12.
#[test]
fn a_guarded_command_must_not_remove_a_repository() {
    let project = project("true");
    let commit = repository(project.root());
    project.write("target/debug/bin", "built\n");
    let before = project.snapshot();
    for (script, code) in [
        ("mv .git .git.bak; mv target elsewhere; exit 1", 1),
        ("mv .git .git.bak", 1),
        ("mv .git .git.bak; git init -q .", 1),
    ] {
        let output = project.decree(["guard", "--", "bash", "-c", script]).fails(code);
        assert_same(&project.snapshot(), &before);
        assert_eq!(head(project.root()), commit, "{script}");
        assert_has(&output.err, &["renamed, and moved back: .git"]);
    }
    let output = project.decree(["guard", "--", "bash", "-c", "rm -rf .git"]).fails(1);
    assert_has(&output.err, &["`bash -c 'rm -rf .git'` succeeded, but .git is gone", "restored: .git"]);
    assert_eq!(head(project.root()), commit);
    project.decree(["guard", "--", "bash", "-c", "rm -rf .git .decree; exit 3"]).fails(3);
    assert_eq!(head(project.root()), commit);
    super::git(project.root(), &["fsck", "--strict"]);
    let output = project.decree(["guard", "--", "bash", "-c", EMPTY_AND_REMOVE]).fails(4);
    assert_has(&output.err, &["succeeded, but .git is gone", "NOT restored: .git"]);
    let output = project.decree(["guard", "--", "bash", "-c", "rm -rf target; exit 1"]).fails(4);
    assert_has(&output.err, &["NOT restored: target (ignored: it was deleted)"]);
    assert!(!output.err.contains("the tree is as it was"), "{}", output.err);
}

/// What the scope of a guard does not cover stays as the command left it.
#[test]
fn a_scope_limits_which_likely_secrets_come_back() {
    let project = project("true");
    let script = "rm .env tls/server.pem; exit 1";
    project.decree(["guard", "--scope", "tls", "--", "bash", "-c", script]).fails(1);
    assert!(!project.exists(".env"));
    assert!(project.exists("tls/server.pem"));
}

/// UNC-11. What a scope leaves as it is, is named.
#[test]
fn what_is_out_of_the_scope_and_not_restored_is_named() {
    let project = project("true");
    project.write("src/a.txt", "a\n").write("target/app", "built\n");
    let script = "rm .env; mv target other; echo x >>src/a.txt; exit 1";
    let output = project.decree(["guard", "--scope", "src", "--", "bash", "-c", script]).fails(1);
    assert_has(
        &output.err,
        &[
            ".env was deleted; it is a likely secret out of the scope, and stays so",
            "target, which is out of the scope, is not restored: it is at ",
        ],
    );
    assert_eq!(project.text("src/a.txt"), "a\n");
}
