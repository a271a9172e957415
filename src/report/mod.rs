//! What is made of a summary: renderers that are pure; somebody else delivers.

pub mod text;
