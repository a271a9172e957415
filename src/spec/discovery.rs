//! Finds spec files.

use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};
use crate::fs::untrusted::{Problem, names_in, regular_file};
use crate::message::SPEC_EXTENSION;

/// A file that describes work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name in the tracker: `01-add-auth.spec.md`.
    pub file_name: String,
    /// Relative to the project: `specs/01-add-auth.spec.md`.
    pub path: PathBuf,
}

/// The specs of a project.
#[derive(Clone, Debug, Default)]
pub struct Specs {
    /// In the order of their file names, by bytes: the order in which they are processed.
    pub specs: Vec<Spec>,
    /// Files that are named like specs and cannot be used, in the same order; paths as in [`Spec::path`].
    pub problems: Vec<Problem>,
}

impl Specs {
    /// Lists a project's `specs/`. A missing directory has no specs, and hidden files are ignored.
    pub fn discover(dir: &Path) -> Result<Specs> {
        let shown = PathBuf::from(dir.file_name().unwrap_or(dir.as_os_str()));
        let mut found = Specs::default();
        for name in names_in(dir).at("read", dir)? {
            let bytes = name.as_encoded_bytes();
            if !bytes.ends_with(SPEC_EXTENSION.as_bytes()) || bytes.starts_with(b".") {
                continue;
            }
            let path = shown.join(&name);
            match check(&dir.join(&name), name.to_str()) {
                Ok(file_name) => found.specs.push(Spec { file_name, path }),
                Err(reason) => found.problems.push(Problem { path, reason }),
            }
        }
        Ok(found)
    }
}

impl Spec {
    /// The path as it is in `input_file` of a message.
    pub fn shown(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

/// The file's name if the spec can be read and tracked, or else the reason why not.
fn check(file: &Path, name: Option<&str>) -> Result<String, String> {
    let name = name.ok_or("its name is not UTF-8")?;
    if name.contains(['\n', '\r']) {
        return Err("its name has a line break, but the list of processed specs has one name per line".into());
    }
    regular_file(file).map(|()| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    fn project() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let specs = dir.path().join("specs");
        fs::create_dir(&specs).unwrap();
        (dir, specs)
    }

    #[test]
    fn specs_come_in_the_order_of_their_bytes() {
        let (_dir, specs) = project();
        for name in
            ["b.spec.md", "10.spec.md", "9.spec.md", "A.spec.md", "é.spec.md", "notes.md", ".x.spec.md"]
        {
            fs::write(specs.join(name), "x").unwrap();
        }
        fs::write(specs.join("processed-spec.md"), "").unwrap();
        symlink(specs.join("notes.md"), specs.join("link.spec.md")).unwrap();
        let found = Specs::discover(&specs).unwrap();
        let names: Vec<_> = found.specs.iter().map(|spec| spec.file_name.as_str()).collect();
        assert_eq!(names, ["10.spec.md", "9.spec.md", "A.spec.md", "b.spec.md", "link.spec.md", "é.spec.md"]);
        assert_eq!(found.specs[0].path, Path::new("specs/10.spec.md"));
        assert!(found.problems.is_empty());
    }

    #[test]
    fn a_missing_directory_has_no_specs() {
        let found = Specs::discover(Path::new("/nowhere/specs")).unwrap();
        assert!(found.specs.is_empty() && found.problems.is_empty());
    }

    #[test]
    fn an_unusable_spec_is_reported() {
        let (_dir, specs) = project();
        fs::create_dir(specs.join("dir.spec.md")).unwrap();
        symlink("nowhere", specs.join("gone.spec.md")).unwrap();
        symlink("loop.spec.md", specs.join("loop.spec.md")).unwrap();
        fs::write(specs.join("two\nlines.spec.md"), "x").unwrap();
        fs::write(specs.join(OsStr::from_bytes(b"\xff.spec.md")), "x").unwrap();
        let found = Specs::discover(&specs).unwrap();
        assert!(found.specs.is_empty());
        let reasons: Vec<_> = found.problems.iter().map(|problem| problem.reason.as_str()).collect();
        assert_eq!(reasons[..2], ["it is a directory", "it is a link to nothing"]);
        assert!(reasons[2].contains("symbolic links"), "{reasons:?}");
        assert!(reasons[3].contains("line break"), "{reasons:?}");
        assert_eq!(reasons[4], "its name is not UTF-8");
    }
}
