//! `stage` in one project, `apply --from` in another.

mod applying;
mod hostile;
mod staging;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::pipeline::pipeline_project::PipelineProject;

/// A secret that must not appear in an artifact.
pub const SECRET: &str = "sk-live-0123456789";

/// Changes a file of every kind.
pub const CHANGES: &str = r#"
case ${spec_file:-} in
*02*) echo "second" >>notes.txt; exit 0 ;;
esac
printf 'one\r\nchanged' >notes.txt
printf '\0\1\2\3' >image.bin
rm docs/guide.md
mkdir -p deep/er && echo new >deep/er/new.txt
chmod 755 notes.txt
ln -sfn elsewhere link
"#;

/// A project in which two specs were carried out, and the same project before that.
pub fn worked() -> (PipelineProject, PipelineProject) {
    let make = || {
        let project = PipelineProject::with(CHANGES);
        project.spec("01-change", "Change\n").spec("02-more", "More\n");
        project
    };
    let (here, there) = (make(), make());
    here.process().ok();
    (here, there)
}

/// Stages into a directory of its own.
pub fn staged(project: &PipelineProject) -> (tempfile::TempDir, PathBuf) {
    let dir = crate::harness::temp_dir();
    let target = dir.path().join("artifact");
    project.decree(["stage", target.to_str().unwrap()]).ok();
    (dir, target)
}

/// Every file below, by its name from there.
pub fn files(root: &Path) -> Vec<String> {
    fn walk(dir: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, found)
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned())
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}

/// An archive as GitHub hands it out: everything below `root`, compressed.
pub fn archive(root: &Path, target: &Path) {
    let mut zip = zip::ZipWriter::new(File::create(target).unwrap());
    for name in files(root) {
        zip.start_file(&name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&fs::read(root.join(name)).unwrap()).unwrap();
    }
    zip.finish().unwrap();
}
