//! The objects of git directories: restored by their second names, and named if they are lost.

use super::git_dirs::{HeldGitDir, HeldGitDirs, InsideReport, is_dir};
use crate::git::state::{ObjectLinks, is_connected};
use crate::humanize::count;

/// How many objects that were overwritten are named.
const MAX_NAMED: usize = 3;

impl HeldGitDirs {
    /// Objects that cannot be restored, for the user.
    pub fn not_held(&self) -> Vec<String> {
        let not_held = self.links.iter().flat_map(ObjectLinks::not_held);
        not_held.map(|(dir, count, why)| format!("{count} of {} ({why})", self.shown(dir))).collect()
    }

    /// Objects that cannot be restored if decree's own files are deleted with them, for the user.
    pub fn only_linked(&self) -> Vec<String> {
        let only_linked = self.links.iter().flat_map(ObjectLinks::only_linked);
        only_linked.map(|(dir, count)| format!("{count} of {}", self.shown(dir))).collect()
    }

    /// Restores objects that are gone or were replaced, and names those that are lost.
    pub(super) fn restore_objects(&self, report: &mut InsideReport) {
        let Some(links) = &self.links else { return };
        let objects = links.restore();
        self.has_losses.set(!objects.lost.is_empty());
        if objects.restored > 0 {
            report.restored.push(format!("{} git objects", objects.restored));
        }
        for (dir, names) in objects.overwritten {
            let mut shown: Vec<String> =
                names.iter().take(MAX_NAMED).map(|name| name.display().to_string()).collect();
            shown.extend((names.len() > MAX_NAMED).then(|| "…".to_owned()));
            let what = format!("{} overwritten in place", count(names.len(), "object"));
            report.lose(self.shown(&dir), format!("{what}: {}", shown.join(", ")));
        }
        for (dir, count, why) in objects.lost {
            if is_connected(dir.parent().unwrap_or(&dir)) != Some(true) {
                report.lose(self.shown(&dir), format!("{count} objects are gone; {why}"));
            }
        }
    }

    /// Names the git directories that need objects which are gone, if second names are gone, too.
    pub(super) fn name_disconnected(&self, report: &mut InsideReport) {
        let now = |held: &HeldGitDir| self.links.as_ref().map_or(0, |links| links.count(&held.dir));
        let is_unknown = |held: &&HeldGitDir| held.linked.is_some_and(|linked| now(held) < linked);
        for held in self.dirs.iter().filter(is_unknown).filter(|held| is_dir(&held.dir)) {
            if is_connected(&held.dir) == Some(false) {
                report.lose(self.shown(&held.dir), "objects that it needs are gone".to_owned());
            }
        }
    }
}
