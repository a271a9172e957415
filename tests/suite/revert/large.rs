//! Size: large files in little memory, and very many files.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::binary::noise;
use crate::harness::{Project, TreeEntry, assert_same, run_command};

const SIZE: u64 = 300_000_000;
/// Of resident memory, whatever the size of a file.
const LIMIT_KIB: i64 = 200 * 1024;

const ARGS: &str = "DECREE_TEST_MEASURE_ARGS";
const REPORT: &str = "DECREE_TEST_MEASURE_REPORT";

/// Runs decree in a process that has no other children, and returns its peak of resident memory.
#[track_caller]
fn measured(project: &Project, args: &[&str]) -> i64 {
    let report = project.path(".decree/measured");
    let _ = fs::remove_file(&report);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "revert::large::measure"])
        .current_dir(project.root())
        .env(ARGS, args.join("\n"))
        .env(REPORT, &report);
    let output = run_command(&mut command);
    let text = fs::read_to_string(&report).unwrap_or_else(|_| panic!("{}{}", output.text(), output.err));
    let (code, peak) = text.split_once(' ').unwrap();
    assert_eq!(code, "0", "decree {args:?}");
    let peak: i64 = peak.parse().unwrap();
    assert!(peak > 1000, "{peak} KiB cannot be true");
    assert!(peak < LIMIT_KIB, "decree {args:?} took {} MiB", peak / 1024);
    peak
}

/// The process in which other tests measure; on its own it has nothing to do.
#[test]
fn measure() {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(args) = std::env::var(ARGS) else { return };
    let report = std::env::var_os(REPORT).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_decree"))
        .args(args.split('\n'))
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    fs::write(report, format!("{} {peak}", status.code().unwrap())).unwrap();
}

/// A round trip of one large file, measured at every step.
#[track_caller]
fn large_round_trip(write: impl FnOnce(&Path), change: impl FnOnce(&Path)) {
    let project = Project::new();
    let copies = Project::bare();
    let (file, before, after) = (project.path("large"), copies.path("before"), copies.path("after"));
    write(&file);
    assert!(file.metadata().unwrap().len() >= SIZE);
    fs::copy(&file, &before).unwrap();
    measured(&project, &["checkpoint", "create"]);
    let id = project.decree(["checkpoint", "list"]).ok().line().split(' ').next().unwrap().to_owned();
    change(&file);
    fs::copy(&file, &after).unwrap();
    assert!(!same_content(&before, &after), "nothing changed");
    measured(&project, &["revert", &id]);
    assert!(same_content(&file, &before), "the revert is wrong");
    measured(&project, &["apply", &id]);
    assert!(same_content(&file, &after), "the apply is wrong");
}

fn same_content(a: &Path, b: &Path) -> bool {
    let (mut a, mut b) = (File::open(a).unwrap(), File::open(b).unwrap());
    let length = a.metadata().unwrap().len();
    if length != b.metadata().unwrap().len() {
        return false;
    }
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut at = 0;
    while at < length {
        let n = usize::try_from(length - at).unwrap().min(left.len());
        a.read_exact(&mut left[..n]).unwrap();
        b.read_exact(&mut right[..n]).unwrap();
        if left[..n] != right[..n] {
            return false;
        }
        at += n as u64;
    }
    true
}

/// Numbered lines, each with the word.
fn write_lines(path: &Path, word: &str) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    let (mut length, mut number) = (0, 0);
    while length < SIZE {
        let line = format!("{number:012} {word} the quick brown fox jumps over the lazy dog\n");
        out.write_all(line.as_bytes()).unwrap();
        length += line.len() as u64;
        number += 1;
    }
    out.flush().unwrap();
}

fn write_filled(path: &Path, piece: &[u8]) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    for _ in 0..SIZE / piece.len() as u64 + 1 {
        out.write_all(piece).unwrap();
    }
    out.flush().unwrap();
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

/// DIF-09.
#[test]
fn one_changed_line_in_a_large_text_comes_back() {
    large_round_trip(|path| write_lines(path, "old"), |path| overwrite(path, SIZE / 2, b"changed"));
}

#[test]
fn a_large_text_that_was_rewritten_comes_back() {
    large_round_trip(|path| write_lines(path, "old"), |path| write_lines(path, "entirely new"));
}

/// DIF-09.
#[test]
fn a_large_single_line_comes_back() {
    large_round_trip(|path| write_filled(path, b"no newline here "), |path| overwrite(path, SIZE / 2, b"X"));
}

/// DIF-09.
#[test]
fn a_large_binary_comes_back() {
    let piece = noise(1 << 16, 1);
    large_round_trip(|path| write_filled(path, &piece), |path| overwrite(path, SIZE / 2, b"changed"));
}

/// REV-10.
///
/// 100,000 files in one directory, some of them changed and half of them deleted.
#[test]
fn very_many_files_in_one_directory_come_back() {
    const FILES: usize = 100_000;
    let project = Project::new();
    project.mkdir("many");
    let name = |n: usize| project.path(format!("many/file-{n:06}"));
    for n in 0..FILES {
        fs::write(name(n), n.to_string()).unwrap();
    }
    let original = project.snapshot();
    measured(&project, &["checkpoint", "create"]);
    let id = project.decree(["checkpoint", "list"]).ok().line().split(' ').next().unwrap().to_owned();
    // Moved out of the tree, not deleted: ext4 is slow to create what follows upon very many deletions.
    let outside = Project::bare();
    for n in 0..FILES {
        match n % 200 {
            0 => fs::write(name(n), "changed\n").unwrap(),
            odd if odd % 2 == 1 => fs::rename(name(n), outside.path(n.to_string())).unwrap(),
            _ => {}
        }
    }
    project.write("many/new", "x\n");
    measured(&project, &["revert", &id]);
    assert_same(&project.snapshot(), &original);
    assert_eq!(original.values().filter(|thing| matches!(thing, TreeEntry::File { .. })).count(), FILES);
    let mut diff = BufReader::new(File::open(project.record(&id, "changes.diff")).unwrap());
    let mut text = String::new();
    diff.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("\ndiff --git ").count(), FILES / 2 + FILES / 200 + 1);
}
