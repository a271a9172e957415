//! The store as a directory of packs: which there are, and which of them has a content.
//!
//! A pack whose index cannot be read counts as missing: a capture stores its contents again, and a reader of a content
//! that is in no other pack gets an error that names the pack. Only compaction refuses to run, as it must know what it drops.
//!
//! Another process may compact the store at any time without a lock that readers would notice, so a pack can vanish
//! between listing and opening it. Its contents are then in a new pack, and the caller lists again.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use rustix::process::{Resource, getrlimit};

use super::pack::{Blob, Frame, Pack, Packs, damaged_pack, damaged_pack_hint, pack_id, read_index};
use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::{is_at, random_hex, untrusted};

/// How often to list the packs again because one vanished. Each time, another process has compacted the store.
pub(super) const MAX_ATTEMPTS: usize = 10;
/// Marks a store that other projects use, too: no project sees all checkpoints that need its content.
const SHARED: &str = "shared";
const SHARED_TEXT: &[u8] =
    b"Projects elsewhere keep content here (DECREE_STORE), so `decree checkpoint gc` drops none of it.\n\
    Remove this file when no other project uses this store any more.\n";

/// The content of every checkpoint of a project, or of several that share a `DECREE_STORE`.
pub struct Store {
    pub(super) dir: PathBuf,
    is_external: bool,
    packs: RwLock<Option<Arc<Packs>>>,
    /// The frame read last: neighbours in path order share frames.
    last_frame: Mutex<Option<CachedFrame>>,
}

/// A decompressed frame, and the pack and place it came from.
type CachedFrame = (PathBuf, Frame, Arc<Vec<u8>>);

/// Packs, the number of one of them, and where in it a content is.
pub(super) type BlobLocation = (Arc<Packs>, usize, Blob);

/// A pack's name and size, by which the stat cache recognizes the packs that it relies on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackStamp {
    /// The hash of its index, from its name.
    pub id: ContentHash,
    pub size: u64,
}

/// How many contents the store has, and how many bytes they take on disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreUsage {
    pub contents: u64,
    pub bytes: u64,
}

/// The packs of the store at one moment, for many lookups.
pub struct StoreSnapshot(Arc<Packs>);

impl StoreSnapshot {
    pub fn contains(&self, hash: &ContentHash) -> bool {
        self.0.iter().any(|pack| pack.index.find(hash).is_some())
    }
}

impl Store {
    /// The store in `dir`, which need not exist yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Store { dir: dir.into(), is_external: false, packs: RwLock::new(None), last_frame: Mutex::new(None) }
    }

    /// A store that is not the project's own: a capture into it marks it as shared.
    pub fn external(self) -> Self {
        Store { is_external: true, ..self }
    }

    /// The file that marks this store as shared with other projects, if it exists.
    pub fn shared_mark(&self) -> Option<PathBuf> {
        Some(self.dir.join(SHARED)).filter(|mark| mark.symlink_metadata().is_ok())
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn contains(&self, hash: &ContentHash) -> Result<bool> {
        Ok(self.snapshot()?.contains(hash))
    }

    pub fn snapshot(&self) -> Result<StoreSnapshot> {
        self.packs().map(StoreSnapshot)
    }

    /// Finds a content. If no known pack has it, a new pack that replaced one of them may.
    pub(super) fn find(&self, hash: &ContentHash) -> Result<Option<BlobLocation>> {
        for _ in 0..MAX_ATTEMPTS {
            let packs = self.packs()?;
            let found =
                packs.iter().enumerate().find_map(|(number, pack)| Some((number, pack.index.find(hash)?)));
            if let Some((pack, blob)) = found {
                return Ok(Some((packs, pack, blob)));
            }
            if !self.discard_outdated(&packs)? {
                break;
            }
        }
        Ok(None)
    }

    /// Discards the cached list of packs if it is no longer what the directory has; returns whether it was not. Held packs
    /// are kept: their holder has the project's lock, so no other process compacts the store.
    pub(super) fn discard_outdated(&self, packs: &Arc<Packs>) -> Result<bool> {
        if packs.iter().any(|pack| pack.file.is_some()) {
            return Ok(false);
        }
        let damaged = packs.damaged.iter().map(|(path, _)| path);
        let mut known: Vec<&PathBuf> = packs.iter().map(|pack| &pack.path).chain(damaged).collect();
        known.sort();
        if known.into_iter().eq(&self.pack_paths()?) {
            return Ok(false);
        }
        let mut slot = self.packs.write().expect("no thread panics while it reloads");
        if slot.as_ref().is_some_and(|cached| Arc::ptr_eq(cached, packs)) {
            *slot = None;
        }
        Ok(true)
    }

    pub(super) fn missing_content_error(&self, hash: &ContentHash) -> Error {
        let error = Error::integrity(format!("the store lacks the content {hash}"))
            .detail(format!("store: {}", self.dir.display()));
        let packs = self.packs();
        let damaged = packs.as_ref().map_or(&[][..], |packs| &packs.damaged);
        let Some((first, _)) = damaged.first() else {
            if packs.as_ref().is_ok_and(|packs| packs.is_empty()) {
                return error.hint("the store is empty: if DECREE_STORE was set when the content was stored, set it to the same directory again");
            }
            return error.hint("`decree checkpoint verify --all` reports which checkpoints are affected");
        };
        let line = |(path, why): &(PathBuf, String)| {
            format!("the store is damaged, and the content may be in this pack: {}: {why}", path.display())
        };
        error.details(damaged.iter().map(line).collect(), 20).hint(damaged_pack_hint(first))
    }

    /// Packs whose index cannot be read, so that their contents are unknown.
    pub fn damaged_packs(&self) -> Result<Vec<PathBuf>> {
        Ok(self.packs()?.damaged.iter().map(|(path, _)| path.clone()).collect())
    }

    /// Fails if any pack is damaged.
    pub(super) fn check_undamaged(&self) -> Result<()> {
        match self.packs()?.damaged.first() {
            Some((path, why)) => Err(damaged_pack(path, why.as_str())),
            None => Ok(()),
        }
    }

    /// The packs whose index can be read.
    pub fn readable_stamps(&self) -> Result<Vec<PackStamp>> {
        let damaged: Vec<_> = self.damaged_packs()?.iter().filter_map(|path| pack_id(path)).collect();
        let mut stamps = self.stamps()?;
        stamps.retain(|stamp| !damaged.contains(&stamp.id));
        Ok(stamps)
    }

    /// All packs, without opening them.
    pub fn stamps(&self) -> Result<Vec<PackStamp>> {
        let mut stamps = Vec::new();
        for path in self.pack_paths()? {
            let Some(id) = pack_id(&path) else { continue };
            // Another process may have removed it just now.
            if let Some(found) = fs::metadata(&path).if_exists().at("read", &path)? {
                stamps.push(PackStamp { id, size: found.len() });
            }
        }
        stamps.sort();
        Ok(stamps)
    }

    pub fn usage(&self) -> Result<StoreUsage> {
        let contents = self.packs()?.iter().map(|p| p.index.blobs().count() as u64).sum();
        let bytes = self.stamps()?.iter().map(|stamp| stamp.size).sum();
        Ok(StoreUsage { contents, bytes })
    }

    /// Creates the directory, and removes what killed captures left in it.
    pub fn prepare(&self) -> Result<()> {
        fs::create_dir_all(&self.dir).at("create", &self.dir)?;
        if self.is_external && self.shared_mark().is_none() {
            atomic::write(&self.dir.join(SHARED), SHARED_TEXT)?;
        }
        self.remove_stale();
        Ok(())
    }

    /// Removes what killed captures left: temporary files that no process has locked.
    pub fn remove_stale(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let stale = entry.file_name().to_string_lossy().starts_with(TEMPORARY)
                && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if stale {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// A new file for an unfinished pack. It is locked for as long as it is open: a store may be
    /// shared, and another process must not remove it as stale while it is being written.
    pub(super) fn new_temporary(&self) -> Result<(File, PathBuf)> {
        loop {
            let path = self.dir.join(format!("{TEMPORARY}{}.pack", random_hex()));
            let file = atomic::create_new(&path).at("create", &path)?;
            file.lock().at("lock", &path)?;
            // Another process may have removed it before it was locked.
            if path.exists() {
                return Ok((file, path));
            }
        }
    }

    /// Discards the cached list of packs.
    pub(super) fn discard_packs(&self) {
        *self.packs.write().expect("no thread panics while it reloads") = None;
    }

    pub(super) fn packs(&self) -> Result<Arc<Packs>> {
        if let Some(packs) = &*self.packs.read().expect("no thread panics while it loads") {
            return Ok(Arc::clone(packs));
        }
        let mut slot = self.packs.write().expect("no thread panics while it loads");
        if let Some(packs) = &*slot {
            return Ok(Arc::clone(packs));
        }
        let packs = Arc::new(self.open_packs(false)?);
        *slot = Some(Arc::clone(&packs));
        Ok(packs)
    }

    /// Keeps the packs open from here on, so that content can be read even if a routine removes the store's files. If there
    /// are more packs than a process may have open files, only the largest are kept open.
    pub fn hold(&self) -> Result<()> {
        let mut slot = self.packs.write().expect("no thread panics while it loads");
        if slot.as_ref().is_none_or(|packs| packs.iter().all(|pack| pack.file.is_none())) {
            *slot = Some(Arc::new(self.open_packs(true)?));
        }
        Ok(())
    }

    /// Writes held packs again that are no longer under their names. Returns how many.
    pub fn repair(&self) -> Result<usize> {
        let packs = self.packs()?;
        let mut count = 0;
        for pack in packs.iter() {
            let Some(held) = pack.file.as_ref().filter(|held| !is_at(held, &pack.path)) else { continue };
            fs::create_dir_all(&self.dir).at("create", &self.dir)?;
            let (mut file, temporary) = self.new_temporary()?;
            let mut source = held;
            source
                .rewind()
                .and_then(|()| io::copy(&mut source, &mut file))
                .and_then(|_| file.sync_data())
                .at("write", &temporary)?;
            fs::rename(&temporary, &pack.path).at("write", &pack.path)?;
            count += 1;
        }
        if count > 0 {
            atomic::sync_dir(&self.dir)?;
        }
        Ok(count)
    }

    fn open_packs(&self, hold: bool) -> Result<Packs> {
        let mut attempts = 1;
        loop {
            match self.try_open_packs(hold) {
                // A pack was removed between listing and opening it; its contents are in another.
                Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) && attempts < MAX_ATTEMPTS => {
                    attempts += 1;
                }
                result => return result,
            }
        }
    }

    fn try_open_packs(&self, hold: bool) -> Result<Packs> {
        let mut paths = self.pack_paths()?;
        // The largest first: those are held if not all can be. The key is cached, as a pack may vanish while sorting.
        paths.sort_by_cached_key(|path| std::cmp::Reverse(fs::metadata(path).map_or(0, |pack| pack.len())));
        let max_open = if hold { max_open_packs() } else { 0 };
        let mut packs = Packs::default();
        for path in paths {
            let file = File::open(&path).at("open", &path)?;
            match read_index(&file) {
                Ok(index) => {
                    let file = (packs.list.len() < max_open).then_some(file);
                    packs.list.push(Pack { path, index, file });
                }
                Err(why) => packs.damaged.push((path, why.to_string())),
            }
        }
        Ok(packs)
    }

    fn pack_paths(&self) -> Result<Vec<PathBuf>> {
        let names = untrusted::names_in(&self.dir).at("read", &self.dir)?;
        Ok(names.iter().map(|name| self.dir.join(name)).filter(|path| pack_id(path).is_some()).collect())
    }

    pub(super) fn read_frame(&self, pack: &Pack, frame: Frame) -> io::Result<Arc<Vec<u8>>> {
        let mut last = self.last_frame.lock().expect("no thread panics while it reads");
        if let Some((path, known, raw)) = &*last
            && *known == frame
            && *path == pack.path
        {
            return Ok(Arc::clone(raw));
        }
        drop(last);
        let raw = Arc::new(pack.read_frame(frame)?);
        last = self.last_frame.lock().expect("no thread panics while it reads");
        *last = Some((pack.path.clone(), frame, Arc::clone(&raw)));
        Ok(raw)
    }
}

/// How many packs to hold open: a quarter of the limit on open files leaves enough for everything else.
fn max_open_packs() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1024);
    usize::try_from(limit / 4).map_or(256, |quarter| quarter.min(256))
}
