//! The tracker, and which letters were in `dead/` and `done/`, for the decree after one that was killed.
//!
//! The tracker is small, so all of it is recorded. A person may have edited it since: lines that are gone are restored, and new ones stay.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, IoContext, Result};
use crate::history::own_files::OwnFile;
use crate::project::Layout;
use crate::sanitize::one_line;

/// A longer tracker is not recorded.
const MAX_TRACKER: usize = 1 << 20;
/// How many lines are named.
const MAX_NAMED: usize = 20;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct QueueRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracker: Option<OwnFile>,
    /// As `dead/a.md`.
    #[serde(default)]
    letters: Vec<String>,
}

/// What became of them, for people.
#[derive(Default)]
pub(super) struct QueueReport {
    pub restored: Option<String>,
    /// What is new and stays.
    pub added: Option<String>,
    /// Paths, each with the reason.
    pub not_restored: Vec<(String, String)>,
}

impl QueueRecord {
    pub fn read(layout: &Layout, letters: Vec<PathBuf>) -> Result<QueueRecord> {
        let path = layout.tracker();
        let tracker = OwnFile::read(&path).at("read", &path)?.filter(|file| file.bytes.len() <= MAX_TRACKER);
        let letters = letters.into_iter().filter_map(|path| path.into_os_string().into_string().ok());
        Ok(QueueRecord { tracker, letters: letters.collect() })
    }

    /// Restores lines of the tracker, and names letters of which nothing is left. Those with a second name were restored before, and those
    /// that a person deleted are in `set_aside`.
    pub fn restore(&self, layout: &Layout, set_aside: &Path) -> QueueReport {
        let mut report = QueueReport::default();
        if let Some(former) = &self.tracker
            && let Err(error) = restore_tracker(layout, former, &mut report)
        {
            let why = format!("lines that were gone could not be restored: {error}");
            report.not_restored.push((layout.shown(&layout.tracker()), why));
        }
        for letter in &self.letters {
            let name = Path::new(letter).file_name().unwrap_or_default();
            let path = layout.inbox().join(letter);
            // One that a person tried again waits in the inbox.
            let places = [path.clone(), layout.inbox().join(name), set_aside.join(name)];
            if places.iter().all(|place| place.symlink_metadata().is_err()) {
                let why = "it was in the queue before, and has no second name any more".to_owned();
                report.not_restored.push((layout.shown(&path), why));
            }
        }
        report
    }
}

fn restore_tracker(layout: &Layout, former: &OwnFile, report: &mut QueueReport) -> Result<()> {
    let path = layout.tracker();
    let found = OwnFile::read(&path).at("read", &path)?;
    let is_other = found.is_none() && path.symlink_metadata().is_ok();
    if is_other || path.parent().is_some_and(Path::is_symlink) {
        return Err(Error::integrity("something else is in its place"));
    }
    let now = found.map(|file| file.bytes).unwrap_or_default();
    let (gone, new) = (lines_beside(&former.bytes, &now), lines_beside(&now, &former.bytes));
    let shown = layout.shown(&path);
    if !gone.is_empty() {
        let mut bytes = former.bytes.clone();
        for line in &new {
            if !bytes.is_empty() && !bytes.ends_with(b"\n") {
                bytes.push(b'\n');
            }
            bytes.extend([line, &b"\n"[..]].concat());
        }
        OwnFile { mode: former.mode, bytes }.write(&path)?;
        report.restored = Some(format!("{shown} (lines that were gone: {})", named(&gone)));
    }
    if !new.is_empty() {
        report.added = Some(format!("{shown} (new: {})", named(&new)));
    }
    Ok(())
}

/// The lines of a text that another one does not have, without their ends. Blank ones do not count.
fn lines_beside<'t>(text: &'t [u8], other: &[u8]) -> Vec<&'t [u8]> {
    let other: HashSet<&[u8]> = other.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.filter(|line| !line.is_empty() && !other.contains(line)).collect()
}

fn named(lines: &[&[u8]]) -> String {
    let shown = lines.iter().take(MAX_NAMED).map(|line| one_line(&String::from_utf8_lossy(line)));
    let mut shown: Vec<String> = shown.collect();
    if lines.len() > MAX_NAMED {
        shown.push(format!("and {} more", lines.len() - MAX_NAMED));
    }
    shown.join(", ")
}
