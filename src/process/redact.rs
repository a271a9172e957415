//! Masks secrets in a stream.
//!
//! Every byte of every secret is masked, also where secrets overlap, and where bytes that are not seen split one: escape sequences and
//! control characters would be removed before a person or an agent reads the rest. Only bytes that may be the beginning of a secret
//! are held back until the next bytes arrive: memory is bounded by the longest secret, not by lines.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::secrets::{SecretValue, secrets_in};
use super::visible::{EscapeState, VisibleBytes};

/// Replaces a secret in the output.
const MASK: &[u8] = b"***";
/// Tokens that actions/checkout and decree pass to git as a password.
const GIT_TOKENS: [&str; 2] = ["DECREE_GITHUB_TOKEN", "GITHUB_TOKEN"];
/// Shorter values are not masked: they occur by chance.
const MIN_VALUE_LEN: usize = 6;
/// The same limit for one line of a value.
const MIN_LINE_LEN: usize = 8;
/// How many bytes that are not seen are held back with the beginning of a secret. More of them are written before it.
const MAX_INVISIBLE: usize = 1 << 16;
/// How much of a reader is searched at once.
const CHUNK: usize = 1 << 16;

/// Replaces secrets by `***`.
pub struct Redactor {
    secrets: Vec<Vec<u8>>,
    /// The length of the longest secret.
    longest: usize,
    /// Finds out quickly that a text has no secret; `None` if there are no secrets at all.
    detector: Option<AhoCorasick>,
    /// Finds every occurrence, also those that overlap.
    finder: Option<AhoCorasick>,
    is_first: [bool; 256],
    /// Bytes that were pushed and may be the beginning of a secret.
    held: Vec<u8>,
    /// How many of the held bytes belong to a secret whose mask has already been written.
    masked: usize,
    /// The state of the stream at the first held byte.
    escape: EscapeState,
    /// Whether the stream had a secret.
    found: bool,
}

impl Redactor {
    /// Masks the secrets of an environment, as [`super::secrets`] finds them: the values of variables with the names of secrets, each
    /// line of such a value, passwords in other values, all of these in JSON escapes, and GitHub's token as it is encoded in git's
    /// config on a runner.
    pub fn from_environment(
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> Redactor {
        let mut secrets = BTreeSet::new();
        for (name, value) in variables {
            let (name, value) = (name.as_ref(), value.as_ref().as_bytes());
            for secret in secrets_in(name, value) {
                let value = match secret {
                    SecretValue::Whole(value) => value,
                    SecretValue::Part(part) => {
                        secrets.insert(part);
                        continue;
                    }
                };
                if GIT_TOKENS.iter().any(|token| name == *token) && value.trim_ascii().len() >= MIN_VALUE_LEN
                {
                    let pair = [b"x-access-token:", value.trim_ascii()].concat();
                    secrets.insert(STANDARD.encode(pair).into_bytes());
                }
                let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
                secrets.extend(lines.filter(|line| line.len() >= MIN_LINE_LEN).map(<[u8]>::to_vec));
                let forms = [value, value.trim_ascii()].into_iter();
                secrets.extend(forms.filter(|form| form.len() >= MIN_VALUE_LEN).map(<[u8]>::to_vec));
            }
        }
        let escaped = secrets.iter().flat_map(|secret| json_forms(secret)).collect::<Vec<_>>();
        secrets.extend(escaped);
        Redactor::new(secrets)
    }

    /// Masks the secrets of decree's own environment.
    pub fn of_this_process() -> Redactor {
        Redactor::from_environment(std::env::vars_os())
    }

    /// Whether the reader's content contains a secret. Independent of the stream.
    pub fn is_in(&self, mut reader: impl Read) -> io::Result<bool> {
        if self.secrets.is_empty() {
            return Ok(false);
        }
        let (detector, finder) = (self.detector.clone(), self.finder.clone());
        let mut stream = Redactor::with(self.secrets.clone(), detector, finder);
        let (mut chunk, mut out) = (vec![0; CHUNK], Vec::new());
        while !stream.found {
            match reader.read(&mut chunk) {
                Ok(0) => {
                    stream.flush(&mut out);
                    break;
                }
                Ok(length) => stream.push(&chunk[..length], &mut out),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            out.clear();
        }
        Ok(stream.found)
    }

    /// Every form of every secret.
    pub fn secrets(&self) -> impl Iterator<Item = &[u8]> {
        self.secrets.iter().map(Vec::as_slice)
    }

    /// The same without some of the secrets.
    pub fn without(&self, is_known: impl Fn(&[u8]) -> bool) -> Redactor {
        Redactor::new(self.secrets.iter().filter(|secret| !is_known(secret)).cloned().collect())
    }

    /// Whether there is anything to find.
    pub fn has_secrets(&self) -> bool {
        self.finder.is_some()
    }

    fn new(secrets: BTreeSet<Vec<u8>>) -> Redactor {
        let secrets: Vec<Vec<u8>> = secrets.into_iter().collect();
        let build = |kind| {
            let mut builder = AhoCorasick::builder();
            builder.match_kind(kind);
            (!secrets.is_empty())
                .then(|| builder.build(&secrets).expect("an environment is small enough for an automaton"))
        };
        let (detector, finder) = (build(MatchKind::LeftmostFirst), build(MatchKind::Standard));
        Redactor::with(secrets, detector, finder)
    }

    /// At the beginning of a stream.
    fn with(secrets: Vec<Vec<u8>>, detector: Option<AhoCorasick>, finder: Option<AhoCorasick>) -> Redactor {
        let mut is_first = [false; 256];
        for first in secrets.iter().filter_map(|secret| secret.first()) {
            is_first[usize::from(*first)] = true;
        }
        let longest = secrets.iter().map(Vec::len).max().unwrap_or(0);
        let (held, escape) = (Vec::new(), EscapeState::Text);
        Redactor { secrets, longest, detector, finder, is_first, held, masked: 0, escape, found: false }
    }

    /// Adds bytes to the stream, and appends to `out` all that cannot be part of a longer secret.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.secrets.is_empty() {
            out.extend_from_slice(bytes);
            return;
        }
        let mut buffer = std::mem::take(&mut self.held);
        buffer.extend_from_slice(bytes);
        let seen = VisibleBytes::find(self.escape, &buffer);
        let mut hold = self.hold_from(&buffer);
        if let Some(seen) = &seen {
            hold = hold.min(seen.position(self.hold_from(&seen.bytes)));
        }
        let end = self.emit(&buffer, seen.as_ref(), hold, out);
        self.masked = end - hold;
        self.escape = self.escape.after(&buffer[..hold]);
        buffer.drain(..hold);
        self.held = buffer;
        self.limit_held(out);
    }

    /// Writes what is not seen among the held bytes before them, if that is much.
    fn limit_held(&mut self, out: &mut Vec<u8>) {
        if self.held.len() <= self.longest + MAX_INVISIBLE {
            return;
        }
        let Some(seen) = VisibleBytes::find(self.escape, &self.held) else { return };
        out.extend(seen.others(&self.held, self.masked));
        let (decided, undecided) = self.held.split_at(seen.decided);
        let state = self.escape.after(decided);
        self.masked = seen.count_in(self.masked);
        self.held = [&seen.bytes[..], state.introducer(), undecided].concat();
        self.escape = EscapeState::Text;
    }

    /// Ends the stream: appends the bytes that were held back.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        let buffer = std::mem::take(&mut self.held);
        let seen = VisibleBytes::find(self.escape, &buffer);
        self.emit(&buffer, seen.as_ref(), buffer.len(), out);
        (self.masked, self.escape) = (0, EscapeState::Text);
    }

    /// Masks a whole text. Independent of the stream.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let seen =
            self.detector.as_ref().and_then(|_| VisibleBytes::find(EscapeState::Text, text.as_bytes()));
        let matches = self.matches(text.as_bytes(), seen.as_ref());
        if matches.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len());
        write_masked(text.as_bytes(), text.len(), &matches, 0, &mut out);
        Cow::Owned(String::from_utf8_lossy(&out).into_owned())
    }

    /// Appends `buffer[..hold]`, masked. Returns the end of the last secret that begins before `hold`, or `hold` if that is
    /// greater.
    fn emit(&mut self, buffer: &[u8], seen: Option<&VisibleBytes>, hold: usize, out: &mut Vec<u8>) -> usize {
        let matches = self.matches(buffer, seen);
        self.found |= !matches.is_empty();
        if matches.is_empty() && self.masked == 0 {
            out.extend_from_slice(&buffer[..hold]);
            return hold;
        }
        write_masked(buffer, hold, &matches, self.masked, out)
    }

    /// The ranges of all secrets, sorted by start; they may overlap.
    fn matches(&self, buffer: &[u8], seen: Option<&VisibleBytes>) -> Vec<(usize, usize)> {
        let mut found = self.matches_in(buffer);
        if let Some(seen) = seen {
            found.extend(self.matches_in(&seen.bytes).into_iter().map(|range| seen.range(range)));
        }
        found.sort_unstable();
        found
    }

    fn matches_in(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        match (&self.detector, &self.finder) {
            (Some(detector), Some(finder)) if detector.is_match(bytes) => {
                finder.find_overlapping_iter(bytes).map(|found| (found.start(), found.end())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The position of the first bytes that may begin a secret which is not yet complete in the buffer.
    fn hold_from(&self, buffer: &[u8]) -> usize {
        let from = (buffer.len() + 1).saturating_sub(self.longest);
        (from..buffer.len())
            .filter(|start| self.is_first[usize::from(buffer[*start])])
            .find(|start| {
                let end = &buffer[*start..];
                // The secrets are sorted, so those with this prefix come right after it.
                let after = self.secrets.partition_point(|secret| secret.as_slice() <= end);
                self.secrets.get(after).is_some_and(|secret| secret.starts_with(end))
            })
            .unwrap_or(buffer.len())
    }
}

/// Writes `buffer[..hold]` with each run of overlapping secrets as one mask. The first `masked` bytes belong to a secret whose
/// mask was already written. Returns the end of the last secret, or `hold` if that is greater.
fn write_masked(
    buffer: &[u8],
    hold: usize,
    secrets: &[(usize, usize)],
    masked: usize,
    out: &mut Vec<u8>,
) -> usize {
    let mut position = masked;
    for &(start, end) in secrets.iter().take_while(|(start, _)| *start < hold) {
        if start >= position {
            out.extend_from_slice(&buffer[position..start]);
            out.extend_from_slice(MASK);
        }
        position = position.max(end);
    }
    if position < hold {
        out.extend_from_slice(&buffer[position..hold]);
    }
    position.max(hold)
}

/// The forms of a secret in JSON that differ from the secret itself: with minimal escapes, and with all non-ASCII characters
/// escaped.
fn json_forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(secret) else { return Vec::new() };
    let quoted = serde_json::to_string(text).expect("a text is plain data");
    let escaped = &quoted[1..quoted.len() - 1];
    let mut ascii = String::with_capacity(escaped.len());
    for c in escaped.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| ascii.push_str(&format!("\\u{unit:04x}")));
        }
    }
    let forms = [escaped.as_bytes().to_vec(), ascii.into_bytes()];
    forms.into_iter().filter(|form| form != secret).collect()
}

#[cfg(test)]
mod tests;
