//! The inside of `.git` directories in `held.json`: what is written before a routine or a guarded command starts, and what is known of it
//! after decree was killed.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git_damage::ESSENTIAL;
use super::git_dirs::{HeldGitDir, HeldGitDirs};
use super::git_inside::{HeldInside, InsideForm, fingerprint_at};
use super::held_record::{RecordKey, RecordedGitDir, RecordedInside, is_plain};
use super::inside_kind::{InsideKind, LOGS};
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::quote;
use crate::checkpoint::root::Root;
use crate::checkpoint::sensitive::{Sensitive, Suspicion, holds_private_key};
use crate::fs::leads_through_link;
use crate::git::state::ObjectLinks;
use crate::history::own_files::OwnFile;
use crate::process::redact::Redactor;

/// Settings that may have credentials: their bytes are on no disk of decree's.
const CONFIDENTIAL: [&str; 2] = ["config", "config.worktree"];
/// The largest file whose bytes are recorded. Hooks are scripts.
const MAX_RECORDED: usize = 256 << 10;
/// How many bytes of reflogs are recorded of one repository.
const MAX_LOGS: usize = 2 << 20;
/// The reflogs that are recorded. Those of remotes can be fetched.
const RECORDED_LOGS: [&str; 2] = ["logs/HEAD", "logs/refs/heads"];

impl HeldGitDirs {
    /// What of them is recorded. A likely secret by its name is one here, too.
    pub fn to_record(&self, key: RecordKey, sensitive: &Sensitive) -> Vec<RecordedGitDir> {
        let redactor = Redactor::of_this_process();
        let record = |held: &HeldGitDir| {
            let mut room = MAX_LOGS;
            let recorded = |entry: &HeldInside| {
                let is_secret = sensitive.suspect(entry.name.as_os_str().as_bytes()) == Suspicion::Secret;
                let log = || entry.log_to_record(&mut room, &redactor);
                let form = entry.to_record(&held.dir, key, &redactor, is_secret).or_else(log)?;
                Some((text(&entry.name), form))
            };
            let path = held.dir.strip_prefix(&self.root).ok()?;
            let entries = held.entries.iter().filter_map(recorded).collect();
            let linked = self.links.as_ref().map_or(0, |links| links.count(&held.dir));
            Some(RecordedGitDir { path: text(path), mode: held.mode, linked, entries })
        };
        self.dirs.iter().filter_map(record).collect()
    }

    /// What is known of them after decree was killed. Their objects have second names in `links`, unless those are gone, too.
    pub fn from_record(
        root: &Root,
        recorded: Vec<RecordedGitDir>,
        key: RecordKey,
        links: &Path,
    ) -> HeldGitDirs {
        let root = root.path().to_owned();
        let held = |dir: RecordedGitDir| {
            // A routine may have written the record.
            let path = path(&dir.path).filter(|path| !leads_through_link(&root, path))?;
            let inside = |(name, form): (String, RecordedInside)| {
                let form = match form {
                    RecordedInside::Dir(mode) => InsideForm::Dir { mode },
                    RecordedInside::File(OwnFile { mode, bytes }) => {
                        InsideForm::File { mode: mode.bits(), bytes }
                    }
                    RecordedInside::Link(target) => InsideForm::Link(any_path(&target)?),
                    RecordedInside::Fingerprint(before) => InsideForm::Recorded(Some((before, key))),
                    RecordedInside::Named => InsideForm::Recorded(None),
                };
                Some(HeldInside { name: self::path(&name)?, form })
            };
            Some(HeldGitDir {
                dir: root.join(path),
                mode: dir.mode,
                linked: Some(dir.linked),
                entries: dir.entries.into_iter().filter_map(inside).collect(),
                was_rebuilt: Cell::new(false),
            })
        };
        let dirs = recorded.into_iter().filter_map(held).collect();
        let links = ObjectLinks::left_by_killed(links, &root);
        HeldGitDirs { root, dirs, links, has_losses: Cell::new(false) }
    }
}

impl HeldInside {
    /// What is recorded of an entry, if anything is.
    fn to_record(
        &self,
        dir: &Path,
        key: RecordKey,
        redactor: &Redactor,
        is_secret: bool,
    ) -> Option<RecordedInside> {
        let is_data = self.kind() == InsideKind::Data && self.name == self.top();
        let is_data = is_data && matches!(self.form, InsideForm::Dir { .. });
        if is_data || self.name == Path::new(LOGS) {
            return Some(RecordedInside::Named);
        }
        if !self.kind().is_kept_as_it_was() && !ESSENTIAL.iter().any(|name| self.name == Path::new(name)) {
            return None;
        }
        let by_fingerprint = || {
            let found = fingerprint_at(&dir.join(&self.name), key);
            Some(found.map_or(RecordedInside::Named, RecordedInside::Fingerprint))
        };
        match &self.form {
            InsideForm::Dir { mode } => Some(RecordedInside::Dir(*mode)),
            InsideForm::Link(target) => Some(RecordedInside::Link(text(target))),
            InsideForm::File { mode, bytes } if !is_secret && self.may_be_recorded(bytes, redactor) => {
                let mode = FileMode::from_bits(*mode);
                Some(RecordedInside::File(OwnFile { mode, bytes: bytes.clone() }))
            }
            InsideForm::File { .. } | InsideForm::NotHeld(_) | InsideForm::Recorded(_) => by_fingerprint(),
        }
    }

    /// What is recorded of a reflog, as long as there is room.
    fn log_to_record(&self, room: &mut usize, redactor: &Redactor) -> Option<RecordedInside> {
        let InsideForm::File { mode, bytes } = &self.form else { return None };
        let is_log = RECORDED_LOGS.iter().any(|name| self.name.starts_with(name));
        if !is_log || bytes.len() > *room || !self.may_be_recorded(bytes, redactor) {
            return None;
        }
        *room -= bytes.len();
        Some(RecordedInside::File(OwnFile { mode: FileMode::from_bits(*mode), bytes: bytes.clone() }))
    }

    /// Whether the bytes of a file may be on decree's disk.
    fn may_be_recorded(&self, bytes: &[u8], redactor: &Redactor) -> bool {
        let is_secret = || {
            redactor.is_in(bytes).unwrap_or(true)
                || holds_private_key(&mut &*bytes).unwrap_or(true)
                || String::from_utf8_lossy(bytes) != redactor.redact(&String::from_utf8_lossy(bytes))
        };
        !CONFIDENTIAL.iter().any(|name| self.name == Path::new(name))
            && bytes.len() <= MAX_RECORDED
            && !is_secret()
    }
}

fn text(path: &Path) -> String {
    quote::in_json(path.as_os_str().as_bytes()).into_owned()
}

fn any_path(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(OsStr::from_bytes(&quote::from_json(text)?)))
}

/// The path behind a text of the record, which must not lead elsewhere.
fn path(text: &str) -> Option<PathBuf> {
    any_path(text).filter(|path| is_plain(path))
}
