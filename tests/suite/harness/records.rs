//! Where the skips of one run of `cargo test` are recorded; shared with `tests/suite_skips.rs`.

use std::path::{Path, PathBuf};

/// The directory of all records.
pub fn dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/skipped"))
}

/// The records of this run. Every test binary of a run is a child of the same cargo.
pub fn of_this_run() -> PathBuf {
    let cargo = std::os::unix::process::parent_id();
    dir().join(format!("{cargo}-{}", started(cargo).unwrap_or_default()))
}

/// When a process started, in ticks since boot: an id may be used again, an id with this number is not.
pub fn started(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in brackets, and may contain anything. This is the 22nd.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}
