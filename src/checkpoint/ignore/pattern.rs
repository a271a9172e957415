//! The patterns of an ignore file.

use super::glob::Glob;

/// One pattern of an ignore file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// It began with `!`: a match makes the path visible again.
    negated: bool,
    /// It ended with `/`: only directories match.
    dir_only: bool,
    /// It has a `/` at its beginning or in its middle: the whole path relative to the file is
    /// matched, not only the last component.
    anchored: bool,
    glob: Glob,
    /// The components of an anchored `!` pattern, to find which directories lead to a match.
    steps: Box<[PatternStep]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternStep {
    /// `**`: any number of directories.
    Any,
    One(Glob),
}

impl Pattern {
    /// Parses one line, given without its `\n`.
    ///
    /// Returns `None` for lines that can never match anything: blank lines, comments, and
    /// malformed globs (unclosed `[`, unknown `[:class:]`, a trailing backslash). Since the last
    /// matching line decides, dropping such lines does not change the outcome.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"#") {
            return None;
        }
        // Git keeps patterns as C strings.
        let line = line.split(|&b| b == 0).next().unwrap_or_default();
        let line = trim_trailing_spaces(line);

        let (negated, line) = strip_flag(line, b"!");
        let (dir_only, line) = match line.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let anchored = line.contains(&b'/');
        let (_, line) = strip_flag(line, b"/");
        if line.is_empty() {
            return None;
        }
        let glob = Glob::compile(line)?;
        let steps = if negated && anchored { steps(line) } else { Box::default() };
        Some(Self { negated, dir_only, anchored, glob, steps })
    }

    /// Whether the pattern matches an entry.
    ///
    /// `path` is relative to the directory of the ignore file. `is_dir` is false for symbolic links, even to
    /// directories. Matching a directory says nothing about its contents: the caller prunes.
    pub fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.dir_only && !is_dir {
            return false;
        }
        if self.anchored {
            return self.glob.matches(path);
        }
        let name = memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..]);
        self.glob.matches(name)
    }

    /// Whether this is a `!` pattern for something below `dir`.
    fn may_keep_below(&self, dir: &[u8]) -> bool {
        let mut steps = self.steps.iter();
        for name in dir.split(|&b| b == b'/') {
            match steps.next() {
                Some(PatternStep::Any) => return true,
                Some(PatternStep::One(glob)) if glob.matches(name) => {}
                _ => return false,
            }
        }
        steps.next().is_some()
    }
}

/// The lines of a whole ignore file, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatternList(Vec<Pattern>);

impl PatternList {
    /// Parses a file's content. A leading UTF-8 byte order mark is skipped.
    pub fn parse(content: &[u8]) -> Self {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        Self(content.split(|&b| b == b'\n').filter_map(Pattern::parse).collect())
    }

    /// Whether it has no pattern.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `Some(true)` if the last matching pattern ignores the entry, `Some(false)` if it shows it
    /// again, `None` if nothing matches. Arguments as for [`Pattern::matches`].
    pub fn ignores(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        self.0.iter().rev().find(|pattern| pattern.matches(path, is_dir)).map(|pattern| !pattern.negated)
    }

    /// Whether a path, or a directory that it is in, matches: for lists of paths that are meant, and not ignored.
    pub fn covers(&self, path: &[u8]) -> bool {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        let mut verdict = None;
        for dir in above {
            verdict = self.ignores(dir, true).or(verdict);
            if verdict == Some(true) {
                return true;
            }
        }
        self.ignores(path, false).or(verdict) == Some(true)
    }

    /// Whether some `!dir/…` pattern is for something below `dir`.
    pub fn may_keep_below(&self, dir: &[u8]) -> bool {
        self.0.iter().any(|pattern| pattern.may_keep_below(dir))
    }
}

fn steps(line: &[u8]) -> Box<[PatternStep]> {
    line.split(|&b| b == b'/')
        .map(|name| match (name, Glob::compile(name)) {
            (b"**", _) | (_, None) => PatternStep::Any,
            (_, Some(glob)) => PatternStep::One(glob),
        })
        .collect()
}

/// Removes unescaped trailing spaces. Only spaces: tabs are significant.
fn trim_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0; // just past the last byte to keep
    let mut i = 0;
    while i < line.len() {
        match line[i] {
            b' ' => i += 1,
            // A dangling backslash is kept as it is, which makes the line malformed.
            b'\\' => {
                i = (i + 2).min(line.len());
                end = i;
            }
            _ => {
                i += 1;
                end = i;
            }
        }
    }
    &line[..end]
}

/// Strips the prefix `flag`; returns whether it was there, and the rest.
fn strip_flag<'a>(line: &'a [u8], flag: &[u8]) -> (bool, &'a [u8]) {
    match line.strip_prefix(flag) {
        Some(rest) => (true, rest),
        None => (false, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a single line matches a path; a trailing `/` marks a directory.
    fn hit(line: &str, path: &str) -> bool {
        let (path, is_dir) = match path.strip_suffix('/') {
            Some(dir) => (dir, true),
            None => (path, false),
        };
        Pattern::parse(line.as_bytes()).is_some_and(|p| p.matches(path.as_bytes(), is_dir))
    }

    #[track_caller]
    fn check(line: &str, hits: &[&str], misses: &[&str]) {
        for path in hits {
            assert!(hit(line, path), "{line:?} should match {path:?}");
        }
        for path in misses {
            assert!(!hit(line, path), "{line:?} should not match {path:?}");
        }
    }

    #[test]
    fn lines_without_effect() {
        for line in [
            "",
            " ",
            "   ",
            "#",
            "# x",
            "\r",
            "/",
            "//",
            "!",
            "!/",
            "\\",
            "a\\",
            "a\\/",
            "[",
            "a[b",
            "[[:bogus:]]",
            "[a-",
        ] {
            assert_eq!(Pattern::parse(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn plain_names_match_at_any_depth() {
        check("a", &["a", "a/", "b/a", "b/c/a/"], &["A", "ab", "a/b"]);
        check("a/", &["a/", "b/a/"], &["a", "b/a"]);
    }

    #[test]
    fn slashes_anchor() {
        check("/a", &["a", "a/"], &["b/a"]);
        check("a/b", &["a/b"], &["b", "c/a/b", "a/b/c"]);
        check("a/b/", &["a/b/"], &["a/b"]);
        check("a//b", &[], &["a/b"]);
        check("./a", &[], &["a"]);
        check("//a", &[], &["a"]);
    }

    #[test]
    fn prefixes_and_escapes() {
        check(r"\!a", &["!a"], &["a"]);
        check(r"\#a", &["#a"], &["a"]);
        check(r"\a", &["a"], &[r"\a"]);
        check(r"a\*", &["a*"], &["ab"]);
        check("!a", &["a"], &["!a"]);
        check("!!a", &["!a"], &["a"]);
        check(" #a", &[" #a"], &[]);
        assert!(Pattern::parse(b"!a").unwrap().negated);
        assert!(!Pattern::parse(br"\!a").unwrap().negated);
    }

    #[test]
    fn trailing_spaces() {
        check("a  ", &["a"], &["a  "]);
        check(r"a\ ", &["a "], &["a"]);
        check(r"a\  ", &["a "], &["a", "a  "]);
        check(r"a \ ", &["a  "], &["a"]);
        check(r"a\\ ", &["a\\"], &["a\\ "]);
        check("a\t", &["a\t"], &["a"]);
        check(" a", &[" a"], &["a"]);
        check("a \r", &["a"], &["a \r"]);
        check("a\r\r", &["a\r"], &["a"]);
    }

    #[test]
    fn single_stars_stay_within_a_component() {
        check("*", &["a", "b/.c"], &[]);
        check("*.o", &["a.o", ".o", "b/a.o"], &["a.o.c"]);
        check("/*.o", &["a.o"], &["b/a.o"]);
        check("a/*", &["a/b"], &["a/b/c", "a"]);
        check("a/*/c", &["a/b/c"], &["a/c", "a/b/b/c"]);
        check("a*/c", &["a/c", "ab/c"], &["a/b/c"]);
        check("x/*a*b", &["x/ab", "x/1a2b"], &["x/a/b", "x/ba"]);
        check("?", &["a", "b/c"], &["ab", "\u{e9}"]);
        check("a?b/c", &[], &["a/b/c"]);
    }

    #[test]
    fn double_stars() {
        check("**", &["a", "a/b"], &[]);
        check("**/a", &["a", "b/a", "b/c/a"], &["ba", "a/b"]);
        check("a/**", &["a/b", "a/b/c"], &["a", "b/a/c"]);
        check("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb", "c/a/b"]);
        check("a/***/b", &["a/b", "a/x/y/b"], &[]);
        check("**/a/**/b*", &["a/b", "x/a/y/a/z/bc"], &["a", "b"]);
        check("**/*a/*b", &["a/b", "x/ya/zb"], &["a/x/b"]);
        check("/**", &["a", "a/b"], &[]);
        check("/**/", &["a/", "a/b/"], &["a"]);
        check("**/", &["a/", "a/b/"], &["a"]);
        check("x/a**b", &["x/ab", "x/acb"], &["x/y/ab"]);
        check("x/*a**b", &["x/ab", "x/acb"], &["x/a/b"]);
    }

    #[test]
    fn double_star_after_plain_prefix() {
        check("/a**", &["a", "ab", "a/b", "ab/c"], &["ba"]);
        check("a**/b", &["ab", "a/b", "a1/2/b"], &["a1b"]);
        check("?**/b", &["a/b"], &["a/c/b", "ab"]);
    }

    #[test]
    fn classes() {
        check("[ab]", &["a", "b"], &["c", "ab"]);
        check("[!a]", &["b"], &["a", "bb"]);
        check("[^a]", &["b"], &["a"]);
        check("[a-c]x", &["bx"], &["dx"]);
        check("[c-a]", &["c"], &["b", "a"]);
        check("[a-]", &["a", "-"], &["b"]);
        check("[-a]", &["a", "-"], &["b"]);
        check("[a-c-e]", &["b", "-", "e"], &["d"]);
        check("[]a]", &["]", "a"], &["b"]);
        check("[!]a]", &["b"], &["]", "a"]);
        check(r"[\]]", &["]"], &["\\"]);
        check(r"[\\]", &["\\"], &[]);
        check(r"[a-\c]", &["b"], &["\\"]);
        check("x[!y]z/w", &[], &["x/z/w"]);
        check("a[/]b", &[], &["a/b"]);
        check("[[:alpha:]]", &["a", "Z"], &["1"]);
        check("[![:digit:]_]", &["a"], &["1", "_"]);
        check("[[:alpha:]-z]", &["a", "-"], &["1"]);
        check("[[:a]", &["[", ":", "a"], &["b"]);
        check("{a,b}", &["{a,b}"], &["a", "b"]);
    }

    #[test]
    fn no_exponential_blow_up() {
        let text = "a".repeat(4000);
        assert!(!hit(&format!("{}b", "*a".repeat(500)), &text));
        let deep = "a/".repeat(1000) + "a";
        assert!(!hit(&format!("{}b", "**/a/".repeat(100)), &deep));
        assert!(!hit(&format!("{}b", "**/*a*/".repeat(50)), &deep));
    }
}
