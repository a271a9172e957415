//! One sentence about a path that a rollback restores: what had happened to it, and what the checkpoint has. It is as true of a dry run.

use crate::checkpoint::entry::Node;
use crate::checkpoint::patch::write::ChangeCount;
use crate::humanize::{bytes, count};

/// `lines` is `None` where no diff was made.
pub fn summary(before: Option<&Node>, after: Option<&Node>, lines: Option<&ChangeCount>) -> String {
    match (before, after) {
        (None, None) => "as in the checkpoint".to_owned(),
        (None, Some(now)) => format!("created since: {}; not in the checkpoint", describe(now)),
        (Some(then), None) => format!("deleted since; the checkpoint has {}", describe(then)),
        (Some(then), Some(now)) => {
            format!("{}; the checkpoint has {}", what_changed(then, now, lines), describe(then))
        }
    }
}

fn what_changed(then: &Node, now: &Node, lines: Option<&ChangeCount>) -> String {
    match (then, now) {
        (Node::File { hash: old, .. }, Node::File { hash: new, mode, .. }) if old == new => {
            format!("mode changed to {mode} since")
        }
        (Node::File { .. }, Node::File { .. }) => match lines {
            Some(ChangeCount { binary: true, .. }) => "binary content changed since".to_owned(),
            Some(ChangeCount { lines, .. }) => {
                format!("{} added and {} removed since", count(lines.added as usize, "line"), lines.removed)
            }
            None => "content changed since".to_owned(),
        },
        (Node::Symlink { .. }, Node::Symlink { .. }) => "link changed since".to_owned(),
        (Node::Dir { .. }, Node::Dir { mode }) => format!("mode changed to {mode} since"),
        (_, now) => format!("replaced since by {}", describe(now)),
    }
}

fn describe(node: &Node) -> String {
    match node {
        Node::File { size, mode, .. } => format!("a file of {}, mode {mode}", bytes(*size)),
        Node::Symlink { .. } => "a link".to_owned(),
        Node::Dir { mode } => format!("a directory, mode {mode}"),
    }
}
