//! Timestamps that are too coarse to show a change.

use std::fs::File;

use super::round_trip;
use crate::harness::{Project, assert_same};

/// Rewrites a file in place, with as many bytes, and puts its time of change back.
fn rewrite_unnoticed(project: &Project, name: &str, bytes: &str) {
    let path = project.path(name);
    let before = path.metadata().unwrap();
    assert_eq!(before.len(), bytes.len() as u64);
    project.write(name, bytes);
    File::options().write(true).open(&path).unwrap().set_modified(before.modified().unwrap()).unwrap();
    assert_eq!(path.metadata().unwrap().modified().unwrap(), before.modified().unwrap());
}

/// CHK-06.
///
/// The second checkpoint is what makes the cache sure of the file.
#[test]
fn a_rewrite_of_the_same_size_with_its_old_mtime_is_detected() {
    round_trip(
        |p| {
            p.write("file", "before\n").write("other", "x\n");
            p.checkpoint();
            p.checkpoint();
        },
        |p| rewrite_unnoticed(p, "file", "behind\n"),
    );
}

#[test]
fn a_checkpoint_after_such_a_rewrite_holds_the_new_content() {
    let project = Project::new();
    project.write("file", "before\n");
    project.checkpoint();
    project.checkpoint();
    rewrite_unnoticed(&project, "file", "behind\n");
    let id = project.checkpoint();
    project.write("file", "gone\n");
    project.decree(["revert", &id]).ok();
    assert_eq!(project.read("file"), b"behind\n");
}

/// Within one tick of the clock a change leaves no trace in a file's times.
#[test]
fn a_change_right_after_a_checkpoint_is_seen() {
    let project = Project::new();
    for round in 0..15 {
        project.write("file", format!("{round:04}\n"));
        let id = project.checkpoint();
        rewrite_unnoticed(&project, "file", "same\n");
        project.decree(["revert", &id]).ok();
        assert_eq!(project.read("file"), format!("{round:04}\n").as_bytes());
    }
}

#[test]
fn a_file_swapped_for_another_of_the_same_size_and_time_is_seen() {
    round_trip(
        |p| {
            p.write("one", "content 1\n").write("two", "content 2\n");
            let time = p.path("one").metadata().unwrap().modified().unwrap();
            File::options().write(true).open(p.path("two")).unwrap().set_modified(time).unwrap();
            p.checkpoint();
            p.checkpoint();
        },
        |p| {
            std::fs::rename(p.path("one"), p.path("three")).unwrap();
            std::fs::rename(p.path("two"), p.path("one")).unwrap();
            std::fs::rename(p.path("three"), p.path("two")).unwrap();
        },
    );
}

/// CHK-10.
#[test]
fn two_checkpoints_of_the_same_second_are_two() {
    let project = Project::new();
    let second = |id: &str| id[..id.len() - 7].to_owned();
    for _ in 0..10 {
        project.write("file", "first\n");
        let first_picture = project.snapshot();
        let first = project.checkpoint();
        project.write("file", "second\n").write("new", "x\n");
        let second_picture = project.snapshot();
        let later = project.checkpoint();
        assert_ne!(first, later);
        project.decree(["revert", &first]).ok();
        assert_same(&project.snapshot(), &first_picture);
        project.decree(["revert", &later]).ok();
        assert_same(&project.snapshot(), &second_picture);
        if second(&first) == second(&later) {
            return;
        }
    }
    panic!("the machine is too slow to make two checkpoints in a second");
}

/// Older checkpoints stay good while the tree moves on.
#[test]
fn every_checkpoint_of_a_series_can_be_rolled_back_to() {
    let project = Project::new();
    let states: Vec<_> = (0..6)
        .map(|n| {
            project
                .write("file", format!("state {n}\n"))
                .write(format!("dir-{n}/new"), b"\0")
                .chmod("file", 0o600 + n);
            (project.checkpoint(), project.snapshot())
        })
        .collect();
    for (id, picture) in states.iter().rev().chain(&states) {
        project.decree(["revert", id]).ok();
        assert_same(&project.snapshot(), picture);
    }
}
