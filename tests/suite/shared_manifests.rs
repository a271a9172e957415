//! Manifests of large trees: they share their entries through the store.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::gc::expire;
use crate::generate::become_like;
use crate::harness::{Project, assert_same, snapshot, temp_dir};
use crate::killed::{count_calls, has_strace, kill_before};
use crate::packs::packs;
use crate::pipeline::pipeline_project::PipelineProject;
use crate::revert::binary::noise;

const FILES: usize = 2_000;
/// So many that decree remembers how the last manifest is stored.
const REMEMBERED: usize = 4_200;
const CREATE: [&str; 2] = ["checkpoint", "create"];

fn write_files(project: &Project, files: usize) {
    for n in 0..files {
        project.write(format!("dir-{}/file-{n}", n % 40), format!("content of {n}\n"));
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn printed(project: &Project, id: &str) -> Value {
    let output = project.decree(["checkpoint", "show", id, "--manifest"]).ok();
    serde_json::from_slice(&output.out).unwrap()
}

fn manifest_path(project: &Project, id: &str) -> PathBuf {
    let dir = if id.starts_with("chk_") { "checkpoints" } else { "runs" };
    project.path(format!(".decree/{dir}/{id}/manifest.json"))
}

fn version(project: &Project, id: &str) -> i64 {
    json(&manifest_path(project, id))["version"].as_i64().unwrap()
}

/// What files take on disk, each by its name.
fn sizes(dir: &Path, found: &mut BTreeMap<PathBuf, u64>) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        match entry.metadata().unwrap() {
            metadata if metadata.is_dir() => sizes(&entry.path(), found),
            metadata => drop(found.insert(entry.path(), metadata.len())),
        }
    }
}

fn bytes(project: &Project) -> u64 {
    let mut found = BTreeMap::new();
    sizes(&project.path(".decree"), &mut found);
    found.values().sum()
}

/// The paths of the entries, as the manifest spells them, and the hash of each.
fn entries(manifest: &Value) -> BTreeMap<String, String> {
    let files = manifest["files"].as_object().unwrap();
    files.iter().map(|(path, entry)| (path.clone(), entry["sha256"].to_string())).collect()
}

/// STO-20.
#[test]
fn runs_in_a_large_tree_that_hardly_changes_add_little() {
    let project = PipelineProject::with("true");
    write_files(&project, FILES);
    project.run(&["-m", "first", "-p", "x"]).ok();
    let first = project.only_run();
    assert_eq!(version(&project, &first), 1);
    let size = fs::metadata(manifest_path(&project, &first)).unwrap().len();
    assert!(size > 200_000, "{size}");
    for n in 0..3 {
        let before = bytes(&project);
        project.write("dir-7/file-7", format!("changed {n}\n"));
        let id = project.run(&["-m", "next", "-p", "x"]).ok();
        let added = bytes(&project) - before;
        assert!(added < 32 << 10, "{added} bytes: {}", id.err);
    }
    let last = project.runs().pop().unwrap();
    assert_eq!(version(&project, &last), 2);
    let (then, now) = (json(&manifest_path(&project, &first)), printed(&project, &last));
    let mut expected = entries(&then);
    expected.insert("dir-7/file-7".to_owned(), entries(&now)["dir-7/file-7"].clone());
    assert_eq!(entries(&now), expected);
    assert_ne!(now["tree"], then["tree"]);
}

/// STO-20.
#[test]
fn a_manifest_that_names_parts_is_relied_on_like_any_other() {
    let project = PipelineProject::with("rm -rf dir-3; echo new >dir-4/new; echo other >dir-5/file-5");
    write_files(&project, FILES);
    project.spec("1-a", "A\n");
    project.checkpoint();
    let tree = || {
        let mut tree = project.snapshot();
        tree.remove(&b"specs/processed-spec.md"[..]);
        tree
    };
    let before = tree();
    project.process().ok();
    let run = project.only_run();
    assert_eq!(version(&project, &run), 2);
    let after = tree();
    project.decree(["checkpoint", "verify", &run]).ok();
    project.decree(["revert", &run]).ok();
    assert_same(&tree(), &before);
    project.decree(["apply", &run]).ok();
    assert_same(&tree(), &after);
    project.decree(["rollback", &run]).ok();
    assert_same(&tree(), &before);
}

/// STO-21.
#[test]
fn an_artifact_has_the_whole_manifest() {
    let project = PipelineProject::with("echo new >new");
    write_files(&project, FILES);
    project.checkpoint();
    project.spec("1-a", "A\n").process().ok();
    let run = project.only_run();
    assert_eq!(version(&project, &run), 2);
    let target = temp_dir();
    project.decree(["stage", target.path().join("out").to_str().unwrap()]).ok();
    let staged = json(&target.path().join(format!("out/runs/{run}/manifest.json")));
    assert_eq!(staged, printed(&project, &run));
    assert_eq!(staged["version"], 1);
    assert_eq!(entries(&staged).len(), entries(&printed(&project, &run)).len());
    // It is proven elsewhere, without the store.
    let other = Project::new();
    write_files(&other, FILES);
    other.decree(["apply", &run, "--from", target.path().join("out").to_str().unwrap()]).ok();
    assert_eq!(other.read("new"), b"new\n");
    other.decree(["revert", &run]).ok();
}

/// STO-22.
#[test]
fn gc_keeps_the_parts_that_a_manifest_needs_and_drops_the_others() {
    let project = Project::new();
    write_files(&project, FILES);
    let first = project.checkpoint();
    project.write("dir-1/file-1", "second\n");
    let second = project.checkpoint();
    let state = project.snapshot();
    write_files(&project, 300);
    for n in 0..FILES {
        project.write(format!("dir-{}/file-{n}", n % 40), format!("third {n}\n"));
    }
    let third = project.checkpoint();
    expire(&project, &first);
    expire(&project, &third);
    let before = bytes(&project);
    project.decree(["checkpoint", "gc"]).ok();
    assert!(bytes(&project) < before - 100_000, "{before} bytes, then {}", bytes(&project));
    project.decree(["checkpoint", "verify", "--all"]).ok();
    project.decree(["rollback", &second]).ok();
    assert_same(&project.snapshot(), &state);
    // Nothing is left to drop.
    let text = project.decree(["checkpoint", "gc", "--dry-run"]).ok().text();
    assert!(text.contains("no content can be dropped"), "{text}");
}

/// STO-23.
#[test]
fn a_manifest_whose_parts_are_gone_is_refused_and_the_next_checkpoint_is_whole() {
    let project = Project::new();
    write_files(&project, FILES);
    project.checkpoint();
    project.write("dir-1/file-1", "second\n");
    let second = project.checkpoint();
    assert_eq!(version(&project, &second), 2);
    project.write("dir-1/file-1", "third\n");
    let state = project.snapshot();
    let mut with_lost_parts = 0;
    for pack in packs(&project.path(".decree/store")) {
        let good = fs::read(&pack).unwrap();
        let mut bad = good.clone();
        let middle = bad.len() / 3;
        bad[middle] ^= 1;
        fs::write(&pack, &bad).unwrap();
        if project.decree(["checkpoint", "show", &second, "--manifest"]).code == 4 {
            with_lost_parts += 1;
            project.decree(["checkpoint", "verify", &second]).fails(4).mentions(&[&second]);
            project.decree(["revert", &second]).fails(4).mentions(&["nothing was touched"]);
            project.decree(["checkpoint", "gc"]).fails(4);
            assert_same(&project.snapshot(), &state);
        }
        // The pack has changed since it was verified, so its damage is found, and what the tree has is stored again.
        let new = project.checkpoint();
        project.decree(["checkpoint", "verify", &new]).ok();
        fs::write(&pack, good).unwrap();
    }
    assert!(with_lost_parts > 0);
    project.decree(["checkpoint", "verify", "--all"]).ok();
}

/// STO-24. What an earlier version wrote: no parts, and no list of verified packs.
#[test]
fn a_project_of_an_earlier_version_is_read_and_written_on() {
    let project = Project::new();
    write_files(&project, FILES);
    let first = project.checkpoint();
    let path = manifest_path(&project, &first);
    let text = fs::read_to_string(&path).unwrap();
    let without: String =
        text.lines().filter(|line| !line.starts_with("\"stored\"")).map(|line| format!("{line}\n")).collect();
    assert_ne!(text, without);
    fs::write(&path, without).unwrap();
    fs::remove_file(project.path(".decree/store/verified")).unwrap_or_default();
    let state = project.snapshot();
    project.decree(["checkpoint", "gc"]).ok();
    project.write("dir-1/file-1", "second\n").write("new", "new\n");
    let second = project.checkpoint();
    // Its parts were dropped, so it is whole again.
    assert_eq!(version(&project, &second), 1);
    let third = project.checkpoint();
    assert_eq!(version(&project, &third), 2);
    project.decree(["checkpoint", "verify", "--all"]).ok();
    project.decree(["rollback", &first]).ok();
    assert_same(&project.snapshot(), &state);
}

/// Kills a checkpoint of `files` files before each of its calls of which `is_tried` says so. Returns the calls, and how many kills there were.
fn kill_checkpoints(files: usize, is_tried: impl Fn(&str) -> bool) -> (BTreeMap<String, u32>, u32) {
    let project = Project::new();
    write_files(&project, files);
    let first = project.checkpoint();
    project.write("dir-1/file-1", "second\n");
    let own = snapshot(&project.path(".decree"));
    let mut calls = count_calls(&project, &CREATE);
    calls.retain(|call, _| is_tried(call));
    let mut kills = 0;
    for (call, count) in &calls {
        for nth in 1..=*count {
            become_like(&project.path(".decree"), &own);
            kills += u32::from(kill_before(&project, &CREATE, call, nth));
            let last = project.checkpoint();
            assert_eq!(version(&project, &last), 2);
            project.decree(["checkpoint", "verify", "--all"]).ok();
            assert_eq!(version(&project, &first), 1);
        }
    }
    (calls, kills)
}

/// STO-25.
#[test]
fn killed_before_any_system_call_a_checkpoint_with_parts_is_there_or_not() {
    if !has_strace() {
        return;
    }
    let (calls, kills) = kill_checkpoints(300, |_| true);
    let all = calls.values().sum::<u32>();
    assert!(all > 20 && kills * 10 > all * 9, "killed at only {kills} of {calls:?}");
}

/// STO-25. In a tree this large decree also remembers how the manifest is stored.
#[test]
fn killed_before_any_system_call_a_checkpoint_that_is_remembered_is_there_or_not() {
    if !has_strace() {
        return;
    }
    let is_durable = |call: &str| ["write", "fsync", "fdatasync", "rename"].contains(&call);
    let (calls, kills) = kill_checkpoints(REMEMBERED, is_durable);
    let all = calls.values().sum::<u32>();
    assert!(all > 20 && kills * 10 > all * 9, "killed at only {kills} of {calls:?}");
}

fn verification(project: &Project, args: &[&str]) -> (String, f64) {
    let output = project.decree([&["checkpoint", "create", "--format", "json"], args].concat()).ok();
    let answer: Value = serde_json::from_slice(&output.out).unwrap();
    (answer["verification"].as_str().unwrap().to_owned(), answer["confidence"].as_f64().unwrap())
}

/// STO-26.
#[test]
fn a_new_checkpoint_says_how_it_was_verified_and_finds_a_pack_that_was_changed() {
    let project = Project::new();
    for n in 0..6 {
        project.write(format!("large-{n}"), noise(1 << 20, n));
    }
    let expected = |word: &str, confidence: f64| (word.to_owned(), confidence);
    assert_eq!(verification(&project, &["--no-verify"]), expected("none", 0.9));
    assert_eq!(verification(&project, &[]), expected("read_back", 1.0));
    // A pack that is as young as the list of verified packs is read again.
    std::thread::sleep(Duration::from_millis(50));
    fs::remove_file(project.path(".decree/store/verified")).unwrap();
    assert_eq!(verification(&project, &[]), expected("read_back", 1.0));
    assert_eq!(verification(&project, &[]), expected("recorded", 0.99));

    let pack = packs(&project.path(".decree/store")).pop().unwrap();
    let good = fs::metadata(&pack).unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[3 << 20] ^= 1;
    fs::write(&pack, bytes).unwrap();
    File::options().write(true).open(&pack).unwrap().set_modified(good.modified().unwrap()).unwrap();
    assert_eq!(verification(&project, &[]).0, "read_back");
    let newest = project.checkpoint();
    project.decree(["checkpoint", "verify", &newest]).ok();
}
