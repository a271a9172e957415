//! The files of a new project.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::layout::Layout;
use crate::error::{IoContext, Result};
use crate::fs::atomic;

const CONFIG: &str = include_str!("../../templates/config.yml");
/// Only settings, routines and cron entries are committed; everything else in .decree/ is runtime data.
const GITIGNORE: &str = include_str!("../../templates/gitignore");
/// A routine that `init` writes.
struct RoutineTemplate {
    name: &'static str,
    text: &'static str,
    mode: u32,
    is_notebook: bool,
    /// The file in the project's root without which the routine is of no use.
    only_with: Option<&'static str>,
}

const CARGO: Option<&str> = Some("Cargo.toml");

const ROUTINES: [RoutineTemplate; 4] = [
    script("develop.sh", include_str!("../../templates/develop.sh"), None),
    script("rust-develop.sh", include_str!("../../templates/rust-develop.sh"), CARGO),
    notebook("develop.ipynb", include_str!("../../templates/develop.ipynb"), None),
    notebook("rust-develop.ipynb", include_str!("../../templates/rust-develop.ipynb"), CARGO),
];

const fn script(name: &'static str, text: &'static str, only_with: Option<&'static str>) -> RoutineTemplate {
    RoutineTemplate { name, text, mode: 0o755, is_notebook: false, only_with }
}

const fn notebook(
    name: &'static str,
    text: &'static str,
    only_with: Option<&'static str>,
) -> RoutineTemplate {
    RoutineTemplate { name, text, mode: 0o644, is_notebook: true, only_with }
}

/// Writes the files of a new project that do not exist yet and fit it, and returns their paths relative to it. `ai` is the command that
/// the routines call.
pub fn write_project(layout: &Layout, ai: &str, notebook: bool) -> Result<Vec<String>> {
    let mut written = Vec::new();
    for dir in [layout.decree(), layout.routines(), layout.specs()] {
        if !dir.is_dir() {
            fs::create_dir_all(&dir).at("create", &dir)?;
            written.push(format!("{}/", layout.shown(&dir)));
        }
    }
    let config = CONFIG.replace("@AI@", ai).replace("@NOTEBOOK@", if notebook { "true" } else { "false" });
    let mut files = vec![
        (layout.config(), config.as_str(), 0o644),
        (layout.gitignore(), GITIGNORE, 0o644),
        (layout.tracker(), "", 0o644),
    ];
    let fits = |routine: &&RoutineTemplate| {
        (notebook || !routine.is_notebook)
            && routine.only_with.is_none_or(|file| layout.root().join(file).is_file())
    };
    let path = |routine: &RoutineTemplate| layout.routines().join(routine.name);
    files.extend(ROUTINES.iter().filter(fits).map(|routine| (path(routine), routine.text, routine.mode)));
    for (path, text, mode) in files {
        if write_new(&path, text, mode)? {
            written.push(layout.shown(&path));
        }
    }
    Ok(written)
}

/// Writes a file unless the path exists, even as a dangling link.
pub fn write_new(path: &Path, text: &str, mode: u32) -> Result<bool> {
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let parent = path.parent().expect("every file is in a directory");
    fs::create_dir_all(parent).at("create", parent)?;
    atomic::write(path, text.as_bytes())?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("write", path)?;
    Ok(true)
}
