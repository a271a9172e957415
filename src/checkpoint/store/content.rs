//! Reading a content as a stream; it is checked against its hash.
//!
//! If another process compacts the store while a content is read, the reader goes on in the pack that replaced its own.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::{BlobLocation, MAX_ATTEMPTS, Store};
use super::pack::{Blob, Packs, damaged_pack_hint};
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::error::{Error, IoContext, Result};

impl Store {
    /// Reads a content as a stream, whose end is an error if the hash does not match.
    pub fn reader(&self, hash: &ContentHash) -> Result<ContentReader<'_>> {
        let location = self.find(hash, &[])?.ok_or_else(|| self.missing_content_error(hash))?;
        Ok(ContentReader::new(self, location))
    }

    /// Why a content cannot be read; `None` if it can. Reads all of it.
    pub fn why_unreadable(&self, hash: &ContentHash) -> Option<String> {
        let mut reader = match self.find(hash, &[]) {
            Ok(Some(location)) => ContentReader::new(self, location),
            Ok(None) => return Some(self.why_missing()),
            Err(error) => return Some(error.to_string()),
        };
        io::copy(&mut reader, &mut io::sink()).err()?;
        Some(format!("its content is damaged in {}", reader.packs[reader.pack].path.display()))
    }

    fn why_missing(&self) -> String {
        let unread = self.damaged_packs().unwrap_or_default();
        match unread.first() {
            Some(pack) => format!("its content may be in the damaged pack {}", pack.display()),
            None => "its content is in no pack".to_owned(),
        }
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
    /// Packs in which the content is damaged.
    damaged_in: Vec<PathBuf>,
    only_this_copy: bool,
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
            damaged_in: Vec::new(),
            only_this_copy: false,
        }
    }

    /// Fails if this copy is damaged, even if another pack has an intact one: the caller is about to drop that.
    pub(super) fn only_this_copy(self) -> Self {
        ContentReader { only_this_copy: true, ..self }
    }

    /// An integrity error, inside an `io::Error` for callers that use [`Read`].
    fn damaged(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
        self.store.distrust(self.blob.hash);
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

    /// Reads the current frame. If its pack is gone, its contents are in another: compaction loses nothing. If it is damaged, another
    /// pack may have the content, too.
    fn next_frame(&mut self) -> io::Result<Arc<Vec<u8>>> {
        let mut attempts = 1;
        loop {
            let pack = &self.packs[self.pack];
            let read = match pack.index.frame(self.frame) {
                Some(frame) => self.store.read_frame(pack, frame),
                None => Err(io::Error::new(io::ErrorKind::InvalidData, "it runs past the last frame")),
            };
            let error = match read {
                Ok(raw) => return Ok(raw),
                Err(error) => error,
            };
            let is_gone = error.kind() == io::ErrorKind::NotFound && attempts < MAX_ATTEMPTS;
            attempts += 1;
            if self.only_this_copy && !is_gone {
                return Err(self.damaged(error));
            }
            if !is_gone || !self.store.discard_outdated(&self.packs).map_err(io::Error::other)? {
                self.damaged_in.push(pack.path.clone());
            }
            if !self.relocate(is_gone).map_err(io::Error::other)? {
                return Err(self.damaged(error));
            }
        }
    }

    /// Continues at the same offset of the same content in another pack; false if there is none.
    fn relocate(&mut self, is_gone: bool) -> Result<bool> {
        let hash = self.blob.hash;
        let Some((packs, pack, blob)) = self.store.find(&hash, &self.damaged_in)? else {
            return if is_gone { Err(self.store.missing_content_error(&hash)) } else { Ok(false) };
        };
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
