//! Being asked to stop.
//!
//! SIGINT, SIGTERM and SIGHUP (a terminal that was closed) set a flag. Long work looks at it between two files and ends with an error, cleaning up
//! behind it on the way out; a move into the user's tree does not look, and is over in a moment. Putting a tree back
//! because somebody asked works behind a [`Shield`], so that it is not stopped by the same signal. A second signal
//! of the same kind ends the process at once, which is safe too: the next decree finishes or undoes. One of another
//! kind (a CI runner sends SIGINT, then SIGTERM) changes nothing.

use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Error, ErrorKind, Result};

static ASKED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
static SHIELDS: AtomicUsize = AtomicUsize::new(0);

/// Begins to listen. Only the binary does: a library has no business with its host's signals.
pub fn listen() -> io::Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let number = usize::try_from(signal).expect("signals are small positive numbers");
        let repeated = Arc::new(std::sync::atomic::AtomicBool::new(false));
        // In this order: the first signal finds the condition false, and arms it for the second.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&repeated))?;
        signal_hook::flag::register(signal, repeated)?;
        signal_hook::flag::register_usize(signal, Arc::clone(asked), number)?;
    }
    Ok(())
}

/// The signal by which somebody asked us to stop, shielded or not; the last, if there were two.
pub fn asked() -> Option<u8> {
    let signal = ASKED.get().map_or(0, |asked| asked.load(Ordering::Relaxed));
    u8::try_from(signal).ok().filter(|signal| *signal > 0)
}

/// An error if somebody asked us to stop, and no [`Shield`] is up.
pub fn check() -> Result<()> {
    match asked() {
        Some(signal) if SHIELDS.load(Ordering::Relaxed) == 0 => {
            Err(Error::new(ErrorKind::Interrupted { signal }, "interrupted").detail("the tree is as it was"))
        }
        _ => Ok(()),
    }
}

/// As long as one is held, [`check`] finds nothing wrong, on any thread.
#[derive(Debug)]
#[must_use = "it protects only as long as it is held"]
pub struct Shield(());

/// Raises a shield: what comes now has to be finished.
pub fn shield() -> Shield {
    SHIELDS.fetch_add(1, Ordering::Relaxed);
    Shield(())
}

impl Drop for Shield {
    fn drop(&mut self) {
        SHIELDS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A reader that ends with an error when somebody asks us to stop.
pub struct Interruptible<R>(pub R);

impl<R: Read> Read for Interruptible<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        check().map_err(io::Error::other)?;
        self.0.read(out)
    }
}
