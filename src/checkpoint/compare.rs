//! What changed since a checkpoint.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::attributes::{AttributeChange, Attributes};
use super::entry::Node;
use super::hash::ContentHash;
use super::hashing::hash_missing;
use super::live_database::{DatabaseInUse, database_of, in_use, journals_of, may_be_database};
use super::manifest::Manifest;
use super::path::{TreePath, dirs_above};
use super::progress::Progress;
use super::quote;
use super::root::Root;
use super::secret_copies::withhold_copies;
use super::secret_stamp::SecretStamp;
use super::tree::{Entry, Tree, combined_hash};
use super::unlocked_dirs::UnlockedDirs;
use super::walk::{Baseline, Walk, WalkInput};
use super::workspace::Workspace;
use crate::error::Result;

/// A path whose node differs from the checkpoint's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: TreePath,
    pub before: Option<Node>,
    pub after: Option<Node>,
    /// `None`: they are the same, or not known.
    pub attributes: Option<Box<AttributeChange>>,
}

impl Change {
    /// Whether the path is listed although it is the same on both sides.
    pub fn is_unchanged(&self) -> bool {
        self.before == self.after && self.attributes.is_none()
    }
}

impl Change {
    /// Whether it may be an SQLite database, before or after, by its size.
    pub fn may_be_database(&self) -> bool {
        let sizes = [&self.before, &self.after].into_iter().flatten().filter_map(Node::content);
        sizes.map(|(_, size)| size).any(may_be_database)
    }
}

/// Everything that changed since a checkpoint.
///
/// While it lives, directories whose mode forbids listing them stay readable for this user; dropping it restores their
/// modes.
pub struct Changes<'r> {
    pub list: Vec<Change>,
    /// New paths out of scope: a revert moves them to the quarantine.
    pub out_of_scope: Vec<TreePath>,
    /// Databases that changed, and that other programs have open. They are not in the list.
    pub live_databases: Vec<DatabaseInUse>,
    /// Every likely secret that is in the tree now, sorted.
    pub secrets: Vec<TreePath>,
    unlocked: UnlockedDirs<'r>,
}

impl Changes<'_> {
    /// Does something while directories that cannot be listed have their own modes.
    pub fn while_locked<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.unlocked.while_locked(work)
    }

    /// Whether directories that cannot be listed were made readable.
    pub fn holds_unlocked(&self) -> bool {
        self.unlocked.any()
    }

    /// Takes likely secrets that are new since the checkpoint out of the changes, and the directories that exist because of them: who goes
    /// back to a checkpoint leaves them where they are. Returns them.
    pub fn leave_secrets(&mut self, manifest: &Manifest) -> Vec<TreePath> {
        let mut secrets = self.secrets.clone();
        // What the checkpoint holds is restored, whatever it has become, and whatever is in its place.
        let is_file = |dir: TreePath| manifest.tree.get(&dir).is_some_and(|node| !node.is_dir());
        let is_in_the_way = |path: &TreePath| manifest.tree.has(path) || path.ancestors().any(is_file);
        secrets.retain(|path| !manifest.coverage.excludes(path) && !is_in_the_way(path));
        if !secrets.is_empty() {
            let holds_secret =
                |path: &TreePath| secrets.iter().any(|secret| secret == path || secret.is_in(path));
            self.out_of_scope.retain(|path| !holds_secret(path));
            self.list.retain(|change| {
                let is_new_dir = change.before.is_none() && change.after.as_ref().is_some_and(Node::is_dir);
                !(is_new_dir && holds_secret(&change.path))
            });
        }
        secrets
    }

    /// Sees to it that a restore overwrites nothing that `saved` lacks, such as a file that became a likely secret since the checkpoint
    /// `before`: it moves to the quarantine, and counts as deleted. Returns these paths.
    pub fn quarantine_unsaved(&mut self, before: &Tree, saved: &Tree) -> Vec<TreePath> {
        let mut moved = Vec::new();
        let is_unsaved = |change: &&mut Change| {
            change.after.is_some_and(|after| !after.is_dir()) && !saved.has(&change.path)
        };
        for change in self.list.iter_mut().filter(is_unsaved) {
            let attributes = before.entry(&change.path).map_or(Attributes::none(), |entry| entry.attributes);
            change.after = None;
            change.attributes = AttributeChange::between(attributes.clone(), Attributes::default());
            moved.push(change.path.clone());
        }
        self.list.retain(|change| change.before.is_some() || change.after.is_some());
        for list in [&mut self.out_of_scope, &mut self.secrets] {
            list.extend(moved.iter().cloned());
            list.sort();
        }
        moved
    }
}

impl Workspace {
    /// Walks the tree and returns where it differs from `manifest`.
    pub fn compare(&self, manifest: &Manifest, progress: &dyn Progress) -> Result<Changes<'_>> {
        let cache = self.cache.load();
        let Manifest { tree, rules, coverage, has_attributes, .. } = manifest;
        let baseline = Some(Baseline { tree, rules: rules.by_dir(), coverage });
        let mut walk =
            WalkInput { baseline, with_attributes: *has_attributes, ..self.walk_input(&cache) }.walk()?;
        let unlocked = UnlockedDirs::new(&self.root, std::mem::take(&mut walk.unlocked));
        hash_missing(&self.root, &mut walk, None, true, progress)?;
        let secrets = self.secrets.contents(&self.root, &walk, &manifest.tree);
        withhold_copies(&mut walk, &secrets);
        let out_of_scope = std::mem::take(&mut walk.out_of_scope);
        let secrets = std::mem::take(&mut walk.coverage.sensitive);
        let mut list = differences(&manifest.tree, walk);
        let live_databases = split_off_live(&self.root, &mut list);
        add_kept_dirs(&manifest.tree, &mut list);
        Ok(Changes { list, out_of_scope, live_databases, secrets, unlocked })
    }
}

impl Workspace {
    /// The journals of SQLite beside changed files that the checkpoint does not hold because they are ignored. A restore has to move
    /// them away with what it replaces: SQLite would play them into the file that comes back, which they do not belong to.
    pub fn foreign_journals<'c>(
        &self,
        changes: impl Iterator<Item = &'c Change>,
        manifest: &Manifest,
    ) -> Vec<TreePath> {
        let files = changes.filter(|change| change.may_be_database()).map(|change| &change.path);
        let journals = files.flat_map(|path| journals_of(&self.root, path));
        journals.filter(|journal| !manifest.tree.has(journal)).collect()
    }

    /// Which files the likely secrets are that a revert would move to the quarantine.
    pub(super) fn secret_files(&self, changes: &Changes<'_>) -> Result<BTreeMap<String, SecretStamp>> {
        let is_secret = |path: &&TreePath| changes.secrets.binary_search(path).is_ok();
        let secrets = changes.out_of_scope.iter().filter(is_secret);
        let stamped = secrets.map(|path| {
            let stamp = SecretStamp::of(&self.root, path)?;
            Ok(stamp.map(|stamp| (quote::in_json(path.as_bytes()).into_owned(), stamp)))
        });
        stamped.filter_map(Result::transpose).collect()
    }

    /// Every likely secret that is in the tree now, sorted: only names are read.
    pub fn likely_secrets(&self, manifest: &Manifest) -> Result<Vec<TreePath>> {
        let cache = self.cache.load();
        let Manifest { tree, rules, coverage, .. } = manifest;
        let baseline = Some(Baseline { tree, rules: rules.by_dir(), coverage });
        let mut walk = WalkInput { baseline, ..self.walk_input(&cache) }.walk()?;
        drop(UnlockedDirs::new(&self.root, std::mem::take(&mut walk.unlocked)));
        Ok(walk.coverage.sensitive)
    }

    /// The likely secrets that a checkpoint of the present would leave out, sorted, also those at paths of `touched` that are ignored.
    pub fn secrets_left_out(&self, touched: &Tree) -> Result<Vec<TreePath>> {
        let cache = self.cache.load();
        let mut walk =
            WalkInput { despite_rules: Some(touched), forced: true, ..self.walk_input(&cache) }.walk()?;
        drop(UnlockedDirs::new(&self.root, std::mem::take(&mut walk.unlocked)));
        Ok(walk.coverage.sensitive)
    }
}

impl Changes<'_> {
    /// The paths that became likely secrets.
    pub fn withheld(&self) -> impl Iterator<Item = &TreePath> {
        let is_gone = |path: &&TreePath| {
            let at = self.list.binary_search_by(|change| change.path.cmp(path));
            at.is_ok_and(|at| self.list[at].after.is_none()) && self.secrets.binary_search(path).is_ok()
        };
        self.out_of_scope.iter().filter(is_gone)
    }

    /// The combined hash of the current tree, given the checkpoint that it was compared with.
    pub fn hash_now(&self, before: &Tree) -> ContentHash {
        if self.list.iter().all(Change::is_unchanged) {
            return before.hash();
        }
        combined_hash(self.entries_now(before))
    }

    /// The entries of the current tree, given the checkpoint that it was compared with.
    pub fn entries_now<'e>(&'e self, before: &'e Tree) -> impl Iterator<Item = Entry<'e>> {
        let mut changes = self.list.iter().peekable();
        let mut old = before.iter().peekable();
        std::iter::from_fn(move || {
            loop {
                let Some(change) = changes.peek() else { return old.next() };
                let mut attributes = Attributes::none();
                let (dir, name) = change.path.split();
                match old.peek().map(|entry| entry.cmp_in(dir, name)) {
                    Some(Ordering::Less) => return old.next(),
                    Some(Ordering::Equal) => {
                        attributes = old.next().map_or(attributes, |entry| entry.attributes)
                    }
                    Some(Ordering::Greater) | None => {}
                }
                let change = changes.next().expect("it was peeked above");
                if let Some(node) = change.after {
                    let changed = change.attributes.as_ref().map(|changed| &changed.after);
                    return Some(Entry::at(&change.path, node, changed.unwrap_or(attributes)));
                }
            }
        })
    }
}

/// The paths at which a tree differs from what a walk found.
fn differences(before: &Tree, now: Walk) -> Vec<Change> {
    if now.only_same_files() == Some(before.count().0) {
        // All files and links are there, and no others: only directories can differ.
        return differences_of(before.dirs(), |visit| now.into_other_entries(visit));
    }
    differences_of(before.iter(), |visit| now.into_entries(visit))
}

/// Called for every entry, with its directory, its name, its node and its attributes.
type EntryVisitor<'v> = dyn FnMut(&[u8], &[u8], Option<Node>, &Attributes) + 'v;

/// The same for some of the entries of a tree, and those that a walk found; both sorted.
fn differences_of<'t>(
    before: impl Iterator<Item = Entry<'t>>,
    visit_now: impl FnOnce(&mut EntryVisitor<'_>),
) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut old = before.peekable();
    let removed = |entry: Entry<'_>| Change {
        path: entry.path(),
        before: Some(entry.node),
        after: None,
        attributes: AttributeChange::between(entry.attributes.clone(), Attributes::default()),
    };
    visit_now(&mut |dir, name, node, attributes| {
        while let Some(entry) = old.next_if(|entry| entry.cmp_in(dir, name) == Ordering::Less) {
            changes.push(removed(entry));
        }
        let before = old.next_if(|entry| entry.cmp_in(dir, name) == Ordering::Equal);
        if node.is_none() {
            return;
        }
        let had = before.map_or(Attributes::none(), |entry| entry.attributes);
        let changed = AttributeChange::between(had.clone(), attributes.clone());
        let before = before.map(|entry| entry.node);
        if node != before || changed.is_some() {
            changes.push(Change {
                path: TreePath::joined(dir, name),
                before,
                after: node,
                attributes: changed,
            });
        }
    });
    changes.extend(old.map(removed));
    changes
}

/// Takes databases that other programs have open out of the changes, and the directories that are there because of one.
fn split_off_live(root: &Root, list: &mut Vec<Change>) -> Vec<DatabaseInUse> {
    let may_belong = |change: &&Change| change.may_be_database() || database_of(&change.path).is_some();
    let live = in_use(root, list.iter().filter(may_belong).map(|change| &change.path));
    if !live.is_empty() {
        list.retain(|Change { path, before, .. }| {
            let is_above = |database: &DatabaseInUse| before.is_none() && database.path.is_in(path);
            !live.iter().any(|database| database.owns(path) || is_above(database))
        });
    }
    live
}

/// Adds directories that are entries themselves and became empty, or were empty before. They did not change, but without
/// them an applied diff would remove or omit the empty directory.
fn add_kept_dirs(before: &Tree, changes: &mut Vec<Change>) {
    let added_or_removed = changes.iter().filter(|change| change.before.is_none() || change.after.is_none());
    let mut kept = Vec::new();
    for path in dirs_above(added_or_removed.map(|change| &change.path)) {
        let node = before.get(&path).filter(Node::is_dir);
        let changed = changes.binary_search_by(|change| change.path.cmp(&path)).is_ok();
        if node.is_some() && !changed && (before.is_empty_dir(&path) || is_empty_now(before, changes, &path))
        {
            kept.push(Change { path, before: node, after: node, attributes: None });
        }
    }
    if !kept.is_empty() {
        changes.extend(kept);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Whether nothing is left below a directory.
fn is_empty_now(before: &Tree, changes: &[Change], dir: &TreePath) -> bool {
    let below = [dir.as_bytes(), b"/"].concat();
    let start = changes.partition_point(|change| change.path.as_bytes() < &below[..]);
    let changes = &changes[start..];
    let end = changes.partition_point(|change| change.path.as_bytes().starts_with(&below));
    let changes = &changes[..end];
    let gone = changes.len();
    changes.iter().all(|change| change.after.is_none())
        && before.below(dir.as_bytes()).iter().take(gone + 1).count() == gone
}
