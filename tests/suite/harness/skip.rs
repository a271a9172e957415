//! Tests that cannot show anything on this machine: each says why, and the run lists them at its end.
//!
//! libtest knows no test that decides to skip itself, and has no hook at its end. So each skip is appended to the file that
//! [`records::of_this_run`] names, and the target `suite_skips`, which cargo runs after this one, prints that file.

use std::fs::{self, File};
use std::io::Write;
use std::panic::Location;
use std::process::Command;

use super::records;

/// Why a test that needs namespaces is skipped.
pub const NO_NAMESPACE: &str = "no namespace can be made";

/// What the machine or the user lacks.
#[derive(Clone, Copy)]
pub enum Lack<'a> {
    /// A program that can be installed. In CI that is a failure: a check that silently stopped running protects nothing.
    Tool(&'a str),
    /// A right that the user or the container does not have.
    Right(&'a str),
}

/// Records that the calling test shows less here than it does elsewhere, or nothing.
///
/// # Panics
/// In CI, if a tool is missing.
#[track_caller]
pub fn skip(lack: Lack<'_>) {
    let reason = match lack {
        Lack::Tool(name) => format!("{name} is not installed"),
        Lack::Right(reason) => reason.to_owned(),
    };
    let thread = std::thread::current();
    // With `--test-threads=1` the tests run on the main thread.
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    };
    // Not `eprintln`: libtest would hide it, as the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    record(&format!("{reason}\t{test}\n"));
    assert!(
        !(matches!(lack, Lack::Tool(_)) && in_ci()),
        "{reason}, and in CI no test may be skipped for that"
    );
}

/// Whether a program works here; if not, that is the reason for a skip.
///
/// `right` says what is missing if the program is there and does not work.
#[track_caller]
pub fn works(command: &mut Command, right: &str) -> bool {
    match command.output() {
        Ok(output) if output.status.success() => return true,
        Ok(_) => skip(Lack::Right(right)),
        Err(_) => skip(Lack::Tool(&command.get_program().to_string_lossy())),
    }
    false
}

/// Whether the tests have root's rights; if not, that is the reason for a skip.
#[track_caller]
pub fn as_root() -> bool {
    let root = crate::revert::is_root();
    if !root {
        skip(Lack::Right("only root can become another user and give files away"));
    }
    root
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Where the directory cannot be written, as when the binary was built elsewhere, the line on standard error has to do.
fn record(line: &str) {
    let _ = fs::create_dir_all(records::dir());
    if let Ok(mut file) = File::options().append(true).create(true).open(records::of_this_run()) {
        // One write to a file opened for appending: lines of tests that run at once do not mix.
        let _ = file.write_all(line.as_bytes());
    }
}
