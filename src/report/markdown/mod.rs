//! A report as Markdown, for a step summary or a comment: what became of each spec, each diff and each failure folded, all
//! within a budget of bytes.
//!
//! Everything that a routine or a file name says is foreign: outside of fences it is [`escape`]d so that it is nothing but
//! text and pings nobody, and the fences around the rest are longer than anything in them. [`share`] shares the budget
//! out, [`fold`] and [`page`] fill it; [`mod@comment`] says besides where it comes from.

mod comment;
mod escape;
mod fold;
mod page;
mod share;

pub use comment::{Artifact, Origin, WebAddress, comment};
pub use page::{BUDGET, render};

#[cfg(test)]
mod tests;
