//! Walking the tree: which paths are in scope, and what `stat` says of them.
//!
//! A walk goes down level by level, the directories of a level in parallel, and reads no file
//! content except ignore files and possible keys. With a *baseline* (a checkpoint to compare with)
//! it applies the rules in force then as well as those of now:
//!
//! - what the checkpoint holds is always in scope, whatever has become of the ignore files;
//! - something new is in scope only if both sets of rules show it;
//! - something new that is out of scope but was put where the checkpoint had nothing to say is *beside*
//!   the scope ([`Walk::beside`]): a revert moves such things away, it never deletes them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;

use rayon::prelude::*;

use super::coverage::{Coverage, PathText};
use super::entry::{Entry, Mode, Node, Tree};
use super::hash::ContentHash;
use super::ignore::{IgnoreFile, Rules, Source, Verdict};
use super::path::{DECREE_DIR, TRACKER, TreePath};
use super::root::{Root, is_absent};
use super::sensitive::{Sensitive, Suspicion, holds_private_key};
use super::stat_cache::{CachedDir, Known, Stat, StatCache, path_order};
use crate::error::{Error, Result};

/// A directory with more entries than this is inspected by several threads.
const LARGE_DIR: usize = 4096;

/// What a walk needs to know.
pub struct Walker<'a> {
    /// The tree.
    pub root: &'a Root,
    /// What is known of files already.
    pub cache: &'a StatCache,
    /// Which files are left out as secrets.
    pub sensitive: &'a Sensitive,
    /// A directory of decree's own inside the tree, such as a store; left out without a word.
    pub own_dir: Option<&'a TreePath>,
    /// The checkpoint to compare with.
    pub baseline: Option<Baseline<'a>>,
}

/// The state to compare with.
pub struct Baseline<'a> {
    /// What was there.
    pub tree: &'a Tree,
    /// The ignore files of then, by directory.
    pub rules: HashMap<&'a [u8], &'a [IgnoreFile]>,
    /// What was left out then.
    pub coverage: &'a Coverage,
}

/// A finished walk.
#[derive(Default)]
pub struct Walk {
    /// Every directory entered, parents before children; the root is the first.
    pub dirs: Vec<WalkedDir>,
    /// The ignore files in force.
    pub ignore_files: Vec<IgnoreFile>,
    /// What was left out.
    pub coverage: Coverage,
    /// With a baseline: things out of scope that were not there before.
    pub beside: Vec<TreePath>,
    /// With a baseline: directories that had to be made readable, and the modes they had.
    pub opened: Vec<(TreePath, Mode)>,
}

/// One directory.
pub struct WalkedDir {
    /// Relative to the root, which is empty.
    pub path: Box<[u8]>,
    /// The rules in force in it.
    pub fingerprint: [u8; 16],
    /// Its entries in scope, in the order of their paths.
    pub items: Vec<Item>,
    mode: Mode,
    in_scope: bool,
}

/// One entry in scope.
pub struct Item {
    /// In its directory.
    pub name: Box<[u8]>,
    /// What it is.
    pub kind: ItemKind,
}

/// What an entry is.
pub enum ItemKind {
    /// A file; its hash if the cache knows it.
    File {
        /// Before its content was read.
        stat: Stat,
        /// Of its content.
        hash: Option<ContentHash>,
        /// Whether the cache already says so, to be trusted.
        cached: bool,
    },
    /// A link.
    Symlink {
        /// Where it leads.
        target: Box<[u8]>,
        /// Of its target.
        hash: ContentHash,
        /// Whether the cache already says so.
        cached: bool,
    },
    /// A directory, by its number in [`Walk::dirs`].
    Dir(usize),
}

impl Item {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, ItemKind::Dir(_))
    }
}

impl Walk {
    /// The entries of a manifest. Every file's hash has to be known by now.
    pub fn to_tree(&self) -> Tree {
        let yields = self.dirs_that_yield();
        let mut entries = Vec::new();
        // A frame is a directory and how far into it the list has got.
        let mut stack = vec![(0, 0)];
        while let Some((number, at)) = stack.pop() {
            let dir: &WalkedDir = &self.dirs[number];
            let Some(item) = dir.items.get(at) else { continue };
            stack.push((number, at + 1));
            let path = TreePath::joined(&dir.path, &item.name);
            match item.kind {
                ItemKind::File { stat, hash, .. } => entries.push(Entry {
                    path,
                    node: Node::File {
                        hash: hash.expect("hashed before the tree is asked for"),
                        size: stat.size,
                        mode: Mode::from_bits(stat.mode),
                    },
                }),
                ItemKind::Symlink { ref target, hash, .. } => {
                    let size = target.len() as u64;
                    entries.push(Entry { path, node: Node::Symlink { hash, size } });
                }
                ItemKind::Dir(child) => {
                    let inner = &self.dirs[child];
                    let empty = !inner.items.iter().any(|item| match item.kind {
                        ItemKind::Dir(grandchild) => yields[grandchild],
                        _ => true,
                    });
                    let odd = inner.mode != Mode::DIR;
                    if (empty && inner.in_scope) || (!empty && odd) {
                        entries.push(Entry { path, node: Node::Dir { mode: inner.mode } });
                    }
                    stack.push((child, 0));
                }
            }
        }
        Tree::from_sorted(entries).expect("a walk lists paths in order")
    }

    /// Which directories have entries in the end: those in scope, and those with something in scope below.
    fn dirs_that_yield(&self) -> Vec<bool> {
        let mut yields = vec![false; self.dirs.len()];
        for (number, dir) in self.dirs.iter().enumerate().rev() {
            yields[number] = dir.in_scope
                || dir.items.iter().any(|item| match item.kind {
                    ItemKind::Dir(child) => yields[child],
                    _ => true,
                });
        }
        yields
    }
}

/// What one set of rules shows of a directory.
#[derive(Clone)]
struct Side {
    rules: Rules,
    view: View,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// Everything that no rule hides.
    All,
    /// The directory is ignored, but a `.decreeignore` may ask for things in it.
    OnlyKept,
    /// Nothing.
    Nothing,
}

impl Side {
    fn enter(&self, dir: &[u8], files: &[IgnoreFile]) -> Side {
        let rules = match self.view {
            View::All => self.rules.enter(dir, files),
            View::OnlyKept | View::Nothing => self.rules.clone(),
        };
        Side { rules, view: self.view }
    }

    /// Whether an entry is visible, whether it was asked for by name, and the view below it.
    fn judge(&self, path: &[u8], is_dir: bool) -> (bool, bool, View) {
        if self.view == View::Nothing {
            return (false, false, View::Nothing);
        }
        let verdict = self.rules.verdict(path, is_dir);
        let kept = verdict == Verdict::Kept;
        let visible = kept || (self.view == View::All && verdict == Verdict::Shown);
        let below = match () {
            () if visible => View::All,
            () if is_dir && self.rules.may_keep_below(path) => View::OnlyKept,
            () => View::Nothing,
        };
        (visible, kept, below)
    }
}

/// A directory still to be entered.
struct Task {
    path: Box<[u8]>,
    mode: Mode,
    in_scope: bool,
    now: Side,
    before: Option<Side>,
    /// The baseline does not know this directory.
    is_new: bool,
}

/// What came of one directory.
struct Outcome {
    dir: WalkedDir,
    /// In the order of the directories among the items.
    tasks: Vec<Task>,
    ignore_files: Vec<IgnoreFile>,
    coverage: Coverage,
    beside: Vec<TreePath>,
    opened: Option<(TreePath, Mode)>,
    failures: Vec<Failure>,
}

type Failure = (Box<[u8]>, io::Error);

/// What came of one entry of a directory.
enum Seen {
    /// Nothing to say: not there any more, decree's own, out of scope.
    Nothing,
    InScope(Item),
    Enter(Box<[u8]>, Task),
    IgnoredDir(TreePath),
    IgnoredFile,
    Sensitive(TreePath),
    Special(TreePath),
    Beside(TreePath),
    Failed(Failure),
}

struct Listed {
    name: Box<[u8]>,
    entry: fs::DirEntry,
    file_type: fs::FileType,
}

impl Walker<'_> {
    /// Walks the whole tree.
    pub fn walk(&self) -> Result<Walk> {
        let side = Side { rules: Rules::default(), view: View::All };
        let mut level = vec![Task {
            path: Box::default(),
            mode: Mode::DIR,
            in_scope: true,
            before: self.baseline.is_some().then(|| side.clone()),
            now: side,
            is_new: false,
        }];
        let mut walk = Walk::default();
        let mut failures = Vec::new();
        let mut entered = 1;
        while !level.is_empty() {
            let outcomes: Vec<Outcome> = level.into_par_iter().map(|task| self.enter(task)).collect();
            level = Vec::new();
            for mut outcome in outcomes {
                for item in &mut outcome.dir.items {
                    if let ItemKind::Dir(number) = &mut item.kind {
                        *number = entered;
                        entered += 1;
                    }
                }
                walk.dirs.push(outcome.dir);
                walk.ignore_files.extend(outcome.ignore_files);
                walk.coverage.absorb(outcome.coverage);
                walk.beside.extend(outcome.beside);
                walk.opened.extend(outcome.opened);
                failures.extend(outcome.failures);
                level.extend(outcome.tasks);
            }
        }
        walk.coverage.sort();
        walk.beside.sort();
        if failures.is_empty() { Ok(walk) } else { Err(unreadable(failures)) }
    }

    fn enter(&self, task: Task) -> Outcome {
        let mut outcome = Outcome {
            dir: WalkedDir {
                path: task.path.clone(),
                fingerprint: [0; 16],
                items: Vec::new(),
                mode: task.mode,
                in_scope: task.in_scope,
            },
            tasks: Vec::new(),
            ignore_files: Vec::new(),
            coverage: Coverage::default(),
            beside: Vec::new(),
            opened: None,
            failures: Vec::new(),
        };
        let mut listed = match self.list(&task, &mut outcome.opened) {
            Ok(listed) => listed,
            Err(error) if is_absent(&error) && !task.path.is_empty() => return outcome,
            Err(error) => {
                outcome.failures.push((task.path, error));
                return outcome;
            }
        };
        listed.sort_unstable_by(|a, b| {
            path_order((&a.name, a.file_type.is_dir()), (&b.name, b.file_type.is_dir()))
        });
        match self.read_ignore_files(&task, &listed) {
            Ok(files) => outcome.ignore_files = files,
            Err(failure) => {
                outcome.failures.push(failure);
                return outcome;
            }
        }
        let now = task.now.enter(&task.path, &outcome.ignore_files);
        let before = task.before.as_ref().map(|side| {
            let files = self.baseline.as_ref().and_then(|b| b.rules.get(&*task.path));
            side.enter(&task.path, files.copied().unwrap_or_default())
        });
        outcome.dir.fingerprint = self.fingerprint(&now.rules);
        let here = Here {
            task: &task,
            known: self.cache.dir(&task.path),
            same_rules: before
                .as_ref()
                .is_none_or(|b| b.rules.fingerprint() == now.rules.fingerprint() && b.view == now.view),
            now,
            before,
        };
        let seen: Vec<Seen> = if listed.len() > LARGE_DIR {
            listed.into_par_iter().map(|entry| self.inspect(&here, entry)).collect()
        } else {
            listed.into_iter().map(|entry| self.inspect(&here, entry)).collect()
        };
        for seen in seen {
            outcome.take(seen);
        }
        outcome
    }

    fn list(&self, task: &Task, opened: &mut Option<(TreePath, Mode)>) -> io::Result<Vec<Listed>> {
        let path = self.root.path().join(OsStr::from_bytes(&task.path));
        let entries = match fs::read_dir(&path) {
            // A routine may have taken the right to look away from itself.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && task.before.is_some() => {
                let dir = TreePath::new(&*task.path).map_err(|_| error)?;
                self.root.set_mode(&dir, Mode::from_bits(task.mode.bits() | 0o700))?;
                *opened = Some((dir, task.mode));
                fs::read_dir(&path)?
            }
            result => result?,
        };
        entries
            .map(|entry| {
                let entry = entry?;
                let file_type = entry.file_type()?;
                let name = entry.file_name().into_vec().into_boxed_slice();
                Ok(Listed { name, entry, file_type })
            })
            .collect()
    }

    fn read_ignore_files(&self, task: &Task, listed: &[Listed]) -> Result<Vec<IgnoreFile>, Failure> {
        let mut files = Vec::new();
        if task.now.view != View::All {
            return Ok(files);
        }
        for source in Source::ALL {
            let found = listed
                .iter()
                .find(|entry| *entry.name == *source.file_name().as_bytes() && entry.file_type.is_file());
            let Some(found) = found else { continue };
            let path = TreePath::joined(&task.path, &found.name);
            let text = match self.root.open_file(&path).and_then(read_all) {
                Ok(text) => text.into_boxed_slice(),
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err((path.as_bytes().into(), error)),
            };
            files.push(IgnoreFile { dir: task.path.clone(), source, text });
        }
        Ok(files)
    }

    fn inspect(&self, here: &Here<'_>, listed: Listed) -> Seen {
        let Listed { name, entry, file_type } = listed;
        let is_dir = file_type.is_dir();
        if self.is_own(&here.task.path, &name) {
            return Seen::Nothing;
        }
        if *name == *b".git" {
            return match here.task.is_new {
                true => Seen::Beside(TreePath::joined(&here.task.path, &name)),
                false => Seen::Nothing,
            };
        }
        let path = TreePath::joined(&here.task.path, &name);
        let known = here.known.as_ref().and_then(|dir| dir.find(&name, is_dir));
        let scope = self.scope(here, &path, is_dir, known.is_some());
        if is_dir {
            return self.inspect_dir(here, name, path, scope, &entry);
        }
        if !scope.in_scope {
            return match () {
                () if scope.beside => Seen::Beside(path),
                () => Seen::IgnoredFile,
            };
        }
        match self.inspect_leaf(here, &name, &path, &entry, file_type, known) {
            Ok(seen) => seen,
            Err(error) if is_absent(&error) => Seen::Nothing,
            Err(error) => Seen::Failed((path.as_bytes().into(), error)),
        }
    }

    fn inspect_leaf(
        &self,
        here: &Here<'_>,
        name: &[u8],
        path: &TreePath,
        entry: &fs::DirEntry,
        file_type: fs::FileType,
        known: Option<&Known>,
    ) -> io::Result<Seen> {
        if file_type.is_symlink() {
            let target = fs::read_link(entry.path())?.into_os_string().into_vec().into_boxed_slice();
            let hash = ContentHash::of(&target);
            let cached = matches!(known, Some(Known::Link(then)) if *then == hash);
            let kind = ItemKind::Symlink { target, hash, cached };
            return Ok(Seen::InScope(Item { name: name.into(), kind }));
        }
        if is_special(file_type) {
            return Ok(match &self.baseline {
                Some(baseline) if !baseline.coverage.is_special(path) => Seen::Beside(path.clone()),
                _ => Seen::Special(path.clone()),
            });
        }
        let stat = Stat::of(&entry.metadata()?);
        let hit = match known {
            Some(Known::File { stat: then, hash, trusted: true }) if *then == stat => Some(*hash),
            _ => None,
        };
        if hit.is_none() && self.is_sensitive(here, path)? {
            return Ok(match &self.baseline {
                Some(baseline) if !baseline.coverage.is_sensitive(path) => Seen::Beside(path.clone()),
                _ => Seen::Sensitive(path.clone()),
            });
        }
        let kind = ItemKind::File { stat, hash: hit, cached: hit.is_some() };
        Ok(Seen::InScope(Item { name: name.into(), kind }))
    }

    fn inspect_dir(
        &self,
        here: &Here<'_>,
        name: Box<[u8]>,
        path: TreePath,
        scope: Scope,
        entry: &fs::DirEntry,
    ) -> Seen {
        let known_before = self.baseline.as_ref().is_some_and(|b| b.tree.has_dir(path.as_bytes()));
        let open = scope.now_below == View::OnlyKept || scope.before_below == Some(View::OnlyKept);
        if !scope.in_scope && !known_before && !open {
            return match () {
                () if scope.beside => Seen::Beside(path),
                () => Seen::IgnoredDir(path),
            };
        }
        let mode = match entry.metadata() {
            Ok(metadata) => Mode::from_bits(Stat::of(&metadata).mode),
            Err(error) if is_absent(&error) => return Seen::Nothing,
            Err(error) => return Seen::Failed((path.as_bytes().into(), error)),
        };
        let side = |side: &Side, view| Side { rules: side.rules.clone(), view };
        let task = Task {
            path: path.as_bytes().into(),
            mode,
            in_scope: scope.in_scope || known_before,
            now: side(&here.now, scope.now_below),
            before: here.before.as_ref().zip(scope.before_below).map(|(before, view)| side(before, view)),
            is_new: self.baseline.is_some() && !known_before,
        };
        Seen::Enter(name, task)
    }

    /// Whether a path is in scope, by the rules of now and, with a baseline, of then.
    fn scope(&self, here: &Here<'_>, path: &TreePath, is_dir: bool, known: bool) -> Scope {
        let cached_rules = || {
            let fingerprint = self.fingerprint(&here.now.rules);
            here.known.as_ref().is_some_and(|dir| dir.has_rules(&fingerprint))
        };
        if known && here.same_rules && here.now.view == View::All && cached_rules() {
            return Scope {
                in_scope: true,
                beside: false,
                now_below: View::All,
                before_below: here.before.as_ref().map(|_| View::All),
            };
        }
        let (now, _, now_below) = here.now.judge(path.as_bytes(), is_dir);
        let (Some(side), Some(baseline)) = (&here.before, &self.baseline) else {
            return Scope { in_scope: now, beside: false, now_below, before_below: None };
        };
        let (before, _, before_below) = match here.same_rules {
            true => (now, false, now_below),
            false => side.judge(path.as_bytes(), is_dir),
        };
        let held = baseline.tree.get(path).is_some();
        let in_scope = held || (now && before);
        Scope {
            in_scope,
            beside: !in_scope && (before || here.task.is_new),
            now_below,
            before_below: Some(before_below),
        }
    }

    fn is_own(&self, dir: &[u8], name: &[u8]) -> bool {
        (dir.is_empty() && name == DECREE_DIR)
            || is_joined(TRACKER, dir, name)
            || self.own_dir.is_some_and(|own| is_joined(own.as_bytes(), dir, name))
    }

    /// Whether a file is to be left out as a secret: nothing asks for it by name, and no checkpoint holds it.
    fn is_sensitive(&self, here: &Here<'_>, path: &TreePath) -> io::Result<bool> {
        let suspicion = self.sensitive.suspect(path.as_bytes());
        if suspicion == Suspicion::None {
            return Ok(false);
        }
        let held = self.baseline.as_ref().is_some_and(|b| b.tree.get(path).is_some());
        let (_, asked_for, _) = here.now.judge(path.as_bytes(), false);
        if held || asked_for {
            return Ok(false);
        }
        match (suspicion, &self.baseline) {
            (Suspicion::MaybeKey, None) => holds_private_key(&mut self.root.open_file(path)?),
            (Suspicion::MaybeKey, Some(_)) => holds_private_key(&mut self.root.open_file_forced(path)?),
            _ => Ok(true),
        }
    }

    /// Tells apart everything that decides whether a name is visible.
    fn fingerprint(&self, rules: &Rules) -> [u8; 16] {
        let mut fingerprint = rules.fingerprint();
        for (byte, other) in fingerprint.iter_mut().zip(self.sensitive.fingerprint()) {
            *byte ^= other;
        }
        fingerprint
    }
}

/// A directory while its entries are inspected.
struct Here<'h> {
    task: &'h Task,
    known: Option<CachedDir<'h>>,
    now: Side,
    before: Option<Side>,
    /// The rules of then and of now are the same here.
    same_rules: bool,
}

#[derive(Clone, Copy)]
struct Scope {
    in_scope: bool,
    beside: bool,
    now_below: View,
    before_below: Option<View>,
}

impl Outcome {
    fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Nothing => {}
            Seen::InScope(item) => self.dir.items.push(item),
            Seen::Enter(name, task) => {
                // The number is given when the level is complete.
                self.dir.items.push(Item { name, kind: ItemKind::Dir(0) });
                self.tasks.push(task);
            }
            Seen::IgnoredDir(path) => self.coverage.ignored_dirs.push(PathText(path)),
            Seen::IgnoredFile => self.coverage.ignored_files += 1,
            Seen::Sensitive(path) => self.coverage.sensitive.push(PathText(path)),
            Seen::Special(path) => self.coverage.special.push(PathText(path)),
            Seen::Beside(path) => self.beside.push(path),
            Seen::Failed(failure) => self.failures.push(failure),
        }
    }
}

fn is_special(file_type: fs::FileType) -> bool {
    file_type.is_fifo() || file_type.is_socket() || file_type.is_block_device() || file_type.is_char_device()
}

/// Whether `whole` is `name` in `dir`.
fn is_joined(whole: &[u8], dir: &[u8], name: &[u8]) -> bool {
    match dir.is_empty() {
        true => whole == name,
        false => {
            whole.len() == dir.len() + 1 + name.len()
                && whole.starts_with(dir)
                && whole[dir.len()] == b'/'
                && whole.ends_with(name)
        }
    }
}

fn read_all(mut file: fs::File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    io::Read::read_to_end(&mut file, &mut text)?;
    Ok(text)
}

fn unreadable(failures: Vec<Failure>) -> Error {
    let lines = failures
        .iter()
        .map(|(path, error)| {
            let path = if path.is_empty() { &b"."[..] } else { path };
            format!("{}: {error}", super::quote::for_people(path))
        })
        .collect();
    Error::integrity(format!("cannot checkpoint: {} cannot be read", super::count(failures.len(), "path")))
        .details(lines, 20)
        .hint("make them readable, or leave them out with a line in .decreeignore")
}
