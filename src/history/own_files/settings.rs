//! Settings and routines as they were before a run, so that a reverted run leaves nothing behind in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::area::Area;
use super::file::OwnFile;
use super::quarantine::set_aside;
use crate::error::{IoContext, Result};
use crate::project::Layout;

/// A larger file is known to be there, but not restored: no settings are this long.
const MAX_BYTES: u64 = 1 << 20;

/// The files of [`Area::SETTINGS`] at one moment.
pub struct SettingsSnapshot<'l> {
    layout: &'l Layout,
    /// `None` for a file that could not be read, or is too long.
    files: BTreeMap<PathBuf, Option<OwnFile>>,
}

impl<'l> SettingsSnapshot<'l> {
    pub fn read(layout: &'l Layout) -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in present(layout)? {
            let is_small = path.metadata().at("read", &path)?.len() <= MAX_BYTES;
            let file = is_small.then(|| OwnFile::read(&path).ok()).flatten().flatten();
            files.insert(path, file);
        }
        Ok(SettingsSnapshot { layout, files })
    }

    /// Files that are there now and were not.
    pub fn added(&self) -> Result<Vec<PathBuf>> {
        Ok(present(self.layout)?.into_iter().filter(|path| !self.files.contains_key(path)).collect())
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
