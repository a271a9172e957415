//! The ignore files that apply to a directory, and what they decide about a path.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::pattern::PatternList;
use crate::checkpoint::hash::Hasher;

/// The kind of an ignore file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleSource {
    /// `.decreeignore`, which takes precedence.
    Decree,
    Git,
}

impl RuleSource {
    /// Both kinds, sorted by file name.
    pub const ALL: [RuleSource; 2] = [RuleSource::Decree, RuleSource::Git];

    pub fn file_name(self) -> &'static str {
        match self {
            RuleSource::Git => ".gitignore",
            RuleSource::Decree => ".decreeignore",
        }
    }
}

/// An ignore file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoreFile {
    /// Its directory, relative to the root; empty for the root.
    pub dir: Box<[u8]>,
    pub source: RuleSource,
    pub text: Box<[u8]>,
}

/// What the rules decide about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleMatch {
    /// No pattern ignores it.
    Shown,
    /// A pattern ignores it.
    Ignored,
    /// A `!pattern` in a `.decreeignore` keeps it, even if it would be left out otherwise.
    Kept,
}

/// The ignore files from the root down to a directory. Cheap to clone; patterns are compiled on first use.
#[derive(Clone, Debug, Default)]
pub struct Rules(Option<Arc<DirRules>>);

#[derive(Debug)]
struct DirRules {
    above: Rules,
    dir: Box<[u8]>,
    git: LazyPatterns,
    decree: LazyPatterns,
    fingerprint: Fingerprint,
}

/// Identifies rules: equal fingerprints mean equal rules.
pub type Fingerprint = [u8; 16];

impl Rules {
    /// The rules below `dir`, given the ignore files in it.
    pub fn enter(&self, dir: &[u8], files: &[IgnoreFile]) -> Rules {
        if files.is_empty() {
            return self.clone();
        }
        let patterns = |source| {
            let file = files.iter().find(|file| file.source == source);
            LazyPatterns { text: file.map(|file| file.text.clone()), patterns: OnceLock::new() }
        };
        let mut hasher = Hasher::new();
        hasher.update(&self.fingerprint());
        hasher.update(dir);
        for file in files {
            hasher.update(&[0, file.source as u8]);
            hasher.update(&(file.text.len() as u64).to_le_bytes());
            hasher.update(&file.text);
        }
        let (hash, _) = hasher.finish();
        Rules(Some(Arc::new(DirRules {
            above: self.clone(),
            dir: dir.into(),
            git: patterns(RuleSource::Git),
            decree: patterns(RuleSource::Decree),
            fingerprint: *hash.0.first_chunk().expect("a hash has 32 bytes"),
        })))
    }

    /// Applies the rules to an entry of the tree. The directories above it are assumed to be visible.
    pub fn decide(&self, path: &[u8], is_dir: bool) -> RuleMatch {
        let first_match = |list: fn(&DirRules) -> &LazyPatterns| {
            self.levels().find_map(|level| {
                let patterns = list(level).get()?;
                patterns.ignores(level.relative(path), is_dir)
            })
        };
        match first_match(|level| &level.decree) {
            Some(false) => return RuleMatch::Kept,
            Some(true) => return RuleMatch::Ignored,
            None => {}
        }
        match first_match(|level| &level.git) {
            Some(true) => RuleMatch::Ignored,
            _ => RuleMatch::Shown,
        }
    }

    /// Whether a `!dir/…` pattern of a `.decreeignore` may keep something inside this ignored directory.
    pub fn may_keep_below(&self, dir: &[u8]) -> bool {
        self.levels().any(|level| {
            level.decree.get().is_some_and(|patterns| patterns.may_keep_below(level.relative(dir)))
        })
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.0.as_ref().map_or([0; 16], |level| level.fingerprint)
    }

    /// From the innermost level to the root's.
    fn levels(&self) -> impl Iterator<Item = &DirRules> {
        std::iter::successors(self.0.as_deref(), |level| level.above.0.as_deref())
    }
}

impl DirRules {
    /// `path` relative to this directory.
    fn relative<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        if self.dir.is_empty() { path } else { &path[self.dir.len() + 1..] }
    }
}

#[derive(Debug)]
struct LazyPatterns {
    text: Option<Box<[u8]>>,
    patterns: OnceLock<PatternList>,
}

impl LazyPatterns {
    fn get(&self) -> Option<&PatternList> {
        let text = self.text.as_ref()?;
        Some(self.patterns.get_or_init(|| PatternList::parse(text)))
    }
}

/// The ignore files that were in force when a checkpoint was captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrozenRules {
    /// Sorted by directory.
    pub files: Vec<IgnoreFile>,
}

impl FrozenRules {
    /// Takes the files that a walk read, in any order.
    pub fn new(mut files: Vec<IgnoreFile>) -> Self {
        files.sort_by(|a, b| (&a.dir, a.source).cmp(&(&b.dir, b.source)));
        FrozenRules { files }
    }

    /// An index by directory.
    pub fn by_dir(&self) -> HashMap<&[u8], &[IgnoreFile]> {
        self.files.chunk_by(|a, b| a.dir == b.dir).map(|files| (&*files[0].dir, files)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &str, source: RuleSource, text: &str) -> IgnoreFile {
        IgnoreFile { dir: dir.as_bytes().into(), source, text: text.as_bytes().into() }
    }

    #[test]
    fn decreeignore_takes_precedence_in_both_directions() {
        let rules = Rules::default().enter(
            b"",
            &[
                file("", RuleSource::Git, "*.log\n!seen.txt\n"),
                file("", RuleSource::Decree, "!keep.log\nseen.txt\n"),
            ],
        );
        assert_eq!(rules.decide(b"a.log", false), RuleMatch::Ignored);
        assert_eq!(rules.decide(b"keep.log", false), RuleMatch::Kept);
        assert_eq!(rules.decide(b"seen.txt", false), RuleMatch::Ignored);
        assert_eq!(rules.decide(b"other", false), RuleMatch::Shown);
    }

    #[test]
    fn an_outer_decreeignore_outranks_an_inner_gitignore() {
        let outer = Rules::default().enter(b"", &[file("", RuleSource::Decree, "!*.o\n")]);
        let inner = outer.enter(b"sub", &[file("sub", RuleSource::Git, "*.o\n")]);
        assert_eq!(inner.decide(b"sub/x.o", false), RuleMatch::Kept);
    }

    #[test]
    fn a_kept_path_opens_the_ignored_directories_above_it_and_no_others() {
        let rules = Rules::default().enter(
            b"",
            &[
                file("", RuleSource::Git, "dist/\nnode_modules/\n"),
                file("", RuleSource::Decree, "!dist/*/config.json\n!.env\n"),
            ],
        );
        assert_eq!(rules.decide(b"dist", true), RuleMatch::Ignored);
        assert!(rules.may_keep_below(b"dist"));
        assert!(rules.may_keep_below(b"dist/prod"));
        assert!(!rules.may_keep_below(b"dist/prod/deep"));
        assert!(!rules.may_keep_below(b"node_modules"));
    }

    #[test]
    fn fingerprints_tell_rules_apart() {
        let one = Rules::default().enter(b"", &[file("", RuleSource::Git, "a")]);
        let two = Rules::default().enter(b"", &[file("", RuleSource::Git, "b")]);
        let same = Rules::default().enter(b"", &[file("", RuleSource::Git, "a")]);
        assert_ne!(one.fingerprint(), two.fingerprint());
        assert_eq!(one.fingerprint(), same.fingerprint());
        assert_eq!(one.enter(b"x", &[]).fingerprint(), one.fingerprint());
    }
}
