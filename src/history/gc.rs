//! What is not needed any more: checkpoints that have expired, and content that no run and no checkpoint names.
//!
//! First everything is looked at, then something is done; so a dry run tells what a real one would find. Nothing is dropped in
//! doubt: a manifest that cannot be read may name any content, and a store that others use holds what is named elsewhere.

use std::fs;
use std::io;
use std::path::Path;

use super::lookup::names_in;
use super::manifests::Manifests;
use super::record::CheckpointRecord;
use super::remove::remove;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::store::{CompactionPlan, CompactionReport, HashList, HashListBuilder, Store};
use crate::error::{Error, IoContext, Result};
use crate::humanize::count;
use crate::interrupt;
use crate::project::Layout;

/// A checkpoint whose time is over.
#[derive(Debug)]
pub struct ExpiredCheckpoint {
    /// What it says of itself.
    pub record: CheckpointRecord,
    /// Where it is.
    pub saved: CheckpointDir,
    /// What cannot be brought back without it. Not known if its manifest, or another's, is damaged.
    pub lost: Option<OrphanedContent>,
    /// Its own files, without content.
    pub bytes: u64,
}

/// Files whose content nothing that stays has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphanedContent {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is to become of the content.
pub enum ContentPlan<'s> {
    /// It is known what is needed.
    Known(CompactionPlan<'s>),
    /// Others may need it: why that is so.
    Shared(String),
    /// It is not known what is needed.
    Doubtful(Error),
}

/// What could be collected.
pub struct GcPlan<'s> {
    /// Oldest first.
    pub expired: Vec<ExpiredCheckpoint>,
    /// Checkpoints of which nobody knows whether they have expired; they stay.
    pub unknown: Vec<Error>,
    /// The rest.
    pub content: ContentPlan<'s>,
}

/// What was collected.
#[derive(Debug, Default)]
pub struct GcReport {
    /// In the store, if anything was looked for there.
    pub tidied: Option<CompactionReport>,
    /// What came back, the checkpoints' own files among it.
    pub freed: u64,
}

/// Looks what there is to be collected, and changes nothing.
pub fn survey<'s>(layout: &Layout, store: &'s Store) -> Result<GcPlan<'s>> {
    survey_found(layout, store, &Manifests::find(layout))
}

/// The same, unless that means reading more manifests than `limit` bytes.
pub fn quick_survey<'s>(layout: &Layout, store: &'s Store, limit: u64) -> Result<Option<GcPlan<'s>>> {
    let found = Manifests::find(layout);
    match found.bytes() > limit {
        true => Ok(None),
        false => survey_found(layout, store, &found).map(Some),
    }
}

fn survey_found<'s>(layout: &Layout, store: &'s Store, found: &Manifests) -> Result<GcPlan<'s>> {
    let (mut expired, unknown) = expired(&layout.checkpoints())?;
    let leaving: Vec<&Path> = expired.iter().map(|expired| expired.saved.dir()).collect();
    let needed = needed(found, &leaving);
    if let Ok(needed) = &needed {
        for expired in &mut expired {
            expired.lost = match expired.record.kind().holds_tree() {
                true => lost(found, expired.saved.dir(), needed),
                false => Some(OrphanedContent { files: expired.record.files, bytes: expired.record.bytes }),
            };
        }
    }
    let content = match (shared(layout, store), needed) {
        (Some(why), _) => ContentPlan::Shared(why),
        (None, Err(error)) => ContentPlan::Doubtful(error),
        (None, Ok(needed)) => match store.tidying(needed) {
            Ok(tidying) => ContentPlan::Known(tidying),
            Err(error) => ContentPlan::Doubtful(error.detail("no content is dropped")),
        },
    };
    Ok(GcPlan { expired, unknown, content })
}

/// Checkpoints that have certainly expired; and what is wrong with those that do not say.
fn expired(checkpoints: &Path) -> Result<(Vec<ExpiredCheckpoint>, Vec<Error>)> {
    let (mut expired, mut unknown) = (Vec::new(), Vec::new());
    for id in names_in(checkpoints)? {
        let dir = checkpoints.join(&id);
        match CheckpointRecord::read(&dir) {
            Ok(record) if record.id != id => {
                unknown.push(Error::integrity(format!(
                    "{}: it says that it is {}",
                    dir.display(),
                    record.id
                )));
            }
            Ok(record) if record.is_expired() && !dir.is_symlink() => {
                let bytes = bytes_below(&dir)?;
                expired.push(ExpiredCheckpoint {
                    record,
                    saved: CheckpointDir::new(id, dir),
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

/// Everything that is named by what stays.
fn needed(found: &Manifests, leaving: &[&Path]) -> Result<HashList> {
    let mut named = HashListBuilder::default();
    let (places, doubts) = found.without(leaving);
    let mut doubts: Vec<String> = doubts.map(|doubt| doubt.error.to_string()).collect();
    for place in places {
        interrupt::check()?;
        match place.read() {
            Ok(Some(manifest)) => {
                let contents = manifest.tree.iter().filter_map(|entry| entry.node.content());
                contents.for_each(|(hash, _)| named.add(hash));
            }
            Ok(None) => {}
            Err(error) => doubts.push(error.to_string()),
        }
    }
    if doubts.is_empty() {
        return Ok(named.finish());
    }
    Err(Error::integrity("it is not known what is needed, so no content is dropped")
        .details(doubts, 20)
        .hint("repair or delete what is damaged (`decree checkpoint delete`), then run this again"))
}

/// What of a checkpoint is nowhere else.
fn lost(found: &Manifests, dir: &Path, needed: &HashList) -> Option<OrphanedContent> {
    let mut lost = OrphanedContent::default();
    for place in found.of(dir) {
        let manifest = place.read().ok()?;
        for (hash, size) in manifest.iter().flat_map(|it| it.tree.iter()).filter_map(|e| e.node.content()) {
            if !needed.has(&hash) {
                lost.files += 1;
                lost.bytes += size;
            }
        }
    }
    Some(lost)
}

/// Why others may need what is in the store, if they may.
fn shared(layout: &Layout, store: &Store) -> Option<String> {
    if !layout.owns_store() {
        let why = "other projects may use it, and what they need is not known here";
        return Some(format!("the store is {}: {why}", store.dir().display()));
    }
    store.shared_mark().map(|mark| format!("other projects use the store, says {}", layout.shown(&mark)))
}

/// The lengths of all files in a directory.
fn bytes_below(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        let entries = match fs::read_dir(&dir) {
            // What nobody may look into does not keep a checkpoint from being deleted.
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&error.kind()) =>
            {
                continue;
            }
            result => result.at("read", &dir)?,
        };
        for entry in entries.flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => todo.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    Ok(bytes)
}

impl GcPlan<'_> {
    /// What would be collected.
    pub fn expected(&self) -> GcReport {
        let tidied = match &self.content {
            ContentPlan::Known(tidying) => Some(tidying.expected()),
            ContentPlan::Shared(_) | ContentPlan::Doubtful(_) => None,
        };
        self.collected(tidied)
    }

    /// Collects it. Who calls this held the project's lock when it was looked for, and holds it still.
    pub fn carry_out(&self, layout: &Layout) -> Result<GcReport> {
        for (done, expired) in self.expired.iter().enumerate() {
            let reason = format!("expired on {}", expired.record.expiry.as_deref().unwrap_or_default());
            interrupt::check().and_then(|()| remove(layout, &expired.saved, Some(reason))).map_err(
                |error| {
                    let all = count(self.expired.len(), "expired checkpoint");
                    error.detail(format!("{done} of {all} were deleted before that; no content was dropped"))
                },
            )?;
        }
        let tidied = match &self.content {
            ContentPlan::Known(tidying) => Some(tidying.carry_out()?),
            ContentPlan::Shared(_) | ContentPlan::Doubtful(_) => None,
        };
        Ok(self.collected(tidied))
    }

    fn collected(&self, tidied: Option<CompactionReport>) -> GcReport {
        let own: u64 = self.expired.iter().map(|expired| expired.bytes).sum();
        GcReport { tidied, freed: own + tidied.map_or(0, |tidied| tidied.freed()) }
    }
}
