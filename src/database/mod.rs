//! Databases: a copy of what is in one at one moment, and the way back to it.
//!
//! A database is not a file like others. While a program has it open, what its file holds is half of the truth: the
//! rest is in a journal beside it, or in the program. So a checkpoint of the tree cannot hold one, and putting the file
//! back under a running program would destroy it. Here databases are copied and brought back by their own means:
//!
//! - [`sqlite`]: an SQLite file, through SQLite's own backup, while others use it
//! - [`commands`]: any other database, through a pair of commands from the config

pub mod commands;
pub mod sqlite;
