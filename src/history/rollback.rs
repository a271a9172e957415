//! Rolling back to a checkpoint. What is there is saved first, so that a rollback can be rolled back.
//!
//! 1. The checkpoint has to be whole and not expired.
//! 2. What differs within the scope is found; nothing else is ever touched.
//! 3. The present is saved as a checkpoint of the same type.
//! 4. What differs is restored.
//! 5. An entry is added to the audit trail: where a journal says that the restore has begun, before the journal is removed; where there
//!    is none, as for databases and git's index, before step 4.
//! 6. The scope is compared with the checkpoint again, and has to have its hash.

use serde::Deserialize;

use super::HistoryContext;
use super::audit::{self, AuditAction, AuditEntry};
use super::kind;
use super::lookup::RunOrCheckpoint;
use super::record::CheckpointRecord;
use super::rollback_report::{RollbackOptions, RollbackReport};
use super::store_location::name_store;
use crate::checkpoint::change_record::ResultFile;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::Result;
use crate::interrupt;

/// Rolls back to a checkpoint, or to what was there before a run. The caller holds the project's lock.
pub fn rollback(
    context: HistoryContext<'_>,
    found: &RunOrCheckpoint,
    options: &RollbackOptions,
) -> Result<RollbackReport> {
    let dir = found.dir();
    let record = match found {
        RunOrCheckpoint::Checkpoint(dir) => Some(CheckpointRecord::read(dir.dir())?),
        RunOrCheckpoint::Run(_) => None,
    };
    if let Some(record) = record.as_ref().filter(|_| !options.even_expired) {
        record.refuse_expired()?;
    }
    let audit_path = context.layout.audit();
    let report = kind::restore(context, dir, record.as_ref(), options).inspect_err(|error| {
        // Something may have been changed, so the trail has an entry even for a failure.
        if let Some(present) = options.present.take() {
            let entry = AuditEntry {
                reason: Some(format!("not finished: {error}")),
                saved: Some(present),
                ..AuditEntry::new(AuditAction::Rollback, dir.id(), 0)
            };
            let _ = audit::record(&audit_path, entry);
        }
    });
    // A restore that is done is not interrupted any more; databases, of which some may be restored, are named one by one.
    let holds_tree = record.as_ref().is_none_or(|record| record.kind().holds_tree());
    let mut report = report.map_err(|error| {
        let error = if holds_tree { interrupt::name_unchanged(error) } else { error };
        name_store(context.layout, dir, error)
    })?;
    report.created_at = record.map_or_else(|| run_start(dir), |record| Some(record.created_at));
    match (report.logged.take(), &report.present) {
        (Some(logged), _) => logged?,
        (None, Some(present)) => {
            audit::record_done(&audit_path, report.audit_entry(dir.id(), present, options))?;
        }
        (None, None) => {}
    }
    Ok(report)
}

/// The part of a run's `result.json` that says when its checkpoint was made.
#[derive(Deserialize)]
struct StartKey {
    started_at: String,
}

/// When a run began; `None` if its result cannot be read.
fn run_start(dir: &CheckpointDir) -> Option<String> {
    let path = dir.result_path();
    let mut result = ResultFile::read(&path).ok()??;
    Some(result.extra::<StartKey>(&path).ok()??.started_at)
}
