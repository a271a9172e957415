//! Changes the tree as an agent would, and checks that a revert took all of it back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Result;
use super::random::Random;
use super::text;
use super::tree::Tree;

/// How many files a change touches where the tree is large enough.
const CHANGED_FILES: usize = 200;

/// The change of one round: which files are edited, added and deleted, and their content before.
pub struct Change {
    round: usize,
    edited: BTreeMap<PathBuf, Vec<u8>>,
    deleted: BTreeMap<PathBuf, Vec<u8>>,
    added: BTreeSet<PathBuf>,
}

impl Change {
    /// Plans the change of a round without touching anything: one file in twenty is added and one deleted.
    pub fn plan(tree: &Tree, round: usize) -> Result<Self> {
        let candidates = tree.text_files();
        let count = CHANGED_FILES.min(tree.len() / 4);
        let few = (count / 20).max(1);
        let mut random = Random::for_item(0xed, round);
        let mut chosen = BTreeSet::new();
        while chosen.len() < count {
            chosen.insert(random.below(candidates.len()));
        }
        let mut change =
            Self { round, edited: BTreeMap::new(), deleted: BTreeMap::new(), added: BTreeSet::new() };
        for (position, index) in chosen.into_iter().enumerate() {
            let path = tree.root().join(candidates[index]);
            // Spread over the tree, like the edits among which they stand.
            match position % (count / few) {
                0 => {
                    change.added.insert(path.with_extension(format!("new{round}.c")));
                }
                1 => {
                    change.deleted.insert(path.clone(), fs::read(&path)?);
                }
                _ => {
                    change.edited.insert(path.clone(), fs::read(&path)?);
                }
            }
        }
        Ok(change)
    }

    pub fn len(&self) -> usize {
        self.edited.len() + self.deleted.len() + self.added.len()
    }

    /// Makes the change; every time it is made, it is the same.
    pub fn make(&self) -> io::Result<()> {
        let mut random = Random::for_item(0xee, self.round);
        for (path, before) in &self.edited {
            fs::write(path, edit_lines(before, &mut random))?;
        }
        for path in &self.added {
            let mut content = Vec::new();
            for _ in 0..100 {
                text::write_edit(&mut content, &mut random);
            }
            fs::write(path, content)?;
        }
        for path in self.deleted.keys() {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// An error unless every file that the change touched is as it was.
    pub fn check_reverted(&self) -> Result<()> {
        for (path, before) in self.edited.iter().chain(&self.deleted) {
            let now = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            if now != *before {
                return Err(format!("{} did not get its content back", path.display()).into());
            }
        }
        for path in &self.added {
            if path.exists() {
                return Err(format!("{} was added and is still there", path.display()).into());
            }
        }
        Ok(())
    }
}

/// Replaces, inserts or drops lines in one to four places.
fn edit_lines(before: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = before.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..=random.below(4) {
        let place = random.below(lines.len());
        let mut new_lines = Vec::new();
        text::write_edit(&mut new_lines, random);
        match random.below(3) {
            0 if lines.len() > 1 => drop(lines.remove(place)),
            1 => lines[place] = new_lines,
            _ => lines.insert(place, new_lines),
        }
    }
    // Places can meet, and the last edit undo the first.
    if lines.concat() == before {
        text::write_edit(lines.last_mut().expect("no text file is empty"), random);
    }
    lines.concat()
}

/// Type, permissions and size of everything in the tree but decree's own directory and directories.
#[derive(PartialEq, Eq)]
pub struct Listing(BTreeMap<PathBuf, (u32, u64)>);

impl Listing {
    pub fn of(root: &Path) -> io::Result<Self> {
        let mut entries = BTreeMap::new();
        let mut pending = vec![root.to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                let metadata = path.symlink_metadata()?;
                if !metadata.is_dir() {
                    entries.insert(path, (metadata.mode(), metadata.len()));
                } else if !path.ends_with(".decree") {
                    pending.push(path);
                }
            }
        }
        Ok(Self(entries))
    }

    /// An error that names the first entry that is not the same in both.
    pub fn check_same(&self, now: &Self) -> Result<()> {
        let differs = |(path, entry): &(&PathBuf, &(u32, u64))| now.0.get(*path) != Some(*entry);
        let lost = self.0.iter().find(differs).map(|(path, _)| path);
        let extra = || now.0.keys().find(|path| !self.0.contains_key(*path));
        match lost.or_else(extra) {
            Some(path) => Err(format!("{} is not as it was", path.display()).into()),
            None => Ok(()),
        }
    }
}
