//! Which of many files changed, without looking at each of them: the kernel reports it (inotify).
//!
//! No change by a program on this machine is overlooked. Files are watched by inode, so a write under another name counts. A write needs an
//! open file, and opening is reported, so a write through a mapping counts. Where reports may be incomplete, everything counts as changed: on
//! a file system that other machines or layers write to, beyond the limit on watches, after reports were dropped, after a watched
//! directory was moved or deleted, and after anything was mounted or unmounted, which is reported for no file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::local;

/// More are not watched: the kernel keeps every watched inode in memory, and its limit is for all programs of a user.
const MAX_WATCHES: usize = 60_000;

/// What may have changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    /// These paths, and nothing else.
    Paths(HashSet<PathBuf>),
    /// It is not known.
    All,
}

/// Reports what changes in directories and files. One that cannot watch reports that everything changed.
pub struct ChangeWatch {
    inotify: Option<OwnedFd>,
    /// The paths of each watched inode. A file may have several.
    paths: HashMap<i32, Vec<PathBuf>>,
    /// Directories that nothing above them reports on, by inode and device.
    tops: Vec<(PathBuf, (u64, u64))>,
    /// What was mounted when this began to watch.
    mounts: Vec<u8>,
    changed: Changed,
}

impl ChangeWatch {
    /// Watches nothing yet.
    pub fn start() -> ChangeWatch {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let changed = Changed::Paths(HashSet::new());
        let mounts = mounts();
        let mut watch = ChangeWatch { inotify, paths: HashMap::new(), tops: Vec::new(), mounts, changed };
        if watch.inotify.is_none() || watch.mounts.is_empty() {
            watch.give_up();
        }
        watch
    }

    /// One that reports that everything changed.
    pub fn blind() -> ChangeWatch {
        let (paths, tops, mounts) = (HashMap::new(), Vec::new(), Vec::new());
        ChangeWatch { inotify: None, paths, tops, mounts, changed: Changed::All }
    }

    /// Watches the entries of a directory whose parent is not watched.
    pub fn add_top(&mut self, dir: &Path) {
        let found = dir.symlink_metadata();
        let reports = local::is_local(dir);
        match found {
            Ok(found) if found.is_dir() && reports => {
                self.tops.push((dir.to_owned(), (found.dev(), found.ino())));
                self.add_dir(dir);
            }
            _ => self.give_up(),
        }
    }

    /// Watches which names a directory has. What is in it is to be listed after that.
    pub fn add_dir(&mut self, dir: &Path) {
        // On another file system, which may be one that other machines write to.
        let device = dir.symlink_metadata().map(|found| found.dev());
        if device.is_ok_and(|device| !self.tops.iter().any(|(_, (of_top, _))| *of_top == device)) {
            return self.give_up();
        }
        let names = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
        let itself = WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        self.add(dir, names | itself | WatchFlags::ONLYDIR);
    }

    /// Watches the content of a file. A change between reading it and this call is not reported: the caller compares its stamp afterwards.
    pub fn add_file(&mut self, path: &Path) {
        let written = WatchFlags::MODIFY | WatchFlags::OPEN | WatchFlags::ATTRIB;
        self.add(path, written | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF);
    }

    fn add(&mut self, path: &Path, flags: WatchFlags) {
        let Some(inotify) = &self.inotify else { return };
        if self.paths.len() >= MAX_WATCHES {
            return self.give_up();
        }
        match inotify::add_watch(inotify, path, flags | WatchFlags::DONT_FOLLOW) {
            Ok(number) => {
                let paths = self.paths.entry(number).or_default();
                if !paths.iter().any(|known| known == path) {
                    paths.push(path.to_owned());
                }
            }
            // It is gone already, which its directory reports.
            Err(Errno::NOENT | Errno::NOTDIR) => self.note(path.to_owned()),
            Err(_) => self.give_up(),
        }
    }

    fn give_up(&mut self) {
        self.inotify = None;
        self.paths.clear();
        self.changed = Changed::All;
    }

    /// Whether reports can be relied on.
    pub fn is_blind(&self) -> bool {
        self.inotify.is_none()
    }

    /// Counts a path as changed.
    pub fn note(&mut self, path: PathBuf) {
        if let Changed::Paths(paths) = &mut self.changed {
            paths.insert(path);
        }
    }

    /// What changed since [`ChangeWatch::take`] was last called.
    pub fn changed(&mut self) -> &Changed {
        self.read_reports();
        let is_same = |(dir, inode): &(PathBuf, (u64, u64))| {
            dir.symlink_metadata().is_ok_and(|found| (found.dev(), found.ino()) == *inode)
        };
        if !self.tops.iter().all(is_same) || !self.is_blind() && mounts() != self.mounts {
            self.changed = Changed::All;
        }
        &self.changed
    }

    /// The same; from here on only later changes count.
    pub fn take(&mut self) -> Changed {
        self.changed();
        let next = if self.is_blind() { Changed::All } else { Changed::Paths(HashSet::new()) };
        std::mem::replace(&mut self.changed, next)
    }

    fn read_reports(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = vec![MaybeUninit::uninit(); 1 << 16];
        let mut reader = Reader::new(inotify, &mut buffer);
        loop {
            let report = match reader.next() {
                Ok(report) => report,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(_) => return self.give_up(),
            };
            let (number, what) = (report.wd(), report.events());
            if what.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
                self.changed = Changed::All;
                continue;
            }
            if what.contains(ReadFlags::IGNORED) {
                self.paths.remove(&number);
                continue;
            }
            let Some(watched) = self.paths.get(&number) else { continue };
            let Changed::Paths(changed) = &mut self.changed else { continue };
            match report.file_name() {
                Some(name) => {
                    let name = OsStr::from_bytes(name.to_bytes());
                    changed.extend(watched.iter().map(|dir| dir.join(name)));
                }
                None => changed.extend(watched.iter().cloned()),
            }
        }
    }
}

/// What is mounted where; empty if that cannot be known.
fn mounts() -> Vec<u8> {
    std::fs::read("/proc/self/mountinfo").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(changed: Changed) -> Option<Vec<String>> {
        let Changed::Paths(paths) = changed else { return None };
        let mut names: Vec<String> =
            paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        Some(names)
    }

    fn watched() -> (tempfile::TempDir, PathBuf, ChangeWatch) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir(&top).unwrap();
        let mut watch = ChangeWatch::start();
        watch.add_top(&top);
        for name in ["a", "b"] {
            fs::write(top.join(name), "x").unwrap();
            watch.add_file(&top.join(name));
        }
        watch.take();
        (dir, top, watch)
    }

    #[test]
    fn only_what_changed_is_reported_and_once() {
        let (_dir, top, mut watch) = watched();
        if watch.is_blind() {
            return;
        }
        assert_eq!(names(watch.take()), Some(Vec::new()));
        fs::write(top.join("a"), "y").unwrap();
        fs::write(top.join("new"), "y").unwrap();
        fs::remove_file(top.join("b")).unwrap();
        assert!(matches!(watch.changed(), Changed::Paths(paths) if paths.len() == 3));
        assert_eq!(names(watch.take()), Some(["a", "b", "new"].map(String::from).to_vec()));
        assert_eq!(names(watch.take()), Some(Vec::new()));
    }

    #[test]
    fn a_write_under_another_name_is_reported() {
        let (dir, top, mut watch) = watched();
        if watch.is_blind() {
            return;
        }
        fs::hard_link(top.join("a"), dir.path().join("other")).unwrap();
        watch.take();
        // Opening is enough: what is written through a mapping is not reported.
        drop(fs::File::options().write(true).open(dir.path().join("other")).unwrap());
        assert_eq!(names(watch.take()), Some(vec!["a".to_owned()]));
    }

    #[test]
    fn all_counts_as_changed_if_the_directory_is_another_one() {
        let (dir, top, mut watch) = watched();
        fs::rename(&top, dir.path().join("moved")).unwrap();
        fs::create_dir(&top).unwrap();
        assert_eq!(watch.take(), Changed::All);
        assert_eq!(ChangeWatch::blind().take(), Changed::All);
    }

    #[test]
    fn all_counts_as_changed_if_something_is_mounted() {
        let (_dir, top, mut watch) = watched();
        let target = top.join("a");
        let run = |program: &str, args: &[&std::ffi::OsStr]| {
            let output = std::process::Command::new(program).args(args).output();
            output.is_ok_and(|output| output.status.success())
        };
        // Only root may.
        let is_mounted = run("mount", &["--bind".as_ref(), top.join("b").as_ref(), target.as_ref()]);
        let changed = watch.take();
        if is_mounted {
            assert!(run("umount", &[target.as_ref()]));
            assert_eq!(changed, Changed::All);
        }
    }

    #[test]
    fn all_counts_as_changed_if_reports_were_dropped() {
        let (_dir, top, mut watch) = watched();
        for n in 0..40_000 {
            fs::write(top.join((n % 50).to_string()), "y").unwrap();
        }
        let changed = watch.take();
        assert!(changed == Changed::All || names(changed).is_some_and(|names| names.len() >= 50));
    }
}
