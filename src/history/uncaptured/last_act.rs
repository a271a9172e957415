//! What decree does before a repeated signal ends it at once: it restores what only this process holds. The next start reverts the tree.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::held_places::HeldPlaces;
use super::report::named;
use super::secrets::HeldSecrets;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote::json_for_people;
use crate::checkpoint::root::Root;
use crate::interrupt::LastActOutcome;
use crate::process::{ProcessMark, marked};

/// How long to wait for a thread that restores the same at this moment. Likely secrets are restored in any case.
const LOCK_LIMIT: Duration = Duration::from_secs(2);

/// What the last act restores, and what of.
pub(super) struct FinalRestore {
    pub secrets: Arc<HeldSecrets>,
    pub places: Arc<Mutex<HeldPlaces>>,
    pub root: Root,
    pub set_aside: PathBuf,
    /// In the environment of every process of the routine or the guarded command.
    pub mark: ProcessMark,
    /// `running.json` or `guarding.json`: by it the next decree knows what to revert.
    pub record: PathBuf,
}

impl FinalRestore {
    /// Ends what still runs, and could destroy again what is restored. Then moves renamed entries back, restores likely secrets, which may be
    /// in them, and then git directories.
    pub fn run(self, covers: &dyn Fn(&TreePath) -> bool) -> LastActOutcome {
        let has_ended = marked::kill(&self.mark);
        if self.record.symlink_metadata().is_err() {
            let why = "decree's own files are deleted, and only this process holds what was in them; it goes on and reverts the tree";
            return LastActOutcome::GoOn(why.to_owned());
        }
        let mut text = self.restore(covers);
        if !has_ended {
            text.push_str("; processes could NOT be ended, and may change that again");
        }
        LastActOutcome::End(text)
    }

    /// Returns what to say of it.
    fn restore(&self, covers: &dyn Fn(&TreePath) -> bool) -> String {
        let (root, set_aside) = (&self.root, &self.set_aside);
        // An earlier attempt may have deleted the directory of the project. If it is gone now, everything below says so.
        let _ = root.follow_path();
        let mut places = lock(&self.places);
        let mut text = String::new();
        if let Some(places) = &places {
            let back = places.entries.move_back(root, set_aside, covers);
            add(&mut text, "renamed, and moved back", &back.moved);
            add(&mut text, "in their place was what is now", &back.displaced_names(root));
        }
        let (restored, lost): (Vec<_>, Vec<_>) =
            self.secrets.restore(root, set_aside, covers).into_iter().partition(|change| change.restored);
        let restored: Vec<String> =
            restored.iter().map(|change| json_for_people(&change.path).into_owned()).collect();
        add(&mut text, "likely secrets are restored", &restored);
        let lost: Vec<String> = lost
            .into_iter()
            .map(|change| format!("{} ({})", json_for_people(&change.path), change.why.unwrap_or_default()))
            .collect();
        add(&mut text, "likely secrets are NOT restored", &lost);
        // What cannot be set is named by the next decree, which reverts the tree.
        self.secrets.restore_modes(root, covers);
        if let Some(places) = &mut places {
            let report = places.restore_git_dirs(root, set_aside);
            let shown = |path: &String| json_for_people(path).into_owned();
            let restored: Vec<String> = report.restored.iter().map(shown).collect();
            add(&mut text, "restored", &restored);
            let lost = report.not_restored.iter().map(|(path, why)| format!("{} ({why})", shown(path)));
            let lost: Vec<String> = lost.collect();
            add(&mut text, "NOT restored", &lost);
        }
        text
    }
}

fn lock(places: &Mutex<HeldPlaces>) -> Option<MutexGuard<'_, HeldPlaces>> {
    let until = Instant::now() + LOCK_LIMIT;
    loop {
        match places.try_lock().or_else(|error| match error {
            TryLockError::Poisoned(error) => Ok(PoisonError::into_inner(error)),
            TryLockError::WouldBlock => Err(()),
        }) {
            Ok(locked) => return Some(locked),
            Err(()) if Instant::now() >= until => return None,
            Err(()) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn add(text: &mut String, what: &str, paths: &[String]) {
    if !paths.is_empty() {
        text.push_str(&format!("; {what}: {}", named(paths)));
    }
}
