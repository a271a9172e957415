//! A report as one self-contained HTML page: style, script and data are inline, and its policy forbids loading anything.
//!
//! [`data`] is the script's input; [`page`] embeds it so that no byte of it can be parsed as HTML. The script adds untrusted
//! text to the page only as text nodes.

mod data;
mod page;

pub use page::render;
