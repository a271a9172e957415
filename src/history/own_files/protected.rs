//! decree's own files while a program runs that may do anything to them: a routine, or a guarded command.
//!
//! Small files are held in memory, others open: a deleted file can be read for as long as a process has it open. What is too much for
//! both is copied into a file without a name. A file that can be held in no way is an error, before the program starts. Edits to
//! settings and routines stay, as a routine may have been asked for them, and are reported. Edits to records and to the tracker do not
//! stay. Edits to messages in the queue stay if the program succeeds, and do not if it fails: then they are kept in `set-aside/`, as a
//! person may have made them.
//!
//! Earlier runs may be tens of thousands, and every message would pay for them. Only the records of the latest are held; which others are
//! gone is reported. They, the queue and the checkpoints stay held from one program to the next ([`LastingFiles`]).

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::area::{Area, AreaListing, is_out_of_reach};
use super::earlier_runs::AbsentDirs;
use super::held::{HeldDirs, HeldFile, Hold, Protection};
use super::lasting::LastingFiles;
use super::quarantine::Quarantine;
use super::repair_report::RepairReport;
use super::room::HoldingRoom;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{IoContext, Result};
use crate::fs::untrusted;
use crate::project::Layout;

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
}

/// decree's own files as they were when the program started.
pub struct OwnFiles {
    dirs: HeldDirs,
    files: Vec<HeldFile>,
    reserved: Vec<PathBuf>,
    reserved_unless_file: Vec<PathBuf>,
    lasting: LastingFiles,
    absent: AbsentDirs,
    set_aside: PathBuf,
    tracker: HeldTracker,
    paths: HashSet<PathBuf>,
    room: HoldingRoom,
    /// Whether edits to the queue do not stay.
    has_failed: bool,
}

impl OwnFiles {
    /// Holds the records of a run or checkpoint, settings, queue, tracker and checkpoints. `lasting` is what an earlier program was
    /// protected from, or new.
    pub fn hold(layout: &Layout, protected: ProtectedDir<'_>, lasting: LastingFiles) -> Result<Self> {
        let mut own = OwnFiles {
            dirs: HeldDirs::new(layout.root(), &layout.decree()),
            files: Vec::new(),
            reserved: protected.reserved,
            reserved_unless_file: protected.reserved_unless_file,
            lasting,
            absent: AbsentDirs::list(layout, protected.later_dirs),
            set_aside: protected.set_aside,
            tracker: HeldTracker::hold(layout)?,
            paths: HashSet::new(),
            room: HoldingRoom::for_one(layout),
            has_failed: false,
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
        let protection = |path: &Path| {
            if (protected.is_record)(path) { Protection::Record } else { Protection::Presence }
        };
        own.hold_below(protected.dir, &protection)?;
        own.lasting.refresh(layout, protected.dir)?;
        Ok(own)
    }

    /// What stays held for the next program.
    pub fn into_lasting(self) -> LastingFiles {
        self.lasting
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
        if self.paths.insert(path.clone()) {
            self.files.extend(self.room.hold(path, protection, false)?);
        }
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
        let settings = self.files.iter_mut().filter(|held| held.protection == Protection::Settings);
        settings.for_each(|held| held.protection = Protection::Record);
        self.has_failed = true;
        self.repair()
    }

    /// Restores every byte of the messages that were in the queue, after a program that has failed and was repaired already.
    pub fn repair_queue(&mut self) -> Result<RepairReport> {
        let (mut report, mut quarantine) = (RepairReport::default(), Quarantine::default());
        report.project = self.dirs.repair(&mut quarantine)?;
        self.lasting.repair_dirs(&mut quarantine, &mut report)?;
        self.lasting.repair_queue(&self.paths, &mut quarantine, &mut report)?;
        report.set_aside = quarantine.finish(&self.set_aside)?;
        Ok(report)
    }

    /// The messages in the queue that a program edited, which stay so if it succeeded.
    pub fn edited_queue(&mut self) -> RepairReport {
        RepairReport { edited: self.lasting.edited_queue(&self.paths), ..RepairReport::default() }
    }

    /// Like [`OwnFiles::repair`], but leaves the tracker to the program.
    pub fn repair_except_tracker(&mut self) -> Result<RepairReport> {
        let mut report = RepairReport::default();
        let mut quarantine = Quarantine::default();
        report.project = self.dirs.repair(&mut quarantine)?;
        // After a renamed `.decree/` is back, and before the records are.
        self.lasting.repair_dirs(&mut quarantine, &mut report)?;
        for held in &mut self.files {
            let damage = held.repair(&mut quarantine)?;
            report.add(held, damage);
        }
        self.lasting.repair(&self.paths, self.has_failed, &mut quarantine, &mut report)?;
        let links = self.lasting.new_links()?;
        links.iter().chain(self.absent.links()).try_for_each(|link| quarantine.take(link))?;
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
                let open = untrusted::open_with_metadata(&path).at("read", &path)?;
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
    use super::super::room::MAX_IN_MEMORY;
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
        };
        OwnFiles::hold(layout, protected, LastingFiles::new(layout, &["result.json"])).unwrap()
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
