//! A part of the tree, as `--scope` names it: paths, with all that is below them, and patterns.

use std::path::{Component, Path, PathBuf};

use crate::checkpoint::ignore::PatternList;
use crate::checkpoint::live_database::database_name;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;
use crate::error::{Error, Result};

/// Whether something is, or was, at a path.
pub type PathExists<'k> = dyn Fn(&TreePath) -> bool + 'k;

/// The words of `--scope`. What they mean depends on the type of the checkpoint, which reads them.
#[derive(Clone, Debug, Default)]
pub struct ScopeWords {
    pub list: Vec<String>,
    /// Where the user typed them.
    pub directory: PathBuf,
    /// Whether a new checkpoint may have words that match nothing yet.
    pub allow_missing: bool,
}

/// The whole tree, or what some patterns cover.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    patterns: Vec<String>,
    list: PatternList,
    /// Whether a new checkpoint may have patterns that match nothing yet.
    pub allow_missing: bool,
}

impl Scope {
    /// Reads the words of `--scope`. A path stands for itself and all that is below it; in a pattern `*`, `?` and
    /// `[…]` mean what they mean in `.gitignore`, unless a path of exactly that name exists, now or according to `known`. No words mean
    /// the whole tree.
    pub fn parse(words: &ScopeWords, root: &Root, known: &PathExists<'_>) -> Result<Scope> {
        let directory = words.directory.canonicalize().unwrap_or_else(|_| words.directory.clone());
        let below = directory.strip_prefix(root.path()).unwrap_or(Path::new(""));
        let known = |path: &TreePath| root.find(path).is_ok_and(|found| found.is_some()) || known(path);
        let patterns = words.list.iter().map(|word| pattern(word, root.path(), below, &known));
        let scope = Scope::from_record(patterns.collect::<Result<Vec<_>>>()?);
        Ok(Scope { allow_missing: words.allow_missing, ..scope })
    }

    /// Patterns as [`Scope::patterns`] gave them.
    pub fn from_record(patterns: Vec<String>) -> Scope {
        let list = PatternList::parse(patterns.join("\n").as_bytes());
        Scope { patterns, list, allow_missing: false }
    }

    /// The patterns for a record; empty for the whole tree.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    pub fn is_everything(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a path belongs to it. A database belongs to it together with the files that SQLite puts beside it.
    pub fn covers(&self, path: &TreePath) -> bool {
        let covers = |path: &[u8]| self.list.covers(path);
        self.is_everything() || covers(path.as_bytes()) || database_name(path.as_bytes()).is_some_and(covers)
    }
}

/// A word as a pattern relative to the root, so that it means the same wherever it is read again.
fn pattern(word: &str, root: &Path, below: &Path, known: &PathExists<'_>) -> Result<String> {
    let wrong = |why: &str| Error::usage(format!("'{}' cannot be a scope: {why}", word.escape_debug()));
    if word.is_empty() || word.contains(['\n', '\r', '\0']) {
        return Err(wrong("it is not a path"));
    }
    let word_path = Path::new(word);
    let typed = word_path.strip_prefix(root).map_or_else(|_| below.join(word_path), Path::to_owned);
    let inner = inner_path(&typed).ok_or_else(|| wrong("it leads out of the project"))?;
    let text = inner.to_str().ok_or_else(|| wrong("it is not UTF-8"))?;
    let is_there = || TreePath::new(text.as_bytes()).is_ok_and(|path| known(&path));
    let is_pattern = text.contains(['*', '?', '[']) && !is_there();
    Ok(match (text, is_pattern) {
        ("", _) => "*".to_owned(),
        // A pattern without a slash matches at any depth.
        (text, true) if !word.contains('/') && below.as_os_str().is_empty() => text.to_owned(),
        (text, true) => format!("/{text}"),
        (text, false) => format!("/{}", literal(text)),
    })
}

/// A path relative to the project, without `.` and `..`; `None` if it leads out of the project.
pub(super) fn inner_path(typed: &Path) -> Option<PathBuf> {
    let mut inner = PathBuf::new();
    for part in typed.components() {
        match part {
            Component::Normal(name) => inner.push(name),
            Component::CurDir => {}
            Component::ParentDir if inner.pop() => {}
            _ => return None,
        }
    }
    Some(inner)
}

/// A pattern that matches only this path.
fn literal(text: &str) -> String {
    let kept = text.trim_end_matches(' ');
    let mut pattern = String::new();
    for c in kept.chars() {
        if matches!(c, '\\' | '*' | '?' | '[' | ']') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    // Trailing blanks would be ignored.
    pattern.extend(std::iter::repeat_n("\\ ", text.len() - kept.len()));
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(words: &[&str], below: &str, path: &str) -> bool {
        let is_known =
            |path: &TreePath| path.as_bytes().starts_with(b"app/[id]") || path.as_bytes() == b"f[1]";
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let patterns = words
            .iter()
            .map(|word| pattern(word, Path::new("/project"), Path::new(below), &is_known).unwrap());
        Scope::from_record(patterns.collect()).covers(&TreePath::new(path.as_bytes()).unwrap())
    }

    #[test]
    fn a_path_stands_for_itself_and_all_below_it() {
        assert!(covered(&["src"], "", "src/deep/a.rs") && covered(&["src/a.rs"], "", "src/a.rs"));
        assert!(!covered(&["src"], "", "lib/src/a.rs") && !covered(&["src"], "", "src.rs"));
        assert!(covered(&["a.rs"], "src", "src/a.rs") && !covered(&["a.rs"], "src", "a.rs"));
        assert!(covered(&["../docs"], "src", "docs/x") && covered(&["/project/docs"], "src", "docs/x"));
        assert!(covered(&["#x", "!y", "a b "], "", "#x") && covered(&["!y"], "", "!y/z"));
        assert!(covered(&["."], "", "any/thing") && covered(&[], "", "any/thing"));
        assert!(covered(&["."], "src", "src/x") && !covered(&["."], "src", "x"));
    }

    #[test]
    fn a_database_stands_for_the_files_beside_it_too() {
        assert!(covered(&["app.db"], "", "app.db-wal") && covered(&["*.db"], "", "data/app.db-journal"));
        assert!(!covered(&["app.db-wal"], "", "app.db") && !covered(&["app.db"], "", "app.db-other"));
    }

    #[test]
    fn a_pattern_matches_as_in_an_ignore_file() {
        assert!(covered(&["*.rs"], "", "src/a.rs") && !covered(&["*.rs"], "", "src/a.txt"));
        assert!(covered(&["src/*.rs"], "", "src/a.rs") && !covered(&["src/*.rs"], "", "src/deep/a.rs"));
        assert!(covered(&["src/**/*.rs"], "", "src/very/deep/a.rs"));
        assert!(covered(&["*.rs"], "src", "src/a.rs") && !covered(&["*.rs"], "src", "lib/a.rs"));
    }

    #[test]
    fn a_name_that_looks_like_a_pattern_is_a_name_where_there_is_one() {
        assert!(covered(&["f[1]"], "", "f[1]") && !covered(&["f[1]"], "", "f1"));
        assert!(covered(&["f[2]"], "", "f2"));
        assert!(
            covered(&["app/[id]/page.tsx"], "", "app/[id]/page.tsx")
                && !covered(&["app/[id]"], "", "app/i/x")
        );
        assert!(covered(&["d "], "", "d ") && !covered(&["d "], "", "d"));
        assert!(covered(&["d  /x"], "", "d  /x") && covered(&["a\\"], "", "a\\/x"));
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for word in ["..", "../x", "a/../../x", "/etc", "", "a\nb"] {
            assert!(pattern(word, Path::new("/project"), Path::new(""), &|_| false).is_err(), "{word:?}");
        }
    }
}
