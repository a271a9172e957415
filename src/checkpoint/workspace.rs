//! A tree with its store and its cache, and the capture of a checkpoint.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use super::attributes::Attributes;
use super::git_record::GitRecord;
use super::hashing::{ContentSink, hash_missing};
use super::ignore::FrozenRules;
use super::live_database::{LiveDatabase, LiveReason, find_live};
use super::manifest::{Manifest, ManifestMemo};
use super::path::TreePath;
use super::progress::Progress;
use super::root::{PathKind, Root};
use super::secret_copies::{NotedSecrets, withhold_copies};
use super::seen_file;
use super::sensitive::Sensitive;
use super::stat_cache::{CacheFile, CacheLookup, CacheWriter, Stat, StatCache, Time};
use super::store::{PackStamp, PackWriter, Store, StoreSnapshot};
use super::tree::{Entry, Tree, TreeBuilder};
use super::unlocked_dirs::UnlockedDirs;
use super::walk::{ItemKind, UncachedEntry, Walk, WalkInput, WalkedDir};
use crate::error::{ErrorKind, IoContext, Result};
use crate::fs::local;
use crate::interrupt;
use crate::process::file_users;

/// The cache is written again if one directory in so many was listed although nothing in it changed.
const MAX_NEW_LISTINGS: usize = 16;
/// What is remembered of the last manifest, beside the cache.
const MEMO: &str = "last-manifest";
/// How often a tree is captured whose databases change meanwhile.
const MAX_TRIES: u32 = 4;

/// What every operation of the engine works on.
pub struct Workspace {
    pub(super) root: Root,
    pub(super) store: Store,
    pub(super) cache: CacheFile,
    memo: ManifestMemo,
    /// A directory for temporary files on the tree's file system.
    pub(super) scratch: PathBuf,
    pub(super) sensitive: Sensitive,
    pub(super) own_dir: Option<TreePath>,
    outputs: Vec<(u64, u64)>,
    /// What a copy of a likely secret is recognized by.
    pub secrets: NotedSecrets,
}

impl Workspace {
    /// The tree at `root`, with its store and a directory for work in progress.
    pub fn new(
        root: &Path,
        store: &Path,
        cache: &Path,
        scratch: &Path,
        sensitive: Sensitive,
    ) -> Result<Self> {
        // Links resolved: the walk must recognize a store inside the tree, and leave it out.
        let store = canonical(store);
        Ok(Workspace {
            root: Root::open(root).at("open", root)?,
            own_dir: own_dir(&canonical(root), &store),
            outputs: outputs(),
            store: Store::at(store),
            cache: CacheFile::new(cache, scratch),
            memo: ManifestMemo::new(&cache.with_file_name(MEMO), scratch),
            scratch: scratch.to_owned(),
            sensitive,
            secrets: NotedSecrets::default(),
        })
    }

    /// The same, with a store that is not the project's own.
    pub fn with_external_store(self) -> Self {
        Workspace { store: self.store.external(), ..self }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Which files are likely secrets.
    pub fn sensitive(&self) -> &Sensitive {
        &self.sensitive
    }

    /// Has every file read again at the next capture or comparison: a routine may have written the stat cache, and no decree was there to
    /// notice.
    pub fn forget_cache(&self) {
        self.cache.forget();
        self.memo.forget();
    }

    /// Does something while another thread reads what the first capture of this process needs: the cache, and the packs' indexes. The
    /// capture reads again what has changed by then.
    pub fn read_ahead<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.cache.is_loaded() {
            return work();
        }
        let read = || rayon::join(|| drop(self.cache.load()), || drop(self.store.snapshot()));
        thread::scope(|scope| {
            // It only saves time. The capture reports what cannot be read.
            let _ = thread::Builder::new().spawn_scoped(scope, read);
            work()
        })
    }

    /// Writes the manifest of a capture of this tree. Parts that the store lacks are durable before that.
    pub fn write_manifest(&self, manifest: &Manifest, path: &Path) -> Result<()> {
        manifest.write(path, &self.store, &self.memo)
    }

    /// Checkpoints the tree: when this returns, every content is in the store and durable.
    ///
    /// The manifest is the caller's to write, before anything relies on it.
    pub fn capture(&self, progress: &dyn Progress) -> Result<Manifest> {
        self.capture_with(None, progress)
    }

    /// The same before the tree is restored: also what a routine or a user made unreadable is saved, if this user owns it, and every
    /// path of `touched`, which the restore may overwrite or remove, even if it is ignored by now. Likely secrets are left out.
    pub fn capture_present(&self, touched: &Tree, progress: &dyn Progress) -> Result<Manifest> {
        self.capture_with(Some(touched), progress)
    }

    fn capture_with(&self, touched: Option<&Tree>, progress: &dyn Progress) -> Result<Manifest> {
        let mut tries = 0;
        loop {
            let manifest = self.try_capture(touched, progress).map_err(|error| match error.kind() {
                // Whatever failed, the checkpoint is not complete.
                ErrorKind::Failed => error.into_kind(ErrorKind::Integrity),
                _ => error,
            })?;
            tries += 1;
            let changed = |database: &LiveDatabase| database.reasons.contains(&LiveReason::Changed);
            // The files of a database were read one after the other, and belong together only if it did not change meanwhile.
            if tries == MAX_TRIES || !manifest.coverage.live_databases.iter().any(changed) {
                return Ok(manifest);
            }
        }
    }

    fn try_capture(&self, touched: Option<&Tree>, progress: &dyn Progress) -> Result<Manifest> {
        // As long as reading the tree, on a machine with many processes.
        let (captured, open) = rayon::join(
            || self.capture_files(touched, progress),
            || file_users::open_below(self.root.path()),
        );
        let (mut manifest, named, began) = captured?;
        manifest.coverage.live_databases = find_live(&self.root, &manifest.tree, named, open, began);
        if !rustix::process::geteuid().is_root() {
            let entries = manifest.tree.iter().filter(|entry| entry.attributes.need_root());
            manifest.coverage.attributes_need_root = entries.map(|entry| entry.path()).collect();
        }
        Ok(manifest)
    }

    /// Returns also which files have one of SQLite's files beside them, and when the capture began.
    fn capture_files(
        &self,
        touched: Option<&Tree>,
        progress: &dyn Progress,
    ) -> Result<(Manifest, Vec<TreePath>, Time)> {
        let forced = touched.is_some();
        self.store.prepare()?;
        // What is only held is not stored: a checkpoint must not rely on it.
        self.store.repair()?;
        // A program may have removed or overwritten packs since the list was read.
        self.store.discard_packs();
        if let Some(dir) = self.cache.path().parent() {
            fs::create_dir_all(dir).at("create", dir)?;
        }
        let began = Time::of(seen_file::clock(&self.scratch)?);
        let (cache, packs) = rayon::join(|| self.cache.load_for_capture(), || self.store.readable_stamps());
        self.memo.note_present();
        let stored = self.stored_if_in_doubt(&cache, &packs?)?;
        // The new cache lists the packs of now, so that the next capture need not look its contents up again.
        let mut packs_changed = stored.is_some();
        let input = WalkInput { stored, forced, despite_rules: touched, ..self.walk_input(&cache) };
        let mut walk = input.walk()?;
        drop(input);
        let writer = self.store.pack_writer();
        writer.reserve(walk.dirs.iter().map(|dir| dir.uncached.len()).sum());
        let unlocked = UnlockedDirs::new(&self.root, std::mem::take(&mut walk.unlocked));
        // Only what is saved of the present may have copies of secrets in it: before, nothing is known to be one.
        let withheld =
            touched.map_or_else(HashSet::new, |touched| self.secrets.contents(&self.root, &walk, touched));
        let sink = ContentSink { writer: &writer, withheld: &withheld };
        hash_missing(&self.root, &mut walk, Some(sink), forced, progress)?;
        withhold_copies(&mut walk, &withheld);
        drop(unlocked);
        store_links(&walk, &writer)?;
        let git = match GitRecord::capture(self.root.path(), &writer) {
            // The way back of the files must not depend on a repository that a routine broke.
            Err(_) if forced => None,
            git => git?,
        };
        let repositories = &walk.coverage.repositories;
        let nested_git = GitRecord::capture_nested(self.root.path(), repositories, &writer)?;
        writer.finish()?;
        // Only saves time and descriptors later: if it fails, as on a full disk, the packs stay as they are.
        packs_changed |= self.store.merge_small().is_ok_and(|merged| merged > 0);
        interrupt::check()?;
        // The cache says what the rules show, and this walk may have gone beyond them.
        if touched.is_none() && (packs_changed || cache_is_stale(&cache, &walk, began)) {
            self.write_cache(&cache, &walk, began)?;
        }
        drop(cache);
        let rules = FrozenRules::new(std::mem::take(&mut walk.ignore_files));
        let coverage = std::mem::take(&mut walk.coverage);
        let databases = std::mem::take(&mut walk.databases);
        let mut tree = TreeBuilder::default();
        walk.into_entries(|dir, name, node, attributes| {
            let node = node.expect("without a baseline no entry is unchanged");
            assert!(tree.push(Entry { dir, name, node, attributes }), "a walk yields entries in order");
        });
        let manifest =
            Manifest { tree: tree.finish(), rules, coverage, git, nested_git, has_attributes: true };
        Ok((manifest, databases, began))
    }

    pub(super) fn walk_input<'w>(&'w self, cache: &'w StatCache) -> WalkInput<'w> {
        WalkInput {
            root: &self.root,
            cache,
            sensitive: &self.sensitive,
            own_dir: self.own_dir.as_ref(),
            outputs: &self.outputs,
            stored: None,
            baseline: None,
            despite_rules: None,
            listed_device: local::local_device(self.root.path()),
            with_attributes: true,
            forced: false,
        }
    }

    /// If a pack that the cache relies on is missing, or anything is damaged, a content in the cache may no longer be stored: the
    /// walk then looks each one up.
    fn stored_if_in_doubt(&self, cache: &StatCache, packs: &[PackStamp]) -> Result<Option<StoreSnapshot>> {
        let is_sound = !self.store.has_damaged_contents();
        if is_sound && cache.packs.iter().all(|pack| packs.binary_search(pack).is_ok()) {
            return Ok(None);
        }
        self.store.snapshot().map(Some)
    }

    /// Entries that the old cache has are copied from it: the walk does not keep the `stat` results of those files.
    fn write_cache(&self, cache: &StatCache, walk: &Walk, began: Time) -> Result<()> {
        if self.cache.path().symlink_metadata().is_ok_and(|found| found.is_dir()) {
            // It cannot be replaced, and without a cache every file is read, which is only slower.
            return Ok(());
        }
        let mut writer = CacheWriter::create(self.cache.path(), &self.store.readable_stamps()?)?;
        let file = |stat: Stat, hash, attributes| {
            let trusted = stat.ctime < began;
            CacheLookup::File { stat, hash, attributes, trusted }
        };
        for dir in &walk.dirs {
            let before = cache.dir(&dir.path);
            let entries = dir.items.iter().filter_map(|item| {
                let name = item.name.of(&dir.names);
                let known = match item.kind {
                    ItemKind::Uncached(number) => match dir.uncached[number as usize] {
                        UncachedEntry::Unread => return None,
                        UncachedEntry::Link(_, hash) => CacheLookup::Link(hash),
                        UncachedEntry::File(stat, hash) => file(stat.unpack(), hash, Attributes::default()),
                        UncachedEntry::FileWithAttributes(ref read) => {
                            file(read.0, read.1, read.2.without_owner())
                        }
                    },
                    ItemKind::Known(_) | ItemKind::Same => before.as_ref()?.find(name, false)?,
                    ItemKind::Dir(child) if !walk.dirs[child as usize].in_scope => CacheLookup::IgnoredDir,
                    ItemKind::Dir(_) => CacheLookup::Dir,
                };
                Some((name, known))
            });
            let listed = dir.settled_listing(began).map(|stat| (stat, dir.items.len()));
            writer.dir(&dir.path, &dir.fingerprint, listed, entries)?;
        }
        writer.commit()?;
        self.cache.note_written()
    }
}

/// Stores the targets of links, which are content like that of files.
fn store_links(walk: &Walk, writer: &PackWriter<'_>) -> Result<()> {
    let mut frames = writer.frame_writer()?;
    for entry in walk.dirs.iter().flat_map(|dir| &dir.uncached) {
        if let UncachedEntry::Link(target, hash) = entry
            && let Some(claim) = writer.claim(hash)?
        {
            frames.add(claim, target)?;
        }
    }
    frames.flush()
}

/// Whether the walk found something that the cache lacks, or no longer found something that the cache has, or listed many directories
/// that it need not list the next time.
fn cache_is_stale(cache: &StatCache, walk: &Walk, began: Time) -> bool {
    let is_new_listing = |dir: &&WalkedDir| !dir.listed_from_cache && dir.settled_listing(began).is_some();
    walk.dirs.len() != cache.dir_count()
        || walk.dirs.iter().any(|dir| dir.cached_names != Some(dir.items.len()) || !dir.uncached.is_empty())
        || walk.dirs.iter().filter(is_new_listing).count() > walk.dirs.len() / MAX_NEW_LISTINGS
}

/// The regular files that standard output and standard error are redirected to.
fn outputs() -> Vec<(u64, u64)> {
    let stats = [rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr())];
    stats
        .into_iter()
        .flatten()
        .filter(|stat| PathKind::of(stat.st_mode) == PathKind::File)
        .map(|stat| Stat::of(&stat))
        .map(|stat| (stat.device, stat.inode))
        .collect()
}

/// Resolves links in as much of a path as exists.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => canonical(parent).join(name),
        _ => path.to_owned(),
    }
}

/// The store's path in the tree, if it is in the tree and not in `.decree/`.
fn own_dir(root: &Path, store: &Path) -> Option<TreePath> {
    let inside = store.strip_prefix(root).ok()?;
    TreePath::new(inside.as_os_str().as_encoded_bytes()).ok()
}
