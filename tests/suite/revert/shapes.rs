//! Directories that are created, removed, or replace a file.

use std::process::Command;

use super::round_trip;
use crate::harness::{Project, assert_same};

/// REV-02.
#[test]
fn a_file_becomes_a_directory() {
    round_trip(
        |p| {
            p.write("text", "x\n").write("binary", b"\0x").write("empty", "").write("to-empty-dir", "x\n");
            p.write("binary-to-empty-dir", b"\0x").write("odd", "x\n").chmod("odd", 0o600);
        },
        |p| {
            for name in ["text", "binary", "empty", "to-empty-dir", "binary-to-empty-dir", "odd"] {
                p.remove(name).mkdir(name);
            }
            p.write("text/a", "a\n").write("binary/a", b"\0a").write("empty/deep/down/a", "a\n");
            p.write("odd/a", "").chmod("odd", 0o700);
        },
    );
}

/// REV-02.
#[test]
fn a_directory_becomes_a_file() {
    round_trip(
        |p| {
            p.write("full/a", "a\n").write("full/deep/b", b"\0b").mkdir("full/deep/empty").mkdir("bare");
            p.write("odd/a", "a\n")
                .chmod("odd", 0o750)
                .write("to-binary/a/b/c", "c\n")
                .mkdir("bare-to-binary");
        },
        |p| {
            p.remove("full")
                .write("full", "file\n")
                .remove("bare")
                .write("bare", "")
                .remove("odd")
                .write("odd", "x\n");
            p.remove("to-binary")
                .write("to-binary", b"\0")
                .remove("bare-to-binary")
                .write("bare-to-binary", b"\0");
        },
    );
}

/// The same names, the other way around, one inside the other.
#[test]
fn nested_swaps_come_back() {
    round_trip(
        |p| {
            p.write("a/b/file", "1\n").write("a/file/b", "2\n").write("a/c", "3\n").write("d", "4\n");
        },
        |p| {
            p.remove("a/b").write("a/b", "file now\n").remove("a/file").link("a/file", "b");
            p.remove("a/c").write("a/c/c/c", "deep now\n").remove("d").write("d/b/file", "1\n");
        },
    );
}

/// `a`, `a-b`, `a.b`, `a/b`, `a0`: a directory's content does not follow its own name in the order of paths.
#[test]
fn swaps_among_names_that_sort_around_a_slash_come_back() {
    round_trip(
        |p| {
            p.write("a", "a\n")
                .write("a-b", "1\n")
                .write("a.b", "2\n")
                .write("a0", "3\n")
                .write("b/x", "4\n");
            p.write("b-x", "5\n").write("b!", "6\n");
        },
        |p| {
            p.remove("a")
                .write("a/b", "b\n")
                .write("a/-", "c\n")
                .remove("a-b")
                .write("a-b/a", "d\n")
                .remove("a.b");
            p.remove("b")
                .write("b", "b\n")
                .remove("b-x")
                .mkdir("b-x")
                .remove("b!")
                .write("b!/b", "x\n".repeat(3))
                .write("a0", "4\n");
        },
    );
}

/// REV-03.
#[test]
fn new_directories_vanish_however_deep() {
    let deep = (0..60).map(|n| format!("level-{n}")).collect::<Vec<_>>().join("/");
    let trip = round_trip(
        |p| {
            p.write("old/file", "x\n");
        },
        |p| {
            p.write(format!("{deep}/file"), "x\n").write("old/new/a", "").mkdir("old/other/empty");
        },
    );
    assert!(!trip.project.exists("level-0"));
    assert!(!trip.project.exists("old/new"));
}

/// REV-03, DIF-04.
#[test]
fn empty_directories_are_made_and_removed() {
    round_trip(
        |p| {
            p.mkdir("gone").mkdir("gone-deep/a/b").write("kept/file", "x\n").mkdir("kept/gone");
        },
        |p| {
            p.remove("gone")
                .remove("gone-deep")
                .remove("kept/gone")
                .mkdir("new")
                .mkdir("new-deep/a/b")
                .mkdir("kept/new");
        },
    );
}

#[test]
fn an_empty_directory_gets_a_file_and_a_full_one_loses_its_last() {
    round_trip(
        |p| {
            p.mkdir("empty").mkdir("deep/empty").write("full/file", "x\n").write("deep/full/file", "x\n");
            p.write("vanishes/file", "x\n");
        },
        |p| {
            p.write("empty/file", "x\n").write("deep/empty/deeper/file", "x\n");
            p.remove("full/file").remove("deep/full/file").remove("vanishes");
        },
    );
}

/// REV-01, REV-03.
#[test]
fn a_whole_tree_that_was_deleted_comes_back() {
    round_trip(
        |p| {
            p.write("src/main.rs", "fn main() {}\n")
                .write("src/a/b.rs", "")
                .mkdir("src/empty")
                .link("src/l", "a");
            p.write("run.sh", "#!/bin/sh\n")
                .chmod("run.sh", 0o755)
                .write("logo.png", b"\x89PNG\0")
                .write(".hidden", "x");
            p.write("private/key-of-nothing", "x\n").chmod("private", 0o700);
        },
        |p| {
            for name in ["src", "run.sh", "logo.png", ".hidden", "private"] {
                p.remove(name);
            }
        },
    );
}

#[test]
fn a_tree_that_was_empty_is_empty_again() {
    round_trip(
        |_| {},
        |p| {
            p.write("a/b/c", "x\n").write("d", b"\0").link("e", "d").mkdir("f");
        },
    );
}

#[test]
fn a_renamed_directory_is_back_under_its_old_name() {
    round_trip(
        |p| {
            p.write("old/a", "a\n").write("old/b/c", b"\0c").chmod("old/b", 0o711);
        },
        |p| std::fs::rename(p.path("old"), p.path("new")).unwrap(),
    );
}

/// Hard links are kept as content: both names come back, each with its bytes.
#[test]
fn hard_links_come_back_as_content() {
    let trip = round_trip(
        |p| {
            p.write("one", "shared\n");
            std::fs::hard_link(p.path("one"), p.path("two")).unwrap();
            p.write("three", "apart\n").write("four", "apart\n");
        },
        |p| {
            p.write("one", "changed through one name\n").remove("four");
            std::fs::hard_link(p.path("three"), p.path("four")).unwrap();
            p.write("three", "now shared\n");
        },
    );
    assert_eq!(trip.project.read("two"), b"shared\n");
}

/// Deeper than the longest path that one system call takes: it has to be opened step by step.
#[test]
fn directories_deeper_than_any_path_vanish() {
    let project = Project::new();
    project.write("file", "x\n");
    let original = project.snapshot();
    let id = project.checkpoint();
    let script = "for n in $(seq 1 30); do mkdir $0 && cd $0; done && echo deep > file";
    let name = "d".repeat(200);
    let made = Command::new("bash").args(["-c", script, &name]).current_dir(project.root()).status();
    assert!(made.unwrap().success());
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &original);
    project.decree(["apply", &id]).ok();
    assert!(project.exists(&name));
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &original);
}
