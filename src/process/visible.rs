//! Which bytes of output a reader sees: not those of escape sequences and control characters. Where an escape sequence ends is
//! decided as in [`crate::sanitize::strip_controls`], byte by byte, because output arrives in pieces.

/// Where in an escape sequence a stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EscapeState {
    #[default]
    Text,
    /// After `ESC`.
    Begun,
    /// After `ESC` and a byte such as `(`.
    Intermediate,
    /// After `ESC [`.
    Parameters,
    /// After `ESC ]` and the like: in a text for the terminal, such as a title. The flag says whether the last byte was `ESC`.
    TerminalText(bool),
}

/// The first byte of the control characters U+0080 to U+009F in UTF-8.
const C1_LEAD: u8 = 0xc2;

impl EscapeState {
    /// Takes the next byte, and returns whether it is seen.
    fn take(&mut self, byte: u8) -> bool {
        use EscapeState::*;
        let (next, is_part) = match (*self, byte) {
            (Begun, b'[') => (Parameters, true),
            (Begun, b']' | b'P' | b'_' | b'^' | b'X') => (TerminalText(false), true),
            (Begun | Intermediate, b' '..=b'/') => (Intermediate, true),
            (Begun | Intermediate, b'0'..=b'~') => (Text, true),
            (Parameters, b' '..=b'?') => (Parameters, true),
            (Parameters, b'@'..=b'~') => (Text, true),
            (TerminalText(_), 0x07) | (TerminalText(true), b'\\') => (Text, true),
            (TerminalText(_), byte) if byte != b'\n' => (TerminalText(byte == 0x1b), true),
            (_, 0x1b) => (Begun, true),
            _ => (Text, false),
        };
        *self = next;
        !is_part && !is_control(byte)
    }

    /// The state after these bytes.
    pub fn after(mut self, bytes: &[u8]) -> EscapeState {
        for byte in bytes {
            self.take(*byte);
        }
        self
    }

    /// Bytes that lead from text to this state.
    pub fn introducer(self) -> &'static [u8] {
        match self {
            EscapeState::Text => b"",
            EscapeState::Begun => b"\x1b",
            EscapeState::Intermediate => b"\x1b(",
            EscapeState::Parameters => b"\x1b[",
            EscapeState::TerminalText(false) => b"\x1b]",
            EscapeState::TerminalText(true) => b"\x1b]\x1b",
        }
    }
}

fn is_control(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0b..=0x1f | 0x7f)
}

/// The bytes of a buffer that are seen.
pub struct VisibleBytes {
    pub bytes: Vec<u8>,
    /// Where in the buffer each of them is.
    at: Vec<usize>,
    /// How much of the buffer is decided: its last byte may be the first half of a control character.
    pub decided: usize,
}

impl VisibleBytes {
    /// `None` if all of the buffer is seen.
    pub fn find(mut state: EscapeState, buffer: &[u8]) -> Option<VisibleBytes> {
        let is_plain = |byte: &u8| !is_control(*byte) && *byte != C1_LEAD;
        if state == EscapeState::Text && buffer.iter().all(is_plain) {
            return None;
        }
        let mut seen = VisibleBytes { bytes: Vec::new(), at: Vec::new(), decided: buffer.len() };
        let mut index = 0;
        while let Some(&byte) = buffer.get(index) {
            let is_lead = byte == C1_LEAD && !matches!(state, EscapeState::TerminalText(_));
            match buffer.get(index + 1) {
                None if is_lead => seen.decided = index,
                Some(0x80..=0x9f) if is_lead => (state, index) = (EscapeState::Text, index + 1),
                _ if state.take(byte) => {
                    seen.bytes.push(byte);
                    seen.at.push(index);
                }
                _ => {}
            }
            index += 1;
        }
        Some(seen)
    }

    /// Where in the buffer the byte with this number is, or where the next one would be.
    pub fn position(&self, number: usize) -> usize {
        self.at.get(number).copied().unwrap_or(self.decided)
    }

    /// The part of the buffer that a range of these bytes comes from.
    pub fn range(&self, (start, end): (usize, usize)) -> (usize, usize) {
        (self.at[start], self.at[end - 1] + 1)
    }

    /// How many of these bytes are in the first `length` of the buffer.
    pub fn count_in(&self, length: usize) -> usize {
        self.at.partition_point(|at| *at < length)
    }

    /// The bytes of the buffer from `start` that are not seen.
    pub fn others(&self, buffer: &[u8], start: usize) -> Vec<u8> {
        let is_seen = |index: &usize| self.at.binary_search(index).is_ok();
        (start..self.decided).filter(|index| !is_seen(index)).map(|index| buffer[index]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sanitize::strip_controls;

    #[test]
    fn what_is_seen_is_what_stripping_leaves() {
        for text in [
            "plain \u{e9}\u{a0}\t\n",
            "\u{1b}[1;31mred\u{1b}[0m",
            "\u{1b}]0;title\u{7}x\u{1b}]8;;http://x\u{1b}\\link",
            "\u{1b}(Ba\u{1b}7b\u{1b}",
            "a\0b\u{8}c\u{85}\td\r\n",
            "\u{1b}[31\u{1b}[0mx\u{1b}\u{1b}[1my\u{1b}\u{85}z",
        ] {
            let seen = VisibleBytes::find(EscapeState::Text, text.as_bytes());
            let bytes = seen.map_or(text.as_bytes().to_vec(), |seen| seen.bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), strip_controls(text), "{text:?}");
        }
    }

    #[test]
    fn a_state_is_reached_by_its_introducer() {
        for text in ["x", "x\u{1b}", "\u{1b}(", "\u{1b}[3", "\u{1b}]0;x", "\u{1b}]0;\u{1b}"] {
            let state = EscapeState::Text.after(text.as_bytes());
            assert_eq!(EscapeState::Text.after(state.introducer()), state, "{text:?}");
        }
    }
}
