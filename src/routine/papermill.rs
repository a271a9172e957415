//! Notebooks, run by papermill in a Python environment of the project's own, which is made on first use.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::discovery::Routine;
use super::invocation::Invocation;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::process::{Exec, Output};
use crate::project::Layout;

/// What has to be in the environment.
const PACKAGES: [&str; 2] = ["papermill", "ipykernel"];
/// Written when everything is installed: an environment without it was cut off while it was made.
const READY: &str = "decree-made-this";
/// An installation that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The papermill of the project's environment, if it is there and whole.
pub fn find(layout: &Layout) -> Option<PathBuf> {
    let venv = layout.venv();
    let path = venv.join("bin/papermill");
    let cut_off = venv == layout.own_venv() && !venv.join(READY).exists();
    (path.is_file() && !cut_off).then_some(path)
}

/// Makes the environment if it is not there. `environment` is what its programs inherit; what they say goes to `sink`.
pub fn prepare(
    layout: &Layout,
    environment: &BTreeMap<OsString, OsString>,
    sink: &mut dyn Output,
) -> Result<()> {
    if find(layout).is_some() {
        return Ok(());
    }
    let venv = layout.venv();
    let own = venv == layout.own_venv();
    if venv.symlink_metadata().is_ok() && !own {
        return Err(Error::project(format!("{} has no papermill", venv.display())).hint(format!(
            "{}/bin/python -m pip install {}",
            venv.display(),
            PACKAGES.join(" ")
        )));
    }
    if own && venv.symlink_metadata().is_ok() {
        fs::remove_dir_all(&venv).at("remove", &venv)?;
    }
    let python = venv.join("bin/python").into_os_string();
    let steps: [(OsString, Vec<OsString>); 2] = [
        (
            "python3".into(),
            ["-m", "venv"].map(OsString::from).into_iter().chain([venv.clone().into()]).collect(),
        ),
        (
            python,
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
                .into_iter()
                .chain(PACKAGES)
                .map(OsString::from)
                .collect(),
        ),
    ];
    for (program, arguments) in steps {
        let shown = program.to_string_lossy().into_owned();
        let ended = Exec::new(program)
            .args(arguments)
            .directory(layout.root())
            .environment(environment.clone())
            .timeout(Some(PATIENCE))
            .run(sink)?;
        crate::interrupt::check()?;
        if !ended.is_success() {
            return Err(Error::project(format!("cannot make {} for notebooks: {shown}: {}", layout.shown(&venv), ended.end))
                .hint("install python3 with venv and give it access to a package index, or set DECREE_VENV to an environment that has papermill and ipykernel"));
        }
    }
    atomic::write(&venv.join(READY), b"")
}

/// `papermill <routine> <attempt>/output.ipynb`, with the parameters.
pub fn invocation(
    routine: &Routine,
    parameters: BTreeMap<String, String>,
    layout: &Layout,
    attempt: &Path,
) -> Result<Invocation> {
    let papermill = find(layout).ok_or_else(|| {
        Error::project(format!("{} has no papermill", layout.shown(&layout.venv())))
            .hint("`decree doctor` tells what is missing")
    })?;
    let mut arguments: Vec<OsString> =
        vec![routine.path.clone().into(), attempt.join("output.ipynb").into(), "--cwd".into()];
    arguments.extend([layout.root().into(), "--log-output".into(), "--no-progress-bar".into()]);
    for (key, value) in parameters {
        // A number or a truth stays one if the notebook's own default is one; an id of digits stays text.
        let typed = routine.parameters.iter().any(|parameter| parameter.name == key && parameter.typed);
        let flag = if typed { "-p" } else { "-r" };
        arguments.extend([flag.into(), key.into(), value.into()]);
    }
    Ok(Invocation { program: papermill.into(), arguments, environment: homes(layout)?, log: "papermill.log" })
}

/// Jupyter wants to write into a home directory, which a CI job may not have.
fn homes(layout: &Layout) -> Result<BTreeMap<OsString, OsString>> {
    let mut homes = BTreeMap::new();
    for name in ["IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"] {
        if std::env::var_os(name).is_none() {
            let dir = layout.scratch().join("jupyter").join(name.to_lowercase());
            fs::create_dir_all(&dir).at("create", &dir)?;
            homes.insert(name.into(), dir.into());
        }
    }
    Ok(homes)
}
