//! A script that decree finds as `git`, in front of the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::temp_dir;

/// Shell words that set `$decree` to the process that started git: between both is a supervisor.
pub const FIND_DECREE: &str = "read -r _ _ _ decree _ </proc/$PPID/stat";

/// The directory of the script.
pub struct GitInFront(tempfile::TempDir);

impl GitInFront {
    /// Runs these shell commands, and then the real git, unless they exit.
    pub fn new(commands: &str) -> GitInFront {
        let programs = temp_dir();
        let script = programs.path().join("git");
        fs::write(&script, format!("#!/bin/sh\n{commands}\nexec {} \"$@\"\n", git_path())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        GitInFront(programs)
    }

    /// The value of `PATH` with which it is found.
    pub fn search_path(&self) -> String {
        format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap())
    }

    /// Where the script is, `$(dirname "$0")` in it.
    pub fn dir(&self) -> &Path {
        self.0.path()
    }
}

/// The path of the real git.
pub fn git_path() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists());
    found.unwrap().display().to_string()
}
