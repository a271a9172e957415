//! Files that get a hole wherever they have a whole block of zeros.
//!
//! Nothing records where a file had holes: the same content can be on disk with and without them, and file systems report them
//! differently. So every whole block of zeros becomes a hole, also one that was allocated before. A file that is restored then never
//! takes more room than it did, and a revert does not fill the disk. The price is that blocks which a program allocated in advance
//! and has not written to yet are not allocated in the restored file; its first write to them allocates them, as in any sparse file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

/// The size of a block, and its alignment in the file. No common file system has smaller holes.
pub const BLOCK: usize = 4096;
/// A run of zeros of at least this size is worth a note of its own in a diff.
pub const LONG_RUN: u64 = 64 << 10;
/// How much is collected before it is written; a multiple of a block.
const BUFFER: usize = 16 * BLOCK;

/// As many zeros as are written at once.
pub static ZEROS: [u8; BUFFER] = [0; BUFFER];

/// Whether these bytes are a whole block of zeros.
pub fn is_zero_block(bytes: &[u8]) -> bool {
    bytes.len() == BLOCK && bytes == &ZEROS[..BLOCK]
}

/// Whether a content has a long run of whole blocks of zeros.
pub fn has_long_run(content: &[u8]) -> bool {
    let mut run = ZeroRun::default();
    content.chunks(BLOCK).for_each(|block| run.add(is_zero_block(block)));
    run.is_long()
}

/// The longest run of blocks of zeros so far.
#[derive(Default)]
struct ZeroRun {
    current: u64,
    longest: u64,
}

impl ZeroRun {
    fn add(&mut self, is_zero: bool) {
        self.current = if is_zero { self.current + BLOCK as u64 } else { 0 };
        self.longest = self.longest.max(self.current);
    }

    fn is_long(&self) -> bool {
        self.longest >= LONG_RUN
    }
}

/// Writes an empty file from its beginning. What is written is on disk in full only after [`SparseWriter::finish`].
pub struct SparseWriter {
    file: File,
    buffer: Vec<u8>,
    /// Where the buffer begins in the file, and where the last data ends.
    at: u64,
    data_end: u64,
    zeros: ZeroRun,
}

impl SparseWriter {
    pub fn new(file: File) -> Self {
        SparseWriter { file, buffer: Vec::new(), at: 0, data_end: 0, zeros: ZeroRun::default() }
    }

    /// Writes what is left, and gives the file its length. Returns the file, and whether it has a long run of zeros.
    pub fn finish(mut self) -> io::Result<(File, bool)> {
        self.write_buffer()?;
        if self.data_end < self.at {
            self.file.set_len(self.at)?;
        }
        Ok((self.file, self.zeros.is_long()))
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let mut at = 0;
        let mut blocks = self.buffer.chunks(BLOCK).peekable();
        while let Some(block) = blocks.next() {
            let begin = at;
            at += block.len();
            self.zeros.add(is_zero_block(block));
            if is_zero_block(block) {
                continue;
            }
            while let Some(block) = blocks.next_if(|block| !is_zero_block(block)) {
                at += block.len();
            }
            self.file.write_all_at(&self.buffer[begin..at], self.at + begin as u64)?;
            self.data_end = self.at + at as u64;
        }
        self.at += at as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Write for SparseWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BUFFER - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == BUFFER {
            self.write_buffer()?;
        }
        Ok(taken)
    }

    /// Does nothing: blocks are written as a whole.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies everything that `from` has left to an empty file, which is returned.
pub fn copy(from: &mut impl Read, to: File) -> io::Result<File> {
    let mut out = SparseWriter::new(to);
    io::copy(from, &mut out)?;
    out.finish().map(|(file, _)| file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    /// Contents of data (`x`) and blocks of zeros (`0`), and a last part that is shorter than a block.
    fn contents() -> Vec<Vec<u8>> {
        let patterns =
            ["", "x", "0", "x0", "0x", "00x00", "x0x0x", &"0".repeat(40), &"x".repeat(40), &"x00".repeat(15)];
        let tails: [&[u8]; 5] = [b"", b"\0", b"x", &[0; BLOCK - 1], b"\0\0x\0"];
        let block = |byte: u8| if byte == b'x' { [7; BLOCK] } else { [0; BLOCK] };
        let whole = |pattern: &str| pattern.bytes().flat_map(block).collect::<Vec<u8>>();
        patterns.iter().flat_map(|it| tails.map(|tail| [&whole(it), tail].concat())).collect()
    }

    #[test]
    fn a_file_has_the_content_that_was_written_in_whatever_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for content in contents() {
            for piece in [1000, BLOCK, 3 * BLOCK + 5, 1 << 20] {
                let mut out = SparseWriter::new(File::create(&path).unwrap());
                content.chunks(piece).for_each(|piece| out.write_all(piece).unwrap());
                let (_, has_long_run) = out.finish().unwrap();
                assert!(fs::read(&path).unwrap() == content, "{} bytes in pieces of {piece}", content.len());
                assert_eq!(has_long_run, super::has_long_run(&content));
            }
        }
    }

    #[test]
    fn zeros_take_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let content =
            [&[7; BLOCK][..], &vec![0; 512 * BLOCK], &[7; BLOCK], &vec![0; 512 * BLOCK + 1]].concat();
        copy(&mut &content[..], File::create(&path).unwrap()).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.len(), content.len() as u64);
        assert!(found.blocks() * 512 <= 64 * BLOCK as u64, "{} blocks", found.blocks());
    }
}
