//! A damaged `manifest.json` or `checkpoint.json`.

use std::fs;

use super::{flipped, put};
use crate::harness::{Project, TreeSnapshot, assert_same};

/// A project in which everything that a manifest says matters: entries, ignore rules, what was left out.
struct Sample {
    project: Project,
    id: String,
    original: TreeSnapshot,
    mutated: TreeSnapshot,
    diff: Vec<u8>,
}

impl Sample {
    fn new() -> Sample {
        let project = Project::new();
        project
            .write(".gitignore", "/out\n")
            .write("out/x", "mine\n")
            .write(".env", "A=1\n")
            .write("a", "a\n");
        project.write("b", "b\n").link("l", "a").mkdir("d").write("e/f", "f\n").chmod("e", 0o700);
        let original = project.snapshot();
        let id = project.checkpoint();
        mutate(&project);
        let mutated = project.snapshot();
        let diff = project.decree(["diff", &id]).ok().out;
        Sample { project, id, original, mutated, diff }
    }
}

fn mutate(project: &Project) {
    project.write("a", "A\n").remove("l").write("n", "new\n");
}

/// REV-09.
#[test]
fn a_missing_manifest_is_an_error_and_nothing_is_touched() {
    let Sample { project, id, mutated, .. } = Sample::new();
    fs::remove_file(project.record(&id, "manifest.json")).unwrap();
    for args in
        [&["diff", &id][..], &["revert", &id], &["checkpoint", "verify", &id], &["checkpoint", "show", &id]]
    {
        project.decree(args).fails(4).mentions(&["manifest.json"]);
    }
    assert_same(&project.snapshot(), &mutated);
}

#[test]
fn a_manifest_cut_off_anywhere_is_refused() {
    let Sample { project, id, mutated, .. } = Sample::new();
    let path = project.record(&id, "manifest.json");
    let good = fs::read(&path).unwrap();
    // The last byte is a newline, which makes no difference.
    for length in (0..good.len() - 1).step_by(5).chain([good.len() - 2]) {
        put(&path, &good[..length]);
        project.decree(["diff", &id]).fails(4).mentions(&["manifest.json"]);
    }
    put(&path, &good[..good.len() / 2]);
    project.decree(["revert", &id]).fails(4).mentions(&["manifest.json"]);
    assert_same(&project.snapshot(), &mutated);
}

/// REV-09.
///
/// A changed byte is found, or it changes nothing: neither what `diff` says nor what `revert` does.
#[test]
fn a_manifest_with_any_byte_changed_is_refused_or_as_good_as_before() {
    let Sample { project, id, original, mutated, diff } = Sample::new();
    let path = project.record(&id, "manifest.json");
    let good = fs::read(&path).unwrap();
    let mut harm = Vec::new();
    for at in 0..good.len() {
        put(&path, &flipped(&good, at));
        let output = project.decree(["diff", &id]);
        if output.code == 4 {
            continue;
        }
        let place =
            String::from_utf8_lossy(&good[at.saturating_sub(12)..good.len().min(at + 12)]).into_owned();
        if output.code != 0 || output.out != diff {
            harm.push(format!("byte {at}, in {place:?}: diff exits with {}: {}", output.code, output.text()));
            continue;
        }
        let output = project.decree(["revert", &id]);
        let expected = if output.code == 4 { &mutated } else { &original };
        if project.snapshot() != *expected {
            harm.push(format!(
                "byte {at}, in {place:?}: revert exits with {} and leaves another tree",
                output.code
            ));
        }
        put(&path, &good);
        restore(&project, &id, &original);
        mutate(&project);
    }
    assert!(harm.is_empty(), "{} of {} bytes do harm:\n{}", harm.len(), good.len(), harm.join("\n"));
}

/// Back to the original, whatever a wrong revert has moved away.
fn restore(project: &Project, id: &str, original: &TreeSnapshot) {
    project.decree(["revert", id]);
    project.write("out/x", "mine\n").write(".env", "A=1\n");
    let _ = fs::remove_dir_all(project.record(id, "set-aside"));
    let _ = fs::remove_dir_all(project.record(id, "previous"));
    assert_same(&project.snapshot(), original);
}

#[test]
fn a_manifest_of_another_checkpoint_does_not_verify() {
    let Sample { project, id, .. } = Sample::new();
    let other = project.checkpoint();
    fs::copy(project.record(&other, "manifest.json"), project.record(&id, "manifest.json")).unwrap();
    project.decree(["checkpoint", "verify", &id]).fails(4).mentions(&["manifest"]);
    project.decree(["checkpoint", "verify", &other]).ok();
    project.decree(["checkpoint", "verify", "--all"]).fails(4).mentions(&[&id]);
}

#[test]
fn a_manifest_of_another_version_is_refused() {
    let Sample { project, id, mutated, .. } = Sample::new();
    let path = project.record(&id, "manifest.json");
    let good = fs::read_to_string(&path).unwrap();
    for version in ["2", "3"] {
        put(&path, good.replacen("\"version\":1", &format!("\"version\":{version}"), 1).as_bytes());
        project.decree(["revert", &id]).fails(4).mentions(&["version"]);
        assert_same(&project.snapshot(), &mutated);
    }
}

/// A manifest is read from run directories that may come from elsewhere.
#[test]
fn paths_in_a_manifest_cannot_leave_the_tree() {
    let Sample { project, id, mutated, .. } = Sample::new();
    let path = project.record(&id, "manifest.json");
    let good = fs::read_to_string(&path).unwrap();
    for evil in ["../evil", "/evil", ".git/evil", ".decree/evil", "e/../../evil"] {
        put(&path, good.replacen("\"a\":", &format!("\"{evil}\":"), 1).as_bytes());
        project.decree(["revert", &id]).fails(4).mentions(&[evil]);
        assert_same(&project.snapshot(), &mutated);
    }
}

/// It was being made when decree was killed: there is no `checkpoint.json` yet.
#[test]
fn an_unfinished_checkpoint_is_not_listed_and_not_relied_on() {
    let Sample { project, id, mutated, .. } = Sample::new();
    fs::remove_file(project.record(&id, "checkpoint.json")).unwrap();
    assert!(!project.decree(["checkpoint", "list"]).ok().text().contains(&id));
    project.decree(["checkpoint", "verify", &id]).fails(4);
    assert_same(&project.snapshot(), &mutated);
    project.checkpoint();
}
