//! The list of decree's own files, and how one of them is read and written.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::checkpoint::entry::FileMode;
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, AtomicFile};
use crate::fs::untrusted;
use crate::project::Layout;

/// For how many bytes of a file there is room from the start.
const MAX_RESERVED: u64 = 1 << 20;

/// A part of decree's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    Inbox,
    Done,
    Dead,
    Tracker,
    Config,
    Gitignore,
    Routines,
    Cron,
}

/// How the files of an area are laid out on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    SingleFile,
    /// The files directly in a directory.
    FlatDir,
    /// All files below a directory.
    Tree,
}

/// The name of an area, where it is, and its shape.
type AreaRow = (&'static str, fn(&Layout) -> PathBuf, Shape);

/// The files of an area, found and not yet read.
#[derive(Debug, Default)]
pub struct AreaListing {
    pub files: Vec<PathBuf>,
    /// The directories that were searched, parents first.
    pub dirs: Vec<PathBuf>,
    /// Links, directories and special files, which are never read: a link may lead out of the project.
    pub excluded: Vec<PathBuf>,
}

impl Area {
    /// What a state snapshot can hold.
    pub const STATE: [Area; 5] = [Area::Inbox, Area::Done, Area::Dead, Area::Tracker, Area::Config];
    /// What decides how decree works. A routine may be asked to edit these.
    pub const SETTINGS: [Area; 4] = [Area::Config, Area::Gitignore, Area::Routines, Area::Cron];

    fn row(self) -> AreaRow {
        match self {
            Area::Inbox => ("inbox", Layout::inbox, Shape::FlatDir),
            Area::Done => ("done", Layout::done, Shape::FlatDir),
            Area::Dead => ("dead", Layout::dead, Shape::FlatDir),
            Area::Tracker => ("tracker", Layout::tracker, Shape::SingleFile),
            Area::Config => ("config", Layout::config, Shape::SingleFile),
            Area::Gitignore => ("gitignore", Layout::gitignore, Shape::SingleFile),
            Area::Routines => ("routines", Layout::routines, Shape::Tree),
            Area::Cron => ("cron", Layout::cron, Shape::Tree),
        }
    }

    /// The name that `--scope` and `checkpoint.json` use.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The file, or the directory of the files.
    pub fn path(self, layout: &Layout) -> PathBuf {
        self.row().1(layout)
    }

    pub(super) fn is_single_file(self) -> bool {
        self.row().2 == Shape::SingleFile
    }

    /// The part of a state snapshot that a path, relative to the project, belongs to. A path that leads elsewhere belongs to none.
    pub fn of(path: &[u8], layout: &Layout) -> Option<Area> {
        let path = layout.root().join(Path::new(OsStr::from_bytes(path)));
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        let holds = |area: &&Area| {
            if area.is_single_file() {
                path == area.path(layout)
            } else {
                path.parent() == Some(&area.path(layout)) && path.file_name().is_some()
            }
        };
        Area::STATE.iter().filter(|_| is_plain).find(holds).copied()
    }

    /// Finds the files of the area that are there now.
    pub fn files(self, layout: &Layout) -> Result<AreaListing> {
        let (path, mut listing) = (self.path(layout), AreaListing::default());
        match self.row().2 {
            Shape::SingleFile => listing.add(path)?,
            Shape::FlatDir => {
                // A link above the files may lead out of the project.
                let link = [layout.inbox(), path.clone()].into_iter().find(|dir| dir.is_symlink());
                if let Some(link) = link {
                    listing.excluded.push(link);
                    return Ok(listing);
                }
                let other_areas = [layout.done(), layout.dead()];
                for name in untrusted::names_in(&path).at("read", &path)? {
                    let file = path.join(&name);
                    if !atomic::is_unfinished(&name) && !other_areas.contains(&file) {
                        listing.add(file)?;
                    }
                }
            }
            Shape::Tree => return AreaListing::below(path, None),
        }
        Ok(listing)
    }
}

impl AreaListing {
    /// Finds all files below a directory, except in directories that are named `skipped`.
    pub(super) fn below(dir: PathBuf, skipped: Option<&str>) -> Result<AreaListing> {
        let (mut listing, mut todo) = (AreaListing::default(), vec![dir]);
        while let Some(dir) = todo.pop() {
            let entries = match fs::read_dir(&dir) {
                // It hides its files; the others count all the same.
                Err(error) if is_out_of_reach(&error) => continue,
                entries => entries.at("read", &dir)?,
            };
            for entry in entries {
                let entry = entry.at("read", &dir)?;
                match entry.file_type().at("read", entry.path())? {
                    kind if kind.is_file() => listing.files.push(entry.path()),
                    kind if !kind.is_dir() => listing.excluded.push(entry.path()),
                    _ if skipped.is_some_and(|name| entry.file_name() == name) => {}
                    _ => todo.push(entry.path()),
                }
            }
            listing.dirs.push(dir);
        }
        Ok(listing)
    }

    fn add(&mut self, path: PathBuf) -> Result<()> {
        match path.symlink_metadata() {
            Err(error) if is_missing(&error) => {}
            Ok(found) if found.is_file() => self.files.push(path),
            Ok(_) => self.excluded.push(path),
            Err(error) => return Err(error).at("read", &path),
        }
        Ok(())
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Missing, or not readable for decree. Either way decree cannot hold it.
pub(super) fn is_out_of_reach(error: &io::Error) -> bool {
    is_missing(error) || error.kind() == io::ErrorKind::PermissionDenied
}

/// A regular file that was read whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "FileText", try_from = "FileText")]
pub struct OwnFile {
    pub mode: FileMode,
    pub bytes: Vec<u8>,
}

/// A file in JSON: as text where it is UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl From<OwnFile> for FileText {
    fn from(file: OwnFile) -> FileText {
        let mode = file.mode.to_string();
        match String::from_utf8(file.bytes) {
            Ok(text) => FileText { mode, text: Some(text), base64: None },
            Err(other) => FileText { mode, text: None, base64: Some(STANDARD.encode(other.as_bytes())) },
        }
    }
}

impl TryFrom<FileText> for OwnFile {
    type Error = &'static str;

    fn try_from(file: FileText) -> std::result::Result<OwnFile, &'static str> {
        let bytes = match (file.text, file.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(coded)) => STANDARD.decode(coded).map_err(|_| "a file that is not base64")?,
            _ => return Err("a file without content"),
        };
        Ok(OwnFile { mode: FileMode::parse(&file.mode).ok_or("a file without a mode")?, bytes })
    }
}

impl OwnFile {
    /// Reads a regular file; `None` for anything else, and if there is nothing at the path.
    pub fn read(path: &Path) -> io::Result<Option<OwnFile>> {
        let read = || -> io::Result<Option<OwnFile>> {
            if path.symlink_metadata()?.is_file() {
                let (file, metadata) = untrusted::open_with_metadata(path)?;
                return OwnFile::read_open(file, &metadata).map(Some);
            }
            Ok(None)
        };
        read().or_else(|error| if is_missing(&error) { Ok(None) } else { Err(error) })
    }

    pub(super) fn read_open(file: File, metadata: &fs::Metadata) -> io::Result<OwnFile> {
        let mode = FileMode::from_bits(metadata.mode());
        // Room for all of it and for the end, so that two calls suffice; there may be thousands of small files.
        let room = metadata.len().min(MAX_RESERVED) as usize + 64;
        let mut bytes = Vec::with_capacity(room);
        file.take(u64::MAX).read_to_end(&mut bytes)?;
        Ok(OwnFile { mode, bytes })
    }

    /// Whether the file at `path` is this one, as far as it can be read.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        OwnFile::read(path).is_ok_and(|found| found.as_ref() == Some(self))
    }

    /// Replaces what is at a path in one step.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.stage(path)?.commit()
    }

    /// Writes it to a temporary file with its mode, which the caller commits.
    pub(super) fn stage(&self, path: &Path) -> Result<AtomicFile> {
        stage(path, &mut &self.bytes[..], self.mode)
    }
}

/// Writes a temporary file beside `path`, below directories that are created where they are missing.
pub(super) fn stage(path: &Path, content: &mut dyn Read, mode: FileMode) -> Result<AtomicFile> {
    let parent = path.parent().expect("decree's own files are in directories");
    fs::create_dir_all(parent).at("create", parent)?;
    let mut staged = AtomicFile::create(path)?;
    io::copy(content, &mut staged).at("write", path)?;
    staged.set_mode(fs::Permissions::from_mode(mode.bits()))?;
    Ok(staged)
}

/// A path below the project as a JSON key.
pub fn key_of<'p>(layout: &Layout, path: &'p Path) -> Cow<'p, str> {
    quote::in_json(path.strip_prefix(layout.root()).unwrap_or(path).as_os_str().as_bytes())
}

/// The path behind a key. A key that names anything but a file of a state snapshot is an error: the file that has the key may have
/// been edited.
pub fn path_of_key(layout: &Layout, key: &str) -> Result<PathBuf> {
    let path = quote::from_json(key).filter(|path| Area::of(path, layout).is_some());
    let path = path.ok_or_else(|| {
        Error::integrity(format!("'{}' is not the path of one of decree's own files", key.escape_debug()))
    })?;
    Ok(layout.root().join(OsStr::from_bytes(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_area_or_none() {
        let layout = Layout::new("/project".into());
        let area = |path: &str| Area::of(path.as_bytes(), &layout);
        assert_eq!(area(".decree/inbox/a.md"), Some(Area::Inbox));
        assert_eq!(area(".decree/inbox/done/a.md"), Some(Area::Done));
        assert_eq!(area(".decree/inbox/dead/a.md"), Some(Area::Dead));
        assert_eq!(area(".decree/config.yml"), Some(Area::Config));
        assert_eq!(area("specs/processed-spec.md"), Some(Area::Tracker));
        for other in [
            "",
            ".decree/inbox",
            ".decree/inbox/../lock",
            ".decree/lock",
            "src/a",
            "/etc/passwd",
            ".decree/inbox/x/y",
        ] {
            assert_eq!(area(other), None, "{other}");
        }
    }
}
