//! decree's own files and directories, held while a program runs that may do anything to them.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::area::{OwnFile, stage};
use super::quarantine::Quarantine;
use crate::checkpoint::entry::FileMode;
use crate::error::{IoContext, Result};
use crate::fs::beneath::InodeHandle;
use crate::fs::spool::{Spool, SpooledContent};
use crate::fs::{FileStamp, atomic, is_at, untrusted};

/// A file as it was.
pub(super) struct HeldFile {
    pub path: PathBuf,
    pub protection: Protection,
    mode: FileMode,
    stamp: Stamp,
    /// What the kernel says of the file, if that distinguishes every later write.
    unchanged: Option<FileStamp>,
    content: HeldContent,
}

enum HeldContent {
    InMemory(OwnFile),
    /// A deleted file can be read for as long as a process has it open.
    Open(File),
    Spooled(SpooledContent),
}

/// Where to hold a file.
pub(super) enum Hold<'s> {
    InMemory,
    Open,
    Spool(&'s mut Spool),
}

/// Inode, length and time of modification.
type Stamp = (u64, u64, i64, i64);

/// What of a file is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// The file is restored if it is gone; edits stay.
    Presence,
    /// The same while the program may succeed; every byte once it has failed.
    Queue,
    /// The file is restored if it is gone; edits are reported.
    Settings,
    /// Every byte is restored, and what was there instead is kept.
    Record,
    /// Every byte is restored.
    Tracker,
}

/// What a program had done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileDamage {
    /// It was gone, or something else was in its place. It is restored.
    Restored,
    /// It had other bytes. It is restored, and those are kept.
    Overwritten,
    /// It was edited, and stays as it is.
    Edited,
    /// It was overwritten, and its old content is lost.
    Spoiled,
}

impl HeldFile {
    /// Holds an open file, of which the kernel said this when it was opened.
    pub fn new(
        path: PathBuf,
        (mut file, metadata): (File, fs::Metadata),
        hold: Hold<'_>,
        protection: Protection,
    ) -> Result<Self> {
        let (mode, stamp) = (FileMode::from_bits(metadata.mode()), stamp(&metadata));
        let unchanged = FileStamp::if_settled(&metadata);
        let content = match hold {
            Hold::InMemory => HeldContent::InMemory(OwnFile::read_open(file, &metadata).at("read", &path)?),
            Hold::Open => HeldContent::Open(file),
            Hold::Spool(spool) => HeldContent::Spooled(spool.add(&mut file, &path)?),
        };
        Ok(HeldFile { path, protection, mode, stamp, unchanged, content })
    }

    /// Whether this is certainly still the file that was read.
    pub fn is_certainly(&self, found: &fs::Metadata) -> bool {
        self.unchanged == Some(FileStamp::of(found))
    }

    /// How many bytes are held in memory, in a spool, and how many files are open.
    pub fn room(&self) -> (u64, u64, usize) {
        match &self.content {
            HeldContent::InMemory(file) => (file.bytes.len() as u64, 0, 0),
            HeldContent::Spooled(content) => (0, content.length, 0),
            HeldContent::Open(_) => (0, 0, 1),
        }
    }

    /// Restores what its protection covers.
    pub fn repair(&mut self, quarantine: &mut Quarantine) -> Result<Option<FileDamage>> {
        let Some(found) = self.path.symlink_metadata().if_exists().at("read", &self.path)? else {
            return self.restore();
        };
        let is_file = match self.protection {
            // The user may want a link there, as long as it leads to a file.
            Protection::Settings => fs::metadata(&self.path).is_ok_and(|found| found.is_file()),
            _ => found.is_file(),
        };
        if !is_file {
            quarantine.take(&self.path)?;
            return self.restore();
        }
        let (mode, mode_now) = (self.mode.bits(), found.mode() & 0o7777);
        let is_closed = mode & 0o400 != 0 && mode_now & 0o400 == 0;
        let keeps_mode =
            matches!(self.protection, Protection::Presence | Protection::Queue | Protection::Record);
        if found.is_file() && (is_closed || (keeps_mode && mode_now != mode)) {
            set_mode(&self.path, mode)?;
        }
        if matches!(self.protection, Protection::Presence | Protection::Queue) || !self.is_edited(&found) {
            return Ok(None);
        }
        // A file that is held open and was overwritten in place has lost its old content.
        let is_lost = match &self.content {
            HeldContent::InMemory(_) | HeldContent::Spooled(_) => false,
            HeldContent::Open(file) => file.metadata().is_ok_and(|held| held.ino() == found.ino()),
        };
        match self.protection {
            Protection::Settings => return Ok(Some(FileDamage::Edited)),
            _ if is_lost => return Ok(Some(FileDamage::Spoiled)),
            Protection::Tracker => {}
            // What is there now may be a message that the user put there.
            Protection::Presence | Protection::Queue | Protection::Record => {
                quarantine.keep_copy(&self.path)?;
            }
        }
        self.restore()?;
        Ok(Some(FileDamage::Overwritten))
    }

    /// Whether a file with other bytes has its name.
    pub fn has_other_bytes(&self) -> bool {
        self.path.symlink_metadata().is_ok_and(|found| found.is_file() && self.is_edited(&found))
    }

    fn is_edited(&self, found: &fs::Metadata) -> bool {
        if self.unchanged == Some(FileStamp::of(found)) {
            return false;
        }
        match &self.content {
            HeldContent::InMemory(OwnFile { bytes, .. }) => {
                let length = fs::metadata(&self.path).map_or(0, |found| found.len());
                length != bytes.len() as u64 || fs::read(&self.path).is_ok_and(|now| now != *bytes)
            }
            HeldContent::Spooled(content) => !has_bytes(&self.path, &mut content.reader()),
            HeldContent::Open(_) => stamp(found) != self.stamp,
        }
    }

    fn restore(&mut self) -> Result<Option<FileDamage>> {
        let staged = match &mut self.content {
            HeldContent::InMemory(file) => file.stage(&self.path)?,
            HeldContent::Open(file) => {
                file.rewind().at("read", &self.path)?;
                stage(&self.path, file, self.mode)?
            }
            HeldContent::Spooled(content) => stage(&self.path, &mut content.reader(), self.mode)?,
        };
        staged.commit()?;
        self.stamp = stamp(&self.path.symlink_metadata().at("read", &self.path)?);
        self.unchanged = None;
        Ok(Some(FileDamage::Restored))
    }
}

/// Whether the file at `path` has exactly these bytes. One that cannot be read counts as if it had.
fn has_bytes(path: &Path, expected: &mut dyn Read) -> bool {
    let Ok(mut file) = untrusted::open(path) else { return true };
    let (mut a, mut b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let filled = (atomic::fill(&mut file, &mut a), atomic::fill(&mut &mut *expected, &mut b));
        let (Ok(n), Ok(m)) = filled else { return true };
        if n == 0 || a[..n] != b[..m] {
            return a[..n] == b[..m];
        }
    }
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// The directories as they were, parents before their children.
pub(super) struct HeldDirs {
    /// The project, whose own name and mode are in no checkpoint, and `.decree/`.
    anchors: [Option<Anchor>; 2],
    list: Vec<HeldDir>,
}

/// A directory that is held open, so that it is found even after it was renamed.
struct Anchor {
    dir: HeldDir,
    open: File,
}

pub(super) struct HeldDir {
    path: PathBuf,
    form: DirForm,
}

enum DirForm {
    Plain {
        mode: u32,
        owner: (u32, u32),
    },
    /// The user keeps the directory elsewhere.
    Link(PathBuf),
}

impl HeldDirs {
    /// Holds a project and its `.decree/`.
    pub fn new(root: &Path, own: &Path) -> Self {
        let anchor = |path| Some(Anchor { dir: HeldDir::of(path)?, open: File::open(path).ok()? });
        HeldDirs { anchors: [root, own].map(anchor), list: Vec::new() }
    }

    /// Holds one more directory, if it is one.
    pub fn hold(&mut self, path: &Path) {
        self.list.extend(HeldDir::of(path));
    }

    /// Restores those that are gone, renamed, replaced or have another mode. Returns what had become of the project itself, if anything.
    pub fn repair(&mut self, quarantine: &mut Quarantine) -> Result<Option<ProjectDamage>> {
        let mut repair = |anchor: &mut Option<Anchor>| {
            anchor.as_mut().map_or(Ok(None), |anchor| anchor.repair(quarantine))
        };
        let [project, own] = &mut self.anchors;
        let damage = repair(project)?;
        repair(own)?;
        self.list.iter().try_for_each(|dir| dir.repair(quarantine))?;
        Ok(damage)
    }
}

/// What a program had done to the directory of a project itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectDamage {
    /// It was renamed to this, and is moved back.
    Renamed(PathBuf),
    /// It was deleted, and is made again, by decree or by the program.
    Deleted,
}

impl Anchor {
    fn repair(&mut self, quarantine: &mut Quarantine) -> Result<Option<ProjectDamage>> {
        let path = &self.dir.path;
        if matches!(self.dir.form, DirForm::Link(_)) || is_at(&self.open, path) {
            self.dir.repair(quarantine)?;
            return Ok(None);
        }
        let renamed = self.move_back(quarantine)?;
        if let Some(parent) = path.parent() {
            // A program may have deleted the directory that the project is in.
            fs::create_dir_all(parent).at("create", parent)?;
        }
        self.dir.repair(quarantine)?;
        // What is there now is what the next program may rename.
        if let Ok(open) = File::open(path) {
            self.open = open;
        }
        Ok(Some(renamed.map_or(ProjectDamage::Deleted, ProjectDamage::Renamed)))
    }

    /// Moves a renamed directory back, with everything in it. Returns where it was.
    fn move_back(&self, quarantine: &mut Quarantine) -> Result<Option<PathBuf>> {
        let path = &self.dir.path;
        // The kernel knows the present name of an open directory.
        let Ok(now) = fs::read_link(format!("/proc/self/fd/{}", self.open.as_raw_fd())) else {
            return Ok(None);
        };
        if !is_at(&self.open, &now) {
            return Ok(None);
        }
        quarantine.take(path)?;
        // If this fails, `repair` creates the directory.
        Ok(fs::rename(&now, path).is_ok().then_some(now))
    }
}

impl HeldDir {
    pub fn of(path: &Path) -> Option<HeldDir> {
        let metadata = path.symlink_metadata().ok()?;
        let form = match fs::read_link(path) {
            Ok(target) => DirForm::Link(target),
            Err(_) if metadata.is_dir() => DirForm::Plain {
                mode: metadata.permissions().mode() & 0o7777,
                owner: (metadata.uid(), metadata.gid()),
            },
            Err(_) => return None,
        };
        Some(HeldDir { path: path.to_owned(), form })
    }

    /// Restores it if it is gone, was replaced or has another mode.
    pub fn repair(&self, quarantine: &mut Quarantine) -> Result<()> {
        let Some(found) = self.path.symlink_metadata().if_exists().at("read", &self.path)? else {
            return self.create();
        };
        match &self.form {
            DirForm::Plain { mode, .. } if found.is_dir() => {
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
            DirForm::Plain { mode, owner: (user, group) } => {
                fs::create_dir(&self.path).at("create", &self.path)?;
                if rustix::process::geteuid().is_root() {
                    chown(&self.path, Some(*user), Some(*group)).at("change the owner of", &self.path)?;
                }
                set_mode(&self.path, *mode)
            }
            DirForm::Link(target) => symlink(target, &self.path).at("create", &self.path),
        }
    }
}

/// Changes a mode without following a link that took the name in the meantime.
fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let inode = InodeHandle::open(CWD, path.as_os_str());
    inode.and_then(|inode| inode.set_mode(mode)).at("change the mode of", path)
}
