//! Whether a file of objects is what git wrote. git never changes one, but it touches them, and may write one again; so another size or
//! time is only a reason to look into the file.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flate2::bufread::ZlibDecoder;
use sha1::{Digest, Sha1};
use sha2::Sha256;

use super::refs::is_hash;

/// How the files of a pack begin.
const PACK: &[u8] = b"PACK";
const PACK_INDEX: &[u8] = b"\xfftOc";
/// How the name of a pack begins; its hash follows.
const PACK_NAME: &str = "pack-";

/// Nanoseconds since 1970.
type Time = i128;

/// By what an unchanged file is recognized without reading it.
#[derive(Clone, Copy, Debug)]
pub(super) enum ObjectStamp {
    Known {
        size: u64,
        modified: Time,
    },
    /// After decree was killed: the file is from before this time.
    Before(Time),
}

impl ObjectStamp {
    pub fn of(found: &Metadata) -> ObjectStamp {
        ObjectStamp::Known { size: found.len(), modified: modified(found) }
    }

    /// For files that are older than this one.
    pub fn older_than(found: &Metadata) -> ObjectStamp {
        ObjectStamp::Before(modified(found))
    }

    /// Whether a file is another than it was, and not what git writes under this name: `ab/cdef…` or `pack/pack-….pack`.
    pub fn is_damaged(&self, path: &Path, name: &Path, found: &Metadata) -> bool {
        let (is_unchanged, has_size) = match *self {
            ObjectStamp::Known { size, modified: time } => {
                (found.len() == size && modified(found) == time, found.len() == size)
            }
            ObjectStamp::Before(time) => (modified(found) <= time, true),
        };
        if !found.is_file() {
            return true;
        }
        if is_unchanged {
            return false;
        }
        // What cannot be read is of no use to git either.
        let is_whole = match name.extension().map(|end| end.as_encoded_bytes()) {
            Some(b"pack") => has_size && is_pack(path).unwrap_or(false),
            Some(b"idx") => has_size && begins_with(path, PACK_INDEX).unwrap_or(false),
            // Lists and notes that git makes anew.
            Some(_) => true,
            None => loose_hash(name).is_none_or(|hash| is_object(path, &hash).unwrap_or(false)),
        };
        !is_whole
    }
}

fn modified(found: &Metadata) -> Time {
    Time::from(found.mtime()) * 1_000_000_000 + Time::from(found.mtime_nsec())
}

/// The hash that the name of a loose object is; `None` for another file.
fn loose_hash(name: &Path) -> Option<String> {
    let hash: String = name.iter().map(|part| part.to_string_lossy()).collect();
    is_hash(&hash).then_some(hash)
}

/// Whether a file has the loose object of this hash, and nothing else.
fn is_object(path: &Path, hash: &str) -> io::Result<bool> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut content = ZlibDecoder::new(BufReader::new(file));
    let found =
        if hash.len() == 40 { hash_of::<Sha1>(&mut content)? } else { hash_of::<Sha256>(&mut content)? };
    Ok(content.total_in() == size && found.eq_ignore_ascii_case(hash))
}

fn hash_of<D: Digest>(content: &mut impl Read) -> io::Result<String> {
    let (mut hasher, mut buffer) = (D::new(), vec![0; 1 << 16]);
    loop {
        match content.read(&mut buffer)? {
            0 => break,
            length => hasher.update(&buffer[..length]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a pack has its beginning, and at its end the checksum that its index names. A whole one may be too large to be read.
fn is_pack(path: &Path) -> io::Result<bool> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let checksum = name.strip_prefix(PACK_NAME).map_or(20, |hash| hash.len() / 2);
    if !begins_with(path, PACK)? {
        return Ok(false);
    }
    // git indexes a pack again that has no index.
    let Ok(mut index) = File::open(path.with_extension("idx")) else { return Ok(true) };
    let named = read_at_end(&mut index, 2 * checksum, checksum)?;
    Ok(read_at_end(&mut File::open(path)?, checksum, checksum)? == named)
}

fn begins_with(path: &Path, magic: &[u8]) -> io::Result<bool> {
    let mut begin = vec![0; magic.len()];
    File::open(path)?.read_exact(&mut begin)?;
    Ok(begin == magic)
}

/// Some bytes, from so many before the end.
fn read_at_end(file: &mut File, from_end: usize, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::End(-i64::try_from(from_end).map_err(io::Error::other)?))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
