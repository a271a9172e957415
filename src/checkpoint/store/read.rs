//! Reading the store; every content is checked against its hash.
//!
//! A pack whose index cannot be read is as good as not there: whoever stores something stores it again, whoever asks
//! for what is in no other pack gets an error that names it. Only who wants to drop something has to know what is in it.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use rustix::process::{Resource, getrlimit};

use super::content::ContentReader;
use super::pack::{self, Blob, FOOTER_LEN, Frame, PackIndex};
use super::write::PackWriter;
use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::{is_at, random_hex};

/// How often to look again because what was there a moment ago is gone. Each time somebody has tidied up in between.
pub(super) const TRIES: usize = 10;
/// A store with this file in it is used from elsewhere, too: nobody sees all that names its content.
const SHARED: &str = "shared";
/// For whoever finds it.
const SHARED_TEXT: &[u8] =
    b"Projects elsewhere keep content here (DECREE_STORE), so `decree checkpoint gc` drops none of it.\n\
    If that is over, remove this file.\n";

/// The content of every checkpoint of a project, or of several that share a `DECREE_STORE`.
pub struct Store {
    pub(super) dir: PathBuf,
    is_foreign: bool,
    packs: RwLock<Option<Arc<Packs>>>,
    /// The frame read last: neighbours in path order share frames.
    recent: Mutex<Option<Recent>>,
}

/// A decompressed frame, with where it came from.
type Recent = (PathBuf, Frame, Arc<Vec<u8>>);

/// Packs, the number of one of them, and where in it a content is.
type Place = (Arc<Packs>, usize, Blob);

/// The packs that there are.
#[derive(Debug)]
pub(super) struct Packs {
    list: Vec<Pack>,
    /// Those whose index cannot be read, and why.
    damaged: Vec<(PathBuf, String)>,
}

impl Deref for Packs {
    type Target = [Pack];

    fn deref(&self) -> &[Pack] {
        &self.list
    }
}

/// A pack's name and size, by which the stat cache knows that what it names is still there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackStamp {
    /// The hash of its index, from its name.
    pub id: ContentHash,
    /// In bytes.
    pub size: u64,
}

/// What the store holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreUsage {
    /// Different contents.
    pub contents: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// What is in the store at one moment.
pub struct StoreSnapshot(Arc<Packs>);

impl StoreSnapshot {
    /// Whether a content is there.
    pub fn have(&self, hash: &ContentHash) -> bool {
        self.0.iter().any(|pack| pack.index.find(hash).is_some())
    }
}

#[derive(Debug)]
pub(super) struct Pack {
    pub path: PathBuf,
    pub index: PackIndex,
    /// Open only while the store is held: there may be more packs than a process may have files.
    file: Option<File>,
}

impl Store {
    /// The store in `dir`, which need not exist yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Store { dir: dir.into(), is_foreign: false, packs: RwLock::new(None), recent: Mutex::new(None) }
    }

    /// A store that is not the project's own: whoever puts content into it leaves word of that.
    pub fn elsewhere(self) -> Self {
        Store { is_foreign: true, ..self }
    }

    /// The file that says that others rely on this store, if there is one.
    pub fn shared_mark(&self) -> Option<PathBuf> {
        Some(self.dir.join(SHARED)).filter(|mark| mark.symlink_metadata().is_ok())
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Begins to add content.
    pub fn deposit(&self) -> PackWriter<'_> {
        PackWriter::new(self)
    }

    /// Whether the store has this content.
    pub fn contains(&self, hash: &ContentHash) -> Result<bool> {
        Ok(self.holdings()?.have(hash))
    }

    /// Everything in the store, for many questions.
    pub fn holdings(&self) -> Result<StoreSnapshot> {
        self.packs().map(StoreSnapshot)
    }

    /// A content as a stream; its end is an error if it was not what its hash says.
    pub fn reader(&self, hash: &ContentHash) -> Result<ContentReader<'_>> {
        let Some((packs, pack, blob)) = self.find(hash)? else {
            return Err(self.lacks(hash));
        };
        Ok(ContentReader::new(self, packs, pack, blob))
    }

    /// Where a content is. What is in no pack that was read may be in one that took its place since.
    pub(super) fn find(&self, hash: &ContentHash) -> Result<Option<Place>> {
        for _ in 0..TRIES {
            let packs = self.packs()?;
            let found =
                packs.iter().enumerate().find_map(|(number, pack)| Some((number, pack.index.find(hash)?)));
            if let Some((pack, blob)) = found {
                return Ok(Some((packs, pack, blob)));
            }
            if !self.forget_outdated(&packs)? {
                break;
            }
        }
        Ok(None)
    }

    /// Forgets packs that are not those that are there any more; says whether that was so. Packs that are held are not
    /// forgotten: who holds them has the project's lock, and nobody tidies up meanwhile.
    pub(super) fn forget_outdated(&self, packs: &Arc<Packs>) -> Result<bool> {
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

    pub(super) fn lacks(&self, hash: &ContentHash) -> Error {
        let error = Error::integrity(format!("the store lacks the content {hash}"))
            .detail(format!("store: {}", self.dir.display()));
        let packs = self.packs();
        let damaged = packs.as_ref().map_or(&[][..], |packs| &packs.damaged);
        let Some((first, _)) = damaged.first() else {
            return error.hint("`decree checkpoint verify --all` tells which checkpoints are affected");
        };
        let line = |(path, why): &(PathBuf, String)| {
            format!("the store is damaged, and it may be in here: {}: {why}", path.display())
        };
        error.details(damaged.iter().map(line).collect(), 20).hint(way_out(first))
    }

    /// Packs whose index cannot be read, so that nobody knows what is in them.
    pub fn damaged_packs(&self) -> Result<Vec<PathBuf>> {
        Ok(self.packs()?.damaged.iter().map(|(path, _)| path.clone()).collect())
    }

    /// Fails if there are any.
    pub(super) fn refuse_damaged(&self) -> Result<()> {
        let packs = self.packs()?;
        let Some((path, why)) = packs.damaged.first() else { return Ok(()) };
        Err(Error::integrity(format!("the store is damaged: {}: {why}", path.display())).hint(way_out(path)))
    }

    /// A whole content; for those known to be small.
    pub fn read(&self, hash: &ContentHash) -> Result<Vec<u8>> {
        let mut reader = self.reader(hash)?;
        let mut out = Vec::with_capacity(usize::try_from(reader.left()).unwrap_or(0));
        reader.read_to_end(&mut out).at("read", &self.dir)?;
        Ok(out)
    }

    /// The packs there are whose index can be read.
    pub fn readable_stamps(&self) -> Result<Vec<PackStamp>> {
        let damaged: Vec<_> = self.damaged_packs()?.iter().filter_map(|path| pack_id(path)).collect();
        let mut stamps = self.stamps()?;
        stamps.retain(|stamp| !damaged.contains(&stamp.id));
        Ok(stamps)
    }

    /// The packs there are, without opening them.
    pub fn stamps(&self) -> Result<Vec<PackStamp>> {
        let mut stamps = Vec::new();
        for path in self.pack_paths()? {
            let Some(id) = pack_id(&path) else { continue };
            let size = match fs::metadata(&path) {
                // It was tidied away just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                result => result.at("read", &path)?.len(),
            };
            stamps.push(PackStamp { id, size });
        }
        stamps.sort();
        Ok(stamps)
    }

    /// How many contents, and how many bytes on disk.
    pub fn usage(&self) -> Result<StoreUsage> {
        let contents = self.packs()?.iter().map(|p| p.index.blobs().count() as u64).sum();
        let bytes = self.stamps()?.iter().map(|stamp| stamp.size).sum();
        Ok(StoreUsage { contents, bytes })
    }

    /// Makes the directory, and removes what killed captures left in it.
    pub fn prepare(&self) -> Result<()> {
        fs::create_dir_all(&self.dir).at("create", &self.dir)?;
        if self.is_foreign && self.shared_mark().is_none() {
            atomic::write(&self.dir.join(SHARED), SHARED_TEXT)?;
        }
        self.sweep();
        Ok(())
    }

    /// Removes what killed captures left: unfinished files that nobody holds a lock on.
    pub fn sweep(&self) {
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
    /// shared, and another decree must not sweep away what is being written.
    pub(super) fn new_temporary(&self) -> Result<(File, PathBuf)> {
        loop {
            let path = self.dir.join(format!("{TEMPORARY}{}.pack", random_hex()));
            let file = atomic::create_new(&path).at("create", &path)?;
            file.lock().at("lock", &path)?;
            // Another decree may have swept it away before it was locked.
            if path.exists() {
                return Ok((file, path));
            }
        }
    }

    /// Forgets the packs read so far.
    pub(super) fn reload(&self) {
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

    /// Keeps the packs open from here on, so that content can be read even if something removes the store's files: all of
    /// them, unless there are more than a process may have files open.
    pub fn hold(&self) -> Result<()> {
        let mut slot = self.packs.write().expect("no thread panics while it loads");
        if slot.as_ref().is_none_or(|packs| packs.iter().all(|pack| pack.file.is_none())) {
            *slot = Some(Arc::new(self.open_packs(true)?));
        }
        Ok(())
    }

    /// Writes the packs again that are held and not under their names any more. Returns how many that were.
    pub fn mend(&self) -> Result<usize> {
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
        let mut tries = 1;
        loop {
            match self.try_open_packs(hold) {
                // It was tidied away between the two; what it held is in another.
                Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) && tries < TRIES => tries += 1,
                result => return result,
            }
        }
    }

    fn try_open_packs(&self, hold: bool) -> Result<Packs> {
        let mut paths = self.pack_paths()?;
        // The largest first: they are what is held if not all can be. Each is asked once: it may be gone the next time.
        paths.sort_by_cached_key(|path| std::cmp::Reverse(fs::metadata(path).map_or(0, |pack| pack.len())));
        let most = if hold { most_held() } else { 0 };
        let mut packs = Packs { list: Vec::new(), damaged: Vec::new() };
        for path in paths {
            match Pack::try_open(&path, packs.list.len() < most)? {
                Ok(pack) => packs.list.push(pack),
                Err(why) => packs.damaged.push((path, why.to_string())),
            }
        }
        Ok(packs)
    }

    fn pack_paths(&self) -> Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).at("read", &self.dir),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.at("read", &self.dir)?.path();
            if pack_id(&path).is_some() {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    pub(super) fn frame(&self, pack: &Pack, frame: Frame) -> io::Result<Arc<Vec<u8>>> {
        let mut recent = self.recent.lock().expect("no thread panics while it reads");
        if let Some((path, known, raw)) = &*recent
            && *known == frame
            && *path == pack.path
        {
            return Ok(Arc::clone(raw));
        }
        drop(recent);
        let raw = Arc::new(pack.read_frame(frame)?);
        recent = self.recent.lock().expect("no thread panics while it reads");
        *recent = Some((pack.path.clone(), frame, Arc::clone(&raw)));
        Ok(raw)
    }
}

/// How many packs to hold open: a process may only have so many files, and has others.
fn most_held() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1024);
    usize::try_from(limit / 4).map_or(256, |quarter| quarter.min(256))
}

/// What to do about a damaged pack.
pub(super) fn way_out(pack: &Path) -> String {
    format!(
        "move the damaged pack {} out of the store: then the next checkpoint stores again what the tree still has, and \
         `decree checkpoint verify --all` tells which checkpoints are lost",
        pack.display()
    )
}

fn pack_id(path: &Path) -> Option<ContentHash> {
    if path.extension()? != "pack" {
        return None;
    }
    ContentHash::from_hex(path.file_stem()?.to_str()?)
}

impl Pack {
    pub(super) fn open(path: PathBuf, hold: bool) -> Result<Pack> {
        Pack::try_open(&path, hold)?.map_err(|error| {
            Error::integrity(format!("the store is damaged: {}", path.display()))
                .caused_by(error)
                .hint(way_out(&path))
        })
    }

    /// The inner error says what is wrong with it; the outer one, that it cannot be opened at all.
    fn try_open(path: &Path, hold: bool) -> Result<io::Result<Pack>> {
        let file = File::open(path).at("open", path)?;
        let index = read_index(&file);
        Ok(index.map(|index| Pack { path: path.to_owned(), index, file: hold.then_some(file) }))
    }

    fn read_frame(&self, frame: Frame) -> io::Result<Vec<u8>> {
        let mut packed = vec![0; frame.packed as usize];
        match &self.file {
            Some(file) => file.read_exact_at(&mut packed, frame.offset)?,
            None => File::open(&self.path)?.read_exact_at(&mut packed, frame.offset)?,
        }
        if crc32fast::hash(&packed) != frame.checksum {
            return Err(invalid("a frame fails its checksum"));
        }
        let raw = zstd::bulk::decompress(&packed, frame.raw as usize)?;
        if raw.len() != frame.raw as usize {
            return Err(invalid("a frame is shorter than its index says"));
        }
        Ok(raw)
    }
}

fn read_index(file: &File) -> io::Result<PackIndex> {
    let length = file.metadata()?.len();
    let mut header = [0; 8];
    file.read_exact_at(&mut header, 0)?;
    if &header != pack::HEADER {
        return Err(invalid("not a pack, or one of another version"));
    }
    let mut footer = [0; FOOTER_LEN as usize];
    let footer_at = length.checked_sub(FOOTER_LEN).ok_or_else(|| invalid("too short"))?;
    file.read_exact_at(&mut footer, footer_at)?;
    let (index_at, checksum) = pack::parse_footer(&footer).ok_or_else(|| invalid("no footer"))?;
    let size = footer_at.checked_sub(index_at).ok_or_else(|| invalid("its index is out of place"))?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| invalid("its index is too large"))?];
    file.read_exact_at(&mut bytes, index_at)?;
    if crc32fast::hash(&bytes) != checksum {
        return Err(invalid("its index fails its checksum"));
    }
    PackIndex::decode(bytes).ok_or_else(|| invalid("its index makes no sense"))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
