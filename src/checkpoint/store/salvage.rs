//! Damaged packs: what is intact in them is stored again, and they move out of the store.
//!
//! The new pack is durable before a damaged one moves, so a kill loses nothing. Damaged packs are kept: a person may know more.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::ContentReader;
use super::directory::Store;
use super::pack::{Blob, Packs};
use super::write::FRAME;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::interrupt;

/// Where damaged packs are kept, in the store.
const DAMAGED: &str = "damaged";

/// A pack that is not, or not only, what was written.
#[derive(Debug)]
pub struct DamagedPack {
    pub path: PathBuf,
    pub why: String,
    /// The contents that can be read, here or in another pack; empty if the index cannot be read.
    pub intact: usize,
    /// The contents that can be read nowhere; `None` if the index cannot be read.
    pub lost: Option<usize>,
    /// Where it is now; `None` if it was only looked at.
    pub moved_to: Option<PathBuf>,
}

impl Store {
    /// Reads every pack to its end, and returns those that are damaged. With `moves`, stores what is intact in them again, and moves them
    /// out of the way. The caller holds the project's lock.
    pub fn check_packs(&self, moves: bool) -> Result<Vec<DamagedPack>> {
        let packs = self.packs()?;
        let mut found: Vec<DamagedPack> =
            packs.damaged.iter().map(|(path, why)| DamagedPack::new(path, why.clone(), 0, None)).collect();
        let mut broken = Vec::new();
        for (number, pack) in packs.iter().enumerate() {
            interrupt::check()?;
            let failure = pack.index.frames().iter().find_map(|frame| pack.read_packed(*frame).err());
            if let Some(why) = failure {
                broken.push((number, why.to_string()));
            }
        }
        let damaged_paths: Vec<PathBuf> =
            broken.iter().map(|(number, _)| packs[*number].path.clone()).collect();
        let writer = self.pack_writer();
        let mut frames = writer.frame_writer()?;
        for (number, why) in broken {
            let (mut intact, mut lost) = (0, 0);
            for blob in packs[number].index.blobs() {
                interrupt::check()?;
                if self.find(&blob.hash, &damaged_paths)?.is_some() {
                    intact += 1;
                } else if !self.is_readable(&packs, number, blob) {
                    lost += 1;
                } else {
                    intact += 1;
                    let Some(claim) = writer.claim_copy(&blob.hash).filter(|_| moves) else { continue };
                    let mut reader = self.located(&packs, number, blob);
                    if blob.size > FRAME as u64 {
                        frames.add_stream(claim, &mut reader)?;
                    } else {
                        let mut content = Vec::new();
                        reader.read_to_end(&mut content).at("read", &self.dir)?;
                        frames.add(claim, &content)?;
                    }
                }
            }
            found.push(DamagedPack::new(&packs[number].path, why, intact, Some(lost)));
        }
        if moves {
            frames.flush()?;
            drop(frames);
            writer.finish()?;
            found.iter_mut().try_for_each(|pack| self.move_away(pack))?;
        }
        Ok(found)
    }

    fn located(&self, packs: &Arc<Packs>, number: usize, blob: Blob) -> ContentReader<'_> {
        ContentReader::new(self, (Arc::clone(packs), number, blob))
    }

    fn is_readable(&self, packs: &Arc<Packs>, number: usize, blob: Blob) -> bool {
        io::copy(&mut self.located(packs, number, blob), &mut io::sink()).is_ok()
    }

    fn move_away(&self, pack: &mut DamagedPack) -> Result<()> {
        let dir = self.dir.join(DAMAGED);
        fs::create_dir_all(&dir).at("create", &dir)?;
        let name = pack.path.file_name().expect("a pack has a name");
        pack.moved_to = move_to_free_name(&pack.path, |number| numbered(&dir.join(name), ".", number))?;
        self.discard_packs();
        atomic::sync_dir(&dir)?;
        atomic::sync_dir(&self.dir)
    }
}

impl DamagedPack {
    fn new(path: &Path, why: String, intact: usize, lost: Option<usize>) -> DamagedPack {
        DamagedPack { path: path.to_owned(), why, intact, lost, moved_to: None }
    }
}
