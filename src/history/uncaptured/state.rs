//! Likely secrets, repositories and ignored entries together: held before, reported and restored after.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::entries::{EntryKind, HeldEntries, LostRepository};
use super::git_dirs::HeldGitDirs;
use super::nested::HeldNested;
use super::secrets::{HeldSecrets, SecretChange, SecretFate};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::root::Root;
use crate::checkpoint::tree::Tree;
use crate::checkpoint::workspace::Workspace;
use crate::humanize::count;
use crate::interrupt;

/// How many paths one message names.
const MAX_NAMED: usize = 20;

/// What a checkpoint does not hold, as it was.
pub struct UncapturedState {
    secrets: Arc<HeldSecrets>,
    entries: HeldEntries,
    git_dirs: HeldGitDirs,
    nested: HeldNested,
    /// The likely secrets that were in the tree when it was last looked at.
    now: Vec<TreePath>,
    /// Those of them that the checkpoint holds: they were no secrets then.
    became: Vec<TreePath>,
    was_killed: bool,
    /// Whether there is anything that could be missing.
    is_empty: bool,
}

/// Something that is not as it was, although everything was reverted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRestored {
    /// The path, spelled as in a manifest.
    pub path: String,
    pub why: String,
}

/// What was restored, and what was not.
#[derive(Clone, Debug, Default)]
pub struct UncapturedReport {
    pub secrets: Vec<SecretChange>,
    /// Directories that had been renamed and are back.
    pub moved_back: Vec<String>,
    /// What was changed or deleted inside of git directories and is restored, and `.git` files.
    restored: Vec<String>,
    /// What became of repositories below the project's own.
    nested: Vec<String>,
    pub not_restored: Vec<NotRestored>,
    /// Likely secrets that are there, and of which it is not known whether they were changed: decree was killed.
    unknown: Vec<String>,
}

/// What is held during a run, and what was restored so far.
pub struct HeldForRun {
    pub state: UncapturedState,
    pub report: UncapturedReport,
}

impl UncapturedState {
    /// Holds what the coverage names; git's objects in `git_objects`. Called after the checkpoint is made, and before anything else runs.
    pub fn hold(workspace: &Workspace, coverage: &Coverage, git_objects: &Path) -> UncapturedState {
        let root = workspace.root();
        let secrets = Arc::new(HeldSecrets::hold(root, coverage));
        workspace.secrets.note(secrets.contents());
        UncapturedState {
            secrets,
            entries: HeldEntries::hold(root, coverage),
            git_dirs: HeldGitDirs::hold(root, coverage, git_objects),
            nested: HeldNested::hold(root, coverage),
            now: coverage.sensitive.clone(),
            became: Vec::new(),
            was_killed: false,
            is_empty: is_empty(coverage),
        }
    }

    /// What is left after decree was killed: names, and no content.
    pub fn after_kill(coverage: &Coverage) -> UncapturedState {
        UncapturedState {
            secrets: Arc::new(HeldSecrets::by_name(&coverage.sensitive)),
            entries: HeldEntries::by_name(coverage),
            git_dirs: HeldGitDirs::nothing(),
            nested: HeldNested::nothing(),
            now: coverage.sensitive.clone(),
            became: Vec::new(),
            was_killed: true,
            is_empty: is_empty(coverage),
        }
    }

    /// Has a signal that ends decree at once restore the likely secrets that `covers` accepts first: nothing else holds them. Until
    /// [`interrupt::set_last_act`] is called again.
    pub fn restore_at_exit(
        &self,
        root: &Root,
        set_aside: PathBuf,
        covers: impl Fn(&TreePath) -> bool + Send + 'static,
    ) {
        let Ok(root) = Root::open(root.path()) else { return };
        let secrets = Arc::clone(&self.secrets);
        interrupt::set_last_act(Some(Box::new(move || secrets.restore_finally(&root, &set_aside, &covers))));
    }

    /// The warning about likely secrets that cannot be restored.
    pub fn warning(&self) -> Option<String> {
        let words = |(path, why): (String, String)| format!("{path} ({why})");
        let not_held: Vec<String> = self.secrets.not_held().into_iter().map(words).collect();
        (!not_held.is_empty())
            .then(|| format!("these likely secrets cannot be restored after a failure: {}", named(&not_held)))
    }

    /// Notes which likely secrets are in the tree now, and which of them the checkpoint holds.
    pub fn note_present(&mut self, now: &[TreePath], checkpoint: &Tree) {
        self.now = now.to_vec();
        self.became = now.iter().filter(|path| checkpoint.has(path)).cloned().collect();
    }

    /// Repositories that are gone, were replaced, or are broken.
    pub fn lost_repositories(&self, root: &Root) -> Vec<LostRepository> {
        let mut lost = self.entries.lost_repositories(root);
        let broken = self.git_dirs.broken().into_iter();
        lost.extend(broken.map(|(path, what)| LostRepository { path, what }));
        lost
    }

    /// Removes what is only needed while something runs.
    pub fn release(&mut self) {
        self.git_dirs.release();
    }

    /// Moves renamed directories back, before the tree is compared: otherwise all of their files would be new.
    pub fn move_back(
        &self,
        root: &Root,
        set_aside: &Path,
        covers: &dyn Fn(&TreePath) -> bool,
    ) -> UncapturedReport {
        let (moved_back, restored) = self.entries.move_back(root, set_aside, covers);
        UncapturedReport { moved_back, restored, ..UncapturedReport::default() }
    }

    /// What to report of a run that is kept: nothing is touched.
    pub fn kept(&self, root: &Root) -> (UncapturedReport, Vec<String>) {
        let secrets = self.changes(root);
        let mut warnings = Vec::new();
        for kind in [EntryKind::Ignored, EntryKind::Special] {
            let gone = self.entries.gone(root, kind);
            if !gone.is_empty() {
                warnings.push(format!("gone, and in no diff because {}: {}", kind.words(), named(&gone)));
            }
        }
        let inside = self.git_dirs.gone_in_kept();
        if !inside.is_empty() {
            warnings.push(format!("gone from git's directory, and in no diff: {}", named(&inside)));
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
        if self.is_empty && self.now.is_empty() {
            return report;
        }
        (report.moved_back, report.restored) = self.entries.move_back(root, set_aside, covers);
        self.entries.clear_replaced(root, set_aside, &|dir| self.git_dirs.can_rebuild(dir));
        let inside = self.git_dirs.restore(set_aside);
        report.restored.extend(inside.restored);
        let lost = inside.not_restored.into_iter();
        report.not_restored.extend(lost.map(|(path, why)| NotRestored { path, why }));
        // The directory of the run or the checkpoint has its id as its name.
        let id = set_aside.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let (texts, failed) = self.nested.restore(&id);
        report.nested = texts;
        report.not_restored.extend(failed.into_iter().map(|(path, why)| NotRestored { path, why }));
        self.entries.adopt(root, &|dir| self.git_dirs.was_rebuilt(dir));
        let missing = self.entries.missing(root, covers);
        report.secrets = self.secrets.restore(root, set_aside, covers);
        let lost = missing.into_iter().filter(|entry| !self.secrets.is_all_of(root, &entry.path));
        report.not_restored.extend(lost.map(|entry| NotRestored {
            path: quote::in_json(entry.path.as_bytes()).into_owned(),
            why: format!("{}: {}", entry.kind.words(), entry.why),
        }));
        report.name_lost_secrets();
        if self.was_killed {
            let deleted = |path: &String| report.secrets.iter().any(|change| change.path == *path);
            let all = self.secrets.paths();
            report.unknown = all.into_iter().filter(|path| !deleted(path)).collect();
        } else {
            report.secrets.extend(self.made(root, place_of));
        }
        report
    }

    /// Restores the likely secrets alone.
    pub fn restore_secrets(&self, root: &Root, set_aside: &Path) -> UncapturedReport {
        let secrets = self.secrets.restore(root, set_aside, &|_| true);
        let mut report = UncapturedReport { secrets, ..UncapturedReport::default() };
        report.name_lost_secrets();
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

impl UncapturedReport {
    fn name_lost_secrets(&mut self) {
        let lost = self.secrets.iter().filter(|change| !change.restored);
        self.not_restored.extend(lost.map(|change| NotRestored {
            path: change.path.clone(),
            why: format!(
                "a likely secret: it was {}; {}",
                change.change.word(),
                change.why.as_deref().unwrap_or_default()
            ),
        }));
    }

    /// Adds what a later restore reports. A path counts once.
    pub fn absorb(&mut self, later: UncapturedReport) {
        let UncapturedReport { secrets, moved_back, restored, nested, not_restored, unknown } = later;
        self.nested.extend(nested);
        self.secrets.retain(|old| secrets.iter().all(|new| new.path != old.path));
        self.secrets.extend(secrets);
        self.moved_back.extend(moved_back);
        self.moved_back.sort();
        self.moved_back.dedup();
        self.restored.extend(restored);
        self.restored.sort();
        self.restored.dedup();
        self.not_restored = not_restored;
        self.unknown = unknown;
    }

    /// One text for each thing that happened, for a run or command that was reverted.
    pub fn reverted_warnings(&self) -> Vec<String> {
        let mut texts = self.secret_texts(|change| match (change.change, &change.set_aside) {
            (SecretFate::Made, Some(place)) => Some(format!("it is a likely secret, and is now {place}")),
            (SecretFate::Made, None) => {
                Some("it is a likely secret that an ignore rule hides, and stays".to_owned())
            }
            (_, Some(place)) if change.was_ordinary => Some(format!(
                "it became a likely secret: the version of the checkpoint is restored, the other is now {place}"
            )),
            (_, None) if change.was_ordinary => None,
            (_, Some(place)) => Some(format!("it is restored from memory; the other version is now {place}")),
            (_, None) if change.restored => Some("it is restored from memory".to_owned()),
            // `not_restored` has it.
            (_, None) => None,
        });
        if !self.moved_back.is_empty() {
            texts.push(format!("renamed, and moved back: {}", named(&self.moved_back)));
        }
        if !self.restored.is_empty() {
            let what = "changed or deleted, and restored";
            texts.push(format!("{what}: {}", named(&self.restored)));
        }
        texts.extend(self.nested.iter().cloned());
        let lost: Vec<String> =
            self.not_restored.iter().map(|lost| format!("{} ({})", lost.path, lost.why)).collect();
        if !lost.is_empty() {
            texts.push(format!("NOT restored: {}", named(&lost)));
        }
        if !self.unknown.is_empty() {
            let unknown =
                "the decree that held the likely secrets has ended, and what was changed may NOT be restored";
            texts.push(format!("{unknown}: check {}", named(&self.unknown)));
        }
        texts
    }

    /// The same for a run or command that is kept.
    pub fn kept_warnings(&self) -> Vec<String> {
        self.secret_texts(|change| {
            Some(if change.was_ordinary {
                "it is a likely secret now, so its new content is withheld from the diff, and stays"
                    .to_owned()
            } else {
                "it is a likely secret, so it is in no diff, and stays so".to_owned()
            })
        })
    }

    /// A text for each likely secret for which there is something to say; further ones are only counted.
    fn secret_texts(&self, describe: impl Fn(&SecretChange) -> Option<String>) -> Vec<String> {
        let text = |change: &SecretChange| {
            let what = describe(change)?;
            Some(format!("{} was {}; {what}", change.path, change.change.word()))
        };
        let mut texts: Vec<String> = self.secrets.iter().filter_map(text).collect();
        let more = texts.len().saturating_sub(MAX_NAMED);
        if more > 0 {
            texts.truncate(MAX_NAMED);
            texts.push(format!("{} more were changed, deleted or made", count(more, "likely secret")));
        }
        texts
    }
}

/// A list for people; further paths are only counted.
fn named(list: &[String]) -> String {
    let shown = list[..list.len().min(MAX_NAMED)].join(", ");
    match list.len().saturating_sub(MAX_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
