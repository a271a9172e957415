//! `running.json`: the active run. While the file exists, that run is not settled; the next command settles it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType};
use serde::{Deserialize, Serialize};

use super::events::AttemptNumber;
use super::result::RunResult;
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};
use crate::fs::beneath::InodeHandle;
use crate::fs::{atomic, untrusted};
use crate::history::uncaptured::forget_record;
use crate::history::{RunDir, external_store, refuse_other_store};
use crate::message::{MessageId, WaitingNames, display_name};
use crate::process::{ProcessMark, marked};
use crate::project::{Layout, Lock};

const VERSION: u32 = 1;
/// With names of messages that only `waiting.json` has.
const VERSION_WITH_LIST: u32 = 2;

/// The run that is being worked on, with what it takes to settle it if it is cut off.
#[derive(Clone, Debug)]
pub struct ActiveRun {
    pub dir: RunDir,
    file: RunningFile,
}

/// The content of `running.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RunningFile {
    version: u32,
    id: String,
    file: String,
    mark: String,
    started_at: String,
    #[serde(flatten)]
    waiting: WaitingNames,
    /// The process of decree that works on the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<ActiveAttempt>,
    /// Whether a revert failed because the store lost content, so that only `recover` helps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    content_lost: bool,
    /// The store that has the content, if it is not the project's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<String>,
}

/// The attempt that is being made, for `decree status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActiveAttempt {
    pub number: u32,
    /// The most attempts that the run can have.
    pub of: u32,
    /// The time in UTC.
    started_at: String,
    /// Its time limit; zero for none.
    timeout_ms: u64,
}

impl ActiveAttempt {
    /// How long it has been running.
    pub fn elapsed(&self) -> Duration {
        let started = self.started_at.parse::<jiff::Timestamp>().unwrap_or_else(|_| jiff::Timestamp::now());
        Duration::try_from(jiff::Timestamp::now().duration_since(started)).unwrap_or_default()
    }

    pub fn timeout(&self) -> Option<Duration> {
        (self.timeout_ms > 0).then(|| Duration::from_millis(self.timeout_ms))
    }
}

impl ActiveRun {
    /// A run that is about to begin, with the messages that wait at that moment.
    pub fn new(layout: &Layout, id: &MessageId, file: &OsString, waiting: WaitingNames) -> Self {
        let file = RunningFile {
            version: if waiting.needs_list() { VERSION_WITH_LIST } else { VERSION },
            id: id.to_string(),
            file: text(file),
            mark: ProcessMark::random().as_str().to_owned(),
            started_at: super::now_text(),
            waiting,
            pid: Some(std::process::id()),
            attempt: None,
            content_lost: false,
            store: external_store(layout),
        };
        ActiveRun { dir: RunDir::of(layout, id), file }
    }

    /// Writes to `running.json` that an attempt begins.
    pub fn begin_attempt(&self, layout: &Layout, attempt: AttemptNumber, timeout: Duration) -> Result<()> {
        let mut run = self.clone();
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(0);
        let AttemptNumber { number, of, .. } = attempt;
        run.file.attempt = Some(ActiveAttempt { number, of, started_at: super::now_text(), timeout_ms });
        run.write(layout)
    }

    /// Writes to `running.json` that the run cannot be reverted as a whole. Only for messages, so a failure is none.
    pub(super) fn note_content_lost(layout: &Layout) {
        if let Ok(Some(mut run)) = ActiveRun::read(layout) {
            run.file.content_lost = true;
            let _ = run.write(layout);
        }
    }

    /// What settles the run, for messages.
    pub fn way_out(&self) -> &'static str {
        let has_no_way_back = self.attempt().is_some()
            && !self.has_manifest().unwrap_or(true)
            && matches!(self.read_own_result(), Ok(None));
        if self.file.content_lost || has_no_way_back {
            "it cannot be reverted as a whole: `decree recover` restores what can be restored, and closes it"
        } else {
            "the next `decree process` recovers it"
        }
    }

    /// Whether the decree that works on the run is alive: it holds the project's lock.
    pub fn is_alive(&self, layout: &Layout) -> bool {
        self.file.pid.is_some() && Lock::holder(&layout.lock()) == self.file.pid
    }

    /// The attempt that is being made; `None` before the first.
    pub fn attempt(&self) -> Option<&ActiveAttempt> {
        self.file.attempt.as_ref()
    }

    /// The time in UTC.
    pub fn started_at(&self) -> &str {
        &self.file.started_at
    }

    /// The mark in the environment of every process that the run starts, as text. A result has it, too, which distinguishes it
    /// from one that a routine wrote.
    pub fn mark_text(&self) -> &str {
        &self.file.mark
    }

    /// Ends the processes of the run that outlived decree, and returns how many there were. The caller holds the project's lock.
    pub fn end_processes(&self) -> usize {
        ProcessMark::parse(self.mark_text()).map_or(0, |mark| marked::end(&mark))
    }

    /// The message's file name in the inbox.
    pub fn file(&self) -> OsString {
        name(&self.file.file)
    }

    /// The message's name as people read it.
    pub fn name(&self) -> String {
        display_name(&self.file(), &self.dir.read_message().body)
    }

    /// When the last process of the run ended, if decree was killed and its supervisor was not.
    pub(super) fn ended_at(layout: &Layout) -> Option<SystemTime> {
        layout.run_ended().symlink_metadata().ok()?.modified().ok()
    }

    /// The files in the inbox when the run began, as far as that is known.
    pub fn inbox(&self, layout: &Layout) -> HashSet<OsString> {
        self.file.waiting.read(layout)
    }

    /// Whether there may have been others, because the list of them is not as it was.
    pub(super) fn lacks_list(&self, layout: &Layout) -> bool {
        self.file.waiting.lack_list(layout)
    }

    /// Reads the file; `None` if there is none.
    pub fn read(layout: &Layout) -> Result<Option<ActiveRun>> {
        let path = layout.running();
        let Some(text) = untrusted::read(&path).if_exists().at("read", &path)? else { return Ok(None) };
        let file: RunningFile = serde_json::from_slice(&text).map_err(|error| {
            Error::integrity(format!("{} is damaged", layout.shown(&path)))
                .caused_by(error)
                .detail("it names the run that was active, so it is unknown which run to revert")
                .hint("`decree recover` moves it out of the way; then look at the newest directory in .decree/runs: `decree revert` reverts that run if it has a changes.diff")
        })?;
        if ![VERSION, VERSION_WITH_LIST].contains(&file.version) {
            return Err(Error::integrity(format!("{} has an unsupported version", layout.shown(&path))));
        }
        let id = MessageId::parse(&file.id).ok_or_else(|| {
            Error::integrity(format!("running.json: '{}' is not the id of a message", file.id))
        })?;
        Ok(Some(ActiveRun { dir: RunDir::of(layout, &id), file }))
    }

    /// Refuses to work with another store than the one that has the content of the run.
    pub(super) fn refuse_other_store(&self, layout: &Layout) -> Result<()> {
        refuse_other_store(layout, &format!("run {}", self.file.id), self.file.store.as_deref())
    }

    /// Whether an attempt was active, so that the tree has to be reverted.
    pub fn is_in_attempt(&self) -> Result<bool> {
        Ok(self.has_manifest()? && self.read_own_result()?.is_none())
    }

    pub(super) fn has_manifest(&self) -> Result<bool> {
        let path = self.dir.checkpoint().manifest_path();
        path.try_exists().at("read", &path)
    }

    /// Makes the run's directory and what is in it accessible again, as far as decree may: a routine that is to be reverted can have
    /// closed them. What stays closed fails when it is read.
    pub fn unlock_dir(&self) {
        let dir = self.dir.path();
        let _ = unlock(dir);
        let paths = untrusted::names_in(dir).unwrap_or_default().into_iter().map(|name| dir.join(name));
        for path in paths.filter(|path| !path.is_symlink()) {
            let _ = unlock(&path);
        }
    }

    /// The result, if decree wrote one in this very run. One that is damaged or has another mark was made by the routine: it is
    /// kept, as [`RunDir::routine_result`], and not believed.
    pub(super) fn read_own_result(&self) -> Result<Option<RunResult>> {
        let result = RunResult::read_if_valid(&self.dir.checkpoint())?;
        Ok(result.filter(|result| result.mark == self.mark_text()))
    }

    pub fn write(&self, layout: &Layout) -> Result<()> {
        let text = serde_json::to_vec_pretty(&self.file).expect("plain data");
        atomic::write(&layout.running(), &text)
    }

    /// Removes the file: the run is settled.
    pub fn clear(layout: &Layout) -> Result<()> {
        // First: it has a copy of the file.
        forget_record(layout);
        atomic::remove(&layout.running())?;
        // A later run removes what is left of it.
        let _ = std::fs::remove_file(layout.run_ended());
        Ok(())
    }
}

/// Gives the owner the permissions to read a file, or to work in a directory.
fn unlock(path: &Path) -> io::Result<()> {
    let inode = InodeHandle::open(CWD, path.as_os_str())?;
    let mode = inode.stat()?.st_mode;
    let needed = if FileType::from_raw_mode(mode) == FileType::Directory { 0o700 } else { 0o400 };
    if mode & needed == needed { Ok(()) } else { inode.set_mode(mode | needed) }
}

fn text(name: &OsString) -> String {
    quote::in_json(name.as_bytes()).into_owned()
}

fn name(text: &str) -> OsString {
    let bytes = quote::from_json(text).unwrap_or(text.as_bytes().into());
    OsString::from_vec(bytes.into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_whatever_the_names() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        fs::create_dir(layout.decree()).unwrap();
        assert!(ActiveRun::read(&layout).unwrap().is_none());
        let odd = OsString::from_vec(b"a\xff\"\n.md".to_vec());
        let id = MessageId::parse("2025022514320000-1").unwrap();
        ActiveRun::new(&layout, &id, &odd, WaitingNames::default()).write(&layout).unwrap();
        let read = ActiveRun::read(&layout).unwrap().expect("it was written");
        assert_eq!((read.dir.id(), read.file(), read.inbox(&layout)), (&id, odd, HashSet::new()));
        ActiveRun::clear(&layout).unwrap();
        ActiveRun::clear(&layout).unwrap();
        assert!(ActiveRun::read(&layout).unwrap().is_none());
        fs::write(layout.running(), "{").unwrap();
        assert_eq!(ActiveRun::read(&layout).unwrap_err().kind().exit_code(), 4);
    }
}
