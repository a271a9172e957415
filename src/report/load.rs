//! Loads the input of a report: `summary.json`, and the directories in `runs/` beside it that exist.
//!
//! Run directories contain files that routines wrote, and may come from an archive. So no link is followed, only regular
//! files are opened, and nothing is read beyond its limit. Secrets of this environment are redacted before a renderer runs.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

use super::diff::Diff;
use super::model::{AttemptLog, Excerpt, Report, RunFiles};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::Result;
use crate::fs::beneath::{DIRECTORY, Resolver};
use crate::history::RunDir;
use crate::message::MessageId;
use crate::pipeline::{MessageSummary, RunResult, Summary, redact_text};
use crate::process::redact::Redactor;
use crate::project::Layout;

/// How many bytes are loaded.
#[derive(Clone, Copy, Debug)]
pub struct ReportLimits {
    /// The limit for one diff.
    pub diff: usize,
    /// The limit for all diffs together.
    pub diffs: usize,
    /// The limit for one log, of which the end is loaded.
    pub log: u64,
    /// The limit for all logs together.
    pub logs: u64,
    /// Whether to load the logs of all attempts instead of only the last one's.
    pub every_attempt: bool,
}

impl ReportLimits {
    /// For formats that show only the summary.
    pub const NOTHING: ReportLimits =
        ReportLimits { diff: 0, diffs: 0, log: 0, logs: 0, every_attempt: false };

    /// For formats that show excerpts of diffs and logs.
    pub const EXCERPTS: ReportLimits =
        ReportLimits { diff: 1 << 20, diffs: 32 << 20, log: 32 << 10, logs: 32 << 20, every_attempt: false };

    /// For the HTML page: as much as a browser can handle.
    pub const PAGE: ReportLimits =
        ReportLimits { diff: 16 << 20, diffs: 48 << 20, log: 512 << 10, logs: 16 << 20, every_attempt: true };
}

/// How many bytes of `failure-context.md` are loaded.
const CONTEXT: u64 = 128 << 10;

/// A result.json that is larger is not read.
const RESULT: u64 = 64 << 20;

/// Loads a summary and the runs beside it. A run that is missing or unreadable makes the report shorter, not an error.
pub fn load(summary: &Path, mut limits: ReportLimits) -> Result<Option<Report>> {
    let Some(found) = Summary::read(summary)? else {
        return Ok(None);
    };
    let mut report = Report::new(found);
    let runs = runs_beside(summary);
    let mut reverted_later = false;
    for (message, files) in report.summary.messages.iter_mut().zip(&mut report.runs) {
        let id = message.id.as_deref().and_then(MessageId::parse);
        let dir = id
            .and_then(|id| rustix::fs::openat(CWD, runs.join(id.to_string()), DIRECTORY, Mode::empty()).ok());
        if let Some(dir) = dir {
            *files = load_run(&dir, message, &mut limits);
            reverted_later |= note_later_revert(&runs, message);
        }
    }
    if reverted_later {
        report.summary.count_again();
    }
    let redactor = Redactor::of_this_process();
    report.summary.redact(&redactor);
    report.runs.iter_mut().for_each(|files| redact_files(files, &redactor));
    Ok(Some(report))
}

pub fn runs_beside(summary: &Path) -> PathBuf {
    summary.with_file_name(Layout::RUNS)
}

/// A kept run that a user reverted after the summary was written is reverted in every report. Returns whether it was.
fn note_later_revert(runs: &Path, message: &mut MessageSummary) -> bool {
    let Some(id) = message.id.as_ref().filter(|_| message.run.kept) else { return false };
    let dir = CheckpointDir::new(id, runs.join(id));
    let size = dir.result_path().symlink_metadata().map_or(u64::MAX, |found| found.len());
    let result = if size <= RESULT { RunResult::read(&dir).ok().flatten() } else { None };
    let Some(reverted) = result.and_then(|result| result.run.reverted) else { return false };
    (message.run.kept, message.run.reverted) = (false, Some(reverted));
    message.run.reason = "it was kept, and reverted later".to_owned();
    true
}

fn load_run(dir: &OwnedFd, message: &MessageSummary, limits: &mut ReportLimits) -> RunFiles {
    let diff = open(dir, CheckpointDir::DIFF)
        .filter(|_| limits.diff > 0)
        .and_then(|file| Diff::read(BufReader::new(file), limits.diff.min(limits.diffs)).ok());
    if let Some(diff) = &diff {
        let size = diff.files.iter().flat_map(|file| &file.hunks).map(String::len).sum();
        limits.diffs = limits.diffs.saturating_sub(size);
    }
    let last = message.run.attempts.last().map(|attempt| attempt.number);
    let numbers = message.run.attempts.iter().map(|attempt| attempt.number);
    let numbers = numbers.filter(|number| limits.every_attempt || Some(*number) == last);
    let mut logs = Vec::new();
    for attempt in numbers.collect::<Vec<_>>() {
        let own = RunDir::LOGS.map(|name| format!("{}/{attempt}/{name}", RunDir::ATTEMPTS));
        let of_run = RunDir::LOGS.iter().filter(|_| Some(attempt) == last);
        let mut logs_by_preference = own.iter().map(String::as_str).chain(of_run.copied());
        let found = logs_by_preference.find_map(|path| open(dir, path));
        let room = limits.log.min(limits.logs);
        if let Some(end) = found.filter(|_| room > 0).and_then(|file| end(file, room).ok()) {
            limits.logs -= end.text.len().min(room as usize) as u64;
            logs.push(AttemptLog { attempt, end });
        }
    }
    let failure_context = open(dir, RunDir::FAILURE_CONTEXT)
        .filter(|_| limits.log > 0)
        .and_then(|file| beginning(file, CONTEXT).ok());
    RunFiles { diff, logs, failure_context }
}

/// Opens a regular file of a run. `NONBLOCK`, so that opening a FIFO does not wait for a writer.
fn open(run: &OwnedFd, path: &str) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = File::from(Resolver::Stepwise.open(run.as_fd(), path.as_bytes(), flags).ok()?);
    file.metadata().ok().filter(|metadata| metadata.is_file()).map(|_| file)
}

/// Redacts every text of a run that a report can show. Logs are redacted when they are written, but diffs are not, and a run
/// from another machine was redacted with that machine's secrets.
fn redact_files(files: &mut RunFiles, redactor: &Redactor) {
    let excerpts = files.logs.iter_mut().map(|log| &mut log.end).chain(files.failure_context.as_mut());
    excerpts.for_each(|Excerpt { text, .. }| redact_text(text, redactor));
    for file in files.diff.iter_mut().flat_map(|diff| &mut diff.files) {
        let texts = [&mut file.path, &mut file.note, &mut file.head];
        texts.into_iter().chain(&mut file.hunks).for_each(|text| redact_text(text, redactor));
    }
}

/// The beginning of a file, up to the end of a line: the redactor would not recognise half of a secret.
fn beginning(mut file: File, limit: u64) -> io::Result<Excerpt> {
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.by_ref().take(limit).read_to_end(&mut bytes)?;
    if size > bytes.len() as u64 {
        bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |newline| newline + 1));
    }
    let left_out = size.saturating_sub(bytes.len() as u64);
    Ok(Excerpt { text: String::from_utf8_lossy(&bytes).into_owned(), left_out })
}

/// The end of a file, from the beginning of a line, for the same reason.
fn end(mut file: File, limit: u64) -> io::Result<Excerpt> {
    let size = file.metadata()?.len();
    let mut left_out = size.saturating_sub(limit);
    file.seek(SeekFrom::Start(left_out))?;
    let mut bytes = Vec::new();
    file.by_ref().take(limit).read_to_end(&mut bytes)?;
    if left_out > 0
        && let Some(newline) = memchr::memchr(b'\n', &bytes)
    {
        bytes.drain(..=newline);
        left_out += newline as u64 + 1;
    }
    Ok(Excerpt { text: String::from_utf8_lossy(&bytes).into_owned(), left_out })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::pipeline::Verdict;

    const ID: &str = "2026111603120000-0";

    fn sample() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("summary.json");
        let mut summary = Summary::new("process");
        for id in [ID, "../../etc-0", "2026111603120000-1"] {
            let message = MessageSummary::without_run("x".to_owned(), Verdict::Success);
            summary.add(MessageSummary { id: Some(id.to_owned()), ..message });
        }
        summary.write(&path).unwrap();
        fs::create_dir_all(dir.path().join("runs").join(ID)).unwrap();
        (dir, path)
    }

    #[test]
    fn no_link_is_followed_and_no_pipe_is_waited_for() {
        let (dir, path) = sample();
        let run = dir.path().join("runs").join(ID);
        fs::write(dir.path().join("secret"), "secret").unwrap();
        symlink("../../secret", run.join("failure-context.md")).unwrap();
        let pipe = run.join("changes.diff");
        rustix::fs::mknodat(CWD, pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let report = load(&path, ReportLimits::PAGE).unwrap().unwrap();
        assert_eq!(report.runs, vec![RunFiles::default(); 3]);
    }

    #[test]
    fn of_a_long_log_the_end_is_loaded_from_the_beginning_of_a_line() {
        let (dir, _) = sample();
        let path = dir.path().join("log");
        fs::write(&path, b"first\nsecond\nthird\xff\n").unwrap();
        let end = end(File::open(&path).unwrap(), 12).unwrap();
        assert_eq!((end.text.as_str(), end.left_out), ("third\u{fffd}\n", 13));
    }
}
