//! `apply` repeats a recorded change or touches nothing; ids and prefixes.

mod git_form;
mod options;
mod refusals;
pub mod runs;

use std::fs;

use crate::harness::{Project, TreeSnapshot, assert_same, run_command};

/// A project whose change was recorded and undone: `apply` has something to do.
pub struct Recorded {
    pub project: Project,
    pub id: String,
    pub original: TreeSnapshot,
    pub mutated: TreeSnapshot,
}

/// A user's edit to a path, and the path.
type Edit = (&'static str, fn(&Project));

pub fn recorded(setup: impl FnOnce(&Project), mutate: impl FnOnce(&Project)) -> Recorded {
    let project = Project::new();
    setup(&project);
    let original = project.snapshot();
    let id = project.checkpoint();
    mutate(&project);
    let mutated = project.snapshot();
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &original);
    Recorded { project, id, original, mutated }
}

fn sample() -> Recorded {
    recorded(
        |p| {
            p.write("changed", "a\nb\n")
                .write("deleted", "x\n")
                .write("binary", b"\0a")
                .write("other", "o\n");
            p.write("becomes-file/a", "a\n").link("link", "old");
        },
        |p| {
            p.write("changed", "a\nB\n").remove("deleted").write("binary", b"\0b").write("new/file", "n\n");
            p.remove("becomes-file").write("becomes-file", "f\n").remove("link").link("link", "new");
        },
    )
}

#[test]
fn without_a_recorded_change_there_is_nothing_to_apply() {
    let project = Project::new();
    project.write("file", "x\n");
    let id = project.checkpoint();
    project.write("file", "y\n");
    let before = project.snapshot();
    project.decree(["apply", &id]).fails(3).mentions(&[&id, "decree diff"]);
    assert_same(&project.snapshot(), &before);
}

/// REV-06.
#[test]
fn what_is_applied_already_is_said_so() {
    let Recorded { project, id, mutated, .. } = sample();
    project.decree(["apply", &id]).ok();
    project.decree(["apply", &id]).ok().mentions(&["already applied"]);
    assert_same(&project.snapshot(), &mutated);
}

#[test]
fn a_tree_that_is_as_its_checkpoint_has_it_is_said_so() {
    let Recorded { project, id, original, .. } = sample();
    let recorded = fs::read(project.record(&id, "changes.diff")).unwrap();
    project.decree(["revert", &id]).ok().mentions(&["already matches the checkpoint"]);
    assert_same(&project.snapshot(), &original);
    assert_eq!(fs::read(project.record(&id, "changes.diff")).unwrap(), recorded, "the record is gone");
}

/// Each of these alone stops the whole apply, by name, before anything is touched.
#[test]
fn a_path_that_moved_on_stops_an_apply_and_nothing_is_touched() {
    let edits: [Edit; 12] = [
        ("changed", |p| {
            p.write("changed", "a\nc\n");
        }),
        ("changed", |p| {
            p.chmod("changed", 0o600);
        }),
        ("changed", |p| {
            p.remove("changed");
        }),
        ("changed", |p| {
            p.remove("changed").link("changed", "other");
        }),
        ("changed", |p| {
            p.remove("changed").write("changed/x", "");
        }),
        ("deleted", |p| {
            p.write("deleted", "edited\n");
        }),
        ("deleted", |p| {
            p.remove("deleted");
        }),
        ("binary", |p| {
            p.write("binary", b"\0c");
        }),
        ("new/file", |p| {
            p.write("new/file", "mine\n");
        }),
        ("new", |p| {
            p.write("new", "mine\n");
        }),
        ("link", |p| {
            p.remove("link").link("link", "elsewhere");
        }),
        ("becomes-file/mine", |p| {
            p.write("becomes-file/mine", "mine\n");
        }),
    ];
    for (path, edit) in edits {
        let Recorded { project, id, .. } = sample();
        edit(&project);
        let before = project.snapshot();
        project.decree(["apply", &id]).fails(1).mentions(&[path, "nothing was touched"]);
        assert_same(&project.snapshot(), &before);
    }
}

#[test]
fn every_conflict_is_named_at_once() {
    let Recorded { project, id, .. } = sample();
    project.write("changed", "mine\n").write("deleted", "mine\n").write("binary", "mine\n");
    project.decree(["apply", &id]).fails(1).mentions(&["changed:", "deleted:", "binary:"]);
}

#[test]
fn edits_elsewhere_are_kept() {
    let Recorded { project, id, mut original, mut mutated } = sample();
    project.write("other", "edited\n").write("mine/too", "x\n");
    for (name, thing) in project.snapshot() {
        if name == b"other" || name.starts_with(b"mine") {
            original.insert(name.clone(), thing.clone());
            mutated.insert(name, thing);
        }
    }
    project.decree(["apply", &id]).ok();
    assert_same(&project.snapshot(), &mutated);
}

/// A checkpoint's record may travel: it needs neither the store nor the project that it comes from.
#[test]
fn a_record_applies_in_another_copy_of_the_tree() {
    let here = sample();
    let there = Project::new();
    there.write("changed", "a\nb\n").write("deleted", "x\n").write("binary", b"\0a").write("other", "o\n");
    there.write("becomes-file/a", "a\n").link("link", "old");
    assert_same(&there.snapshot(), &here.original);
    for file in ["changes.diff", "result.json", "manifest.json", "checkpoint.json"] {
        let bytes = fs::read(here.project.record(&here.id, file)).unwrap();
        there.write(format!(".decree/checkpoints/{}/{file}", here.id), bytes);
    }
    there.decree(["apply", &here.id]).ok();
    assert_same(&there.snapshot(), &here.mutated);
}

#[test]
fn nothing_is_written_through_a_link() {
    let outside = tempfile::tempdir().unwrap();
    let Recorded { project, id, .. } = recorded(
        |_| {},
        |p| {
            p.write("door/new", "x\n");
        },
    );
    project.link("door", outside.path().to_str().unwrap());
    let before = project.snapshot();
    project.decree(["apply", &id]).fails(1).mentions(&["door/new", "door is not a directory"]);
    assert_same(&project.snapshot(), &before);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// What a revert undid is work; the next revert must not be the end of it.
#[test]
fn a_second_revert_keeps_the_record_of_the_first() {
    let Recorded { project, id, .. } = sample();
    let first = fs::read(project.record(&id, "changes.diff")).unwrap();
    project.write("other", "another change\n");
    project.decree(["revert", &id]).ok();
    let kept = crate::harness::snapshot(&project.path(".decree/checkpoints"));
    let kept = kept
        .values()
        .any(|thing| matches!(thing, crate::harness::TreeEntry::File { bytes, .. } if *bytes == first));
    assert!(kept, "the first change is nowhere any more");
}

/// RBK-15. What a revert undid is in a checkpoint of its own: the other one may expire, and be collected.
#[test]
fn what_a_revert_to_a_checkpoint_undid_outlives_that_checkpoint() {
    let project = Project::new();
    project.write("file", "before\n");
    let id = project.decree(["checkpoint", "create", "--expiry", "2s"]).ok().line();
    project.write("file", "after\n").chmod("file", 0o640).write("new", b"\0work");
    let changed = project.snapshot();
    let output = project.decree(["revert", &id]).ok();
    let saved = project.saved_by_revert(&id).expect("the present is saved");
    let output = output.mentions(&[&format!("decree rollback {saved}"), &format!("decree apply {saved}")]);
    assert!(output.err.contains("2 paths"), "{}", output.err);
    assert_eq!(project.read("file"), b"before\n");
    let shown = project.decree(["checkpoint", "show", &saved]).ok().text();
    assert!(shown.contains(&format!("before the revert to {id}")), "{shown}");
    let own = fs::read_dir(project.path(format!(".decree/checkpoints/{id}"))).unwrap().flatten();
    let mut own: Vec<_> = own.map(|entry| entry.file_name().into_string().unwrap()).collect();
    own.sort();
    assert_eq!(own, ["checkpoint.json", "manifest.json"], "nothing is saved inside what may expire");
    std::thread::sleep(std::time::Duration::from_millis(2600));
    project.decree(["checkpoint", "gc"]).ok();
    assert!(!project.exists(format!(".decree/checkpoints/{id}")) && project.record(&saved, "").exists());
    project.decree(["apply", &saved]).ok().mentions(&["applied 2 paths"]);
    assert_same(&project.snapshot(), &changed);
    project.decree(["apply", &saved]).ok().mentions(&["already applied"]);
    project.write("file", "other\n");
    project.decree(["rollback", &saved]).ok();
    assert_same(&project.snapshot(), &changed);
    let audit = project.decree(["audit", "--format", "json"]).ok().text();
    let audit: serde_json::Value = serde_json::from_str(&audit).unwrap();
    assert_eq!((&audit["records"][0]["subject"], &audit["records"][0]["saved"]), (&id.into(), &saved.into()));
}

#[test]
fn an_id_may_be_a_prefix_that_only_one_has() {
    let Recorded { project, id, mutated, .. } = sample();
    project.decree(["apply", &id[..id.len() - 3]]).ok();
    assert_same(&project.snapshot(), &mutated);
}

/// CHK-11.
#[test]
fn an_ambiguous_id_lists_the_candidates() {
    let project = Project::new();
    project.write("file", "x\n");
    let (one, two) = (project.checkpoint(), project.checkpoint());
    let common = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
    project.write("file", "y\n");
    for verb in ["diff", "revert", "apply"] {
        project.decree([verb, &one[..common]]).fails(3).mentions(&["ambiguous", &one, &two]);
    }
    project.decree(["checkpoint", "verify", &one[..common]]).fails(3);
    assert_eq!(project.read("file"), b"y\n");
}

/// CHK-11.
#[test]
fn an_unknown_id_is_an_error_that_names_it() {
    let project = Project::new();
    project.write("file", "x\n");
    project.checkpoint();
    for id in ["chk_19700101", "nonsense", "../checkpoints", "", "2026111603120000-0"] {
        for verb in ["diff", "revert", "apply"] {
            project.decree([verb, id]).fails(3).mentions(&[&format!("'{id}'")]);
        }
        project.decree(["checkpoint", "show", id]).fails(3);
        project.decree(["checkpoint", "verify", id]).fails(3);
    }
}

#[test]
fn wrong_usage_and_the_wrong_place_have_codes_of_their_own() {
    let project = Project::new();
    for args in
        [&["revert"][..], &["apply"], &["diff"], &["revert", "a", "b"], &["checkpoint"], &["nonsense"]]
    {
        project.decree(args).fails(2);
    }
    let bare = Project::bare();
    for args in [&["revert", "x"][..], &["apply", "x"], &["diff", "x"], &["checkpoint", "create"]] {
        bare.decree(args).fails(3).mentions(&["decree init"]);
    }
    let mut command = project.command();
    project.mkdir("a/b").write("a/file", "x\n");
    let id = run_command(command.current_dir(project.path("a/b")).args(["checkpoint", "create"])).ok().line();
    assert!(project.record(&id, "manifest.json").exists(), "a command works from anywhere in the tree");
}
