//! Looking up the entries of a tree one after the other.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Where the last entry was found, so that the next one is found at once. Threads may share it.
#[derive(Debug, Default)]
pub struct Cursor(AtomicU64);

impl Cursor {
    pub(super) fn get(&self) -> (usize, usize) {
        let both = self.0.load(Relaxed);
        ((both >> 32) as usize, (both & u64::from(u32::MAX)) as usize)
    }

    /// A place that does not fit is looked up again.
    pub(super) fn set(&self, number: usize, at: usize) {
        let fit = |place: usize| u64::from(u32::try_from(place).unwrap_or(u32::MAX));
        self.0.store(fit(number) << 32 | fit(at), Relaxed);
    }
}
