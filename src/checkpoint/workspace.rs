//! A tree, its store and its cache: what every operation of the engine works on.

use std::fs;
use std::path::{Path, PathBuf};

use super::hashing::hash_missing;
use super::ignore::FrozenRules;
use super::manifest::Manifest;
use super::path::TreePath;
use super::progress::Progress;
use super::root::{PathKind, Root};
use super::sensitive::Sensitive;
use super::stat_cache::{CacheLookup, CacheWriter, Stat, StatCache, Time};
use super::store::{PackWriter, Store, StoreSnapshot};
use super::tree::{Entry, TreeBuilder};
use super::walk::{ItemKind, UncachedEntry, Walk, Walker};
use crate::error::{ErrorKind, IoContext, Result};
use crate::fs::atomic;

/// Everything the engine has to know of a project.
pub struct Workspace {
    pub(super) root: Root,
    pub(super) store: Store,
    pub(super) cache_path: PathBuf,
    /// A directory of decree's own on the tree's file system.
    pub(super) scratch: PathBuf,
    pub(super) sensitive: Sensitive,
    pub(super) own_dir: Option<TreePath>,
    outputs: Vec<(u64, u64)>,
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
        // One place under any name: the tree must not contain the store it is kept in.
        let store = canonical(store);
        Ok(Workspace {
            root: Root::open(root).at("open", root)?,
            own_dir: own_dir(&canonical(root), &store),
            outputs: outputs(),
            store: Store::at(store),
            cache_path: cache.to_owned(),
            scratch: scratch.to_owned(),
            sensitive,
        })
    }

    /// The same, with a store that is not the project's own.
    pub fn with_store_elsewhere(self) -> Self {
        Workspace { store: self.store.elsewhere(), ..self }
    }

    /// The tree.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The content.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Checkpoints the tree: when this returns, every content is in the store and durable.
    ///
    /// The manifest is the caller's to write, before anything relies on it.
    pub fn capture(&self, progress: &dyn Progress) -> Result<Manifest> {
        self.try_capture(progress).map_err(|error| match error.kind() {
            // Whatever the reason: there is no complete checkpoint.
            ErrorKind::Failed => error.into_kind(ErrorKind::Integrity),
            _ => error,
        })
    }

    fn try_capture(&self, progress: &dyn Progress) -> Result<Manifest> {
        self.store.prepare()?;
        if let Some(dir) = self.cache_path.parent() {
            fs::create_dir_all(dir).at("create", dir)?;
        }
        let began = self.clock()?;
        let cache = StatCache::load(&self.cache_path);
        let stored = self.stored_if_in_doubt(&cache)?;
        // What is found to be stored after all is not asked again the next time.
        let relies_on_others = stored.is_some();
        let walker = Walker { stored, ..self.walker(&cache) };
        let mut walk = walker.walk()?;
        drop(walker);
        let deposit = self.store.deposit();
        hash_missing(&self.root, &mut walk, Some(&deposit), false, progress)?;
        store_links(&walk, &deposit)?;
        deposit.finish()?;
        if relies_on_others || cache_is_stale(&cache, &walk) {
            self.write_cache(&cache, &walk, began)?;
        }
        drop(cache);
        let rules = FrozenRules::new(std::mem::take(&mut walk.ignore_files));
        let coverage = std::mem::take(&mut walk.coverage);
        let mut tree = TreeBuilder::default();
        walk.into_entries(|dir, name, node| {
            let node = node.expect("there is no baseline that it could be the same as");
            assert!(tree.push(Entry { dir, name, node }), "a walk goes through the tree in order");
        });
        Ok(Manifest { tree: tree.finish(), rules, coverage })
    }

    pub(super) fn walker<'w>(&'w self, cache: &'w StatCache) -> Walker<'w> {
        Walker {
            root: &self.root,
            cache,
            sensitive: &self.sensitive,
            own_dir: self.own_dir.as_ref(),
            outputs: &self.outputs,
            stored: None,
            baseline: None,
        }
    }

    /// The cache says what the content is; if a pack has gone since, or is damaged, it may not be stored any more.
    fn stored_if_in_doubt(&self, cache: &StatCache) -> Result<Option<StoreSnapshot>> {
        let packs = self.store.readable_stamps()?;
        match cache.packs().iter().all(|pack| packs.binary_search(pack).is_ok()) {
            true => Ok(None),
            false => self.store.holdings().map(Some),
        }
    }

    /// What the cache knew already is taken over from it: the walk does not keep what `stat` says of those files.
    fn write_cache(&self, cache: &StatCache, walk: &Walk, began: Time) -> Result<()> {
        let mut writer = CacheWriter::create(&self.cache_path, &self.store.readable_stamps()?)?;
        for dir in &walk.dirs {
            let before = cache.dir(&dir.path);
            let entries = dir.items.iter().filter_map(|item| {
                let name = item.name.of(&dir.names);
                let known = match item.kind {
                    ItemKind::Uncached(number) => match dir.news[number as usize] {
                        UncachedEntry::Unread => return None,
                        UncachedEntry::Link(_, hash) => CacheLookup::Link(hash),
                        UncachedEntry::File(stat, hash) => {
                            CacheLookup::File { stat, hash, trusted: stat.ctime < began }
                        }
                    },
                    ItemKind::Known(_) | ItemKind::Same => before.as_ref()?.find(name, false)?,
                    ItemKind::Dir(child) if !walk.dirs[child as usize].in_scope => CacheLookup::Opened,
                    ItemKind::Dir(_) => CacheLookup::Name,
                };
                Some((name, known))
            });
            writer.dir(&dir.path, &dir.fingerprint, entries)?;
        }
        writer.commit()
    }

    /// The file system's own idea of now: what a file changed at this moment would get.
    fn clock(&self) -> Result<Time> {
        fs::create_dir_all(&self.scratch).at("create", &self.scratch)?;
        let path = self.scratch.join(format!("{}clock", atomic::TEMPORARY));
        let file = atomic::create_new(&path).at("create", &path)?;
        let now = Stat::of(&rustix::fs::fstat(&file).at("read", &path)?).ctime;
        fs::remove_file(&path).at("remove", &path)?;
        Ok(now)
    }
}

/// A link's target is content like any other.
fn store_links(walk: &Walk, deposit: &PackWriter<'_>) -> Result<()> {
    let mut filler = deposit.filler()?;
    for news in walk.dirs.iter().flat_map(|dir| &dir.news) {
        if let UncachedEntry::Link(target, hash) = news
            && let Some(claim) = deposit.claim(hash)?
        {
            filler.add(claim, target)?;
        }
    }
    filler.flush()
}

/// Whether the walk knows something that the cache does not, or no longer has something that it has.
fn cache_is_stale(cache: &StatCache, walk: &Walk) -> bool {
    walk.dirs.len() != cache.dir_count()
        || walk.dirs.iter().any(|dir| dir.cached_names != Some(dir.items.len()) || !dir.news.is_empty())
}

/// The regular files that standard output and standard error lead to.
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

/// The one name of a path: as far as it exists, without links and detours.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => canonical(parent).join(name),
        _ => path.to_owned(),
    }
}

/// Where the store is in the tree, if it is there and not in `.decree/`.
fn own_dir(root: &Path, store: &Path) -> Option<TreePath> {
    let inside = store.strip_prefix(root).ok()?;
    TreePath::new(inside.as_os_str().as_encoded_bytes()).ok()
}
