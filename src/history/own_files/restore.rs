//! Files restored to a snapshot: decree's state, while other processes may go on writing it, and the settings of before a run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::area::{Area, OwnFile, key_of};
use super::quarantine::{free_place, set_aside};
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::project::Layout;
use crate::sanitize::truncate;

/// How often another process may write the same file before this gives up.
const MAX_TRIES: u32 = 5;
/// A larger file is known to be there, but not restored: no settings are this long.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// Makes the files what `wanted` has, where they are what `saved` has, which is in a checkpoint. Anything else in the way, because it is
/// no file or was written since, moves to `set_aside`. What neither of them has is left alone.
///
/// Returns what was moved, and where to. Called again after a kill, it finishes the rest.
pub fn restore(
    layout: &Layout,
    saved: &BTreeMap<PathBuf, OwnFile>,
    wanted: &BTreeMap<PathBuf, OwnFile>,
    set_aside: &Path,
) -> Result<Vec<(String, PathBuf)>> {
    let mut obstacles = Obstacles { layout, set_aside, moved: Vec::new() };
    for (path, file) in wanted.iter().filter(|(path, file)| saved.get(*path) != Some(file)) {
        obstacles.repair_parents(path)?;
        // A call that was killed may have restored it already.
        if file.is_at(path) {
            continue;
        }
        let mut staged = file.stage(path)?;
        obstacles.clear(path, saved.get(path))?;
        let mut tries = 0;
        while !staged.commit_new()? {
            tries += 1;
            if tries > MAX_TRIES {
                let path = layout.shown(path);
                return Err(Error::failed(format!("another process keeps writing {path}"))
                    .hint("stop that process, then run the same command again"));
            }
            obstacles.clear(path, None)?;
        }
    }
    for (path, file) in saved.iter().filter(|(path, _)| !wanted.contains_key(*path)) {
        obstacles.clear(path, Some(file))?;
    }
    Ok(obstacles.moved)
}

/// What stands in the way of files that are about to be written.
struct Obstacles<'o> {
    layout: &'o Layout,
    set_aside: &'o Path,
    moved: Vec<(String, PathBuf)>,
}

impl Obstacles<'_> {
    /// Moves away what stands in the place of a directory above a file, such as a link to somewhere else.
    fn repair_parents(&mut self, path: &Path) -> Result<()> {
        for dir in [Area::Inbox, Area::Done, Area::Dead].map(|area| area.path(self.layout)) {
            if path.starts_with(&dir) && dir.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
                self.quarantine(&dir)?;
            }
        }
        let parent = path.parent().expect("decree's own files are in directories");
        fs::create_dir_all(parent).at("create", parent)
    }

    /// Takes away what is at a path: deletes it if it is `saved`, else keeps it.
    ///
    /// It is moved first and compared then: what another process writes between a comparison and a deletion would be lost.
    fn clear(&mut self, path: &Path, saved: Option<&OwnFile>) -> Result<()> {
        let Some(to) = self.quarantine(path)? else { return Ok(()) };
        if saved.is_some_and(|saved| saved.is_at(&to)) {
            self.moved.pop();
            fs::remove_file(&to).at("remove", &to)?;
            // Fails if something else is in it, which is fine.
            let _ = fs::remove_dir(self.set_aside);
        }
        atomic::sync_parent(path)
    }

    fn quarantine(&mut self, path: &Path) -> Result<Option<PathBuf>> {
        let key = key_of(self.layout, path).into_owned();
        let name: String = key.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
        let kept = self.set_aside.join(truncate(name.trim_start_matches(".decree_"), 150));
        let to = move_to_free_name(path, |number| numbered(&kept, ".", number))?;
        self.moved.extend(to.clone().map(|to| (key, to)));
        Ok(to)
    }
}

/// The files of [`Area::SETTINGS`] at one moment: a reverted run leaves nothing behind in them.
pub struct SettingsSnapshot<'l> {
    layout: &'l Layout,
    /// `None` for a file that could not be read, or is too long.
    files: BTreeMap<PathBuf, Option<OwnFile>>,
}

/// Settings by key; `None` for a file that could not be read, or is too long.
pub type SettingsRecord = BTreeMap<String, Option<OwnFile>>;

impl<'l> SettingsSnapshot<'l> {
    pub fn read(layout: &'l Layout) -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in present(layout)? {
            let is_small = path.metadata().at("read", &path)?.len() <= MAX_SETTINGS_BYTES;
            let file = is_small.then(|| OwnFile::read(&path).ok()).flatten().flatten();
            files.insert(path, file);
        }
        Ok(SettingsSnapshot { layout, files })
    }

    /// The files by key, for a decree that follows this one if it is killed.
    pub fn to_record(&self) -> SettingsRecord {
        self.files.iter().map(|(path, file)| (key_of(self.layout, path).into_owned(), file.clone())).collect()
    }

    /// The files that a decree recorded which was killed. A key that leads elsewhere is left out.
    pub fn from_record(layout: &'l Layout, record: &SettingsRecord) -> SettingsSnapshot<'l> {
        let file = |(key, file): (&String, &Option<OwnFile>)| {
            let path = layout.root().join(OsStr::from_bytes(&quote::from_json(key)?));
            let is_plain = path.components().all(|part| part != Component::ParentDir);
            (is_plain && path.starts_with(layout.decree())).then(|| (path, file.clone()))
        };
        SettingsSnapshot { layout, files: record.iter().filter_map(file).collect() }
    }

    /// Names the files that differ or are new, for people, and keeps the former versions in `dir`.
    pub fn keep_former(&self, dir: &Path) -> Result<Vec<String>> {
        let mut named = Vec::new();
        for path in self.edited() {
            let Some(Some(file)) = self.files.get(&path) else { continue };
            let to = free_place(&path, dir);
            file.stage(&to)?.commit()?;
            let (path, to) = (self.layout.shown(&path), self.layout.shown(&to));
            named.push(format!("{path} (as it was: {to})"));
        }
        named.extend(self.added()?.iter().map(|path| format!("{} (new)", self.layout.shown(path))));
        Ok(named)
    }

    /// Files that are there now and were not.
    pub fn added(&self) -> Result<Vec<PathBuf>> {
        Ok(present(self.layout)?.into_iter().filter(|path| !self.files.contains_key(path)).collect())
    }

    /// Files that are not what they were.
    pub fn edited(&self) -> Vec<PathBuf> {
        let is_edited =
            |(path, file): &(&PathBuf, &Option<OwnFile>)| file.as_ref().is_some_and(|file| !file.is_at(path));
        self.files.iter().filter(is_edited).map(|(path, _)| path.clone()).collect()
    }

    /// Restores every file that differs; what was there moves to `dir`. Returns the paths that differed.
    pub fn restore(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let mut changed = self.added()?;
        for path in &changed {
            set_aside(path, dir, false)?;
        }
        for (path, file) in &self.files {
            if let Some(file) = file.as_ref().filter(|file| !file.is_at(path)) {
                set_aside(path, dir, true)?;
                file.stage(path)?.commit()?;
                changed.push(path.clone());
            }
        }
        Ok(changed)
    }
}

fn present(layout: &Layout) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for area in Area::SETTINGS {
        files.extend(area.files(layout)?.files);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_run_made_of_settings_and_routines_does_not_outlive_it() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        fs::create_dir_all(layout.routines()).unwrap();
        let (develop, evil) = (layout.routines().join("develop.sh"), layout.routines().join("evil.sh"));
        fs::write(layout.config(), "max_retries: 1\n").unwrap();
        fs::write(&develop, "true\n").unwrap();
        let settings = SettingsSnapshot::read(&layout).unwrap();
        fs::write(&develop, "false\n").unwrap();
        fs::write(&evil, "evil\n").unwrap();
        fs::remove_file(layout.config()).unwrap();
        assert_eq!(settings.added().unwrap(), [evil.as_path()]);
        let quarantine = dir.path().join("quarantine");
        assert_eq!(settings.restore(&quarantine).unwrap().len(), 3);
        assert_eq!(fs::read_to_string(&develop).unwrap(), "true\n");
        assert_eq!(fs::read_to_string(layout.config()).unwrap(), "max_retries: 1\n");
        assert!(!evil.exists());
        assert_eq!(fs::read_dir(&quarantine).unwrap().count(), 2);
        assert!(settings.restore(&quarantine).unwrap().is_empty());
    }
}
