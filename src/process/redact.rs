//! Masks secrets in a stream.
//!
//! Every byte of every secret is masked, also where secrets overlap. Only bytes that may be the beginning of a secret are
//! held back until the next bytes arrive: memory is bounded by the longest secret, not by lines.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::secrets::{SecretValue, secrets_in};

/// Replaces a secret in the output.
const MASK: &[u8] = b"***";
/// Tokens that actions/checkout and decree pass to git as a password.
const GIT_TOKENS: [&str; 2] = ["DECREE_GITHUB_TOKEN", "GITHUB_TOKEN"];
/// Shorter values are not masked: they occur by chance.
const MIN_VALUE_LEN: usize = 6;
/// The same limit for one line of a value.
const MIN_LINE_LEN: usize = 8;

/// Replaces secrets by `***`.
pub struct Redactor {
    secrets: Vec<Vec<u8>>,
    /// Finds out quickly that a text has no secret; `None` if there are no secrets at all.
    detector: Option<AhoCorasick>,
    /// Finds every occurrence, also those that overlap.
    finder: Option<AhoCorasick>,
    is_first: [bool; 256],
    /// Bytes that were pushed and may be the beginning of a secret.
    held: Vec<u8>,
    /// How many of the held bytes belong to a secret whose mask has already been written.
    masked: usize,
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
    pub fn is_in(&self, reader: impl Read) -> io::Result<bool> {
        match &self.finder {
            Some(finder) => Ok(finder.stream_find_iter(reader).next().transpose()?.is_some()),
            None => Ok(false),
        }
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
        let mut is_first = [false; 256];
        for first in secrets.iter().filter_map(|secret| secret.first()) {
            is_first[usize::from(*first)] = true;
        }
        let (detector, finder) = (build(MatchKind::LeftmostFirst), build(MatchKind::Standard));
        Redactor { secrets, detector, finder, is_first, held: Vec::new(), masked: 0 }
    }

    /// Adds bytes to the stream, and appends to `out` all that cannot be part of a longer secret.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.secrets.is_empty() {
            out.extend_from_slice(bytes);
            return;
        }
        let mut buffer = std::mem::take(&mut self.held);
        buffer.extend_from_slice(bytes);
        let hold = self.hold_from(&buffer);
        let end = self.emit(&buffer, hold, out);
        self.masked = end - hold;
        buffer.drain(..hold);
        self.held = buffer;
    }

    /// Ends the stream: appends the bytes that were held back.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        let buffer = std::mem::take(&mut self.held);
        self.emit(&buffer, buffer.len(), out);
        self.masked = 0;
    }

    /// Masks a whole text. Independent of the stream.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.detector.as_ref().is_some_and(|detector| detector.is_match(text)) {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len());
        write_masked(text.as_bytes(), text.len(), &self.matches(text.as_bytes()), 0, &mut out);
        Cow::Owned(String::from_utf8_lossy(&out).into_owned())
    }

    /// Appends `buffer[..hold]`, masked. Returns the end of the last secret that begins before `hold`, or `hold` if that is
    /// greater.
    fn emit(&self, buffer: &[u8], hold: usize, out: &mut Vec<u8>) -> usize {
        let none =
            self.masked == 0 && !self.detector.as_ref().is_some_and(|detector| detector.is_match(buffer));
        if none {
            out.extend_from_slice(&buffer[..hold]);
            return hold;
        }
        write_masked(buffer, hold, &self.matches(buffer), self.masked, out)
    }

    /// The ranges of all secrets, sorted by start; they may overlap.
    fn matches(&self, buffer: &[u8]) -> Vec<(usize, usize)> {
        let Some(finder) = &self.finder else { return Vec::new() };
        let mut found: Vec<_> =
            finder.find_overlapping_iter(buffer).map(|found| (found.start(), found.end())).collect();
        found.sort_unstable();
        found
    }

    /// The position of the first bytes that may begin a secret which is not yet complete in the buffer.
    fn hold_from(&self, buffer: &[u8]) -> usize {
        let longest = self.secrets.iter().map(Vec::len).max().unwrap_or(0);
        let from = (buffer.len() + 1).saturating_sub(longest);
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(secrets.iter().map(|secret| secret.as_bytes().to_vec()).collect())
    }

    fn stream(redactor: &mut Redactor, bytes: &[u8], size: usize) -> String {
        let mut out = Vec::new();
        for chunk in bytes.chunks(size) {
            redactor.push(chunk, &mut out);
        }
        redactor.flush(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn secrets_are_found_by_the_names_of_their_variables() {
        let redactor = Redactor::from_environment([
            ("A_TOKEN", "tok-123456"),
            ("b_key", "key-123456"),
            ("C_Secret", "sec-123456"),
            ("D_PASSWORD", "pass12"),
            ("PGPASSWORD", "postgres-1"),
            ("E_PASSWORD", "short"),
            ("F_TOKEN_FILE", "/a/file/name"),
            ("KEYS", "not-secret"),
            ("PEM_KEY", "-----BEGIN-----\nMIIEabcdefgh\nshort\n-----END-----\n"),
        ]);
        let text = "tok-123456 key-123456 sec-123456 pass12 postgres-1 short /a/file/name not-secret";
        assert_eq!(redactor.redact(text), "*** *** *** *** *** short /a/file/name not-secret");
        assert_eq!(redactor.redact("  MIIEabcdefgh\r\n  short"), "  ***\r\n  short");
        assert_eq!(redactor.redact("-----BEGIN-----\nMIIEabcdefgh\nshort\n-----END-----"), "***");
        assert!(matches!(redactor.redact("nothing here"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_secret_is_masked_in_json_too() {
        let redactor = Redactor::from_environment([("A_KEY", "pass\"wo\\rd\n12345678")]);
        assert_eq!(redactor.redact(r#"{"a":"pass\"wo\\rd\n12345678"}"#), r#"{"a":"***"}"#);
        assert_eq!(redactor.redact("pass\"wo\\rd"), "***");
        assert!(redactor.is_in(&br#"xx12345678"#[..]).unwrap());
        assert!(!redactor.is_in(&b"xx1234567"[..]).unwrap());
        let redactor = Redactor::from_environment([("A_KEY", "p\u{e4}ssw\u{1f511}rd")]);
        assert_eq!(redactor.redact("<p\\u00e4ssw\\ud83d\\udd11rd> <p\u{e4}ssw\u{1f511}rd>"), "<***> <***>");
    }

    #[test]
    fn a_token_is_masked_in_git_config_too() {
        let redactor = Redactor::from_environment([("GITHUB_TOKEN", "ghs_0123456789")]);
        let setting = "http.https://github.com/.extraheader=AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46Z2hzXzAxMjM0NTY3ODk=";
        assert_eq!(redactor.redact(setting), "http.https://github.com/.extraheader=AUTHORIZATION: basic ***");
    }

    #[test]
    fn a_secret_split_across_chunks_is_masked() {
        let text = b"before hunter22 between hunter22hunter22 hunter2 after";
        for size in 1..=text.len() {
            let out = stream(&mut redactor(&["hunter22"]), text, size);
            assert_eq!(out, "before *** between ****** hunter2 after", "by {size}");
        }
    }

    #[test]
    fn overlapping_secrets_are_masked_completely() {
        for size in 1..30 {
            let mut found = redactor(&["abcdef", "abcdefghi", "efghijkl", "aaaaaa"]);
            assert_eq!(stream(&mut found, b"<abcdefghi>", size), "<***>");
            assert_eq!(stream(&mut found, b"<abcdefgh>", size), "<***gh>");
            assert_eq!(stream(&mut found, b"<abcdefghijkl>", size), "<***>");
            assert_eq!(stream(&mut found, b"<aaaaaaaaaaaaaaa>", size), "<***>");
            assert_eq!(stream(&mut found, b"<aaaaabcdef>", size), "<aaaa***>");
        }
    }

    #[test]
    fn what_cannot_be_a_secret_is_not_held_back() {
        let mut redactor = redactor(&["hunter22", &"x".repeat(4000)]);
        let mut out = Vec::new();
        redactor.push(b"Continue? [y/n] ", &mut out);
        assert_eq!(out, b"Continue? [y/n] ");
        redactor.push(b"hunt", &mut out);
        assert_eq!(out.len(), 16);
        redactor.push(b"ing", &mut out);
        assert_eq!(&out[16..], b"hunting");
    }

    #[test]
    fn memory_is_bounded_by_the_longest_secret() {
        let mut redactor = redactor(&["aaaaaaaa", "aaaaaaab"]);
        let mut out = Vec::new();
        for _ in 0..1000 {
            redactor.push(&[b'a'; 100], &mut out);
            assert!(redactor.held.len() < 8);
        }
        assert_eq!(out, b"***");
    }

    #[test]
    fn without_secrets_everything_passes() {
        assert_eq!(stream(&mut redactor(&[]), b"anything", 3), "anything");
    }

    proptest! {
        /// The result does not depend on where the stream is split, and equals hiding every byte of every secret.
        #[test]
        fn chunk_sizes_make_no_difference(
            secrets in prop::collection::btree_set("[ab]{6,9}", 1..5),
            text in "[abc]{0,80}",
            size in 1..20usize,
        ) {
            let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let out = stream(&mut redactor(&secrets), text.as_bytes(), size);
            let mut hidden = vec![false; text.len()];
            for start in 0..text.len() {
                for secret in &secrets {
                    if text[start..].starts_with(secret) {
                        hidden[start..start + secret.len()].fill(true);
                    }
                }
            }
            let shown: String = text.chars().zip(&hidden).filter(|(_, hidden)| !**hidden).map(|(c, _)| c).collect();
            prop_assert_eq!(out.replace('*', ""), shown);
            prop_assert_eq!(redactor(&secrets).redact(&text).into_owned(), out);
        }
    }
}
