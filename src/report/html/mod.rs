//! A report as one page that needs nothing else: style, script and data are in it, and it may load nothing.
//!
//! [`data`] is what the script is told; [`page`] puts it together so that no byte of it can be taken for HTML. The script
//! puts foreign text on the page as text only.

mod data;
mod page;

pub use page::render;
