//! The comment lines of a diff: what git's format cannot express.

use std::fmt::Write as _;

use crate::checkpoint::attributes::{AttributeChange, Attributes};
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::{BadPath, TreePath};
use crate::checkpoint::quote;

/// The first line of every diff that is not empty.
pub const HEADER: &str = "# decree-diff 1\n";
/// The last line of a binary block.
pub const BINARY_END: &str = "# end\n";
/// Follows a line that has no newline, as in git's format.
pub const NO_NEWLINE: &str = "\\ No newline at end of file\n";
/// The number of base64 characters in a full line of a binary block.
pub const BASE64_LINE: usize = 76;

/// A line that begins with `# decree-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// `# decree-file "path" old=<hash> new=<hash> size=<old>:<new> mode=<old>:<new>`: the section that follows.
    File { path: TreePath, old: Option<Node>, new: Option<Node> },
    /// `# decree-mode "path" old=<mode> new=<mode>`: modes other than 644 and 755.
    Mode { path: TreePath, old: Option<FileMode>, new: Option<FileMode> },
    /// `# decree-dir "path" old=<mode> new=<mode>`: an empty directory, or one with a mode of its own.
    Dir { path: TreePath, old: Option<FileMode>, new: Option<FileMode> },
    /// `# decree-binary "path" old=<hash> new=<hash> size=<old>:<new> mode=<old>:<new>`: a block with both contents.
    Binary { path: TreePath, old: Option<Node>, new: Option<Node> },
    /// `# decree-attributes "path" old=<attributes> new=<attributes>`: of the path whose section follows.
    Attributes { path: TreePath, change: AttributeChange },
    /// `# decree-end changes=<n> sha256=<hash of all that stands before this line>`.
    End { changes: u64, hash: ContentHash },
}

impl Note {
    /// The note as a line, with its newline.
    pub fn line(&self) -> String {
        let mut out = String::from("# decree-");
        let path = |path: &TreePath| quote::quoted(path.as_bytes());
        let _ = match self {
            Note::Mode { path: p, old, new } => {
                write!(out, "mode {} old={} new={}", path(p), or_dash(*old), or_dash(*new))
            }
            Note::Dir { path: p, old, new } => {
                write!(out, "dir {} old={} new={}", path(p), or_dash(*old), or_dash(*new))
            }
            Note::File { path: p, old, new } | Note::Binary { path: p, old, new } => {
                let content = |node: &Option<Node>| node.as_ref().and_then(Node::content);
                let word = if matches!(self, Note::File { .. }) { "file" } else { "binary" };
                write!(
                    out,
                    "{word} {} old={} new={} size={}:{} mode={}:{}",
                    path(p),
                    or_dash(content(old).map(|(hash, _)| hash)),
                    or_dash(content(new).map(|(hash, _)| hash)),
                    or_dash(content(old).map(|(_, size)| size)),
                    or_dash(content(new).map(|(_, size)| size)),
                    or_dash(old.as_ref().map(full_mode)),
                    or_dash(new.as_ref().map(full_mode)),
                )
            }
            Note::Attributes { path: p, change: AttributeChange { before, after } } => {
                write!(out, "attributes {} old={before} new={after}", path(p))
            }
            Note::End { changes, hash } => write!(out, "end changes={changes} sha256={hash}"),
        };
        out.push('\n');
        out
    }

    /// Parses a line, given without its newline. `None` if it is not a note.
    pub fn parse(line: &[u8]) -> Option<Result<Note, String>> {
        let rest = line.strip_prefix(b"# decree-")?;
        Some(parse_note(rest))
    }
}

fn parse_note(rest: &[u8]) -> Result<Note, String> {
    let invalid = || "an invalid `# decree-` line".to_owned();
    let space = memchr::memchr(b' ', rest).ok_or_else(invalid)?;
    let (word, rest) = (&rest[..space], &rest[space + 1..]);
    if word == b"end" {
        let fields = Fields::new(rest).ok_or_else(invalid)?;
        let note = || {
            let changes = fields.get("changes")?.parse().ok()?;
            let hash = ContentHash::from_hex(fields.get("sha256")?)?;
            Some(Note::End { changes, hash })
        };
        return note().ok_or_else(invalid);
    }
    let (name, rest) = quote::unquote(rest).ok_or_else(invalid)?;
    let path = tree_path(&name)?;
    let fields = Fields::new(rest.strip_prefix(b" ").ok_or_else(invalid)?).ok_or_else(invalid)?;
    let note = match word {
        b"file" | b"binary" => (|| {
            let (old, new) = contents(&fields)?;
            let (old_mode, new_mode) = fields.get("mode")?.split_once(':')?;
            let old = node(old, optional(old_mode, |m| u32::from_str_radix(m, 8).ok())?)?;
            let new = node(new, optional(new_mode, |m| u32::from_str_radix(m, 8).ok())?)?;
            Some(match word {
                b"file" => Note::File { path, old, new },
                _ => Note::Binary { path, old, new },
            })
        })(),
        b"attributes" => (|| {
            let before = Attributes::parse(fields.get("old")?)?;
            let after = Attributes::parse(fields.get("new")?)?;
            Some(Note::Attributes { path, change: AttributeChange { before, after } })
        })(),
        b"mode" | b"dir" => (|| {
            let old = optional(fields.get("old")?, FileMode::parse)?;
            let new = optional(fields.get("new")?, FileMode::parse)?;
            Some(match word {
                b"mode" => Note::Mode { path, old, new },
                _ => Note::Dir { path, old, new },
            })
        })(),
        _ => None,
    };
    note.ok_or_else(invalid)
}

/// Parses a path, or says why it is not allowed in a diff.
pub fn tree_path(name: &[u8]) -> Result<TreePath, String> {
    TreePath::new(name).map_err(|why: BadPath| format!("the path {} {why}", quote::quoted(name)))
}

type Content = Option<(ContentHash, u64)>;

fn contents(fields: &Fields<'_>) -> Option<(Content, Content)> {
    let (old_size, new_size) = fields.get("size")?.split_once(':')?;
    let side = |hash: &str, size: &str| match (
        optional(hash, ContentHash::from_hex)?,
        optional(size, |s| s.parse().ok())?,
    ) {
        (Some(hash), Some(size)) => Some(Some((hash, size))),
        (None, None) => Some(None),
        _ => None,
    };
    Some((side(fields.get("old")?, old_size)?, side(fields.get("new")?, new_size)?))
}

/// The mode with the file type, in octal, as in git and `stat`.
fn full_mode(node: &Node) -> String {
    let bits = match node {
        Node::File { mode, .. } => 0o100000 | mode.bits(),
        Node::Symlink { .. } => 0o120000,
        Node::Dir { mode } => 0o040000 | mode.bits(),
    };
    format!("{bits:06o}")
}

fn node(content: Content, full_mode: Option<u32>) -> Option<Option<Node>> {
    let (Some((hash, size)), Some(full)) = (content, full_mode) else {
        return (content.is_none() && full_mode.is_none()).then_some(None);
    };
    match full & 0o170000 {
        0o100000 => Some(Some(Node::File { hash, size, mode: FileMode::from_bits(full) })),
        0o120000 => Some(Some(Node::Symlink { hash, size })),
        _ => None,
    }
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn optional<T>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    match text {
        "-" => Some(None),
        text => parse(text).map(Some),
    }
}

/// The `key=value` words of a note.
struct Fields<'l>(Vec<(&'l str, &'l str)>);

impl<'l> Fields<'l> {
    fn new(text: &'l [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        text.split(' ').map(|word| word.split_once('=')).collect::<Option<_>>().map(Fields)
    }

    fn get(&self, key: &str) -> Option<&'l str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_note_can_be_read_back() {
        let hash = ContentHash::of(b"x");
        let mode = FileMode::parse("4711");
        let file = Node::File { hash, size: 1, mode: mode.unwrap() };
        let notes = [
            Note::File { path: path("a b\n\"c"), old: None, new: Some(file) },
            Note::Mode { path: path("x"), old: mode, new: None },
            Note::Dir { path: path("d/e"), old: None, new: Some(FileMode::DIR) },
            Note::Binary { path: path("y"), old: Some(file), new: Some(Node::Symlink { hash, size: 1 }) },
            Note::Attributes {
                path: path("z"),
                change: AttributeChange {
                    before: Attributes::default(),
                    after: Attributes::parse("owner:0:12,user.x:YQ==").unwrap(),
                },
            },
            Note::End { changes: 12, hash },
        ];
        for note in notes {
            let line = note.line();
            assert!(line.starts_with("# ") && line.ends_with('\n') && line.matches('\n').count() == 1);
            let back = Note::parse(line.trim_end_matches('\n').as_bytes());
            assert_eq!(back, Some(Ok(note)), "{line}");
        }
    }

    #[test]
    fn notes_that_leave_the_tree_are_refused_by_name() {
        let line = br#"# decree-dir "../evil" old=- new=755"#;
        let error = Note::parse(line).unwrap().unwrap_err();
        assert!(error.contains("../evil") && error.contains("leaves the tree"), "{error}");
    }
}
