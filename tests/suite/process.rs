//! Programs, and everything they leave running: the supervisor as a command, and what decree makes of it.
//!
//! A test finds its processes by a number that only their arguments contain. Nothing here waits for
//! a fixed time: what has to happen is waited for as long as a loaded machine may take.

mod exec;
mod marked;
mod supervise;

use crate::harness::{wait_for, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// For how long to sleep, as an argument to `sleep` that no other process has.
fn unique_sleep() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("600.{:07}{:03}1", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The directories of all processes.
fn processes() -> impl Iterator<Item = PathBuf> {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter(move |entry| is_number(&entry.file_name().to_string_lossy())).map(|entry| entry.path())
}

/// Whether a process has this in its arguments; a zombie has none.
fn has(process: &Path, token: &str) -> bool {
    let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
    memchr::memmem::find(&arguments, token.as_bytes()).is_some()
}

/// How many processes have this in their arguments.
fn alive(token: &str) -> usize {
    processes().filter(|process| has(process, token)).count()
}
