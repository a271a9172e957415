//! Finds spec files and reads them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoContext, Result};
use crate::fs::untrusted::{Problem, regular_file};
use crate::message::Document;
use crate::yaml::Mistake;

/// The extension of a spec's file name.
const EXTENSION: &str = ".spec.md";

/// A file that describes work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name in the tracker: `01-add-auth.spec.md`.
    pub file_name: String,
    /// Relative to the project: `specs/01-add-auth.spec.md`.
    pub path: PathBuf,
    /// The path to read from.
    file: PathBuf,
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
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Specs::default()),
            result => result.at("read", dir)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.at("read", dir)?.file_name();
            let bytes = name.as_encoded_bytes();
            if bytes.ends_with(EXTENSION.as_bytes()) && !bytes.starts_with(b".") {
                names.push(name);
            }
        }
        names.sort();
        let shown = PathBuf::from(dir.file_name().unwrap_or(dir.as_os_str()));
        let mut found = Specs::default();
        for name in names {
            let (file, path) = (dir.join(&name), shown.join(&name));
            match check(&file, name.to_str()) {
                Ok(file_name) => found.specs.push(Spec { file_name, path, file }),
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

    /// Reads the spec; an error names the path and, if known, the line.
    pub fn read(&self) -> Result<Document> {
        let bytes = fs::read(&self.file).map_err(|error| {
            Error::project(format!("cannot read {}", self.path.display())).caused_by(error)
        })?;
        let document = match std::str::from_utf8(&bytes) {
            Ok(text) => Document::parse(text),
            Err(error) => Err(Mistake::not_utf8(&bytes, error)),
        };
        document.map_err(|mistake| mistake.in_file(self.path.display()))
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

    #[test]
    fn a_spec_is_read_and_its_mistakes_have_path_and_line() {
        let (_dir, specs) = project();
        fs::write(specs.join("a.spec.md"), "---\nroutine: develop\n---\n# Title\n").unwrap();
        fs::write(specs.join("b.spec.md"), "---\nroutine: [\n---\n").unwrap();
        fs::write(specs.join("c.spec.md"), b"# ok\n\xff\n").unwrap();
        let found = Specs::discover(&specs).unwrap().specs;
        assert_eq!(found[0].read().unwrap().get_text("routine").as_deref(), Some("develop"));
        let broken = found[1].read().unwrap_err();
        assert!(broken.to_string().starts_with("specs/b.spec.md:"), "{broken}");
        let bytes = found[2].read().unwrap_err();
        assert_eq!(
            (bytes.to_string().as_str(), bytes.kind().exit_code()),
            ("specs/c.spec.md:2: not UTF-8", 3)
        );
        fs::remove_file(specs.join("a.spec.md")).unwrap();
        assert!(found[0].read().unwrap_err().to_string().starts_with("cannot read specs/a.spec.md: "));
    }
}
