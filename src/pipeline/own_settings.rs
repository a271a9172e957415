//! Settings and routines as they were before a run: `.decree/` is in no checkpoint, and yet a run that is put back leaves nothing
//! behind in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::own_places::{second_name, set_mode};
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::project::Layout;

/// Nobody's settings are longer than this.
const LONGEST: u64 = 1 << 20;

/// Their content and modes.
pub(super) struct OwnSettings {
    files: BTreeMap<PathBuf, Option<(u32, Vec<u8>)>>,
    single: [PathBuf; 2],
    dirs: [PathBuf; 2],
}

impl OwnSettings {
    /// Takes note of them.
    pub fn remember(layout: &Layout) -> Result<Self> {
        let mut own = OwnSettings {
            files: BTreeMap::new(),
            single: [layout.config(), layout.gitignore()],
            dirs: [layout.routines(), layout.cron()],
        };
        for path in own.present() {
            let metadata = fs::metadata(&path).at("read", &path)?;
            let mode = metadata.permissions().mode() & 0o7777;
            // What cannot be read is known to be there, and is nobody's to bring back.
            let content = (metadata.len() <= LONGEST).then(|| fs::read(&path).ok()).flatten();
            own.files.insert(path, content.map(|content| (mode, content)));
        }
        Ok(own)
    }

    /// What is there now and was not.
    pub fn added(&self) -> Vec<PathBuf> {
        self.present().into_iter().filter(|path| !self.files.contains_key(path)).collect()
    }

    /// Makes them what they were; what a routine made of them goes to `aside`. Returns what that was.
    pub fn put_back(&self, aside: &Path) -> Result<Vec<PathBuf>> {
        let mut changed = self.added();
        let edited = |path: &Path, was: &Option<_>| was.as_ref().is_some_and(|was| is_changed(path, was));
        changed
            .extend(self.files.iter().filter(|(path, was)| edited(path, was)).map(|(path, _)| path.clone()));
        for path in &changed {
            let was = self.files.get(path).and_then(Option::as_ref);
            set_aside(path, aside, was.is_some())?;
            if let Some((mode, content)) = was {
                let parent = path.parent().expect("settings are in a directory");
                fs::create_dir_all(parent).at("create", parent)?;
                atomic::write(path, content)?;
                set_mode(path, *mode)?;
            }
        }
        Ok(changed)
    }

    /// Every regular file among them; a link is whoever made it's.
    fn present(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = self.single.iter().filter(|path| is_file(path)).cloned().collect();
        let mut todo = self.dirs.to_vec();
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                    Ok(kind) if kind.is_file() => found.push(entry.path()),
                    _ => {}
                }
            }
        }
        found
    }
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

fn is_changed(path: &Path, (mode, content): &(u32, Vec<u8>)) -> bool {
    let same = |found: fs::Metadata| {
        found.permissions().mode() & 0o7777 == *mode && fs::read(path).is_ok_and(|now| now == *content)
    };
    !fs::metadata(path).is_ok_and(same)
}

fn set_aside(path: &Path, aside: &Path, replaced: bool) -> Result<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    fs::create_dir_all(aside).at("create", aside)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = (1..).map(|number| aside.join(format!(".decree-{number}-{}", name.trim_start_matches('.'))));
    let free = names.into_iter().find(|name| name.symlink_metadata().is_err());
    let free = free.expect("there is always another number");
    // What is about to be replaced stays until it is, in one step.
    match replaced && is_file(path) {
        true => second_name(path, &free),
        false => fs::rename(path, &free).at("move", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_made_of_settings_and_routines_does_not_outlive_it() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        fs::create_dir_all(layout.routines()).unwrap();
        let (develop, evil) = (layout.routines().join("develop.sh"), layout.routines().join("evil.sh"));
        fs::write(layout.config(), "max_retries: 1\n").unwrap();
        fs::write(&develop, "true\n").unwrap();
        let own = OwnSettings::remember(&layout).unwrap();
        fs::write(&develop, "false\n").unwrap();
        fs::write(&evil, "evil\n").unwrap();
        fs::remove_file(layout.config()).unwrap();
        assert_eq!(own.added(), [evil.as_path()]);
        let aside = dir.path().join("aside");
        assert_eq!(own.put_back(&aside).unwrap().len(), 3);
        assert_eq!(fs::read_to_string(&develop).unwrap(), "true\n");
        assert_eq!(fs::read_to_string(layout.config()).unwrap(), "max_retries: 1\n");
        assert!(!evil.exists());
        assert_eq!(fs::read_dir(&aside).unwrap().count(), 2);
        assert!(own.put_back(&aside).unwrap().is_empty());
    }
}
