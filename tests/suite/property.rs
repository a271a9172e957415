//! Property test: for any change to any tree, a revert undoes it and an apply repeats it exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use decree::quote;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use super::generate::{Changed, Kind, become_like, changed, changed_paths, config, tree_of};
use super::harness::{Project, TreeEntry, TreeSnapshot, assert_same};
use super::oracle::{Tool, assert_counts_agree, assert_tool_agrees};

/// A project with a tree in it.
struct Tree {
    project: Project,
}

impl Tree {
    fn new(picture: &TreeSnapshot) -> Tree {
        let project = Project::new();
        become_like(project.root(), picture);
        Tree { project }
    }

    /// Runs a command; then the tree has to be like this, and nothing may be left lying about.
    #[track_caller]
    fn after(&self, command: [&str; 2], picture: &TreeSnapshot) {
        self.project.decree(command).ok();
        assert_same(&self.project.snapshot(), picture);
        let left = fs::read_dir(self.project.path(".decree/tmp")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "something is left in .decree/tmp");
    }

    /// What `result.json` says of each path, if a change was recorded at all.
    fn result(&self, id: &str) -> Option<BTreeMap<Vec<u8>, Value>> {
        let text = fs::read(self.project.record(id, "result.json")).ok()?;
        let result: Value = serde_json::from_slice(&text).unwrap();
        let changes = result["changes"].as_object().unwrap().clone();
        Some(changes.into_iter().map(|(path, value)| (path_of(&path), value)).collect())
    }

    fn diff(&self, id: &str) -> PathBuf {
        self.project.record(id, "changes.diff")
    }

    /// Takes a checkpoint's diff, and nothing of the store, to another tree.
    fn carry(&self, id: &str, to: &Tree) {
        for file in ["checkpoint.json", "manifest.json", "changes.diff", "result.json"] {
            to.project.write(
                format!(".decree/checkpoints/{id}/{file}"),
                fs::read(self.project.record(id, file)).unwrap(),
            );
        }
    }
}

impl Drop for Tree {
    /// Only root could remove what is in a read-only directory.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            become_like(self.project.root(), &TreeSnapshot::new());
        }
    }
}

fn path_of(text: &str) -> Vec<u8> {
    quote::from_json(text).unwrap().into_owned()
}

proptest! {
    #![proptest_config(config(80))]

    /// DIF-10, REV-01, REV-07.
    #[test]
    fn any_change_can_be_reverted_and_applied_again_here_and_elsewhere(
        Changed { before, after } in changed(Kind::Anything)
    ) {
        let here = Tree::new(&before);
        let id = here.project.checkpoint();
        become_like(here.project.root(), &after);
        here.after(["revert", &id], &before);
        let Some(result) = here.result(&id) else {
            prop_assert_eq!(before, after);
            return Ok(());
        };
        prop_assert_eq!(result.into_keys().collect::<BTreeSet<_>>(), changed_paths(&before, &after));
        here.after(["apply", &id], &after);
        here.after(["revert", &id], &before);

        let elsewhere = Tree::new(&before);
        here.carry(&id, &elsewhere);
        elsewhere.after(["apply", &id], &after);
    }
}

proptest! {
    #![proptest_config(config(60))]

    /// DIF-01.
    #[test]
    fn git_and_patch_make_the_same_trees_out_of_a_text_change(
        Changed { before, after } in changed(Kind::ForTools)
    ) {
        let tree = Tree::new(&before);
        let id = tree.project.checkpoint();
        become_like(tree.project.root(), &after);
        tree.after(["revert", &id], &before);
        let Some(result) = tree.result(&id) else { return Ok(()) };
        let count = |value: &Value| (value["added"].as_u64().unwrap(), value["removed"].as_u64().unwrap());
        let counts = result.iter().map(|(path, value)| (path.clone(), count(value))).collect();
        assert_counts_agree(&tree.diff(&id), &counts);
        for tool in [Tool::Git, Tool::Patch] {
            assert_tool_agrees(tool, &tree.diff(&id), &before, &after);
        }
    }
}

/// Small cases that random changes have found.
#[track_caller]
fn comes_back(before: &[(&str, TreeEntry)], after: &[(&str, TreeEntry)]) {
    let tree = |things: &[(&str, TreeEntry)]| {
        tree_of(things.iter().map(|(path, thing)| (path.as_bytes(), thing.clone())))
    };
    let (before, after) = (tree(before), tree(after));
    let here = Tree::new(&before);
    let id = here.project.checkpoint();
    become_like(here.project.root(), &after);
    here.after(["revert", &id], &before);
    here.after(["apply", &id], &after);
}

fn dir(mode: u32) -> TreeEntry {
    TreeEntry::Dir { mode }
}

fn file(text: &str) -> TreeEntry {
    TreeEntry::File { mode: 0o644, bytes: text.as_bytes().to_vec() }
}

#[test]
fn a_name_may_sort_between_an_empty_directory_and_what_could_be_in_it() {
    comes_back(&[("a", dir(0o755)), ("a-b", file("x\n"))], &[("a", dir(0o755)), ("a-b", file("y\n"))]);
}

#[test]
fn a_new_empty_directory_alone_is_a_change() {
    comes_back(&[("x", file("x\n"))], &[("x", file("x\n")), ("new", dir(0o755))]);
}

#[test]
fn the_mode_of_a_directory_alone_is_a_change() {
    comes_back(&[("d/x", file("x\n"))], &[("d", dir(0o700)), ("d/x", file("x\n"))]);
}

#[test]
fn a_directory_may_become_read_only_together_with_a_change_in_it() {
    comes_back(&[("d/x", file("x\n"))], &[("d", dir(0o500)), ("d/x", file("y\n"))]);
}

/// The generator is worth nothing if it never makes what the tests are about.
#[test]
fn random_changes_are_of_every_kind() {
    let mut runner = TestRunner::new(config(1));
    let strategy = changed(Kind::Anything);
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let Changed { before, after } = strategy.new_tree(&mut runner).unwrap().current();
        for path in changed_paths(&before, &after) {
            seen.insert((word(before.get(&path)), word(after.get(&path))));
        }
    }
    let words = ["nothing", "file", "link", "dir"];
    for (from, to) in words.iter().flat_map(|from| words.map(|to| (*from, to))) {
        assert!(from == "nothing" && to == "nothing" || seen.contains(&(from, to)), "no {from} to {to}");
    }
}

fn word(thing: Option<&TreeEntry>) -> &'static str {
    match thing {
        None => "nothing",
        Some(TreeEntry::File { .. }) => "file",
        Some(TreeEntry::Link { .. }) => "link",
        Some(TreeEntry::Dir { .. }) => "dir",
        Some(TreeEntry::Other) => "other",
    }
}
