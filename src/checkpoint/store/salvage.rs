//! Damaged packs: what is intact in them is stored again, and they move out of the store.
//!
//! The new pack is durable before a damaged one is gone from its place, so a kill loses nothing. If every content is intact, the new pack
//! has the name of the damaged one, which therefore has a second name before that. Damaged packs are kept: a person may know more.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::ContentReader;
use super::directory::Store;
use super::frame_scan::{FrameScan, NamedContents};
use super::pack::{Blob, Packs};
use super::write::{FRAME, FrameWriter};
use crate::checkpoint::hash::ContentHash;
use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, AtomicFile};
use crate::fs::quarantine::{numbered, take_free_name};
use crate::interrupt;

/// Where damaged packs are kept, in the store.
const DAMAGED: &str = "damaged";

/// A pack that is not, or not only, what was written.
#[derive(Debug)]
pub struct DamagedPack {
    pub path: PathBuf,
    pub why: String,
    /// The contents that can be read, here or in another pack.
    pub intact: usize,
    /// The contents that can be read nowhere; `None` if the index cannot be read.
    pub lost: Option<usize>,
    /// Where it is now; `None` if it was only looked at.
    pub moved_to: Option<PathBuf>,
}

/// What became of damaged packs.
#[derive(Debug, Default)]
pub struct PackCheck {
    pub damaged: Vec<DamagedPack>,
    /// What manifests name; read only if a pack is damaged.
    pub named: NamedContents,
    /// How many of these contents no pack has. The tree may have them.
    pub missing: usize,
}

impl Store {
    /// Reads every pack to its end, and returns those that are damaged. With `moves`, stores what is intact in them again, and moves them
    /// out of the way. `named` lists what manifests name. The caller holds the project's lock.
    pub fn check_packs(&self, moves: bool, named: impl FnOnce() -> NamedContents) -> Result<PackCheck> {
        let packs = self.packs()?;
        let mut broken = Vec::new();
        for (number, pack) in packs.iter().enumerate() {
            interrupt::check()?;
            let failure = pack.index.frames().iter().find_map(|frame| pack.read_packed(*frame).err());
            if let Some(why) = failure {
                broken.push((number, why.to_string()));
            }
        }
        if broken.is_empty() && packs.damaged.is_empty() {
            return Ok(PackCheck::default());
        }
        let tried = broken.iter().map(|(number, _)| packs[*number].path.clone()).collect();
        let (named, writer) = (named(), self.pack_writer());
        let frames = writer.frame_writer()?;
        let mut salvage = Salvage { store: self, frames, tried, moves, intact: HashSet::new() };
        let mut damaged = Vec::new();
        for (path, why) in &packs.damaged {
            damaged.push(salvage.scan(path, why, &named)?);
        }
        for (number, why) in broken {
            damaged.push(salvage.copy_intact(&packs, number, why)?);
        }
        let mut missing = 0;
        for hash in named.iter() {
            missing += usize::from(!salvage.has(hash)?);
        }
        if moves {
            salvage.frames.flush()?;
            drop(salvage);
            damaged.iter_mut().try_for_each(|pack| self.keep_damaged(pack))?;
            let new = writer.finish()?;
            let replaced = damaged.iter().map(|pack| &pack.path).filter(|path| new.as_ref() != Some(path));
            replaced
                .into_iter()
                .try_for_each(|path| fs::remove_file(path).if_exists().at("remove", path).map(drop))?;
            atomic::sync_dir(&self.dir)?;
            self.discard_packs();
        }
        Ok(PackCheck { damaged, named, missing })
    }

    fn located(&self, packs: &Arc<Packs>, number: usize, blob: Blob) -> ContentReader<'_> {
        ContentReader::new(self, (Arc::clone(packs), number, blob))
    }

    fn is_readable(&self, packs: &Arc<Packs>, number: usize, blob: Blob) -> bool {
        io::copy(&mut self.located(packs, number, blob), &mut io::sink()).is_ok()
    }

    /// Gives a damaged pack a second name outside of the store.
    fn keep_damaged(&self, pack: &mut DamagedPack) -> Result<()> {
        let dir = self.dir.join(DAMAGED);
        fs::create_dir_all(&dir).at("create", &dir)?;
        let name = pack.path.file_name().expect("a pack has a name");
        let kept = take_free_name(
            |number| numbered(&dir.join(name), ".", number),
            |to| match fs::hard_link(&pack.path, to) {
                // Not every file system has hard links.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => copy_new(&pack.path, to),
                linked => linked.unless_exists().at("copy", &pack.path),
            },
        )?;
        pack.moved_to = Some(kept);
        atomic::sync_dir(&dir)
    }
}

/// Copies a file unless something has the new name; returns whether it did.
fn copy_new(from: &Path, to: &Path) -> Result<bool> {
    if to.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let mut copy = AtomicFile::create(to)?;
    let mut file = File::open(from).at("read", from)?;
    io::copy(&mut file, &mut copy).at("copy", from)?;
    copy.commit_new()
}

/// Copies what is intact in damaged packs.
struct Salvage<'s, 'w> {
    store: &'s Store,
    frames: FrameWriter<'w, 's>,
    /// The packs that have frames that cannot be read.
    tried: Vec<PathBuf>,
    moves: bool,
    /// What was found in damaged packs.
    intact: HashSet<ContentHash>,
}

impl Salvage<'_, '_> {
    /// Whether a content can be read somewhere.
    fn has(&self, hash: &ContentHash) -> Result<bool> {
        Ok(self.intact.contains(hash) || self.store.find(hash, &self.tried)?.is_some())
    }

    /// A pack without an index: its frames are searched for what manifests name.
    fn scan(&mut self, path: &Path, why: &str, named: &NamedContents) -> Result<DamagedPack> {
        let file = File::open(path).at("read", path)?;
        // One that cannot be searched has nothing to give.
        let Ok(scan) = FrameScan::of(&file) else {
            return Ok(DamagedPack::new(path, why.to_owned(), 0, None));
        };
        let mut intact = HashSet::new();
        for content in scan.find(named) {
            interrupt::check()?;
            let is_elsewhere = self.has(&content.hash)?;
            if intact.insert(content.hash) && !is_elsewhere {
                self.keep(&content.hash, content.size, &mut scan.reader(&content))?;
            }
        }
        let count = intact.len();
        self.intact.extend(intact);
        Ok(DamagedPack::new(path, why.to_owned(), count, None))
    }

    /// A pack in which some frames cannot be read.
    fn copy_intact(&mut self, packs: &Arc<Packs>, number: usize, why: String) -> Result<DamagedPack> {
        let (mut intact, mut lost) = (0, 0);
        for blob in packs[number].index.blobs() {
            interrupt::check()?;
            if self.has(&blob.hash)? {
                intact += 1;
            } else if !self.store.is_readable(packs, number, blob) {
                lost += 1;
            } else {
                intact += 1;
                self.intact.insert(blob.hash);
                let mut reader = self.store.located(packs, number, blob);
                self.keep(&blob.hash, blob.size, &mut reader)?;
            }
        }
        Ok(DamagedPack::new(&packs[number].path, why, intact, Some(lost)))
    }

    /// Stores a content again.
    fn keep(&mut self, hash: &ContentHash, size: u64, reader: &mut impl Read) -> Result<()> {
        let Some(claim) = self.frames.writer.claim_copy(hash).filter(|_| self.moves) else { return Ok(()) };
        if size > FRAME as u64 {
            self.frames.add_stream(claim, reader)?;
            return Ok(());
        }
        let mut content = Vec::new();
        reader.read_to_end(&mut content).at("read", &self.store.dir)?;
        self.frames.add(claim, &content)
    }
}

impl DamagedPack {
    fn new(path: &Path, why: String, intact: usize, lost: Option<usize>) -> DamagedPack {
        DamagedPack { path: path.to_owned(), why, intact, lost, moved_to: None }
    }
}
