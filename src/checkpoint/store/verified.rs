//! Which packs were read back and found intact, so that content is not read again for every checkpoint.
//!
//! A pack never changes once it has its name. So a pack that was intact once is intact for as long as the kernel says that its file was
//! neither written to nor replaced: same size, inode and time of last change. Such packs are listed in the file `verified`. Any other pack
//! is read back: its name is the hash of its index, and the index has a checksum of every frame, made when the frame was written.
//! Decompressing and hashing every content is left to `checkpoint verify`.
//!
//! A write within one tick of the kernel's clock keeps the time of the last change. So a pack counts only if it is older than the list,
//! as a file does in git's index. The list may be lost at any time: then packs are read back again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::content::ContentReader;
use super::directory::Store;
use super::pack::{Frame, Pack, Packs, pack_id};
use crate::error::{IoContext, Result};
use crate::fs::{FileStamp, atomic, untrusted};
use crate::interrupt;

/// The list's name in the store.
const FILE: &str = "verified";
const VERSION: u32 = 1;
/// How many frames a thread reads before it looks for a signal: about 8 MB of compressed bytes.
const FRAMES_AT_ONCE: usize = 64;

/// How it is known that the packs are intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackVerification {
    /// All of them were read back just now.
    ReadBack,
    /// Some were read back earlier, and have not changed since.
    Recorded,
}

/// The list of verified packs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct VerifiedPacks {
    version: u32,
    /// The stamp of each pack's file, by the name of the pack.
    packs: BTreeMap<String, FileStamp>,
}

impl VerifiedPacks {
    /// The packs that are older than the list; none if there is no list.
    fn load(path: &Path) -> VerifiedPacks {
        let read = || -> Option<VerifiedPacks> {
            let listed_at = FileStamp::of(&path.symlink_metadata().ok()?).changed();
            let mut list: VerifiedPacks = serde_json::from_slice(&untrusted::read(path).ok()?).ok()?;
            list.packs.retain(|_, stamp| stamp.changed() < listed_at);
            (list.version == VERSION).then_some(list)
        };
        read().unwrap_or_default()
    }
}

impl Store {
    /// Reads back every pack that is not known to be intact. From then on contents that are damaged count as missing.
    pub fn verify_packs(&self) -> Result<PackVerification> {
        let path = self.dir.join(FILE);
        let (known, packs) = (VerifiedPacks::load(&path), self.packs()?);
        let mut list = VerifiedPacks { version: VERSION, ..VerifiedPacks::default() };
        let mut verification = PackVerification::ReadBack;
        for (number, pack) in packs.iter().enumerate() {
            let name = file_name(&pack.path);
            // Before it is read: what is written meanwhile makes the stamp outdated.
            let Some(found) = fs::metadata(&pack.path).if_exists().at("read", &pack.path)? else { continue };
            let stamp = FileStamp::of(&found);
            if known.packs.get(&name) == Some(&stamp) {
                verification = PackVerification::Recorded;
            } else if !self.is_intact(pack)? {
                self.distrust_damaged(&packs, number)?;
                continue;
            }
            list.packs.insert(name, stamp);
        }
        if list.packs != known.packs {
            let text = serde_json::to_vec(&list).expect("plain data serializes");
            // Only saves time later: on a full disk the packs are read back again.
            let _ = atomic::write(&path, &text);
        }
        Ok(verification)
    }

    /// Reads a pack back, and compares it with its name and its checksums.
    pub(super) fn is_intact(&self, pack: &Pack) -> Result<bool> {
        if pack_id(&pack.path) != Some(pack.index.hash()) || !pack.index.is_well_formed() {
            return Ok(false);
        }
        let is_read = |frames: &[Frame]| -> Result<bool> {
            interrupt::check()?;
            Ok(frames.iter().all(|frame| pack.read_packed(*frame).is_ok()))
        };
        let parts: Result<Vec<bool>> = pack.index.frames().par_chunks(FRAMES_AT_ONCE).map(is_read).collect();
        Ok(parts?.into_iter().all(|is_read| is_read))
    }

    /// Reads every content of a damaged pack: those that no other pack has are damaged from then on.
    fn distrust_damaged(&self, packs: &Arc<Packs>, number: usize) -> Result<()> {
        for blob in packs[number].index.blobs() {
            interrupt::check()?;
            let mut reader = ContentReader::new(self, (Arc::clone(packs), number, blob));
            // The reader itself remembers which contents are damaged.
            let _ = io::copy(&mut reader, &mut io::sink());
        }
        Ok(())
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
