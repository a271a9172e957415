//! Signals that ask decree to stop.
//!
//! SIGINT, SIGTERM and SIGHUP (a closed terminal) set a flag. Long work checks it between two files, cleans up and returns an
//! error; moving staged files into the user's tree does not check it, because that takes only a moment. A revert that an
//! interrupt caused runs behind a [`Shield`], so that the same signal does not stop it. A second signal of the same kind
//! ends the process at once, which is safe too: the next decree finishes or undoes the work. One of another kind changes
//! nothing, because a CI runner sends SIGINT, then SIGTERM.

use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Error, ErrorKind, Result};

static SIGNAL: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
static SHIELDS: AtomicUsize = AtomicUsize::new(0);

/// Installs the signal handlers. Only the binary calls this, because signals belong to the whole process.
pub fn listen() -> io::Result<()> {
    let requested = SIGNAL.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let number = usize::try_from(signal).expect("signals are small positive numbers");
        let repeated = Arc::new(std::sync::atomic::AtomicBool::new(false));
        // The order matters: the first signal finds the condition false and then sets it for the second.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&repeated))?;
        signal_hook::flag::register(signal, repeated)?;
        signal_hook::flag::register_usize(signal, Arc::clone(requested), number)?;
    }
    Ok(())
}

/// The last signal that asked decree to stop, whether or not a [`Shield`] is held.
pub fn requested() -> Option<u8> {
    let signal = SIGNAL.get().map_or(0, |signal| signal.load(Ordering::Relaxed));
    u8::try_from(signal).ok().filter(|signal| *signal > 0)
}

/// Returns an error if decree was asked to stop and no [`Shield`] is held.
pub fn check() -> Result<()> {
    match requested() {
        Some(signal) if SHIELDS.load(Ordering::Relaxed) == 0 => {
            Err(Error::new(ErrorKind::Interrupted { signal }, "interrupted").detail("the tree is as it was"))
        }
        _ => Ok(()),
    }
}

/// While one is held, [`check`] succeeds on every thread.
#[derive(Debug)]
#[must_use = "it protects only while it is held"]
pub struct Shield(());

/// Starts a section that must be completed despite signals.
pub fn shield() -> Shield {
    SHIELDS.fetch_add(1, Ordering::Relaxed);
    Shield(())
}

impl Drop for Shield {
    fn drop(&mut self) {
        SHIELDS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A reader that fails when decree is asked to stop.
pub struct Interruptible<R>(pub R);

impl<R: Read> Read for Interruptible<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        check().map_err(io::Error::other)?;
        self.0.read(out)
    }
}
