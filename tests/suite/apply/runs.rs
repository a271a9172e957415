//! Reverting and applying runs: a revert touches only what the run changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Edit, Recorded, recorded, sample};
use crate::harness::{Project, assert_same};

pub const RUN: &str = "2026111603120000-0";

/// Makes a run of a recorded change, as a pipeline would leave it: done, with its record in a run's directory.
pub fn as_run(recorded: Recorded) -> Recorded {
    let Recorded { project, id, .. } = &recorded;
    project.decree(["apply", id]).ok();
    fs::create_dir_all(run_file(project, "")).unwrap();
    for file in ["manifest.json", "changes.diff"] {
        fs::copy(project.record(id, file), run_file(project, file)).unwrap();
    }
    let result = with_run_record(&fs::read(project.record(id, "result.json")).unwrap());
    fs::write(run_file(project, "result.json"), result).unwrap();
    recorded
}

/// Adds to a `result.json` what the pipeline would write of a kept run, as docs/format.md has it.
fn with_run_record(result: &[u8]) -> Vec<u8> {
    let mut result: serde_json::Map<String, Value> = serde_json::from_slice(result).unwrap();
    let record = json!({
        "status": "success", "kept": true, "name": "x", "duration_ms": 1, "started_at": "2026-11-16T03:12:00Z",
    });
    let record: BTreeMap<String, Value> = serde_json::from_value(record).unwrap();
    let text = serde_json::to_vec(&(&result["check"], &record)).unwrap();
    let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    result.insert("record_check".to_owned(), hash.into());
    result.extend(record);
    serde_json::to_vec_pretty(&result).unwrap()
}

/// A file of the run's own.
pub fn run_file(project: &Project, file: &str) -> PathBuf {
    project.path(format!(".decree/runs/{RUN}/{file}"))
}

fn sample_run() -> Recorded {
    as_run(sample())
}

/// REV-06, REV-07.
#[test]
fn a_run_is_reverted_salvaged_and_reverted_again() {
    let Recorded { project, original, mutated, .. } = sample_run();
    project.decree(["revert", RUN]).ok();
    assert_same(&project.snapshot(), &original);
    project.decree(["revert", RUN]).ok().mentions(&["already reverted"]);
    assert_same(&project.snapshot(), &original);
    project.decree(["apply", RUN]).ok();
    assert_same(&project.snapshot(), &mutated);
    project.decree(["apply", RUN]).ok().mentions(&["already applied"]);
    project.decree(["revert", RUN]).ok();
    assert_same(&project.snapshot(), &original);
}

#[test]
fn a_run_is_found_by_its_chain_and_by_a_prefix() {
    for id in ["2026111603120000", "20261116"] {
        let Recorded { project, original, .. } = sample_run();
        project.decree(["revert", id]).ok();
        assert_same(&project.snapshot(), &original);
    }
}

#[test]
fn an_ambiguous_chain_lists_its_runs() {
    let Recorded { project, mutated, .. } = sample_run();
    project.mkdir(".decree/runs/2026111603120000-1");
    project.decree(["revert", "20261116"]).fails(3).mentions(&[RUN, "2026111603120000-1"]);
    assert_same(&project.snapshot(), &mutated);
}

#[test]
fn the_diff_of_a_run_is_what_was_recorded_not_what_is_there_now() {
    let Recorded { project, id, .. } = sample_run();
    let recorded = fs::read(project.record(&id, "changes.diff")).unwrap();
    project.write("other", "edited\n").write("changed", "edited\n");
    assert_eq!(project.decree(["diff", RUN]).ok().out, recorded);
    let stat = project.decree(["diff", "--stat", RUN]).ok().text();
    assert!(stat.contains("changed") && stat.contains("binary") && !stat.contains("other"), "{stat}");
}

/// REV-04.
///
/// Each of these is a later edit to a path of the run.
#[test]
fn a_later_edit_of_a_changed_path_stops_the_revert_and_nothing_is_touched() {
    let edits: [Edit; 9] = [
        ("changed", |p| {
            p.write("changed", "a\nB\nmine\n");
        }),
        ("changed", |p| {
            p.chmod("changed", 0o755);
        }),
        ("changed", |p| {
            p.remove("changed");
        }),
        ("changed", |p| {
            p.remove("changed").write("changed/mine", "x\n");
        }),
        ("deleted", |p| {
            p.write("deleted", "mine\n");
        }),
        ("binary", |p| {
            p.write("binary", "text now\n");
        }),
        ("new/file", |p| {
            p.write("new/file", "mine\n");
        }),
        ("link", |p| {
            p.remove("link").write("link", "new");
        }),
        ("becomes-file", |p| {
            p.write("becomes-file", "mine\n");
        }),
    ];
    for (path, edit) in edits {
        let Recorded { project, .. } = sample_run();
        edit(&project);
        let before = project.snapshot();
        project.decree(["revert", RUN]).fails(1).mentions(&[path, "nothing was touched", RUN]);
        assert_same(&project.snapshot(), &before);
    }
}

/// REV-05.
#[test]
fn edits_elsewhere_survive_a_revert() {
    let Recorded { project, mut original, .. } = sample_run();
    project.write("other", "edited\n").write("mine", "x\n").write("new/mine", "beside the run's own\n");
    for (name, thing) in project.snapshot() {
        if [&b"other"[..], b"mine", b"new", b"new/mine"].contains(&&name[..]) {
            original.insert(name, thing);
        }
    }
    project.decree(["revert", RUN]).ok();
    assert_same(&project.snapshot(), &original);
}

/// Where the run's directory has to make way for a file, a user's file in it is not deleted.
#[test]
fn a_later_file_in_a_directory_that_has_to_go_stops_the_revert() {
    let run = as_run(recorded(
        |p| {
            p.write("file", "x\n");
        },
        |p| {
            p.remove("file").write("file/inside", "y\n");
        },
    ));
    run.project.write("file/mine", "mine\n");
    let before = run.project.snapshot();
    run.project.decree(["revert", RUN]).fails(1).mentions(&["file/mine"]);
    assert_same(&run.project.snapshot(), &before);
}

#[test]
fn what_a_run_built_out_of_sight_is_set_aside() {
    let run = as_run(recorded(
        |p| {
            p.write(".gitignore", "");
        },
        |p| {
            p.write(".gitignore", "/target\n").write("target/out", "built\n");
        },
    ));
    run.project.write("target/out", "built\n");
    run.project.decree(["revert", RUN]).ok().mentions(&["target"]);
    assert_same(&run.project.snapshot(), &run.original);
    let kept = run_file(&run.project, "set-aside/target/out");
    assert_eq!(fs::read(kept).unwrap(), b"built\n");
}

/// A directory that was there before the run and got files of others since stays with them.
#[test]
fn a_directory_that_the_run_emptied_is_filled_again_around_later_files() {
    let run = as_run(recorded(
        |p| {
            p.write("dir/a", "a\n").write("dir/sub/b", "b\n");
        },
        |p| {
            p.remove("dir/a").remove("dir/sub");
        },
    ));
    run.project.write("dir/mine", "mine\n");
    run.project.decree(["revert", RUN]).ok();
    let mut expected = run.original;
    expected.extend(crate::revert::below(&run.project.snapshot(), "dir/mine"));
    assert_same(&run.project.snapshot(), &expected);
}

#[test]
fn a_run_without_its_manifest_or_its_diff_is_not_reverted() {
    for file in ["manifest.json", "changes.diff"] {
        let Recorded { project, mutated, .. } = sample_run();
        fs::remove_file(run_file(&project, file)).unwrap();
        project.decree(["revert", RUN]).fails(4).mentions(&[file]);
        assert_same(&project.snapshot(), &mutated);
    }
}

/// REV-06. A FIFO would block a plain open for good.
#[test]
fn a_fifo_in_the_place_of_a_result_is_an_error_and_blocks_nothing() {
    let Recorded { project, mutated, .. } = sample_run();
    fs::remove_file(run_file(&project, "result.json")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, run_file(&project, "result.json"), 0o600.into()).unwrap();
    project.decree(["revert", RUN]).fails(1).mentions(&["result.json", "not a regular file"]);
    project.decree(["status"]).ok();
    assert_same(&project.snapshot(), &mutated);
}

/// AUD-01. The change is in the tree, so its record says so, even if the audit entry cannot be written.
#[test]
fn an_apply_without_an_audit_entry_is_an_error_but_recorded() {
    let Recorded { project, original, mutated, .. } = sample_run();
    project.decree(["revert", RUN]).ok();
    assert_same(&project.snapshot(), &original);
    fs::remove_file(project.path(".decree/audit.jsonl")).unwrap();
    fs::create_dir(project.path(".decree/audit.jsonl")).unwrap();
    project.decree(["apply", RUN]).fails(1).mentions(&["audit"]);
    assert_same(&project.snapshot(), &mutated);
    fs::remove_dir(project.path(".decree/audit.jsonl")).unwrap();
    project.decree(["apply", RUN]).ok().mentions(&["already applied"]);
    project.decree(["revert", RUN]).ok().mentions(&["each verified"]);
    assert_same(&project.snapshot(), &original);
}
