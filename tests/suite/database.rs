//! Databases: saved while others write, brought back while others look on.

mod commands;
mod content;
mod in_use;
mod killed;
mod made_anew;
mod other;
