//! A tree, its store and its cache: what every operation of the engine works on.

use std::fs;
use std::path::{Path, PathBuf};

use super::hashing::hash_missing;
use super::ignore::FrozenRules;
use super::manifest::Manifest;
use super::path::TreePath;
use super::progress::Progress;
use super::root::Root;
use super::sensitive::Sensitive;
use super::stat_cache::{CacheWriter, Known, Stat, StatCache, Time};
use super::store::{Deposit, Store};
use super::walk::{Item, ItemKind, Walk, Walker};
use crate::error::{IoContext, Kind, Result};
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
            store: Store::at(store),
            cache_path: cache.to_owned(),
            scratch: scratch.to_owned(),
            sensitive,
        })
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
            Kind::Failed => error.into_kind(Kind::Integrity),
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
        let mut walk = self.walker(&cache).walk()?;
        self.distrust_what_is_not_stored(&cache, &mut walk)?;
        let deposit = self.store.deposit();
        hash_missing(&self.root, &mut walk, Some(&deposit), false, progress)?;
        store_links(&walk, &deposit)?;
        deposit.finish()?;
        if cache_is_stale(&cache, &walk) {
            self.write_cache(&walk, began)?;
        }
        drop(cache);
        let rules = FrozenRules::new(std::mem::take(&mut walk.ignore_files));
        let coverage = std::mem::take(&mut walk.coverage);
        Ok(Manifest { tree: walk.into_tree(), rules, coverage })
    }

    pub(super) fn walker<'w>(&'w self, cache: &'w StatCache) -> Walker<'w> {
        Walker {
            root: &self.root,
            cache,
            sensitive: &self.sensitive,
            own_dir: self.own_dir.as_ref(),
            baseline: None,
        }
    }

    /// The cache says what the content is; if a pack has gone since, it may not be stored any more.
    fn distrust_what_is_not_stored(&self, cache: &StatCache, walk: &mut Walk) -> Result<()> {
        let packs = self.store.stamps()?;
        if cache.packs().iter().all(|pack| packs.binary_search(pack).is_ok()) {
            return Ok(());
        }
        for item in walk.dirs.iter_mut().flat_map(|dir| &mut dir.items) {
            match &mut item.kind {
                ItemKind::File { hash: known, cached, .. } => {
                    if let Some(hash) = known
                        && !self.store.contains(hash)?
                    {
                        *known = None;
                        *cached = false;
                    }
                }
                ItemKind::Symlink { cached, .. } => *cached = false,
                ItemKind::Dir(_) => {}
            }
        }
        Ok(())
    }

    fn write_cache(&self, walk: &Walk, began: Time) -> Result<()> {
        let mut writer = CacheWriter::new(&self.store.stamps()?);
        for dir in &walk.dirs {
            let entries = dir.items.iter().map(|item| {
                let known = match item.kind {
                    ItemKind::File { stat, hash: Some(hash), cached } => {
                        Known::File { stat, hash, trusted: cached || stat.ctime < began }
                    }
                    ItemKind::Symlink { hash, .. } => Known::Link(hash),
                    ItemKind::Dir(child) if !walk.dirs[child].in_scope => Known::Opened,
                    _ => Known::Name,
                };
                (&*item.name, known)
            });
            writer.dir(&dir.path, &dir.fingerprint, entries);
        }
        writer.commit(&self.cache_path)
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
fn store_links(walk: &Walk, deposit: &Deposit<'_>) -> Result<()> {
    let mut filler = deposit.filler()?;
    for item in walk.dirs.iter().flat_map(|dir| &dir.items) {
        if let ItemKind::Symlink { target, hash, cached: false } = &item.kind
            && deposit.claim(hash)?
        {
            filler.add(*hash, target)?;
        }
    }
    filler.flush()
}

/// Whether the walk knows something that the cache does not, or no longer has something that it has.
fn cache_is_stale(cache: &StatCache, walk: &Walk) -> bool {
    let is_news = |item: &Item| {
        matches!(item.kind, ItemKind::File { cached: false, .. } | ItemKind::Symlink { cached: false, .. })
    };
    walk.dirs.len() != cache.dir_count()
        || walk
            .dirs
            .iter()
            .any(|dir| dir.cached_names != Some(dir.items.len()) || dir.items.iter().any(is_news))
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
