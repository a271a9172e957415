//! A project of many small files: about 1 KB each, a fixed number in each directory, the same on every run.
//!
//! What it costs is metadata, not content: this is where tools differ most as trees grow.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use super::contender::Reverter;
use super::text::{self, Kind};
use super::{Result, interrupt};

const SIZE: usize = 1_000;
/// How many files are written between two looks at whether to stop.
const FILES_PER_CHECK: usize = 1_000;
/// Directories per directory, so that no listing is long.
const FAN_OUT: usize = 100;
/// How many files in a directory, unless a row is about that.
pub const FILES_IN_DIRECTORY: usize = 100;

pub struct SmallTree {
    root: PathBuf,
    count: usize,
    in_directory: usize,
}

impl SmallTree {
    /// Writes a tree of `count` files to `root`, which must not exist yet.
    pub fn build(root: &Path, count: usize, in_directory: usize) -> Result<Self> {
        let tree = Self { root: root.to_owned(), count, in_directory };
        let threads = thread::available_parallelism()?.get();
        let share = count.div_ceil(threads).next_multiple_of(in_directory);
        thread::scope(|scope| {
            let shares = (0..count).step_by(share).map(|first| first..count.min(first + share));
            let workers: Vec<_> = shares.map(|share| scope.spawn(|| tree.write(share))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a writer does not panic"))
        })?;
        Ok(tree)
    }

    fn write(&self, files: std::ops::Range<usize>) -> Result<()> {
        for index in files {
            let path = self.path(index);
            if index.is_multiple_of(self.in_directory) {
                fs::create_dir_all(path.parent().expect("every file is in a directory"))?;
            }
            if index.is_multiple_of(FILES_PER_CHECK) {
                interrupt::check()?;
            }
            fs::write(path, self.content(index))?;
        }
        Ok(())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// File number `index`.
    pub fn path(&self, index: usize) -> PathBuf {
        let directory = index / self.in_directory;
        self.root.join(format!("part{:03}/dir{directory:05}/file{index:07}.h", directory / FAN_OUT))
    }

    /// What it holds.
    fn content(&self, index: usize) -> Vec<u8> {
        let mut content = Vec::with_capacity(2 * SIZE);
        text::write_file(&mut content, Kind::Header, index / self.in_directory, index, SIZE);
        content
    }

    /// Appends a line to one file in a hundred.
    pub fn edit_one_percent(&self) -> Result<()> {
        for index in (0..self.count).step_by(100) {
            let mut content = self.content(index);
            content.extend_from_slice(b"/* edited */\n");
            fs::write(self.path(index), content)?;
        }
        Ok(())
    }

    /// An error unless the first `files` files, or all, have the content that they began with.
    pub fn check_content(&self, files: usize) -> Result<()> {
        for index in 0..files.min(self.count) {
            let path = self.path(index);
            let now = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if now != self.content(index) {
                return Err(format!("{} does not have its content", path.display()).into());
            }
        }
        Ok(())
    }

    /// Changes three files and has `tool` revert that: an error unless they are as they were. Not measured.
    pub fn check_reverts(&self, tool: &mut dyn Reverter) -> Result<()> {
        let (edited, deleted) = (self.path(0), self.path(self.count - 1));
        let added = edited.with_extension("added");
        fs::write(&edited, "edited\n")?;
        fs::remove_file(&deleted)?;
        fs::write(&added, "added\n")?;
        tool.revert()?;
        for (index, path) in [(0, &edited), (self.count - 1, &deleted)] {
            if fs::read(path).ok().as_ref() != Some(&self.content(index)) {
                return Err(format!("{} did not revert {}", tool.name(), path.display()).into());
            }
        }
        if added.exists() {
            return Err(format!("{} left {}", tool.name(), added.display()).into());
        }
        Ok(())
    }
}
