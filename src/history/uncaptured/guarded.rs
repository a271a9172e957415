//! What no checkpoint holds, around a guarded command.

use std::path::{Path, PathBuf};

use super::report::{NotRestored, UncapturedReport};
use super::state::UncapturedState;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::error::Error;
use crate::history::HistoryContext;
use crate::history::scope::Scope;

/// What a guarded command did to what its checkpoint does not hold.
pub struct GuardedUncaptured {
    state: UncapturedState,
    pub report: UncapturedReport,
    /// What to warn the user of.
    pub warnings: Vec<String>,
}

impl GuardedUncaptured {
    /// Looks at the tree before anything is rolled back. If the command failed, renamed directories are moved back first: otherwise the
    /// rollback would take all of their files for new ones.
    pub fn look(
        context: HistoryContext<'_>,
        mut state: UncapturedState,
        manifest: &Manifest,
        has_failed: bool,
        set_aside: &Path,
        scope: &Scope,
    ) -> GuardedUncaptured {
        let root = context.workspace.root();
        let (mut report, mut warnings) = (UncapturedReport::default(), Vec::new());
        if has_failed {
            report = state.move_back(root, set_aside, &|path| scope.covers(path));
        }
        match context.workspace.likely_secrets(manifest) {
            Ok(now) => state.note_present(&now, &manifest.tree),
            Err(error) => warnings.push(format!("new likely secrets are not known: {error}")),
        }
        if !has_failed {
            let kept = state.kept(root);
            report = kept.0;
            warnings.extend(kept.1);
        }
        GuardedUncaptured { state, report, warnings }
    }

    /// Restores what the rollback of the tree does not. `moved` is what the rollback set aside, and where it is.
    pub fn restore(
        &mut self,
        context: HistoryContext<'_>,
        set_aside: &Path,
        scope: &Scope,
        moved: &[(String, PathBuf)],
    ) {
        let place_of = |path: &TreePath| {
            let found = moved.iter().find(|(name, _)| *name == path.to_string());
            found.map(|(_, to)| to.to_string_lossy().into_owned())
        };
        let covers = |path: &TreePath| scope.covers(path);
        let report = self.state.restore(context.workspace.root(), set_aside, &covers, &place_of);
        self.report.absorb(report);
        self.warnings.extend(self.report.reverted_warnings());
    }

    /// Nothing of the command runs any more, and nothing is to be restored.
    pub fn release(&mut self) {
        self.state.release();
    }

    /// The error if something is not as it was.
    pub fn error(&self) -> Option<Error> {
        let lost = &self.report.not_restored;
        let lines: Vec<String> = lost.iter().map(NotRestored::line).collect();
        (!lines.is_empty()).then(|| {
            Error::integrity("the command left something that no checkpoint holds, and that is not restored")
                .details(lines, 20)
                .hint("restore it from a backup or from where it came from")
        })
    }
}
