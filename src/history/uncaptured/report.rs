//! What became of likely secrets, repositories and ignored entries: the record, and the texts for people.

use serde::{Deserialize, Serialize};

use super::dir_modes::RestoredModes;
use super::secrets::{SecretChange, SecretFate};
use crate::checkpoint::quote::json_for_people;
use crate::humanize::count;

/// How many paths one message names.
const MAX_NAMED: usize = 20;

/// Something that is not as it was, although everything was reverted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRestored {
    /// The path, spelled as in a manifest.
    pub path: String,
    pub why: String,
}

impl NotRestored {
    /// A line for people.
    pub fn line(&self) -> String {
        format!("{}: {}", json_for_people(&self.path), self.why)
    }
}

/// What was restored, and what was not.
#[derive(Clone, Debug, Default)]
pub struct UncapturedReport {
    pub secrets: Vec<SecretChange>,
    /// Directories that had been renamed and are back.
    pub moved_back: Vec<String>,
    /// What was changed or deleted inside of git directories and is restored, and `.git` files.
    pub(super) restored: Vec<String>,
    /// Directories in no checkpoint whose modes were changed and are restored.
    pub(super) modes: Vec<String>,
    /// Sentences on what is kept elsewhere.
    pub(super) notes: Vec<String>,
    pub not_restored: Vec<NotRestored>,
    /// Likely secrets that are there, and of which it is not known whether they were changed: decree was killed.
    pub(super) unknown: Vec<String>,
    /// decree's own settings that differ after a kill, by the routine or by a person: they stay.
    pub(super) settings: Vec<String>,
}

impl UncapturedReport {
    /// Adds paths that are not as they were, each with the reason.
    pub(super) fn name_lost(&mut self, lost: impl IntoIterator<Item = (String, String)>) {
        self.not_restored.extend(lost.into_iter().map(|(path, why)| NotRestored { path, why }));
    }

    pub(super) fn add_modes(&mut self, modes: RestoredModes) {
        self.modes.extend(modes.restored);
        self.name_lost(modes.lost);
    }

    pub(super) fn name_lost_secrets(&mut self) {
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
        let UncapturedReport { secrets, moved_back, restored, modes, notes, not_restored, unknown, settings } =
            later;
        self.notes.extend(notes);
        self.settings = settings;
        self.secrets.retain(|old| secrets.iter().all(|new| new.path != old.path));
        self.secrets.extend(secrets);
        self.moved_back.extend(moved_back);
        self.moved_back.sort();
        self.moved_back.dedup();
        self.restored.extend(restored);
        self.restored.sort();
        self.restored.dedup();
        self.modes.extend(modes);
        self.modes.sort();
        self.modes.dedup();
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
            (_, None) if change.restored => {
                Some(change.why.clone().unwrap_or_else(|| "it is restored from memory".to_owned()))
            }
            // `not_restored` has it.
            (_, None) => None,
        });
        if !self.moved_back.is_empty() {
            texts.push(format!("renamed, and moved back: {}", named(&self.moved_back)));
        }
        if !self.restored.is_empty() {
            let what = "changed or deleted, and restored";
            texts.push(format!("{what}: {}", named_paths(&self.restored)));
        }
        if !self.modes.is_empty() {
            let what = "the modes of directories were changed, and are restored";
            texts.push(format!("{what}: {}", named_paths(&self.modes)));
        }
        texts.extend_from_slice(&self.notes);
        let lost: Vec<String> = self
            .not_restored
            .iter()
            .map(|lost| format!("{} ({})", json_for_people(&lost.path), lost.why))
            .collect();
        if !lost.is_empty() {
            texts.push(format!("NOT restored: {}", named(&lost)));
        }
        if !self.settings.is_empty() {
            let what = "changed since the run or command began, by it or by you, and left as they are";
            texts.push(format!("{what}: {}", named(&self.settings)));
        }
        if !self.unknown.is_empty() {
            let unknown =
                "the decree that held the likely secrets has ended, and what was changed may NOT be restored";
            texts.push(format!("{unknown}: check {}", named_paths(&self.unknown)));
        }
        texts
    }

    /// What became of likely secrets that were restored before the tree, or that stay, for an error about the tree.
    pub fn secret_lines(&self) -> Vec<String> {
        self.secret_texts(|change| match (change.change, &change.set_aside) {
            (fate, Some(place)) if fate == SecretFate::Made || change.was_ordinary => {
                Some(format!("it is a likely secret, and is now {place}"))
            }
            _ if change.was_ordinary => Some("it became a likely secret, and stays".to_owned()),
            (SecretFate::Made, _) => Some("it is a likely secret, and stays".to_owned()),
            // `not_restored` has the others.
            _ => change.restored.then(|| "it is a likely secret, and as it was again".to_owned()),
        })
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
            Some(format!("{} was {}; {what}", json_for_people(&change.path), change.change.word()))
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

/// The same as [`named`] for paths that are spelled as in a manifest.
pub(super) fn named_paths(list: &[String]) -> String {
    named(&list.iter().map(|path| json_for_people(path).into_owned()).collect::<Vec<_>>())
}

/// A list for people; further paths are only counted.
pub(super) fn named(list: &[String]) -> String {
    let shown = list[..list.len().min(MAX_NAMED)].join(", ");
    match list.len().saturating_sub(MAX_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
