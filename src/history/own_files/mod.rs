//! decree's own files: settings, routines, queue, tracker and records. No checkpoint of the tree holds them, so everything that needs
//! them as they were comes here: the pipeline around a routine, `guard` around a command, a run that is reverted, and state snapshots.
//!
//! - [`Area`] is the one list of them, and how their files are found.
//! - [`OwnFile`] is one file read, and written again.
//! - [`OwnFiles`] holds all of them while a program runs, and repairs what the program did to them.
//! - [`LastingFiles`] are those of them that stay held from one program to the next.
//! - [`SettingsSnapshot`] restores settings and routines when a run is reverted. It is in memory only, so it replaces each file in one
//!   step: a kill must not leave a project without its config.
//! - [`fn@restore`] makes files what a state snapshot has. It moves a file away before it compares it, so that nothing is lost which another
//!   process writes at that moment; a kill in between is repaired from `rolling-back.json`.
//!
//! What is found in the way is never deleted: it moves to the `set-aside/` of the run or checkpoint.

mod area;
mod earlier_runs;
mod held;
mod lasting;
mod protected;
mod quarantine;
mod repair_report;
mod restore;
mod room;
mod suspects;

pub use area::{Area, OwnFile, key_of, path_of_key};
pub use lasting::LastingFiles;
pub use protected::{OwnFiles, ProtectedDir};
pub use repair_report::RepairReport;
pub use restore::{SettingsRecord, SettingsSnapshot, restore};
