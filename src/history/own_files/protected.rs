//! decree's own files while a program runs that may do anything to them: a routine, or a guarded command.
//!
//! Small files are held in memory, others open: a deleted file can be read for as long as a process has it open. What is too much for
//! both is copied into a file without a name. A file that can be held in no way is an error, before the program starts. Edits to
//! settings and routines stay, as a routine may have been asked for them, and are reported. Edits to records and to the tracker do not
//! stay. Edits to messages in the queue stay if the program succeeds, and do not if it fails: then they are kept in `set-aside/`, as a
//! person may have made them.
//!
//! Earlier runs may be tens of thousands, and every message would pay for them. Only the records of the latest are held; which others are
//! gone is reported.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::area::{Area, AreaListing, is_out_of_reach};
use super::earlier_runs::{AbsentDirs, EarlierRuns};
use super::held::{HeldDirs, HeldFile, Hold, Protection};
use super::quarantine::Quarantine;
use super::repair_report::RepairReport;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{IoContext, Result};
use crate::fs::spool::Spool;
use crate::fs::{descriptors, untrusted};
use crate::project::Layout;

/// Larger files are held open.
const MAX_IN_MEMORY: u64 = 256 * 1024;
/// All that is held in memory together.
const MAX_BYTES: u64 = 32 << 20;
/// How many bytes of messages are copied; further ones are held open. Messages are small texts, except for what a routine made of them.
const MAX_COPIED: u64 = 256 << 20;
/// These files may take one in this many of those that decree may have open.
const OPEN_PARTS: usize = 4;

/// How many files of one earlier run may be held open, and its directory.
const MAX_OPEN_OF_RUN: usize = 8;

/// The run or checkpoint on behalf of which the program runs.
pub struct ProtectedDir<'p> {
    pub dir: &'p Path,
    /// Where what is found in the way is kept.
    pub set_aside: PathBuf,
    /// Files that decree cannot do without. They are held first, in memory if they are small.
    pub records: Vec<PathBuf>,
    /// Whether every byte of a file, in this directory or in the inbox, has to stay even if the program succeeds.
    pub is_record: &'p dyn Fn(&Path) -> bool,
    /// Paths that decree writes after the program has ended: what is there by then is the program's.
    pub reserved: Vec<PathBuf>,
    /// The same, except that a file there is decree's.
    pub reserved_unless_file: Vec<PathBuf>,
    /// Directories that decree may create later: a new link must not be there by then.
    pub later_dirs: Vec<PathBuf>,
    /// The names of the files that reverting an earlier run, or applying it again, needs.
    pub run_records: &'p [&'p str],
}

/// decree's own files as they were when the program started.
pub struct OwnFiles {
    dirs: HeldDirs,
    files: Vec<HeldFile>,
    reserved: Vec<PathBuf>,
    reserved_unless_file: Vec<PathBuf>,
    earlier_runs: EarlierRuns,
    absent: AbsentDirs,
    set_aside: PathBuf,
    tracker: HeldTracker,
    /// Where finished messages are, of which there may be very many.
    finished: PathBuf,
    paths: HashSet<PathBuf>,
    /// How many more may be held open.
    open_left: usize,
    bytes: u64,
    copied: u64,
    spool: Spool,
}

impl OwnFiles {
    /// Holds the records of a run or checkpoint, settings, queue, tracker and checkpoints.
    pub fn hold(layout: &Layout, protected: ProtectedDir<'_>) -> Result<Self> {
        let mut own = OwnFiles {
            dirs: HeldDirs::new(layout.root(), &layout.decree()),
            files: Vec::new(),
            reserved: protected.reserved,
            reserved_unless_file: protected.reserved_unless_file,
            earlier_runs: EarlierRuns::list(layout, protected.dir),
            absent: AbsentDirs::list(layout, protected.later_dirs),
            set_aside: protected.set_aside,
            tracker: HeldTracker::hold(layout)?,
            finished: layout.done(),
            paths: HashSet::new(),
            open_left: descriptors::raise_limit() / OPEN_PARTS,
            bytes: 0,
            copied: 0,
            spool: Spool::new(layout.scratch()),
        };
        let waiting = [layout.waiting(), layout.waiting_dead(), layout.waiting_done()];
        let dirs = [layout.runs(), layout.checkpoints(), layout.store(), layout.scratch()];
        for dir in dirs.into_iter().chain(waiting) {
            own.dirs.hold(&dir);
        }
        for record in protected.records {
            own.hold_file(record, Protection::Record)?;
        }
        own.hold_file(layout.lock(), Protection::Presence)?;
        for area in Area::SETTINGS {
            let path = area.path(layout);
            if area.is_single_file() {
                own.hold_file(path, Protection::Settings)?;
            } else {
                own.hold_below(&path, &|_| Protection::Settings)?;
            }
        }
        let record_or = |other: Protection| {
            move |path: &Path| if (protected.is_record)(path) { Protection::Record } else { other }
        };
        own.hold_below(&layout.inbox(), &record_or(Protection::Queue))?;
        own.hold_below(protected.dir, &record_or(Protection::Presence))?;
        own.hold_below(&layout.checkpoints(), &|_| Protection::Record)?;
        while own.has_room()
            && let Some(run) = own.earlier_runs.next_to_hold()
        {
            own.dirs.hold(&run);
            for name in protected.run_records {
                own.hold_file(run.join(name), Protection::Record)?;
            }
        }
        Ok(own)
    }

    /// Whether the records of one more earlier run can be held without being copied.
    fn has_room(&self) -> bool {
        self.open_left > MAX_OPEN_OF_RUN || self.bytes < MAX_BYTES / 2
    }

    fn hold_below(&mut self, dir: &Path, protection: &dyn Fn(&Path) -> Protection) -> Result<()> {
        let listing = AreaListing::below(dir.to_owned(), Some(CheckpointDir::PREVIOUS))?;
        listing.dirs.iter().for_each(|dir| self.dirs.hold(dir));
        listing.files.into_iter().try_for_each(|path| {
            let protection = protection(&path);
            self.hold_file(path, protection)
        })
    }

    fn hold_file(&mut self, path: PathBuf, protection: Protection) -> Result<()> {
        if !self.paths.insert(path.clone()) {
            return Ok(());
        }
        let file = match untrusted::open(&path) {
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            result => result.at("read", &path)?,
        };
        let length = file.metadata().at("read", &path)?.len();
        // An open file that is overwritten in place has no other copy.
        let is_copied = protection == Protection::Queue
            && path.parent() != Some(&self.finished)
            && length <= MAX_COPIED - self.copied;
        let hold = if length <= MAX_IN_MEMORY && self.bytes + length <= MAX_BYTES {
            self.bytes += length;
            Hold::InMemory
        } else if is_copied {
            self.copied += length;
            Hold::Spool(&mut self.spool)
        } else if self.open_left > 0 {
            self.open_left -= 1;
            Hold::Open
        } else {
            Hold::Spool(&mut self.spool)
        };
        let held = HeldFile::new(path, file, hold, protection).map_err(|error| {
            error
                .detail("one of decree's own files cannot be held, so it could not be restored if it were deleted")
                .detail("nothing was started")
        })?;
        self.files.push(held);
        Ok(())
    }

    /// Restores what is gone and moves away what is in the way. Edited settings stay.
    pub fn repair(&mut self) -> Result<RepairReport> {
        let mut report = self.repair_except_tracker()?;
        let mut quarantine = Quarantine::default();
        report.tracker = self.tracker.repair(&mut quarantine)?;
        report.set_aside += quarantine.finish(&self.set_aside)?;
        Ok(report)
    }

    /// The same after a program that has failed: edited settings and messages are restored as well.
    pub fn repair_with_settings(&mut self) -> Result<RepairReport> {
        let kinds = [Protection::Settings, Protection::Queue];
        let files = self.files.iter_mut().filter(|held| kinds.contains(&held.protection));
        files.for_each(|held| held.protection = Protection::Record);
        self.repair()
    }

    /// Restores every byte of the messages that were in the queue, after a program that has failed and was repaired already.
    pub fn repair_queue(&mut self) -> Result<RepairReport> {
        let (mut report, mut quarantine) = (RepairReport::default(), Quarantine::default());
        report.project = self.dirs.repair(&mut quarantine)?;
        for held in self.files.iter_mut().filter(|held| held.protection == Protection::Queue) {
            held.protection = Protection::Record;
            let damage = held.repair(&mut quarantine);
            held.protection = Protection::Queue;
            report.add(held, damage?);
        }
        report.set_aside = quarantine.finish(&self.set_aside)?;
        Ok(report)
    }

    /// The messages in the queue that a program edited, which stay so if it succeeded.
    pub fn edited_queue(&self) -> RepairReport {
        let is_edited = |held: &&HeldFile| held.protection == Protection::Queue && held.has_other_bytes();
        let edited = self.files.iter().filter(is_edited).map(|held| held.path.clone()).collect();
        RepairReport { edited, ..RepairReport::default() }
    }

    /// Like [`OwnFiles::repair`], but leaves the tracker to the program.
    pub fn repair_except_tracker(&mut self) -> Result<RepairReport> {
        let mut report = RepairReport::default();
        let mut quarantine = Quarantine::default();
        report.project = self.dirs.repair(&mut quarantine)?;
        // After a renamed `.decree/` is back, and before the records are.
        (report.lost_runs, report.stripped_runs) = self.earlier_runs.take_gone();
        for held in &mut self.files {
            let damage = held.repair(&mut quarantine)?;
            report.add(held, damage);
        }
        self.absent.links()?.iter().try_for_each(|link| quarantine.take(link))?;
        let is_held = |path: &Path| self.files.iter().any(|held| held.path == path);
        for path in self.reserved.iter().filter(|path| !is_held(path)) {
            quarantine.take(path)?;
        }
        for path in &self.reserved_unless_file {
            if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                quarantine.take(path)?;
            }
        }
        if self.set_aside.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            quarantine.take(&self.set_aside)?;
        }
        report.set_aside = quarantine.finish(&self.set_aside)?;
        Ok(report)
    }
}

/// The tracker, and the directory it is in.
struct HeldTracker {
    path: PathBuf,
    /// `None` if there was no file.
    file: Option<HeldFile>,
    /// Whether something else was there, which stays.
    is_other: bool,
    specs: PathBuf,
    /// Where `specs` leads, if the user made it a link.
    specs_link: Option<PathBuf>,
}

impl HeldTracker {
    fn hold(layout: &Layout) -> Result<HeldTracker> {
        let (path, specs) = (layout.tracker(), layout.specs());
        let (mut file, mut is_other) = (None, false);
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => {
                let open = untrusted::open(&path).at("read", &path)?;
                file = Some(HeldFile::new(path.clone(), open, Hold::InMemory, Protection::Tracker)?);
            }
            Ok(_) => is_other = true,
            Err(error) if is_out_of_reach(&error) => {}
            Err(error) => return Err(error).at("read", &path),
        }
        Ok(HeldTracker { path, file, is_other, specs_link: fs::read_link(&specs).ok(), specs })
    }

    /// Restores it; returns whether it had been changed.
    fn repair(&mut self, quarantine: &mut Quarantine) -> Result<bool> {
        // A new link in the place of `specs` would lead the tracker elsewhere once the tree is reverted.
        let is_as_it_was = |found: &fs::Metadata| {
            found.is_dir() || (found.is_symlink() && fs::read_link(&self.specs).ok() == self.specs_link)
        };
        let is_led_away = self.specs.symlink_metadata().is_ok_and(|found| !is_as_it_was(&found));
        if is_led_away {
            quarantine.take(&self.specs)?;
        }
        if let Some(file) = &mut self.file {
            return Ok(file.repair(quarantine)?.is_some());
        }
        let stays = |found: fs::Metadata| self.is_other && !found.is_file();
        if self.path.symlink_metadata().ok().is_none_or(stays) {
            return Ok(is_led_away);
        }
        quarantine.take(&self.path).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout_with_run() -> (tempfile::TempDir, Layout, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        let run = layout.runs().join("2025022514320000-0");
        fs::create_dir_all(&run).unwrap();
        let manifest = run.join("manifest.json");
        (dir, layout, run, manifest)
    }

    fn hold(layout: &Layout, run: &Path) -> OwnFiles {
        let protected = ProtectedDir {
            dir: run,
            set_aside: run.join("set-aside"),
            records: vec![run.join("manifest.json")],
            is_record: &|_| false,
            reserved: Vec::new(),
            reserved_unless_file: Vec::new(),
            later_dirs: Vec::new(),
            run_records: &["result.json"],
        };
        OwnFiles::hold(layout, protected).unwrap()
    }

    #[test]
    fn what_a_routine_removes_of_decrees_own_comes_back() {
        let (_dir, layout, run, manifest) = layout_with_run();
        fs::create_dir_all(layout.routines()).unwrap();
        fs::create_dir_all(layout.specs()).unwrap();
        let large = vec![7; MAX_IN_MEMORY as usize + 1];
        fs::write(layout.config(), "max_retries: 1\n").unwrap();
        fs::write(layout.routines().join("develop.sh"), "true\n").unwrap();
        fs::write(&manifest, &large).unwrap();
        fs::write(layout.tracker(), "01.spec.md\n").unwrap();
        let mut own = hold(&layout, &run);
        fs::remove_dir_all(layout.decree()).unwrap();
        fs::write(layout.tracker(), "01.spec.md\n02.spec.md\n").unwrap();
        let report = own.repair().unwrap();
        assert_eq!(report.restored.len(), 3, "{report:?}");
        assert!(report.tracker);
        assert_eq!(fs::read(&manifest).unwrap(), large);
        assert_eq!(fs::read_to_string(layout.tracker()).unwrap(), "01.spec.md\n");
        fs::write(layout.routines().join("develop.sh"), "false\n").unwrap();
        let report = own.repair().unwrap();
        assert_eq!(report.edited, [layout.routines().join("develop.sh")]);
        assert!(report.restored.is_empty() && !report.tracker);
    }

    #[test]
    fn a_large_record_that_was_overwritten_is_named() {
        let (_dir, layout, run, manifest) = layout_with_run();
        fs::write(&manifest, vec![7; MAX_IN_MEMORY as usize + 1]).unwrap();
        let mut own = hold(&layout, &run);
        fs::write(&manifest, "x").unwrap();
        assert_eq!(own.repair().unwrap().spoiled, [manifest]);
    }
}
