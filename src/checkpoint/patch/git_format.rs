//! A diff as git alone would write it: text sections as they are, and binary contents as `GIT binary patch` blocks, so that
//! `git apply` takes the whole change. What git's format cannot express (empty directories, modes other than 644 and 755, owners and
//! attributes) is left out; [`Patch::beyond_git`] names the paths.
//!
//! A block is the whole content of one side, compressed with zlib, in base 85; the new side first, then the old one, so that it
//! can be applied in reverse. git wants to know both sides by their full hashes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest, Sha1};

use super::notes::Note;
use super::parse::{Patch, PatchRecord, Recipe};
use super::rebuild::{Direction, RebuildError, rebuild};
use super::write::git_mode;
use crate::checkpoint::entry::Node;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote::in_diff_header;
use crate::error::{IoContext, Result};
use crate::interrupt;

/// The digits of git's base 85.
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// How many bytes a line of a block has at most.
const LINE_BYTES: usize = 52;
/// git's name for a side that does not exist.
const NO_BLOB: &str = "0000000000000000000000000000000000000000";

impl Patch {
    /// The paths of which git's format cannot express the whole change.
    pub fn beyond_git(&self) -> impl Iterator<Item = &TreePath> {
        let beyond = |node: &Node| match node {
            Node::File { mode, .. } => !mode.is_plain(),
            Node::Symlink { .. } => false,
            Node::Dir { .. } => true,
        };
        let changes = self.records.iter().map(|record| &record.change);
        changes
            .filter(move |change| {
                change.attributes.is_some() || change.before.iter().chain(&change.after).any(beyond)
            })
            .map(|change| &change.path)
    }

    /// Writes the diff for git.
    pub fn write_for_git(&self, out: &mut dyn Write) -> Result<()> {
        let diff = File::open(&self.path).at("read", &self.path)?;
        let binary: HashMap<&TreePath, &PatchRecord> =
            self.records.iter().map(|record| (&record.change.path, record)).collect();
        let mut lines = BufReader::new(File::open(&self.path).at("read", &self.path)?);
        let mut line = Vec::new();
        loop {
            interrupt::check()?;
            line.clear();
            if lines.read_until(b'\n', &mut line).at("read", &self.path)? == 0 {
                return Ok(());
            }
            // A line of a hunk begins with a sign, so only decree's own lines begin like this.
            if !line.starts_with(b"#") {
                out.write_all(&line).at("write", "the diff")?;
                continue;
            }
            if let Some(Ok(Note::Binary { path, .. })) = Note::parse(line.trim_ascii_end())
                && let Some(record) = binary.get(&path)
            {
                let section = BinarySection { record, diff: &diff };
                section.write(out).map_err(|error| error.into_error("write the diff of", &path))?;
            }
        }
    }
}

/// A change whose contents are in a binary block of the diff.
struct BinarySection<'s> {
    record: &'s PatchRecord,
    diff: &'s File,
}

/// One side of a change: what is there, and how to get its content.
type Side<'s> = Option<(&'s Node, &'s Recipe)>;

impl BinarySection<'_> {
    fn write(&self, out: &mut dyn Write) -> Result<(), RebuildError> {
        let PatchRecord { change, backward, forward } = self.record;
        let file = |node: &'_ Option<Node>| node.as_ref().is_some_and(|node| !node.is_dir());
        let old = change.before.as_ref().filter(|_| file(&change.before)).map(|node| (node, backward));
        let new = change.after.as_ref().filter(|_| file(&change.after)).map(|node| (node, forward));
        match (old, new) {
            // git takes a change of the type only as a deletion and a creation.
            (Some((before, _)), Some((after, _))) if before.type_name() != after.type_name() => {
                self.section(out, old, None)?;
                self.section(out, None, new)
            }
            _ => self.section(out, old, new),
        }
    }

    fn section(&self, out: &mut dyn Write, old: Side<'_>, new: Side<'_>) -> Result<(), RebuildError> {
        let of = |prefix| in_diff_header(prefix, self.record.change.path.as_bytes());
        writeln!(out, "diff --git {} {}", of("a/"), of("b/"))?;
        let modes = (old.map(|(node, _)| git_mode(node)), new.map(|(node, _)| git_mode(node)));
        match modes {
            (Some(mode), None) => writeln!(out, "deleted file mode {mode:06o}")?,
            (None, Some(mode)) => writeln!(out, "new file mode {mode:06o}")?,
            (Some(old), Some(new)) if old != new => writeln!(out, "old mode {old:06o}\nnew mode {new:06o}")?,
            _ => {}
        }
        write!(out, "index {}..{}", self.blob(old)?, self.blob(new)?)?;
        match modes {
            (Some(old), Some(new)) if old == new => writeln!(out, " {old:06o}")?,
            _ => writeln!(out)?,
        }
        writeln!(out, "GIT binary patch")?;
        self.block(out, new, Direction::Forward)?;
        self.block(out, old, Direction::Backward)
    }

    /// The hash by which git knows a content.
    fn blob(&self, side: Side<'_>) -> Result<String, RebuildError> {
        let Some((node, recipe)) = side else { return Ok(NO_BLOB.to_owned()) };
        let mut hash = Sha1Writer(Sha1::new());
        write!(hash, "blob {}\0", size(node))?;
        rebuild(recipe, Direction::Forward, self.diff, &mut io::empty(), &mut hash)?;
        Ok(hash.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn block(&self, out: &mut dyn Write, side: Side<'_>, direction: Direction) -> Result<(), RebuildError> {
        writeln!(out, "literal {}", side.map_or(0, |(node, _)| size(node)))?;
        let mut deflate = ZlibEncoder::new(Base85::new(&mut *out), Compression::default());
        if let Some((_, recipe)) = side {
            rebuild(recipe, direction, self.diff, &mut io::empty(), &mut deflate)?;
        }
        deflate.finish()?.finish()?;
        Ok(writeln!(out)?)
    }
}

fn size(node: &Node) -> u64 {
    node.content().map_or(0, |(_, size)| size)
}

struct Sha1Writer(Sha1);

impl Write for Sha1Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines of base 85, each with its length as the first character.
struct Base85<'o> {
    out: &'o mut dyn Write,
    line: Vec<u8>,
}

impl<'o> Base85<'o> {
    fn new(out: &'o mut dyn Write) -> Self {
        Base85 { out, line: Vec::with_capacity(LINE_BYTES) }
    }

    fn finish(mut self) -> io::Result<()> {
        self.write_line()
    }

    fn write_line(&mut self) -> io::Result<()> {
        let length = self.line.len() as u8;
        if length == 0 {
            return Ok(());
        }
        let mut text = vec![if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 }];
        for chunk in self.line.chunks(4) {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            let mut number = u32::from_be_bytes(word);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = DIGITS[(number % 85) as usize];
                number /= 85;
            }
            text.extend(digits);
        }
        text.push(b'\n');
        self.line.clear();
        self.out.write_all(&text)
    }
}

impl Write for Base85<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(LINE_BYTES - self.line.len());
        self.line.extend_from_slice(&bytes[..taken]);
        if self.line.len() == LINE_BYTES {
            self.write_line()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_as_git_encodes_them() {
        let mut out = Vec::new();
        let mut encoder = Base85::new(&mut out);
        // What zlib makes of nothing.
        encoder.write_all(&[0x78, 0x01, 0x03, 0, 0, 0, 0, 1]).unwrap();
        encoder.finish().unwrap();
        assert_eq!(out, b"HcmV?d00001\n");
    }
}
