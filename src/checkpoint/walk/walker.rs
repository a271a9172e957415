//! Going through the tree.

use std::collections::HashMap;
use std::fs;
use std::io;

use rayon::prelude::*;

use super::dir_outcome::{DirOutcome, EntryDecision, InScope, Task, WalkFailure, unreadable};
use super::listing::{ListedName, Listing};
use super::result::{ItemKind, UncachedEntry, Walk, WalkedDir};
use super::scope::{RuleSet, View};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::ignore::{IgnoreFile, RuleSource, Rules};
use crate::checkpoint::path::{DECREE_DIR, TRACKER, TreePath};
use crate::checkpoint::root::{PathKind, Root, is_absent};
use crate::checkpoint::sensitive::{Sensitive, Suspicion, holds_private_key};
use crate::checkpoint::stat_cache::{CacheLookup, CachedDir, StatCache};
use crate::checkpoint::store::StoreSnapshot;
use crate::checkpoint::tree::{Part, Tree};
use crate::checkpoint::unlocked_dirs::UnlockedDirs;
use crate::error::Result;

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
    /// Files that decree itself is writing to as its output (device, inode): nobody can say what is in them.
    pub outputs: &'a [(u64, u64)],
    /// If the cache cannot be relied on in this: what is stored. A file whose content is not is read again.
    pub stored: Option<StoreSnapshot>,
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

impl Walker<'_> {
    /// Walks the whole tree.
    pub fn walk(&self) -> Result<Walk> {
        let side = RuleSet::at_root();
        let mut level = vec![Task {
            path: Box::default(),
            mode: FileMode::DIR,
            in_scope: true,
            before: self.baseline.is_some().then(|| side.clone()),
            now: side,
            is_new: false,
        }];
        let mut walk = Walk::default();
        let mut failures = Vec::new();
        let mut entered = 1;
        while !level.is_empty() {
            let outcomes: Vec<DirOutcome> = level.into_par_iter().map(|task| self.enter(task)).collect();
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
        if failures.is_empty() {
            return Ok(walk);
        }
        drop(UnlockedDirs::new(self.root, walk.opened));
        Err(unreadable(failures))
    }

    fn enter(&self, task: Task) -> DirOutcome {
        let mut outcome = DirOutcome {
            dir: WalkedDir {
                path: task.path.clone(),
                mode: task.mode,
                in_scope: task.in_scope,
                ..WalkedDir::default()
            },
            tasks: Vec::new(),
            ignore_files: Vec::new(),
            coverage: Coverage::default(),
            beside: Vec::new(),
            opened: None,
            failures: Vec::new(),
        };
        let listing = match self.list(&task, &mut outcome.opened) {
            Ok(listing) => listing,
            Err(error) if is_absent(&error) && !task.path.is_empty() => return outcome,
            Err(error) => {
                outcome.failures.push((task.path, error));
                return outcome;
            }
        };
        match self.read_ignore_files(&task, &listing) {
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
        let known = self.cache.dir(&task.path);
        outcome.dir.cached_names =
            known.as_ref().filter(|dir| dir.has_rules(&outcome.dir.fingerprint)).map(CachedDir::len);
        let here = Here {
            task: &task,
            listing: &listing,
            known,
            held: self.baseline.as_ref().map(|b| b.tree.below(&task.path)),
            cached_rules: outcome.dir.cached_names.is_some(),
            same_rules: before
                .as_ref()
                .is_none_or(|b| b.rules.fingerprint() == now.rules.fingerprint() && b.view == now.view),
            now,
            before,
        };
        if listing.entries().len() > LARGE_DIR {
            let seen: Vec<EntryDecision> =
                listing.entries().par_iter().map(|entry| self.inspect(&here, entry)).collect();
            for (entry, seen) in listing.entries().iter().zip(seen) {
                outcome.take(listing.name(entry), seen);
            }
        } else {
            for entry in listing.entries() {
                outcome.take(listing.name(entry), self.inspect(&here, entry));
            }
        }
        outcome.dir.shrink();
        outcome
    }

    fn list(&self, task: &Task, opened: &mut Option<(TreePath, FileMode)>) -> io::Result<Listing> {
        let readable = task.mode.bits() & 0o500 == 0o500 || rustix::process::geteuid().is_root();
        // A routine may have taken the right to look away from itself.
        if !readable
            && task.before.is_some()
            && let Ok(dir) = TreePath::new(&*task.path)
            && self.root.set_mode(&dir, FileMode::from_bits(task.mode.bits() | 0o700)).is_ok()
        {
            *opened = Some((dir, task.mode));
        }
        Listing::read(self.root, &task.path)
    }

    fn read_ignore_files(&self, task: &Task, listing: &Listing) -> Result<Vec<IgnoreFile>, WalkFailure> {
        let mut files = Vec::new();
        if task.now.view != View::All {
            return Ok(files);
        }
        for source in RuleSource::ALL {
            let found = listing.entries().iter().find(|entry| {
                entry.kind == PathKind::File && listing.name(entry) == source.file_name().as_bytes()
            });
            let Some(found) = found else { continue };
            let path = TreePath::joined(&task.path, listing.name(found));
            let opened = match self.baseline {
                Some(_) => self.root.open_file_forced(&path),
                None => self.root.open_file(&path),
            };
            let text = match opened.and_then(read_all) {
                Ok(text) => text.into_boxed_slice(),
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err((path.as_bytes().into(), error)),
            };
            files.push(IgnoreFile { dir: task.path.clone(), source, text });
        }
        Ok(files)
    }

    fn inspect(&self, here: &Here<'_>, entry: &ListedName) -> EntryDecision {
        let name = here.listing.name(entry);
        if self.is_own(&here.task.path, name) {
            return EntryDecision::Nothing;
        }
        let path = TreePath::joined(&here.task.path, name);
        if name == b".git" {
            return match here.task.is_new {
                true => EntryDecision::Beside(path),
                false => EntryDecision::Nothing,
            };
        }
        let is_dir = entry.kind == PathKind::Dir;
        let known = here.known.as_ref().and_then(|dir| dir.find(name, is_dir));
        let visible_then = known.is_some_and(|known| known != CacheLookup::Opened);
        let held = here.held.and_then(|held| held.get(&path));
        let scope = self.scope(here, &path, is_dir, visible_then, held.is_some());
        let seen = match () {
            () if is_dir => self.inspect_dir(here, entry, &path, scope),
            () if scope.in_scope => self.inspect_leaf(here, entry, &path, known, held),
            () if scope.beside => Ok(EntryDecision::Beside(path.clone())),
            () => Ok(EntryDecision::IgnoredFile),
        };
        match seen {
            Ok(seen) => seen,
            Err(error) if is_absent(&error) => EntryDecision::Nothing,
            Err(error) => EntryDecision::Failed((path.as_bytes().into(), error)),
        }
    }

    fn inspect_leaf(
        &self,
        here: &Here<'_>,
        entry: &ListedName,
        path: &TreePath,
        known: Option<CacheLookup>,
        held: Option<Node>,
    ) -> io::Result<EntryDecision> {
        let is_stored = |hash: &ContentHash| self.stored.as_ref().is_none_or(|stored| stored.have(hash));
        let (hit, news) = match entry.kind {
            PathKind::Symlink => {
                let target = here.listing.read_link(entry)?;
                let hash = ContentHash::of(&target);
                let hit = known == Some(CacheLookup::Link(hash)) && is_stored(&hash);
                let node = Node::Symlink { hash, size: target.len() as u64 };
                (hit.then_some(node), UncachedEntry::Link(target, hash))
            }
            PathKind::File => {
                let stat = here.listing.stat(entry)?;
                if held.is_none() && self.outputs.contains(&(stat.device, stat.inode)) {
                    return Ok(match self.baseline {
                        Some(_) => EntryDecision::Nothing,
                        None => EntryDecision::Special(path.clone()),
                    });
                }
                let hit = match known {
                    Some(CacheLookup::File { stat: then, hash, trusted: true }) if then == stat => {
                        let node = Node::File { hash, size: stat.size, mode: FileMode::from_bits(stat.mode) };
                        is_stored(&hash).then_some(node)
                    }
                    _ => None,
                };
                let known_good = hit.is_some() && here.cached_rules;
                if !known_good && self.is_sensitive(here, path, held.is_some())? {
                    return Ok(self.left_out(EntryDecision::Sensitive, path));
                }
                (hit, UncachedEntry::Unread)
            }
            PathKind::Special | PathKind::Dir => {
                return Ok(self.left_out(EntryDecision::Special, path));
            }
        };
        Ok(EntryDecision::InScope(match hit {
            None => InScope::Uncached(news),
            Some(_) if hit == held => InScope::Same,
            Some(node) => InScope::Known(node),
        }))
    }

    /// Something that is left out; if the checkpoint did not know of it, it is new, and beside the scope.
    fn left_out(&self, how: fn(TreePath) -> EntryDecision, path: &TreePath) -> EntryDecision {
        match self.baseline.is_some() && !self.was_left_out(path) {
            true => EntryDecision::Beside(path.clone()),
            false => how(path.clone()),
        }
    }

    /// Whether the checkpoint says of this path that it was there and was left out.
    fn was_left_out(&self, path: &TreePath) -> bool {
        self.baseline.as_ref().is_some_and(|b| b.coverage.is_sensitive(path) || b.coverage.is_special(path))
    }

    fn inspect_dir(
        &self,
        here: &Here<'_>,
        entry: &ListedName,
        path: &TreePath,
        scope: Scope,
    ) -> io::Result<EntryDecision> {
        let known_before = self.baseline.as_ref().is_some_and(|b| b.tree.has_dir(path.as_bytes()));
        let open = scope.now_below == View::OnlyKept || scope.before_below == Some(View::OnlyKept);
        if !scope.in_scope && !known_before && !open {
            return Ok(match scope.beside {
                true => EntryDecision::Beside(path.clone()),
                false => EntryDecision::IgnoredDir(path.clone()),
            });
        }
        let before = here.before.as_ref().zip(scope.before_below);
        let task = Task {
            path: path.as_bytes().into(),
            mode: FileMode::from_bits(here.listing.stat(entry)?.mode),
            in_scope: scope.in_scope || known_before,
            now: here.now.with_view(scope.now_below),
            before: before.map(|(side, view)| side.with_view(view)),
            is_new: here.task.is_new
                || (!known_before
                    && self.baseline.as_ref().is_some_and(|b| !b.coverage.is_ignored_dir(path))),
        };
        Ok(EntryDecision::Enter(task))
    }

    /// Whether a path is in scope, by the rules of now and, with a baseline, of then.
    fn scope(&self, here: &Here<'_>, path: &TreePath, is_dir: bool, known: bool, held: bool) -> Scope {
        if !held && self.was_left_out(path) {
            // It was there, and was not protected: whatever the rules say now, it is never touched.
            return Scope {
                in_scope: false,
                beside: false,
                now_below: View::Nothing,
                before_below: Some(View::Nothing),
            };
        }
        if known && here.same_rules && here.now.view == View::All && here.cached_rules {
            return Scope {
                in_scope: true,
                beside: false,
                now_below: View::All,
                before_below: here.before.as_ref().map(|_| View::All),
            };
        }
        let now = here.now.judge(path.as_bytes(), is_dir);
        let Some(side) = &here.before else {
            return Scope { in_scope: now.visible, beside: false, now_below: now.below, before_below: None };
        };
        let before = match here.same_rules {
            true => now,
            false => side.judge(path.as_bytes(), is_dir),
        };
        let in_scope = held || (now.visible && before.visible);
        Scope {
            in_scope,
            beside: !in_scope && (before.visible || here.task.is_new),
            now_below: now.below,
            before_below: Some(before.below),
        }
    }

    fn is_own(&self, dir: &[u8], name: &[u8]) -> bool {
        (dir.is_empty() && name == DECREE_DIR)
            || is_joined(TRACKER, dir, name)
            || self.own_dir.is_some_and(|own| is_joined(own.as_bytes(), dir, name))
    }

    /// Whether a file is to be left out as a secret: nothing asks for it by name, and no checkpoint holds it.
    fn is_sensitive(&self, here: &Here<'_>, path: &TreePath, held: bool) -> io::Result<bool> {
        let suspicion = self.sensitive.suspect(path.as_bytes());
        if suspicion == Suspicion::None {
            return Ok(false);
        }
        let asked_for = |side: &RuleSet| side.judge(path.as_bytes(), false).asked_for;
        if held || (asked_for(&here.now) && here.before.as_ref().is_none_or(asked_for)) {
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
    listing: &'h Listing,
    known: Option<CachedDir>,
    /// What the baseline has in it.
    held: Option<Part<'h>>,
    now: RuleSet,
    before: Option<RuleSet>,
    /// The rules of then and of now are the same here.
    same_rules: bool,
    /// The cache was made under the rules of now.
    cached_rules: bool,
}

#[derive(Clone, Copy)]
struct Scope {
    in_scope: bool,
    beside: bool,
    now_below: View,
    before_below: Option<View>,
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
