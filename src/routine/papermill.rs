//! The Python environment with papermill that runs notebooks. decree creates it on first use.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
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

/// Whether `DECREE_VENV` names a directory that does not exist. decree creates its own environment, but not one that the user says is
/// there.
pub fn is_venv_missing(layout: &Layout) -> bool {
    let venv = layout.venv();
    venv != layout.own_venv() && !venv.is_dir()
}

/// What is wrong with the environment that `DECREE_VENV` names, and what to do about it.
pub struct UnusableVenv {
    pub found: String,
    pub remedy: String,
}

/// Why the environment that `DECREE_VENV` names cannot run notebooks; `None` if it can, or if decree creates its own.
pub fn unusable_venv(layout: &Layout) -> Option<UnusableVenv> {
    let venv = layout.venv();
    if venv == layout.own_venv() || find(layout).is_some() {
        return None;
    }
    let (shown, packages) = (venv.display(), PACKAGES.join(" "));
    let install = format!("{shown}/bin/python -m pip install {packages}");
    let create = format!(
        "`python3 -m venv {shown} && {install}` creates it; without DECREE_VENV, decree creates its own"
    );
    let has_python = venv.join("bin/python").exists();
    let is_other = !venv.is_dir() && venv.symlink_metadata().is_ok();
    let lack = match is_venv_missing(layout) {
        true if is_other => "is not a directory",
        true => "does not exist",
        false => "has no papermill",
    };
    let found = format!("DECREE_VENV names {shown}, which {lack}");
    if is_other {
        let remedy = "set DECREE_VENV to another directory; without it, decree creates its own environment";
        return Some(UnusableVenv { found, remedy: remedy.to_owned() });
    }
    Some(UnusableVenv { found, remedy: if has_python { format!("`{install}` installs it") } else { create } })
}

/// Creates the environment if it is missing. `environment` is what python and pip inherit; their output goes to `sink`.
pub fn prepare(
    layout: &Layout,
    environment: &BTreeMap<OsString, OsString>,
    sink: &mut Output<'_>,
) -> Result<()> {
    if find(layout).is_some() {
        return Ok(());
    }
    if let Some(venv) = unusable_venv(layout) {
        return Err(Error::project(venv.found).hint(venv.remedy));
    }
    let venv = layout.venv();
    // Only its own: what `DECREE_VENV` names may have become usable in between.
    if venv == layout.own_venv() && venv.symlink_metadata().is_ok() {
        fs::remove_dir_all(&venv).at("remove", &venv)?;
    }
    let mut run = |program: &Path, arguments: &[&OsStr]| {
        let ended = Exec::new(program)
            .args(arguments)
            .directory(layout.root())
            .environment(environment.clone())
            .timeout(Some(INSTALL_TIMEOUT))
            .run(sink)?;
        crate::interrupt::check()?;
        if ended.is_success() {
            return Ok(());
        }
        Err(Error::project(format!("cannot create {} for notebooks: {}: {}", layout.shown(&venv), program.display(), ended.end))
            .hint("install python3 with venv and give it access to a package index, or set DECREE_VENV to an environment that has papermill and ipykernel"))
    };
    run(Path::new("python3"), &["-m".as_ref(), "venv".as_ref(), venv.as_ref()])?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let install: Vec<&OsStr> = install.iter().chain(&PACKAGES).map(OsStr::new).collect();
    run(&venv.join("bin/python"), &install)?;
    atomic::write(&venv.join(READY), b"")
}
