//! A damaged store: an error, never wrong bytes.

use std::fs;
use std::path::PathBuf;

use super::{flipped, put};
use crate::harness::{Project, TreeSnapshot, assert_same};
use crate::revert::binary::noise;

struct Sample {
    project: Project,
    id: String,
    original: TreeSnapshot,
    /// The pack of the checkpoint. Later commands may add others.
    pack: PathBuf,
    diff: Vec<u8>,
}

impl Sample {
    /// Every file is changed, so that a diff has to read every content.
    fn new() -> Sample {
        let project = Project::new();
        project.write("text", "some text\nthat compresses, compresses, compresses\n".repeat(4));
        project.write("binary", noise(200, 1)).link("link", "target").write("one", "1\n").write("none", "");
        let original = project.snapshot();
        let id = project.checkpoint();
        let pack = packs(&project).pop().unwrap();
        project.write("text", "other\n").remove("binary").remove("link").write("one", "2\n").remove("none");
        let diff = project.decree(["diff", &id]).ok().out;
        Sample { project, id, original, pack, diff }
    }
}

fn packs(project: &Project) -> Vec<PathBuf> {
    let mut packs: Vec<PathBuf> =
        fs::read_dir(project.path(".decree/store")).unwrap().map(|entry| entry.unwrap().path()).collect();
    packs.retain(|path| path.extension().is_some_and(|extension| extension == "pack"));
    packs
}

/// STO-01.
///
/// A few bits of a compressed frame mean nothing; whatever changes a content is found.
#[test]
fn a_pack_with_any_byte_changed_is_found_and_gives_no_wrong_bytes() {
    let sample = Sample::new();
    let Sample { project, id, diff, .. } = &sample;
    let good = fs::read(&sample.pack).unwrap();
    let before = project.snapshot();
    let mut found = 0;
    for at in 0..good.len() {
        put(&sample.pack, &flipped(&good, at));
        let verified = project.decree(["checkpoint", "verify", id]);
        let shown = project.decree(["diff", id]);
        match (verified.code, shown.code) {
            (4, 4) => found += 1,
            // A damaged content that this diff does not need.
            (4, 0) | (0, 0) => assert!(shown.out == *diff, "byte {at}: {}", shown.text()),
            codes => panic!("byte {at}: {codes:?}: {}{}", verified.err, shown.err),
        }
    }
    assert!(found * 100 > good.len() * 98, "only {found} of {} were found", good.len());
    assert_same(&project.snapshot(), &before);
}

#[test]
fn a_pack_that_was_cut_off_is_found() {
    let sample = Sample::new();
    let good = fs::read(&sample.pack).unwrap();
    let before = sample.project.snapshot();
    for length in (0..good.len()).step_by(9).chain([good.len() - 1]) {
        put(&sample.pack, &good[..length]);
        sample.project.decree(["diff", &sample.id]).fails(4).mentions(&["store"]);
    }
    sample.project.decree(["revert", &sample.id]).fails(4).mentions(&["store"]);
    assert_same(&sample.project.snapshot(), &before);
    put(&sample.pack, &good);
    sample.project.decree(["revert", &sample.id]).ok();
    assert_same(&sample.project.snapshot(), &sample.original);
}

/// What was recorded needs no store: a revert of a run and an apply go by the diff alone.
#[test]
fn a_recorded_change_is_applied_without_the_store() {
    let sample = Sample::new();
    let Sample { project, id, original, .. } = &sample;
    let mutated = project.snapshot();
    project.decree(["revert", id]).ok();
    assert_same(&project.snapshot(), original);
    fs::remove_dir_all(project.path(".decree/store")).unwrap();
    project.decree(["apply", id]).ok();
    assert_same(&project.snapshot(), &mutated);
}

/// STO-02.
#[test]
fn a_deleted_pack_is_reported_and_the_next_checkpoint_stores_everything_again() {
    let sample = Sample::new();
    let Sample { project, id, original, .. } = &sample;
    project.decree(["revert", id]).ok();
    // The cache is sure of every file now.
    project.checkpoint();
    project.checkpoint();
    packs(project).iter().for_each(|pack| fs::remove_file(pack).unwrap());
    project.decree(["checkpoint", "verify", id]).fails(4).mentions(&["text", "store"]);
    project.write("text", "changed\n");
    project.decree(["diff", id]).fails(4).mentions(&["store"]);
    project.decree(["revert", id]).fails(4).mentions(&["store"]);
    assert_eq!(project.read("text"), b"changed\n");

    project.write("text", "some text\nthat compresses, compresses, compresses\n".repeat(4));
    let new = project.checkpoint();
    project.decree(["checkpoint", "verify", &new]).ok();
    project.decree(["checkpoint", "verify", id]).ok();
    project.write("text", "").remove("binary").remove("link").remove("one").remove("none");
    project.decree(["revert", &new]).ok();
    assert_same(&project.snapshot(), original);
}

/// Two checkpoints: `lost` names a content that is not in the tree any more, `other` none.
struct Two {
    project: Project,
    lost: String,
    other: String,
    pack: PathBuf,
}

impl Two {
    fn new() -> Two {
        let project = Project::new();
        project.write("stays", "stays\n".repeat(99)).write("goes", noise(300, 2)).link("link", "stays");
        let lost = project.checkpoint();
        let pack = packs(&project).pop().unwrap();
        project.remove("goes");
        let other = project.checkpoint();
        assert_eq!(packs(&project), std::slice::from_ref(&pack));
        Two { project, lost, other, pack }
    }

    /// A new checkpoint can be made, and brings the tree back.
    #[track_caller]
    fn assert_checkpoint_works(&self) {
        let tree = self.project.snapshot();
        let id = self.project.checkpoint();
        self.project.write("stays", "changed\n").remove("link");
        self.project.decree(["rollback", &id]).ok();
        assert_same(&self.project.snapshot(), &tree);
        self.project.decree(["checkpoint", "verify", &self.other]).ok();
        let output = self.project.decree(["checkpoint", "verify", "--all"]).fails(4);
        output.mentions(&[&self.lost, "goes"]);
    }
}

/// Its end is the index and the footer: its content is unknown.
#[test]
fn a_pack_that_cannot_be_read_does_not_keep_the_next_checkpoint_from_being_made() {
    for from_end in [1, 16, 60] {
        let two = Two::new();
        let good = fs::read(&two.pack).unwrap();
        put(&two.pack, &flipped(&good, good.len() - from_end));
        let pack = two.pack.to_str().unwrap();
        two.assert_checkpoint_works();
        let output = two.project.decree(["checkpoint", "verify", &two.lost]).fails(4);
        output.mentions(&["damaged", pack, "out of the store"]);
        two.project.decree(["rollback", &two.lost]).fails(4).mentions(&[pack]);
        two.project.decree(["checkpoint", "gc"]).fails(4).mentions(&["damaged", pack]);
        assert!(two.pack.exists());
        // As it was, it is as good as it was.
        put(&two.pack, &good);
        two.project.decree(["checkpoint", "verify", "--all"]).ok();
    }
}

#[test]
fn the_way_out_of_a_damaged_pack_is_reported_and_works() {
    let two = Two::new();
    let good = fs::read(&two.pack).unwrap();
    put(&two.pack, &flipped(&good, 20));
    let pack = two.pack.to_str().unwrap();
    let output = two.project.decree(["checkpoint", "verify", &two.lost]).fails(4);
    output.mentions(&[
        "the store is damaged",
        pack,
        "out of the store",
        "checkpoint verify --all",
        "decree recover",
    ]);
    two.project.decree(["recover"]).fails(4);
    assert!(!two.pack.exists());
    two.assert_checkpoint_works();
}

/// Files beyond 4 MiB are streamed, and there too a broken store is a broken store.
#[test]
fn damage_in_a_large_content_is_an_integrity_error() {
    for (name, content) in
        [("text", "a line of text\n".repeat(300_000).into_bytes()), ("binary", noise(4_500_000, 7))]
    {
        let project = Project::new();
        project.write(name, &content);
        let id = project.checkpoint();
        project.write(name, "changed\n");
        let pack = packs(&project).pop().unwrap();
        let good = fs::read(&pack).unwrap();
        put(&pack, &flipped(&good, good.len() / 2));
        project.decree(["checkpoint", "verify", &id]).fails(4).mentions(&[name]);
        project.decree(["diff", &id]).fails(4);
        project.decree(["revert", &id]).fails(4);
        assert_eq!(project.read(name), b"changed\n");
    }
}

#[test]
fn a_stat_cache_that_is_damaged_or_gone_is_only_slower() {
    let sample = Sample::new();
    let Sample { project, id, diff, .. } = &sample;
    let path = project.path(".decree/store/stat-cache");
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(13) {
        put(&path, &flipped(&good, at));
        assert!(project.decree(["diff", id]).ok().out == *diff, "byte {at}");
    }
    put(&path, &good[..good.len() / 2]);
    let new = project.checkpoint();
    project.decree(["checkpoint", "verify", &new]).ok();
    fs::remove_file(&path).unwrap();
    assert!(project.decree(["diff", id]).ok().out == *diff);
}

#[test]
fn what_a_killed_capture_left_in_the_store_is_swept_away() {
    let sample = Sample::new();
    let left = sample.project.path(".decree/store/tmp-0123456789abcdef.pack");
    fs::write(&left, "half").unwrap();
    sample.project.checkpoint();
    assert!(!left.exists());
}
