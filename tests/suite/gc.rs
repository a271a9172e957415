//! `checkpoint gc` deletes what has expired and the content that nothing names, and nothing else.

mod concurrent;
mod doubt;
mod killed;
mod shared;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Project, TreeSnapshot, assert_same, snapshot};
use crate::pipeline::pipeline_project::PipelineProject;
use crate::revert::binary::noise;

/// A project with a past: checkpoints that are kept and checkpoints that have expired, by turns, and a run.
struct Past {
    project: PipelineProject,
    kept: Vec<(String, TreeSnapshot)>,
    expired: Vec<String>,
    run: String,
    before_run: TreeSnapshot,
}

impl std::ops::Deref for Past {
    type Target = PipelineProject;

    fn deref(&self) -> &PipelineProject {
        &self.project
    }
}

const KIB: usize = 1024;

impl Past {
    /// Every checkpoint has something that no other has, and something that others have, too.
    fn new() -> Past {
        let project = PipelineProject::with("echo changed >notes.txt; head -c 3000 /dev/urandom >made.bin");
        project.write("src/same.rs", "fn same() {}\n".repeat(100));
        let (mut kept, mut expired) = (Vec::new(), Vec::new());
        for n in 0..6 {
            project.write("own.bin", noise(40 * KIB, n)).write("turns.bin", noise(20 * KIB, 100 + n / 2));
            project.write(format!("src/{n}.rs"), format!("fn f{n}() {{}}\n").repeat(50));
            let id = project.checkpoint();
            match n % 2 {
                0 => expired.push(id),
                _ => kept.push((id, project.snapshot())),
            }
        }
        project.spec("1-a", "A\n");
        let before_run = project.snapshot();
        project.process().ok();
        let run = project.only_run();
        expired.iter().for_each(|id| expire(&project, id));
        Past { project, kept, expired, run, before_run }
    }

    /// Everything that has not expired is intact, and restores every byte.
    #[track_caller]
    fn assert_all_there(&self) {
        self.decree(["checkpoint", "verify", "--all"]).ok();
        self.decree(["checkpoint", "verify", &self.run]).ok();
        for (id, picture) in &self.kept {
            self.decree(["rollback", id]).ok();
            let mut found = self.snapshot();
            // What is done is not part of the tree.
            found.remove(&b"specs/processed-spec.md"[..]);
            assert_same(&found, picture);
        }
    }

    fn checkpoints(&self) -> Vec<String> {
        self.names(".decree/checkpoints")
    }
}

/// Lets a checkpoint's time be over.
pub fn expire(project: &Project, id: &str) {
    let path = project.record(id, "checkpoint.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["expiry"] = "2020-01-01T00:00:00Z".into();
    record.as_object_mut().unwrap().remove("check");
    let new = project.path(".decree/new-record");
    fs::write(&new, record.to_string()).unwrap();
    fs::rename(new, path).unwrap();
}

/// The lengths of all files in a directory.
fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| match path.symlink_metadata().unwrap() {
            found if found.is_dir() => bytes_below(&path),
            found => found.len(),
        })
        .sum()
}

fn packs(project: &Project) -> usize {
    let store = fs::read_dir(project.path(".decree/store")).unwrap();
    store.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|it| it == "pack")).count()
}

fn in_decree(project: &Project) -> TreeSnapshot {
    snapshot(&project.path(".decree"))
}

fn gc_json(project: &Project, args: &[&str]) -> Value {
    let args = [&["checkpoint", "gc", "--format", "json"], args].concat();
    serde_json::from_slice(&project.decree(args).ok().out).unwrap()
}

/// GCC-01.
#[test]
fn only_what_has_expired_goes_and_each_is_named_with_what_goes_with_it() {
    let past = Past::new();
    let tree = past.snapshot();
    let runs = snapshot(&past.path(".decree/runs"));
    let text = past.decree(["checkpoint", "gc"]).ok().text();
    for id in &past.expired {
        let line = text.lines().find(|line| line.starts_with(id)).unwrap();
        assert!(line.contains("created 20") && line.contains("expired 2020-01-01T00:00:00Z"), "{line}");
        // Its own.bin; everything else is in the checkpoint after it as well.
        assert!(line.contains("only it holds 1 file, 41 kB"), "{line}");
    }
    assert!(text.contains("3 expired checkpoints deleted; ") && text.ends_with(" freed\n"), "{text}");
    let mut kept: Vec<String> = past.kept.iter().map(|(id, _)| id.clone()).collect();
    kept.sort();
    assert_eq!(past.checkpoints(), kept);
    assert_same(&past.snapshot(), &tree);
    assert_same(&snapshot(&past.path(".decree/runs")), &runs);
    let audit = past.decree(["audit"]).ok().text();
    for id in &past.expired {
        let line = audit.lines().find(|line| line.contains(id)).unwrap();
        assert!(line.contains("delete") && line.contains("expired on 2020-01-01T00:00:00Z"), "{line}");
        past.decree(["rollback", id]).fails(3);
    }
    past.decree(["audit", "verify"]).ok();
    let again = past.decree(["checkpoint", "gc"]).ok().text();
    assert_eq!(again, "no checkpoint is deleted, and no content can be dropped\n");
}

/// GCC-01.
#[test]
fn a_checkpoint_goes_when_its_time_is_over_and_not_before() {
    let project = Project::new();
    project.write("a", "a\n");
    project.decree(["checkpoint", "create", "--expiry", "1h"]).ok();
    project.decree(["checkpoint", "create", "--expiry", "1s"]).ok();
    let gone = || gc_json(&project, &[])["checkpoints"].as_array().unwrap().len();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert_eq!((gone(), gone()), (1, 0));
    assert_eq!(fs::read_dir(project.path(".decree/checkpoints")).unwrap().count(), 1);
}

/// GCC-02.
#[test]
fn everything_else_is_whole_and_restores_every_byte() {
    let past = Past::new();
    past.decree(["checkpoint", "gc"]).ok();
    past.decree(["revert", &past.run]).ok();
    past.remove("specs/processed-spec.md");
    assert_same(&past.snapshot(), &past.before_run);
    past.assert_all_there();
}

/// GCC-02.
#[test]
fn a_run_that_was_reverted_can_be_applied_and_rolled_back_to_afterwards() {
    let past = Past::new();
    past.decree(["revert", &past.run]).ok();
    past.decree(["checkpoint", "gc"]).ok();
    past.decree(["apply", &past.run]).ok();
    assert_eq!(past.read("notes.txt"), b"changed\n");
    past.decree(["rollback", &past.run]).ok();
    past.remove("specs/processed-spec.md");
    assert_same(&past.snapshot(), &past.before_run);
}

/// GCC-03.
#[test]
fn a_dry_run_changes_no_byte_and_reports_what_then_happens() {
    let past = Past::new();
    let before = in_decree(&past);
    let text = past.decree(["checkpoint", "gc", "--dry-run"]).ok().text();
    assert!(text.contains("3 expired checkpoints would be deleted; "), "{text}");
    assert!(text.contains("would be rewritten") && text.ends_with(" would be freed\n"), "{text}");
    let foreseen = gc_json(&past, &["--dry-run"]);
    assert_same(&in_decree(&past), &before);
    let (store, all) = (bytes_below(&past.path(".decree/store")), bytes_below(&past.path(".decree")));
    let output = gc_json(&past, &[]);
    assert_eq!((&foreseen["dry_run"], &output["dry_run"]), (&true.into(), &false.into()));
    assert_eq!(foreseen["checkpoints"], output["checkpoints"]);
    assert_eq!(
        output["checkpoints"][0]["unrestorable"],
        serde_json::json!({ "files": 1, "bytes": 40 * KIB })
    );
    let number = |value: &Value| value.as_u64().unwrap();
    // The numbers reported are those on disk.
    let freed_in_store = store - bytes_below(&past.path(".decree/store"));
    assert_eq!(
        number(&output["store"]["bytes_before"]) - number(&output["store"]["bytes_after"]),
        freed_in_store
    );
    let line = past.read(".decree/audit.jsonl").len() as u64 + past.read(".decree/lock").len() as u64;
    let freed = all + line - bytes_below(&past.path(".decree"));
    let lock = before.get(&b"lock"[..]).map_or(0, |_| past.read(".decree/lock").len() as u64);
    assert!(number(&output["freed"]).abs_diff(freed - lock) < 100, "{} is not {freed}", output["freed"]);
    // What was foreseen is close to it, and promises no more.
    let (foreseen, output) = (number(&foreseen["freed"]), number(&output["freed"]));
    assert!(foreseen <= output && output - foreseen < output / 10, "{foreseen} and {output}");
    assert!(output > 3 * 40 * KIB as u64, "{output}");
}

/// GCC-03.
#[test]
fn a_dry_run_in_a_project_with_nothing_in_it_makes_nothing() {
    let project = Project::new();
    project.decree(["checkpoint", "gc", "--dry-run"]).ok();
    assert!(in_decree(&project).is_empty());
    project.decree(["checkpoint", "gc"]).ok();
}

/// GCC-08.
#[test]
fn packs_do_not_pile_up() {
    let project = Project::new();
    let mut pictures = Vec::new();
    // Of two sizes, and of each fewer than a checkpoint merges by itself.
    for n in 0..12 {
        let text = format!("round {n}\n");
        project.write("notes.txt", if n < 6 { text.into_bytes() } else { noise(100 * KIB, n) });
        pictures.push((project.checkpoint(), project.snapshot()));
    }
    assert_eq!(packs(&project), 12);
    let output = gc_json(&project, &[]);
    assert_eq!((&output["store"]["packs_rewritten"], packs(&project)), (&12.into(), 1));
    for (id, picture) in pictures {
        project.decree(["rollback", &id]).ok();
        assert_same(&project.snapshot(), &picture);
    }
}

/// GCC-11.
#[test]
fn what_was_dropped_and_is_still_in_the_tree_is_stored_again() {
    let project = Project::new();
    project
        .write("dropped.bin", noise(50 * KIB, 1))
        .write("dir/text", "some text\n")
        .link("link", "dropped.bin");
    let id = project.checkpoint();
    // The cache is sure of every file now.
    std::thread::sleep(std::time::Duration::from_millis(20));
    project.decree(["checkpoint", "create", "--quiet"]).ok();
    for id in fs::read_dir(project.path(".decree/checkpoints")).unwrap() {
        expire(&project, id.unwrap().file_name().to_str().unwrap());
    }
    project.decree(["checkpoint", "gc"]).ok();
    assert_eq!(packs(&project), 0);
    project.decree(["rollback", &id]).fails(3);
    let before = project.snapshot();
    for _ in 0..2 {
        let new = project.checkpoint();
        project.decree(["checkpoint", "verify", &new]).ok();
        project.write("dropped.bin", "other").remove("dir").remove("link");
        project.decree(["rollback", &new]).ok();
        assert_same(&project.snapshot(), &before);
    }
}

/// GCC-11.
#[test]
fn a_part_that_was_dropped_is_stored_again_and_the_rest_is_not() {
    let project = Project::new();
    project.write("stays.bin", noise(400 * KIB, 1));
    let kept = project.checkpoint();
    project.write("goes.bin", noise(50 * KIB, 2));
    let gone = project.checkpoint();
    expire(&project, &gone);
    project.decree(["checkpoint", "gc"]).ok();
    let before = project.snapshot();
    let new = project.checkpoint();
    let bytes = bytes_below(&project.path(".decree/store"));
    assert!(bytes < 470 * KIB as u64, "what was there was stored twice: {bytes}");
    project.remove("goes.bin").remove("stays.bin");
    project.decree(["rollback", &new]).ok();
    assert_same(&project.snapshot(), &before);
    project.decree(["checkpoint", "verify", &kept]).ok();
}

/// GCC-13.
#[test]
fn status_reports_what_could_come_back() {
    let past = Past::new();
    let status = || past.decree(["status"]).ok().text();
    let json = || -> Value {
        serde_json::from_slice(&past.decree(["status", "--format", "json"]).ok().out).unwrap()
    };
    let line = status().lines().find(|line| line.starts_with("store")).unwrap().to_owned();
    assert!(line.contains("6 checkpoints · ") && line.contains(" reclaimable"), "{line}");
    assert!(line.ends_with("decree checkpoint gc --dry-run"), "{line}");
    assert_eq!(
        (&json()["reclaimable"], &json()["expired"]),
        (&gc_json(&past, &["--dry-run"])["freed"], &3.into())
    );
    past.decree(["checkpoint", "gc"]).ok();
    assert!(!status().contains("reclaimable") && !status().contains("gc"), "{}", status());
    assert_eq!((&json()["reclaimable"], &json()["expired"]), (&0.into(), &0.into()));
}

/// GCC-13.
#[test]
fn status_of_a_long_past_reports_only_what_has_expired() {
    let project = Project::new();
    project.write("file", "x");
    (0..64).for_each(|_| drop(project.checkpoint()));
    let id = project.checkpoint();
    assert!(!project.decree(["status"]).ok().text().contains("gc"));
    expire(&project, &id);
    let text = project.decree(["status"]).ok().text();
    assert!(text.contains("65 checkpoints · 1 expired  decree checkpoint gc --dry-run"), "{text}");
    let json: Value =
        serde_json::from_slice(&project.decree(["status", "--format", "json"]).ok().out).unwrap();
    assert_eq!((&json["reclaimable"], &json["expired"]), (&Value::Null, &1.into()));
}
