//! Moving staged files into the tree so that a crash at any moment leaves all or nothing.
//!
//! `new/<n>` is what step `n` brings, `old/<n>` what it replaces. A file is in one of three places,
//! and every move is a rename, so where the files are tells how far the work has got: the steps can
//! be repeated from the start, forwards or backwards, whoever did the first half.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::journal::{FILE, Journal, Step};
use super::present::{agrees, present};
use crate::checkpoint::entry::{Mode, Node, describe};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::opened::Opened;
use crate::checkpoint::path::{TreePath, dirs_above};
use crate::checkpoint::root::{FoundKind, Root};
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;

/// A move that is prepared, under way, or was cut off.
pub struct Transaction<'r> {
    root: &'r Root,
    dir: PathBuf,
    journal: Journal,
}

/// A cut-off move that was dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// `revert 2026111603100000-0`.
    pub what: String,
    /// Whether it is done now; else it is as if it had never begun.
    pub finished: bool,
}

/// The directories of a transaction in `dir`.
pub fn make_dirs(dir: &Path) -> Result<()> {
    for name in ["new", "old"] {
        let path = dir.join(name);
        fs::create_dir_all(&path).at("create", &path)?;
    }
    Ok(())
}

/// Where step `n`'s new content is staged.
pub fn staged(dir: &Path, step: usize) -> PathBuf {
    dir.join("new").join(step.to_string())
}

/// Where step `n`'s old content is saved.
fn saved(dir: &Path, step: usize) -> PathBuf {
    dir.join("old").join(step.to_string())
}

/// Finishes or undoes every move that a killed process left, and clears away what never began.
pub fn recover(root: &Root, scratch: &Path) -> Result<Vec<Recovered>> {
    let mut recovered = Vec::new();
    let entries = match fs::read_dir(scratch) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(recovered),
        Err(error) => return Err(error).at("read", scratch),
    };
    for entry in entries {
        let dir = entry.at("read", scratch)?.path();
        // Not being able to tell is not the same as there being none.
        if dir.is_dir() && dir.join(FILE).try_exists().at("read", &dir)? {
            let journal = Journal::read(&dir)?;
            recovered.push(Transaction { root, dir, journal }.resume()?);
        } else if dir.is_dir() {
            fs::remove_dir_all(&dir).at("remove", &dir)?;
        } else {
            fs::remove_file(&dir).at("remove", &dir)?;
        }
    }
    Ok(recovered)
}

impl<'r> Transaction<'r> {
    /// A move whose files are staged in `dir`.
    pub fn new(root: &'r Root, dir: PathBuf, journal: Journal) -> Self {
        Transaction { root, dir, journal }
    }

    /// Carries the move out. On an error the tree is as it was.
    pub fn run(self) -> Result<()> {
        self.journal.write(&self.dir)?;
        match self.forwards().and_then(|()| self.verify(Side::To)) {
            Ok(()) => self.finish(),
            Err(error) => match self.backwards() {
                Ok(()) => Err(error.detail("nothing was touched")),
                Err(worse) => Err(Error::integrity(format!("{error}; and it could not be undone"))
                    .detail(format!("undo: {worse}"))
                    .detail(format!("every file is in the tree or in {}", self.dir.display()))
                    .hint("remove the cause, then run any decree command that changes things: it goes on from here")),
            },
        }
    }

    fn resume(self) -> Result<Recovered> {
        let what = self.journal.what.clone();
        self.refuse_foreign_saves()?;
        let finished =
            self.staged_files_are_whole() && self.forwards().is_ok() && self.verify(Side::To).is_ok();
        if finished {
            self.finish()?;
        } else {
            self.backwards().map_err(|error| {
                Error::integrity(format!(
                    "{what} was cut off, and can be neither finished nor undone: {error}"
                ))
                .details(error.detail_lines().to_vec(), 20)
                .detail(format!("every file is in the tree or in {}", self.dir.display()))
                .hint("move what is in the way aside, then run the same command again")
            })?;
        }
        Ok(Recovered { what, finished })
    }

    /// What was moved out of the way has to be what the journal says: else it is somebody's, and stays.
    fn refuse_foreign_saves(&self) -> Result<()> {
        for (n, step) in self.journal.steps.iter().enumerate() {
            let path = saved(&self.dir, n);
            if exists(&path)
                && Some(content_of(&path).at("read", &path)?) != step.from.and_then(|from| from.content())
            {
                return Err(Error::integrity(format!(
                    "{} was cut off just as {} was changed by something else",
                    self.journal.what, step.path.0
                ))
                .detail(format!("that content is in {}", path.display()))
                .hint("copy it to a safe place, remove it there, then run the same command again"));
            }
        }
        Ok(())
    }

    /// After a power cut a staged file may lack its content, and then there is only the way back.
    fn staged_files_are_whole(&self) -> bool {
        self.journal.steps.iter().enumerate().all(|(n, step)| {
            let path = staged(&self.dir, n);
            !step.is_staged()
                || !exists(&path)
                || content_of(&path).ok() == step.to.and_then(|to| to.content())
        })
    }

    fn forwards(&self) -> Result<()> {
        self.open_dirs()?;
        for (path, to) in self.set_aside_moves() {
            self.set_aside(&path, &to)?;
        }
        for (n, step) in self.journal.steps.iter().enumerate().rev() {
            let path = &step.path.0;
            let done = exists(&saved(&self.dir, n)) || (step.is_staged() && !exists(&staged(&self.dir, n)));
            if !step.is_saved() || done {
                continue;
            }
            if self.root.find(path).at("read", path.as_path())?.is_none() {
                continue;
            }
            let to = saved(&self.dir, n);
            self.root.move_out(path, &to).at("move away", path.as_path())?;
            // Only what was expected may be replaced; looking after the move leaves no gap to slip into.
            let found = content_of(&to).at("read", &to)?;
            if Some(found) != step.from.and_then(|from| from.content()) {
                return Err(Error::failed(format!("{path} was changed by something else just now")));
            }
        }
        for path in self.dirs_that_may_go() {
            self.root.remove_dir(&path).at("remove", path.as_path())?;
        }
        let mut made: Option<TreePath> = None;
        for (n, step) in self.journal.steps.iter().enumerate() {
            let path = &step.path.0;
            let Some(to) = &step.to else { continue };
            let parent = path.ancestors().last();
            if parent != made {
                for dir in path.ancestors() {
                    self.root.make_dir(&dir).at("create", dir.as_path())?;
                }
                made = parent;
            }
            if to.is_dir() {
                self.root.make_dir(path).at("create", path.as_path())?;
            } else if step.keeps_content() {
                self.set_mode(path, to.mode())?;
            } else if exists(&staged(&self.dir, n)) {
                self.root.move_in(&staged(&self.dir, n), path).at("put back", path.as_path())?;
            }
        }
        self.set_dir_modes(Side::To)
    }

    fn backwards(&self) -> Result<()> {
        self.open_dirs()?;
        self.refuse_strangers()?;
        for (n, step) in self.journal.steps.iter().enumerate().rev() {
            let path = &step.path.0;
            let new = staged(&self.dir, n);
            if step.is_staged() && !exists(&new) && self.root.find(path).at("read", path.as_path())?.is_some()
            {
                self.root.move_out(path, &new).at("move away", path.as_path())?;
            }
        }
        let known: BTreeMap<&TreePath, Mode> = self.known_dirs();
        for path in self.touched_dirs() {
            if !known.contains_key(&path) && self.root.find(&path).at("read", path.as_path())?.is_some() {
                self.root.remove_dir(&path).at("remove", path.as_path())?;
            }
        }
        for dir in &self.journal.dirs {
            self.root.make_dir(&dir.path.0).at("create", dir.path.0.as_path())?;
        }
        for (n, step) in self.journal.steps.iter().enumerate() {
            let path = &step.path.0;
            if exists(&saved(&self.dir, n)) {
                self.root.move_in(&saved(&self.dir, n), path).at("put back", path.as_path())?;
            } else if step.keeps_content() && !step.to.is_some_and(|to| to.is_dir()) {
                self.set_mode(path, step.from.and_then(|from| from.mode()))?;
            } else if step.from.is_some_and(|from| from.is_dir()) {
                self.root.make_dir(path).at("create", path.as_path())?;
            }
        }
        for (path, to) in self.set_aside_moves() {
            if exists(&to) {
                self.root.move_in(&to, &path).at("put back", path.as_path())?;
            }
        }
        self.set_dir_modes(Side::From)?;
        self.verify(Side::From)?;
        self.close()
    }

    /// Before anything moves back: what stands where a new file was put has to be that file still. A person may
    /// have come in between, and what they wrote is not ours to throw away.
    fn refuse_strangers(&self) -> Result<()> {
        let mut strangers = Vec::new();
        for (n, step) in self.journal.steps.iter().enumerate() {
            let path = &step.path.0;
            if !step.is_staged() || exists(&staged(&self.dir, n)) {
                continue;
            }
            let found = present(self.root, path).at("read", path.as_path())?;
            // An empty file is what a power cut leaves of one that was just written; nobody's words are in it.
            let stranger = found.and_then(|found| found.content()).filter(|(_, size)| *size > 0);
            if stranger.is_some() && stranger != step.to.and_then(|to| to.content()) {
                strangers.push(format!("{path}: changed since it was put there"));
            }
        }
        match strangers.is_empty() {
            true => Ok(()),
            false => Err(Error::failed(format!("{} of the new files changed since", strangers.len()))
                .details(strangers, 20)),
        }
    }

    /// Makes the result, which was proven, durable, and ends the transaction.
    fn finish(&self) -> Result<()> {
        self.root.sync().at("sync", self.root.path())?;
        self.close()
    }

    /// The journal goes first: what is left then means nothing.
    fn close(&self) -> Result<()> {
        let journal = self.dir.join(FILE);
        fs::remove_file(&journal).at("remove", &journal)?;
        atomic::sync_dir(&self.dir)?;
        let _ = fs::remove_dir_all(&self.dir);
        Ok(())
    }

    fn verify(&self, side: Side) -> Result<()> {
        let mut wrong = Vec::new();
        let opened = Opened::above(self.root, self.journal.steps.iter().map(|step| &step.path.0))
            .at("look into", self.root.path())?;
        for step in &self.journal.steps {
            let path = &step.path.0;
            let said = side.of(step);
            let found = opened.present(path).at("read", path.as_path())?;
            if !agrees(self.root, path, found.as_ref(), said).at("read", path.as_path())? {
                wrong.push(format!(
                    "{path}: expected {}, found {}",
                    describe(said),
                    describe(found.as_ref())
                ));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let count = crate::figures::count(wrong.len(), "path");
        Err(Error::integrity(format!("{}: {count} did not verify", self.journal.what))
            .details(wrong, 20)
            .detail(format!("what was replaced is in {}", self.dir.display())))
    }

    /// Makes sure that this user may look into the directories concerned, and change them. Parents first.
    fn open_dirs(&self) -> Result<()> {
        let beside = self.set_aside_moves();
        let mut dirs = self.touched_dirs();
        dirs.extend(beside.iter().flat_map(|(path, _)| path.ancestors().collect::<Vec<_>>()));
        dirs.sort();
        for path in dirs {
            let found = self.root.find(&path).at("read", path.as_path())?;
            if let Some(found) = found
                && found.kind == FoundKind::Dir
                && found.mode.bits() & 0o700 != 0o700
            {
                match self.root.set_mode(&path, Mode::from_bits(found.mode.bits() | 0o700)) {
                    // Somebody else's: they may still have given us what we need.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    result => result.at("open", path.as_path())?,
                }
            }
        }
        Ok(())
    }

    /// Gives every directory concerned the mode it has on that side; children first.
    fn set_dir_modes(&self, side: Side) -> Result<()> {
        let known = self.known_dirs();
        let said: BTreeMap<&TreePath, Option<Mode>> = self
            .journal
            .steps
            .iter()
            .filter(|step| step.from.is_some_and(|n| n.is_dir()) || step.to.is_some_and(|n| n.is_dir()))
            .map(|step| (&step.path.0, side.of(step).filter(|node| node.is_dir()).and_then(Node::mode)))
            .collect();
        let mut dirs = self.touched_dirs();
        for (path, _) in self.set_aside_moves() {
            dirs.extend(path.ancestors());
        }
        dirs.sort_by(|a, b| b.cmp(a));
        dirs.dedup();
        for path in dirs {
            let mode = match said.get(&path) {
                Some(mode) => mode.unwrap_or(Mode::DIR),
                None => known.get(&path).copied().unwrap_or(Mode::DIR),
            };
            match self.root.find(&path).at("read", path.as_path())? {
                Some(found) if found.kind == FoundKind::Dir && found.mode != mode => {
                    self.root.set_mode(&path, mode).at("set the mode of", path.as_path())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn set_mode(&self, path: &TreePath, mode: Option<Mode>) -> Result<()> {
        mode.map_or(Ok(()), |mode| self.root.set_mode(path, mode).at("set the mode of", path.as_path()))
    }

    fn known_dirs(&self) -> BTreeMap<&TreePath, Mode> {
        self.journal.dirs.iter().map(|dir| (&dir.path.0, dir.mode())).collect()
    }

    /// The directories above the steps, and those that are steps; children first.
    fn touched_dirs(&self) -> Vec<TreePath> {
        let steps = &self.journal.steps;
        let mut dirs = dirs_above(steps.iter().map(|step| &step.path.0));
        let is_dir = |step: &&Step| [step.from, step.to].into_iter().flatten().any(|node| node.is_dir());
        dirs.extend(steps.iter().filter(is_dir).map(|step| step.path.0.clone()));
        dirs.into_iter().rev().collect()
    }

    /// The touched directories that nothing says have to stay: they go if they are empty.
    fn dirs_that_may_go(&self) -> Vec<TreePath> {
        let stays = |path: &TreePath| {
            let at = self.journal.steps.binary_search_by(|step| step.path.0.cmp(path));
            at.is_ok_and(|at| self.journal.steps[at].to.is_some_and(|to| to.is_dir()))
        };
        let steps = self.journal.steps.iter();
        let needed = dirs_above(steps.filter(|step| step.to.is_some()).map(|step| &step.path.0));
        let mut dirs = self.touched_dirs();
        dirs.retain(|path| !stays(path) && !needed.contains(path));
        dirs
    }

    fn set_aside_moves(&self) -> Vec<(TreePath, PathBuf)> {
        // This is `.decree/tmp/restore-…`.
        let decree_dir = self.dir.parent().and_then(Path::parent).unwrap_or(&self.dir);
        self.journal.set_aside(decree_dir)
    }

    fn set_aside(&self, path: &TreePath, to: &Path) -> Result<()> {
        if exists(to) || self.root.find(path).at("read", path.as_path())?.is_none() {
            return Ok(());
        }
        let parent = to.parent().unwrap_or(to);
        fs::create_dir_all(parent).at("create", parent)?;
        self.root.move_out(path, to).at("set aside", path.as_path())
    }
}

#[derive(Clone, Copy)]
enum Side {
    From,
    To,
}

impl Side {
    fn of(self, step: &Step) -> Option<&Node> {
        match self {
            Side::From => step.from.as_ref(),
            Side::To => step.to.as_ref(),
        }
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The content of a staged or saved file or link.
fn content_of(path: &Path) -> io::Result<(ContentHash, u64)> {
    use std::os::unix::ffi::OsStringExt;
    if path.symlink_metadata()?.is_symlink() {
        let target = fs::read_link(path)?.into_os_string().into_vec();
        return Ok((ContentHash::of(&target), target.len() as u64));
    }
    ContentHash::of_reader(&mut open_forced(path)?, &mut vec![0; 1 << 16])
}

/// Opens a saved file that may forbid reading to its owner.
fn open_forced(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::PermissionsExt;
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        result => return result,
    }
    let before = path.symlink_metadata()?.permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(before.mode() | 0o400))?;
    let file = File::open(path);
    fs::set_permissions(path, before)?;
    file
}
