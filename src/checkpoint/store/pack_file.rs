//! The packs of a store as files: opened, their indexes read, their frames decompressed and checked.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::pack::{self, FOOTER_LEN, Frame, PackIndex};
use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, IoContext, Result};

/// The packs in a store's directory.
#[derive(Debug, Default)]
pub(super) struct Packs {
    pub list: Vec<Pack>,
    /// Packs whose index cannot be read, and why.
    pub damaged: Vec<(PathBuf, String)>,
}

impl Deref for Packs {
    type Target = [Pack];

    fn deref(&self) -> &[Pack] {
        &self.list
    }
}

#[derive(Debug)]
pub(super) struct Pack {
    pub path: PathBuf,
    pub index: PackIndex,
    /// Open only while the store is held: there may be more packs than a process may have open files.
    pub file: Option<File>,
}

impl Pack {
    pub fn open(path: PathBuf, hold: bool) -> Result<Pack> {
        Pack::try_open(&path, hold)?.map_err(|error| {
            Error::integrity(format!("the store is damaged: {}", path.display()))
                .caused_by(error)
                .hint(damaged_pack_hint(&path))
        })
    }

    /// The outer error means that the file cannot be opened; the inner one, that its index is damaged.
    pub fn try_open(path: &Path, hold: bool) -> Result<io::Result<Pack>> {
        let file = File::open(path).at("open", path)?;
        let index = read_index(&file);
        Ok(index.map(|index| Pack { path: path.to_owned(), index, file: hold.then_some(file) }))
    }

    pub fn read_frame(&self, frame: Frame) -> io::Result<Vec<u8>> {
        let mut packed = vec![0; frame.packed as usize];
        match &self.file {
            Some(file) => file.read_exact_at(&mut packed, frame.offset)?,
            None => File::open(&self.path)?.read_exact_at(&mut packed, frame.offset)?,
        }
        if crc32fast::hash(&packed) != frame.checksum {
            return Err(invalid("a frame fails its checksum"));
        }
        let raw = zstd::bulk::decompress(&packed, frame.raw as usize)?;
        if raw.len() != frame.raw as usize {
            return Err(invalid("a frame is shorter than its index says"));
        }
        Ok(raw)
    }
}

fn read_index(file: &File) -> io::Result<PackIndex> {
    let length = file.metadata()?.len();
    let mut header = [0; 8];
    file.read_exact_at(&mut header, 0)?;
    if &header != pack::HEADER {
        return Err(invalid("not a pack, or one of another version"));
    }
    let mut footer = [0; FOOTER_LEN as usize];
    let footer_at = length.checked_sub(FOOTER_LEN).ok_or_else(|| invalid("too short"))?;
    file.read_exact_at(&mut footer, footer_at)?;
    let (index_at, checksum) = pack::parse_footer(&footer).ok_or_else(|| invalid("no footer"))?;
    let size = footer_at.checked_sub(index_at).ok_or_else(|| invalid("its index is out of place"))?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| invalid("its index is too large"))?];
    file.read_exact_at(&mut bytes, index_at)?;
    if crc32fast::hash(&bytes) != checksum {
        return Err(invalid("its index fails its checksum"));
    }
    PackIndex::decode(bytes).ok_or_else(|| invalid("its index is malformed"))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The id in a pack's file name; `None` if the file is not a pack.
pub(super) fn pack_id(path: &Path) -> Option<ContentHash> {
    if path.extension()? != "pack" {
        return None;
    }
    ContentHash::from_hex(path.file_stem()?.to_str()?)
}

/// What the user can do about a damaged pack.
pub(super) fn damaged_pack_hint(pack: &Path) -> String {
    format!(
        "move the damaged pack {} out of the store: then the next checkpoint stores again what the tree still has, and \
         `decree checkpoint verify --all` reports which checkpoints are lost",
        pack.display()
    )
}
