//! A report as one self-contained HTML page: style, script and data are inline, and its policy forbids loading anything.
//!
//! [`page`] embeds the data so that no byte of it can be parsed as HTML. The script adds untrusted text to the page only as
//! text nodes.

mod page;

pub use page::render;
