//! After decree was killed, the user continues to edit; no edit is lost.

use std::process::Command;

use super::{end_of, process, project, start, tracker, tree, wait_for, wait_until};
use crate::harness::{Project, assert_same};

/// A project whose decree was killed in the middle of a run, with nothing of it left running.
fn cut_off() -> Project {
    let project =
        project("echo half > src/main.rs; rm notes.txt; echo x > new; echo x > .decree/ready; sleep 600\n");
    let mut child = start(&project);
    wait_for(&project.path(".decree/ready"));
    child.kill().unwrap();
    end_of(&mut child);
    let name = project.path("").display().to_string();
    let anybody = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            std::fs::read_link(entry.path().join("cwd"))
                .is_ok_and(|cwd| cwd.display().to_string().starts_with(name.trim_end_matches('/')))
        })
    };
    wait_until("the routine's end", || !anybody());
    project.write(".decree/routines/develop.sh", "echo work > work\n");
    project
}

/// The command that is printed between backquotes.
fn printed(output: &str) -> String {
    let line = output
        .lines()
        .find(|line| line.contains("its state before that is saved"))
        .unwrap_or_else(|| panic!("{output}"));
    line.split('`').nth(1).unwrap().to_owned()
}

/// Runs a command as it was printed.
#[track_caller]
fn run(project: &Project, command: &str) {
    let decree = env!("CARGO_BIN_EXE_decree");
    let dir = std::path::Path::new(decree).parent().unwrap();
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let status = Command::new("sh")
        .args(["-c", command])
        .current_dir(project.root())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(status.status.success(), "{command}: {}", String::from_utf8_lossy(&status.stderr));
}

#[test]
fn what_a_person_did_after_the_kill_comes_back_with_the_printed_command() {
    let project = cut_off();
    project
        .write("src/lib.rs", "mine\n")
        .write("src/main.rs", "half, and mine\n")
        .write("my/own", "file\n")
        .remove("logo.png");
    let mine = tree(&project);
    let output = process(&project).ok();
    assert_eq!(
        tracker(&project),
        ["01-work.spec.md"],
        "the message was carried out on the tree as it had been"
    );
    assert_eq!(project.read("src/lib.rs"), b"one\ntwo\nthree\n");
    assert_eq!(project.read("work"), b"work\n");
    let work = tree(&project);
    run(&project, &printed(&output.err));
    assert_same(&tree(&project), &mine);
    // And the way back is as good.
    let id = printed(&output.err).rsplit(' ').next().unwrap().to_owned();
    project.decree(["apply", &id]).ok();
    assert_same(&tree(&project), &work);
}

#[test]
fn looking_changes_nothing_before_the_run_is_settled() {
    let project = cut_off();
    project.write("src/lib.rs", "mine\n");
    let mine = project.snapshot();
    project.decree(["status"]).ok().mentions(&["was interrupted"]);
    project.decree(["checkpoint", "list"]).ok();
    assert_same(&project.snapshot(), &mine);
    assert!(project.exists(".decree/running.json"));
    // A checkpoint is none of the run's business, and does not settle it.
    let id = project.checkpoint();
    assert_same(&project.snapshot(), &mine);
    process(&project).ok();
    project.decree(["revert", &id]).ok();
    assert_same(&tree(&project), &{
        let mut tree = mine.clone();
        tree.remove(&b"specs/processed-spec.md"[..]);
        tree
    });
}

#[test]
fn a_run_whose_traces_a_person_removed_is_settled_without_fuss() {
    let project = cut_off();
    project.write("src/main.rs", "fn main() {}\n").write("notes.txt", "notes\n").remove("new");
    let output = process(&project).ok();
    assert!(!output.err.contains("is saved"), "{}", output.err);
    assert_eq!(tracker(&project), ["01-work.spec.md"]);
}

#[test]
fn a_damaged_note_of_what_was_running_is_an_error_that_says_what_to_do() {
    let project = cut_off();
    // With its copy in there, it would be restored.
    project.remove(".decree/held.json");
    let before = project.snapshot();
    for damage in [
        "",
        "{",
        "{}",
        "{\"version\":1,\"id\":\"../../x\",\"file\":\"x\",\"mark\":\"\",\"started_at\":\"\",\"inbox\":[]}",
    ] {
        project.write(".decree/running.json", damage);
        let output = process(&project).fails(4);
        assert!(output.err.contains("running.json"), "{}", output.err);
        assert_same(&project.snapshot(), &before);
    }
}
