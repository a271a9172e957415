//! Being asked to stop.
//!
//! SIGINT and SIGTERM set a flag. Long work looks at it between two files and ends with an error, cleaning up
//! behind it on the way out; a move into the user's tree does not look, and is over in a moment. A second signal
//! of the same kind ends the process at once, which is safe too: the next decree finishes or undoes.

use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Error, Kind, Result};

static ASKED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Begins to listen. Only the binary does: a library has no business with its host's signals.
pub fn listen() -> io::Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        let number = usize::try_from(signal).expect("signals are small positive numbers");
        let repeated = Arc::new(std::sync::atomic::AtomicBool::new(false));
        // In this order: the first signal finds the condition false, and arms it for the second.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&repeated))?;
        signal_hook::flag::register(signal, repeated)?;
        signal_hook::flag::register_usize(signal, Arc::clone(asked), number)?;
    }
    Ok(())
}

/// An error if somebody asked us to stop.
pub fn check() -> Result<()> {
    match ASKED.get().map_or(0, |asked| asked.load(Ordering::Relaxed)) {
        0 => Ok(()),
        signal => {
            let signal = u8::try_from(signal).unwrap_or(0);
            Err(Error::new(Kind::Interrupted { signal }, "interrupted").detail("the tree is as it was"))
        }
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
