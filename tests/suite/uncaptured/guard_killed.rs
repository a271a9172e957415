//! A guarded command whose decree was killed.

use std::process::Stdio;

use super::{git, head, project, repository};
use crate::harness::{CommandOutput, wait_for, wait_until};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// A project whose guard was killed, with the commit before, the checkpoint, and the process that goes on.
struct KilledGuard {
    project: PipelineProject,
    commit: String,
    checkpoint: String,
    survivor: u32,
}

impl KilledGuard {
    fn new() -> KilledGuard {
        let project = project("echo x >>notes.txt");
        repository(project.root());
        git(project.root(), &["add", "notes.txt"]);
        git(project.root(), &["commit", "-qm", "notes"]);
        let commit = head(project.root());
        let script = "rm .env; echo agent >notes.txt; git add notes.txt\n\
             git -c user.name=a -c user.email=a@b commit -qm agent; echo $$ >.decree/pid.tmp; mv .decree/pid.tmp .decree/pid\n\
             while :; do sleep 0.05; echo more >>notes.txt; done";
        let mut command = project.command();
        let command = command.args(["guard", "--", "bash", "-c", script]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for(&project.path(".decree/pid"));
        child.kill().unwrap();
        child.wait().unwrap();
        let pid = project.text(".decree/pid").trim().parse().unwrap();
        let checkpoints = project.decree(["checkpoint", "list"]).ok().text();
        let is_id = |word: &&str| word.starts_with("chk_");
        let checkpoint = checkpoints.split_whitespace().find(is_id).unwrap().to_owned();
        KilledGuard { project, commit, checkpoint, survivor: pid }
    }

    fn assert_rolled_back(&self, output: &CommandOutput) {
        assert_has(&output.err, &["NOT restored: .env (a likely secret: it was deleted"]);
        assert_eq!(head(self.project.root()), self.commit, "{}", output.err);
        assert_eq!(git(self.project.root(), &["diff", "--cached", "--name-only"]), "");
        assert_eq!(self.project.text("notes.txt"), "one\r\ntwo\n");
        let output = self.project.process().ok();
        assert!(!output.err.contains("guarded"), "{}", output.err);
    }
}

/// UNC-35. UNC-36.
#[test]
fn nothing_starts_after_a_killed_guard_until_its_checkpoint_is_rolled_back_to() {
    let guard = KilledGuard::new();
    let project = &guard.project;
    for _ in 0..2 {
        let output = project.process().fails(1);
        assert_has(
            &output.err,
            &[
                "decree was killed or stopped while it guarded",
                &format!("decree rollback {}", guard.checkpoint),
            ],
        );
        assert!(project.runs().is_empty(), "a run was started");
    }
    // In a container there may be no init that collects it: a process without arguments has ended, too.
    let arguments = format!("/proc/{}/cmdline", guard.survivor);
    wait_until("the command has ended", || {
        std::fs::read(&arguments).is_ok_and(|all| all.is_empty())
            || !std::path::Path::new(&arguments).exists()
    });
    let output = project.decree(["rollback", &guard.checkpoint]).fails(4);
    guard.assert_rolled_back(&output);
}

/// UNC-53.
#[test]
fn a_dry_run_after_a_killed_guard_says_that_git_is_restored_too() {
    let guard = KilledGuard::new();
    let output = guard.project.decree(["rollback", "--dry-run", &guard.checkpoint]).ok();
    assert_has(&output.err, &["git's HEAD was at ", "the rollback takes it back, too", &guard.commit[..10]]);
    assert!(!output.err.contains("moves no branch"), "{}", output.err);
    assert_ne!(head(guard.project.root()), guard.commit, "nothing was done");
    let output = guard.project.decree(["rollback", &guard.checkpoint]).fails(4);
    guard.assert_rolled_back(&output);
}

/// UNC-54.
#[test]
fn a_damaged_record_of_a_guard_blocks_like_a_whole_one() {
    for (name, text) in [("guarding", ""), ("guarding", "{\"checkpoint\": 7}"), ("guard-failed", "garbage")] {
        let project = project("echo x >>notes.txt");
        let checkpoint = project.checkpoint();
        project.write("notes.txt", "half done\n").write(format!(".decree/{name}.json"), text);
        let words = [
            &format!(".decree/{name}.json is damaged"),
            "a command under `decree guard` may have been cut off",
            "`decree checkpoint list`",
            "`decree recover --keep`",
        ];
        let commands: [&[&str]; 4] =
            [&["process"], &["run", "-p", "x"], &["guard", "--", "true"], &["publish"]];
        for args in commands {
            assert_has(&project.decree(args).fails(1).err, &words);
        }
        assert!(project.runs().is_empty(), "a run was started");
        assert_has(&project.decree(["status"]).ok().err, &words);
        assert_has(&project.decree(["rollback", &checkpoint]).ok().err, &words);
        assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
        project.process().fails(1);
        project.decree(["recover", "--keep"]).ok();
        project.process().ok();
    }
}

/// MSG-63.
#[test]
fn waiting_messages_that_a_killed_guard_deleted_are_restored_with_the_tree() {
    let project = project("true");
    project.write(".decree/inbox/other.md", "---\nroutine: develop\n---\nother\n");
    let script = "rm -rf .decree/inbox; echo x >.decree/ready; while :; do sleep 0.05; done";
    let mut command = project.command();
    let command = command.args(["guard", "--", "bash", "-c", script]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    let checkpoints = project.decree(["checkpoint", "list"]).ok().text();
    let checkpoint = checkpoints.split_whitespace().find(|word| word.starts_with("chk_")).unwrap().to_owned();
    let output = project.decree(["rollback", &checkpoint]).ok();
    assert_has(&output.err, &["are in the inbox again: other.md"]);
    assert_eq!(project.text(".decree/inbox/other.md"), "---\nroutine: develop\n---\nother\n");
}

/// UNC-36.
#[test]
fn recover_after_a_killed_guard_names_the_lost_secret_and_restores_git() {
    let guard = KilledGuard::new();
    let output = guard.project.decree(["recover"]).fails(4);
    assert_has(&output.text(), &["not restored: .env"]);
    guard.assert_rolled_back(&output);
}

/// UNC-36.
#[test]
fn a_revert_to_the_checkpoint_of_a_killed_guard_does_the_same() {
    let guard = KilledGuard::new();
    let output = guard.project.decree(["revert", &guard.checkpoint]).fails(4);
    guard.assert_rolled_back(&output);
}

/// UNC-35.
#[test]
fn the_tree_that_a_killed_guard_left_can_be_kept() {
    let guard = KilledGuard::new();
    let project = &guard.project;
    project.decree(["recover", "--keep"]).ok().mentions(&["stays as the guarded command left it"]);
    assert!(project.text("notes.txt").starts_with("agent\n"));
    let output = project.process().ok();
    assert!(!output.err.contains("guarded"), "{}", output.err);
}

/// UNC-41.
#[test]
fn a_guarded_command_that_cannot_be_executed_is_126_and_one_that_is_missing_127() {
    let project = project("true");
    project.decree(["guard", "--", "./notes.txt"]).fails(126).mentions(&["Permission denied"]);
    project.decree(["guard", "--", "./missing"]).fails(127).mentions(&["No such file"]);
}

/// UNC-37.
#[test]
fn a_revert_to_a_checkpoint_leaves_newer_likely_secrets_where_they_are_and_names_them() {
    let project = project("true");
    let checkpoint = project.checkpoint();
    project.write(".env.local", "NEW=1\n").write("new/id_ed25519", "key\n").write("notes.txt", "other\n");
    let output = project.decree(["revert", &checkpoint]).ok();
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
    assert_eq!(
        (project.text(".env.local"), project.text("new/id_ed25519")),
        ("NEW=1\n".into(), "key\n".into())
    );
    assert_has(&output.err, &["stay where they are: .env.local, new/id_ed25519"]);
    assert!(!output.err.contains("set aside"), "{}", output.err);
}
