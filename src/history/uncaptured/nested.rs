//! HEAD, its branch, the index and the refs of repositories below the project's own: nested ones, submodules and inner work trees. No
//! manifest has them, so they are held in memory.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::root::Root;
use crate::error::{Error, IoContext, Result};
use crate::git::state::{self, GitDirs, GitSnapshot, GitTarget, Head, IndexSource};
use crate::history::git_change::shown_commit;
use crate::history::git_restore::KEPT_REFS;
use crate::humanize::count;

/// How many bytes of indexes are held together.
const MAX_INDEXES: u64 = 256 << 20;

pub(super) struct HeldNested(Vec<NestedRepository>);

struct NestedRepository {
    /// The top of its work tree, and the same relative to the project.
    top: PathBuf,
    shown: String,
    /// Whether its refs are those of the project's own repository.
    shares_refs: bool,
    before: GitSnapshot,
    index: Option<HeldIndex>,
}

#[derive(PartialEq)]
struct HeldIndex {
    /// `None` if there was no room.
    bytes: Option<Vec<u8>>,
    length: u64,
    modified: i64,
    mode: u32,
}

impl HeldNested {
    pub fn hold(root: &Root, coverage: &Coverage) -> HeldNested {
        let own = GitDirs::find(root.path());
        let mut room = MAX_INDEXES;
        let hold = |top: PathBuf| {
            let mut before = GitSnapshot::read(&top).ok().flatten()?;
            if own.as_ref().is_some_and(|own| own.git_dir == before.dirs.git_dir) || before.head.is_none() {
                return None;
            }
            let index = HeldIndex::read(&mut before, room).ok()?;
            room -= index
                .iter()
                .filter_map(|index| index.bytes.as_ref())
                .map(|bytes| bytes.len() as u64)
                .sum::<u64>();
            let shown = top.strip_prefix(root.path()).unwrap_or(&top).display().to_string();
            let shares_refs = own.as_ref().is_some_and(|own| own.common_dir == before.dirs.common_dir);
            Some(NestedRepository { top, shown, shares_refs, before, index })
        };
        let tops = coverage
            .repositories
            .iter()
            .filter_map(|path| path.as_tree_path().below(root.path()).parent().map(Path::to_owned));
        HeldNested(tops.filter(|top| top != root.path()).filter_map(hold).collect())
    }

    pub fn nothing() -> HeldNested {
        HeldNested(Vec::new())
    }

    /// Restores those that differ. Returns what to report, and the paths of those that could not be restored, each with the reason.
    pub fn restore(&self, keep_as: &str) -> (Vec<String>, Vec<(String, String)>) {
        let (mut texts, mut failed) = (Vec::new(), Vec::new());
        for nested in &self.0 {
            match nested.restore(keep_as) {
                Ok(text) => texts.extend(text),
                Err(error) => {
                    let mut why = vec![format!("a repository: its HEAD or index is not restored: {error}")];
                    why.extend(error.detail_lines().iter().cloned());
                    failed.push((nested.shown.clone(), why.join("; ")));
                }
            }
        }
        (texts, failed)
    }
}

impl HeldIndex {
    /// Reads an index of at most `room` bytes.
    fn read(snapshot: &mut GitSnapshot, room: u64) -> Result<Option<HeldIndex>> {
        let Some(index) = &mut snapshot.index else { return Ok(None) };
        let mut bytes = Vec::new();
        (&mut index.file)
            .take(room.saturating_add(1))
            .read_to_end(&mut bytes)
            .at("read the index in", &snapshot.dirs.top)?;
        let length = bytes.len() as u64;
        let bytes = Some(bytes).filter(|_| length <= room);
        Ok(Some(HeldIndex { bytes, length, modified: index.modified, mode: index.mode }))
    }
}

impl NestedRepository {
    /// What to report; `None` if nothing differs.
    fn restore(&self, keep_as: &str) -> Result<Option<String>> {
        let Some(mut now) = GitSnapshot::read(&self.top)? else { return Ok(None) };
        let (Some(head), true) = (&self.before.head, now.dirs == self.before.dirs) else {
            // It is gone, which is reported as such.
            return Ok(None);
        };
        let room =
            self.index.as_ref().map_or(0, |index| if index.bytes.is_some() { index.length } else { 0 });
        let index_now = HeldIndex::read(&mut now, room)?;
        let other_index = index_now != self.index;
        if other_index && self.index.as_ref().is_some_and(|index| index.bytes.is_none()) {
            return Err(Error::integrity("its index was too large to be held, and is another now"));
        }
        let moved = now.head.as_ref() != Some(head) || now.commit != self.before.commit;
        let deleted = if self.shares_refs { Vec::new() } else { self.deleted_refs(&now, head) };
        if !other_index && !moved && deleted.is_empty() {
            return Ok(None);
        }
        let reason = format!("decree: {keep_as} is reverted");
        let index = other_index.then(|| {
            self.index.as_ref().map(|index| IndexSource {
                content: Box::new(index.bytes.as_deref().unwrap_or_default()),
                modified: index.modified,
                mode: index.mode,
            })
        });
        let target = GitTarget { head, commit: self.before.commit.as_deref(), index };
        let kept = state::restore(&now, target, &format!("{KEPT_REFS}{keep_as}"), &reason)?;
        let mut text = format!("git in {}: ", self.shown);
        if moved {
            let commit = shown_commit(self.before.commit.as_deref());
            text.push_str(&format!("{} is back at {commit}", head.shown()));
            let names: Vec<&str> = kept.iter().map(|kept| &*kept.name).collect();
            if !names.is_empty() {
                text.push_str(&format!("; what was committed since is kept there as {}", names.join(", ")));
            }
        } else {
            text.push_str("the index is restored");
        }
        if !deleted.is_empty() {
            state::create_refs(&now.git()?, &deleted, &reason)?;
            text.push_str(&format!("; {} that were deleted are restored", count(deleted.len(), "ref")));
        }
        Ok(Some(text))
    }

    /// The refs that are gone, but for HEAD's branch, each with its value.
    fn deleted_refs(&self, now: &GitSnapshot, head: &Head) -> Vec<(String, String)> {
        let changes = self.before.refs.changes(&now.refs).into_iter().filter(|change| change.after.is_none());
        let refs = changes.filter_map(|change| {
            Some((String::from_utf8(change.name).ok()?, String::from_utf8(change.before?).ok()?))
        });
        refs.filter(|(name, _)| *head != Head::Branch(name.clone())).collect()
    }
}
