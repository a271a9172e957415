//! decree's own files while a routine, or a guarded command, runs: what it removes of them comes back.
//!
//! `.decree/` is no part of a checkpoint, so nothing else would. What is small is held in memory, what is large is held
//! open: a file that was removed can be read for as long as somebody has it open. Edits to settings and routines stay,
//! as a routine may have been asked for them, and are named. Edits to the run's records and to the tracker do not. What stands
//! where decree is about to write moves to the run's `set-aside/`.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::attempt::PUBLISHED;
use super::own_held::{HeldContent, HeldFile, Protection, stamp};
use super::own_places::{HeldDirs, Quarantine};
use super::run_dir::RunDir;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::project::Layout;

/// Up to this size a file is held in memory.
const SMALL: u64 = 256 * 1024;
/// More files than this are not held: nobody's settings and queue are that large.
const MOST: usize = 4000;
/// So many are held open: a process has a limit.
const MOST_OPEN: usize = 100;
/// All that is held in memory together.
const MOST_BYTES: u64 = 32 << 20;

/// What was there when the routine started.
pub struct OwnFiles {
    places: HeldDirs,
    files: Vec<HeldFile>,
    /// Names that decree gives after the routine; whatever has one by then is the routine's.
    reserved: Vec<PathBuf>,
    /// The same, but a file under such a name is decree's.
    reserved_but_for_files: Vec<PathBuf>,
    /// Other runs, which are too many to be held.
    earlier: Vec<PathBuf>,
    aside: PathBuf,
    specs: PathBuf,
    /// Where `specs` leads, if it is a link: whoever has one there wants it.
    specs_link: Option<PathBuf>,
    tracker: PathBuf,
    tracker_was: Tracker,
    paths: HashSet<PathBuf>,
    open: usize,
    bytes: u64,
}

/// The tracker, as far as it is one.
#[derive(PartialEq)]
enum Tracker {
    Absent,
    Text(Vec<u8>),
    SomethingElse,
}

/// What a routine had done to them.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Files that were gone, or not what they have to be, and are back.
    pub restored: Vec<PathBuf>,
    /// Settings and routines that are not what they were.
    pub edited: Vec<PathBuf>,
    /// Records that were changed and are too large to have been held.
    pub spoiled: Vec<PathBuf>,
    /// Whether the tracker had been changed, and is as it was.
    pub tracker: bool,
    /// How many earlier runs are gone for good.
    pub lost: usize,
    /// How many things stood where decree's own have to be.
    pub set_aside: usize,
}

impl OwnFiles {
    /// Takes note of settings, routines, queue and tracker, and of everything in the run. `message` is the name of the run's own message
    /// in the inbox.
    pub fn remember(layout: &Layout, run: &RunDir, attempt: u32, message: &OsStr) -> Result<Self> {
        let own_names = |dir: PathBuf| ["changes.diff", "result.json"].map(|name| dir.join(name));
        let attempt = run.attempt_dir(attempt);
        let mut own = OwnFiles::new(layout, run.path().join("set-aside"))?;
        own.reserved = [own_names(run.path().to_owned()), own_names(attempt.clone())].concat();
        own.reserved_but_for_files = PUBLISHED.iter().map(|name| run.path().join(name)).collect();
        own.reserved.extend([attempt.join("usage.json"), run.failure_context()]);
        // First what decree cannot do without: there is a limit.
        own.places.note(&layout.runs());
        let records = [run.message(), run.saved().manifest_path(), run.failure_context()];
        for record in records.into_iter().chain([layout.running(), layout.audit()]) {
            own.hold(record, Protection::Record)?;
        }
        own.hold_settings(layout)?;
        let message = layout.inbox().join(message);
        own.hold_below(&layout.inbox(), &|path| match path == message {
            true => Protection::Record,
            false => Protection::Presence,
        })?;
        own.hold_below(run.path(), &|path| match is_record(run, path) {
            true => Protection::Record,
            false => Protection::Presence,
        })?;
        own.hold_rest(layout)?;
        Ok(own)
    }

    /// The same for a command that is run with `checkpoint` as the way back: all that is needed for that, and the rest as far as
    /// there is room.
    pub fn around(layout: &Layout, checkpoint: &Path) -> Result<Self> {
        let mut own = OwnFiles::new(layout, checkpoint.join("set-aside"))?;
        own.places.note(&layout.checkpoints());
        own.hold_below(checkpoint, &|_| Protection::Record)?;
        own.reserved = vec![layout.audit(), layout.guarding()];
        own.hold(layout.audit(), Protection::Record)?;
        own.hold(layout.guarding(), Protection::Record)?;
        own.hold_settings(layout)?;
        own.places.note(&layout.runs());
        own.hold_below(&layout.inbox(), &|_| Protection::Presence)?;
        own.hold_rest(layout)?;
        Ok(own)
    }

    fn new(layout: &Layout, aside: PathBuf) -> Result<Self> {
        Ok(OwnFiles {
            places: HeldDirs::new(layout.root(), &layout.decree()),
            files: Vec::new(),
            reserved: Vec::new(),
            reserved_but_for_files: Vec::new(),
            earlier: Vec::new(),
            aside,
            specs_link: fs::read_link(layout.specs()).ok(),
            specs: layout.specs(),
            tracker: layout.tracker(),
            tracker_was: Tracker::read(&layout.tracker(), None)?,
            paths: HashSet::new(),
            open: 0,
            bytes: 0,
        })
    }

    fn hold_settings(&mut self, layout: &Layout) -> Result<()> {
        self.hold(layout.lock(), Protection::Presence)?;
        self.hold(layout.config(), Protection::Settings)?;
        self.hold(layout.gitignore(), Protection::Settings)?;
        [layout.routines(), layout.cron()]
            .iter()
            .try_for_each(|dir| self.hold_below(dir, &|_| Protection::Settings))
    }

    fn hold_rest(&mut self, layout: &Layout) -> Result<()> {
        for dir in [layout.store(), layout.scratch()] {
            self.places.note(&dir);
        }
        self.hold_below(&layout.checkpoints(), &|_| Protection::Presence)?;
        self.earlier = runs(layout);
        Ok(())
    }

    fn hold_below(&mut self, dir: &Path, care: &dyn Fn(&Path) -> Protection) -> Result<()> {
        let entries = match fs::read_dir(dir) {
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            result => result.at("read", dir)?,
        };
        self.places.note(dir);
        let mut dirs = Vec::new();
        for entry in entries {
            let entry = entry.at("read", dir)?;
            let kind = entry.file_type().at("read", entry.path())?;
            if kind.is_dir() && entry.file_name() != "previous" {
                dirs.push(entry.path());
            } else if kind.is_file() {
                self.hold(entry.path(), care(&entry.path()))?;
            }
        }
        dirs.iter().try_for_each(|dir| self.hold_below(dir, care))
    }

    fn hold(&mut self, path: PathBuf, care: Protection) -> Result<()> {
        if self.files.len() >= MOST || !self.paths.insert(path.clone()) {
            return Ok(());
        }
        let mut file = match File::open(&path) {
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            result => result.at("read", &path)?,
        };
        let metadata = file.metadata().at("read", &path)?;
        let content = match metadata.len() <= SMALL && self.bytes + metadata.len() <= MOST_BYTES {
            true => {
                self.bytes += metadata.len();
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).at("read", &path)?;
                HeldContent::Bytes(bytes)
            }
            false if self.open >= MOST_OPEN => return Ok(()),
            false => {
                self.open += 1;
                HeldContent::Open(file)
            }
        };
        let mode = metadata.permissions().mode() & 0o7777;
        self.files.push(HeldFile { path, mode, stamp: stamp(&metadata), content, care });
        Ok(())
    }

    /// Brings back what is gone, and moves away what is in the way.
    pub fn mend(&mut self) -> Result<RepairReport> {
        self.mend_with(true)
    }

    /// The same, and settings as well are as they were.
    pub fn mend_all(&mut self) -> Result<RepairReport> {
        let settings = self.files.iter_mut().filter(|held| held.care == Protection::Settings);
        settings.for_each(|held| held.care = Protection::Record);
        self.mend_with(true)
    }

    /// The same; what became of the tracker is left as it is.
    pub fn mend_but_for_tracker(&mut self) -> Result<RepairReport> {
        self.mend_with(false)
    }

    fn mend_with(&mut self, tracker: bool) -> Result<RepairReport> {
        let mut mended = RepairReport::default();
        let mut aside = Quarantine::default();
        self.places.mend(&mut aside)?;
        for held in &mut self.files {
            held.mend(&mut mended, &mut aside)?;
        }
        let is_held = |path: &Path| self.files.iter().any(|held| held.path == path);
        for path in self.reserved.iter().filter(|path| !is_held(path)) {
            aside.take(path)?;
        }
        for path in self.reserved_but_for_files.iter().chain([&self.aside]) {
            let expected =
                |found: fs::Metadata| found.is_file() != (*path == self.aside) && !found.is_symlink();
            if path.symlink_metadata().is_ok_and(|found| !expected(found)) {
                aside.take(path)?;
            }
        }
        let (there, gone) = std::mem::take(&mut self.earlier).into_iter().partition(|run| run.exists());
        (self.earlier, mended.lost) = (there, Vec::len(&gone));
        mended.tracker = tracker && self.mend_tracker(&mut aside)?;
        mended.set_aside = aside.keep(&self.aside)?;
        Ok(mended)
    }

    /// Writes the tracker as it was; says whether it was not.
    fn mend_tracker(&self, aside: &mut Quarantine) -> Result<bool> {
        let length = match &self.tracker_was {
            Tracker::Text(text) => text.len() as u64,
            _ => 0,
        };
        // A link to a directory would lead the tracker somewhere else once the tree is put back.
        let as_it_was = |found: &fs::Metadata| {
            found.is_dir() || (found.is_symlink() && fs::read_link(&self.specs).ok() == self.specs_link)
        };
        let led_away = self.specs.symlink_metadata().is_ok_and(|found| !as_it_was(&found));
        if !led_away && Tracker::read(&self.tracker, Some(length))? == self.tracker_was {
            return Ok(false);
        }
        if led_away {
            aside.take(&self.specs)?;
        }
        match &self.tracker_was {
            Tracker::Text(text) => {
                if self.tracker.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                    aside.take(&self.tracker)?;
                }
                fs::create_dir_all(&self.specs).at("create", &self.specs)?;
                atomic::write(&self.tracker, text)?;
            }
            Tracker::Absent | Tracker::SomethingElse => aside.take(&self.tracker)?,
        }
        Ok(true)
    }
}

impl Tracker {
    /// Reads it, unless it is known by its length that it is not what it was.
    fn read(path: &Path, length: Option<u64>) -> Result<Tracker> {
        match path.symlink_metadata() {
            Err(error) if is_out_of_reach(&error) => Ok(Tracker::Absent),
            Err(error) => Err(error).at("read", path),
            Ok(found) if !found.is_file() => Ok(Tracker::SomethingElse),
            Ok(found) if length.is_some_and(|length| length != found.len()) => Ok(Tracker::SomethingElse),
            Ok(_) => fs::read(path).map(Tracker::Text).at("read", path),
        }
    }
}

fn runs(layout: &Layout) -> Vec<PathBuf> {
    fs::read_dir(layout.runs()).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Whether a file in a run's directory is decree's record of it, and not a routine's own.
fn is_record(run: &RunDir, path: &Path) -> bool {
    let names = [run.message(), run.saved().manifest_path(), run.failure_context()];
    names.iter().any(|name| name == path) || path.starts_with(run.path().join("attempts"))
}

/// Not there, or not ours to read: then it is not ours to bring back, either.
fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageId;

    #[test]
    fn what_a_routine_removes_of_decrees_own_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        let run = RunDir::of(&layout, &MessageId::parse("2025022514320000-0").unwrap());
        run.begin().unwrap();
        fs::create_dir_all(layout.routines()).unwrap();
        fs::create_dir_all(layout.specs()).unwrap();
        let manifest = run.saved().manifest_path();
        let large = vec![7; SMALL as usize + 1];
        fs::write(layout.config(), "max_retries: 1\n").unwrap();
        fs::write(layout.routines().join("develop.sh"), "true\n").unwrap();
        fs::write(&manifest, &large).unwrap();
        fs::write(layout.tracker(), "01.spec.md\n").unwrap();
        let mut own = OwnFiles::remember(&layout, &run, 1, OsStr::new("x.md")).unwrap();
        fs::remove_dir_all(layout.decree()).unwrap();
        fs::write(layout.tracker(), "01.spec.md\n02.spec.md\n").unwrap();
        let mended = own.mend().unwrap();
        assert_eq!(mended.restored.len(), 3, "{mended:?}");
        assert!(mended.tracker);
        assert_eq!(fs::read(&manifest).unwrap(), large);
        assert_eq!(fs::read_to_string(layout.tracker()).unwrap(), "01.spec.md\n");
        fs::write(layout.routines().join("develop.sh"), "false\n").unwrap();
        let mended = own.mend().unwrap();
        assert_eq!(mended.edited, [layout.routines().join("develop.sh")]);
        assert!(mended.restored.is_empty() && !mended.tracker);
    }

    #[test]
    fn a_large_record_that_was_overwritten_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        let run = RunDir::of(&layout, &MessageId::parse("2025022514320000-0").unwrap());
        run.begin().unwrap();
        let manifest = run.saved().manifest_path();
        fs::write(&manifest, vec![7; SMALL as usize + 1]).unwrap();
        let mut own = OwnFiles::remember(&layout, &run, 1, OsStr::new("x.md")).unwrap();
        fs::write(&manifest, "x").unwrap();
        assert_eq!(own.mend().unwrap().spoiled, [manifest]);
    }
}
