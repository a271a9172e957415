//! Bad input, hostile routines, a failing machine, and kills at any moment. Afterwards the tree is as it was or as requested,
//! the queue is complete, and the output says what happened.

mod busy;
mod concurrent_edits;
mod escapes;
mod forged_cache;
mod input;
mod killed;
mod machine;
mod many_files;
mod open_writers;
mod output;
mod own_bytes;
mod own_files;
mod planted;
mod queue;
mod routines;
mod settling;
mod signals;
mod surroundings;
mod user_edits;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::harness::{CommandOutput, Project, TreeSnapshot, wait_for, wait_until};

/// A project with a few files, one routine (`develop`) and one spec; a routine that fails is not tried again.
fn project(routine: &str) -> Project {
    let project = Project::new();
    project
        .write("src/main.rs", "fn main() {}\n")
        .write("src/lib.rs", "one\ntwo\nthree\n")
        .write("notes.txt", "notes\n")
        .write("logo.png", b"\0PNG\xff\xfe")
        .write("bin/run", "#!/bin/sh\n")
        .chmod("bin/run", 0o755)
        .write("specs/01-work.spec.md", "Do the work.\n")
        .write(".decree/config.yml", "max_retries: 0\n")
        .write(".decree/routines/develop.sh", routine);
    project
}

/// Everything that a failing routine may do to the tree, but for its end.
const VANDALISM: &str = "echo broken > src/main.rs; rm notes.txt; mkdir -p new/deep; echo x > new/deep/file; \
     chmod 600 bin/run; ln -s nowhere dangling; printf '\\0\\1' > logo.png\n";

fn process(project: &Project) -> CommandOutput {
    project.decree(["process"])
}

/// Starts `decree process`, and does not wait for it.
fn start(project: &Project) -> Child {
    project.command().arg("process").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The tree without the list of what is processed, which is decree's own.
fn tree(project: &Project) -> TreeSnapshot {
    let mut tree = project.snapshot();
    tree.remove(&b"specs/processed-spec.md"[..]);
    tree
}

/// The specs that are processed.
fn tracker(project: &Project) -> Vec<String> {
    let text = fs::read_to_string(project.path("specs/processed-spec.md")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The messages in a directory of the queue, with their texts.
fn letters(project: &Project, dir: &str) -> BTreeMap<String, String> {
    let mut letters = BTreeMap::new();
    for entry in fs::read_dir(project.path(dir)).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_file() {
            let name = entry.file_name().to_string_lossy().into_owned();
            letters.insert(name, String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned());
        }
    }
    letters
}

fn dead(project: &Project) -> BTreeMap<String, String> {
    letters(project, ".decree/inbox/dead")
}

fn done(project: &Project) -> BTreeMap<String, String> {
    letters(project, ".decree/inbox/done")
}

fn inbox(project: &Project) -> BTreeMap<String, String> {
    letters(project, ".decree/inbox")
}

/// The one dead letter there is.
#[track_caller]
fn only_dead(project: &Project) -> String {
    let dead = dead(project);
    assert_eq!(dead.len(), 1, "{dead:?}");
    dead.into_values().next().unwrap()
}

/// `summary.json`.
#[track_caller]
fn summary(project: &Project) -> Value {
    serde_json::from_slice(&project.read(".decree/summary.json")).unwrap()
}

/// The verdict of each message of the last command, in order.
#[track_caller]
fn verdicts(project: &Project) -> Vec<String> {
    let summary = summary(project);
    let messages = summary["messages"].as_array().unwrap().iter();
    messages.map(|message| message["verdict"].as_str().unwrap().to_owned()).collect()
}

/// The directory of the only run, relative to the project.
#[track_caller]
fn only_run(project: &Project) -> String {
    let runs = fs::read_dir(project.path(".decree/runs")).unwrap();
    let runs: Vec<_> = runs.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    format!(".decree/runs/{}", runs[0])
}

/// The run's `result.json`.
#[track_caller]
fn result(project: &Project) -> Value {
    serde_json::from_slice(&project.read(format!("{}/result.json", only_run(project)))).unwrap()
}

/// The end of a child, which has to come.
#[track_caller]
fn end_of(child: &mut Child) -> std::process::ExitStatus {
    wait_until("the end of decree", || child.try_wait().unwrap().is_some());
    child.wait().unwrap()
}
