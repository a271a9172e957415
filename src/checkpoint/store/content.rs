//! Reading a content as a stream; it is checked against its hash.
//!
//! If another process compacts the store while a content is read, the reader goes on in the pack that replaced its own.

use std::io::{self, Read};
use std::sync::Arc;

use super::directory::{BlobLocation, MAX_ATTEMPTS, Store};
use super::pack::{Blob, Packs, damaged_pack_hint};
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::error::{Error, IoContext, Result};

impl Store {
    /// Reads a content as a stream, whose end is an error if the hash does not match.
    pub fn reader(&self, hash: &ContentHash) -> Result<ContentReader<'_>> {
        let location = self.find(hash)?.ok_or_else(|| self.missing_content_error(hash))?;
        Ok(ContentReader::new(self, location))
    }

    /// Reads a content as a whole; for contents known to be small.
    pub fn read(&self, hash: &ContentHash) -> Result<Vec<u8>> {
        let mut reader = self.reader(hash)?;
        let mut out = Vec::with_capacity(usize::try_from(reader.left).unwrap_or(0));
        reader.read_to_end(&mut out).at("read", &self.dir)?;
        Ok(out)
    }
}

/// A content that is being read from the store.
pub struct ContentReader<'s> {
    store: &'s Store,
    packs: Arc<Packs>,
    pack: usize,
    blob: Blob,
    frame: u32,
    at: usize,
    left: u64,
    current: Option<Arc<Vec<u8>>>,
    hasher: Option<Hasher>,
}

impl<'s> ContentReader<'s> {
    pub(super) fn new(store: &'s Store, (packs, pack, blob): BlobLocation) -> Self {
        ContentReader {
            store,
            packs,
            pack,
            blob,
            frame: blob.frame,
            at: blob.offset as usize,
            left: blob.size,
            current: None,
            hasher: Some(Hasher::new()),
        }
    }

    /// An integrity error, inside an `io::Error` for callers that use [`Read`].
    fn damaged(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
        let pack = &self.packs[self.pack].path;
        let error = Error::integrity(format!("the store is damaged: content {}", self.blob.hash))
            .detail(format!("pack: {}", pack.display()))
            .caused_by(why)
            .hint(damaged_pack_hint(pack));
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    fn refill(&mut self) -> io::Result<&[u8]> {
        let exhausted = self.current.as_ref().is_none_or(|raw| self.at >= raw.len());
        if exhausted {
            if self.current.is_some() {
                self.frame += 1;
                self.at = 0;
            }
            self.current = Some(self.next_frame()?);
        }
        let raw = self.current.as_ref().expect("it was read above");
        let rest = raw
            .get(self.at..)
            .filter(|rest| !rest.is_empty())
            .ok_or_else(|| self.damaged("it begins past the end of its frame"))?;
        Ok(&rest[..rest.len().min(usize::try_from(self.left).unwrap_or(usize::MAX))])
    }

    /// Reads the current frame. If its pack is gone, its contents are in another: compaction loses nothing.
    fn next_frame(&mut self) -> io::Result<Arc<Vec<u8>>> {
        let mut attempts = 1;
        loop {
            let pack = &self.packs[self.pack];
            let frame =
                pack.index.frame(self.frame).ok_or_else(|| self.damaged("it runs past the last frame"))?;
            match self.store.read_frame(pack, frame) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < MAX_ATTEMPTS => {
                    attempts += 1;
                    if !self.relocate().map_err(io::Error::other)? {
                        return Err(self.damaged(error));
                    }
                }
                result => return result.map_err(|error| self.damaged(error)),
            }
        }
    }

    /// Continues at the same offset of the same content in the pack that has it now; false if no pack was replaced.
    fn relocate(&mut self) -> Result<bool> {
        if !self.store.discard_outdated(&self.packs)? {
            return Ok(false);
        }
        let hash = self.blob.hash;
        let (packs, pack, blob) =
            self.store.find(&hash)?.ok_or_else(|| self.store.missing_content_error(&hash))?;
        // The frames of that pack may have other boundaries.
        let mut at = u64::from(blob.offset) + (self.blob.size - self.left);
        let mut frame = blob.frame;
        while let Some(raw) = packs[pack].index.frame(frame).map(|frame| u64::from(frame.raw))
            && at >= raw
            && raw > 0
        {
            at -= raw;
            frame += 1;
        }
        self.at = usize::try_from(at).unwrap_or(usize::MAX);
        (self.packs, self.pack, self.blob, self.frame) = (packs, pack, blob, frame);
        Ok(true)
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            if let Some(hasher) = self.hasher.take()
                && hasher.finish().0 != self.blob.hash
            {
                return Err(self.damaged("the stored bytes do not match the hash"));
            }
            return Ok(0);
        }
        let piece = self.refill()?;
        let n = piece.len().min(out.len());
        out[..n].copy_from_slice(&piece[..n]);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&out[..n]);
        }
        self.at += n;
        self.left -= n as u64;
        Ok(n)
    }
}
