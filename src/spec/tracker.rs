//! `specs/processed-spec.md`: the processed specs, one file name per line.
//!
//! Users edit it too: comments, bullets and blank lines are allowed, and decree preserves all other lines byte for byte.

use std::path::Path;

use crate::checkpoint::path::TRACKER;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, untrusted};
use crate::yaml::Mistake;

/// The text of the tracker file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracker {
    pub text: String,
}

impl Tracker {
    /// Reads the file; a missing one is an empty list.
    pub fn read(path: &Path) -> Result<Tracker> {
        let Some(bytes) = untrusted::read(path).if_exists().at("read", path)? else {
            return Ok(Tracker::default());
        };
        String::from_utf8(bytes).map(|text| Tracker { text }).map_err(|error| {
            let utf8 = error.utf8_error();
            Mistake::not_utf8(error.as_bytes(), utf8).in_file(TRACKER)
        })
    }

    /// Whether the spec with this file name is listed.
    pub fn contains(&self, name: &str) -> bool {
        self.text.lines().any(|line| names_spec(line, name))
    }

    /// All listed file names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(entry).filter(|entry| !entry.is_empty() && !entry.starts_with('#'))
    }

    /// Adds a spec to the file. Returns `false` if it was already listed.
    pub fn append(path: &Path, name: &str) -> Result<bool> {
        if name.is_empty() || name.contains(['\n', '\r']) {
            return Err(Error::project(format!("{name:?} cannot be a line of {TRACKER}")));
        }
        let mut tracker = Tracker::read(path)?;
        let added = tracker.add(name);
        if added {
            // A routine may have deleted every spec, and the directory with them.
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir).at("create", dir)?;
            }
            atomic::write_public(path, tracker.text.as_bytes())?;
        }
        Ok(added)
    }

    /// Adds a spec in memory. Returns `false` if it was already listed.
    pub fn add(&mut self, name: &str) -> bool {
        if self.contains(name) {
            return false;
        }
        let text = &mut self.text;
        let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
        if !text.is_empty() && !text.ends_with('\n') && text != "\u{feff}" {
            text.push_str(ending);
        }
        text.push_str(name);
        text.push_str(ending);
        true
    }

    /// Removes a spec from the file. Returns `false` if it was not listed.
    pub fn remove(path: &Path, name: &str) -> Result<bool> {
        let Tracker { text } = Tracker::read(path)?;
        let kept: String = text.split_inclusive('\n').filter(|line| !names_spec(line, name)).collect();
        if kept == text {
            return Ok(false);
        }
        atomic::write_public(path, kept.as_bytes())?;
        Ok(true)
    }
}

/// Whether a line names this spec, with or without a bullet. The whole line counts too, because a file may be named
/// `#1.spec.md`.
fn names_spec(line: &str, name: &str) -> bool {
    let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r']);
    !name.is_empty() && (line == name || line.trim() == name || entry(line) == name)
}

/// A line without surrounding blanks and its bullet.
fn entry(line: &str) -> &str {
    let line = line.trim_start_matches('\u{feff}').trim();
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).map_or(line, str::trim)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tracker_file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("processed-spec.md");
        fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn users_may_edit_the_list() {
        let (_dir, path) = tracker_file(
            "\u{feff}a.spec.md\r\n# a comment\n\n- b.spec.md\n  * c.spec.md  \n# d.spec.md\n#e.spec.md",
        );
        let tracker = Tracker::read(&path).unwrap();
        for name in ["a.spec.md", "b.spec.md", "c.spec.md", "#e.spec.md"] {
            assert!(tracker.contains(name), "{name}");
        }
        for name in ["d.spec.md", "e.spec.md", "", "a", "comment"] {
            assert!(!tracker.contains(name), "{name}");
        }
        assert_eq!(tracker.names().collect::<Vec<_>>(), ["a.spec.md", "b.spec.md", "c.spec.md"]);
    }

    #[test]
    fn a_processed_spec_is_added_once_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("processed-spec.md");
        assert!(!Tracker::read(&path).unwrap().contains("a.spec.md"));
        assert!(Tracker::append(&path, "a.spec.md").unwrap());
        assert!(Tracker::append(&path, "b.spec.md").unwrap());
        assert!(!Tracker::append(&path, "a.spec.md").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a.spec.md\nb.spec.md\n");
        assert!(Tracker::append(&path, "two\nlines").is_err());
    }

    #[test]
    fn the_rest_of_the_file_stays_byte_for_byte() {
        for (before, after) in [
            ("# done\n\n- a.spec.md", "# done\n\n- a.spec.md\nnew.spec.md\n"),
            ("a.spec.md\r\n", "a.spec.md\r\nnew.spec.md\r\n"),
            ("  odd  \n\n\n", "  odd  \n\n\nnew.spec.md\n"),
            ("", "new.spec.md\n"),
        ] {
            let (_dir, path) = tracker_file(before);
            assert!(Tracker::append(&path, "new.spec.md").unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
    }

    #[test]
    fn a_reverted_spec_is_removed() {
        let (_dir, path) = tracker_file("# done\r\na.spec.md\r\n- b.spec.md\r\na.spec.md");
        assert!(Tracker::remove(&path, "a.spec.md").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "# done\r\n- b.spec.md\r\n");
        assert!(!Tracker::remove(&path, "a.spec.md").unwrap());
        assert!(!Tracker::remove(Path::new("/nowhere/processed-spec.md"), "a.spec.md").unwrap());
    }

    #[test]
    fn invalid_utf8_is_an_error_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("specs/processed-spec.md");
        fs::create_dir(dir.path().join("specs")).unwrap();
        fs::write(&path, b"a\n\xff\n").unwrap();
        let error = Tracker::append(&path, "b").unwrap_err();
        assert_eq!(error.to_string(), "specs/processed-spec.md:2: not UTF-8");
        assert_eq!(error.kind().exit_code(), 3);
        assert_eq!(fs::read(&path).unwrap(), b"a\n\xff\n");
    }
}
