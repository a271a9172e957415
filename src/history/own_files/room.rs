//! How decree's own files are held, and how much more can be.

use std::path::PathBuf;

use super::area::is_out_of_reach;
use super::held::{HeldFile, Hold, Protection};
use crate::error::{IoContext, Result};
use crate::fs::spool::Spool;
use crate::fs::{descriptors, untrusted};
use crate::project::Layout;

/// Larger files are held open.
pub(super) const MAX_IN_MEMORY: u64 = 256 * 1024;
/// All that is held in memory together.
const MAX_BYTES: u64 = 32 << 20;
/// How many bytes of messages are copied; further ones are held open. Messages are small texts, except for what a routine made of them.
const MAX_COPIED: u64 = 256 << 20;
/// These files may take one in this many of those that decree may have open.
const OPEN_PARTS: usize = 4;

/// How many files of one earlier run may be held open, and its directory.
const MAX_OPEN_OF_RUN: usize = 8;
/// A spool of which this much is not needed any more is not added to.
const MAX_WASTED: u64 = 256 << 20;

/// How much more can be held, and where.
pub(super) struct HoldingRoom {
    /// How many more may be held open.
    open_left: usize,
    bytes: u64,
    max_bytes: u64,
    copied: u64,
    spool: Spool,
    wasted: u64,
}

impl HoldingRoom {
    /// Room for the files that only one program is protected from: a quarter.
    pub fn for_one(layout: &Layout) -> HoldingRoom {
        HoldingRoom::of_parts(layout, 1)
    }

    /// Room for the files that stay from one program to the next.
    pub fn for_lasting(layout: &Layout) -> HoldingRoom {
        HoldingRoom::of_parts(layout, 3)
    }

    fn of_parts(layout: &Layout, parts: usize) -> HoldingRoom {
        HoldingRoom {
            open_left: descriptors::raise_limit() / OPEN_PARTS / 4 * parts,
            bytes: 0,
            max_bytes: MAX_BYTES / 4 * parts as u64,
            copied: 0,
            spool: Spool::new(layout.scratch()),
            wasted: 0,
        }
    }

    /// Room of this size.
    #[cfg(test)]
    pub fn of_size(layout: &Layout, open_left: usize, max_bytes: u64) -> HoldingRoom {
        HoldingRoom { open_left, max_bytes, ..HoldingRoom::of_parts(layout, 1) }
    }

    /// Whether the records of one more earlier run can be held without being copied.
    pub fn has_room_for_run(&self) -> bool {
        self.open_left > MAX_OPEN_OF_RUN || self.bytes < self.max_bytes / 2
    }

    /// Whether so much was held and released that it is better to begin anew.
    pub fn is_worn(&self) -> bool {
        self.wasted > MAX_WASTED
    }

    /// Holds a file; `None` if there is none that can be read. If `is_copied`, it is rather copied than held open: an open file that is
    /// overwritten in place has no other copy.
    pub fn hold(
        &mut self,
        path: PathBuf,
        protection: Protection,
        is_copied: bool,
    ) -> Result<Option<HeldFile>> {
        let (file, metadata) = match untrusted::open_with_metadata(&path) {
            Err(error) if is_out_of_reach(&error) => return Ok(None),
            result => result.at("read", &path)?,
        };
        let length = metadata.len();
        let is_copied = is_copied && length <= MAX_COPIED.saturating_sub(self.copied);
        let hold = if length <= MAX_IN_MEMORY && self.bytes + length <= self.max_bytes {
            self.bytes += length;
            Hold::InMemory
        } else if is_copied {
            self.copied += length;
            Hold::Spool(&mut self.spool)
        } else if self.open_left > 0 {
            self.open_left -= 1;
            Hold::Open
        } else {
            Hold::Spool(&mut self.spool)
        };
        let held = HeldFile::new(path, (file, metadata), hold, protection).map_err(|error| {
            error
                .detail("one of decree's own files cannot be held, so it could not be restored if it were deleted")
                .detail("nothing was started")
        })?;
        Ok(Some(held))
    }

    /// Counts a file that is not held any more.
    pub fn release(&mut self, held: HeldFile) {
        let (bytes, spooled, open) = held.room();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.copied = self.copied.saturating_sub(spooled);
        self.wasted += spooled;
        self.open_left += open;
    }
}
