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
}

impl Invocation {
    /// How to execute a routine; a notebook is written to `output` with its results.
    pub fn of(
        routine: &Routine,
        parameters: BTreeMap<String, String>,
        layout: &Layout,
        output: &Path,
    ) -> Result<Invocation> {
        match routine.kind {
            RoutineKind::Shell => Ok(shell(routine, parameters)),
            RoutineKind::Notebook => papermill::invocation(routine, parameters, layout, output),
        }
    }
}

/// `bash <routine>`: the file need not be executable.
fn shell(routine: &Routine, parameters: BTreeMap<String, String>) -> Invocation {
    Invocation {
        program: "bash".into(),
        arguments: vec![routine.path.clone().into()],
        environment: parameters.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
    }
}
