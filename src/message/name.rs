//! Names of messages, which are also their file names in the inbox.

use std::fmt;

use super::ChainId;
use crate::stemming::{is_stop_word, words};

/// How the file name of a spec ends.
pub const SPEC_EXTENSION: &str = ".spec.md";

/// In characters, not bytes.
const MAX_CHARS: usize = 50;

/// How many words of a prompt make a name.
const MAX_WORDS: usize = 4;

/// Lower-case words joined by single dashes; never empty, at most fifty characters.
///
/// So it is always a safe file name: no `/`, no dot, no dash at either end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageName(String);

impl MessageName {
    /// Makes a name of any text: letters and digits in lower case, everything else becomes a dash. `None` if nothing is left.
    pub fn kebab(text: &str) -> Option<Self> {
        let mut name = String::new();
        let mut length = 0;
        let mut gap = false;
        // One more character than allowed, to know whether the limit splits a word.
        for c in text.chars().flat_map(char::to_lowercase) {
            if !c.is_alphanumeric() {
                // A combining mark, such as the dot that `İ` keeps in lower case, does not separate words.
                gap |= !('\u{300}'..='\u{36f}').contains(&c);
                continue;
            }
            if gap && length > 0 {
                name.push('-');
                length += 1;
            }
            gap = false;
            name.push(c);
            length += 1;
            if length > MAX_CHARS + 1 {
                break;
            }
        }
        let name = truncate(name, MAX_CHARS);
        (!name.is_empty()).then_some(MessageName(name))
    }

    /// This name, or the first of `name-2`, `name-3`, … that is not taken.
    pub fn unique(self, taken: impl Fn(&str) -> bool) -> Self {
        if !taken(&self.0) {
            return self;
        }
        let numbered = |number: u64| {
            let ending = format!("-{number}");
            MessageName(format!("{}{ending}", truncate(self.0.clone(), MAX_CHARS - ending.len())))
        };
        (2..).map(numbered).find(|name| !taken(&name.0)).expect("no inbox has so many messages")
    }

    /// The name of a spec file: `specs/01-add-auth.spec.md` becomes `01-add-auth`.
    pub fn from_spec_file(path: &str) -> Option<Self> {
        let file = path.rsplit('/').next().unwrap_or(path);
        Self::kebab(file.strip_suffix(SPEC_EXTENSION).or_else(|| file.strip_suffix(".md")).unwrap_or(file))
    }

    /// The first words of a prompt without stop words: `fix the auth type errors` becomes `fix-auth-type-errors`.
    pub fn from_prompt(text: &str) -> Option<Self> {
        // Skips lines of dashes or code fences.
        let line = text.lines().find(|line| line.contains(char::is_alphanumeric))?;
        let sentence = first_sentence(line);
        let mut chosen: Vec<String> =
            words(sentence).filter(|word| !is_stop_word(word)).take(MAX_WORDS).collect();
        if chosen.is_empty() {
            chosen = words(sentence).take(MAX_WORDS).collect();
        }
        Self::kebab(&chosen.join(" "))
    }

    /// The name of a message that has no text to name it after.
    pub fn fallback(chain: &ChainId) -> Self {
        MessageName(format!("run-{chain}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Truncates to a number of characters, at a dash if that keeps at least half of them.
fn truncate(mut name: String, limit: usize) -> String {
    if let Some((end, next)) = name.char_indices().nth(limit) {
        name.truncate(end);
        if next != '-'
            && let Some(dash) = name.rfind('-')
            && name[..dash].chars().count() * 2 >= limit
        {
            name.truncate(dash);
        }
    }
    name.truncate(name.trim_end_matches('-').len());
    name
}

/// The text before the first full stop, question mark or exclamation mark at the end of a word.
fn first_sentence(line: &str) -> &str {
    let mut ends = line.char_indices().filter(|(_, c)| matches!(c, '.' | '!' | '?'));
    let end = ends.find(|&(at, c)| {
        let after = line[at + c.len_utf8()..].chars().next();
        after.is_none_or(char::is_whitespace) && line[..at].contains(char::is_alphanumeric)
    });
    &line[..end.map_or(line.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kebab(text: &str) -> Option<String> {
        MessageName::kebab(text).map(|name| name.0)
    }

    fn prompt(text: &str) -> String {
        MessageName::from_prompt(text).map_or(String::new(), |name| name.0)
    }

    #[test]
    fn any_text_becomes_a_file_name() {
        for (text, name) in [
            ("Fix Auth Types", "fix-auth-types"),
            ("  --a__b..c//d--  ", "a-b-c-d"),
            ("../../etc/passwd", "etc-passwd"),
            ("Größe ÄNDERN", "größe-ändern"),
            ("İstanbul", "istanbul"),
            ("修复 登录", "修复-登录"),
            ("v1.2", "v1-2"),
        ] {
            assert_eq!(kebab(text).as_deref(), Some(name), "{text}");
        }
        for text in ["", ".", "..", "---", "/", "\0", "🎉 …"] {
            assert_eq!(kebab(text), None, "{text:?}");
        }
    }

    #[test]
    fn long_names_are_cut_between_words_when_that_leaves_enough() {
        let name = kebab("add a search box that finds specs by their title and body").unwrap();
        assert_eq!(name, "add-a-search-box-that-finds-specs-by-their-title");
        assert_eq!(kebab(&"x".repeat(80)).unwrap(), "x".repeat(50));
        assert_eq!(kebab(&format!("a {}", "x".repeat(80))).unwrap(), format!("a-{}", "x".repeat(48)));
        let exact = format!("{} {}", "a".repeat(30), "b".repeat(19));
        assert_eq!(kebab(&format!("{exact} c")).unwrap(), exact.replace(' ', "-"));
        assert_eq!(kebab(&exact).unwrap(), exact.replace(' ', "-"));
        assert_eq!(kebab(&"é".repeat(80)).unwrap().chars().count(), 50);
    }

    #[test]
    fn a_taken_name_gets_a_number_and_stays_short() {
        let name = MessageName::kebab("add auth").unwrap();
        assert_eq!(name.clone().unique(|_| false).as_str(), "add-auth");
        assert_eq!(name.unique(|taken| ["add-auth", "add-auth-2"].contains(&taken)).as_str(), "add-auth-3");
        let long = MessageName::kebab(&"x".repeat(50)).unwrap();
        assert_eq!(long.unique(|taken| !taken.ends_with("-2")).as_str(), format!("{}-2", "x".repeat(48)));
    }

    #[test]
    fn a_spec_is_named_after_its_file() {
        let name = |path| MessageName::from_spec_file(path).map(|name| name.0);
        assert_eq!(name("specs/01-add-auth.spec.md").as_deref(), Some("01-add-auth"));
        assert_eq!(name("02 Export.spec.md").as_deref(), Some("02-export"));
        assert_eq!(name("notes.md").as_deref(), Some("notes"));
        assert_eq!(name("specs/.spec.md"), None);
    }

    #[test]
    fn a_prompt_is_named_after_its_first_significant_words() {
        for (text, name) in [
            ("fix the auth type errors", "fix-auth-type-errors"),
            ("Please fix it. Then test everything.", "fix"),
            ("\n# Add OAuth 2.0 login!\n\nmore", "add-oauth-2-0"),
            ("Don't break src/main.rs", "dont-break-src-main"),
            ("```\nrename Config to Settings\n```", "rename-config-settings"),
            ("do it", "do-it"),
            ("...", ""),
            ("", ""),
        ] {
            assert_eq!(prompt(text), name, "{text}");
        }
    }

    #[test]
    fn nothing_to_go_by_is_named_after_the_chain() {
        let chain = ChainId::parse("2025022514320000").unwrap();
        let name = MessageName::fallback(&chain);
        assert_eq!(name.as_str(), "run-2025022514320000");
        assert_eq!(MessageName::kebab(name.as_str()), Some(name), "it is a valid name");
    }

    proptest! {
        #[test]
        fn every_name_is_a_plain_file_name(text in "\\PC{0,120}", number in 2u64..2_000_000) {
            for name in [MessageName::kebab(&text), MessageName::from_prompt(&text)].into_iter().flatten() {
                let numbered = name.clone().unique(|taken| !taken.ends_with(&format!("-{number}")) && number < 50);
                for name in [name, numbered] {
                    prop_assert!(name.0.chars().count() <= MAX_CHARS && !name.0.is_empty());
                    prop_assert!(name.0.chars().all(|c| c.is_alphanumeric() || c == '-'));
                    prop_assert!(!name.0.starts_with('-') && !name.0.ends_with('-') && !name.0.contains("--"));
                    prop_assert_eq!(MessageName::kebab(&name.0), Some(name));
                }
            }
        }
    }
}
