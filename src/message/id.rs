//! Ids of chains and messages.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoContext, Result};

/// A chain: UTC `YYYYMMDDHHmmss` and two digits that count the chains begun in the same second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(String);

/// A message: `<chain>-<seq>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    chain: ChainId,
    seq: u32,
}

impl ChainId {
    /// Checks that this is 16 digits.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit())).then(|| ChainId(text.to_owned()))
    }

    /// Begins a chain: finds the first free id of this second and makes its first run's directory, which is
    /// what keeps another decree from taking the same one.
    pub fn begin(runs: &Path) -> Result<(ChainId, PathBuf)> {
        fs::create_dir_all(runs).at("create", runs)?;
        let second = jiff::Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
        for count in 0..100 {
            let chain = ChainId(format!("{second}{count:02}"));
            let dir = runs.join(MessageId::root(chain.clone()).to_string());
            match fs::create_dir(&dir) {
                Ok(()) => return Ok((chain, dir)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).at("create", &dir),
            }
        }
        Err(Error::failed("100 chains were begun within this second").hint("try again in a second"))
    }
}

impl MessageId {
    /// The first message of a chain.
    pub fn root(chain: ChainId) -> Self {
        MessageId { chain, seq: 0 }
    }

    /// Reads `<chain>-<seq>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (chain, seq) = text.split_once('-')?;
        let plain = seq == "0" || (!seq.starts_with('0') && seq.bytes().all(|b| b.is_ascii_digit()));
        Some(MessageId { chain: ChainId::parse(chain)?, seq: seq.parse().ok().filter(|_| plain)? })
    }

    /// Its chain.
    pub fn chain(&self) -> &ChainId {
        &self.chain
    }

    /// Its place in the chain.
    pub fn seq(&self) -> u32 {
        self.seq
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.chain, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_strictly() {
        let id = MessageId::parse("2025022514320000-3").expect("a good id");
        assert_eq!((id.chain().to_string().as_str(), id.seq()), ("2025022514320000", 3));
        for bad in [
            "2025022514320000",
            "2025022514320000-",
            "2025022514320000-01",
            "2025-0",
            "x-0",
            "2025022514320000-+1",
        ] {
            assert_eq!(MessageId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn two_chains_of_the_same_second_have_different_ids() {
        let runs = tempfile::tempdir().unwrap();
        let ids: std::collections::BTreeSet<_> =
            (0..20).map(|_| ChainId::begin(runs.path()).unwrap().0).collect();
        assert_eq!(ids.len(), 20);
    }
}
