//! The command line that runs a routine: bash for a script, papermill for a notebook.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::discovery::{Routine, RoutineKind};
use super::papermill;
use crate::error::{Error, IoContext, Result};
use crate::project::Layout;

/// What to execute, and where its output goes.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Added to the environment; a script takes its parameters from there.
    pub environment: BTreeMap<OsString, OsString>,
}

impl Invocation {
    /// The invocation of a routine; a notebook with its results is written to `output`.
    pub fn new(
        routine: &Routine,
        parameters: BTreeMap<String, String>,
        layout: &Layout,
        output: &Path,
    ) -> Result<Invocation> {
        if routine.kind == RoutineKind::Notebook {
            return notebook(routine, parameters, layout, output);
        }
        let environment = parameters.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // Through bash, so that the file need not be executable.
        Ok(Invocation { program: "bash".into(), arguments: vec![routine.path.clone().into()], environment })
    }
}

/// Runs `papermill <routine> <output>` with the parameters.
fn notebook(
    routine: &Routine,
    parameters: BTreeMap<String, String>,
    layout: &Layout,
    output: &Path,
) -> Result<Invocation> {
    let papermill = papermill::find(layout).ok_or_else(|| {
        Error::project(format!("{} has no papermill", layout.shown(&layout.venv())))
            .hint("`decree doctor` lists what is missing")
    })?;
    let mut arguments: Vec<OsString> = vec![routine.path.clone().into(), output.into(), "--cwd".into()];
    arguments.extend([layout.root().into(), "--log-output".into(), "--no-progress-bar".into()]);
    for (key, value) in parameters {
        // `-p` lets papermill infer the type: right where the notebook's default is no text. An id of digits stays text.
        let typed = routine.parameters.iter().any(|parameter| parameter.name == key && parameter.typed);
        let flag = if typed { "-p" } else { "-r" };
        arguments.extend([flag.into(), key.into(), value.into()]);
    }
    Ok(Invocation { program: papermill.into(), arguments, environment: jupyter_dirs(layout)? })
}

/// Directories for Jupyter in `.decree/tmp`: by default it writes into the home directory, which a CI job may not have.
fn jupyter_dirs(layout: &Layout) -> Result<BTreeMap<OsString, OsString>> {
    let mut dirs = BTreeMap::new();
    for name in ["IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"] {
        if std::env::var_os(name).is_none() {
            let dir = layout.scratch().join("jupyter").join(name.to_lowercase());
            fs::create_dir_all(&dir).at("create", &dir)?;
            dirs.insert(name.into(), dir.into());
        }
    }
    Ok(dirs)
}
