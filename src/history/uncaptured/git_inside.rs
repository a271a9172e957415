//! One file, link or directory inside of a `.git` directory, as it was.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::held_record::{FileFingerprint, RecordKey};
use super::inside_kind::{ALTERNATES, InsideKind, MODULES, PLACE_OF_WORK_TREE, WORK_TREES, merged_log};
use crate::checkpoint::hash::ContentHash;
use crate::error::{IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::fs::untrusted;
use crate::fs::xattr::XattrValues;
use crate::git::state::{GitDirs, OBJECTS};

/// The largest file that is held, and how much is held together.
const MAX_FILE: u64 = 16 << 20;
pub(super) const MAX_TOTAL: u64 = 64 << 20;

pub(super) struct HeldInside {
    /// Relative to the git directory.
    pub name: PathBuf,
    pub form: InsideForm,
}

pub(super) enum InsideForm {
    Dir {
        mode: u32,
    },
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Link(PathBuf),
    /// Too large to be held, or not readable.
    NotHeld(FileTimes),
    /// What is known after decree was killed; nothing but the name if there is no fingerprint.
    Recorded(Option<(FileFingerprint, RecordKey)>),
}

/// By what a change of a file is seen whose content is not known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FileTimes {
    size: u64,
    modified: (i64, i64),
}

impl FileTimes {
    fn of(found: &Metadata) -> FileTimes {
        FileTimes { size: found.len(), modified: (found.mtime(), found.mtime_nsec()) }
    }
}

impl HeldInside {
    pub fn kind(&self) -> InsideKind {
        InsideKind::of(&self.name)
    }

    /// The first part of its name.
    pub fn top(&self) -> &Path {
        self.name.iter().next().map_or(&self.name, Path::new)
    }

    /// The mode that a directory or a log is to have, if it has another: git replaces logs.
    pub fn other_mode(&self, path: &Path) -> Option<u32> {
        let found = path.symlink_metadata().ok()?;
        let mode = match self.form {
            InsideForm::Dir { mode } if found.is_dir() => mode,
            InsideForm::File { mode, .. } if self.is_log() && found.is_file() => mode,
            _ => return None,
        };
        (found.permissions().mode() & 0o7777 != mode).then_some(mode)
    }

    fn is_log(&self) -> bool {
        matches!(self.kind(), InsideKind::Log | InsideKind::StashLog)
    }

    /// Reads the content of a file, as far as there is room.
    pub fn read_content(&mut self, dir: &Path, room: &mut u64) {
        let path = dir.join(&self.name);
        let (InsideForm::NotHeld(_), Ok(found)) = (&self.form, path.symlink_metadata()) else { return };
        if let Some(bytes) = read_file(&path, room).filter(|_| found.is_file()) {
            self.form = InsideForm::File { mode: found.permissions().mode() & 0o7777, bytes };
        }
    }

    /// What a reflog is to be that is there, and has lost lines.
    pub fn repaired_log(&self, path: &Path) -> Option<HeldInside> {
        let InsideForm::File { mode, bytes } = &self.form else { return None };
        let found = path.symlink_metadata().ok()?;
        if self.kind() != InsideKind::Log || found.is_dir() {
            return None;
        }
        let mut now = Vec::new();
        if found.is_file() {
            let limit = (bytes.len() as u64).max(MAX_FILE);
            fs::File::open(path).ok()?.take(limit).read_to_end(&mut now).ok()?;
        }
        let form = InsideForm::File { mode: *mode, bytes: merged_log(bytes, &now)? };
        Some(HeldInside { name: self.name.clone(), form })
    }

    /// Whether this says where a linked work tree of the git directory `dir` is, and that work tree is there: with another place git would
    /// take it for deleted, and prune it. One that a person moved meanwhile is not there.
    pub fn is_place_of_work_tree(&self, dir: &Path) -> bool {
        let InsideForm::File { bytes, .. } = &self.form else { return false };
        let parts: Vec<&OsStr> = self.name.iter().collect();
        let [first, _, last] = parts[..] else { return false };
        if first != WORK_TREES || last != PLACE_OF_WORK_TREE {
            return false;
        }
        let own = dir.join(self.name.parent().unwrap_or(&self.name));
        let place = own.join(OsStr::from_bytes(bytes.trim_ascii()));
        let Some(top) = place.parent().and_then(|top| top.canonicalize().ok()) else { return false };
        let found = GitDirs::find(&top).filter(|found| found.top == top);
        found.is_some_and(|found| own.canonicalize().is_ok_and(|own| own == found.git_dir))
    }

    /// Why something that is gone or changed cannot be restored, if it cannot.
    pub fn not_held(&self, path: &Path) -> Option<String> {
        match self.form {
            InsideForm::NotHeld(_) => Some("it is gone or changed, and was not held".to_owned()),
            InsideForm::Recorded(_) => {
                let what = if path.symlink_metadata().is_ok() { "was changed" } else { "is gone" };
                Some(format!("it {what}; the decree that held its content has ended"))
            }
            InsideForm::Dir { .. } | InsideForm::File { .. } | InsideForm::Link(_) => None,
        }
    }

    /// Whether a log that was not held is shorter than it was.
    pub fn is_cut_log(&self, path: &Path) -> bool {
        let InsideForm::NotHeld(before) = self.form else { return false };
        self.kind() == InsideKind::Log && path.symlink_metadata().is_ok_and(|now| now.len() < before.size)
    }

    /// Whether it is as it was. What is known only by name counts as that.
    pub fn is_same(&self, path: &Path) -> bool {
        let Ok(found) = path.symlink_metadata() else { return false };
        match &self.form {
            InsideForm::Dir { .. } => found.is_dir(),
            InsideForm::Recorded(None) => true,
            InsideForm::NotHeld(before) => FileTimes::of(&found) == *before,
            InsideForm::Recorded(Some((before, key))) => fingerprint_at(path, *key)
                .is_some_and(|now| before.mode == now.mode && before.has_same_content(&now)),
            InsideForm::Link(target) => fs::read_link(path).is_ok_and(|now| now == *target),
            InsideForm::File { mode, bytes } => {
                found.is_file()
                    && found.len() == bytes.len() as u64
                    && found.permissions().mode() & 0o7777 == *mode
                    && fs::read(path).is_ok_and(|now| now == *bytes)
            }
        }
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        match &self.form {
            InsideForm::Dir { mode } => {
                fs::create_dir_all(path).at("create", path)?;
                set_mode(path, *mode)
            }
            InsideForm::Link(target) => symlink(target, path).at("create", path),
            InsideForm::File { mode, bytes } => {
                let mut file = AtomicFile::create(path)?;
                file.set_mode(fs::Permissions::from_mode(*mode))?;
                std::io::Write::write_all(&mut file, bytes).at("write", path)?;
                file.commit()
            }
            InsideForm::NotHeld(_) | InsideForm::Recorded(_) => Ok(()),
        }
    }
}

/// What is known of a file without its content, if it can be read.
pub(super) fn fingerprint_at(path: &Path, key: RecordKey) -> Option<FileFingerprint> {
    let mut file = untrusted::open(path).ok()?;
    let (hash, _) = ContentHash::of_reader(&mut file, &mut vec![0; 1 << 16]).ok()?;
    Some(FileFingerprint::new(&file.metadata().ok()?, hash, &XattrValues::new(), key))
}

/// Lists everything in a git directory but objects and the repositories of submodules. The content of files is to be read.
pub(super) fn list_inside(dir: &Path, name: &Path, out: &mut Vec<HeldInside>) {
    for entry in fs::read_dir(dir.join(name)).into_iter().flatten().flatten() {
        let (name, path) = (name.join(entry.file_name()), entry.path());
        let Ok(found) = path.symlink_metadata() else { continue };
        let is_dir = found.is_dir();
        let form = if is_dir {
            InsideForm::Dir { mode: found.permissions().mode() & 0o7777 }
        } else if found.is_symlink() {
            fs::read_link(&path).map_or(InsideForm::NotHeld(FileTimes::of(&found)), InsideForm::Link)
        } else if found.is_file() {
            InsideForm::NotHeld(FileTimes::of(&found))
        } else {
            continue;
        };
        let is_apart = [OBJECTS, MODULES].iter().any(|apart| name == Path::new(apart));
        out.push(HeldInside { name: name.clone(), form });
        if is_dir && !is_apart {
            list_inside(dir, &name, out);
        }
    }
    let alternates = dir.join(ALTERNATES);
    if let (true, Ok(found)) = (name == Path::new(""), alternates.symlink_metadata()) {
        out.push(HeldInside { name: ALTERNATES.into(), form: InsideForm::NotHeld(FileTimes::of(&found)) });
    }
}

fn read_file(path: &Path, room: &mut u64) -> Option<Vec<u8>> {
    let limit = MAX_FILE.min(*room);
    let file = fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    if file.metadata().ok()?.len() > limit {
        return None;
    }
    file.take(limit + 1).read_to_end(&mut bytes).ok()?;
    let size = bytes.len() as u64;
    (size <= limit).then(|| {
        *room -= size;
        bytes
    })
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("set the mode of", path)
}
