//! The command that runs a routine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::discovery::{Routine, RoutineKind};
use super::papermill;
use crate::error::Result;
use crate::project::Layout;

/// What to execute, and where its output goes.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Parameters, for programs that take them from there.
    pub environment: BTreeMap<OsString, OsString>,
    /// The name of the log in the attempt's directory.
    pub log: &'static str,
}

impl Invocation {
    /// For one attempt, whose directory is `attempt`.
    pub fn of(
        routine: &Routine,
        parameters: BTreeMap<String, String>,
        layout: &Layout,
        attempt: &Path,
    ) -> Result<Invocation> {
        match routine.kind {
            RoutineKind::Shell => Ok(shell(routine, parameters)),
            RoutineKind::Notebook => papermill::invocation(routine, parameters, layout, attempt),
        }
    }
}

/// `bash <routine>`: the file need not be executable.
fn shell(routine: &Routine, parameters: BTreeMap<String, String>) -> Invocation {
    Invocation {
        program: "bash".into(),
        arguments: vec![routine.path.clone().into()],
        environment: parameters.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        log: "routine.log",
    }
}
