//! Ids of chains and messages.

use std::fmt;

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
}

/// Parses a sequence number. One that does not fit becomes the largest, which is too deep for any chain anyway.
pub fn parse_seq(text: &str) -> Option<u32> {
    is_digits(text).then(|| text.parse().unwrap_or(u32::MAX))
}

/// The sequence number at the end of an id, or alone, if it is too large to be one.
pub fn seq_too_large(text: &str) -> Option<&str> {
    let seq = text.rsplit('-').next().unwrap_or(text);
    (is_digits(seq) && seq.parse::<u32>().is_err()).then_some(seq)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
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
}
