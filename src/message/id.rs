//! Ids of chains and messages.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Error, IoContext, Result};
use crate::interrupt;

/// How often to look for a free id before giving up.
const TRIES: usize = 200;

/// The id of a chain: UTC `YYYYMMDDHHmmss`, then two digits that count the chains begun in that second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(String);

/// The id of a message: `<chain>-<seq>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    pub chain: ChainId,
    /// The position in the chain, from 0.
    pub seq: u32,
}

impl ChainId {
    /// Accepts exactly 16 digits.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit())).then(|| ChainId(text.to_owned()))
    }

    /// Begins a chain: takes the first free id of this second by creating the directory of its first run, so that another
    /// decree cannot take the same one. If all ids of a second are taken, waits for the next second.
    ///
    /// No id is given out twice, even if its directory is gone: that of a rejected message is removed, but its dead letter
    /// keeps the id.
    pub fn begin(runs: &Path) -> Result<(ChainId, PathBuf)> {
        static LAST: Mutex<Option<ChainId>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        fs::create_dir_all(runs).at("create", runs)?;
        for _ in 0..TRIES {
            let second = jiff::Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
            for count in 0..100 {
                let chain = ChainId(format!("{second}{count:02}"));
                if last.as_ref().is_some_and(|last| last.0.starts_with(&second) && *last >= chain) {
                    continue;
                }
                let dir = runs.join(MessageId::root(chain.clone()).to_string());
                match fs::create_dir(&dir) {
                    Ok(()) => {
                        *last = Some(chain.clone());
                        return Ok((chain, dir));
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error).at("create", &dir),
                }
            }
            interrupt::check()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(Error::failed("no id is free for a new chain").hint("is the system clock running?"))
    }
}

/// Parses a sequence number. One that does not fit becomes the largest, which is too deep for any chain anyway.
pub fn parse_seq(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u32::MAX))
}

impl MessageId {
    /// The first message of a chain.
    pub fn root(chain: ChainId) -> Self {
        MessageId { chain, seq: 0 }
    }

    /// Parses `<chain>-<seq>`, without leading zeros in the sequence number.
    pub fn parse(text: &str) -> Option<Self> {
        let (chain, seq) = text.split_once('-')?;
        let canonical = seq == "0" || (!seq.starts_with('0') && seq.bytes().all(|b| b.is_ascii_digit()));
        Some(MessageId { chain: ChainId::parse(chain)?, seq: parse_seq(seq).filter(|_| canonical)? })
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
    fn ids_are_parsed_strictly() {
        let id = MessageId::parse("2025022514320000-3").expect("a good id");
        assert_eq!((id.chain.to_string().as_str(), id.seq), ("2025022514320000", 3));
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

    #[test]
    fn an_id_whose_directory_is_gone_is_not_given_out_again() {
        let runs = tempfile::tempdir().unwrap();
        let begin = || {
            let (chain, dir) = ChainId::begin(runs.path()).unwrap();
            fs::remove_dir(dir).unwrap();
            chain
        };
        let ids: std::collections::BTreeSet<_> = (0..20).map(|_| begin()).collect();
        assert_eq!(ids.len(), 20);
    }
}
