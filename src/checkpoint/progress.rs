//! Progress of long operations.

/// Receives the progress that the engine reports; [`crate::ui`] displays it.
pub trait Progress: Sync {
    /// An operation of `total` steps begins; `0` if the number is unknown.
    fn begin(&self, what: &str, total: u64);
    fn advance(&self, steps: u64);
    fn end(&self);
}
