//! The objects of a repository that is removed with all names of them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use super::{git, head, project};
use crate::harness::{assert_same, run_command, skip, snapshot};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};
use crate::revert::{as_nobody, hand_over};

/// Runs decree with few descriptors.
fn with_limit(project: &PipelineProject, args: &[&str]) -> crate::harness::CommandOutput {
    let decree = project.command();
    let mut command = std::process::Command::new("bash");
    command.args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\""]).arg(decree.get_program()).args(args);
    command.current_dir(project.root()).env_clear();
    for (name, value) in decree.get_envs() {
        value.map(|value| command.env(name, value));
    }
    run_command(&mut command)
}

/// A commit with more objects than can be open.
fn many_objects(project: &PipelineProject) -> String {
    git(project.root(), &["init", "-q"]);
    for number in 0..300 {
        project.write(format!("many/{number}"), format!("{number}\n"));
    }
    git(project.root(), &["add", "many", "notes.txt"]);
    git(project.root(), &["commit", "-q", "-m", "many"]);
    head(project.root())
}

fn objects(dir: &Path) -> crate::harness::TreeSnapshot {
    snapshot(&dir.join(".git/objects"))
}

/// UNC-83.
#[test]
fn any_number_of_small_objects_is_restored_with_the_repository() {
    for end in ["exit 1", "exit 0"] {
        let script = format!("rm -rf .git .decree; {end}");
        let project = project(&script);
        let commit = many_objects(&project);
        let (before, objects_before) = (project.snapshot(), objects(project.root()));
        for args in [&["guard", "--", "bash", "-c", &script][..], &["process"]] {
            let output = with_limit(&project, args).fails(1);
            assert_same(&project.snapshot(), &before);
            assert_same(&objects(project.root()), &objects_before);
            assert_eq!(head(project.root()), commit);
            git(project.root(), &["fsck", "--strict"]);
            assert!(!output.err.contains("NOT restored"), "{}", output.err);
        }
    }
}

/// UNC-84. An object that was emptied is so under every name.
#[test]
fn settings_and_refs_are_written_back_also_if_objects_were_overwritten() {
    let project = project("true");
    let commit = many_objects(&project);
    project.write(".git/hooks/pre-push", "#!/bin/sh\n");
    let object = object(&commit);
    let script = format!("chmod u+w {object}; : >{object}; rm -rf .git .decree; exit 1");
    let output = with_limit(&project, &["guard", "--", "bash", "-c", &script]).fails(4);
    assert_has(&output.err, &["NOT restored: .git/objects", "1 objects are gone"]);
    assert_written_back(&project, &output.err, &commit);
}

/// UNC-84. Objects of another user can neither be linked nor read.
#[test]
fn settings_and_refs_are_written_back_also_if_objects_could_not_be_held() {
    if !skip::as_root() {
        return;
    }
    let project = project("true");
    let commit = many_objects(&project);
    project.write(".git/hooks/pre-push", "#!/bin/sh\n");
    let blob = project.path(object(&git(project.root(), &["rev-parse", "HEAD:notes.txt"])));
    hand_over(project.root());
    fs::set_permissions(&blob, fs::Permissions::from_mode(0o400)).unwrap();
    chown(&blob, Some(0), Some(0)).unwrap();
    let script = "rm -rf .git .decree; exit 1";
    let output = as_nobody(&project, &["guard", "--", "bash", "-c", script]).fails(4);
    assert_has(&output.err, &["cannot be restored after a failure: 1 of .git/objects"]);
    assert_has(&output.err, &["NOT restored: .git/objects", "1 objects are gone"]);
    assert_written_back(&project, &output.err, &commit);
}

fn object(hash: &str) -> String {
    format!(".git/objects/{}/{}", &hash[..2], &hash[2..])
}

fn assert_written_back(project: &PipelineProject, err: &str, commit: &str) {
    assert!(!err.contains(".git (a repository: it was deleted)"), "{err}");
    assert_eq!(project.read(".git/hooks/pre-push"), b"#!/bin/sh\n");
    assert_eq!(git(project.root(), &["rev-parse", "HEAD"]), commit);
    assert!(fs::read_dir(project.path(".git/objects")).unwrap().count() > 100);
}
