//! Databases: a copy of one at one moment, and restoring it.
//!
//! A database is not a file like others. While a program has it open, a part of its content is in a journal beside
//! it, or in the program. So a checkpoint of the tree cannot hold a database, and replacing the file
//! under a running program would destroy it. Here databases are copied and restored by their own means:
//!
//! - [`sqlite`]: an SQLite file, through SQLite's own backup, while others use it
//! - [`commands`]: any other database, through a pair of commands from the config

pub mod commands;
pub mod sqlite;
