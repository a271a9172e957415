//! Decodes the base64 blocks of a diff, so that a secret in a binary file is found too.

use std::io::{self, BufRead, Read};

use crate::checkpoint::patch::binary::decode_line;

/// Reads the decoded content of all binary blocks of a diff in sequence. Every other line reads as a newline, which separates
/// the blocks.
pub struct BinaryBlockReader<R> {
    diff: R,
    line: Vec<u8>,
    ready: Vec<u8>,
    consumed: usize,
}

impl<R: BufRead> BinaryBlockReader<R> {
    pub fn new(diff: R) -> Self {
        BinaryBlockReader { diff, line: Vec::new(), ready: Vec::new(), consumed: 0 }
    }

    /// Decodes the next line. False at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.consumed = 0;
        // Lines of a binary block are short; longer ones are read in pieces.
        let read = (&mut self.diff).take(1 << 16).read_until(b'\n', &mut self.line)?;
        self.ready = match read {
            0 => Vec::new(),
            _ => decode_line(self.line.trim_ascii_end()).unwrap_or_else(|| b"\n".to_vec()),
        };
        Ok(read > 0)
    }
}

impl<R: BufRead> Read for BinaryBlockReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.consumed == self.ready.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let some = buffer.len().min(self.ready.len() - self.consumed);
        buffer[..some].copy_from_slice(&self.ready[self.consumed..self.consumed + some]);
        self.consumed += some;
        Ok(some)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn content_is_decoded_across_lines() {
        let content: Vec<u8> = (0..=255).cycle().take(500).collect();
        let lines: String = STANDARD
            .encode(&content)
            .as_bytes()
            .chunks(76)
            .map(|line| format!("# {}\n", String::from_utf8_lossy(line)))
            .collect();
        let diff = format!(
            "# decree-diff 1\n# decree-binary \"a\" old=- new=x\n{lines}# end\n+# abcd\n@@ -1 +1 @@\n"
        );
        let mut out = Vec::new();
        let mut decoded = BinaryBlockReader::new(diff.as_bytes());
        decoded.read_to_end(&mut out).unwrap();
        assert_eq!(decoded.read(&mut [0; 8]).unwrap(), 0, "the end stays the end");
        assert!(out.windows(content.len()).any(|window| window == content));
    }
}
