//! YAML with line numbers: config files and the front matter of messages and specs.
//!
//! Routines write messages, so the text is untrusted. [`fn@parse`] reads the events of `granit-parser` into a tree of
//! [`YamlNode`]s with bounds on size, nesting and alias expansion: it returns a tree or one [`Mistake`] with its line,
//! and never panics or exhausts the stack. Merge keys (`<<`) and application tags (`!name`) have no meaning here.
//!
//! A scalar keeps the text of the file: `1.10` is a number to YAML, but a version to its author.
//!
//! There are two writers. [`fn@render`] writes front matter for people, with quotes only where they are needed. [`fn@emit`]
//! writes contracts for programs, with quotes around every string.

mod emit;
mod mistake;
mod node;
mod parse;
mod render;

pub use emit::{emit, quoted};
pub use mistake::Mistake;
pub use node::{ScalarKind, YamlNode, YamlValue};
pub use parse::parse;
pub use render::render;

#[cfg(test)]
mod tests;
