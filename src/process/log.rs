//! A log that keeps its head and its tail.
//!
//! The first half of the limit is written as it comes. What follows goes in turn into two files beside the log, each half
//! the limit long; the older one is deleted when the newer one is full, so that the last half is always kept. At the end
//! the log is head, a line with the number of missing bytes, and tail. Memory does not grow with the output, and the disk
//! never holds more than twice the limit.
//!
//! A log can be read while it grows, so it is not written atomically. [`recover`] joins the parts that a killed decree left.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::redact::Redactor;
use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, AtomicFile};
use crate::fs::is_at;
use crate::humanize::grouped;
use crate::sanitize::{last_lines, limit_lines};

/// Smaller limits are raised to this.
const MIN_LIMIT: u64 = 1 << 10;
/// How much of the output is kept in memory for [`CappedLog::tail_lines`].
const RECENT_LIMIT: usize = 1 << 16;

/// A log that is being written.
pub struct CappedLog {
    path: PathBuf,
    head: File,
    /// Half the limit: the maximum length of the head, of the tail, and of each of the tail's two files.
    half: u64,
    written: u64,
    tail: Option<Tail>,
    recent: Vec<u8>,
}

impl CappedLog {
    /// Creates a log of at most about `limit` bytes. An existing file is replaced, not opened: it may be a link.
    pub fn create(path: impl Into<PathBuf>, limit: u64) -> Result<CappedLog> {
        let path = path.into();
        let head = create(&path).at("create", &path)?;
        for part in parts(&path) {
            let _ = fs::remove_file(part);
        }
        let half = limit.max(MIN_LIMIT) / 2;
        Ok(CappedLog { path, head, half, written: 0, tail: None, recent: Vec::new() })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.remember(bytes);
        let room = usize::try_from(self.half.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.write_all(head).at("write", &self.path)?;
        if !rest.is_empty() {
            let tail = match &mut self.tail {
                Some(tail) => tail,
                none => none.insert(Tail::create(&self.path, self.half).at("create", &self.path)?),
            };
            tail.write(rest).at("write", &self.path)?;
        }
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// The last lines of the output as a terminal shows them: without colours, and with only the final state of a line that was
    /// overwritten, and without the secrets that show only then. They have at most `limit` bytes together; of a longer line only the
    /// end is kept.
    pub fn tail_lines(&self, count: usize, limit: usize, redactor: &Redactor) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.recent);
        let lines = last_lines(&text, count);
        limit_lines(lines.iter().map(|line| redactor.redact(line).into_owned()).collect(), limit)
    }

    /// Joins head and tail. If a routine deleted or replaced the file, it is written again from the open one.
    pub fn finish(mut self) -> Result<()> {
        if let Some(mut tail) = self.tail.take() {
            let left_out = self.written - self.half - tail.kept();
            if left_out > 0 {
                let note = format!("\n[decree: {} bytes left out here]\n", grouped(left_out));
                self.head.write_all(note.as_bytes()).at("write", &self.path)?;
            }
            tail.copy_to(&mut self.head).at("write", &self.path)?;
            for part in parts(&self.path) {
                let _ = fs::remove_file(part);
            }
        }
        if !is_at(&self.head, &self.path) {
            let parent = self.path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(parent).at("create", parent)?;
            let mut copy = AtomicFile::create(&self.path)?;
            self.head.rewind().at("read", &self.path)?;
            io::copy(&mut self.head, &mut copy).at("write", &self.path)?;
            copy.commit()?;
        }
        Ok(())
    }

    fn remember(&mut self, bytes: &[u8]) {
        self.recent.extend_from_slice(&bytes[bytes.len().saturating_sub(RECENT_LIMIT)..]);
        if self.recent.len() > 2 * RECENT_LIMIT {
            self.recent.drain(..self.recent.len() - RECENT_LIMIT);
        }
    }
}

/// Joins the parts of a log that a killed decree left. Returns whether there were any.
pub fn recover(path: &Path) -> Result<bool> {
    let tails = parts(path);
    if !tails.iter().any(|tail| tail.symlink_metadata().is_ok()) {
        return Ok(false);
    }
    let mut whole = AtomicFile::create(path)?;
    let copy = |from: &Path, whole: &mut AtomicFile| -> io::Result<()> {
        if from.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            io::copy(&mut File::open(from)?, whole)?;
        }
        Ok(())
    };
    copy(path, &mut whole).at("read", path)?;
    whole.write_all(b"\n[decree: cut off; some output may be left out here]\n").at("write", path)?;
    for tail in &tails {
        copy(tail, &mut whole).at("read", tail)?;
    }
    whole.commit()?;
    for tail in &tails {
        let _ = fs::remove_file(tail);
    }
    Ok(true)
}

/// The last bytes of a stream, in two files.
struct Tail {
    log: PathBuf,
    older: File,
    newer: File,
    older_length: u64,
    newer_length: u64,
    half: u64,
}

impl Tail {
    fn create(log: &Path, half: u64) -> io::Result<Tail> {
        let [older, newer] = parts(log);
        let (older, newer) = (create(&older)?, create(&newer)?);
        Ok(Tail { log: log.to_owned(), older, newer, older_length: 0, newer_length: 0, half })
    }

    /// Makes the newer file the older one. Its name changes too, so that [`recover`] knows their order.
    fn rotate(&mut self) -> io::Result<()> {
        let [older, newer] = parts(&self.log);
        // If a routine deleted them, there is nothing to recover, and the open ones are enough.
        let _ = fs::rename(&newer, &older);
        self.older = std::mem::replace(&mut self.newer, create(&newer)?);
        (self.older_length, self.newer_length) = (self.newer_length, 0);
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.newer_length == self.half {
                self.rotate()?;
            }
            let room = usize::try_from(self.half - self.newer_length).unwrap_or(usize::MAX);
            let (fitting, rest) = bytes.split_at(room.min(bytes.len()));
            self.newer.write_all(fitting)?;
            self.newer_length += fitting.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// How many of the last bytes [`Tail::copy_to`] writes.
    fn kept(&self) -> u64 {
        self.half.min(self.older_length + self.newer_length)
    }

    fn copy_to(&mut self, out: &mut File) -> io::Result<()> {
        let from_older = self.kept() - self.newer_length;
        self.older.seek(SeekFrom::Start(self.older_length - from_older))?;
        io::copy(&mut (&self.older).take(from_older), out)?;
        self.newer.rewind()?;
        io::copy(&mut (&self.newer).take(self.newer_length), out)?;
        Ok(())
    }
}

/// The two files beside a log: the older, then the newer.
fn parts(log: &Path) -> [PathBuf; 2] {
    ["older", "newer"].map(|part| {
        let mut name = OsString::from(log.file_name().unwrap_or_default());
        name.push(format!(".{part}"));
        log.with_file_name(name)
    })
}

/// Creates a file in append mode, so that writing continues at its new end if another process truncates it. A routine may
/// have deleted its directory.
fn create(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    drop(atomic::create_new(path)?);
    OpenOptions::new().read(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 2000;

    fn new_log() -> (tempfile::TempDir, PathBuf, CappedLog) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = CappedLog::create(&path, LIMIT).unwrap();
        (dir, path, log)
    }

    fn written(bytes: &[u8], chunk_size: usize) -> Vec<u8> {
        let (dir, path, mut log) = new_log();
        for chunk in bytes.chunks(chunk_size) {
            log.write(chunk).unwrap();
        }
        log.finish().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the log is left");
        fs::read(path).unwrap()
    }

    fn lines(count: usize) -> Vec<u8> {
        (0..count).flat_map(|i| format!("line {i:06}\n").into_bytes()).collect()
    }

    #[test]
    fn output_within_the_limit_is_kept_whole() {
        for count in [0, 1, 80, 166] {
            let all = lines(count);
            for size in [1, 7, 999, 1000, 1001, 5000] {
                assert_eq!(written(&all, size), all, "{count} lines by {size}");
            }
        }
    }

    #[test]
    fn output_beyond_the_limit_keeps_exactly_its_head_and_its_tail() {
        for count in [167, 200, 250, 251, 400, 9000] {
            let all = lines(count);
            for size in [1, 7, 999, 1000, 1001, 5000, 200_000] {
                let text = written(&all, size);
                let left_out = all.len() - 2000;
                let note = format!("\n[decree: {} bytes left out here]\n", grouped(left_out as u64));
                assert_eq!(text[..1000], all[..1000]);
                assert_eq!(&text[1000..1000 + note.len()], note.as_bytes());
                assert_eq!(text[1000 + note.len()..], all[all.len() - 1000..], "{count} lines by {size}");
            }
        }
    }

    #[test]
    fn a_log_whose_directory_was_deleted_is_written_again() {
        for count in [10, 9000] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a/b/log");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut log = CappedLog::create(&path, LIMIT).unwrap();
            log.write(b"before\n").unwrap();
            fs::remove_dir_all(dir.path().join("a")).unwrap();
            log.write(&lines(count)).unwrap();
            fs::remove_dir_all(dir.path().join("a")).ok();
            log.finish().unwrap();
            let text = fs::read_to_string(path).unwrap();
            assert!(text.starts_with("before\nline 000000\n"));
            assert!(text.ends_with(&format!("line {:06}\n", count - 1)));
        }
    }

    #[test]
    fn a_replaced_log_is_written_again_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("log"), dir.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let mut log = CappedLog::create(&path, LIMIT).unwrap();
        log.write(b"true\n").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        log.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "true\n");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn the_disk_never_holds_more_than_twice_the_limit() {
        let (dir, _, mut log) = new_log();
        for chunk in lines(3000).chunks(700) {
            log.write(chunk).unwrap();
            let files = fs::read_dir(dir.path()).unwrap();
            let size: u64 = files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
            assert!(size <= 2 * LIMIT);
        }
    }

    #[test]
    fn a_log_that_was_cut_off_is_joined() {
        let (dir, path, mut log) = new_log();
        log.write(&lines(50)).unwrap();
        assert!(!recover(&path).unwrap());
        log.write(&lines(9000)).unwrap();
        drop(log);
        assert!(recover(&path).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("line 000000\n") && text.contains("cut off"));
        assert!(text.ends_with("line 008999\n"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_last_lines_are_what_a_terminal_shows() {
        let (_dir, _, mut log) = new_log();
        let redactor = Redactor::from_environment([("A_TOKEN", "hunter22")]);
        let tail = |log: &CappedLog, count| log.tail_lines(count, 1000, &redactor);
        assert!(tail(&log, 3).is_empty());
        log.write(b"one\ntwo\r\n\x1b[31mred\x1b[0m\n10%\r50%\rdone\n\n").unwrap();
        assert_eq!(tail(&log, 3), ["two", "red", "done"]);
        assert_eq!(tail(&log, 9).len(), 4);
        log.write(&lines(90_000)).unwrap();
        assert_eq!(tail(&log, 2), ["line 089998", "line 089999"]);
        assert!(log.recent.capacity() < 1 << 19);
        log.write(b"x hunt\x1b[1mer\x0022\n").unwrap();
        assert_eq!(tail(&log, 1), ["x ***"]);
    }
}
