//! More of decree's own files than fit into memory or into a process's open files: all of them come back.

use std::process::Command;

use super::{inbox, only_run, project};
use crate::harness::{CommandOutput, Project, assert_same, run_command, snapshot};
use crate::revert::binary::noise;

const MESSAGES: usize = 6_000;
const MANIFESTS: u64 = 130;

/// A project with more waiting messages and larger manifests than decree ever held.
fn crowded(routine: &str) -> Project {
    let project = project(routine);
    for n in 0..MESSAGES {
        project.write(format!(".decree/inbox/m{n}.md"), format!("---\nroutine: other\n---\nMessage {n}.\n"));
    }
    for n in 0..MANIFESTS {
        project.write(format!(".decree/checkpoints/chk_{n}/manifest.json"), noise(263_000, n));
    }
    project
}

fn decree_limited(project: &Project, limits: &str, args: &[&str]) -> CommandOutput {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]);
    command.arg(project.command().get_program()).args(args);
    command.current_dir(project.root()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    run_command(&mut command)
}

/// HLD-01. Once with descriptors for all of them, once with too few.
#[test]
fn all_messages_and_manifests_come_back_after_a_guarded_command_deleted_them() {
    for limits in ["true", "ulimit -n 64"] {
        let project = crowded("true\n");
        for dir in [".decree/inbox/done", ".decree/inbox/dead"] {
            project.mkdir(dir).chmod(dir, 0o700);
        }
        let before = project.snapshot();
        let queue = snapshot(&project.path(".decree/inbox"));
        let args = ["guard", "--", "bash", "-c", "rm -rf .decree src; exit 1"];
        decree_limited(&project, limits, &args).fails(1).mentions(&["of decree's own; restored"]);
        assert_same(&project.snapshot(), &before);
        assert_same(&snapshot(&project.path(".decree/inbox")), &queue);
        for n in 0..MANIFESTS {
            let manifest = project.read(format!(".decree/checkpoints/chk_{n}/manifest.json"));
            assert!(manifest == noise(263_000, n), "{limits}: manifest {n}");
        }
    }
}

/// HLD-01.
#[test]
fn all_messages_and_manifests_come_back_after_a_routine_deleted_them() {
    let project = crowded("rm -rf .decree src\nexit 1\n");
    let before = project.snapshot();
    project.decree(["process", "--spec", "01-*"]).fails(1);
    assert_same(&project.snapshot(), &before);
    let waiting = inbox(&project);
    assert_eq!(waiting.len(), MESSAGES);
    for n in 0..MESSAGES {
        assert_eq!(waiting[&format!("m{n}.md")], format!("---\nroutine: other\n---\nMessage {n}.\n"));
    }
    for n in 0..MANIFESTS {
        let manifest = project.read(format!(".decree/checkpoints/chk_{n}/manifest.json"));
        assert!(manifest == noise(263_000, n), "manifest {n}");
    }
}

/// HLD-05.
#[test]
fn an_earlier_run_can_be_reverted_after_a_routine_deleted_its_directory() {
    let project = project("echo work >work.txt\n");
    project.decree(["process"]).ok();
    let run = only_run(&project);
    let id = run.rsplit('/').next().unwrap().to_owned();
    let records = ["message.md", "manifest.json", "changes.diff", "result.json"];
    let before = records.map(|name| project.read(format!("{run}/{name}")));
    project.write(".decree/routines/develop.sh", "rm -rf .decree\nexit 1\n");
    project.write("specs/02-more.spec.md", "More.\n");
    let words = "the directories of 1 earlier run; their messages, diffs and results are restored, their logs are lost";
    project.decree(["process"]).fails(1).mentions(&[words]);
    assert_eq!(records.map(|name| project.read(format!("{run}/{name}"))), before);
    assert!(!project.exists(format!("{run}/routine.log")));
    project.decree(["revert", &id]).ok();
    assert!(!project.exists("work.txt"));
    // A directory that is emptied is as good as gone; further back than the latest thousand, so is the run.
    for n in 0..1_005 {
        let run = format!(".decree/runs/2020010100{n:04}00-0");
        project.write(format!("{run}/result.json"), "{}").write(format!("{run}/message.md"), "old\n");
    }
    project.write(".decree/routines/develop.sh", "rm -rf .decree/runs/2020*/*\nexit 1\n");
    let output = project.decree(["process"]).fails(4);
    output.mentions(&[
        "the directories of 7 earlier runs; they are lost",
        "the directories of 998 earlier runs; their",
        "error: a failed run left something that is not restored",
        ".decree/runs: the routine deleted the records of 7 earlier runs",
    ]);
}
