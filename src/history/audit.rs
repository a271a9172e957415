//! `audit.jsonl`: what was reverted, rolled back, applied again or deleted, by which user, when and why. Lines are only ever added, and
//! each carries the hash of the one before: a line that is changed or removed breaks all that follow.
//!
//! The file itself does not show that lines are missing at its end; a user who has noted the hash of the last line can detect that.

use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::restore::{FinishedRestore, RestoreAction, RestoreLog};
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, untrusted};
use crate::process::redact::Redactor;

const VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditAction {
    /// A run, or everything since a checkpoint, was reverted by the user.
    Revert,
    /// A recorded change was applied again.
    Apply,
    /// Something was rolled back to a checkpoint.
    Rollback,
    /// A run failed, and decree reverted it.
    PutBack,
    /// A checkpoint was deleted.
    Delete,
}

/// What an audit line says of one action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub action: AuditAction,
    /// The id of the run or checkpoint.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many paths it changed.
    pub paths: u64,
    /// The hash of the scope before, if it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The hash of the scope afterwards, if it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The checkpoint that holds what was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    /// The id in the journal of the restore, by which recovery recognises that this entry was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<String>,
}

impl AuditEntry {
    pub fn new(action: AuditAction, subject: impl Into<String>, paths: u64) -> AuditEntry {
        let subject = subject.into();
        AuditEntry {
            action,
            subject,
            reason: None,
            paths,
            before: None,
            after: None,
            saved: None,
            restore: None,
        }
    }
}

impl From<RestoreAction> for AuditAction {
    fn from(action: RestoreAction) -> Self {
        match action {
            RestoreAction::Revert => AuditAction::Revert,
            RestoreAction::Apply => AuditAction::Apply,
            RestoreAction::Rollback => AuditAction::Rollback,
            RestoreAction::PutBack => AuditAction::PutBack,
        }
    }
}

/// The audit trail of a project, as the engine sees it: it gets an entry for each restore, before the restore's journal is
/// removed. So a process that is killed leaves the entry, or the journal from which recovery writes it.
pub struct AuditLog {
    path: PathBuf,
    /// What the caller knows of the restore, and the engine does not.
    entry: Option<AuditEntry>,
}

impl AuditLog {
    /// The caller holds the project's lock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        AuditLog { path: path.into(), entry: None }
    }

    /// A log that writes this entry when the restore is done.
    pub fn with_entry(path: impl Into<PathBuf>, entry: AuditEntry) -> Self {
        AuditLog { path: path.into(), entry: Some(entry) }
    }
}

/// The log of a rollback or a revert to a checkpoint: the state of the runs that it moves, if the caller knows of runs, and the trail.
pub struct RollbackLog<'r> {
    pub audit: AuditLog,
    pub runs: Option<&'r dyn RestoreLog>,
}

impl RestoreLog for RollbackLog<'_> {
    fn settle(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        self.runs.map_or(Ok(()), |runs| runs.settle(restore))
    }

    fn record(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        self.audit.record(restore)
    }
}

/// Whether the entry of a restore was written.
pub fn has(path: &Path, restore: &str) -> Result<bool> {
    let text = read(path)?;
    let mut records = lines(&text).filter_map(|line| serde_json::from_slice::<AuditRecord>(line).ok());
    Ok(records.any(|record| record.entry.restore.as_deref() == Some(restore)))
}

impl RestoreLog for AuditLog {
    fn record(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        if restore.recovered && has(&self.path, restore.id)? {
            return Ok(());
        }
        let entry = self.entry.clone().unwrap_or_else(|| AuditEntry {
            reason: restore.recovered.then(|| "finished after an interruption".to_owned()),
            ..AuditEntry::new(restore.action.into(), restore.subject, restore.paths.len() as u64)
        });
        record_done(&self.path, AuditEntry { restore: Some(restore.id.to_owned()), ..entry })
    }
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    version: u32,
    pub at: String,
    /// The user that decree ran as; in CI, the account that started the workflow.
    pub who: String,
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// The hash of the line before; of nothing, for the first.
    pub previous: String,
}

/// The whole file, with its hashes verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditTrail {
    pub records: Vec<AuditRecord>,
    /// The hash of each line.
    pub hashes: Vec<String>,
    /// The numbers of lines that a crash cut off as they were written; only they are lost.
    pub cut_off: Vec<usize>,
}

/// Adds an entry. The caller holds the project's lock.
pub fn record(path: &Path, mut entry: AuditEntry) -> Result<()> {
    // Entries are never removed, so they must not hold secrets.
    entry.reason = entry.reason.map(|reason| Redactor::of_this_process().redact(&reason).into_owned());
    let bytes = read(path)?;
    let unfinished = !bytes.is_empty() && !bytes.ends_with(b"\n");
    let last = lines(&bytes).last().unwrap_or_default();
    let record = AuditRecord {
        version: VERSION,
        at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        who: who(),
        entry,
        previous: hash(last),
    };
    let mut line = if unfinished { b"\n".to_vec() } else { Vec::new() };
    serde_json::to_writer(&mut line, &record).expect("a record is plain data");
    line.push(b'\n');
    // A routine may have put a link there: the entry must not be added to another file.
    let no_link = OFlags::NOFOLLOW.bits() as i32;
    let file =
        OpenOptions::new().append(true).create(true).mode(atomic::PRIVATE).custom_flags(no_link).open(path);
    let mut file = file.at("open", path)?;
    // An earlier version may have created it.
    let _ = file.set_permissions(Permissions::from_mode(atomic::PRIVATE));
    // In one piece: what is added is a line, or the beginning of one.
    file.write_all(&line).and_then(|()| file.sync_all()).at("write to", path)?;
    atomic::sync_parent(path)
}

/// Adds the entry of something that is done already, and stays done if the entry cannot be written.
pub fn record_done(path: &Path, entry: AuditEntry) -> Result<()> {
    let saved = entry.saved.clone();
    record(path, entry).map_err(|error| {
        let error = error.detail("the operation is done; only its entry in the audit trail is missing");
        match saved {
            Some(saved) => error.detail(format!("the previous state is saved as {saved}")),
            None => error,
        }
    })
}

impl AuditTrail {
    /// Reads the file and verifies its hashes. A missing file is an empty trail.
    pub fn read(path: &Path) -> Result<AuditTrail> {
        let bytes = read(path)?;
        let mut trail = AuditTrail { records: Vec::new(), hashes: Vec::new(), cut_off: Vec::new() };
        let mut previous = hash(b"");
        for (number, line) in lines(&bytes).enumerate().map(|(number, line)| (number + 1, line)) {
            match serde_json::from_slice::<AuditRecord>(line) {
                Ok(record) if record.version > VERSION => {
                    return Err(damaged(path, number, "was written by a newer decree"));
                }
                Ok(record) if record.previous != previous => {
                    return Err(damaged(path, number, "does not follow from the one before it"));
                }
                Ok(record) => {
                    trail.records.push(record);
                    trail.hashes.push(hash(line));
                }
                // Cut off as it was written, by a crash: then it is the beginning of a record.
                Err(error) if error.is_eof() => trail.cut_off.push(number),
                Err(_) => return Err(damaged(path, number, "is not an audit entry")),
            }
            previous = hash(line);
        }
        Ok(trail)
    }

    /// The hash of the last record.
    pub fn head(&self) -> Option<&str> {
        self.hashes.last().map(String::as_str)
    }
}

fn damaged(path: &Path, line: usize, why: &str) -> Error {
    Error::integrity(format!("{}: line {line} {why}", path.display()))
        .detail("a line was changed, added or removed after it was written")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    Ok(untrusted::read(path).if_exists().at("read", path)?.unwrap_or_default())
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn hash(line: &[u8]) -> String {
    ContentHash::of(line).to_string()
}

/// The account that started the workflow, in GitHub Actions; elsewhere the user that decree runs as.
fn who() -> String {
    let named = ["GITHUB_ACTOR", "GITLAB_USER_LOGIN", "USER", "LOGNAME"].iter();
    let named = named.filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
    named.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn trail(count: usize) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        for number in 0..count {
            let reason = Some(format!("because of {number}\nand more"));
            record(
                &path,
                AuditEntry { reason, ..AuditEntry::new(AuditAction::Rollback, format!("chk_{number}"), 3) },
            )
            .unwrap();
        }
        (dir, path)
    }

    #[test]
    fn each_line_proves_the_one_before() {
        let (_dir, path) = trail(3);
        let found = AuditTrail::read(&path).unwrap();
        assert_eq!(found.records.len(), 3);
        assert_eq!(found.records[0].previous, hash(b""));
        assert_eq!(found.records[2].previous, found.hashes[1]);
        assert_eq!(found.head(), Some(found.hashes[2].as_str()));
        assert_eq!(AuditTrail::read(Path::new("/nowhere/at/all")).unwrap().records, []);
    }

    #[test]
    fn no_line_can_be_changed_moved_added_or_taken_out_but_at_the_end() {
        let (_dir, path) = trail(4);
        let text = fs::read_to_string(&path).unwrap();
        let all: Vec<&str> = text.lines().collect();
        let broken = |lines: Vec<String>| {
            fs::write(&path, lines.join("\n") + "\n").unwrap();
            let error = AuditTrail::read(&path).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Integrity, "{error}");
        };
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        for at in 0..3 {
            let mut lines = owned(&all);
            lines[at] = lines[at].replace("because", "instead");
            broken(lines);
            let mut lines = owned(&all);
            lines.remove(at);
            broken(lines);
            let mut lines = owned(&all);
            lines.swap(at, at + 1);
            broken(lines);
            let mut lines = owned(&all);
            lines.insert(at, all[at].to_owned());
            broken(lines);
        }
        broken([owned(&all), vec!["{}".to_owned()]].concat());
    }

    #[test]
    fn a_line_that_was_cut_off_is_reported_and_the_trail_goes_on() {
        let (_dir, path) = trail(2);
        let whole = fs::read(&path).unwrap();
        for cut in [1, 20, whole.len() / 4] {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            record(&path, AuditEntry::new(AuditAction::Delete, "chk_9", 0)).unwrap();
            let found = AuditTrail::read(&path).unwrap();
            let lost = usize::from(cut > 1);
            assert_eq!((found.records.len(), found.cut_off.len()), (3 - lost, lost), "{cut}");
        }
    }
}
