//! Deciding about one entry of a directory: whether it is in scope, and whether the cache knows it.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use super::entry_path::EntryPath;
use super::listing::{ListedName, Listing};
use super::result::UncachedEntry;
use super::scope::{RuleSet, View};
use crate::checkpoint::attributes::{Attributes, Owner};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::ignore::IgnoreFile;
use crate::checkpoint::path::{DECREE_DIR, GIT_DIR, RepositoryPath, TRACKER, TreePath};
use crate::checkpoint::root::{PathKind, Root, is_absent};
use crate::checkpoint::sensitive::{Sensitive, Suspicion, holds_private_key};
use crate::checkpoint::stat_cache::{CacheLookup, CachedDir, Stat, StatCache};
use crate::checkpoint::store::StoreSnapshot;
use crate::checkpoint::tree::{Cursor, Entry, Part, Tree};

/// The tree to walk, and everything that decides what is in scope.
pub struct WalkInput<'a> {
    pub root: &'a Root,
    pub cache: &'a StatCache,
    /// Decides which files are left out as likely secrets.
    pub sensitive: &'a Sensitive,
    /// A directory of decree's own inside the tree, such as a store; left out silently.
    pub own_dir: Option<&'a TreePath>,
    /// Files that decree's own output is redirected to (device, inode): their content changes with every line printed.
    pub outputs: &'a [(u64, u64)],
    /// What is stored, if the cache cannot be trusted in that: a file whose content is not stored is read again.
    pub stored: Option<StoreSnapshot>,
    pub baseline: Option<Baseline<'a>>,
    /// Paths that are in scope even if the rules ignore them; likely secrets among them are left out all the same.
    pub despite_rules: Option<&'a Tree>,
    /// The device on which a directory that is as the cache has it also has the names that the cache has.
    pub listed_device: Option<u64>,
    /// Whether owners and attributes are read. If not, nothing has any.
    pub with_attributes: bool,
    /// Whether everything that this user owns is read, even if its mode forbids that. Otherwise only what the baseline has.
    pub forced: bool,
}

/// The checkpoint to compare with.
pub struct Baseline<'a> {
    pub tree: &'a Tree,
    /// The ignore files of the checkpoint, by directory.
    pub rules: HashMap<&'a [u8], &'a [IgnoreFile]>,
    /// What the checkpoint leaves out.
    pub coverage: &'a Coverage,
}

/// A directory still to be entered.
pub(super) struct Task {
    pub path: Box<[u8]>,
    pub mode: FileMode,
    /// What it was before it is listed; `None` for the root.
    pub stat: Option<Stat>,
    pub owner: Owner,
    pub in_scope: bool,
    pub now: RuleSet,
    pub before: Option<RuleSet>,
    /// The directory was not there when the baseline was captured.
    pub is_new: bool,
}

/// What to do with one entry of a directory.
pub(super) enum EntryDecision {
    /// The entry vanished, or is decree's or git's own data.
    Skip,
    /// A file or link in scope, and the same as in the baseline.
    Same,
    /// A file or link in scope that the cache has.
    Known(Node, Attributes),
    /// A file or link in scope that the cache lacks.
    Uncached(UncachedEntry),
    Enter(Box<Task>),
    IgnoredDir(PrunedDir),
    IgnoredFile(TreePath),
    Sensitive(TreePath),
    /// A likely secret that is new and out of scope.
    NewSecret(TreePath),
    Special(TreePath),
    /// A file that decree's own output is redirected to.
    Output(TreePath),
    OutOfScope(TreePath),
    /// A directory that is new and out of scope.
    NewDir(PrunedDir),
    Repository(RepositoryPath),
    Failed(WalkFailure),
}

/// A directory that is not entered.
pub(super) struct PrunedDir {
    pub path: TreePath,
    /// The likely secrets directly in it.
    pub secrets: Vec<TreePath>,
}

/// A path that cannot be read.
pub(super) type WalkFailure = (Box<[u8]>, io::Error);

/// A directory whose entries are inspected.
pub(super) struct DirContext<'d> {
    pub input: &'d WalkInput<'d>,
    pub task: &'d Task,
    pub listing: &'d Listing,
    pub cached: Option<CachedDir>,
    /// The part of the baseline below this directory.
    pub baseline: Option<Part<'d>>,
    /// Where the last entry was found in it, if one thread inspects all of them.
    pub cursor: Option<Cursor>,
    pub now: RuleSet,
    /// The rules of the baseline.
    pub before: Option<RuleSet>,
    /// The rules of the baseline and the current ones are the same in this directory.
    pub same_rules: bool,
    /// The cache was made under the current rules.
    pub cached_rules: bool,
    /// Files of a new checkpoint that have other names, too.
    pub hard_links: Mutex<Vec<TreePath>>,
}

/// Whether an entry is in scope, and how much is visible below it.
#[derive(Clone, Copy)]
struct EntryScope {
    in_scope: bool,
    /// Not in scope, and the checkpoint has no reason to expect it.
    unexpected: bool,
    now_below: View,
    before_below: Option<View>,
}

impl DirContext<'_> {
    pub fn inspect(&self, entry: &ListedName) -> EntryDecision {
        let name = self.listing.name(entry);
        if self.is_own(name) {
            return EntryDecision::Skip;
        }
        let path = EntryPath::new(&self.task.path, name);
        if name == GIT_DIR {
            return if self.task.is_new {
                EntryDecision::OutOfScope(path.get().clone())
            } else if self.task.in_scope {
                EntryDecision::Repository(RepositoryPath::in_dir(&self.task.path))
            } else {
                EntryDecision::Skip
            };
        }
        let is_dir = entry.kind == PathKind::Dir;
        let cached = self.cached.as_ref().and_then(|dir| match entry.cached {
            Some(place) => dir.at(place as usize),
            None => dir.find(name, is_dir),
        });
        let was_visible = cached.as_ref().is_some_and(|cached| *cached != CacheLookup::IgnoredDir);
        let before = self.baseline.and_then(|part| match &self.cursor {
            Some(cursor) => part.entry_at((&self.task.path, name), cursor),
            None => part.entry(path.get()),
        });
        let scope = self.scope(&path, is_dir, was_visible, before.is_some());
        let decision = if is_dir {
            self.inspect_dir(entry, path.get(), scope)
        } else if scope.in_scope {
            self.inspect_leaf(entry, &path, cached, before)
        } else {
            Ok(self.inspect_ignored(entry.kind, path.get(), scope.unexpected))
        };
        match decision {
            Ok(decision) => decision,
            Err(error) if is_absent(&error) => EntryDecision::Skip,
            Err(error) => EntryDecision::Failed((path.get().as_bytes().into(), error)),
        }
    }

    fn inspect_leaf(
        &self,
        entry: &ListedName,
        path: &EntryPath<'_>,
        cached: Option<CacheLookup>,
        before: Option<Entry<'_>>,
    ) -> io::Result<EntryDecision> {
        let is_stored =
            |hash: &ContentHash| self.input.stored.as_ref().is_none_or(|stored| stored.contains(hash));
        let (hit, uncached) = match entry.kind {
            PathKind::Symlink => {
                let target = self.listing.read_link(entry)?;
                let hash = ContentHash::of(&target);
                let hit = cached == Some(CacheLookup::Link(hash)) && is_stored(&hash);
                let node = Node::Symlink { hash, size: target.len() as u64 };
                (hit.then_some((node, Attributes::default())), UncachedEntry::Link(target, hash))
            }
            PathKind::File => {
                let (stat, owner, has_other_names) = self.listing.stat(entry)?;
                if before.is_none() && self.input.outputs.contains(&(stat.device, stat.inode)) {
                    return Ok(match self.input.baseline {
                        Some(_) => EntryDecision::Skip,
                        None => EntryDecision::Output(path.get().clone()),
                    });
                }
                let hit = match cached {
                    Some(CacheLookup::File { stat: then, hash, attributes, trusted: true })
                        if then == stat =>
                    {
                        let node = Node::File { hash, size: stat.size, mode: FileMode::from_bits(stat.mode) };
                        is_stored(&hash).then(|| (node, self.attributes(&attributes, owner)))
                    }
                    _ => None,
                };
                let known_good = hit.is_some() && self.cached_rules;
                if !known_good && self.is_sensitive(path.get(), before.map(|before| before.node))? {
                    let decision = match &self.input.baseline {
                        Some(baseline) if !baseline.coverage.excludes(path.get()) => EntryDecision::NewSecret,
                        _ => EntryDecision::Sensitive,
                    };
                    return Ok(decision(path.get().clone()));
                }
                if has_other_names && self.input.baseline.is_none() {
                    self.hard_links
                        .lock()
                        .expect("no thread panics while it adds a path")
                        .push(path.get().clone());
                }
                (hit, UncachedEntry::Unread)
            }
            PathKind::Special | PathKind::Dir => {
                return Ok(self.exclude_special(path.get()));
            }
        };
        Ok(match hit {
            None => EntryDecision::Uncached(uncached),
            Some((node, attributes)) => {
                let is_same = |before: Entry<'_>| before.node == node && *before.attributes == attributes;
                if before.is_some_and(is_same) {
                    EntryDecision::Same
                } else {
                    EntryDecision::Known(node, attributes)
                }
            }
        })
    }

    /// The attributes of a file that the cache has.
    fn attributes(&self, cached: &Attributes, owner: Owner) -> Attributes {
        if !self.input.with_attributes {
            return Attributes::default();
        }
        cached.with_owner(owner, self.input.root.owner())
    }

    /// Leaves something out of the checkpoint; if the baseline did not already, it is new and out of scope.
    fn exclude_special(&self, path: &TreePath) -> EntryDecision {
        match &self.input.baseline {
            Some(baseline) if !baseline.coverage.excludes(path) => EntryDecision::OutOfScope(path.clone()),
            _ => EntryDecision::Special(path.clone()),
        }
    }

    /// An entry that no rule shows, or that the checkpoint leaves out. A likely secret is named all the same.
    fn inspect_ignored(&self, kind: PathKind, path: &TreePath, is_new: bool) -> EntryDecision {
        let suspicion = match kind {
            PathKind::File | PathKind::Symlink => self.input.sensitive.suspect(path.as_bytes()),
            PathKind::Dir | PathKind::Special => Suspicion::None,
        };
        let is_secret = match suspicion {
            Suspicion::None => false,
            Suspicion::Secret => true,
            Suspicion::MaybeKey => kind == PathKind::File && self.input.may_hold_key(path.as_bytes()),
        };
        let decision = match (is_secret, is_new) {
            (true, true) => EntryDecision::NewSecret,
            (true, false) => EntryDecision::Sensitive,
            (false, true) => EntryDecision::OutOfScope,
            (false, false) => EntryDecision::IgnoredFile,
        };
        decision(path.clone())
    }

    fn inspect_dir(
        &self,
        entry: &ListedName,
        path: &TreePath,
        scope: EntryScope,
    ) -> io::Result<EntryDecision> {
        let baseline = self.input.baseline.as_ref();
        let existed = self.baseline.is_some_and(|part| part.has_dir(path.as_bytes()))
            || self.input.despite_rules.is_some_and(|tree| tree.has_dir(path.as_bytes()));
        let may_keep = scope.now_below == View::OnlyKept || scope.before_below == Some(View::OnlyKept);
        if !scope.in_scope && !existed && !may_keep {
            let pruned = PrunedDir { path: path.clone(), secrets: self.input.secrets_in_pruned(path) };
            let decision = if scope.unexpected { EntryDecision::NewDir } else { EntryDecision::IgnoredDir };
            return Ok(decision(pruned));
        }
        let (stat, owner, _) = self.listing.stat(entry)?;
        let was_ignored = baseline.is_some_and(|baseline| baseline.coverage.is_ignored_dir(path));
        let before = self.before.as_ref().zip(scope.before_below);
        Ok(EntryDecision::Enter(Box::new(Task {
            path: path.as_bytes().into(),
            mode: FileMode::from_bits(stat.mode),
            stat: Some(stat),
            owner,
            in_scope: scope.in_scope || existed,
            now: self.now.with_view(scope.now_below),
            before: before.map(|(rules, view)| rules.with_view(view)),
            is_new: self.task.is_new || (baseline.is_some() && !existed && !was_ignored),
        })))
    }

    /// Whether a path is in scope, by the current rules and, with a baseline, by its rules, too.
    fn scope(&self, path: &EntryPath<'_>, is_dir: bool, was_visible: bool, in_baseline: bool) -> EntryScope {
        let expected = |in_scope, below| {
            let before_below = self.before.as_ref().map(|_| below);
            EntryScope { in_scope, unexpected: false, now_below: below, before_below }
        };
        let excludes = |baseline: &Baseline<'_>| baseline.coverage.excludes(path.get());
        if !in_baseline && self.input.baseline.as_ref().is_some_and(excludes) {
            // It existed and was not protected: whatever the rules say now, it is never touched.
            return expected(false, View::Nothing);
        }
        if was_visible && self.same_rules && self.now.view == View::All && self.cached_rules {
            return expected(true, View::All);
        }
        let path = path.get();
        let now = self.now.visibility(path.as_bytes(), is_dir);
        let Some(rules) = &self.before else {
            let is_named = self.input.despite_rules.is_some_and(|tree| tree.has(path));
            return expected(now.visible || is_named, now.below);
        };
        let before = if self.same_rules { now } else { rules.visibility(path.as_bytes(), is_dir) };
        let in_scope = in_baseline || (now.visible && before.visible);
        EntryScope {
            in_scope,
            unexpected: !in_scope && (before.visible || self.task.is_new),
            now_below: now.below,
            before_below: Some(before.below),
        }
    }

    fn is_own(&self, name: &[u8]) -> bool {
        let dir = &*self.task.path;
        (dir.is_empty() && name == DECREE_DIR.as_bytes())
            || is_joined(TRACKER.as_bytes(), dir, name)
            || self.input.own_dir.is_some_and(|own| is_joined(own.as_bytes(), dir, name))
    }

    /// Whether a file is left out as a likely secret: no `.decreeignore` keeps it. What the baseline has was no secret by its name; by
    /// its content it may have become one since.
    fn is_sensitive(&self, path: &TreePath, before: Option<Node>) -> io::Result<bool> {
        let suspicion = self.input.sensitive.suspect(path.as_bytes());
        if suspicion == Suspicion::None {
            return Ok(false);
        }
        let keeps = |rules: &RuleSet| rules.visibility(path.as_bytes(), false).kept;
        let kept_before = self.before.as_ref().is_none_or(keeps);
        if kept_before && (before.is_some() || keeps(&self.now)) {
            return Ok(false);
        }
        if suspicion == Suspicion::Secret {
            return Ok(before.is_none());
        }
        let root = self.input.root;
        let open =
            || if self.input.baseline.is_some() { root.open_file_forced(path) } else { root.open_file(path) };
        let is_key = holds_private_key(&mut open()?)?;
        let is_as_before = |before: Node| -> io::Result<bool> {
            let now = ContentHash::of_reader(&mut open()?, &mut vec![0; 1 << 16])?;
            Ok(before.content() == Some(now))
        };
        Ok(is_key && !before.map_or(Ok(false), is_as_before)?)
    }
}

/// Whether `whole` is the path of `name` in `dir`.
fn is_joined(whole: &[u8], dir: &[u8], name: &[u8]) -> bool {
    if dir.is_empty() {
        return whole == name;
    }
    whole.len() == dir.len() + 1 + name.len()
        && whole.starts_with(dir)
        && whole[dir.len()] == b'/'
        && whole.ends_with(name)
}
