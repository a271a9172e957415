//! The entries of a directory as bytes, as `docs/format.md` describes them.

use super::{CacheLookup, Stat, Time};
use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::hash::ContentHash;

pub fn encode(out: &mut Vec<u8>, name: &[u8], known: &CacheLookup) {
    let tag = match known {
        CacheLookup::Dir => 0,
        CacheLookup::Link(_) => 1,
        CacheLookup::File { trusted, attributes, .. } => match (attributes.is_none(), trusted) {
            (true, false) => 2,
            (true, true) => 3,
            (false, false) => 5,
            (false, true) => 6,
        },
        CacheLookup::IgnoredDir => 4,
    };
    out.push(tag);
    out.extend((name.len() as u16).to_le_bytes());
    out.extend(name);
    if let CacheLookup::Link(hash) = known {
        out.extend(hash.0);
    }
    if let CacheLookup::File { stat, hash, attributes, .. } = known {
        encode_stat(out, stat);
        out.extend(hash.0);
        if !attributes.is_none() {
            let text = attributes.to_string();
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        }
    }
}

pub fn encode_stat(out: &mut Vec<u8>, stat: &Stat) {
    out.extend(PackedStat::new(stat).0);
}

/// A `stat` result without the bytes that only align it: a first capture has one for each file in memory.
#[derive(Clone, Copy, Debug)]
pub struct PackedStat([u8; STAT_LEN]);

/// Five numbers of 8 bytes, and one of 4.
const STAT_LEN: usize = 44;
const HASH_LEN: usize = 32;

impl PackedStat {
    pub fn new(stat: &Stat) -> Self {
        let mut bytes = [0; STAT_LEN];
        let numbers = [stat.size, stat.mtime.0 as u64, stat.ctime.0 as u64, stat.inode, stat.device];
        for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        bytes[40..].copy_from_slice(&stat.mode.to_le_bytes());
        PackedStat(bytes)
    }

    pub fn unpack(&self) -> Stat {
        Decoder(&self.0).stat().expect("it has as many bytes as it needs")
    }
}

pub fn tag_is_dir(tag: u8) -> bool {
    matches!(tag, 0 | 4)
}

/// The rest of the bytes to decode.
pub struct Decoder<'b>(pub &'b [u8]);

impl<'b> Decoder<'b> {
    pub fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Time> {
        self.array().map(i64::from_le_bytes).map(Time)
    }

    pub fn stat(&mut self) -> Option<Stat> {
        Some(Stat {
            size: self.u64()?,
            mtime: self.time()?,
            ctime: self.time()?,
            inode: self.u64()?,
            device: self.u64()?,
            mode: self.u32()?,
        })
    }

    /// Decodes the start of an entry: its tag and its name.
    pub fn name(&mut self) -> Option<(u8, &'b [u8])> {
        let [tag] = self.array()?;
        let length = usize::from(u16::from_le_bytes(self.array()?));
        Some((tag, self.take(length)?))
    }

    /// Passes over an entry. Returns the length of its name.
    pub fn skip_entry(&mut self) -> Option<usize> {
        let (tag, name) = self.name()?;
        match tag {
            0 | 4 => {}
            1 => drop(self.take(HASH_LEN)?),
            2 | 3 => drop(self.take(STAT_LEN + HASH_LEN)?),
            5 | 6 => {
                self.take(STAT_LEN + HASH_LEN)?;
                let length = self.u32()? as usize;
                self.take(length)?;
            }
            _ => return None,
        }
        Some(name.len())
    }

    pub fn entry(&mut self) -> Option<CacheLookup> {
        let tag = self.name()?.0;
        let trusted = match tag {
            0 => return Some(CacheLookup::Dir),
            1 => return self.array().map(ContentHash).map(CacheLookup::Link),
            2 | 5 => false,
            3 | 6 => true,
            4 => return Some(CacheLookup::IgnoredDir),
            _ => return None,
        };
        let stat = self.stat()?;
        let hash = ContentHash(self.array()?);
        let mut attributes = Attributes::default();
        if tag >= 5 {
            let length = self.u32()? as usize;
            attributes = Attributes::parse(std::str::from_utf8(self.take(length)?).ok()?)?;
        }
        Some(CacheLookup::File { stat, hash, attributes, trusted })
    }
}
