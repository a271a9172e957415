//! Validated names of routines, safe to use in paths.

use std::fmt;

/// The maximum length of a name.
const MAX_BYTES: usize = 100;

/// A routine's file name without its extension. It cannot lead out of the directory it is joined to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutineName(String);

/// Why a text is not a routine name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    Empty,
    TooLong,
    /// The file would be hidden, or the name taken for an option.
    BadStart(char),
    /// Not a letter, digit, `-`, `_` or `.`.
    BadCharacter(char),
}

impl RoutineName {
    pub fn parse(text: &str) -> Result<Self, BadName> {
        if text.is_empty() {
            return Err(BadName::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(BadName::TooLong);
        }
        if let Some(bad) = text.chars().find(|&c| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.')) {
            return Err(BadName::BadCharacter(bad));
        }
        match text.chars().next() {
            Some(bad @ ('.' | '-')) => Err(BadName::BadStart(bad)),
            _ => Ok(RoutineName(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RoutineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadName::Empty => f.write_str("it is empty"),
            BadName::TooLong => write!(f, "it is longer than {MAX_BYTES} bytes"),
            BadName::BadStart(c) => write!(f, "it begins with '{c}'"),
            BadName::BadCharacter('/') => f.write_str("it has a '/': give the routine's name, not its path"),
            BadName::BadCharacter(c) => {
                write!(f, "it has {c:?}; only letters, digits, '-', '_' and '.' are allowed")
            }
        }
    }
}

impl std::error::Error for BadName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_file_names_are_accepted() {
        for name in ["develop", "rust-develop", "a.b_c", "0", "größe", "x..y", &"x".repeat(100)] {
            assert_eq!(RoutineName::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn other_names_are_rejected_with_a_reason() {
        for (name, reason) in [
            ("", "it is empty"),
            ("../../etc/x", "it has a '/': give the routine's name, not its path"),
            ("/etc/x", "it has a '/': give the routine's name, not its path"),
            ("..", "it begins with '.'"),
            (".hidden", "it begins with '.'"),
            ("-rf", "it begins with '-'"),
            ("a b", "it has ' '; only letters, digits, '-', '_' and '.' are allowed"),
            ("a\nb", "it has '\\n'; only letters, digits, '-', '_' and '.' are allowed"),
            ("a\0", "it has '\\0'; only letters, digits, '-', '_' and '.' are allowed"),
            (&"é".repeat(51), "it is longer than 100 bytes"),
        ] {
            assert_eq!(RoutineName::parse(name).unwrap_err().to_string(), reason, "{name:?}");
        }
    }
}
