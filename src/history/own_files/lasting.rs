//! Files that stay from one program to the next: the queue, checkpoints, the records of earlier runs. There may be tens of thousands, so
//! they are held once, and then only those are looked at of which the kernel reports that they may have changed.
//!
//! Nothing is held less than if it were held anew for each program. Where the kernel cannot report, every file is looked at, and one whose
//! stamp is another one is read again.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::area::AreaListing;
use super::earlier_runs::EarlierRuns;
use super::held::{HeldDir, HeldFile, Protection};
use super::quarantine::Quarantine;
use super::repair_report::RepairReport;
use super::room::HoldingRoom;
use super::suspects::{Suspects, at_or_below};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::Result;
use crate::fs::change_watch::{ChangeWatch, Changed};
use crate::project::Layout;

/// The files, as they were when the program started.
pub struct LastingFiles {
    watch: ChangeWatch,
    /// Whether they were held before.
    is_known: bool,
    held: BTreeMap<PathBuf, HeldFile>,
    /// Parents before their children.
    dirs: BTreeMap<PathBuf, HeldDir>,
    runs: EarlierRuns,
    room: HoldingRoom,
    inbox: PathBuf,
    /// Where finished messages are, of which there may be very many.
    finished: PathBuf,
    checkpoints: PathBuf,
    runs_dir: PathBuf,
    run_records: &'static [&'static str],
}

impl LastingFiles {
    /// Holds nothing yet. `run_records` are the names of the files that reverting an earlier run, or applying it again, needs.
    pub fn new(layout: &Layout, run_records: &'static [&'static str]) -> LastingFiles {
        LastingFiles {
            watch: ChangeWatch::blind(),
            is_known: false,
            held: BTreeMap::new(),
            dirs: BTreeMap::new(),
            runs: EarlierRuns::new(layout),
            room: HoldingRoom::for_lasting(layout),
            inbox: layout.inbox(),
            finished: layout.done(),
            checkpoints: layout.checkpoints(),
            runs_dir: layout.runs(),
            run_records,
        }
    }

    /// Holds what is there now, before a program starts. `own` is the directory of its run, or of its checkpoint.
    pub(super) fn refresh(&mut self, layout: &Layout, own: &Path) -> Result<()> {
        if self.room.is_worn() {
            *self = LastingFiles::new(layout, self.run_records);
        }
        match self.watch.take() {
            Changed::Paths(paths) => {
                let mut paths: Vec<PathBuf> = paths.into_iter().collect();
                paths.sort();
                for path in paths {
                    self.hold_again(&path, own)?;
                }
            }
            Changed::All => self.hold_all(layout, own)?,
        }
        // It may have been an earlier one, and becomes one again.
        self.forget_run(own);
        self.hold_runs()?;
        self.watch.note(own.to_owned());
        self.is_known = true;
        Ok(())
    }

    /// Looks at everything. A file whose stamp is the same is not read again.
    fn hold_all(&mut self, layout: &Layout, own: &Path) -> Result<()> {
        // To watch costs as much as to look once, so it begins with the second program.
        self.watch = if self.is_known { ChangeWatch::start() } else { ChangeWatch::blind() };
        self.dirs.clear();
        let mut former = std::mem::take(&mut self.held);
        for dir in [&self.inbox, &self.checkpoints, &self.runs_dir] {
            self.watch.add_top(dir);
        }
        for dir in [self.inbox.clone(), self.checkpoints.clone()] {
            self.hold_below(&dir, &mut former)?;
        }
        self.runs = EarlierRuns::list(layout, own, &mut |run| self.watch.add_dir(run));
        while self.room.has_room_for_run()
            && let Some(run) = self.runs.next_to_hold()
        {
            self.hold_run(&run, &mut former)?;
        }
        former.into_values().for_each(|held| self.room.release(held));
        Ok(())
    }

    /// Looks at a path, and what is below it.
    fn hold_again(&mut self, path: &Path, own: &Path) -> Result<()> {
        // What it names is reported for itself, and it is held like `.decree/` itself.
        let is_runs_dir = path == self.runs_dir;
        if is_runs_dir || path == own || path.starts_with(own) && path.starts_with(&self.runs_dir) {
            return Ok(());
        }
        let run = path.ancestors().find(|above| above.parent() == Some(&self.runs_dir)).map(Path::to_owned);
        if let Some(run) = run {
            return self.look_at_run(&run, path);
        }
        let mut below = path.strip_prefix(&self.checkpoints).into_iter().flatten();
        if below.any(|part| part == CheckpointDir::PREVIOUS) {
            return Ok(());
        }
        let mut former = self.take_below(path);
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => self.hold_below(path, &mut former)?,
            Ok(found) if found.is_file() => self.hold_file(path.to_owned(), &mut former)?,
            _ => {}
        }
        former.into_values().for_each(|held| self.room.release(held));
        Ok(())
    }

    /// Holds nothing of a run any more.
    fn forget_run(&mut self, run: &Path) {
        if run.parent() == Some(&self.runs_dir) {
            self.runs.forget(run);
            self.take_below(run).into_values().for_each(|held| self.room.release(held));
        }
    }

    fn look_at_run(&mut self, run: &Path, path: &Path) -> Result<()> {
        self.runs.look_again(run);
        if path == run && run.is_dir() && !run.is_symlink() {
            self.watch.add_dir(run);
        }
        let mut former = self.take_below(run);
        if self.runs.is_held(run) {
            self.hold_run(run, &mut former)?;
        }
        former.into_values().for_each(|held| self.room.release(held));
        Ok(())
    }

    /// Holds the records of the latest runs, and of no others.
    fn hold_runs(&mut self) -> Result<()> {
        loop {
            // The latest ones rather than those before them.
            while !self.room.has_room_for_run()
                && let Some(run) = self.runs.next_to_replace()
            {
                self.take_below(&run).into_values().for_each(|held| self.room.release(held));
            }
            if !self.room.has_room_for_run() {
                break;
            }
            let Some(run) = self.runs.next_to_hold() else { break };
            self.hold_run(&run, &mut BTreeMap::new())?;
        }
        while let Some(run) = self.runs.next_to_release() {
            self.take_below(&run).into_values().for_each(|held| self.room.release(held));
        }
        Ok(())
    }

    fn hold_run(&mut self, run: &Path, former: &mut BTreeMap<PathBuf, HeldFile>) -> Result<()> {
        self.dirs.extend(HeldDir::of(run).map(|dir| (run.to_owned(), dir)));
        self.run_records.iter().try_for_each(|name| self.hold_file(run.join(name), former))
    }

    /// Takes what is held at a path and below it.
    fn take_below(&mut self, path: &Path) -> BTreeMap<PathBuf, HeldFile> {
        let dirs: Vec<PathBuf> = at_or_below(&self.dirs, path).cloned().collect();
        dirs.iter().for_each(|dir| drop(self.dirs.remove(dir)));
        let files: Vec<PathBuf> = at_or_below(&self.held, path).cloned().collect();
        files.into_iter().filter_map(|file| self.held.remove_entry(&file)).collect()
    }

    fn hold_below(&mut self, dir: &Path, former: &mut BTreeMap<PathBuf, HeldFile>) -> Result<()> {
        let mut listing = AreaListing::below(dir.to_owned(), Some(CheckpointDir::PREVIOUS))?;
        if !self.watch.is_blind() {
            // Listed again once they are watched: what came in between is in no report.
            listing.dirs.iter().for_each(|dir| self.watch.add_dir(dir));
            listing = AreaListing::below(dir.to_owned(), Some(CheckpointDir::PREVIOUS))?;
            listing.dirs.iter().for_each(|dir| self.watch.add_dir(dir));
        }
        let dirs = listing.dirs.into_iter().filter_map(|dir| Some((dir.clone(), HeldDir::of(&dir)?)));
        self.dirs.extend(dirs);
        listing.files.into_iter().try_for_each(|file| self.hold_file(file, former))
    }

    /// Holds a file, as it was held before if its stamp is the same.
    fn hold_file(&mut self, path: PathBuf, former: &mut BTreeMap<PathBuf, HeldFile>) -> Result<()> {
        let known = former.remove(&path);
        let is_same = |held: &HeldFile| path.symlink_metadata().is_ok_and(|found| held.is_certainly(&found));
        let held = match known {
            Some(held) if is_same(&held) => held,
            known => {
                if let Some(held) = known {
                    self.room.release(held);
                }
                let is_queue = path.starts_with(&self.inbox);
                let protection = if is_queue { Protection::Queue } else { Protection::Record };
                // What came later may find no room in memory, and no older file gives way to it.
                let is_copied = self.is_known || is_queue && path.parent() != Some(&self.finished);
                let Some(held) = self.room.hold(path.clone(), protection, is_copied)? else { return Ok(()) };
                held
            }
        };
        if !self.watch.is_blind() {
            self.watch.add_file(&path);
            // A change before it was watched is in no report, and may even be in no stamp.
            if !path.symlink_metadata().is_ok_and(|found| held.is_certainly(&found)) {
                self.watch.note(path.clone());
            }
        }
        self.held.insert(path, held);
        Ok(())
    }

    /// Restores directories, and forgets the runs that are gone.
    pub(super) fn repair_dirs(
        &mut self,
        quarantine: &mut Quarantine,
        report: &mut RepairReport,
    ) -> Result<()> {
        let suspects = Suspects::of(self.watch.changed());
        for path in suspects.among(&self.dirs) {
            self.dirs[&path].repair(quarantine)?;
        }
        (report.lost_runs, report.stripped_runs) = self.runs.take_gone(&suspects);
        Ok(())
    }

    /// Restores files, except those that are held in another way. With `every_byte`, edited messages are restored as well.
    pub(super) fn repair(
        &mut self,
        except: &HashSet<PathBuf>,
        every_byte: bool,
        quarantine: &mut Quarantine,
        report: &mut RepairReport,
    ) -> Result<()> {
        for path in self.suspected(except) {
            let Some(held) = self.held.get_mut(&path) else { continue };
            let protection = held.protection;
            if every_byte && protection == Protection::Queue {
                held.protection = Protection::Record;
            }
            let damage = held.repair(quarantine);
            held.protection = protection;
            report.add(held, damage?);
        }
        Ok(())
    }

    /// Restores every byte of the messages, after everything else was restored.
    pub(super) fn repair_queue(
        &mut self,
        except: &HashSet<PathBuf>,
        quarantine: &mut Quarantine,
        report: &mut RepairReport,
    ) -> Result<()> {
        let mut except = except.clone();
        except.extend(self.suspected(&except).into_iter().filter(|path| !path.starts_with(&self.inbox)));
        self.repair(&except, true, quarantine, report)
    }

    /// The messages that have other bytes.
    pub(super) fn edited_queue(&mut self, except: &HashSet<PathBuf>) -> Vec<PathBuf> {
        let mut edited = self.suspected(except);
        edited.retain(|path| {
            let held = &self.held[path];
            held.protection == Protection::Queue && held.has_other_bytes()
        });
        edited
    }

    /// New links in the place of runs.
    pub(super) fn new_links(&mut self) -> Result<Vec<PathBuf>> {
        self.runs.new_links(&Suspects::of(self.watch.changed()))
    }

    /// The files that a program may have changed, sorted.
    fn suspected(&mut self, except: &HashSet<PathBuf>) -> Vec<PathBuf> {
        let mut suspected = Suspects::of(self.watch.changed()).among(&self.held);
        suspected.retain(|path| !except.contains(path));
        suspected
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const RECORDS: &[&str] = &["manifest.json", "result.json"];

    fn project() -> (tempfile::TempDir, Layout, LastingFiles) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join(CheckpointDir::PREVIOUS));
        for dir in [layout.runs(), layout.done(), layout.checkpoints()] {
            fs::create_dir_all(dir).unwrap();
        }
        let lasting = LastingFiles::new(&layout, RECORDS);
        (dir, layout, lasting)
    }

    fn run(layout: &Layout, n: u32) -> PathBuf {
        let run = layout.runs().join(format!("20250225143200{n:02}-0"));
        fs::create_dir_all(&run).unwrap();
        RECORDS.iter().for_each(|name| fs::write(run.join(name), "x".repeat(50)).unwrap());
        fs::write(run.join("routine.log"), "log").unwrap();
        run
    }

    #[test]
    fn the_latest_runs_are_held_however_little_room_there_is() {
        let (_dir, layout, mut lasting) = project();
        lasting.room = HoldingRoom::of_size(&layout, 8, 1_000);
        (0..9).for_each(|n| drop(run(&layout, n)));
        for n in 9..20 {
            let own = run(&layout, n);
            lasting.refresh(&layout, &own).unwrap();
            assert!(!lasting.runs.is_held(&own));
            let before = layout.runs().join(format!("20250225143200{:02}-0", n - 1));
            assert!(
                lasting.runs.is_held(&before) && lasting.held.contains_key(&before.join(RECORDS[0])),
                "{n}"
            );
        }
        assert!(lasting.held.len() < 2 * 9);
    }

    #[test]
    fn what_comes_later_is_copied_if_there_is_no_room_in_memory() {
        let (_dir, layout, mut lasting) = project();
        lasting.room = HoldingRoom::of_size(&layout, 100, 60);
        let own = run(&layout, 9);
        (0..3).for_each(|n| drop(run(&layout, n)));
        lasting.refresh(&layout, &own).unwrap();
        let is_open = |lasting: &LastingFiles, path: &Path| lasting.held[path].room().2 == 1;
        let letter = layout.done().join("a.md");
        fs::write(&letter, "y".repeat(50)).unwrap();
        lasting.refresh(&layout, &run(&layout, 10)).unwrap();
        assert!(!is_open(&lasting, &letter) && !is_open(&lasting, &own.join(RECORDS[0])));
    }

    #[test]
    fn a_run_that_begins_again_is_no_earlier_one() {
        let (_dir, layout, mut lasting) = project();
        let (first, second) = (run(&layout, 1), run(&layout, 2));
        for own in [&second, &second, &first] {
            lasting.refresh(&layout, own).unwrap();
            assert!(!lasting.runs.is_held(own) && !lasting.held.contains_key(&own.join(RECORDS[1])));
        }
        assert!(lasting.runs.is_held(&second));
    }

    #[test]
    fn a_changed_mode_of_the_directory_of_runs_holds_no_more_of_them() {
        let (_dir, layout, mut lasting) = project();
        let (earlier, own) = (run(&layout, 1), run(&layout, 2));
        lasting.refresh(&layout, &own).unwrap();
        lasting.refresh(&layout, &own).unwrap();
        fs::File::open(layout.runs()).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        lasting.refresh(&layout, &own).unwrap();
        assert!(lasting.held.contains_key(&earlier.join(RECORDS[1])));
        assert!(!lasting.held.contains_key(&earlier.join("routine.log")));
    }

    #[test]
    fn checkpoints_stay_watched_whatever_the_project_is_called() {
        let (_dir, layout, mut lasting) = project();
        let file = layout.checkpoints().join("chk/manifest.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "one").unwrap();
        let own = run(&layout, 1);
        for _ in 0..2 {
            lasting.refresh(&layout, &own).unwrap();
        }
        fs::remove_dir_all(file.parent().unwrap()).unwrap();
        let set_aside = own.join("set-aside");
        let repair = |lasting: &mut LastingFiles| {
            let (mut quarantine, mut report) = (Quarantine::default(), RepairReport::default());
            lasting.repair_dirs(&mut quarantine, &mut report).unwrap();
            lasting.repair(&HashSet::new(), false, &mut quarantine, &mut report).unwrap();
            quarantine.finish(&set_aside).unwrap();
        };
        repair(&mut lasting);
        lasting.refresh(&layout, &own).unwrap();
        lasting.refresh(&layout, &own).unwrap();
        fs::remove_file(&file).unwrap();
        repair(&mut lasting);
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    }
}
