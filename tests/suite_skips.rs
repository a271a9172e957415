//! The end of `cargo test`: which tests of the suite were skipped in this run, and why.
//!
//! Not a test. cargo runs the test targets of a package by name, so this one after `suite`, whose tests record what they skip.
#![allow(clippy::unwrap_used, clippy::disallowed_macros)]

#[path = "suite/harness/records.rs"]
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

fn main() {
    // A runner that asks for a list of tests gets an empty one.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let file = records::of_this_run();
    let text = fs::read_to_string(&file).unwrap_or_default();
    print(&text);
    let _ = fs::remove_file(file);
    remove_stale();
}

fn print(records: &str) {
    let mut reasons: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (reason, test) in records.lines().filter_map(|line| line.split_once('\t')) {
        reasons.entry(reason).or_default().insert(test);
    }
    if reasons.is_empty() {
        println!("\nNo test of the suite reported a skip.");
        return;
    }
    println!("\nSkipped on this machine, in whole or in part:");
    for (reason, tests) in reasons {
        println!("  {reason}:");
        for test in tests {
            println!("    {test}");
        }
    }
}

/// Removes the records of runs whose cargo is gone: runs of the suite alone, and runs that failed or were killed.
fn remove_stale() {
    let Ok(entries) = fs::read_dir(records::dir()) else { return };
    for entry in entries.map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap_or_default();
        let running = name.split_once('-').is_some_and(|(process, started)| {
            process.parse().ok().and_then(records::started).is_some_and(|now| now == started)
        });
        if !running {
            let _ = fs::remove_file(entry.path());
        }
    }
}
