//! What is base64 in a diff, as the bytes it stands for: a secret in a binary file is a secret too.

use std::io::{self, BufRead, Read};

use crate::checkpoint::patch::binary::decode_line;

/// Reads the contents of all binary blocks of a diff, one after the other. Something stands between two of them, so that the
/// end of one and the beginning of the next are not taken for one.
pub struct BinaryBlockReader<R> {
    diff: R,
    line: Vec<u8>,
    ready: Vec<u8>,
    taken: usize,
}

impl<R: BufRead> BinaryBlockReader<R> {
    /// Of a diff.
    pub fn new(diff: R) -> Self {
        BinaryBlockReader { diff, line: Vec::new(), ready: Vec::new(), taken: 0 }
    }

    /// The next line, decoded. False at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.taken = 0;
        // A line of a binary block is short; of others only the beginning is looked at.
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
        while self.taken == self.ready.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let some = buffer.len().min(self.ready.len() - self.taken);
        buffer[..some].copy_from_slice(&self.ready[self.taken..self.taken + some]);
        self.taken += some;
        Ok(some)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn contents_are_put_together_from_their_lines() {
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
