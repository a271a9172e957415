//! A content as a stream out of its pack, or out of the pack that took its place.

use std::io::{self, Read};
use std::sync::Arc;

use super::pack::Blob;
use super::read::{Packs, Store, TRIES, way_out};
use crate::checkpoint::hash::Hasher;
use crate::error::{Error, Result};

/// A content on its way out of the store.
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
    /// From the start of a content in one of these packs.
    pub(super) fn new(store: &'s Store, packs: Arc<Packs>, pack: usize, blob: Blob) -> Self {
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

    /// How much of it is yet to come.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Carries an integrity error of our own through code that knows only `io::Error`.
    fn damaged(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
        let pack = &self.packs[self.pack].path;
        let error = Error::integrity(format!("the store is damaged: content {}", self.blob.hash))
            .detail(format!("pack: {}", pack.display()))
            .caused_by(why)
            .hint(way_out(pack));
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
            .ok_or_else(|| self.damaged("it begins past its frame"))?;
        Ok(&rest[..rest.len().min(usize::try_from(self.left).unwrap_or(usize::MAX))])
    }

    /// The frame to be read now. If its pack is gone, what it held is in another since: nothing is lost by tidying up.
    fn next_frame(&mut self) -> io::Result<Arc<Vec<u8>>> {
        let mut tries = 1;
        loop {
            let pack = &self.packs[self.pack];
            let frame =
                pack.index.frame(self.frame).ok_or_else(|| self.damaged("it runs past the last frame"))?;
            match self.store.frame(pack, frame) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    tries += 1;
                    if !self.find_again().map_err(io::Error::other)? {
                        return Err(self.damaged(error));
                    }
                }
                result => return result.map_err(|error| self.damaged(error)),
            }
        }
    }

    /// Goes on at the same place of the same content, wherever that is now. Says whether there is another place at all.
    fn find_again(&mut self) -> Result<bool> {
        if !self.store.forget_outdated(&self.packs)? {
            return Ok(false);
        }
        let hash = self.blob.hash;
        let (packs, pack, blob) = self.store.find(&hash)?.ok_or_else(|| self.store.lacks(&hash))?;
        // The frames may be cut otherwise there.
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
                return Err(self.damaged("what is stored does not have its hash"));
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
