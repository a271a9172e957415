//! Databases: saved and restored while other programs read and write.

mod commands;
mod content;
mod in_use;
mod killed;
mod missing;
mod other;
mod postgresql;
