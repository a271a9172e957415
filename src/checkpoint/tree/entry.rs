//! A path and what stands there, wherever the two are kept.

use std::cmp::Ordering;
use std::io::Write as _;

use crate::checkpoint::entry::Node;
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::checkpoint::path::TreePath;

/// A path and what stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    /// The directory it is in; empty for the root.
    pub dir: &'t [u8],
    /// Its name there.
    pub name: &'t [u8],
    /// What stands there.
    pub node: Node,
}

impl<'t> Entry<'t> {
    /// Something at a path.
    pub fn at(path: &'t TreePath, node: Node) -> Self {
        let (dir, name) = path.split();
        Entry { dir, name, node }
    }

    /// Where it is.
    pub fn path(&self) -> TreePath {
        TreePath::joined(self.dir, self.name)
    }

    /// Appends the bytes of the path.
    pub fn write_path(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.dir);
        if !self.dir.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(self.name);
    }

    /// The order of its path and that of `name` in `dir`.
    pub fn cmp_in(&self, dir: &[u8], name: &[u8]) -> Ordering {
        if self.dir == dir {
            return self.name.cmp(name);
        }
        let common = self.dir.len().min(dir.len());
        self.dir[..common].cmp(&dir[..common]).then_with(|| {
            let rest = |at: &[u8], name: &[u8]| match at.is_empty() {
                true => [at, name].concat(),
                false => [&at[common..], b"/", name].concat(),
            };
            rest(self.dir, self.name).cmp(&rest(dir, name))
        })
    }
}

/// The order of the path of `name` in `dir`, and these bytes.
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

/// One hash for a list of entries: of `type mode size hash<TAB>path<NUL>` for each in order.
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
            write!(line, "{mode}").expect("memory takes everything");
        }
        line.push(b' ');
        if let Some((hash, size)) = entry.node.content() {
            write!(line, "{size} {}", hash.hex().as_str()).expect("memory takes everything");
        }
        line.push(b'\t');
        entry.write_path(&mut line);
        line.push(0);
    }
    hasher.update(&line);
    hasher.finish().0
}
