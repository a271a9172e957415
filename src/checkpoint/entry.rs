//! What a checkpoint says of each path, and the sorted list of them.

use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::hash::{ContentHash, Hasher};
use super::path::TreePath;

/// Permission bits, set-id and sticky included.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mode(u16);

impl Mode {
    /// What a directory has unless an entry says otherwise.
    pub const DIR: Mode = Mode(0o755);

    /// The permission bits of `st_mode`.
    pub fn from_bits(bits: u32) -> Self {
        Mode((bits & 0o7777) as u16)
    }

    /// For `chmod`.
    pub fn bits(self) -> u32 {
        u32::from(self.0)
    }

    /// Reads the octal digits of a manifest or diff.
    pub fn parse(text: &str) -> Option<Self> {
        let octal = !text.is_empty() && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let bits = u16::from_str_radix(text, 8).ok()?;
        (octal && bits <= 0o7777).then_some(Mode(bits))
    }

    /// The two modes that git knows for a file: executable by its owner, or not.
    pub fn for_git(self) -> u32 {
        if self.0 & 0o100 != 0 { 0o100755 } else { 0o100644 }
    }

    /// Whether git's two modes say all there is to say.
    pub fn is_plain(self) -> bool {
        matches!(self.0, 0o644 | 0o755)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03o}", self.0)
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NodeText", into = "NodeText")]
pub enum Node {
    /// A regular file.
    File {
        /// Of its content.
        hash: ContentHash,
        /// In bytes.
        size: u64,
        /// Permissions.
        mode: Mode,
    },
    /// A symbolic link; its content is its target.
    Symlink {
        /// Of its target.
        hash: ContentHash,
        /// Of its target, in bytes.
        size: u64,
    },
    /// A directory that needs saying: nothing visible in it, or a mode other than 755.
    Dir {
        /// Permissions.
        mode: Mode,
    },
}

impl Node {
    /// The content's hash and size; a directory has none.
    pub fn content(&self) -> Option<(ContentHash, u64)> {
        match *self {
            Node::File { hash, size, .. } | Node::Symlink { hash, size } => Some((hash, size)),
            Node::Dir { .. } => None,
        }
    }

    /// The permissions; a link has none of its own.
    pub fn mode(&self) -> Option<Mode> {
        match *self {
            Node::File { mode, .. } | Node::Dir { mode } => Some(mode),
            Node::Symlink { .. } => None,
        }
    }

    /// The word that formats and messages use.
    pub fn type_name(&self) -> &'static str {
        match self {
            Node::File { .. } => "file",
            Node::Symlink { .. } => "symlink",
            Node::Dir { .. } => "dir",
        }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self, Node::Dir { .. })
    }

    /// A few words for an error: `file 644 9f2c…41`.
    pub fn describe(&self) -> String {
        match self {
            Node::File { hash, mode, .. } => format!("file {mode} {}", hash.short()),
            Node::Symlink { hash, .. } => format!("symlink {}", hash.short()),
            Node::Dir { mode } => format!("directory {mode}"),
        }
    }
}

/// A node as JSON has it.
#[derive(Serialize, Deserialize)]
struct NodeText {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    mode: String,
}

impl From<Node> for NodeText {
    fn from(node: Node) -> Self {
        NodeText {
            kind: (!matches!(node, Node::File { .. })).then(|| node.type_name().to_owned()),
            sha256: node.content().map(|(hash, _)| hash.to_string()),
            size: node.content().map(|(_, size)| size),
            mode: node.mode().map_or_else(|| "777".to_owned(), |mode| mode.to_string()),
        }
    }
}

impl TryFrom<NodeText> for Node {
    type Error = &'static str;

    fn try_from(text: NodeText) -> Result<Self, Self::Error> {
        let node = || {
            let mode = Mode::parse(&text.mode)?;
            let hash = || ContentHash::from_hex(text.sha256.as_deref()?);
            Some(match text.kind.as_deref() {
                None | Some("file") => Node::File { hash: hash()?, size: text.size?, mode },
                Some("symlink") => Node::Symlink { hash: hash()?, size: text.size? },
                Some("dir") => Node::Dir { mode },
                Some(_) => return None,
            })
        };
        node().ok_or("an entry that makes no sense")
    }
}

/// "nothing" or [`Node::describe`].
pub fn describe(node: Option<&Node>) -> String {
    node.map_or_else(|| "nothing".to_owned(), Node::describe)
}

/// A path and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where.
    pub path: TreePath,
    /// What.
    pub node: Node,
}

/// Everything a checkpoint holds, sorted by path.
///
/// Directories follow from what is below them; only those that need saying are entries.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    entries: Vec<Entry>,
    /// Worked out when first asked for.
    hash: OnceLock<ContentHash>,
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Eq for Tree {}

impl Tree {
    /// Takes entries that are sorted already; `None` if they are not, or one stands twice.
    pub fn from_sorted(entries: Vec<Entry>) -> Option<Self> {
        let sorted = entries.windows(2).all(|pair| pair[0].path < pair[1].path);
        sorted.then_some(Tree { entries, hash: OnceLock::new() })
    }

    /// All entries, by path.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What stands at `path`.
    pub fn get(&self, path: &TreePath) -> Option<&Node> {
        let at = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        Some(&self.entries[at].node)
    }

    /// Whether there was a directory at `dir` (bytes without a trailing slash): an entry, or something below it.
    pub fn has_dir(&self, dir: &[u8]) -> bool {
        let at = self.entries.partition_point(|entry| entry.path.as_bytes() < dir);
        if let Some(entry) = self.entries.get(at)
            && entry.path.as_bytes() == dir
        {
            return entry.node.is_dir();
        }
        let below = [dir, b"/"].concat();
        let at = self.entries.partition_point(|entry| entry.path.as_bytes() < &below[..]);
        self.entries.get(at).is_some_and(|entry| entry.path.as_bytes().starts_with(&below))
    }

    /// Whether `dir` is an entry with nothing below it.
    pub fn is_empty_dir(&self, dir: &TreePath) -> bool {
        let after = self.entries.partition_point(|entry| entry.path <= *dir);
        let below = [dir.as_bytes(), b"/"].concat();
        // Between a directory and what is in it, names such as `dir-x` may stand.
        let at = self.entries[after..].partition_point(|entry| entry.path.as_bytes() < &below[..]);
        let inhabited =
            self.entries[after + at..].first().is_some_and(|entry| entry.path.as_bytes().starts_with(&below));
        self.get(dir).is_some_and(Node::is_dir) && !inhabited
    }

    /// How many files and links, and their bytes.
    pub fn count(&self) -> (usize, u64) {
        self.entries
            .iter()
            .filter_map(|entry| entry.node.content())
            .fold((0, 0), |(files, bytes), (_, size)| (files + 1, bytes + size))
    }

    /// One hash for the whole tree: of `type mode size hash<TAB>path<NUL>` for each entry in order.
    pub fn hash(&self) -> ContentHash {
        *self.hash.get_or_init(|| self.work_out_hash())
    }

    fn work_out_hash(&self) -> ContentHash {
        let mut hasher = Hasher::new();
        let mut line = Vec::with_capacity(1 << 14);
        for Entry { path, node } in &self.entries {
            if line.len() > 1 << 13 {
                hasher.update(&line);
                line.clear();
            }
            line.extend_from_slice(node.type_name().as_bytes());
            line.push(b' ');
            if let Some(mode) = node.mode() {
                write!(line, "{mode}").expect("memory takes everything");
            }
            line.push(b' ');
            if let Some((hash, size)) = node.content() {
                write!(line, "{size} {}", hash.hex().as_str()).expect("memory takes everything");
            }
            line.push(b'\t');
            line.extend_from_slice(path.as_bytes());
            line.push(0);
        }
        hasher.update(&line);
        hasher.finish().0
    }
}

impl FromIterator<Entry> for Tree {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        let mut entries: Vec<Entry> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|later, first| later.path == first.path);
        Tree { entries, hash: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(path: &str) -> Entry {
        Entry {
            path: TreePath::new(path.as_bytes()).expect("a good path"),
            node: Node::Dir { mode: Mode::DIR },
        }
    }

    #[test]
    fn modes_are_octal_text() {
        assert_eq!(Mode::parse("4755").map(Mode::bits), Some(0o4755));
        assert_eq!(Mode::from_bits(0o100600).to_string(), "600");
        for bad in ["", "8", "-1", "+7", "10000", "rw"] {
            assert_eq!(Mode::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_directory_is_known_by_its_entry_or_by_what_is_in_it() {
        let tree: Tree = [dir("a/b"), dir("a-c"), dir("d")].into_iter().collect();
        assert!(tree.has_dir(b"a"));
        assert!(tree.has_dir(b"d"));
        assert!(!tree.has_dir(b"a/b/c"));
        assert!(!tree.has_dir(b"e"));
    }

    #[test]
    fn the_tree_hash_tells_apart_what_differs() {
        let one: Tree = [dir("a")].into_iter().collect();
        let two: Tree = [dir("b")].into_iter().collect();
        assert_ne!(one.hash(), two.hash());
        assert_ne!(one.hash(), Tree::default().hash());
    }
}
