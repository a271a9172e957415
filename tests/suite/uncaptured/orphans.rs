//! A routine or a guarded command that goes on after decree was killed, and destroys the repository while the next decree starts.

use std::process::{Child, Command, Stdio};

use super::{git, head, project, repository};
use crate::harness::{assert_same, wait_for};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// Deletes git's objects when it is told to end, and says before that who runs it.
const DESTROY_AT_END: &str = "exec >/dev/null 2>&1; trap 'trap \"\" TERM; rm -rf .git/objects/??; echo x >.decree/destroyed; exit 1' TERM\n\
     echo $PPID >.decree/parent; mv .decree/parent .decree/ready; while :; do sleep 0.05; done";

/// A project with a repository whose objects are loose files.
fn repository_project(routine: &str) -> PipelineProject {
    let project = project(routine);
    repository(project.root());
    git(project.root(), &["add", "notes.txt"]);
    git(project.root(), &["commit", "-q", "-m", "notes"]);
    project
}

fn start(project: &PipelineProject, args: &[&str]) -> Child {
    let mut command = project.command();
    let command = command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    child
}

fn kill_guard(project: &PipelineProject, script: &str) -> String {
    let mut child = start(project, &["guard", "--", "bash", "-c", script]);
    child.kill().unwrap();
    child.wait().unwrap();
    let checkpoints = project.decree(["checkpoint", "list"]).ok().text();
    checkpoints.split_whitespace().find(|word| word.starts_with("chk_")).unwrap().to_owned()
}

fn send(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success(), "{signal} {pid}");
}

/// UNC-60.
#[test]
fn a_guarded_command_that_outlived_decree_is_ended_before_objects_are_restored() {
    let project = repository_project("true");
    let before = head(project.root());
    let checkpoint = kill_guard(&project, DESTROY_AT_END);
    let output = project.decree(["rollback", &checkpoint]).ok();
    assert!(project.exists(".decree/destroyed"), "{}", output.err);
    assert_has(
        &output.err,
        &["that the guarded command had left running", "git objects that were gone are restored"],
    );
    assert_eq!(head(project.root()), before);
    git(project.root(), &["fsck", "--strict"]);
    assert!(!project.exists(".decree/git-objects"), "they are needed no more");
}

/// UNC-60. UNC-61. Neither decree nor its supervisor is left.
#[test]
fn the_objects_of_a_run_keep_their_second_names_until_it_is_settled() {
    let project = repository_project(DESTROY_AT_END);
    let before = head(project.root());
    let mut child = start(&project, &["process"]);
    let supervisor = project.text(".decree/ready").trim().to_owned();
    // A decree that is stopped does not notice that its supervisor is gone.
    send("-STOP", &child.id().to_string());
    send("-KILL", &supervisor);
    child.kill().unwrap();
    child.wait().unwrap();
    let output = project.decree(["checkpoint", "create"]).ok();
    assert!(project.exists(".decree/destroyed"), "{}", output.err);
    assert_has(&output.err, &["had left running", "git objects that were gone are restored"]);
    assert_eq!(head(project.root()), before);
    // Something that the run started and that hides from decree.
    let mut bash = Command::new("bash");
    let delete = bash.args(["-c", "rm -rf .git/objects/??"]).current_dir(project.root());
    assert!(delete.status().unwrap().success());
    project.routine("develop", "true");
    let output = project.process().ok();
    assert_has(&output.err, &["git objects that were gone are restored"]);
    assert_eq!(head(project.root()), before);
    git(project.root(), &["fsck", "--strict"]);
    assert!(!project.exists(".decree/git-objects"), "they are needed no more");
}

/// UNC-62.
#[test]
fn objects_that_are_gone_under_both_names_after_a_kill_are_an_error() {
    let destroy = |names: &str| {
        format!("rm -rf .git/objects/?? {names}; echo x >.decree/ready; while :; do sleep 0.05; done")
    };
    for (names, is_guard) in
        [(".decree/git-objects", true), (".decree/git-objects/0/??", true), (".decree/git-objects/0", false)]
    {
        let destroy = &*destroy(names);
        let project = repository_project(destroy);
        let output = if is_guard {
            let checkpoint = kill_guard(&project, destroy);
            project.decree(["rollback", &checkpoint]).fails(4)
        } else {
            let mut child = start(&project, &["process"]);
            child.kill().unwrap();
            child.wait().unwrap();
            project.routine("develop", "true");
            project.process().fails(4)
        };
        assert_has(&output.err, &[".git: a repository: objects that it needs are gone"]);
    }
}

/// UNC-61.
#[test]
fn second_names_go_when_the_tree_of_a_killed_guard_is_kept() {
    let project = repository_project("true");
    kill_guard(&project, "echo x >.decree/ready; while :; do sleep 0.05; done");
    project.decree(["checkpoint", "create"]).ok();
    assert!(project.exists(".decree/git-objects"));
    project.decree(["recover", "--keep"]).ok();
    assert!(!project.exists(".decree/git-objects"));
}

/// UNC-63.
#[test]
fn a_nested_repository_that_was_renamed_before_a_kill_is_moved_back() {
    for place in ["other", "deep/er/other"] {
        let project = repository_project("true");
        project.write("nested/n", "n\n").write("nested/sub/m", "m\n");
        let nested = project.path("nested");
        repository(&nested);
        git(&nested, &["add", "."]);
        git(&nested, &["commit", "-q", "-m", "n"]);
        let (before, tree) = (head(&nested), project.snapshot());
        let wait = "echo x >.decree/ready; while :; do sleep 0.05; done";
        let checkpoint =
            kill_guard(&project, &format!("mkdir -p deep/er; mv nested {place}; rmdir -p deep/er; {wait}"));
        let output = project.decree(["rollback", &checkpoint]).ok();
        assert_has(&output.err, &["nested/.git had been renamed, and is moved back"]);
        assert_same(&project.snapshot(), &tree);
        assert_eq!(head(&nested), before);
        assert_eq!(git(&nested, &["status", "--porcelain"]), "");
    }
}

/// UNC-63. A link in its place is not followed out of the project.
#[test]
fn a_renamed_repository_is_not_moved_through_a_link() {
    let project = repository_project("true");
    let outside = tempfile::tempdir_in(project.root().parent().unwrap()).unwrap();
    project.write("nested/n", "n\n");
    repository(&project.path("nested"));
    let before = head(&project.path("nested"));
    let link = format!("mv nested other; ln -s {} nested", outside.path().display());
    kill_guard(&project, &format!("{link}; echo x >.decree/ready; while :; do sleep 0.05; done"));
    project.decree(["checkpoint", "create"]).ok();
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(head(&project.path("other")), before, "it is where it was found");
}
