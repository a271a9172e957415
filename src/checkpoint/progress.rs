//! How long work tells that it goes on.

/// Told by the engine, shown by [`crate::ui`].
pub trait Progress: Sync {
    /// Work of `total` steps begins; `0` if nobody knows how many.
    fn begin(&self, what: &str, total: u64);
    /// Some steps are done.
    fn advance(&self, steps: u64);
    /// The work is done.
    fn end(&self);
}

/// For those who do not watch.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}
