//! Filling the store: many threads, one new pack.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard};

use zstd::bulk::Compressor;

use super::pack::{self, Frame};
use super::pending_blobs::{ClaimState, PendingBlobs};
use super::read::Store;
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, fill};

/// Level 1 compresses source code about as well as zlib does, many times faster (`docs/performance.md`).
const LEVEL: i32 = 1;
/// Small contents are gathered into frames of about this size, and large ones cut into them.
pub(super) const FRAME: usize = 512 * 1024;

/// New content on its way into the store. Nothing of it is visible until [`PackWriter::finish`].
pub struct PackWriter<'s> {
    store: &'s Store,
    claims: Mutex<PendingBlobs>,
    /// A claim was fulfilled or given up.
    settled: Condvar,
    pack: Mutex<Unfinished>,
}

#[derive(Default)]
struct Unfinished {
    file: Option<(File, PathBuf)>,
    length: u64,
    frames: Vec<Frame>,
}

/// The right, and the duty, to add a content. Without that it is given up, and goes to the next who has it.
pub struct Claim<'d> {
    deposit: &'d PackWriter<'d>,
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
        let mut claims = self.deposit.claims();
        match self.fulfilled {
            true => claims.fulfil(self.number),
            false => claims.abandon(self.number),
        }
        self.deposit.settled.notify_all();
    }
}

impl<'s> PackWriter<'s> {
    pub(super) fn new(store: &'s Store) -> Self {
        PackWriter { store, claims: Mutex::default(), settled: Condvar::new(), pack: Mutex::default() }
    }

    /// A claim to add this content, for one caller for each hash that the store lacks. If another is just adding it,
    /// waits to see whether it does.
    pub fn claim(&self, hash: &ContentHash) -> Result<Option<Claim<'_>>> {
        match self.store.contains(hash)? {
            true => Ok(None),
            false => Ok(self.claim_again(hash)),
        }
    }

    /// The same, whether or not the store has it: for what moves from one pack to another.
    pub(super) fn claim_again(&self, hash: &ContentHash) -> Option<Claim<'_>> {
        let mut claims = self.claims();
        loop {
            match claims.claim(hash) {
                ClaimState::Yours(number) => {
                    return Some(Claim { deposit: self, number, hash: *hash, fulfilled: false });
                }
                ClaimState::Added => return None,
                ClaimState::Wait => {
                    claims = self.settled.wait(claims).expect("no thread panics while it claims")
                }
            }
        }
    }

    fn claims(&self) -> MutexGuard<'_, PendingBlobs> {
        self.claims.lock().expect("no thread panics while it claims")
    }

    /// A thread's own place to gather contents in.
    pub fn filler(&self) -> Result<FrameWriter<'_, 's>> {
        let compressor = FrameCompressor::new().at("set up compression for", &self.store.dir)?;
        Ok(FrameWriter { deposit: self, compressor, raw: Vec::with_capacity(FRAME), gathered: Vec::new() })
    }

    /// Makes everything added durable and visible, and names the pack that it is in. Nothing added: nothing written.
    pub fn finish(mut self) -> Result<Option<PathBuf>> {
        let pack = self.pack.get_mut().expect("no thread panics while it writes");
        let Some((file, temporary)) = &mut pack.file else {
            // What is in the other packs is not asked for any more, and may be much.
            self.store.reload();
            return Ok(None);
        };
        let claims = std::mem::take(self.claims.get_mut().expect("no thread panics while it claims"));
        let mut out = Summing { out: &*file, hasher: Hasher::new(), crc: crc32fast::Hasher::new() };
        pack::write_index(&mut out, &pack.frames, claims.into_blobs()).at("write", &*temporary)?;
        let Summing { mut out, hasher, crc } = out;
        out.write_all(&pack::footer(pack.length, crc.finalize()))
            .and_then(|()| out.sync_data())
            .at("write", &*temporary)?;
        let target = self.store.dir.join(format!("{}.pack", hasher.finish().0));
        fs::rename(&*temporary, &target).at("write", &target)?;
        pack.file = None;
        atomic::sync_dir(&self.store.dir)?;
        self.store.reload();
        Ok(Some(target))
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

    /// Enters frames that follow each other, and the contents in the first of them, into the index.
    fn enter(&self, frames: Vec<Frame>, contents: impl IntoIterator<Item = Gathered>) {
        let mut pack = self.pack.lock().expect("no thread panics while it writes");
        let first = u32::try_from(pack.frames.len()).expect("fewer than 2^32 frames");
        pack.frames.extend(frames);
        drop(pack);
        let mut claims = self.claims();
        for Gathered { number, offset, size } in contents {
            claims.place(number, first, offset, size);
        }
    }
}

/// A content in a frame that is not written yet.
struct Gathered {
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

/// Works out the hash and the checksum of what passes through.
struct Summing<W> {
    out: W,
    hasher: Hasher,
    crc: crc32fast::Hasher,
}

impl<W: Write> Write for Summing<W> {
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

/// One thread's unfinished frame.
pub struct FrameWriter<'d, 's> {
    deposit: &'d PackWriter<'s>,
    compressor: FrameCompressor,
    raw: Vec<u8>,
    gathered: Vec<Gathered>,
}

impl FrameWriter<'_, '_> {
    /// Adds a content that is in memory.
    pub fn add(&mut self, claim: Claim<'_>, content: &[u8]) -> Result<()> {
        if content.len() > FRAME {
            let mut rest = content;
            return self.add_stream(claim, &mut rest).map(drop);
        }
        if self.raw.len() + content.len() > FRAME {
            self.flush()?;
        }
        self.gathered.push(Gathered {
            number: claim.fulfil(),
            offset: u32::try_from(self.raw.len()).expect("a frame is far below 4 GiB"),
            size: content.len() as u64,
        });
        self.raw.extend_from_slice(content);
        Ok(())
    }

    /// Adds a content of any size, piece by piece. Returns the hash of what was really read: if it is another than
    /// was claimed, the content is not entered.
    pub fn add_stream(&mut self, claim: Claim<'_>, reader: &mut impl Read) -> Result<ContentHash> {
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
        if found == claim.hash {
            self.deposit.enter(frames, [Gathered { number: claim.fulfil(), offset: 0, size }]);
        }
        Ok(found)
    }

    /// Writes the frame gathered so far. Has to be called before [`PackWriter::finish`].
    pub fn flush(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let frame = self.deposit.append(&mut self.compressor, &self.raw)?;
        self.deposit.enter(vec![frame], self.gathered.drain(..));
        self.raw.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A file that is changed by something while it is stored.
    struct Changing(mpsc::Sender<()>, &'static [u8]);

    impl Read for Changing {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0.send(()).expect("the other thread listens");
            std::thread::sleep(Duration::from_millis(50));
            self.1.read(out)
        }
    }

    #[test]
    fn a_content_is_stored_if_one_of_two_files_that_had_it_changes_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        let deposit = store.deposit();
        let hash = ContentHash::of(b"equal");
        let (began, has_begun) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut filler = deposit.filler().unwrap();
                let claim = deposit.claim(&hash).unwrap().expect("nobody has it");
                let found = filler.add_stream(claim, &mut Changing(began, b"other")).unwrap();
                assert_ne!(found, hash);
            });
            has_begun.recv().unwrap();
            let mut filler = deposit.filler().unwrap();
            let claim = deposit.claim(&hash).unwrap().expect("the first gave it up");
            filler.add_stream(claim, &mut &b"equal"[..]).unwrap();
        });
        deposit.finish().unwrap();
        assert_eq!(store.read(&hash).unwrap(), b"equal");
    }
}
