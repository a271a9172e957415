//! Validated values, a repository's name and a comment's key, and how they are encoded.

use std::fmt::{self, Write};

use crate::error::{Error, Result};

/// A repository as `OWNER/NAME`, safe to use in a URL without encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoName {
    pub owner: String,
    name: String,
}

impl RepoName {
    /// Parses `OWNER/NAME`; rejects anything that would need encoding.
    pub fn parse(text: &str) -> Result<Self> {
        let is_word = |word: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            (1..=100).contains(&word.len()) && word.bytes().all(allowed) && word != "." && word != ".."
        };
        match text.split_once('/') {
            Some((owner, name)) if is_word(owner) && is_word(name) => {
                Ok(RepoName { owner: owner.to_owned(), name: name.to_owned() })
            }
            _ => Err(Error::usage(format!("{text:?} is not a repository name"))
                .hint("use OWNER/NAME, as in octocat/hello-world")),
        }
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// The maximum length of a key in bytes.
const LONGEST_KEY: usize = 300;

/// Identifies one of decree's comments on a pull request: each key has its own comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentKey(String);

impl CommentKey {
    /// Accepts any text of 1 to 300 bytes.
    pub fn new(text: &str) -> Result<Self> {
        match text.len() {
            1..=LONGEST_KEY => Ok(CommentKey(text.to_owned())),
            0 => Err(Error::usage("a comment's key cannot be empty")),
            _ => Err(Error::usage(format!("a comment's key cannot be longer than {LONGEST_KEY} bytes"))),
        }
    }

    /// The hidden first line by which the comment is found. No key can close it early, and no two keys share one.
    pub fn marker(&self) -> String {
        let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte);
        // Two hyphens in a row could close the HTML comment.
        let text = percent(&self.0, kept).replace("--", "-%2D");
        format!("<!-- decree:v1 key={text} -->")
    }
}

/// Encodes every byte that `keep` rejects as `%XX`. `%` itself is always encoded, so the encoding is unambiguous.
fn percent(text: &str, keep: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte != b'%' && byte.is_ascii_graphic() && keep(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Encodes a query value or one segment of a URL's path.
pub fn url_component(text: &str) -> String {
    percent(text, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repository_is_an_owner_and_a_name() {
        assert_eq!(RepoName::parse("octo-org/a.b_c").unwrap().to_string(), "octo-org/a.b_c");
        for bad in ["", "octo", "octo/", "/x", "a/b/c", "a/..", "../x", "a/b?c", "a/b c", "a/é", "a/b\n"] {
            assert!(RepoName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_marker_shows_plain_keys_unencoded() {
        let marker = |key: &str| CommentKey::new(key).unwrap().marker();
        assert_eq!(marker("ci/process"), "<!-- decree:v1 key=ci/process -->");
        assert_eq!(marker("a --> b"), "<!-- decree:v1 key=a%20-%2D%3E%20b -->");
        assert_eq!(marker("---"), "<!-- decree:v1 key=-%2D- -->");
        assert!(CommentKey::new("").is_err() && CommentKey::new(&"x".repeat(301)).is_err());
    }

    #[test]
    fn text_stays_one_segment_of_a_url() {
        assert_eq!(url_component("octo:fix/a b&c=d#1%é"), "octo%3Afix%2Fa%20b%26c%3Dd%231%25%C3%A9");
    }

    proptest! {
        #[test]
        fn two_keys_have_the_same_marker_only_if_they_are_equal(a in "[-%2D> é]{1,8}", b in "[-%2D> é]{1,8}") {
            let (one, two) = (CommentKey::new(&a).unwrap().marker(), CommentKey::new(&b).unwrap().marker());
            prop_assert_eq!(one == two, a == b);
            let inner = one.strip_prefix("<!--").unwrap().strip_suffix("-->").unwrap();
            prop_assert!(!inner.contains("--") && !inner.contains('>'));
        }
    }
}
