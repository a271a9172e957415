//! decree's own files while a routine runs: what it removes of them comes back.
//!
//! `.decree/` is no part of a checkpoint, so nothing else would. What is small is held in memory, what is large is held
//! open: a file that was removed can be read for as long as somebody has it open. Edits to settings and routines stay,
//! as a routine may have been asked for them, and are named; edits to the tracker do not.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, AtomicFile};
use crate::project::Layout;

/// Up to this size a file is held in memory.
const SMALL: u64 = 256 * 1024;
/// More files than this are not held: nobody's settings and queue are that large.
const MOST: usize = 4000;

/// What was there when the routine started.
pub struct OwnFiles {
    files: Vec<Held>,
    tracker: PathBuf,
    tracker_text: Option<Vec<u8>>,
}

struct Held {
    path: PathBuf,
    mode: u32,
    content: Content,
    /// A change to it is worth a word.
    settings: bool,
}

enum Content {
    Bytes(Vec<u8>),
    Open(File),
}

/// What a routine had done to them.
#[derive(Debug, Default)]
pub struct Mended {
    /// Files that were gone and are back.
    pub restored: Vec<PathBuf>,
    /// Settings and routines that are not what they were.
    pub edited: Vec<PathBuf>,
    /// Whether the tracker had been changed, and is as it was.
    pub tracker: bool,
}

impl OwnFiles {
    /// Takes note of settings, routines, queue and tracker, and of everything in `run`.
    pub fn remember(layout: &Layout, run: &Path) -> Result<Self> {
        let mut own = OwnFiles {
            files: Vec::new(),
            tracker: layout.tracker(),
            tracker_text: read_if_there(&layout.tracker())?,
        };
        for path in [layout.config(), layout.gitignore()] {
            own.hold(path, true)?;
        }
        for dir in [layout.routines(), layout.cron()] {
            own.hold_below(&dir, true)?;
        }
        for path in [layout.inbox(), run.to_owned()] {
            own.hold_below(&path, false)?;
        }
        own.hold(layout.running(), false)?;
        Ok(own)
    }

    fn hold_below(&mut self, dir: &Path, settings: bool) -> Result<()> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result.at("read", dir)?,
        };
        for entry in entries {
            let entry = entry.at("read", dir)?;
            let kind = entry.file_type().at("read", entry.path())?;
            if kind.is_dir() && entry.file_name() != "previous" {
                self.hold_below(&entry.path(), settings)?;
            } else if kind.is_file() {
                self.hold(entry.path(), settings)?;
            }
        }
        Ok(())
    }

    fn hold(&mut self, path: PathBuf, settings: bool) -> Result<()> {
        if self.files.len() >= MOST {
            return Ok(());
        }
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result.at("read", &path)?,
        };
        let metadata = file.metadata().at("read", &path)?;
        let content = match metadata.len() <= SMALL {
            true => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).at("read", &path)?;
                Content::Bytes(bytes)
            }
            false => Content::Open(file),
        };
        self.files.push(Held { path, mode: metadata.permissions().mode() & 0o7777, content, settings });
        Ok(())
    }

    /// Brings back what is gone.
    pub fn mend(&mut self) -> Result<Mended> {
        let mut mended = Mended::default();
        for held in &mut self.files {
            match held.path.symlink_metadata() {
                Ok(_) if held.settings && held.is_edited() => mended.edited.push(held.path.clone()),
                Ok(_) => {}
                Err(_) => {
                    held.restore()?;
                    mended.restored.push(held.path.clone());
                }
            }
        }
        if read_if_there(&self.tracker)? != self.tracker_text {
            mended.tracker = true;
            match &self.tracker_text {
                Some(text) => {
                    make_parent(&self.tracker)?;
                    if self.tracker.is_dir() {
                        remove_whatever(&self.tracker).at("remove", &self.tracker)?;
                    }
                    atomic::write(&self.tracker, text)?;
                }
                None => remove_whatever(&self.tracker).at("remove", &self.tracker)?,
            }
        }
        Ok(mended)
    }
}

impl Held {
    fn is_edited(&self) -> bool {
        match &self.content {
            Content::Bytes(bytes) => fs::read(&self.path).is_ok_and(|now| now != *bytes),
            Content::Open(_) => false,
        }
    }

    fn restore(&mut self) -> Result<()> {
        make_parent(&self.path)?;
        let mut target = AtomicFile::create(&self.path)?;
        match &mut self.content {
            Content::Bytes(bytes) => io::copy(&mut &bytes[..], &mut target),
            Content::Open(file) => file.rewind().and_then(|()| io::copy(file, &mut target)),
        }
        .at("write", &self.path)?;
        target.commit()?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(self.mode)).at("write", &self.path)
    }
}

/// Makes the directory above, even if a routine put something else in its place.
fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().expect("own files are in directories");
    fs::create_dir_all(parent).at("create", parent)
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        // Something else in its place is not the tracker.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error).at("read", path),
    }
}

fn remove_whatever(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_routine_removes_of_decrees_own_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        let run = layout.runs().join("2025022514320000-0");
        fs::create_dir_all(&run).unwrap();
        fs::create_dir_all(layout.routines()).unwrap();
        fs::create_dir_all(layout.specs()).unwrap();
        let large = vec![7; SMALL as usize + 1];
        fs::write(layout.config(), "max_retries: 1\n").unwrap();
        fs::write(layout.routines().join("develop.sh"), "true\n").unwrap();
        fs::write(run.join("manifest.json"), &large).unwrap();
        fs::write(layout.tracker(), "01.spec.md\n").unwrap();
        let mut own = OwnFiles::remember(&layout, &run).unwrap();
        fs::remove_dir_all(layout.decree()).unwrap();
        fs::write(layout.tracker(), "01.spec.md\n02.spec.md\n").unwrap();
        let mended = own.mend().unwrap();
        assert_eq!(mended.restored.len(), 3, "{mended:?}");
        assert!(mended.tracker);
        assert_eq!(fs::read(run.join("manifest.json")).unwrap(), large);
        assert_eq!(fs::read_to_string(layout.tracker()).unwrap(), "01.spec.md\n");
        fs::write(layout.routines().join("develop.sh"), "false\n").unwrap();
        let mended = own.mend().unwrap();
        assert_eq!(mended.edited, [layout.routines().join("develop.sh")]);
        assert!(mended.restored.is_empty() && !mended.tracker);
    }
}
