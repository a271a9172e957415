//! A damaged `changes.diff` or `result.json`.

use std::fs;

use super::{flipped, put};
use crate::apply::runs::{RUN, as_run, run_file};
use crate::apply::{Recorded, recorded};
use crate::harness::{Project, assert_same};

/// A small recorded change, with every kind of section in it.
fn small_change() -> Recorded {
    recorded(
        |p| {
            p.write("a", "one\ntwo").write("b", b"\0b").mkdir("d");
        },
        |p| {
            p.write("a", "one\n2\n").write("b", b"\0c").remove("d");
        },
    )
}

/// DIF-07.
#[test]
fn a_diff_cut_off_anywhere_is_not_applied() {
    let small = small_change();
    let path = small.project.record(&small.id, "changes.diff");
    let good = fs::read(&path).unwrap();
    for length in 1..good.len() {
        put(&path, &good[..length]);
        let output = small.project.decree(["apply", &small.id]);
        assert_eq!(output.code, 4, "cut off after {length} bytes: {}", output.err);
        assert!(output.err.contains("changes.diff"), "{}", output.err);
        assert_same(&small.project.snapshot(), &small.original);
    }
    put(&path, &good);
    small.project.decree(["apply", &small.id]).ok();
    assert_same(&small.project.snapshot(), &small.mutated);
}

/// No bytes are a diff that says nothing; but its `result.json` says that it did say something.
#[test]
fn a_diff_cut_off_to_nothing_is_not_taken_for_one_without_changes() {
    let small = small_change();
    put(&small.project.record(&small.id, "changes.diff"), b"");
    small.project.decree(["apply", &small.id]).fails(4).mentions(&["changes.diff"]);
    assert_same(&small.project.snapshot(), &small.original);
    let small = as_run(small_change());
    put(&run_file(&small.project, "changes.diff"), b"");
    small.project.decree(["revert", RUN]).fails(4).mentions(&["changes.diff"]);
    assert_same(&small.project.snapshot(), &small.mutated);
}

/// DIF-07.
#[test]
fn a_diff_with_any_byte_changed_is_not_applied() {
    let small = small_change();
    let path = small.project.record(&small.id, "changes.diff");
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        put(&path, &flipped(&good, at));
        let output = small.project.decree(["apply", &small.id]);
        assert_eq!(output.code, 4, "byte {at}: {}", output.err);
        assert_same(&small.project.snapshot(), &small.original);
    }
}

#[test]
fn a_diff_with_bytes_added_or_taken_out_is_not_applied() {
    let small = small_change();
    let path = small.project.record(&small.id, "changes.diff");
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(11).chain([good.len() - 1]) {
        let mut longer = good.clone();
        longer.insert(at, b'\n');
        let mut shorter = good.clone();
        shorter.remove(at);
        for bad in [longer, shorter, [&good[..], b"\n"].concat(), [&good[..], &good].concat()] {
            put(&path, &bad);
            small.project.decree(["apply", &small.id]).fails(4);
        }
        assert_same(&small.project.snapshot(), &small.original);
    }
}

#[test]
fn a_run_with_a_damaged_diff_is_not_reverted() {
    let small = as_run(small_change());
    let path = run_file(&small.project, "changes.diff");
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7) {
        for bad in [flipped(&good, at), good[..at].to_vec()] {
            put(&path, &bad);
            small.project.decree(["revert", RUN]).fails(4);
            assert_same(&small.project.snapshot(), &small.mutated);
        }
    }
    put(&path, &good);
    small.project.decree(["revert", RUN]).ok();
    assert_same(&small.project.snapshot(), &small.original);
}

/// A whole diff, but of another run: its hash is right and its content is wrong.
#[test]
fn a_diff_that_belongs_to_another_record_is_not_reverted() {
    let small = as_run(small_change());
    let other = Project::new();
    other.write("a", "something else\n");
    let id = other.checkpoint();
    other.write("a", "one\n2\n");
    other.decree(["revert", &id]).ok();
    put(&run_file(&small.project, "changes.diff"), &fs::read(other.record(&id, "changes.diff")).unwrap());
    small.project.decree(["revert", RUN]).fails(4).mentions(&["changes.diff"]);
    assert_same(&small.project.snapshot(), &small.mutated);
}

/// REV-09.
///
/// The new things that a revert moves away stand only in `result.json`.
#[test]
fn a_damaged_result_is_refused_or_does_not_matter() {
    let small = as_run(small_change());
    let path = run_file(&small.project, "result.json");
    let good = fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..good.len()).step_by(3) {
        put(&path, &flipped(&good, at));
        let output = small.project.decree(["revert", RUN]);
        match output.code {
            4 => {
                refused += 1;
                assert_same(&small.project.snapshot(), &small.mutated);
            }
            0 => {
                assert_same(&small.project.snapshot(), &small.original);
                small.project.decree(["apply", RUN]).ok();
            }
            code => panic!("byte {at}: {code}: {}", output.err),
        }
    }
    assert!(refused > good.len() / 6, "only {refused} were refused");
    for bad in [&b""[..], b"{}", b"null", b"[", &good[..good.len() / 2]] {
        put(&path, bad);
        small.project.decree(["revert", RUN]).fails(4).mentions(&["result.json"]);
        assert_same(&small.project.snapshot(), &small.mutated);
    }
}

/// One wrong letter must not make a revert leave something behind, or move away what is the user's.
#[test]
fn a_damaged_list_of_what_to_set_aside_is_refused() {
    let Recorded { project, .. } = as_run(recorded(
        |p| {
            p.write(".gitignore", "/mine\n").write("mine/work", "the user's\n").write("a", "a\n");
        },
        |p| {
            p.write(".gitignore", "/mine\n/nine\n").write("nine/out", "built\n").write("a", "b\n");
        },
    ));
    project.write("nine/out", "built\n");
    let path = run_file(&project, "result.json");
    let result = fs::read_to_string(&path).unwrap();
    assert!(result.contains("\"nine\""), "{result}");
    put(&path, result.replace("\"nine\"", "\"mine\"").as_bytes());
    let before = project.snapshot();
    project.decree(["revert", RUN]).fails(4);
    assert_same(&project.snapshot(), &before);
}
