//! Files in the tree that decree's own output is redirected to. No checkpoint holds them, because they grow with every line; each has a
//! second name while something runs, so that the log is not lost if the file is deleted, and goes on in the same file once it is back.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, linkat};

use super::former_output::FormerOutput;
use super::held_file::move_aside;
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;
use crate::error::{IoContext, Result};
use crate::fs::is_at;
use crate::fs::quarantine::take_free_name;
use crate::project::shown_in_project;

/// What the kernel adds to the name of an open file that was deleted.
const DELETED: &[u8] = b" (deleted)";

pub(super) struct HeldOutputs {
    /// Where the second names are.
    dir: PathBuf,
    files: Vec<HeldOutput>,
}

struct HeldOutput {
    path: TreePath,
    file: File,
    /// Its second name; `None` if there is none, as on another file system.
    link: Option<PathBuf>,
    /// What it had before.
    former: Option<FormerOutput>,
    /// Whether that is set aside already. What was written since is the log of this run.
    is_former_aside: bool,
}

/// What became of outputs in a run or command that failed.
#[derive(Default)]
pub(super) struct OutputsReport {
    /// The paths of those that are back, or have their modes again.
    pub restored: Vec<String>,
    /// A sentence for each whose earlier content is elsewhere.
    pub notes: Vec<String>,
    /// Paths and reasons.
    pub lost: Vec<(String, String)>,
}

impl HeldOutputs {
    /// Gives each output in the tree a second name in `dir`.
    pub fn hold(root: &Root, dir: PathBuf) -> HeldOutputs {
        remove_spare_names(&dir);
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let mut files: Vec<HeldOutput> = Vec::new();
        for output in [stdout.as_fd(), stderr.as_fd()] {
            let Some((path, file)) = file_in_tree(root, output) else { continue };
            if files.iter().all(|known| known.path != path) {
                let link = link_in(&dir, &file).ok();
                let former = file.metadata().ok().map(|found| {
                    let mode = FileMode::from_bits(found.mode());
                    FormerOutput::read(found.len(), mode, || File::open(in_proc(file.as_fd())))
                });
                files.push(HeldOutput { path, file, link, former, is_former_aside: false });
            }
        }
        HeldOutputs { dir, files }
    }

    pub fn nothing() -> HeldOutputs {
        HeldOutputs { dir: PathBuf::new(), files: Vec::new() }
    }

    /// Moves outputs that were renamed or deleted back to their places; what is there moves to `set_aside`. So does what an output had
    /// before and does not have any more; the file itself goes on, because decree writes to it.
    pub fn restore(&mut self, root: &Root, set_aside: &Path) -> OutputsReport {
        let mut report = OutputsReport::default();
        for output in &mut self.files {
            let path = output.path.to_string();
            if !is_at(&output.file, &output.path.below(root.path())) {
                if output.restore(root, set_aside, &self.dir).is_some() {
                    report.restored.push(path.clone());
                } else {
                    let why = "decree's own output: it was deleted, and what it had so far is lost";
                    report.lost.push((path.clone(), why.to_owned()));
                }
            }
            match output.set_mode_back(root) {
                Ok(false) => {}
                Ok(true) => report.restored.push(path.clone()),
                Err(error) => {
                    let why =
                        format!("decree's own output: its mode was changed, and cannot be restored: {error}");
                    report.lost.push((path.clone(), why));
                }
            }
            match output.set_former_aside(set_aside) {
                None => {}
                Some(Ok(place)) => report.notes.push(overwritten(&path, &place)),
                Some(Err(why)) => {
                    let why = format!("decree's own output: it was overwritten; what it had before {why}");
                    report.lost.push((path, why));
                }
            }
        }
        report
    }

    /// The same after a run that is kept, of outputs that have no name any more: a new one may have been meant by a renaming, and what
    /// is in the place of an output is the run's work. What was overwritten is kept beside the second names. Returns a sentence for each.
    pub fn restore_for_kept(&mut self, root: &Root) -> Vec<String> {
        let dir = self.dir.clone();
        let former = |output: &mut HeldOutput| {
            let path = output.path.to_string();
            Some(match output.set_former_aside(&dir)? {
                Ok(place) => overwritten(&path, &place),
                Err(why) => {
                    format!("{path} is decree's own output; it was overwritten, and what it had before {why}")
                }
            })
        };
        let mut sentences: Vec<String> = self.files.iter_mut().filter_map(former).collect();
        let deleted = self.files.iter_mut().filter(|output| output.place_now().is_none());
        let sentence = |output: &mut HeldOutput| {
            let path = output.path.clone();
            let Some(link) = output.link.clone() else {
                return format!(
                    "{path} is decree's own output; it was deleted, and what it had so far is lost"
                );
            };
            if matches!(root.find(&path), Ok(None)) && output.move_in(root, &link, &dir).is_ok() {
                return format!("{path} is decree's own output; it was deleted, and is back");
            }
            format!(
                "{path} is decree's own output; it was deleted or replaced, and is now {}",
                link.display()
            )
        };
        sentences.extend(deleted.map(sentence));
        sentences
    }

    /// Removes the second names, unless one is the only name.
    pub fn release(&mut self) {
        for output in self.files.drain(..) {
            if let Some(link) = output.link
                && output.file.metadata().is_ok_and(|found| found.nlink() > 1)
            {
                let _ = fs::remove_file(link);
            }
        }
        let _ = fs::remove_dir(&self.dir);
    }
}

impl HeldOutput {
    /// The name by which it was opened, if it still has one.
    fn place_now(&self) -> Option<PathBuf> {
        let now = name_of(self.file.as_fd())?;
        is_at(&self.file, &now).then_some(now)
    }

    fn restore(&mut self, root: &Root, set_aside: &Path, dir: &Path) -> Option<()> {
        let from = self.place_now().or_else(|| self.link.clone())?;
        if matches!(root.find(&self.path), Ok(Some(_))) {
            move_aside(root, &self.path, &self.path, set_aside).ok()?;
        }
        self.move_in(root, &from, dir).ok()
    }

    /// Gives it the mode that it had; returns whether it had another one.
    fn set_mode_back(&self, root: &Root) -> io::Result<bool> {
        let Some(former) = &self.former else { return Ok(false) };
        if FileMode::from_bits(self.file.metadata()?.mode()) == former.mode
            || !is_at(&self.file, &self.path.below(root.path()))
        {
            return Ok(false);
        }
        root.set_mode(&self.path, former.mode).map(|()| true)
    }

    /// If it was overwritten, writes what it had to `set_aside`. Returns the place, or what became of that instead.
    fn set_former_aside(&mut self, set_aside: &Path) -> Option<std::result::Result<PathBuf, String>> {
        let former = self.former.as_ref().filter(|_| !self.is_former_aside)?;
        let size = self.file.metadata().map_or(0, |found| found.len());
        if !former.was_overwritten(size, || File::open(in_proc(self.file.as_fd()))) {
            return None;
        }
        match former.set_aside(&self.path, set_aside) {
            Some(Ok(place)) => {
                self.is_former_aside = true;
                Some(Ok(place))
            }
            Some(Err(error)) => Some(Err(format!("cannot be set aside: {error}"))),
            None => Some(Err(format!("{}, and is lost", former.why_lost()))),
        }
    }

    fn move_in(&mut self, root: &Root, from: &Path, dir: &Path) -> io::Result<()> {
        self.path.ancestors().try_for_each(|above| root.make_dir(&above))?;
        root.move_in(from, &self.path)?;
        // The next attempt may delete it again.
        if self.link.as_ref().is_none_or(|link| link == from) {
            self.link = link_in(dir, &self.file).ok();
        }
        // From now on the kernel knows this name as the one of the open file.
        self.file = root.hold(&self.path)?;
        Ok(())
    }
}

fn overwritten(path: &str, place: &Path) -> String {
    let place = shown_in_project(place);
    format!(
        "{path} is decree's own output; it was overwritten, and what it had before is now {}",
        place.display()
    )
}

/// Removes second names that a killed decree left. One that is the only name of its file stays.
fn remove_spare_names(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.metadata().is_ok_and(|found| found.nlink() > 1) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A regular file of the tree that is open for output, and its path.
fn file_in_tree(root: &Root, output: BorrowedFd<'_>) -> Option<(TreePath, File)> {
    let file = File::from(output.try_clone_to_owned().ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let name = name_of(output)?.into_os_string().into_vec();
    // One that was deleted in an earlier run, and is back.
    let before = name.strip_suffix(DELETED).unwrap_or_default();
    let root_now = root.path().canonicalize().ok()?;
    [&name[..], before].into_iter().find_map(|name| {
        let inside = Path::new(OsStr::from_bytes(name)).strip_prefix(&root_now).ok()?;
        let path = TreePath::new(inside.as_os_str().as_bytes()).ok()?;
        is_at(&file, &path.below(root.path())).then(|| Some((path, file.try_clone().ok()?)))?
    })
}

fn name_of(file: BorrowedFd<'_>) -> Option<PathBuf> {
    fs::read_link(in_proc(file)).ok()
}

fn in_proc(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives an open file a second name, which is a number that is free.
fn link_in(dir: &Path, file: &File) -> Result<PathBuf> {
    fs::create_dir_all(dir).at("create", dir)?;
    let open = in_proc(file.as_fd());
    let link = |path: &Path| linkat(CWD, &open, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from);
    take_free_name(|number| dir.join(number.to_string()), |path| link(path).unless_exists().at("link", path))
}
