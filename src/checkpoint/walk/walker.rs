//! Going through the tree, each directory as soon as a thread is free.

use std::io::{self, Read as _};
use std::sync::Mutex;

use rayon::Scope;
use rayon::prelude::*;

use super::collect::{DirOutcome, Outcomes};
use super::inspect::{DirContext, EntryDecision, Task, WalkFailure, WalkInput};
use super::listing::{ListedName, Listing};
use super::result::{Walk, WalkedDir};
use super::scope::{RuleSet, View};
use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::ignore::{Fingerprint, IgnoreFile, RuleSource, Rules};
use crate::checkpoint::live_database::database_name;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::root::{PathKind, is_absent};
use crate::checkpoint::stat_cache::CachedDir;
use crate::checkpoint::tree::Cursor;
use crate::checkpoint::unlocked_dirs::UnlockedDirs;
use crate::error::{Error, Result};
use crate::humanize::count;

/// A directory with more entries than this is inspected by several threads.
const LARGE_DIR: usize = 4096;

impl WalkInput<'_> {
    /// Walks the whole tree.
    pub fn walk(&self) -> Result<Walk> {
        let rules = RuleSet::at_root();
        let root = Task {
            path: Box::default(),
            mode: FileMode::DIR,
            stat: None,
            owner: self.root.owner(),
            in_scope: true,
            before: self.baseline.is_some().then(|| rules.clone()),
            now: rules,
            is_new: false,
        };
        let outcomes = Outcomes::default();
        rayon::scope(|scope| self.enter_below(scope, root, Outcomes::ROOT, &outcomes));
        let (walk, failures) = outcomes.into_walk(self.with_attributes);
        if failures.is_empty() {
            return Ok(walk);
        }
        drop(UnlockedDirs::new(self.root, walk.unlocked));
        Err(unreadable(failures))
    }

    /// Enters a directory, and has those in it entered by threads that are free.
    fn enter_below<'s>(&'s self, scope: &Scope<'s>, task: Task, place: u32, outcomes: &'s Outcomes) {
        let mut outcome = self.enter(task);
        for (task, place) in outcomes.reserve(&mut outcome) {
            scope.spawn(move |scope| self.enter_below(scope, task, place, outcomes));
        }
        outcomes.add(place, outcome);
    }

    fn enter(&self, task: Task) -> DirOutcome {
        let Task { path, mode, in_scope, .. } = &task;
        let dir = WalkedDir { path: path.clone(), mode: *mode, in_scope: *in_scope, ..WalkedDir::default() };
        let mut outcome = DirOutcome { dir, ..DirOutcome::default() };
        let cached = self.cache.dir(&task.path);
        let listing = match self.list(&task, cached.as_ref(), &mut outcome) {
            Ok(listing) => listing,
            Err(error) if is_absent(&error) && !task.path.is_empty() => return outcome,
            Err(error) => {
                outcome.findings_mut().failures.push((task.path, error));
                return outcome;
            }
        };
        match self.attributes_of(&task, &listing, outcome.dir.listed_from_cache) {
            Ok(attributes) => outcome.dir.attributes = attributes,
            Err(error) => outcome.findings_mut().failures.push((task.path.clone(), error)),
        }
        match self.read_ignore_files(&task, &listing) {
            Ok(files) if files.is_empty() => {}
            Ok(files) => outcome.findings_mut().ignore_files = files,
            Err(failure) => {
                outcome.findings_mut().failures.push(failure);
                return outcome;
            }
        }
        let context = self.context(&task, &listing, cached, &mut outcome);
        let entries = listing.entries();
        outcome.dir.reserve(entries.len(), listing.names_len());
        if self.baseline.is_none() {
            let is_cached = context.cached.is_some();
            outcome.dir.reserve_nodes(entries.len(), is_cached);
        }
        if entries.len() > LARGE_DIR {
            let decisions: Vec<EntryDecision> =
                entries.par_iter().map(|entry| context.inspect(entry)).collect();
            for (entry, decision) in entries.iter().zip(decisions) {
                outcome.add(listing.name(entry), decision);
            }
        } else {
            for entry in entries {
                outcome.add(listing.name(entry), context.inspect(entry));
            }
        }
        let hard_links = context.hard_links.into_inner();
        let hard_links = hard_links.expect("no thread panics while it adds a path");
        if !hard_links.is_empty() {
            outcome.findings_mut().coverage.hard_links = hard_links;
        }
        let databases = databases(&task.path, &listing);
        if !databases.is_empty() {
            outcome.findings_mut().databases = databases;
        }
        if entries.len() == outcome.dir.items.len() && self.with_attributes {
            outcome.dir.listed = task.stat;
        }
        outcome.dir.shrink();
        outcome
    }

    /// The attributes of a directory, if they are read.
    fn attributes_of(&self, task: &Task, listing: &Listing, is_as_cached: bool) -> io::Result<Attributes> {
        if !self.with_attributes || task.path.is_empty() {
            return Ok(Attributes::default());
        }
        if is_as_cached {
            // It has no attributes but an owner, or it would not be as it was.
            return Ok(Attributes::default().with_owner(task.owner, self.root.owner()));
        }
        listing.attributes(task.owner, self.root.owner())
    }

    fn context<'d>(
        &'d self,
        task: &'d Task,
        listing: &'d Listing,
        cached: Option<CachedDir>,
        outcome: &mut DirOutcome,
    ) -> DirContext<'d> {
        let now = task.now.enter(&task.path, outcome.ignore_files());
        let before = task.before.as_ref().map(|rules| {
            let files = self.baseline.as_ref().and_then(|baseline| baseline.rules.get(&*task.path));
            rules.enter(&task.path, files.copied().unwrap_or_default())
        });
        let fingerprint = self.fingerprint(&now.rules);
        outcome.dir.fingerprint = fingerprint;
        outcome.dir.cached_names =
            cached.as_ref().filter(|dir| dir.has_rules(&fingerprint)).map(CachedDir::len);
        DirContext {
            input: self,
            task,
            listing,
            cached,
            baseline: self.baseline.as_ref().map(|baseline| baseline.tree.below(&task.path)),
            cursor: (listing.entries().len() <= LARGE_DIR).then(Cursor::default),
            same_rules: before.as_ref().is_none_or(|before| {
                before.rules.fingerprint() == now.rules.fingerprint() && before.view == now.view
            }),
            cached_rules: outcome.dir.cached_names.is_some(),
            hard_links: Mutex::default(),
            now,
            before,
        }
    }

    fn list(&self, task: &Task, cached: Option<&CachedDir>, outcome: &mut DirOutcome) -> io::Result<Listing> {
        let readable = task.mode.bits() & 0o500 == 0o500 || rustix::process::geteuid().is_root();
        if readable
            && let Some((known, stat)) = cached.zip(task.stat)
            && self.listed_device == Some(stat.device)
            && known.is_listing_of(&stat)
        {
            outcome.dir.listed_from_cache = true;
            return Listing::cached(self.root, &task.path, known);
        }
        // A routine may have made a directory unreadable that the checkpoint has.
        if !readable
            && (task.before.is_some() || self.forced)
            && let Ok(dir) = TreePath::new(&*task.path)
            && self.root.set_mode(&dir, FileMode::from_bits(task.mode.bits() | 0o700)).is_ok()
        {
            outcome.findings_mut().unlocked = Some((dir, task.mode));
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
            let file = match self.baseline {
                None if !self.forced => self.root.open_file(&path),
                _ => self.root.open_file_forced(&path),
            };
            let mut text = Vec::new();
            match file.and_then(|mut file| file.read_to_end(&mut text)) {
                Ok(_) => files.push(IgnoreFile { dir: task.path.clone(), source, text: text.into() }),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err((path.as_bytes().into(), error)),
            }
        }
        Ok(files)
    }

    /// Identifies everything that decides whether a name is visible.
    fn fingerprint(&self, rules: &Rules) -> Fingerprint {
        let mut fingerprint = rules.fingerprint();
        for (byte, other) in fingerprint.iter_mut().zip(self.sensitive.fingerprint) {
            *byte ^= other;
        }
        fingerprint
    }
}

/// The files of a directory that have one of SQLite's files beside them, by its name; that one may be ignored.
fn databases(dir: &[u8], listing: &Listing) -> Vec<TreePath> {
    let database = |entry: &ListedName| {
        let database = database_name(listing.name(entry))?;
        let is_there = listing.entries().iter().any(|other| listing.name(other) == database);
        is_there.then(|| TreePath::joined(dir, database))
    };
    listing.entries().iter().filter(|entry| entry.kind == PathKind::File).filter_map(database).collect()
}

/// The error that lists the paths that cannot be read.
fn unreadable(failures: Vec<WalkFailure>) -> Error {
    let lines = failures
        .iter()
        .map(|(path, error)| {
            let path = if path.is_empty() { &b"."[..] } else { path };
            format!("{}: {error}", quote::for_people(path))
        })
        .collect();
    Error::integrity(format!("{} cannot be read", count(failures.len(), "path")))
        .details(lines, 20)
        .hint("make them readable, or exclude them with a line in .decreeignore")
}
