//! The store as a directory of packs: which there are, and which of them has a content.
//!
//! A pack whose index cannot be read counts as missing: a capture stores its contents again, and a reader of a content
//! that is in no other pack gets an error that names the pack. Only compaction refuses to run, as it must know what it drops.
//!
//! Another process may compact the store at any time without a lock that readers would notice, so a pack can vanish
//! between listing and opening it. Its contents are then in a new pack, and the caller lists again.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use rustix::io::Errno;

use super::pack::{
    Blob, Frame, HeldPack, Pack, PackIndex, Packs, damaged_pack, damaged_pack_hint, pack_id, read_index,
};
use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::{FileStamp, random_hex, untrusted};

/// How often to list the packs again because one vanished. Each time, another process has compacted the store.
pub(super) const MAX_ATTEMPTS: usize = 10;
/// How many decompressed frames are kept, of 512 KiB at most.
const MAX_RECENT_FRAMES: usize = 8;
/// How many bytes of indexes are kept for the next time that the packs are opened. Those of large packs are read faster than found.
const MAX_KNOWN_INDEXES: usize = 16 << 20;
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
    /// What was read once is not read again: a pack never changes, and another file has another stamp.
    indexes: Mutex<HashMap<PathBuf, KnownIndex>>,
    /// The packs that can be read whatever becomes of their files.
    pub(super) held: RwLock<Option<Arc<Packs>>>,
    /// Contents that were found to be damaged in every pack that has them: they count as missing.
    distrusted: Mutex<Arc<HashSet<ContentHash>>>,
    /// The frames read last, the latest first: neighbours in path order share frames, and several threads read.
    recent_frames: Mutex<VecDeque<CachedFrame>>,
}

/// A decompressed frame, and the pack and place it came from.
type CachedFrame = (PathBuf, Frame, Arc<Vec<u8>>);

/// Packs, the number of one of them, and where in it a content is.
pub(super) type BlobLocation = (Arc<Packs>, usize, Blob);

/// Holds a pack, given its path, the stamp of its file, and what opens it; `None` if it is not to be held.
pub(super) type HoldPack<'h> =
    dyn FnMut(&Path, FileStamp, &dyn Fn() -> Result<File>) -> Result<Option<Arc<HeldPack>>> + 'h;

/// The index of a pack, and the stamp of the file that it was read from.
type KnownIndex = (FileStamp, Arc<PackIndex>);

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
pub struct StoreSnapshot {
    packs: Arc<Packs>,
    distrusted: Arc<HashSet<ContentHash>>,
}

impl StoreSnapshot {
    pub fn contains(&self, hash: &ContentHash) -> bool {
        self.packs.iter().any(|pack| pack.index.find(hash).is_some()) && !self.distrusted.contains(hash)
    }
}

impl Store {
    /// The store in `dir`, which need not exist yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Store {
            dir: dir.into(),
            is_external: false,
            packs: RwLock::default(),
            indexes: Mutex::default(),
            held: RwLock::default(),
            distrusted: Mutex::default(),
            recent_frames: Mutex::default(),
        }
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
        Ok(StoreSnapshot { packs: self.packs()?, distrusted: self.distrusted() })
    }

    fn distrusted(&self) -> Arc<HashSet<ContentHash>> {
        Arc::clone(&self.distrusted.lock().expect("no thread panics while it has this lock"))
    }

    /// Whether contents were found to be damaged, and not stored again since.
    pub fn has_damaged_contents(&self) -> bool {
        !self.distrusted().is_empty()
    }

    /// From here on the content counts as missing, so that the next capture stores it again.
    pub(super) fn distrust(&self, hash: ContentHash) {
        let mut distrusted = self.distrusted.lock().expect("no thread panics while it has this lock");
        Arc::make_mut(&mut distrusted).insert(hash);
    }

    /// The contents were stored again.
    pub(super) fn trust_again(&self, stored: &[Blob]) {
        let mut distrusted = self.distrusted.lock().expect("no thread panics while it has this lock");
        if !distrusted.is_empty() {
            let distrusted = Arc::make_mut(&mut distrusted);
            for blob in stored {
                distrusted.remove(&blob.hash);
            }
        }
    }

    /// Finds a content in a pack other than those that were `tried`. If no known pack has it, a new pack that replaced one of them
    /// may.
    pub(super) fn find(&self, hash: &ContentHash, tried: &[PathBuf]) -> Result<Option<BlobLocation>> {
        let find_in = |packs: Arc<Packs>| {
            let untried = packs.iter().enumerate().filter(|(_, pack)| !tried.contains(&pack.path));
            let found = untried.into_iter().find_map(|(number, pack)| Some((number, pack.index.find(hash)?)));
            found.map(|(pack, blob)| (packs, pack, blob))
        };
        if let Some(found) = self.held_packs().and_then(find_in) {
            return Ok(Some(found));
        }
        for _ in 0..MAX_ATTEMPTS {
            let packs = self.packs()?;
            if let Some(found) = find_in(Arc::clone(&packs)) {
                return Ok(Some(found));
            }
            if !self.discard_outdated(&packs)? {
                break;
            }
        }
        Ok(None)
    }

    /// Discards the cached list of packs if it is no longer what the directory has; returns whether it was not. Held packs
    /// do not need their files.
    pub(super) fn discard_outdated(&self, packs: &Arc<Packs>) -> Result<bool> {
        if packs.iter().any(|pack| pack.held.is_some()) {
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

    pub fn missing_content_error(&self, hash: &ContentHash) -> Error {
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
        if self.is_external {
            self.mark_as_shared()?;
        }
        self.remove_stale();
        Ok(())
    }

    /// Another project may do the same at this moment, and remove temporary files: so there is none.
    fn mark_as_shared(&self) -> Result<()> {
        let mark = self.dir.join(SHARED);
        match File::create_new(&mark) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created.and_then(|mut file| file.write_all(SHARED_TEXT)).at("write", &mark),
        }
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
            // Who may use a store that projects share is up to the user.
            let create = if self.is_external { atomic::create_public } else { atomic::create_new };
            let file = create(&path).at("create", &path)?;
            file.lock().at("lock", &path)?;
            // Another process may have removed it before it was locked.
            if path.exists() {
                return Ok((file, path));
            }
        }
    }

    /// Discards the cached list of packs. Most indexes are remembered for as long as the pack's file is the same.
    pub fn discard_packs(&self) {
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
        let packs = Arc::new(self.open_packs(&mut |_, _, _| Ok(None))?);
        *slot = Some(Arc::clone(&packs));
        Ok(packs)
    }

    /// Opens all packs, the largest first. `hold` gets each file, and may hold its content.
    pub(super) fn open_packs(&self, hold: &mut HoldPack<'_>) -> Result<Packs> {
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

    fn try_open_packs(&self, hold: &mut HoldPack<'_>) -> Result<Packs> {
        let find = |path: PathBuf| (fs::metadata(&path).ok(), path);
        let mut found: Vec<_> = self.pack_paths()?.into_iter().map(find).collect();
        found.sort_by_key(|(found, _)| std::cmp::Reverse(found.as_ref().map_or(0, fs::Metadata::len)));
        let mut packs = Packs::default();
        let mut known = std::mem::take(&mut *self.lock_indexes());
        let (mut indexes, mut kept) = (HashMap::with_capacity(found.len()), 0);
        for (found, path) in found {
            let stamp = found.as_ref().map(FileStamp::of);
            let opened = match known.remove(&path).filter(|(of, _)| Some(*of) == stamp) {
                Some((_, index)) => Ok((index, None)),
                None => open_index(&path),
            };
            let (index, file) = match opened {
                // It is listed again without it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error).at("open", &path),
                Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
                    return Err(error).at("open", &path);
                }
                Err(error) => {
                    packs.damaged.push((path, error.to_string()));
                    continue;
                }
                Ok((index, file)) => (index, RefCell::new(file)),
            };
            // A stamp that a later write may leave as it is says nothing.
            let settled = found.as_ref().and_then(FileStamp::if_settled);
            if let Some(settled) = settled.filter(|_| kept + index.bytes() <= MAX_KNOWN_INDEXES) {
                kept += index.bytes();
                indexes.insert(path.clone(), (settled, Arc::clone(&index)));
            }
            let file = || match file.take() {
                Some(file) => Ok(file),
                None => untrusted::open(&path).at("open", &path),
            };
            let held = stamp.map_or(Ok(None), |stamp| hold(&path, stamp, &file))?;
            packs.list.push(Pack { path, index, held });
        }
        *self.lock_indexes() = indexes;
        Ok(packs)
    }

    fn lock_indexes(&self) -> MutexGuard<'_, HashMap<PathBuf, KnownIndex>> {
        self.indexes.lock().expect("no thread panics while it has this lock")
    }

    pub(super) fn pack_paths(&self) -> Result<Vec<PathBuf>> {
        let names = untrusted::names_in(&self.dir).at("read", &self.dir)?;
        Ok(names.iter().map(|name| self.dir.join(name)).filter(|path| pack_id(path).is_some()).collect())
    }

    pub(super) fn read_frame(&self, pack: &Pack, frame: Frame) -> io::Result<Arc<Vec<u8>>> {
        let lock = || self.recent_frames.lock().expect("no thread panics while it reads");
        let is_it = |(path, known, _): &CachedFrame| *known == frame && *path == pack.path;
        if let Some((_, _, raw)) = lock().iter().find(|cached| is_it(cached)) {
            return Ok(Arc::clone(raw));
        }
        let raw = Arc::new(pack.read_frame(frame)?);
        let mut recent = lock();
        recent.truncate(MAX_RECENT_FRAMES - 1);
        recent.push_front((pack.path.clone(), frame, Arc::clone(&raw)));
        Ok(raw)
    }
}

/// Opens a pack and reads its index.
fn open_index(path: &Path) -> io::Result<(Arc<PackIndex>, Option<File>)> {
    let file = untrusted::open(path)?;
    let index = read_index(&file).map(Arc::new)?;
    Ok((index, Some(file)))
}
