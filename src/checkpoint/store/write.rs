//! Filling the store: many threads, one new pack.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use zstd::bulk::Compressor;

use super::pack::{self, Blob, Frame, Index};
use super::read::Store;
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, fill};

/// Level 1 compresses source code about as well as zlib does, many times faster (`docs/performance.md`).
const LEVEL: i32 = 1;
/// Small contents are gathered into frames of about this size, and large ones cut into them.
pub(super) const FRAME: usize = 512 * 1024;

/// New content on its way into the store. Nothing of it is visible until [`Deposit::finish`].
pub struct Deposit<'s> {
    store: &'s Store,
    claimed: Mutex<HashSet<ContentHash>>,
    pack: Mutex<Unfinished>,
}

#[derive(Default)]
struct Unfinished {
    file: Option<(File, PathBuf)>,
    length: u64,
    frames: Vec<Frame>,
    blobs: Vec<Blob>,
}

impl<'s> Deposit<'s> {
    pub(super) fn new(store: &'s Store) -> Self {
        Deposit { store, claimed: Mutex::default(), pack: Mutex::default() }
    }

    /// Whether the caller has to add this content: true once for each hash that the store lacks.
    pub fn claim(&self, hash: &ContentHash) -> Result<bool> {
        if self.store.contains(hash)? {
            return Ok(false);
        }
        Ok(self.claimed.lock().expect("no thread panics while it claims").insert(*hash))
    }

    /// Takes a claim back: the content turned out to be another.
    pub fn unclaim(&self, hash: &ContentHash) {
        self.claimed.lock().expect("no thread panics while it claims").remove(hash);
    }

    /// A thread's own place to gather contents in.
    pub fn filler(&self) -> Result<Filler<'_, 's>> {
        let compressor = FrameCompressor::new().at("set up compression for", &self.store.dir)?;
        Ok(Filler { deposit: self, compressor, raw: Vec::with_capacity(FRAME), blobs: Vec::new() })
    }

    /// Makes everything added durable and visible. Nothing added: nothing written.
    pub fn finish(mut self) -> Result<()> {
        let pack = self.pack.get_mut().expect("no thread panics while it writes");
        let Some((file, temporary)) = &mut pack.file else {
            return Ok(());
        };
        let index = Index::encode(&pack.frames, &mut pack.blobs);
        file.write_all(&index)
            .and_then(|()| file.write_all(&pack::footer(pack.length, &index)))
            .and_then(|()| file.sync_data())
            .at("write", &*temporary)?;
        let target = self.store.dir.join(format!("{}.pack", ContentHash::of(&index)));
        fs::rename(&*temporary, &target).at("write", &target)?;
        pack.file = None;
        atomic::sync_dir(&self.store.dir)?;
        self.store.reload();
        Ok(())
    }

    /// Compresses and appends one frame.
    fn append(&self, compressor: &mut FrameCompressor, raw: &[u8]) -> Result<Frame> {
        let packed = compressor.compress(raw).at("compress into", &self.store.dir)?;
        let mut pack = self.pack.lock().expect("no thread panics while it writes");
        let pack = &mut *pack;
        if pack.file.is_none() {
            let (mut file, path) = self.store.new_temporary()?;
            file.write_all(pack::HEADER).at("write", &path)?;
            pack.length = pack::HEADER.len() as u64;
            pack.file = Some((file, path));
        }
        let (file, path) = pack.file.as_mut().expect("it was made above");
        file.write_all(packed).at("write", &*path)?;
        let frame = Frame {
            offset: pack.length,
            packed: u32::try_from(packed.len()).expect("a frame is far below 4 GiB"),
            raw: u32::try_from(raw.len()).expect("a frame is far below 4 GiB"),
            checksum: crc32fast::hash(packed),
        };
        pack.length += packed.len() as u64;
        Ok(frame)
    }

    /// Enters frames that follow each other, and the contents in them, into the index.
    fn enter(&self, frames: Vec<Frame>, blobs: impl IntoIterator<Item = Blob>) {
        let mut pack = self.pack.lock().expect("no thread panics while it writes");
        let first = u32::try_from(pack.frames.len()).expect("fewer than 2^32 frames");
        pack.frames.extend(frames);
        pack.blobs.extend(blobs.into_iter().map(|blob| Blob { frame: blob.frame + first, ..blob }));
    }
}

impl Drop for Deposit<'_> {
    fn drop(&mut self) {
        if let Ok(pack) = self.pack.get_mut()
            && let Some((_, path)) = &pack.file
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Compresses into one buffer, again and again.
struct FrameCompressor {
    inner: Compressor<'static>,
    packed: Vec<u8>,
}

impl FrameCompressor {
    fn new() -> io::Result<Self> {
        let packed = Vec::with_capacity(zstd::zstd_safe::compress_bound(FRAME));
        Ok(FrameCompressor { inner: Compressor::new(LEVEL)?, packed })
    }

    fn compress(&mut self, raw: &[u8]) -> io::Result<&[u8]> {
        self.packed.clear();
        self.inner.compress_to_buffer(raw, &mut self.packed)?;
        Ok(&self.packed)
    }
}

/// One thread's unfinished frame.
pub struct Filler<'d, 's> {
    deposit: &'d Deposit<'s>,
    compressor: FrameCompressor,
    raw: Vec<u8>,
    blobs: Vec<Blob>,
}

impl Filler<'_, '_> {
    /// Adds a content that is in memory. The caller has claimed it.
    pub fn add(&mut self, hash: ContentHash, content: &[u8]) -> Result<()> {
        if content.len() > FRAME {
            let mut rest = content;
            return self.add_stream(hash, &mut rest).map(drop);
        }
        if self.raw.len() + content.len() > FRAME {
            self.flush()?;
        }
        self.blobs.push(Blob {
            hash,
            frame: 0,
            offset: u32::try_from(self.raw.len()).expect("a frame is far below 4 GiB"),
            size: content.len() as u64,
        });
        self.raw.extend_from_slice(content);
        Ok(())
    }

    /// Adds a content of any size, piece by piece; the caller has claimed `hash`. Returns the hash of
    /// what was really read: if it is another one, the content is not entered.
    pub fn add_stream(&mut self, hash: ContentHash, reader: &mut impl Read) -> Result<ContentHash> {
        let mut frames = Vec::new();
        let mut hasher = Hasher::new();
        let mut piece = vec![0; FRAME];
        loop {
            let filled = fill(reader, &mut piece).at("store a file in", &self.deposit.store.dir)?;
            if filled == 0 {
                break;
            }
            hasher.update(&piece[..filled]);
            frames.push(self.deposit.append(&mut self.compressor, &piece[..filled])?);
        }
        let (found, size) = hasher.finish();
        if found == hash {
            let blob = Blob { hash, frame: 0, offset: 0, size };
            self.deposit.enter(frames, [blob]);
        }
        Ok(found)
    }

    /// Writes the frame gathered so far. Has to be called before [`Deposit::finish`].
    pub fn flush(&mut self) -> Result<()> {
        if self.blobs.is_empty() {
            return Ok(());
        }
        let frame = self.deposit.append(&mut self.compressor, &self.raw)?;
        self.deposit.enter(vec![frame], self.blobs.drain(..));
        self.raw.clear();
        Ok(())
    }
}
