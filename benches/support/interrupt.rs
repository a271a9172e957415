//! Ctrl-C, and progress: what a run that takes an hour owes to the person who waits for it.
//!
//! A signal only sets a flag. The command under way is ended, the error goes up through every caller, and the scratch
//! directory is removed on the way.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Result;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
static START: OnceLock<Instant> = OnceLock::new();

/// From here on a signal no longer ends the benchmark at once.
pub fn install() -> Result<()> {
    START.get_or_init(Instant::now);
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

pub fn is_requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// An error once a signal has asked to stop.
pub fn check() -> Result<()> {
    if is_requested() { Err("interrupted; everything that was built is removed".into()) } else { Ok(()) }
}

/// Reports on standard error what is under way; only results go to standard output.
pub fn progress(message: &str) {
    let elapsed = START.get_or_init(Instant::now).elapsed().as_secs();
    // A closed standard error does not stop the measurement.
    let _ = writeln!(io::stderr(), "{:>3}m{:02} {message}", elapsed / 60, elapsed % 60);
}
