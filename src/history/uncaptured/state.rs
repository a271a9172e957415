//! Likely secrets, repositories and ignored entries together: held before, compared and restored after.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entries::{EntryKind, HeldEntries, LostRepository, MissingEntry};
use super::git_dirs::HeldGitDirs;
use super::held_places::HeldPlaces;
use super::held_record::{ActiveRecordCopy, HeldRecord};
use super::last_act::FinalRestore;
use super::outputs::HeldOutputs;
use super::queue_record::QueueRecord;
use super::report::{UncapturedReport, named, named_paths};
use super::secrets::{HeldSecrets, SecretChange, SecretFate};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote::{self, json_for_people};
use crate::checkpoint::root::Root;
use crate::checkpoint::tree::Tree;
use crate::checkpoint::workspace::Workspace;
use crate::error::Result;
use crate::history::own_files::{SettingsRecord, SettingsSnapshot};
use crate::interrupt;
use crate::process::ProcessMark;
use crate::project::Layout;

/// What a checkpoint does not hold, as it was.
pub struct UncapturedState {
    /// Shared with the last act of a process that is ended at once, like `places`.
    secrets: Arc<HeldSecrets>,
    places: Arc<Mutex<HeldPlaces>>,
    outputs: HeldOutputs,
    /// Repositories in the tree whose state could not be read for the checkpoint.
    git_unread: Vec<String>,
    /// The likely secrets that were in the tree when it was last looked at.
    now: Vec<TreePath>,
    /// Those of them that the checkpoint holds: they were no secrets then.
    became: Vec<TreePath>,
    /// decree's own settings as a decree recorded them that was killed.
    settings: Option<SettingsRecord>,
    queue: Option<QueueRecord>,
    was_killed: bool,
    /// Whether there is anything that could be missing.
    is_empty: bool,
}

/// What is held during a run, and what was restored so far.
pub struct HeldForRun {
    pub state: UncapturedState,
    pub report: UncapturedReport,
}

impl UncapturedState {
    /// Holds what the coverage names, and records what the next decree has to know of it if this one is killed. `id` is that of the run or
    /// checkpoint, `letters` are those that have second names. Called after the checkpoint is made and `running.json` or `guarding.json` is written, and before anything else runs.
    pub fn hold(
        layout: &Layout,
        workspace: &Workspace,
        manifest: &Manifest,
        id: &str,
        letters: Vec<PathBuf>,
    ) -> Result<UncapturedState> {
        let (root, coverage) = (workspace.root(), &manifest.coverage);
        let secrets = Arc::new(HeldSecrets::hold(root, coverage));
        workspace.secrets.note(secrets.contents());
        let git_dirs = HeldGitDirs::hold(root, coverage, &layout.git_objects());
        let has_git = !git_dirs.dirs.is_empty();
        let (mut record, key) = HeldRecord::new(id);
        secrets.add_to(&mut record, root, key);
        let entries = HeldEntries::hold(root, coverage);
        record.git_dirs = git_dirs.to_record(key, workspace.sensitive());
        record.entries = entries.to_record(root);
        record.settings = SettingsSnapshot::read(layout)?.to_record();
        record.queue = QueueRecord::read(layout, letters)?;
        record.active = ActiveRecordCopy::read(layout);
        record.write(layout)?;
        Ok(UncapturedState {
            secrets,
            places: HeldPlaces::shared(entries, git_dirs),
            outputs: HeldOutputs::hold(root, layout.outputs()),
            git_unread: manifest.unread_repositories(root.path()),
            now: coverage.sensitive.clone(),
            became: Vec::new(),
            settings: None,
            queue: None,
            was_killed: false,
            is_empty: is_empty(coverage) && !has_git,
        })
    }

    /// What is left after decree was killed: names, and what it recorded.
    pub fn after_kill(layout: &Layout, root: &Root, coverage: &Coverage, id: &str) -> UncapturedState {
        let mut record = HeldRecord::read(layout, id);
        let git_dirs = record.as_mut().map(|(record, key)| (std::mem::take(&mut record.git_dirs), *key));
        let known = record.as_ref().map(|(record, key)| (record, *key));
        let (git_dirs, key) = git_dirs.unwrap_or_default();
        let git_dirs = HeldGitDirs::from_record(root, git_dirs, key, &layout.git_objects());
        UncapturedState {
            secrets: Arc::new(HeldSecrets::after_kill(&coverage.sensitive, known)),
            places: HeldPlaces::shared(HeldEntries::by_name(coverage), git_dirs),
            outputs: HeldOutputs::nothing(),
            git_unread: Vec::new(),
            now: coverage.sensitive.clone(),
            became: Vec::new(),
            queue: record.as_mut().map(|(record, _)| std::mem::take(&mut record.queue)),
            settings: record.map(|(record, _)| record.settings),
            was_killed: true,
            is_empty: is_empty(coverage),
        }
    }

    fn places(&self) -> MutexGuard<'_, HeldPlaces> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a signal that ends decree at once restore what only this process holds, as far as `covers` accepts it, after what has the mark
    /// was ended. `record` names the run or guarded command for the next decree. Until [`interrupt::set_last_act`] is called again.
    pub fn restore_at_exit(
        &self,
        root: &Root,
        set_aside: PathBuf,
        (mark, record): (ProcessMark, PathBuf),
        covers: impl Fn(&TreePath) -> bool + Send + 'static,
    ) {
        let Ok(root) = Root::open(root.path()) else { return };
        let (secrets, places) = (Arc::clone(&self.secrets), Arc::clone(&self.places));
        let act = FinalRestore { secrets, places, root, set_aside, mark, record };
        interrupt::set_last_act(Some(Box::new(move || act.run(&covers))));
    }

    /// What cannot be restored: likely secrets, and git's own state.
    pub fn warnings(&self) -> Vec<String> {
        let words = |(path, why): (String, String)| format!("{path} ({why})");
        let secrets: Vec<String> = self.secrets.not_held().into_iter().map(words).collect();
        let (objects, only_linked, git_files) = {
            let git_dirs = &self.places().git_dirs;
            (git_dirs.not_held(), git_dirs.only_linked(), git_dirs.files_not_held())
        };
        let lists = [
            ("these likely secrets cannot be restored after a failure", &secrets),
            ("git's own state cannot be read, and not be restored after a failure, in", &self.git_unread),
            ("git objects cannot be restored after a failure", &objects),
            (
                "too large to be copied, these git objects cannot be restored if .decree/ is deleted with them",
                &only_linked,
            ),
            (
                "too large to be held, these files of git's directory cannot be restored after a failure",
                &git_files,
            ),
        ];
        let lists = lists.iter().filter(|(_, list)| !list.is_empty());
        lists.map(|(what, list)| format!("{what}: {}", named(list))).collect()
    }

    /// Notes which likely secrets are in the tree now, and which of them the checkpoint holds.
    pub fn note_present(&mut self, now: &[TreePath], checkpoint: &Tree) {
        self.now = now.to_vec();
        self.became = now.iter().filter(|path| checkpoint.has(path)).cloned().collect();
    }

    /// Repositories that are gone, were replaced, or are broken.
    pub fn lost_repositories(&self, root: &Root) -> Vec<LostRepository> {
        let places = self.places();
        let mut lost = places.entries.lost_repositories(root);
        let broken = places.git_dirs.broken().into_iter();
        lost.extend(broken.map(|(path, what)| LostRepository { path, what }));
        lost
    }

    /// Removes what is only needed while something runs.
    pub fn release(&mut self) {
        self.secrets.release();
        self.places().git_dirs.release();
        self.outputs.release();
    }

    /// Before something runs again after likely secrets were restored.
    pub fn reserve_room(&self, root: &Root) {
        self.secrets.reserve(root);
    }

    /// Moves renamed directories back, before the tree is compared: otherwise all of their files would be new.
    pub fn move_back(
        &self,
        root: &Root,
        set_aside: &Path,
        covers: &dyn Fn(&TreePath) -> bool,
    ) -> UncapturedReport {
        let back = self.places().entries.move_back(root, set_aside, covers);
        let notes = back.notes(root);
        UncapturedReport {
            moved_back: back.moved,
            restored: back.git_files,
            notes,
            ..UncapturedReport::default()
        }
    }

    /// What to report of a run that is kept: nothing is touched, except that decree's own output is not deleted.
    pub fn kept(&mut self, root: &Root) -> (UncapturedReport, Vec<String>) {
        let secrets = self.changes(root);
        let mut warnings = self.outputs.restore_for_kept(root);
        for kind in [EntryKind::Ignored, EntryKind::Special] {
            let gone = self.places().entries.gone(root, kind);
            if !gone.is_empty() {
                warnings.push(format!("gone, and in no diff because {}: {}", kind.words(), named(&gone)));
            }
        }
        let inside = self.places().git_dirs.gone_in_kept();
        if !inside.is_empty() {
            warnings.push(format!("gone from git's directory, and in no diff: {}", named(&inside)));
        }
        let places = self.places().git_dirs.restore_places();
        if !places.is_empty() {
            let what = "changed, and restored, as the work tree is where it was";
            warnings.push(format!("{what}: {}", named_paths(&places)));
        }
        let report = UncapturedReport { secrets, ..UncapturedReport::default() };
        warnings.extend(report.kept_warnings());
        (report, warnings)
    }

    /// Restores everything that `covers` accepts, after the tree was reverted. `moved` are paths that the revert set aside, and where.
    pub fn restore(
        &mut self,
        root: &Root,
        set_aside: &Path,
        covers: &dyn Fn(&TreePath) -> bool,
        place_of: &dyn Fn(&TreePath) -> Option<String>,
    ) -> UncapturedReport {
        let mut report = UncapturedReport::default();
        self.restore_own_files(&Layout::new(root.path().to_owned()), set_aside, &mut report);
        if self.is_empty && self.now.is_empty() {
            return report;
        }
        self.restore_entries(root, set_aside, covers, &mut report);
        let missing = self.places().entries.missing(root, covers);
        report.secrets = self.secrets.restore(root, set_aside, covers);
        report.add_modes(self.secrets.restore_modes(root, covers));
        // A directory that held nothing else is back with its secrets.
        let is_lost = |entry: &&MissingEntry| !self.secrets.is_all_of(root, &entry.path);
        report.name_lost(missing.iter().filter(is_lost).map(|entry| {
            let path = quote::in_json(entry.path.as_bytes()).into_owned();
            (path, format!("{}: {}", entry.kind.words(), entry.why))
        }));
        report.name_lost_secrets();
        if self.was_killed {
            let deleted = |path: &String| report.secrets.iter().any(|change| change.path == *path);
            let all = self.secrets.unread();
            report.unknown = all.into_iter().filter(|path| !deleted(path)).collect();
        }
        report.secrets.extend(self.made(root, place_of));
        // decree itself has made the missing ones again, for the likely secrets in them.
        let may_be_remade = |path: &TreePath| {
            covers(path)
                && missing.iter().all(|entry| entry.path != *path)
                && !self.secrets.is_all_of(root, path)
        };
        self.name_untouched(root, covers, &may_be_remade, &mut report);
        report
    }

    /// Names what is not as it was, and is not to be restored: it is out of the scope, or was in an ignored directory that is there again,
    /// one of those that `may_be_remade` accepts.
    fn name_untouched(
        &self,
        root: &Root,
        covers: &dyn Fn(&TreePath) -> bool,
        may_be_remade: &dyn Fn(&TreePath) -> bool,
        report: &mut UncapturedReport,
    ) {
        let is_outside = |path: &TreePath| !covers(path);
        for change in self.secrets.changes(root, &[]) {
            if change.tree_path().is_some_and(|path| is_outside(&path)) {
                let (path, what) = (json_for_people(&change.path), change.change.word());
                let note = format!("{path} was {what}; it is a likely secret out of the scope, and stays so");
                report.notes.push(note);
            }
        }
        let places = self.places();
        let missing = places.entries.missing(root, &is_outside);
        for entry in missing.iter().filter(|entry| entry.kind != EntryKind::Repository) {
            let (path, why) = (&entry.path, &entry.why);
            report.notes.push(format!("{path}, which is out of the scope, is not restored: {why}"));
        }
        let replaced = places.entries.replaced(root, may_be_remade);
        if !replaced.is_empty() {
            let what =
                "ignored directories that were deleted and made again, so that what was in them is gone";
            report.notes.push(format!("{what}: {}", named(&replaced)));
        }
    }

    /// After a kill: restores the queue, and names settings that differ. Otherwise `own_files` holds both.
    fn restore_own_files(&self, layout: &Layout, set_aside: &Path, report: &mut UncapturedReport) {
        if let Some(queue) = &self.queue {
            let queue = queue.restore(layout, set_aside);
            report.restored.extend(queue.restored);
            report.name_lost(queue.not_restored);
            report.settings.extend(queue.added);
        }
        if let Some(record) = &self.settings {
            let kept = SettingsSnapshot::from_record(layout, record).keep_former(set_aside);
            report.settings.extend(kept.unwrap_or_else(|error| vec![format!("unknown, as {error}")]));
        }
    }

    /// Renamed entries, files that decree's output goes to, and the inside of git directories, in this order: a repository that was
    /// renamed is not to be rebuilt.
    fn restore_entries(
        &mut self,
        root: &Root,
        set_aside: &Path,
        covers: &dyn Fn(&TreePath) -> bool,
        report: &mut UncapturedReport,
    ) {
        let back = self.places().entries.move_back(root, set_aside, covers);
        report.notes.extend(back.notes(root));
        report.moved_back = back.moved;
        report.restored.extend(back.git_files);
        let outputs = self.outputs.restore(root, set_aside);
        report.restored.extend(outputs.restored);
        report.notes.extend(outputs.notes);
        report.name_lost(outputs.lost);
        let inside = self.places().restore_git_dirs(root, set_aside);
        report.restored.extend(inside.restored);
        report.name_lost(inside.not_restored);
    }

    /// Restores the likely secrets alone. New ones stay where they are.
    pub fn restore_secrets(&self, root: &Root, set_aside: &Path) -> UncapturedReport {
        let secrets = self.secrets.restore(root, set_aside, &|_| true);
        let mut report = UncapturedReport { secrets, ..UncapturedReport::default() };
        report.add_modes(self.secrets.restore_modes(root, &|_| true));
        report.name_lost_secrets();
        report.secrets.extend(self.made(root, &|_| None));
        report
    }

    /// What became of likely secrets, and what became one.
    fn changes(&self, root: &Root) -> Vec<SecretChange> {
        let mut changes = self.secrets.changes(root, &self.now);
        for change in changes.iter_mut().filter(|change| change.change == SecretFate::Made) {
            if change.tree_path().is_some_and(|path| self.became.contains(&path)) {
                (change.change, change.was_ordinary) = (SecretFate::Changed, true);
            }
        }
        changes
    }

    /// New likely secrets. A revert has moved those that no ignore rule hides.
    fn made(&self, root: &Root, place_of: &dyn Fn(&TreePath) -> Option<String>) -> Vec<SecretChange> {
        let mut changes = self.changes(root);
        changes.retain(|change| change.change == SecretFate::Made || change.was_ordinary);
        for change in &mut changes {
            change.set_aside = change.tree_path().as_ref().and_then(place_of);
            change.restored = change.set_aside.is_some();
        }
        changes
    }
}

fn is_empty(coverage: &Coverage) -> bool {
    let Coverage { sensitive, special, ignored_dirs, ignored_in_root, ignored_below, repositories, .. } =
        coverage;
    [sensitive, special, ignored_dirs, ignored_in_root, ignored_below].iter().all(|list| list.is_empty())
        && repositories.is_empty()
}
