//! A report as Markdown, for a step summary or a comment: a table of all specs, then each diff and each failure in a folded
//! section, within a budget of bytes.
//!
//! Text from routines and file names is untrusted: outside of code fences it is [`escape`]d, so that it formats nothing and
//! mentions no user, and each fence is longer than any in its content. [`page`] and [`fold`] divide and
//! fill the budget; [`mod@comment`] adds a marker and the origin.

mod comment;
mod escape;
mod fold;
mod page;

pub use comment::{Origin, WebAddress, comment};
pub use page::{BUDGET, render};

#[cfg(test)]
mod tests;
