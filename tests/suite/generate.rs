//! Random trees, and random changes to them, as [`TreeSnapshot`]s; and writing a snapshot to a directory.
//!
//! A tree and its changes are worked out in memory, so a test knows what has to be on disk without asking
//! decree or the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

use super::harness::{TreeEntry, TreeSnapshot, snapshot};

/// What may be in a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whatever a checkpoint can hold.
    Anything,
    /// Only what `git apply` and `patch` can both say: text, links, two modes, no type that changes.
    ForTools,
}

/// So many cases, or as many as `DECREE_CASES` asks for.
pub fn cases(default: u32) -> u32 {
    std::env::var("DECREE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// So many cases, or as many as `DECREE_CASES` asks for; always the same ones.
pub fn config(default: u32) -> ProptestConfig {
    ProptestConfig {
        cases: cases(default),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0xdec4ee),
        max_shrink_time: 30_000,
        ..ProptestConfig::default()
    }
}

/// A tree.
pub fn tree(kind: Kind) -> impl Strategy<Value = TreeSnapshot> {
    prop::collection::vec((path(), thing(kind)), 1..14).prop_map(move |things| {
        let mut tree = tree_of(things.iter().map(|(path, thing)| (&path[..], thing.clone())));
        if kind == Kind::ForTools {
            prune_empty_dirs(&mut tree);
        }
        tree
    })
}

/// A tree, and what became of it.
#[derive(Clone)]
pub struct Changed {
    pub before: TreeSnapshot,
    pub after: TreeSnapshot,
}

impl std::fmt::Debug for Changed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (when, tree) in [("before", &self.before), ("after", &self.after)] {
            writeln!(f, "{when}:")?;
            for (path, thing) in tree {
                writeln!(f, "  {:?}: {thing:?}", String::from_utf8_lossy(path))?;
            }
        }
        Ok(())
    }
}

/// A random tree, and random things done to it.
pub fn changed(kind: Kind) -> impl Strategy<Value = Changed> {
    (tree(kind), prop::collection::vec(mutation(kind), 1..9)).prop_map(move |(before, mutations)| {
        let mut after = before.clone();
        for mutation in &mutations {
            mutation.apply(&mut after);
        }
        if kind == Kind::ForTools {
            drop_changed_types(&before, &mut after);
            prune_empty_dirs(&mut after);
        }
        Changed { before, after }
    })
}

/// The paths that a diff has to name, and no others.
///
/// A directory is named if it is empty or has a mode of its own. One with a mode of its own is also named
/// if it did not change but became empty, or was: the diff has to say that it stays.
pub fn changed_paths(before: &TreeSnapshot, after: &TreeSnapshot) -> BTreeSet<Vec<u8>> {
    let (old, new) = (named(before), named(after));
    let all: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).copied().collect();
    all.into_iter()
        .filter(|path| {
            let stays = old.contains_key(path) && is_empty_dir(before, path) != is_empty_dir(after, path);
            old.get(path) != new.get(path) || stays
        })
        .cloned()
        .collect()
}

/// What a manifest names.
fn named(tree: &TreeSnapshot) -> BTreeMap<&Vec<u8>, &TreeEntry> {
    tree.iter()
        .filter(|(path, thing)| match thing {
            TreeEntry::Dir { mode } => *mode != 0o755 || is_empty_dir(tree, path),
            _ => true,
        })
        .collect()
}

fn is_empty_dir(tree: &TreeSnapshot, path: &[u8]) -> bool {
    matches!(tree.get(path), Some(TreeEntry::Dir { .. })) && below(tree, path).is_empty()
}

/// Everything in a directory, at any depth.
fn below(tree: &TreeSnapshot, dir: &[u8]) -> Vec<Vec<u8>> {
    let start = [dir, b"/"].concat();
    tree.keys().filter(|path| path.starts_with(&start)).cloned().collect()
}

/// The directories above a path, outermost first.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

/// A picture of these things and the directories above them.
pub fn tree_of<'p>(things: impl IntoIterator<Item = (&'p [u8], TreeEntry)>) -> TreeSnapshot {
    let mut tree = TreeSnapshot::new();
    for (path, thing) in things {
        add(&mut tree, path, thing);
    }
    tree
}

/// Puts a thing at a path where nothing is, unless something other than a directory is above it.
fn add(tree: &mut TreeSnapshot, path: &[u8], thing: TreeEntry) {
    let blocked = parents(path).any(|dir| !matches!(tree.get(dir), None | Some(TreeEntry::Dir { .. })));
    if blocked || tree.contains_key(path) {
        return;
    }
    for dir in parents(path) {
        tree.entry(dir.to_vec()).or_insert(TreeEntry::Dir { mode: 0o755 });
    }
    tree.insert(path.to_vec(), thing);
}

fn remove(tree: &mut TreeSnapshot, path: &[u8]) {
    for inner in below(tree, path) {
        tree.remove(&inner);
    }
    tree.remove(path);
}

fn prune_empty_dirs(tree: &mut TreeSnapshot) {
    let paths: Vec<Vec<u8>> = tree.keys().rev().cloned().collect();
    for path in paths {
        if is_empty_dir(tree, &path) {
            tree.remove(&path);
        }
    }
}

fn drop_changed_types(before: &TreeSnapshot, after: &mut TreeSnapshot) {
    for (path, old) in before {
        if after.get(path).is_some_and(|new| std::mem::discriminant(old) != std::mem::discriminant(new)) {
            remove(after, path);
        }
    }
}

/// Something that a routine may do.
#[derive(Clone, Debug)]
enum Mutation {
    EditLines(Index, Vec<LineEdit>),
    Truncate(Index, Index),
    Rewrite(Index, Vec<u8>),
    Retarget(Index, Vec<u8>),
    Chmod(Index, u32, u32),
    Delete(Index),
    Add(Vec<u8>, TreeEntry),
    Rename(Index, Vec<u8>),
    Replace(Index, TreeEntry),
    ReplaceByTree(Index, TreeSnapshot),
}

#[derive(Clone, Debug)]
enum LineEdit {
    Insert(Index, Vec<u8>),
    Remove(Index),
    Replace(Index, Vec<u8>),
    ToggleFinalNewline,
}

impl Mutation {
    fn apply(&self, tree: &mut TreeSnapshot) {
        match self {
            Mutation::EditLines(pick, edits) => {
                on_file(tree, pick, |bytes| edits.iter().for_each(|edit| edit.apply(bytes)));
            }
            Mutation::Truncate(pick, at) => {
                on_file(tree, pick, |bytes| bytes.truncate(at.index(bytes.len() + 1)));
            }
            Mutation::Rewrite(pick, content) => on_file(tree, pick, |bytes| bytes.clone_from(content)),
            Mutation::Retarget(pick, to) => {
                if let Some(path) = pick_one(tree, pick, |thing| matches!(thing, TreeEntry::Link { .. })) {
                    tree.insert(path, TreeEntry::Link { target: to.clone() });
                }
            }
            Mutation::Chmod(pick, for_file, for_dir) => {
                let Some(path) = pick_one(tree, pick, |_| true) else { return };
                match tree.get_mut(&path) {
                    Some(TreeEntry::File { mode, .. }) => *mode = *for_file,
                    Some(TreeEntry::Dir { mode }) => *mode = *for_dir,
                    _ => {}
                }
            }
            Mutation::Delete(pick) => {
                if let Some(path) = pick_one(tree, pick, |_| true) {
                    remove(tree, &path);
                }
            }
            Mutation::Add(path, thing) => add(tree, path, thing.clone()),
            Mutation::Rename(pick, to) => rename(tree, pick, to),
            Mutation::Replace(pick, thing) => {
                if let Some(path) = pick_one(tree, pick, |_| true) {
                    remove(tree, &path);
                    add(tree, &path, thing.clone());
                }
            }
            Mutation::ReplaceByTree(pick, inner) => {
                let Some(path) = pick_one(tree, pick, |_| true) else { return };
                remove(tree, &path);
                for (below, thing) in inner {
                    add(tree, &[&path, &b"/"[..], below].concat(), thing.clone());
                }
            }
        }
    }
}

fn rename(tree: &mut TreeSnapshot, pick: &Index, to: &[u8]) {
    let Some(from) = pick_one(tree, pick, |_| true) else { return };
    if to.starts_with(&from) {
        return;
    }
    let moved: Vec<(Vec<u8>, TreeEntry)> = tree
        .iter()
        .filter(|(path, _)| **path == from || path.starts_with(&[&from, &b"/"[..]].concat()))
        .map(|(path, thing)| ([to, &path[from.len()..]].concat(), thing.clone()))
        .collect();
    remove(tree, &from);
    for (path, thing) in moved {
        add(tree, &path, thing);
    }
}

impl LineEdit {
    fn apply(&self, text: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> =
            text.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        match self {
            LineEdit::Insert(at, line) => lines.insert(at.index(lines.len() + 1), line.clone()),
            LineEdit::Remove(at) if !lines.is_empty() => drop(lines.remove(at.index(lines.len()))),
            LineEdit::Replace(at, line) if !lines.is_empty() => {
                let at = at.index(lines.len());
                lines[at].clone_from(line);
            }
            LineEdit::ToggleFinalNewline => match lines.last_mut() {
                Some(last) if last.ends_with(b"\n") => drop(last.pop()),
                Some(last) => last.push(b'\n'),
                None => {}
            },
            _ => {}
        }
        *text = lines.concat();
    }
}

fn pick_one(tree: &TreeSnapshot, pick: &Index, wanted: impl Fn(&TreeEntry) -> bool) -> Option<Vec<u8>> {
    let paths: Vec<&Vec<u8>> = tree.iter().filter(|(_, thing)| wanted(thing)).map(|(path, _)| path).collect();
    (!paths.is_empty()).then(|| pick.get(&paths).to_vec())
}

fn on_file(tree: &mut TreeSnapshot, pick: &Index, edit: impl FnOnce(&mut Vec<u8>)) {
    if let Some(path) = pick_one(tree, pick, |thing| matches!(thing, TreeEntry::File { .. }))
        && let Some(TreeEntry::File { bytes, .. }) = tree.get_mut(&path)
    {
        edit(bytes);
    }
}

fn mutation(kind: Kind) -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    let edits = prop::collection::vec(line_edit(), 1..4);
    let inner = prop::collection::vec((name(), thing(kind)), 0..3)
        .prop_map(|things| things.into_iter().collect::<TreeSnapshot>());
    prop_oneof![
        5 => (index(), edits).prop_map(|(pick, edits)| Mutation::EditLines(pick, edits)),
        1 => (index(), index()).prop_map(|(pick, at)| Mutation::Truncate(pick, at)),
        2 => (index(), content(kind)).prop_map(|(pick, bytes)| Mutation::Rewrite(pick, bytes)),
        1 => (index(), target()).prop_map(|(pick, to)| Mutation::Retarget(pick, to)),
        2 => (index(), file_mode(kind), dir_mode(kind))
            .prop_map(|(pick, file, dir)| Mutation::Chmod(pick, file, dir)),
        2 => index().prop_map(Mutation::Delete),
        3 => (path(), thing(kind)).prop_map(|(path, thing)| Mutation::Add(path, thing)),
        2 => (index(), path()).prop_map(|(pick, to)| Mutation::Rename(pick, to)),
        2 => (index(), thing(kind)).prop_map(|(pick, thing)| Mutation::Replace(pick, thing)),
        2 => (index(), inner).prop_map(|(pick, inner)| Mutation::ReplaceByTree(pick, inner)),
    ]
}

fn line_edit() -> impl Strategy<Value = LineEdit> {
    prop_oneof![
        3 => (any::<Index>(), line()).prop_map(|(at, line)| LineEdit::Insert(at, line)),
        2 => any::<Index>().prop_map(LineEdit::Remove),
        3 => (any::<Index>(), line()).prop_map(|(at, line)| LineEdit::Replace(at, line)),
        1 => Just(LineEdit::ToggleFinalNewline),
    ]
}

fn thing(kind: Kind) -> BoxedStrategy<TreeEntry> {
    let file = (file_mode(kind), content(kind)).prop_map(|(mode, bytes)| TreeEntry::File { mode, bytes });
    let link = target().prop_map(|target| TreeEntry::Link { target });
    let dir = dir_mode(kind).prop_map(|mode| TreeEntry::Dir { mode });
    match kind {
        Kind::Anything => prop_oneof![6 => file, 1 => link, 1 => dir].boxed(),
        Kind::ForTools => prop_oneof![8 => file, 1 => link].boxed(),
    }
}

fn file_mode(kind: Kind) -> BoxedStrategy<u32> {
    match kind {
        Kind::Anything => prop_oneof![
            4 => select(&[0o644, 0o755][..]),
            1 => select(&[0o600, 0o700, 0o444, 0o555, 0o664, 0o4755, 0o2711, 0o1644][..]),
        ]
        .boxed(),
        Kind::ForTools => select(&[0o644, 0o755][..]).boxed(),
    }
}

/// Only directories that their owner may look into: a checkpoint cannot be made of others.
fn dir_mode(kind: Kind) -> BoxedStrategy<u32> {
    match kind {
        Kind::Anything => select(&[0o755, 0o755, 0o700, 0o750, 0o555, 0o2775, 0o1777][..]).boxed(),
        Kind::ForTools => Just(0o755).boxed(),
    }
}

fn target() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        path(),
        select(&["nowhere", "../outside", "/etc/passwd", ".", "a b", "new\nline", "\u{e9}"][..])
            .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// Names that a format may trip over.
const ODD_NAMES: &[&[u8]] = &[
    b"sp ace",
    b"qu\"ote",
    b"back\\slash",
    b"tab\t",
    b"new\n--- line",
    b" lead",
    b"trail ",
    b"-rf",
    b"*",
    b"#",
    b"\x01",
    b"\x7f",
    "gr\u{fc}n".as_bytes(),
    "\u{65e5}\u{672c}".as_bytes(),
    b"null",
    b"caf\xe9",
    b"\\351",
    b"cr\r",
];

/// Few names, so that paths meet; some sort between a directory and what is in it.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let plain = select(&["a", "b", "src", "a-b", "a.b", "a0", "main.rs"][..]).prop_map(str::as_bytes);
    let odd = select(ODD_NAMES);
    prop_oneof![4 => plain, 1 => odd].prop_map(<[u8]>::to_vec)
}

/// Up to four directories deep.
fn path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(name(), 1..=5).prop_map(|names| names.join(&b'/'))
}

/// Lines, some of which look like parts of a diff.
const WORDS: &[&[u8]] = &[
    b"one",
    b"two",
    b"three",
    b"",
    b" ",
    b"\tindented",
    b"trailing ",
    b"--- a/a",
    b"+++ b/a",
    b"-- ",
    b"@@ -1 +1 @@",
    b"diff --git a/a b/a",
    b"\\ No newline at end of file",
    b"# decree-end changes=0",
    b"# decree-binary \"a\"",
    b"From 0123",
    b"Index: a",
    b"caf\xe9",
    "na\u{ef}ve".as_bytes(),
    b"lone\rreturn",
];

/// A line, most often with its newline.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let words = select(WORDS);
    let end = prop_oneof![8 => Just(&b"\n"[..]), 3 => Just(&b"\r\n"[..]), 1 => Just(&b"\r"[..])];
    (words, end).prop_map(|(words, end)| [words, end].concat())
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let short = prop::collection::vec(line(), 0..12);
    let long = prop::collection::vec(line(), 30..120);
    (prop_oneof![4 => short, 1 => long], any::<bool>()).prop_map(|(lines, chop)| {
        let mut text = lines.concat();
        if chop && text.ends_with(b"\n") {
            text.pop();
        }
        text
    })
}

fn content(kind: Kind) -> BoxedStrategy<Vec<u8>> {
    let binary = prop::collection::vec(any::<u8>(), 1..200).prop_map(|mut bytes| {
        bytes[0] = 0;
        bytes
    });
    // Beyond what is looked at, so a text all the same.
    let late_nul = text().prop_map(|text| [&b"filler\n".repeat(1200)[..], b"\0\n", &text].concat());
    match kind {
        Kind::Anything => prop_oneof![10 => text(), 3 => binary, 1 => late_nul].boxed(),
        Kind::ForTools => text().boxed(),
    }
}

/// Makes a directory look like a picture, but for its `.decree/` and `.git/`; rewrites only what differs.
pub fn become_like(root: &Path, wanted: &TreeSnapshot) {
    let at = |path: &[u8]| root.join(OsStr::from_bytes(path));
    let chmod = |path: &[u8], mode| {
        fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let found = snapshot(root);
    for (path, _) in found.iter().filter(|(_, thing)| matches!(thing, TreeEntry::Dir { .. })) {
        chmod(path, 0o755);
    }
    for (path, thing) in found.iter().rev() {
        match (thing, wanted.get(path)) {
            (TreeEntry::Dir { .. }, Some(TreeEntry::Dir { .. })) => {}
            (TreeEntry::File { .. }, Some(TreeEntry::File { .. })) => {}
            (thing, Some(same)) if thing == same => {}
            (TreeEntry::Dir { .. }, _) => fs::remove_dir(at(path)).unwrap(),
            _ => fs::remove_file(at(path)).unwrap(),
        }
    }
    for (path, thing) in wanted {
        match thing {
            TreeEntry::Dir { .. } if !at(path).is_dir() => fs::create_dir(at(path)).unwrap(),
            TreeEntry::Link { target } if at(path).symlink_metadata().is_err() => {
                symlink(OsStr::from_bytes(target), at(path)).unwrap();
            }
            TreeEntry::File { bytes, .. } => match found.get(path) {
                Some(TreeEntry::File { bytes: old, .. }) if old == bytes => {}
                Some(TreeEntry::File { .. }) => {
                    chmod(path, 0o644);
                    fs::write(at(path), bytes).unwrap();
                }
                _ => fs::write(at(path), bytes).unwrap(),
            },
            _ => {}
        }
    }
    for (path, thing) in wanted.iter().rev() {
        if let TreeEntry::File { mode, .. } | TreeEntry::Dir { mode } = thing
            && at(path).symlink_metadata().unwrap().mode() & 0o7777 != *mode
        {
            chmod(path, *mode);
        }
    }
}
