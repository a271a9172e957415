//! If it is unclear what is needed, `gc` drops no content.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Past, expire, gc_json, packs};
use crate::harness::{CommandOutput, Project, assert_same, snapshot};
use crate::revert::binary::noise;

/// The names and sizes in the store.
fn store(project: &Project) -> crate::harness::TreeSnapshot {
    snapshot(&project.path(".decree/store"))
}

/// Collects in doubt: an error that names what is wrong; what has expired goes, content does not.
#[track_caller]
fn collects_no_content(past: &Past, names: &str) -> CommandOutput {
    let before = store(past);
    past.decree(["checkpoint", "gc", "--dry-run"]).fails(4).mentions(&[names]);
    let output =
        past.decree(["checkpoint", "gc"]).fails(4).mentions(&[names, "no content is dropped", "hint:"]);
    assert_same(&store(past), &before);
    assert!(past.expired.iter().all(|id| !past.checkpoints().contains(id)));
    output
}

/// GCC-05.
#[test]
fn a_damaged_manifest_keeps_all_content() {
    let past = Past::new();
    let manifest = past.record(&past.kept[0].0, "manifest.json");
    let good = fs::read(&manifest).unwrap();
    fs::write(&manifest, &good[..good.len() / 2]).unwrap();
    collects_no_content(&past, &past.kept[0].0);
    // As soon as it is clear again, what was left is collected.
    fs::write(&manifest, good).unwrap();
    assert!(gc_json(&past, &[])["freed"].as_u64().unwrap() > 100_000);
    past.assert_all_there();
}

/// GCC-05.
#[test]
fn a_damaged_manifest_of_a_run_keeps_all_content() {
    let past = Past::new();
    let manifest = past.path(format!(".decree/runs/{}/manifest.json", past.run));
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replacen("\"size\":", "\"size\":1", 1)).unwrap();
    collects_no_content(&past, &past.run);
}

/// GCC-05.
#[test]
fn a_manifest_that_is_missing_or_that_of_another_keeps_all_content() {
    let past = Past::new();
    let manifest = past.record(&past.kept[0].0, "manifest.json");
    let good = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    collects_no_content(&past, &past.kept[0].0);
    fs::copy(past.record(&past.kept[1].0, "manifest.json"), &manifest).unwrap();
    past.decree(["checkpoint", "gc"]).fails(4).mentions(&[&past.kept[0].0, "changed since it was written"]);
    fs::write(&manifest, good).unwrap();
    past.decree(["checkpoint", "gc"]).ok();
    past.assert_all_there();
}

/// GCC-05.
#[test]
fn a_run_behind_a_link_keeps_all_content() {
    let past = Past::new();
    let run = past.path(format!(".decree/runs/{}", past.run));
    let elsewhere = past.path(".decree/moved");
    fs::rename(&run, &elsewhere).unwrap();
    symlink(&elsewhere, &run).unwrap();
    collects_no_content(&past, "it is a link");
}

/// GCC-05.
#[test]
fn a_damaged_pack_keeps_all_content() {
    let past = Past::new();
    let pack = fs::read_dir(past.path(".decree/store")).unwrap().map(|entry| entry.unwrap().path());
    let pack = pack.filter(|path| path.extension().is_some_and(|it| it == "pack")).max().unwrap();
    let good = fs::read(&pack).unwrap();
    fs::write(&pack, &good[..good.len() - 5]).unwrap();
    collects_no_content(&past, "the store is damaged");
    fs::write(&pack, good).unwrap();
    past.decree(["checkpoint", "gc"]).ok();
    past.assert_all_there();
}

/// GCC-05.
#[test]
fn an_expired_checkpoint_with_a_damaged_manifest_is_named_and_goes() {
    let past = Past::new();
    fs::write(past.record(&past.expired[0], "manifest.json"), "damaged").unwrap();
    fs::remove_file(past.record(&past.expired[1], "manifest.json")).unwrap();
    let text = past.decree(["checkpoint", "gc"]).ok().text();
    let line = text.lines().find(|line| line.starts_with(&past.expired[0])).unwrap();
    assert!(line.contains("cannot tell"), "{line}");
    assert!(text.contains("3 expired checkpoints deleted"), "{text}");
    past.assert_all_there();
}

/// GCC-05.
#[test]
fn a_checkpoint_that_does_not_say_for_certain_that_it_has_expired_stays() {
    let past = Past::new();
    let record = past.record(&past.expired[0], "checkpoint.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, &text[..text.len() - 3]).unwrap();
    // One that was edited: its check is not what it should be.
    let record = past.record(&past.kept[0].0, "checkpoint.json");
    let edited = fs::read_to_string(&record).unwrap();
    let edited = edited.replacen("\"tree\"", "\"expiry\": \"2020-01-01T00:00:00Z\",\n  \"tree\"", 1);
    fs::write(&record, edited).unwrap();
    // A copy under another name.
    let copy = past.path(".decree/checkpoints/chk_copy");
    fs::create_dir(&copy).unwrap();
    for file in ["checkpoint.json", "manifest.json"] {
        fs::copy(past.record(&past.expired[1], file), copy.join(file)).unwrap();
    }
    past.decree(["checkpoint", "gc"]).ok().mentions(&["so it is kept", "chk_copy", &past.expired[0]]);
    let left = past.checkpoints();
    assert!(left.contains(&past.expired[0]) && left.contains(&past.kept[0].0), "{left:?}");
    assert!(left.contains(&"chk_copy".to_owned()) && !left.contains(&past.expired[1]), "{left:?}");
    // What they name is still there.
    past.decree(["checkpoint", "verify", "chk_copy"]).fails(0).ok();
    past.decree(["checkpoint", "verify", &past.run]).ok();
}

/// GCC-04.
#[test]
fn what_an_earlier_run_or_a_state_names_is_needed() {
    let project = Project::new();
    let mut manifests = Vec::new();
    for n in 0..4 {
        project.write("own.bin", noise(30_000, n));
        let id = project.checkpoint();
        manifests.push(fs::read(project.record(&id, "manifest.json")).unwrap());
        expire(&project, &id);
    }
    let run = ".decree/runs/2025022514320000-0";
    project
        .write(format!("{run}/manifest.json"), &manifests[0])
        .write(format!("{run}/previous/3/manifest.json"), &manifests[1])
        .write(".decree/checkpoints/chk_state/state/manifest.json", &manifests[2])
        // A web page's, and one that was in the tree: neither is decree's.
        .write(format!("{run}/attempts/1/site/manifest.json"), r#"{"name":"app","start_url":"/"}"#)
        .write(format!("{run}/set-aside/site/manifest.json"), "no JSON at all");
    let output = gc_json(&project, &[]);
    assert_eq!((&output["store"]["contents_dropped"], packs(&project)), (&1.into(), 3));
    for (n, manifest) in manifests.iter().take(3).enumerate() {
        let id = format!("chk_again_{n}");
        project.write(format!(".decree/checkpoints/{id}/manifest.json"), manifest);
        project.decree(["diff", &id]).ok();
    }
}
