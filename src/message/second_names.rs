//! `.decree/waiting/`: second names of the messages that wait, as hard links, and of the letters in `dead/` and `done/`. A routine that
//! deletes the inbox does not reach them, and they outlive a decree that is killed.
//!
//! They stay from run to run: each run only adds and removes what differs, however many messages wait. A message that is overwritten in
//! place has its new bytes under both names, and a file system without hard links has no second names.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::project::Layout;
use crate::sanitize::one_line;

/// Of how many letters in `done/` there are second names: the latest.
pub(super) const MAX_DONE: usize = 1000;

/// The second names of what is in one directory of the queue.
pub struct SecondNames {
    inbox: PathBuf,
    dir: PathBuf,
}

/// What became of a message that was gone.
#[derive(Debug, PartialEq, Eq)]
pub enum GoneMessage {
    Restored,
    /// A person deleted it when nothing of the run was left. It is here now.
    Cancelled(PathBuf),
    /// It had no second name.
    Lost,
}

impl SecondNames {
    pub fn of(layout: &Layout) -> SecondNames {
        SecondNames { inbox: layout.inbox(), dir: layout.waiting() }
    }

    pub(super) fn of_dead(layout: &Layout) -> SecondNames {
        SecondNames { inbox: layout.dead(), dir: layout.waiting_dead() }
    }

    pub(super) fn of_done(layout: &Layout) -> SecondNames {
        SecondNames { inbox: layout.done(), dir: layout.waiting_done() }
    }

    /// Gives these messages, and the letters in `dead/` and `done/`, a second name.
    pub fn update_all(layout: &Layout, waiting: &[OsString]) {
        SecondNames::of(layout).update(waiting);
        let (dead, done) = (SecondNames::of_dead(layout), SecondNames::of_done(layout));
        dead.update(&dead.latest(usize::MAX));
        done.update(&done.latest(MAX_DONE));
    }

    /// The letters that have second names after [`SecondNames::update_all`], relative to the inbox.
    pub fn letters(layout: &Layout) -> Vec<PathBuf> {
        let (dead, done) = (SecondNames::of_dead(layout), SecondNames::of_done(layout));
        let dead = dead.latest(usize::MAX).into_iter().map(|file| layout.dead().join(file));
        let done = done.latest(MAX_DONE).into_iter().map(|file| layout.done().join(file));
        let inbox = layout.inbox();
        dead.chain(done).filter_map(|path| Some(path.strip_prefix(&inbox).ok()?.to_owned())).collect()
    }

    /// The last files by name, which begins with the time.
    fn latest(&self, limit: usize) -> Vec<OsString> {
        let mut files: Vec<OsString> = inodes_in(&self.inbox).unwrap_or_default().into_keys().collect();
        files.sort();
        files.split_off(files.len().saturating_sub(limit))
    }

    /// A person moved a dead letter elsewhere: it is not gone.
    pub fn forget_dead(layout: &Layout, file: &OsStr) {
        let _ = fs::remove_file(layout.waiting_dead().join(file));
    }

    /// Restores the letters that are gone from `dead/` and `done/`, unless they were deleted after `end`. Returns for each, as
    /// `dead/a.md`, what became of it.
    pub fn restore_letters(
        layout: &Layout,
        end: Option<SystemTime>,
        set_aside: &Path,
    ) -> Result<Vec<(String, GoneMessage)>> {
        let mut letters = Vec::new();
        for names in [SecondNames::of_dead(layout), SecondNames::of_done(layout)] {
            let dir = names.inbox.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for file in names.gone()? {
                let shown = format!("{dir}/{}", one_line(&file.to_string_lossy()));
                letters.push((shown, names.restore(&file, end, set_aside)?));
            }
        }
        Ok(letters)
    }

    /// Gives these messages of the inbox a second name, and takes it from all others. Without one a message waits all the same, so a
    /// failure is none.
    pub fn update(&self, waiting: &[OsString]) {
        let (Ok(inodes), Ok(mut known)) = (inodes_in(&self.inbox), inodes_in(&self.dir)) else { return };
        for file in waiting {
            let known = known.remove(file);
            if known.is_some() && known == inodes.get(file).copied() {
                continue;
            }
            if known.is_some() {
                let _ = fs::remove_file(self.dir.join(file));
            }
            let _ = fs::hard_link(self.inbox.join(file), self.dir.join(file));
        }
        for file in known.keys() {
            let _ = fs::remove_file(self.dir.join(file));
        }
    }

    /// Gives one file a second name, or takes it away.
    pub(super) fn follow(&self, file: &OsStr, is_wanted: bool) {
        let inode =
            |path: &Path| path.symlink_metadata().ok().filter(fs::Metadata::is_file).map(|it| it.ino());
        let (first, second) = (self.inbox.join(file), self.dir.join(file));
        let (wanted, known) = (inode(&first).filter(|_| is_wanted), inode(&second));
        if wanted == known {
            return;
        }
        if known.is_some() {
            let _ = fs::remove_file(&second);
        }
        if wanted.is_some() {
            let _ = fs::hard_link(&first, &second);
        }
    }

    /// The files with a second name.
    pub(super) fn all(&self) -> Vec<OsString> {
        inodes_in(&self.dir).unwrap_or_default().into_keys().collect()
    }

    /// The files with a second name that have lost the first.
    fn gone(&self) -> Result<Vec<OsString>> {
        let known = inodes_in(&self.dir).if_exists().at("read", &self.dir)?.unwrap_or_default();
        let mut gone: Vec<OsString> = known.into_keys().collect();
        gone.retain(|file| self.inbox.join(file).symlink_metadata().is_err());
        gone.sort();
        Ok(gone)
    }

    /// Restores all messages that are gone from the inbox; returns their names for people.
    pub fn restore_gone(&self) -> Result<Vec<String>> {
        let gone = self.gone()?;
        for file in &gone {
            self.restore(file, None, &self.dir)?;
        }
        Ok(gone.iter().map(|file| one_line(&file.to_string_lossy())).collect())
    }

    /// Restores a message that is gone from the inbox, unless it was deleted after `end`: then a person did that, and it moves to
    /// `set_aside`.
    pub fn restore(&self, file: &OsStr, end: Option<SystemTime>, set_aside: &Path) -> Result<GoneMessage> {
        let (from, to) = (self.dir.join(file), self.inbox.join(file));
        let Some(found) = from.symlink_metadata().ok().filter(fs::Metadata::is_file) else {
            return Ok(GoneMessage::Lost);
        };
        // The kernel notes a change of a file when one of its names is deleted.
        let deleted = Duration::new(found.ctime().unsigned_abs(), found.ctime_nsec() as u32);
        if end.is_some_and(|end| UNIX_EPOCH + deleted > end) {
            let place = |number| numbered(&set_aside.join(file), ".", number);
            return Ok(GoneMessage::Cancelled(move_to_free_name(&from, place)?.unwrap_or(from)));
        }
        fs::create_dir_all(&self.inbox).at("create", &self.inbox)?;
        fs::hard_link(&from, &to).unless_exists().at("restore", &to)?;
        atomic::sync_dir(&self.inbox)?;
        Ok(GoneMessage::Restored)
    }
}

/// The files in a directory, each with its inode.
fn inodes_in(dir: &Path) -> io::Result<HashMap<OsString, u64>> {
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let entries = fs::read_dir(dir)?.filter(|entry| entry.as_ref().map_or(true, is_file));
    entries.map(|entry| entry.map(|entry| (entry.file_name(), entry.ino()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<OsString> = inodes_in(dir).unwrap().into_keys().collect();
        names.sort();
        names
    }

    #[test]
    fn second_names_follow_the_inbox_and_survive_its_deletion() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        let (second, inbox) = (SecondNames::of(&layout), layout.inbox());
        fs::create_dir_all(&inbox).unwrap();
        fs::create_dir_all(layout.waiting()).unwrap();
        let files = ["a.md", "b.md", "c.md"].map(OsString::from);
        for file in &files {
            atomic::write(&inbox.join(file), b"one").unwrap();
        }
        second.update(&files);
        assert_eq!(names(&layout.waiting()), files);
        // A new file under an old name, and a message that waits no more.
        atomic::write(&inbox.join("a.md"), b"two").unwrap();
        second.update(&files[..2]);
        assert_eq!(names(&layout.waiting()), files[..2]);
        fs::remove_dir_all(&inbox).unwrap();
        let set_aside = dir.path().join("set-aside");
        let restore = |file: &OsString, end| second.restore(file, end, &set_aside).unwrap();
        for _ in 0..2 {
            assert_eq!(restore(&files[0], None), GoneMessage::Restored);
        }
        assert_eq!(restore(&files[2], None), GoneMessage::Lost);
        assert_eq!(fs::read(inbox.join("a.md")).unwrap(), b"two");
        let place = set_aside.join("b.md");
        assert_eq!(restore(&files[1], Some(UNIX_EPOCH)), GoneMessage::Cancelled(place.clone()));
        assert_eq!(fs::read(place).unwrap(), b"one");
    }
}
