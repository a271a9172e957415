//! Notebooks, run by papermill in a Python environment of the project's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::discovery::Routine;
use super::invocation::Invocation;
use crate::error::{Error, Result};
use crate::project::Layout;

/// `papermill <routine> <attempt>/output.ipynb`, with the parameters.
pub fn invocation(
    routine: &Routine,
    parameters: BTreeMap<String, String>,
    layout: &Layout,
    attempt: &Path,
) -> Result<Invocation> {
    let papermill = find(layout).ok_or_else(|| {
        Error::project(format!("{} has no papermill", layout.shown(&layout.venv())))
            .hint("remove it, and it is made anew; or set DECREE_VENV to an environment that has papermill")
    })?;
    let mut arguments = vec![routine.path.clone().into(), attempt.join("output.ipynb").into()];
    arguments.extend([
        "--cwd".into(),
        layout.root().into(),
        "--log-output".into(),
        "--no-progress-bar".into(),
    ]);
    for (key, value) in parameters {
        // A number or a truth stays one if the notebook's own default is one; an id of digits stays text.
        let typed = routine.parameters.iter().any(|parameter| parameter.name == key && parameter.typed);
        let flag = if typed { "-p" } else { "-r" };
        arguments.extend([flag.into(), key.into(), value.into()]);
    }
    Ok(Invocation {
        program: papermill.into(),
        arguments,
        environment: BTreeMap::new(),
        log: "papermill.log",
    })
}

/// The papermill of the project's environment, if it is there.
pub fn find(layout: &Layout) -> Option<PathBuf> {
    let path = layout.venv().join("bin/papermill");
    path.is_file().then_some(path)
}
