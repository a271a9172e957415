//! SHA-256 hashes of content, and hashing of streams.

use std::fmt;
use std::io::{self, Read, Write};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The SHA-256 of some content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    pub fn of(bytes: &[u8]) -> Self {
        ContentHash(Sha256::digest(bytes).into())
    }

    /// The hash and length of everything `reader` has left.
    pub fn of_reader(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<(Self, u64)> {
        let mut hasher = Hasher::new();
        loop {
            match reader.read(buffer) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(n) => hasher.update(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Parses 64 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 64 {
            return None;
        }
        let mut hash = [0; 32];
        for (out, pair) in hash.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *out = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(ContentHash(hash))
    }

    /// 64 lower-case hexadecimal digits, without allocating or formatting: manifests have millions.
    pub fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut out = [0; 64];
        for (pair, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        out
    }

    /// The first and last digits, for messages.
    pub fn short(&self) -> String {
        let hex = self.to_string();
        format!("{}…{}", &hex[..4], &hex[62..])
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.hex()).expect("hexadecimal digits are ASCII"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        ContentHash::from_hex(&text).ok_or_else(|| D::Error::custom("not 64 hexadecimal digits"))
    }
}

/// Hashes a stream and counts its bytes.
#[derive(Clone, Default)]
pub struct Hasher {
    sha: Sha256,
    length: u64,
}

impl Hasher {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// The hash and the number of bytes.
    pub fn finish(self) -> (ContentHash, u64) {
        (ContentHash(self.sha.finalize().into()), self.length)
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hashes everything that is written through it.
pub struct Hashing<W> {
    pub out: W,
    pub hasher: Hasher,
}

impl<W> Hashing<W> {
    pub fn new(out: W) -> Self {
        Hashing { out, hasher: Hasher::new() }
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_rejects_what_is_not_a_hash() {
        let hash = ContentHash::of(b"abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), hex);
        assert_eq!(ContentHash::from_hex(hex), Some(hash));
        assert_eq!(ContentHash::from_hex(&hex[1..]), None);
        assert_eq!(ContentHash::from_hex(&hex.replace('b', "G")), None);
    }

    #[test]
    fn the_json_form_is_the_hexadecimal_digits() {
        let hash = ContentHash::of(b"abc");
        let text = serde_json::to_string(&hash).unwrap();
        assert_eq!(text, format!("\"{hash}\""));
        assert_eq!(serde_json::from_str::<ContentHash>(&text).unwrap(), hash);
        assert!(serde_json::from_str::<ContentHash>("\"abc\"").is_err());
    }

    #[test]
    fn a_reader_hashes_like_its_bytes() {
        let data = vec![7; 1000];
        let (hash, length) = ContentHash::of_reader(&mut &data[..], &mut [0; 64]).unwrap();
        assert_eq!((hash, length), (ContentHash::of(&data), 1000));
    }
}
