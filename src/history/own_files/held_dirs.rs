//! decree's own directories while a program runs: they stay where they were, and nothing else stands in their place.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::quarantine::Quarantine;
use crate::error::{IoContext, Result};
use crate::fs::is_at;

/// The directories as they were, parents before their children.
pub(super) struct HeldDirs {
    /// The project, whose own name and mode are in no checkpoint, and `.decree/`.
    anchors: Vec<Anchor>,
    list: Vec<HeldDir>,
}

/// A directory that is held open, so that it is found even after it was renamed.
struct Anchor {
    dir: HeldDir,
    open: File,
}

struct HeldDir {
    path: PathBuf,
    form: DirForm,
}

enum DirForm {
    Plain {
        mode: u32,
    },
    /// The user keeps the directory elsewhere.
    Link(PathBuf),
}

impl HeldDirs {
    /// Holds a project and its `.decree/`.
    pub fn new(root: &Path, own: &Path) -> Self {
        let anchor = |path| Some(Anchor { dir: HeldDir::of(path)?, open: File::open(path).ok()? });
        HeldDirs { anchors: [root, own].into_iter().filter_map(anchor).collect(), list: Vec::new() }
    }

    /// Holds one more directory, if it is one.
    pub fn hold(&mut self, path: &Path) {
        self.list.extend(HeldDir::of(path));
    }

    /// Restores those that are gone, renamed, replaced or have another mode.
    pub fn repair(&self, quarantine: &mut Quarantine) -> Result<()> {
        for anchor in &self.anchors {
            anchor.move_back(quarantine)?;
            anchor.dir.repair(quarantine)?;
        }
        self.list.iter().try_for_each(|dir| dir.repair(quarantine))
    }
}

impl Anchor {
    /// Moves a renamed directory back, with everything in it.
    fn move_back(&self, quarantine: &mut Quarantine) -> Result<()> {
        let path = &self.dir.path;
        if matches!(self.dir.form, DirForm::Link(_)) || is_at(&self.open, path) {
            return Ok(());
        }
        // The kernel knows the present name of an open directory.
        let Ok(now) = fs::read_link(format!("/proc/self/fd/{}", self.open.as_raw_fd())) else {
            return Ok(());
        };
        if is_at(&self.open, &now) {
            quarantine.take(path)?;
            // If this fails, `repair` creates the directory.
            let _ = fs::rename(now, path);
        }
        Ok(())
    }
}

impl HeldDir {
    fn of(path: &Path) -> Option<HeldDir> {
        let metadata = path.symlink_metadata().ok()?;
        let form = match fs::read_link(path) {
            Ok(target) => DirForm::Link(target),
            Err(_) if metadata.is_dir() => DirForm::Plain { mode: metadata.permissions().mode() & 0o7777 },
            Err(_) => return None,
        };
        Some(HeldDir { path: path.to_owned(), form })
    }

    fn repair(&self, quarantine: &mut Quarantine) -> Result<()> {
        let found = match self.path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.create(),
            result => result.at("read", &self.path)?,
        };
        match &self.form {
            DirForm::Plain { mode } if found.is_dir() => {
                if found.permissions().mode() & 0o7777 == *mode {
                    return Ok(());
                }
                set_mode(&self.path, *mode)
            }
            DirForm::Link(target) if fs::read_link(&self.path).is_ok_and(|now| now == *target) => Ok(()),
            _ => {
                quarantine.take(&self.path)?;
                self.create()
            }
        }
    }

    fn create(&self) -> Result<()> {
        match &self.form {
            DirForm::Plain { mode } => {
                fs::create_dir(&self.path).at("create", &self.path)?;
                set_mode(&self.path, *mode)
            }
            DirForm::Link(target) => symlink(target, &self.path).at("create", &self.path),
        }
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("change the mode of", path)
}
