//! Validated names of routines, safe to use in paths.

use std::fmt;

/// The maximum length of a name.
const MAX_BYTES: usize = 100;

/// A routine's file name without its extension. It cannot lead out of the directory it is joined to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutineName(String);

impl RoutineName {
    /// The error says why a text is not a routine name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".into());
        }
        if text.len() > MAX_BYTES {
            return Err(format!("it is longer than {MAX_BYTES} bytes"));
        }
        match text.chars().find(|&c| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.')) {
            Some('/') => return Err("it has a '/': give the routine's name, not its path".into()),
            Some(c) => {
                return Err(format!("it has {c:?}; only letters, digits, '-', '_' and '.' are allowed"));
            }
            None => {}
        }
        match text.chars().next() {
            // The file would be hidden, or the name taken for an option.
            Some(first @ ('.' | '-')) => Err(format!("it begins with '{first}'")),
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
            assert_eq!(RoutineName::parse(name).unwrap_err(), reason, "{name:?}");
        }
    }
}
