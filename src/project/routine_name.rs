//! Names of routines, which become parts of paths.

use std::fmt;

/// Bytes.
const LONGEST: usize = 100;

/// A routine's file name without its ending; never leads anywhere but into the directory it is looked for in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutineName(String);

/// Why a text is no routine's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// Nothing.
    Empty,
    /// More than a hundred bytes.
    TooLong,
    /// It would be hidden, or taken for an option.
    BadStart(char),
    /// Something that is no letter, digit, `-`, `_` or `.`.
    BadCharacter(char),
}

impl RoutineName {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        if text.is_empty() {
            return Err(BadName::Empty);
        }
        if text.len() > LONGEST {
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

    /// The text.
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
            BadName::TooLong => write!(f, "it is longer than {LONGEST} bytes"),
            BadName::BadStart(c) => write!(f, "it begins with '{c}'"),
            BadName::BadCharacter('/') => f.write_str("it has a '/': a routine is named, not its path"),
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
    fn names_that_are_file_names_are_taken() {
        for name in ["develop", "rust-develop", "a.b_c", "0", "größe", "x..y", &"x".repeat(100)] {
            assert_eq!(RoutineName::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused_with_a_reason() {
        for (name, reason) in [
            ("", "it is empty"),
            ("../../etc/x", "it has a '/': a routine is named, not its path"),
            ("/etc/x", "it has a '/': a routine is named, not its path"),
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
