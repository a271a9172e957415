//! Writing one new pack from many threads.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use zstd::bulk::Compressor;

use super::directory::Store;
use super::pack::{self, Frame, Pack};
use super::pending_blobs::{ClaimState, PendingBlobs};
use super::writeback::{FilePart, Writeback};
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, fill};
use crate::interrupt;

/// Level 1 compresses source code about as well as zlib does, many times faster (`docs/performance.md`).
const LEVEL: i32 = 1;
/// Small contents are collected into frames of about this size; large ones are split into several.
pub(super) const FRAME: usize = 512 * 1024;

impl Store {
    /// Begins a new pack.
    pub fn pack_writer(&self) -> PackWriter<'_> {
        PackWriter {
            store: self,
            blobs: Mutex::default(),
            claim_ended: Condvar::new(),
            waiting: AtomicUsize::new(0),
            pack: Mutex::default(),
        }
    }
}

/// A pack that is being written. Nothing of it is visible until [`PackWriter::finish`].
pub struct PackWriter<'s> {
    store: &'s Store,
    blobs: Mutex<PendingBlobs>,
    /// Signalled when a claim is fulfilled or abandoned, if a thread waits for that.
    claim_ended: Condvar,
    /// Changed under the lock of `blobs`.
    waiting: AtomicUsize,
    pack: Mutex<PackInProgress>,
}

#[derive(Default)]
struct PackInProgress {
    file: Option<(Arc<File>, PathBuf)>,
    length: u64,
    writeback: Writeback,
    frames: Vec<Frame>,
}

/// The exclusive right to add a content. Dropping it unused abandons it, and another thread may claim that content.
pub struct Claim<'w> {
    writer: &'w PackWriter<'w>,
    number: u32,
    hash: ContentHash,
    fulfilled: bool,
}

impl Claim<'_> {
    fn fulfil(mut self) -> u32 {
        self.fulfilled = true;
        self.number
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut blobs = self.writer.blobs();
        if self.fulfilled {
            blobs.fulfil(self.number);
        } else {
            blobs.abandon(self.number);
        }
        // It is a system call, and there is a claim for each file.
        if self.writer.waiting.load(Ordering::Relaxed) > 0 {
            self.writer.claim_ended.notify_all();
        }
    }
}

impl<'s> PackWriter<'s> {
    /// Claims a content that the store lacks; `None` if the store or this pack has it. Only one thread at a time has the
    /// claim to a content; the others wait until that thread has added or abandoned it.
    pub fn claim(&self, hash: &ContentHash) -> Result<Option<Claim<'_>>> {
        Ok(if self.store.contains(hash)? { None } else { self.claim_copy(hash) })
    }

    /// Claims a content that this pack lacks, even if the store has it: for moving it from one pack to another.
    pub(super) fn claim_copy(&self, hash: &ContentHash) -> Option<Claim<'_>> {
        let mut blobs = self.blobs();
        loop {
            match blobs.claim(hash) {
                ClaimState::Granted(number) => {
                    return Some(Claim { writer: self, number, hash: *hash, fulfilled: false });
                }
                ClaimState::Added => return None,
                ClaimState::Busy => {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    blobs = self.claim_ended.wait(blobs).expect("no thread panics while it claims");
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Makes room for so many contents.
    pub fn reserve(&self, contents: usize) {
        self.blobs().reserve(contents);
    }

    fn blobs(&self) -> MutexGuard<'_, PendingBlobs> {
        self.blobs.lock().expect("no thread panics while it claims")
    }

    /// A writer for one thread, which collects contents into frames of its own.
    pub fn frame_writer(&self) -> Result<FrameWriter<'_, 's>> {
        let compressor = FrameCompressor::new().at("set up compression for", &self.store.dir)?;
        Ok(FrameWriter { writer: self, compressor, raw: Vec::with_capacity(FRAME), blobs: Vec::new() })
    }

    /// Makes everything added durable and visible, and returns the path of the pack; `None` if nothing was added.
    pub fn finish(mut self) -> Result<Option<PathBuf>> {
        let pack = self.pack.get_mut().expect("no thread panics while it writes");
        let Some((file, temporary)) = &mut pack.file else {
            // The indexes of the other packs may be large, and are not needed any more.
            self.store.discard_packs();
            return Ok(None);
        };
        let blobs = std::mem::take(self.blobs.get_mut().expect("no thread panics while it claims"));
        let blobs = blobs.into_blobs();
        self.store.trust_again(&blobs);
        let mut out = ChecksumWriter { out: &**file, hasher: Hasher::new(), crc: crc32fast::Hasher::new() };
        pack::write_index(&mut out, &pack.frames, blobs).at("write", &*temporary)?;
        let ChecksumWriter { mut out, hasher, crc } = out;
        out.write_all(&pack::footer(pack.length, crc.finalize()))
            .and_then(|()| out.sync_data())
            .at("write", &*temporary)?;
        let target = self.store.dir.join(format!("{}.pack", hasher.finish().0));
        fs::rename(&*temporary, &target).at("write", &target)?;
        pack.file = None;
        atomic::sync_dir(&self.store.dir)?;
        self.store.discard_packs();
        Ok(Some(target))
    }

    /// Compresses and appends one frame.
    fn append(&self, compressor: &mut FrameCompressor, raw: &[u8]) -> Result<Frame> {
        let packed = compressor.compress(raw).at("compress into", &self.store.dir)?;
        self.append_packed(packed, u32::try_from(raw.len()).expect("a frame is far below 4 GiB"))
    }

    /// Appends one compressed frame, whose decompressed size is `raw`.
    fn append_packed(&self, packed: &[u8], raw: u32) -> Result<Frame> {
        let mut guard = self.pack.lock().expect("no thread panics while it writes");
        let pack = &mut *guard;
        if pack.file.is_none() {
            let (mut file, path) = self.store.new_temporary()?;
            file.write_all(pack::HEADER).at("write", &path)?;
            pack.length = pack::HEADER.len() as u64;
            pack.file = Some((Arc::new(file), path));
        }
        let (file, path) = pack.file.as_ref().expect("it was created above");
        (&**file).write_all(packed).at("write", path)?;
        let frame = Frame {
            offset: pack.length,
            packed: u32::try_from(packed.len()).expect("a frame is far below 4 GiB"),
            raw,
            checksum: crc32fast::hash(packed),
        };
        pack.length += packed.len() as u64;
        let part = pack.writeback.take(file, pack.length);
        drop(guard);
        part.iter().for_each(FilePart::begin_writing);
        Ok(frame)
    }

    /// Copies the frames of another pack as they are, unless this pack has all of its contents. Returns those that it had already. No other
    /// thread may write to this pack; if it fails, nor may this one.
    pub(super) fn copy_pack(&self, from: &Pack) -> Result<Vec<ContentHash>> {
        let (mut new, mut duplicates) = (Vec::new(), Vec::new());
        for blob in from.index.blobs() {
            match self.claim_copy(&blob.hash) {
                // At once: a claim takes longer the more there are.
                Some(claim) => new.push((claim.fulfil(), blob)),
                None => duplicates.push(blob.hash),
            }
        }
        if new.is_empty() {
            return Ok(duplicates);
        }
        let mut copied = Vec::with_capacity(from.index.frames().len());
        for frame in from.index.frames() {
            interrupt::check()?;
            let packed = from.read_packed(*frame).at("read", &from.path)?;
            copied.push(self.append_packed(&packed, frame.raw)?);
        }
        let mut pack = self.pack.lock().expect("no thread panics while it writes");
        let first = u32::try_from(pack.frames.len()).expect("fewer than 2^32 frames");
        pack.frames.extend(copied);
        drop(pack);
        for (number, blob) in new {
            self.blobs().place(number, first + blob.frame, blob.offset, blob.size);
        }
        Ok(duplicates)
    }

    /// Adds consecutive frames, and the contents that begin in the first of them, to the index.
    fn index(&self, frames: Vec<Frame>, contents: impl IntoIterator<Item = FrameBlob>) {
        let mut pack = self.pack.lock().expect("no thread panics while it writes");
        let first = u32::try_from(pack.frames.len()).expect("fewer than 2^32 frames");
        pack.frames.extend(frames);
        drop(pack);
        let mut blobs = self.blobs();
        for FrameBlob { number, offset, size } in contents {
            blobs.place(number, first, offset, size);
        }
    }
}

/// A content in a frame that is not written yet.
struct FrameBlob {
    number: u32,
    offset: u32,
    size: u64,
}

impl Drop for PackWriter<'_> {
    fn drop(&mut self) {
        if let Ok(pack) = self.pack.get_mut()
            && let Some((_, path)) = &pack.file
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Compresses frames into a buffer that is reused.
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

/// Computes the hash and the checksum of what is written through it.
struct ChecksumWriter<W> {
    out: W,
    hasher: Hasher,
    crc: crc32fast::Hasher,
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        self.crc.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Collects contents into frames, on behalf of one thread.
pub struct FrameWriter<'w, 's> {
    pub writer: &'w PackWriter<'s>,
    compressor: FrameCompressor,
    raw: Vec<u8>,
    blobs: Vec<FrameBlob>,
}

impl FrameWriter<'_, '_> {
    pub fn add(&mut self, claim: Claim<'_>, content: &[u8]) -> Result<()> {
        if content.len() > FRAME {
            let mut rest = content;
            return self.add_stream(claim, &mut rest).map(drop);
        }
        if self.raw.len() + content.len() > FRAME {
            self.flush()?;
        }
        self.blobs.push(FrameBlob {
            number: claim.fulfil(),
            offset: u32::try_from(self.raw.len()).expect("a frame is far below 4 GiB"),
            size: content.len() as u64,
        });
        self.raw.extend_from_slice(content);
        Ok(())
    }

    /// Adds a content of any size, one frame at a time. Returns the hash of what was read; if it is not the claimed one,
    /// the claim is abandoned.
    pub fn add_stream(&mut self, claim: Claim<'_>, reader: &mut impl Read) -> Result<ContentHash> {
        let mut frames = Vec::new();
        let mut hasher = Hasher::new();
        let mut piece = vec![0; FRAME];
        loop {
            let filled = fill(reader, &mut piece).at("store a file in", &self.writer.store.dir)?;
            if filled == 0 {
                break;
            }
            hasher.update(&piece[..filled]);
            frames.push(self.writer.append(&mut self.compressor, &piece[..filled])?);
        }
        let (found, size) = hasher.finish();
        if found == claim.hash {
            self.writer.index(frames, [FrameBlob { number: claim.fulfil(), offset: 0, size }]);
        }
        Ok(found)
    }

    /// Writes the current frame. Must be called before [`PackWriter::finish`].
    pub fn flush(&mut self) -> Result<()> {
        if self.blobs.is_empty() {
            return Ok(());
        }
        let frame = self.writer.append(&mut self.compressor, &self.raw)?;
        self.writer.index(vec![frame], self.blobs.drain(..));
        self.raw.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A file that another process changes while it is stored.
    struct ChangingFile(mpsc::Sender<()>, &'static [u8]);

    impl Read for ChangingFile {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0.send(()).expect("the other thread listens");
            std::thread::sleep(Duration::from_millis(50));
            self.1.read(out)
        }
    }

    #[test]
    fn a_content_is_stored_if_one_of_two_files_that_had_it_changes_while_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        let writer = store.pack_writer();
        let hash = ContentHash::of(b"equal");
        let (began, has_begun) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut frames = writer.frame_writer().unwrap();
                let claim = writer.claim(&hash).unwrap().expect("the store lacks it");
                let found = frames.add_stream(claim, &mut ChangingFile(began, b"other")).unwrap();
                assert_ne!(found, hash);
            });
            has_begun.recv().unwrap();
            let mut frames = writer.frame_writer().unwrap();
            let claim = writer.claim(&hash).unwrap().expect("the first thread abandoned it");
            frames.add_stream(claim, &mut &b"equal"[..]).unwrap();
        });
        writer.finish().unwrap();
        assert_eq!(store.read(&hash).unwrap(), b"equal");
    }
}
