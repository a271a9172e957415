//! The rules of the source tree, enforced: unique type names, layers without cycles, a complete map, file names in one place.
//!
//! Each rule is a pure function over [`Source`], so that a second test plants a violation and sees it reported.

mod contributing;
mod disk_names;
mod layers;
mod map;
mod names;
mod size;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The Rust files below `src/`, by their path relative to it, with comments and unit tests removed.
struct Source(BTreeMap<String, String>);

impl Source {
    fn read() -> Source {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut paths = Vec::new();
        super::criteria::files(&root, ".rs", &mut paths);
        let name = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        Source(paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect())
    }

    /// The real tree with one file added or replaced.
    fn with(mut self, path: &str, text: &str) -> Source {
        self.0.insert(path.to_owned(), text.to_owned());
        self
    }

    /// Code only: a unit test may use anything, and a comment uses nothing.
    fn code(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().filter(|(path, _)| !path.ends_with("tests.rs")).map(|(path, text)| {
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            (path.as_str(), lines.collect::<Vec<_>>().join("\n"))
        })
    }
}

/// The module that a file holds: `history/mod.rs` and `history.rs` are both `["history"]`.
fn module(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.split('/').filter(|segment| !["mod", "lib", "main"].contains(segment)).collect()
}

/// The identifier that `text` begins with.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}
