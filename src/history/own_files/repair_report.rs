//! What a program had done to decree's own files, and the texts for people.

use std::path::PathBuf;

use super::held::{FileDamage, HeldFile, ProjectDamage};
use crate::project::Layout;

/// What a program had done to decree's own files.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Files that were gone or replaced by something else, and are restored.
    pub restored: Vec<PathBuf>,
    /// Files that had other bytes, and are restored; those bytes are in `set-aside/`.
    pub overwritten: Vec<PathBuf>,
    /// Settings, routines and messages that were edited, and stay so.
    pub edited: Vec<PathBuf>,
    /// Records that were overwritten, and too large to be held in memory.
    pub spoiled: Vec<PathBuf>,
    /// Whether the tracker was changed, and is restored.
    pub tracker: bool,
    /// How many earlier runs are lost.
    pub lost_runs: usize,
    /// How many earlier runs were gone, and are restored without their logs.
    pub stripped_runs: usize,
    /// How many things stood in the way and moved to `set-aside/`.
    pub set_aside: usize,
    /// What had become of the directory of the project itself.
    pub project: Option<ProjectDamage>,
}

impl RepairReport {
    pub(super) fn add(&mut self, held: &HeldFile, damage: Option<FileDamage>) {
        let list = match damage {
            Some(FileDamage::Restored) => &mut self.restored,
            Some(FileDamage::Overwritten) => &mut self.overwritten,
            Some(FileDamage::Edited) => &mut self.edited,
            Some(FileDamage::Spoiled) => &mut self.spoiled,
            None => return,
        };
        list.push(held.path.clone());
    }

    /// What had become of the project's directory, for a warning. `who` is the program.
    pub fn project_text(&self, who: &str) -> Option<String> {
        Some(match self.project.as_ref()? {
            ProjectDamage::Renamed(to) => {
                format!("{who} renamed the directory of the project to {}; it is moved back", to.display())
            }
            ProjectDamage::Deleted => format!(
                "{who} deleted the directory of the project; it is made again, and a shell that is in it has to enter it again"
            ),
        })
    }

    /// The files that were overwritten, for a warning; `None` if there are none.
    pub fn overwritten_text(&self, layout: &Layout) -> Option<String> {
        const MAX_NAMED: usize = 10;
        let more = self.overwritten.len().saturating_sub(MAX_NAMED);
        let mut named: Vec<String> =
            self.overwritten.iter().take(MAX_NAMED).map(|path| layout.shown(path)).collect();
        named.extend((more > 0).then(|| format!("{more} more of decree's own files")));
        (!named.is_empty()).then(|| named.join(", "))
    }
}
