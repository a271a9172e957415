//! What going back saves of the present: everything that it overwrites or removes, whatever the ignore rules say by now.

use std::process::Stdio;

use super::project;
use crate::harness::{assert_same, wait_for};
use crate::killed::{has_strace, kill_before};
use crate::kinds::scene::git;
use crate::pipeline::pipeline_project::PipelineProject;

/// The id of the checkpoint that a command says the present is saved as.
fn saved(words: &str) -> String {
    let mut ids = words.split(['`', ' ', '\n', ';']).filter(|word| word.starts_with("chk_"));
    ids.next_back().expect("no checkpoint is named").to_owned()
}

/// Makes paths ignored that a checkpoint holds, and changes them.
fn ignore_and_change(project: &PipelineProject) {
    project
        .write(".gitignore", "/notes.txt\n/docs/\n")
        .write("src/.decreeignore", "lib.rs\n")
        .write("notes.txt", "PRECIOUS\n")
        .chmod("notes.txt", 0o640)
        .write("docs/guide.md", "PRECIOUS guide\n")
        .write("src/lib.rs", b"PRECIOUS\0\xff");
}

/// RBK-30.
#[test]
fn what_became_ignored_since_is_part_of_the_saved_present() {
    for verb in ["rollback", "revert"] {
        let project = project();
        let before = project.snapshot();
        let id = project.checkpoint();
        ignore_and_change(&project);
        let changed = project.snapshot();
        let output = project.decree([verb, &id]).ok();
        assert_same(&project.snapshot(), &before);
        let present = saved(&output.err);
        project.decree(["checkpoint", "verify", &present]).ok();
        project.decree(["rollback", &present]).ok().mentions(&["verified against"]);
        assert_same(&project.snapshot(), &changed);
        // By the rules of now, no other checkpoint holds them.
        let later = project.checkpoint();
        project.write("notes.txt", "another\n");
        project.decree(["rollback", &later]).ok().mentions(&["the tree matches"]);
        assert_eq!(project.read("notes.txt"), b"another\n");
    }
}

/// RBK-30.
#[test]
fn what_a_guarded_command_ignores_and_changes_is_part_of_the_saved_work() {
    let project = project();
    let before = project.snapshot();
    let script = "echo /notes.txt >.gitignore; echo PRECIOUS >notes.txt; chmod 600 notes.txt; exit 7";
    let output = project.decree(["guard", "--", "bash", "-c", script]).fails(7);
    assert_same(&project.snapshot(), &before);
    project.decree(["rollback", &saved(&output.err)]).ok();
    assert_eq!(project.read("notes.txt"), b"PRECIOUS\n");
}

/// RBK-30.
#[test]
fn what_became_ignored_since_is_part_of_a_saved_stash() {
    let project = project();
    git(&project, &["init", "-q", "-b", "main"]);
    git(
        &project,
        &["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "first"],
    );
    let before = project.snapshot();
    let id = project.decree(["checkpoint", "create", "--type", "git_stash"]).ok().line();
    ignore_and_change(&project);
    let changed = project.snapshot();
    let output = project.decree(["rollback", &id]).ok();
    assert_same(&project.snapshot(), &before);
    project.decree(["rollback", &saved(&output.err)]).ok();
    assert_same(&project.snapshot(), &changed);
}

/// RBK-30. The next command after a kill reverts the run, and names the checkpoint that restores what the run had done.
#[test]
fn what_a_killed_run_ignored_and_changed_is_part_of_the_saved_tree() {
    let project = PipelineProject::with(
        "echo /notes.txt >.gitignore; echo PRECIOUS >notes.txt; echo yes >begun; sleep 600",
    );
    let before = project.snapshot();
    let mut command = project.command();
    let mut child = command
        .args(["run", "-m", "work", "-p", "x"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&project.path("begun"));
    child.kill().unwrap();
    child.wait().unwrap();
    project.routine("develop", "true");
    let output = project.process().ok();
    assert_same(&project.snapshot(), &before);
    project.decree(["revert", &saved(&output.err)]).ok();
    assert_eq!(project.read("notes.txt"), b"PRECIOUS\n");
}

/// RBK-31. The content of a likely secret is never stored; what would be overwritten is moved away and named.
#[test]
fn what_became_a_likely_secret_since_is_set_aside() {
    for verb in ["rollback", "revert"] {
        let project = project();
        let before = project.snapshot();
        let id = project.checkpoint();
        project.config("sensitive:\n  exclude: [notes.txt]\n").write("notes.txt", "hunter2-PRECIOUS\n");
        project.write("src/lib.rs", "other\n");
        let output = project.decree([verb, &id]).ok();
        assert_same(&project.snapshot(), &before);
        let present = saved(&output.err);
        let kept = format!(".decree/checkpoints/{present}/set-aside/notes.txt");
        output.mentions(&["set aside notes.txt", &kept, "restores it, except for what was set aside"]);
        assert_eq!(project.read(&kept), b"hunter2-PRECIOUS\n");
        let found = std::process::Command::new("grep")
            .args(["-rl", "hunter2", ".decree"])
            .current_dir(project.root())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(found.stdout).unwrap(), format!("{kept}\n"));
        // It is the only copy, so nothing deletes it unasked, and going forward again names it.
        project
            .decree(["checkpoint", "delete", &present, "--yes"])
            .fails(1)
            .mentions(&["set-aside/notes.txt"]);
        project.decree(["rollback", &present]).ok().mentions(&[&kept]);
        assert_eq!(
            (project.read("src/lib.rs"), project.read(&kept)),
            (b"other\n".to_vec(), b"hunter2-PRECIOUS\n".to_vec())
        );
    }
}

/// RBK-31. Killed at any move of a file, the rollback is finished or undone by the next command, and the secret is in one place.
#[test]
fn a_rollback_that_sets_a_secret_aside_can_be_killed() {
    if !has_strace() {
        return;
    }
    let mut kills = 0;
    for nth in 1..=60 {
        let project = project();
        let before = project.snapshot();
        let id = project.checkpoint();
        project.config("sensitive:\n  exclude: [notes.txt]\n").write("notes.txt", "hunter2\n");
        project.write("src/lib.rs", "other\n").write("a-first", "x\n").write("z-last", "x\n");
        let changed = project.snapshot();
        if !kill_before(&project, &["rollback", &id], "renameat2", nth) {
            break;
        }
        kills += 1;
        // Any command that changes the project recovers first.
        project.decree(["checkpoint", "create"]).ok();
        let (now, dir) = (project.snapshot(), project.path(".decree/checkpoints"));
        let aside = std::fs::read_dir(dir)
            .unwrap()
            .filter_map(|dir| std::fs::read(dir.unwrap().path().join("set-aside/notes.txt")).ok());
        let aside: Vec<Vec<u8>> = aside.collect();
        if aside.is_empty() {
            assert_same(&now, &changed);
        } else {
            assert_same(&now, &before);
            assert_eq!(aside, [b"hunter2\n"], "killed before move {nth}");
        }
    }
    assert!(kills >= 3, "killed only {kills} times");
}
