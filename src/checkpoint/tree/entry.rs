//! An entry of a tree, its order and its hash.

use std::cmp::Ordering;
use std::io::Write as _;

use crate::checkpoint::entry::Node;
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::checkpoint::path::TreePath;

/// A path, as its directory and name, and the node at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    /// The directory; empty for the root.
    pub dir: &'t [u8],
    pub name: &'t [u8],
    pub node: Node,
}

impl<'t> Entry<'t> {
    pub fn at(path: &'t TreePath, node: Node) -> Self {
        let (dir, name) = path.split();
        Entry { dir, name, node }
    }

    pub fn path(&self) -> TreePath {
        TreePath::joined(self.dir, self.name)
    }

    /// Appends the path to `out`.
    pub fn write_path(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.dir);
        if !self.dir.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(self.name);
    }

    /// Compares its path with that of `name` in `dir`.
    pub fn cmp_in(&self, dir: &[u8], name: &[u8]) -> Ordering {
        if self.dir == dir {
            return self.name.cmp(name);
        }
        let common = self.dir.len().min(dir.len());
        self.dir[..common].cmp(&dir[..common]).then_with(|| {
            let rest = |dir: &[u8], name: &[u8]| {
                if dir.is_empty() { name.to_vec() } else { [&dir[common..], b"/", name].concat() }
            };
            rest(self.dir, self.name).cmp(&rest(dir, name))
        })
    }
}

/// Compares the path of `name` in `dir` with `path`.
pub(super) fn cmp_path(dir: &[u8], name: &[u8], path: &[u8]) -> Ordering {
    if dir.is_empty() {
        return name.cmp(path);
    }
    match path.split_at_checked(dir.len()) {
        None => dir.cmp(path),
        Some((start, rest)) => dir.cmp(start).then_with(|| match rest.split_first() {
            None => Ordering::Greater,
            Some((next, rest)) => b'/'.cmp(next).then_with(|| name.cmp(rest)),
        }),
    }
}

/// The hash of a list of entries: of `type mode size hash<TAB>path<NUL>` for each, in order.
pub fn combined_hash<'e>(entries: impl Iterator<Item = Entry<'e>>) -> ContentHash {
    let mut hasher = Hasher::new();
    let mut line = Vec::with_capacity(1 << 14);
    for entry in entries {
        if line.len() > 1 << 13 {
            hasher.update(&line);
            line.clear();
        }
        line.extend_from_slice(entry.node.type_name().as_bytes());
        line.push(b' ');
        if let Some(mode) = entry.node.mode() {
            write!(line, "{mode}").expect("writing to memory does not fail");
        }
        line.push(b' ');
        if let Some((hash, size)) = entry.node.content() {
            write!(line, "{size} {}", hash.hex().as_str()).expect("writing to memory does not fail");
        }
        line.push(b'\t');
        entry.write_path(&mut line);
        line.push(0);
    }
    hasher.update(&line);
    hasher.finish().0
}
