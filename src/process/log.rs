//! A log that keeps its head and its tail.
//!
//! The first half of the limit is kept as it comes. What follows goes into two files beside the log in turn, each
//! half the limit long; the older one goes when the newer one is full, so that the last half is always there. At
//! the end the log is head, a line that says how much is missing, and tail. Memory does not grow with the output,
//! and the disk never holds more than twice the limit.
//!
//! A log is live: it can be read while it grows, and so it is not a file that is complete or absent. Of a decree
//! that was killed, [`recover`] joins what it left.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Output;
use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, AtomicFile};

/// The least that a log is limited to.
const LEAST: u64 = 1 << 10;
/// How much of the output is remembered for [`CappedLog::tail_lines`].
const REMEMBERED: usize = 1 << 16;

/// A log that is being written.
pub struct CappedLog {
    path: PathBuf,
    head: File,
    /// Half the limit: how long the head, the tail, and each of the tail's two files may be.
    half: u64,
    written: u64,
    tail: Option<Tail>,
    recent: Vec<u8>,
}

/// What [`CappedLog::finish`] made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSummary {
    /// How long the output was.
    pub bytes: u64,
    /// How much of it is not in the log.
    pub left_out: u64,
    /// Whether the file was not there any more, and had to be written again.
    pub recreated: bool,
}

impl CappedLog {
    /// Begins a log of about `limit` bytes at most. What is at `path` is replaced, not written into: it may be a
    /// link.
    pub fn create(path: impl Into<PathBuf>, limit: u64) -> Result<CappedLog> {
        let path = path.into();
        let head = create(&path).at("create", &path)?;
        for part in parts(&path) {
            let _ = fs::remove_file(part);
        }
        let half = limit.max(LEAST) / 2;
        Ok(CappedLog { path, head, half, written: 0, tail: None, recent: Vec::new() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds to it.
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

    /// The last lines of the output, as people would see them: without colours, and of a line that was written
    /// over only what it was in the end. Of very long lines, only the end is known.
    pub fn tail_lines(&self, count: usize) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.recent);
        let text = console::strip_ansi_codes(&text);
        let mut lines: Vec<String> = text
            .trim_end()
            .rsplit('\n')
            .take(count)
            .map(|line| {
                let line = line.trim_end_matches('\r');
                line.rsplit('\r').next().unwrap_or(line).trim_end().to_owned()
            })
            .collect();
        lines.reverse();
        if lines == [""] { Vec::new() } else { lines }
    }

    /// Joins head and tail. If the file is not under its name any more, because a routine deleted it or put
    /// another in its place, it is written again from the one that is open.
    pub fn finish(mut self) -> Result<LogSummary> {
        let mut left_out = 0;
        if let Some(mut tail) = self.tail.take() {
            let kept = tail.kept();
            left_out = self.written - self.half - kept;
            if left_out > 0 {
                let note = format!("\n[decree: {} bytes left out here]\n", with_commas(left_out));
                self.head.write_all(note.as_bytes()).at("write", &self.path)?;
            }
            tail.copy_to(&mut self.head).at("write", &self.path)?;
            for part in parts(&self.path) {
                let _ = fs::remove_file(part);
            }
        }
        let recreated = !is_at(&self.head, &self.path);
        if recreated {
            let parent = self.path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(parent).at("create", parent)?;
            let mut copy = AtomicFile::create(&self.path)?;
            self.head.rewind().at("read", &self.path)?;
            io::copy(&mut self.head, &mut copy).at("write", &self.path)?;
            copy.commit()?;
        }
        Ok(LogSummary { bytes: self.written, left_out, recreated })
    }

    fn remember(&mut self, bytes: &[u8]) {
        self.recent.extend_from_slice(&bytes[bytes.len().saturating_sub(REMEMBERED)..]);
        if self.recent.len() > 2 * REMEMBERED {
            self.recent.drain(..self.recent.len() - REMEMBERED);
        }
    }
}

impl Output for CappedLog {
    fn output(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes)
    }
}

/// Joins what a decree that was killed left of a log. Returns whether there was something to join.
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
        let (older, newer) = (create_again(&older)?, create_again(&newer)?);
        Ok(Tail { log: log.to_owned(), older, newer, older_length: 0, newer_length: 0, half })
    }

    /// The newer file becomes the older one, in name too, so that [`recover`] knows them apart.
    fn turn(&mut self) -> io::Result<()> {
        let [older, newer] = parts(&self.log);
        // If they are gone, there is nothing to recover; the open ones are as good.
        let _ = fs::rename(&newer, &older);
        self.older = std::mem::replace(&mut self.newer, create_again(&newer)?);
        (self.older_length, self.newer_length) = (self.newer_length, 0);
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.newer_length == self.half {
                self.turn()?;
            }
            let room = usize::try_from(self.half - self.newer_length).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.newer.write_all(now)?;
            self.newer_length += now.len() as u64;
            bytes = later;
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

/// A new file that is only added to: one that somebody empties meanwhile goes on from its new end.
fn create(path: &Path) -> io::Result<File> {
    drop(atomic::create_new(path)?);
    OpenOptions::new().read(true).append(true).open(path)
}

/// The same, where a routine may have deleted the directory.
fn create_again(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    create(path)
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(file), Ok(found)) => (file.dev(), file.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// 1013000 → 1,013,000.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 2000;

    fn written(chunks: &[&[u8]]) -> (String, LogSummary) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = CappedLog::create(&path, LIMIT).unwrap();
        for chunk in chunks {
            log.write(chunk).unwrap();
        }
        let summary = log.finish().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the log is left");
        (fs::read_to_string(path).unwrap(), summary)
    }

    fn lines(count: usize) -> Vec<u8> {
        (0..count).flat_map(|i| format!("line {i:06}\n").into_bytes()).collect()
    }

    #[test]
    fn what_is_within_the_limit_is_kept_as_it_is() {
        for count in [0, 1, 80, 166] {
            let all = lines(count);
            for size in [1, 7, 999, 1000, 1001, 5000] {
                let (text, summary) = written(&all.chunks(size).collect::<Vec<_>>());
                assert_eq!(text.as_bytes(), all, "{count} lines by {size}");
                assert_eq!(summary, LogSummary { bytes: all.len() as u64, left_out: 0, recreated: false });
            }
        }
    }

    #[test]
    fn what_is_beyond_keeps_exactly_its_head_and_its_tail() {
        for count in [167, 200, 250, 251, 400, 9000] {
            let all = lines(count);
            for size in [1, 7, 999, 1000, 1001, 5000, 200_000] {
                let (text, summary) = written(&all.chunks(size).collect::<Vec<_>>());
                let text = text.as_bytes();
                let left_out = all.len() - 2000;
                let note = format!("\n[decree: {} bytes left out here]\n", with_commas(left_out as u64));
                assert_eq!(text[..1000], all[..1000]);
                assert_eq!(&text[1000..1000 + note.len()], note.as_bytes());
                assert_eq!(text[1000 + note.len()..], all[all.len() - 1000..], "{count} lines by {size}");
                assert_eq!(summary.left_out, left_out as u64);
            }
        }
    }

    #[test]
    fn a_log_whose_directory_was_deleted_comes_back() {
        for count in [10, 9000] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a/b/log");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut log = CappedLog::create(&path, LIMIT).unwrap();
            log.write(b"before\n").unwrap();
            fs::remove_dir_all(dir.path().join("a")).unwrap();
            log.write(&lines(count)).unwrap();
            fs::remove_dir_all(dir.path().join("a")).ok();
            assert!(log.finish().unwrap().recreated);
            let text = fs::read_to_string(path).unwrap();
            assert!(text.starts_with("before\nline 000000\n"));
            assert!(text.ends_with(&format!("line {:06}\n", count - 1)));
        }
    }

    #[test]
    fn a_file_that_was_put_in_its_place_is_replaced_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("log"), dir.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let mut log = CappedLog::create(&path, LIMIT).unwrap();
        log.write(b"true\n").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(log.finish().unwrap().recreated);
        assert_eq!(fs::read_to_string(&path).unwrap(), "true\n");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn the_disk_never_holds_more_than_twice_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = CappedLog::create(dir.path().join("log"), LIMIT).unwrap();
        for chunk in lines(3000).chunks(700) {
            log.write(chunk).unwrap();
            let files = fs::read_dir(dir.path()).unwrap();
            let size: u64 = files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
            assert!(size <= 2 * LIMIT);
        }
    }

    #[test]
    fn a_log_that_was_cut_off_is_joined() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = CappedLog::create(&path, LIMIT).unwrap();
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
    fn the_last_lines_are_what_people_saw() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = CappedLog::create(dir.path().join("log"), LIMIT).unwrap();
        assert!(log.tail_lines(3).is_empty());
        log.write(b"one\ntwo\r\n\x1b[31mred\x1b[0m\n10%\r50%\rdone\n\n").unwrap();
        assert_eq!(log.tail_lines(3), ["two", "red", "done"]);
        assert_eq!(log.tail_lines(9).len(), 4);
        log.write(&lines(90_000)).unwrap();
        assert_eq!(log.tail_lines(2), ["line 089998", "line 089999"]);
        assert!(log.recent.capacity() < 1 << 19);
    }

    #[test]
    fn big_numbers_are_readable() {
        assert_eq!(with_commas(7), "7");
        assert_eq!(with_commas(1_013_000_000), "1,013,000,000");
    }
}
