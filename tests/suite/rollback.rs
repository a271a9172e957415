//! `rollback` and `guard`, and their audit entries.

mod answers;
mod audit;
pub mod contract;
mod guard;
mod present;
mod refusing;

use crate::harness::{Project, assert_same};
use crate::pipeline::pipeline_project::PipelineProject;

/// A tree with something of every kind.
pub fn project() -> PipelineProject {
    let project = PipelineProject::new();
    project
        .write("src/main.rs", "fn main() {}\n")
        .write("src/lib.rs", "// lib\n")
        .write("src/gone.rs", "gone\n");
    project
}

/// Changes it in every way.
pub fn change_everything(project: &Project) {
    project
        .write("src/main.rs", "fn main() { panic!() }\n")
        .remove("src/gone.rs")
        .write("src/new/orphan.rs", "orphan\n")
        .write("notes.txt", "one\r\nanother\n")
        .write("image.bin", b"\0other\xff")
        .chmod("tool.sh", 0o700)
        .remove("docs")
        .write("docs", "a file now\n")
        .remove("link")
        .link("link", "elsewhere")
        .remove("empty")
        .mkdir("made");
}

/// RBK-01.
#[test]
fn everything_is_as_it_was() {
    let project = project();
    let before = project.snapshot();
    let id = project.checkpoint();
    change_everything(&project);
    let output = project.decree(["rollback", &id]).ok();
    assert_same(&project.snapshot(), &before);
    output.mentions(&[
        "revert    src/main.rs",
        "restore   src/gone.rs",
        "remove    src/new/orphan.rs",
        "verified against",
    ]);
}

/// RBK-02.
#[test]
fn a_rollback_can_be_rolled_back() {
    let project = project();
    let before = project.snapshot();
    let id = project.checkpoint();
    change_everything(&project);
    let changed = project.snapshot();
    let output = project.decree(["rollback", &id]).ok();
    let saved =
        output.err.split('`').find_map(|word| word.strip_prefix("decree rollback ")).unwrap().to_owned();
    project.decree(["rollback", &saved]).ok();
    assert_same(&project.snapshot(), &changed);
    project.decree(["rollback", &id]).ok();
    assert_same(&project.snapshot(), &before);
}

/// RBK-03.
#[test]
fn outside_of_its_scope_nothing_is_touched() {
    let project = project();
    let before = project.snapshot();
    let id = project.checkpoint();
    change_everything(&project);
    let changed = project.snapshot();
    project.decree(["rollback", &id, "--scope", "src", "--scope", "*.bin"]).ok();
    let now = project.snapshot();
    let within = |path: &str| path.starts_with("src") || path == "image.bin";
    for (path, entry) in &now {
        let path_text = String::from_utf8_lossy(path);
        let expected = if within(&path_text) { before.get(path) } else { changed.get(path) };
        assert_eq!(Some(entry), expected, "{path_text}");
    }
    assert!(project.exists("src/gone.rs") && !project.exists("src/new") && project.exists("made"));
    // From within a directory, a path is meant from there.
    project.write("src/lib.rs", "changed\n").write("lib.rs", "mine\n");
    let src = project.path("src");
    project.decree(["-C", src.to_str().unwrap(), "rollback", &id, "--scope", "lib.rs"]).ok();
    assert_eq!(
        (project.read("src/lib.rs"), project.read("lib.rs")),
        (b"// lib\n".to_vec(), b"mine\n".to_vec())
    );
}

/// RBK-04.
#[test]
fn a_dry_run_does_nothing() {
    let project = project();
    let id = project.checkpoint();
    change_everything(&project);
    let changed = project.snapshot();
    let dry = project.decree(["rollback", &id, "--dry-run"]).ok().mentions(&["would be rolled back"]);
    assert!(dry.text().contains("restore   src/gone.rs"), "{}", dry.text());
    assert_same(&project.snapshot(), &changed);
    assert_eq!(project.names(".decree/checkpoints"), [id]);
    assert!(!project.exists(".decree/audit.jsonl"));
}

/// RBK-07.
#[test]
fn if_nothing_differs_nothing_is_done() {
    let project = project();
    let id = project.checkpoint();
    project.decree(["rollback", &id]).ok().mentions(&["the tree matches"]);
    assert_eq!(project.names(".decree/checkpoints"), [id]);
    assert!(!project.exists(".decree/audit.jsonl"));
}

/// RBK-01.
#[test]
fn the_tree_of_before_a_run_is_a_checkpoint_too() {
    let project = PipelineProject::with("echo changed >notes.txt; echo new >new.txt");
    project.spec("1-a", "A\n");
    let before = project.snapshot();
    project.process().ok();
    let args = ["rollback", &project.only_run(), "--reason", "on second thoughts", "--format", "json"];
    let back: serde_json::Value = serde_json::from_slice(&project.decree(args).ok().out).unwrap();
    let started = project.result(&project.only_run())["started_at"].clone();
    assert_eq!(back["restored_to"]["timestamp"], started, "{back:#}");
    project.remove("specs/processed-spec.md");
    assert_same(&project.snapshot(), &before);
}
