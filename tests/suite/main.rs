//! The integration tests: one binary, a module per capability, a shared harness.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod harness;
