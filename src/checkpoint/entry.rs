//! What a checkpoint records for a path.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::hash::ContentHash;

/// Permission bits, set-id and sticky included.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileMode(u16);

impl FileMode {
    /// The mode of a directory without an entry in the manifest.
    pub const DIR: FileMode = FileMode(0o755);

    /// The permission bits of `st_mode`.
    pub fn from_bits(bits: u32) -> Self {
        FileMode((bits & 0o7777) as u16)
    }

    pub fn bits(self) -> u32 {
        u32::from(self.0)
    }

    /// Parses the octal digits of a manifest or diff.
    pub fn parse(text: &str) -> Option<Self> {
        let octal = !text.is_empty() && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let bits = u16::from_str_radix(text, 8).ok()?;
        (octal && bits <= 0o7777).then_some(FileMode(bits))
    }

    /// The mode that git records for a file: executable by its owner, or not.
    pub fn for_git(self) -> u32 {
        if self.0 & 0o100 != 0 { 0o100755 } else { 0o100644 }
    }

    /// Whether git can record this mode exactly.
    pub fn is_plain(self) -> bool {
        matches!(self.0, 0o644 | 0o755)
    }
}

impl Default for FileMode {
    fn default() -> Self {
        FileMode::DIR
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // Nearly all: a manifest may have a million.
            0o644 => f.write_str("644"),
            0o755 => f.write_str("755"),
            other => write!(f, "{other:03o}"),
        }
    }
}

impl fmt::Debug for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A file, link or directory without its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NodeJson", into = "NodeJson")]
pub enum Node {
    File {
        hash: ContentHash,
        size: u64,
        mode: FileMode,
    },
    /// A symbolic link; its content is its target.
    Symlink {
        hash: ContentHash,
        size: u64,
    },
    /// A directory that is recorded because nothing in it is visible, or because its mode is not 755.
    Dir {
        mode: FileMode,
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

    /// The permissions; a link has none.
    pub fn mode(&self) -> Option<FileMode> {
        match *self {
            Node::File { mode, .. } | Node::Dir { mode } => Some(mode),
            Node::Symlink { .. } => None,
        }
    }

    /// The same with other permissions; a link has none.
    pub fn with_mode(mut self, bits: FileMode) -> Self {
        if let Node::File { mode, .. } | Node::Dir { mode } = &mut self {
            *mode = bits;
        }
        self
    }

    /// The type as manifests, hashes and messages spell it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Node::File { .. } => "file",
            Node::Symlink { .. } => "symlink",
            Node::Dir { .. } => "dir",
        }
    }

    pub fn is_dir(&self) -> bool {
        matches!(self, Node::Dir { .. })
    }

    /// A short description for error messages: `file 644 9f2c…41`.
    pub fn describe(&self) -> String {
        match self {
            Node::File { hash, mode, .. } => format!("file {mode} {}", hash.short()),
            Node::Symlink { hash, .. } => format!("symlink {}", hash.short()),
            Node::Dir { mode } => format!("directory {mode}"),
        }
    }
}

/// The JSON form of a node.
#[derive(Serialize, Deserialize)]
struct NodeJson {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    mode: String,
    #[serde(default, skip_serializing_if = "Attributes::is_none")]
    attributes: Attributes,
}

/// A node with its attributes, as a manifest has them.
#[derive(Deserialize)]
#[serde(try_from = "NodeJson")]
pub struct AttributedNode(pub Node, pub Attributes);

impl TryFrom<NodeJson> for AttributedNode {
    type Error = &'static str;

    fn try_from(mut json: NodeJson) -> Result<Self, Self::Error> {
        let attributes = std::mem::take(&mut json.attributes);
        Ok(AttributedNode(json.try_into()?, attributes))
    }
}

impl From<Node> for NodeJson {
    fn from(node: Node) -> Self {
        NodeJson {
            kind: (!matches!(node, Node::File { .. })).then(|| node.type_name().to_owned()),
            sha256: node.content().map(|(hash, _)| hash.to_string()),
            size: node.content().map(|(_, size)| size),
            mode: node.mode().map_or_else(|| "777".to_owned(), |mode| mode.to_string()),
            attributes: Attributes::default(),
        }
    }
}

impl TryFrom<NodeJson> for Node {
    type Error = &'static str;

    fn try_from(json: NodeJson) -> Result<Self, Self::Error> {
        let node = || {
            let mode = FileMode::parse(&json.mode)?;
            let hash = || ContentHash::from_hex(json.sha256.as_deref()?);
            Some(match json.kind.as_deref() {
                None | Some("file") => Node::File { hash: hash()?, size: json.size?, mode },
                Some("symlink") => Node::Symlink { hash: hash()?, size: json.size? },
                Some("dir") => Node::Dir { mode },
                Some(_) => return None,
            })
        };
        node().ok_or("an invalid entry")
    }
}

/// Describes a node for error messages; `None` is "nothing".
pub fn describe(node: Option<&Node>) -> String {
    node.map_or_else(|| "nothing".to_owned(), Node::describe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_text() {
        assert_eq!(FileMode::parse("4755").map(FileMode::bits), Some(0o4755));
        assert_eq!(FileMode::from_bits(0o100600).to_string(), "600");
        for bad in ["", "8", "-1", "+7", "10000", "rw"] {
            assert_eq!(FileMode::parse(bad), None, "{bad}");
        }
    }
}
