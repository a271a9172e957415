//! Garbage collection: checkpoints that have expired, and content that no run and no checkpoint names.
//!
//! A survey comes first, and changes nothing; so a dry run reports what a real one would find. In doubt nothing is dropped:
//! a manifest that cannot be read may name any content, and a shared store holds content that other projects name.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::lookup::dirs_in;
use super::manifests::Manifests;
use super::record::CheckpointRecord;
use super::remove::{SetAsideRule, remove};
use super::set_aside::set_aside_files;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::manifest::{NeededContent, PartsRead};
use crate::checkpoint::store::{CompactionPlan, CompactionReport, HashList, HashListBuilder, Store};
use crate::error::{Error, Result};
use crate::humanize::count;
use crate::interrupt;
use crate::project::Layout;

/// A checkpoint that has expired.
#[derive(Debug)]
pub struct ExpiredCheckpoint {
    pub record: CheckpointRecord,
    pub dir: CheckpointDir,
    /// What can be restored from no other checkpoint or run; `None` if its manifest, or another, is damaged.
    pub lost: Option<OrphanedContent>,
    /// The size of its own files, without content in the store.
    pub bytes: u64,
}

/// Files whose content no remaining run or checkpoint has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphanedContent {
    pub files: u64,
    pub bytes: u64,
}

/// What happens to the content of the store.
pub enum ContentPlan<'s> {
    /// It is known which content is needed.
    Known(CompactionPlan<'s>),
    /// Other projects may need it, for this reason.
    Shared(String),
    /// It is not known which content is needed.
    Doubtful(Error),
}

/// What a collection would do.
pub struct GcPlan<'s> {
    /// Expired checkpoints, oldest first.
    pub expired: Vec<ExpiredCheckpoint>,
    /// Expired checkpoints that stay, because something that was set aside may be nowhere else; and those files.
    pub with_set_aside: Vec<(CheckpointDir, Vec<PathBuf>)>,
    /// The errors of checkpoints whose expiry cannot be read; these stay.
    pub unknown: Vec<Error>,
    pub content: ContentPlan<'s>,
}

/// What a collection did.
#[derive(Debug, Default)]
pub struct GcReport {
    /// `None` if the content of the store was left alone.
    pub compaction: Option<CompactionReport>,
    /// The bytes that were freed, with those of the checkpoints' own files.
    pub freed: u64,
}

/// Finds what can be collected, and changes nothing.
pub fn survey<'s>(layout: &Layout, store: &'s Store) -> Result<GcPlan<'s>> {
    survey_found(layout, store, &Manifests::find(layout))
}

/// Like [`survey`]; `None` if that means reading more than `max_bytes` of manifests, or more than `max_files`.
pub fn quick_survey<'s>(
    layout: &Layout,
    store: &'s Store,
    max_bytes: u64,
    max_files: usize,
) -> Result<Option<GcPlan<'s>>> {
    let found = Manifests::find_up_to(layout, max_files);
    let (bytes, files) = found.size();
    if bytes > max_bytes || files > max_files {
        return Ok(None);
    }
    survey_found(layout, store, &found).map(Some)
}

fn survey_found<'s>(layout: &Layout, store: &'s Store, found: &Manifests) -> Result<GcPlan<'s>> {
    let (mut expired, unknown) = expired(&layout.checkpoints())?;
    let with_set_aside = take_with_set_aside(&mut expired);
    let leaving: Vec<&Path> = expired.iter().map(|expired| expired.dir.dir()).collect();
    let needed = needed(store, found, &leaving);
    if let Ok(needed) = &needed {
        for expired in &mut expired {
            let record = &expired.record;
            expired.lost = if record.kind().holds_tree() {
                lost(store, found, expired.dir.dir(), needed)
            } else {
                Some(OrphanedContent { files: record.files, bytes: record.bytes })
            };
        }
    }
    let content = match (shared(layout, store), needed) {
        (Some(why), _) => ContentPlan::Shared(why),
        (None, Err(error)) => ContentPlan::Doubtful(error),
        (None, Ok(needed)) => match store.plan_compaction(needed) {
            Ok(plan) => ContentPlan::Known(plan),
            Err(error) => ContentPlan::Doubtful(error.detail("no content is dropped")),
        },
    };
    Ok(GcPlan { expired, with_set_aside, unknown, content })
}

/// Checkpoints that have certainly expired, and the errors of those that cannot be read.
fn expired(checkpoints: &Path) -> Result<(Vec<ExpiredCheckpoint>, Vec<Error>)> {
    let (mut expired, mut unknown) = (Vec::new(), Vec::new());
    for id in dirs_in(checkpoints)? {
        let dir = checkpoints.join(&id);
        match CheckpointRecord::read(&dir) {
            Ok(record) if record.id != id => {
                unknown.push(Error::integrity(format!(
                    "{}: its record belongs to {}",
                    dir.display(),
                    record.id
                )));
            }
            // An earlier version of decree recorded a revert to a checkpoint in the checkpoint itself.
            Ok(record) if record.is_expired() && CheckpointDir::new(&id, &dir).has_change_record() => {
                unknown.push(Error::integrity(format!(
                    "{id} has expired, but has the only record of the change that a revert to it undid"
                )));
            }
            Ok(record) if record.is_expired() && !dir.is_symlink() => {
                let bytes = bytes_below(&dir);
                expired.push(ExpiredCheckpoint {
                    record,
                    dir: CheckpointDir::new(id, dir),
                    lost: None,
                    bytes,
                });
            }
            Ok(_) => {}
            Err(_) if dir.symlink_metadata().is_err() => {}
            Err(error) => unknown.push(error),
        }
    }
    expired.sort_by(|a, b| (&a.record.created_at, &a.record.id).cmp(&(&b.record.created_at, &b.record.id)));
    Ok((expired, unknown))
}

/// Takes those out of the list that have files in `set-aside/`.
fn take_with_set_aside(expired: &mut Vec<ExpiredCheckpoint>) -> Vec<(CheckpointDir, Vec<PathBuf>)> {
    let mut taken = Vec::new();
    expired.retain(|checkpoint| {
        let files = set_aside_files(&checkpoint.dir);
        let is_deleted = files.is_empty();
        if !is_deleted {
            taken.push((checkpoint.dir.clone(), files));
        }
        is_deleted
    });
    taken
}

/// All content that the remaining runs and checkpoints name.
fn needed(store: &Store, found: &Manifests, leaving: &[&Path]) -> Result<HashList> {
    let (mut named, mut seen) = (HashListBuilder::default(), PartsRead::default());
    let (places, doubts) = found.without(leaving);
    let mut doubts: Vec<String> = doubts.map(|doubt| doubt.error.to_string()).collect();
    for place in places {
        interrupt::check()?;
        if let Err(error) = place.visit(store, &mut seen, &mut |content| named.add(content.hash)) {
            doubts.push(error.to_string());
        }
    }
    if doubts.is_empty() {
        return Ok(named.finish());
    }
    Err(Error::integrity("cannot tell which content is needed, so no content is dropped")
        .details(doubts, 20)
        .hint("repair or delete what is damaged (`decree checkpoint delete`), then run gc again"))
}

/// The content of a checkpoint that is nowhere else.
fn lost(store: &Store, found: &Manifests, dir: &Path, needed: &HashList) -> Option<OrphanedContent> {
    let mut lost = OrphanedContent::default();
    let mut count = |content: NeededContent| {
        if content.is_entry && !needed.contains(&content.hash) {
            lost.files += 1;
            lost.bytes += content.size.unwrap_or(0);
        }
    };
    for place in found.of(dir) {
        place.visit(store, &mut PartsRead::default(), &mut count).ok()?;
    }
    Some(lost)
}

/// Why other projects may need content of the store, if they may.
fn shared(layout: &Layout, store: &Store) -> Option<String> {
    if !layout.owns_store() {
        let why = "other projects may use it, and which content they need is not known here";
        return Some(format!("the store is {}: {why}", store.dir().display()));
    }
    store
        .shared_mark()
        .map(|mark| format!("other projects use the store, according to {}", layout.shown(&mark)))
}

/// The size of all files below a directory. An unreadable directory does not keep a checkpoint from being deleted.
fn bytes_below(dir: &Path) -> u64 {
    let entries = WalkDir::new(dir).into_iter().flatten().filter(|entry| !entry.file_type().is_dir());
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

impl GcPlan<'_> {
    /// What a dry run reports.
    pub fn expected(&self) -> GcReport {
        let compaction = match &self.content {
            ContentPlan::Known(plan) => Some(plan.expected()),
            ContentPlan::Shared(_) | ContentPlan::Doubtful(_) => None,
        };
        self.report(compaction)
    }

    /// Carries out the plan. The caller has held the project's lock since the survey.
    pub fn carry_out(&self, layout: &Layout) -> Result<GcReport> {
        for (done, expired) in self.expired.iter().enumerate() {
            let reason = format!("expired on {}", expired.record.expiry.as_deref().unwrap_or_default());
            interrupt::check()
                .and_then(|()| remove(layout, &expired.dir, Some(reason), SetAsideRule::Keep))
                .map_err(|error| {
                    let all = count(self.expired.len(), "expired checkpoint");
                    error.detail(format!("{done} of {all} were deleted before that; no content was dropped"))
                })?;
        }
        let compaction = match &self.content {
            ContentPlan::Known(plan) => Some(plan.run()?),
            ContentPlan::Shared(_) | ContentPlan::Doubtful(_) => None,
        };
        Ok(self.report(compaction))
    }

    fn report(&self, compaction: Option<CompactionReport>) -> GcReport {
        let own: u64 = self.expired.iter().map(|expired| expired.bytes).sum();
        GcReport { compaction, freed: own + compaction.map_or(0, |compaction| compaction.freed()) }
    }
}
