//! decree's own directories while a routine runs: they are where they were, and nothing else is in their place.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};
use crate::fs::atomic::TEMPORARY;
use crate::fs::{is_at, random_hex};

/// The directories as they were, those above before those below.
pub(super) struct HeldDirs {
    /// The project, whose own name and mode are in no checkpoint, and `.decree/`.
    anchors: Vec<Anchor>,
    list: Vec<Place>,
}

/// A directory that can be found even if it has another name by now.
struct Anchor {
    place: Place,
    held: File,
}

struct Place {
    path: PathBuf,
    what: What,
}

enum What {
    Dir {
        mode: u32,
    },
    /// Whoever has a link there wants one.
    Link(PathBuf),
}

impl HeldDirs {
    /// Of a project with this `.decree/`.
    pub fn new(root: &Path, own: &Path) -> Self {
        let anchor = |path| Some(Anchor { place: Place::of(path)?, held: File::open(path).ok()? });
        HeldDirs { anchors: [root, own].into_iter().filter_map(anchor).collect(), list: Vec::new() }
    }

    /// Takes note of a directory, if it is one.
    pub fn note(&mut self, path: &Path) {
        self.list.extend(Place::of(path));
    }

    /// Brings them back.
    pub fn mend(&self, aside: &mut Quarantine) -> Result<()> {
        for anchor in &self.anchors {
            anchor.bring_back(aside)?;
            anchor.place.mend(aside)?;
        }
        self.list.iter().try_for_each(|place| place.mend(aside))
    }
}

impl Anchor {
    /// What was moved is moved back, with everything in it.
    fn bring_back(&self, aside: &mut Quarantine) -> Result<()> {
        let path = &self.place.path;
        if matches!(self.place.what, What::Link(_)) || is_at(&self.held, path) {
            return Ok(());
        }
        let Ok(now) = fs::read_link(format!("/proc/self/fd/{}", self.held.as_raw_fd())) else {
            return Ok(());
        };
        if is_at(&self.held, &now) {
            aside.take(path)?;
            // If that is not possible, it is made anew.
            let _ = fs::rename(now, path);
        }
        Ok(())
    }
}

impl Place {
    fn of(path: &Path) -> Option<Place> {
        let metadata = path.symlink_metadata().ok()?;
        let what = match fs::read_link(path) {
            Ok(target) => What::Link(target),
            Err(_) if metadata.is_dir() => What::Dir { mode: metadata.permissions().mode() & 0o7777 },
            Err(_) => return None,
        };
        Some(Place { path: path.to_owned(), what })
    }

    fn mend(&self, aside: &mut Quarantine) -> Result<()> {
        let found = match self.path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.make(),
            result => result.at("read", &self.path)?,
        };
        match &self.what {
            What::Dir { mode } if found.is_dir() => match found.permissions().mode() & 0o7777 == *mode {
                true => Ok(()),
                false => set_mode(&self.path, *mode),
            },
            What::Link(target) if fs::read_link(&self.path).is_ok_and(|now| now == *target) => Ok(()),
            _ => {
                aside.take(&self.path)?;
                self.make()
            }
        }
    }

    fn make(&self) -> Result<()> {
        match &self.what {
            What::Dir { mode } => {
                fs::create_dir(&self.path).at("create", &self.path)?;
                set_mode(&self.path, *mode)
            }
            What::Link(target) => symlink(target, &self.path).at("create", &self.path),
        }
    }
}

/// What a routine put where it cannot stay.
#[derive(Default)]
pub(super) struct Quarantine {
    waiting: Vec<(PathBuf, String)>,
}

impl Quarantine {
    /// Moves something out of the way, if there is something.
    pub fn take(&mut self, path: &Path) -> Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = path.with_file_name(format!("{TEMPORARY}{}-{name}", random_hex()));
        match fs::rename(path, &place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result.at("move", path)?,
        }
        self.waiting.push((place, name));
        Ok(())
    }

    /// Keeps what is there under a second name, and leaves it where it is: whoever replaces it does so in one step, so that a
    /// decree that is killed in between still finds one or the other.
    pub fn keep_copy(&mut self, path: &Path) -> Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = path.with_file_name(format!("{TEMPORARY}{}-{name}", random_hex()));
        second_name(path, &place)?;
        self.waiting.push((place, name));
        Ok(())
    }

    /// Moves it all to where it is kept. Returns how much there was.
    pub fn keep(self, dir: &Path) -> Result<usize> {
        if !self.waiting.is_empty() {
            fs::create_dir_all(dir).at("create", dir)?;
        }
        let count = self.waiting.len();
        for (from, name) in self.waiting {
            let names =
                (1..).map(|number| dir.join(format!(".decree-{number}-{}", name.trim_start_matches('.'))));
            let free = names.into_iter().find(|path| path.symlink_metadata().is_err());
            fs::rename(&from, free.expect("there is always another number")).at("move", &from)?;
        }
        Ok(count)
    }
}

/// Gives a file a second name; where the file system has none, a copy.
pub(super) fn second_name(path: &Path, to: &Path) -> Result<()> {
    match fs::hard_link(path, to) {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(path, to).map(drop).at("copy", path),
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("change the mode of", path)
}
