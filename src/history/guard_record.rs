//! `guarding.json`: a command that is run with a checkpoint as the way back. If decree is killed meanwhile, the next one says so.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{IoContext, Result};
use crate::fs::{json, untrusted};
use crate::project::Layout;
use crate::sanitize::one_line;

/// What is being guarded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardRecord {
    /// The way back.
    pub checkpoint: String,
    /// What is run.
    pub command: String,
}

/// A command that is under way. Whoever does not say that it is over leaves that to be told by the next decree.
#[must_use]
pub struct ActiveGuard(PathBuf);

impl GuardRecord {
    /// Writes down what is about to be run.
    pub fn begin(&self, layout: &Layout) -> Result<ActiveGuard> {
        let path = layout.guarding();
        json::write_pretty(&path, self)?;
        Ok(ActiveGuard(path))
    }

    /// What is under way, or was cut off.
    pub fn find(layout: &Layout) -> Result<Option<GuardRecord>> {
        let path = layout.guarding();
        match untrusted::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => Ok(serde_json::from_slice(&text.at("read", &path)?).ok()),
        }
    }

    /// What was cut off, if anything was. Whoever holds the lock tells it, once.
    pub fn take_cut_off(layout: &Layout) -> Result<Option<GuardRecord>> {
        let found = GuardRecord::find(layout)?;
        ActiveGuard(layout.guarding()).over();
        Ok(found)
    }

    /// That it was cut off, and the way back.
    pub fn told(&self) -> String {
        format!(
            "decree was killed while it guarded `{}`; `decree rollback {}` puts back what was there before",
            one_line(&self.command),
            self.checkpoint
        )
    }
}

impl ActiveGuard {
    /// It ended, and what had to be put back is.
    pub fn over(self) {
        let _ = fs::remove_file(&self.0);
    }
}
