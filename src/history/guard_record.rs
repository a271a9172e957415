//! `guarding.json`: the command that `guard` is running. If decree is killed before it ends, the next decree reports that.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{IoContext, Result};
use crate::fs::{json, untrusted};
use crate::project::Layout;
use crate::sanitize::one_line;

/// The contents of `guarding.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardRecord {
    pub checkpoint: String,
    pub command: String,
}

/// A guarded command that is running. Without a call to [`ActiveGuard::over`] the next decree reports it as killed.
#[must_use]
pub struct ActiveGuard(PathBuf);

impl GuardRecord {
    /// Writes the file before the command starts.
    pub fn begin(&self, layout: &Layout) -> Result<ActiveGuard> {
        let path = layout.guarding();
        json::write_pretty(&path, self)?;
        Ok(ActiveGuard(path))
    }

    /// The command that is running, or was when decree was killed.
    pub fn find(layout: &Layout) -> Result<Option<GuardRecord>> {
        let path = layout.guarding();
        match untrusted::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => Ok(serde_json::from_slice(&text.at("read", &path)?).ok()),
        }
    }

    /// The command that was running when decree was killed, reported once. The caller holds the project's lock.
    pub fn take_cut_off(layout: &Layout) -> Result<Option<GuardRecord>> {
        let found = GuardRecord::find(layout)?;
        ActiveGuard(layout.guarding()).over();
        Ok(found)
    }

    /// The warning about it, with the way back.
    pub fn warning(&self) -> String {
        format!(
            "decree was killed while it guarded `{}`; `decree rollback {}` restores what was there before",
            one_line(&self.command),
            self.checkpoint
        )
    }
}

impl ActiveGuard {
    /// The command's work is kept or rolled back.
    pub fn over(self) {
        let _ = fs::remove_file(&self.0);
    }
}
