//! The Python environment with papermill that runs notebooks. decree creates it on first use.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::process::{Exec, Output};
use crate::project::Layout;

/// Packages that the environment must have.
const PACKAGES: [&str; 2] = ["papermill", "ipykernel"];
/// Created last: an environment of decree's without this file is incomplete.
const READY: &str = "decree-made-this";
/// An installation that takes longer is stuck.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The papermill program of the project's environment, if that exists and is complete.
pub fn find(layout: &Layout) -> Option<PathBuf> {
    let venv = layout.venv();
    let path = venv.join("bin/papermill");
    let incomplete = venv == layout.own_venv() && !venv.join(READY).exists();
    (path.is_file() && !incomplete).then_some(path)
}

/// Creates the environment if it is missing. `environment` is what python and pip inherit; their output goes to `sink`.
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
        let name = program.to_string_lossy().into_owned();
        let ended = Exec::new(program)
            .args(arguments)
            .directory(layout.root())
            .environment(environment.clone())
            .timeout(Some(INSTALL_TIMEOUT))
            .run(sink)?;
        crate::interrupt::check()?;
        if !ended.is_success() {
            return Err(Error::project(format!("cannot create {} for notebooks: {name}: {}", layout.shown(&venv), ended.end))
                .hint("install python3 with venv and give it access to a package index, or set DECREE_VENV to an environment that has papermill and ipykernel"));
        }
    }
    atomic::write(&venv.join(READY), b"")
}
