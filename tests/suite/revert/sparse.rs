//! Sparse files: what is rebuilt has holes where the content is zeros, and the diff does not spell them out.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::harness::{Project, run_command, temp_dir};

const MIB: u64 = 1 << 20;
/// Much more than a test wants to have on the disk.
const SIZE: u64 = 96 * MIB;
/// What a file with a few blocks of data may take, with what its file system needs.
const FEW_BLOCKS: u64 = 128 * 1024;

/// A file of this size that is all hole but for what is written into it.
fn sparse(path: &Path, size: u64, data: &[(u64, &[u8])]) {
    let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(size).unwrap();
    data.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
}

fn on_disk(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// The content is zeros and this data, and takes no more room than that.
#[track_caller]
fn assert_sparse(path: &Path, size: u64, data: &[(u64, &[u8])]) {
    let mut expected = vec![0; size as usize];
    data.iter().for_each(|(at, bytes)| expected[*at as usize..][..bytes.len()].copy_from_slice(bytes));
    let mut found = Vec::new();
    File::open(path).unwrap().read_to_end(&mut found).unwrap();
    assert!(found == expected, "{} has another content", path.display());
    assert!(on_disk(path) <= FEW_BLOCKS, "{} takes {} bytes", path.display(), on_disk(path));
}

const BEFORE: &[(u64, &[u8])] = &[(0, b"\0one"), (SIZE / 2 + 5000, b"middle"), (SIZE - 3, b"end")];
const AFTER: &[(u64, &[u8])] = &[(0, b"\0two"), (SIZE / 3, b"other"), (SIZE + 777, b"longer")];

/// REV-70. DIF-20.
#[test]
fn a_sparse_file_is_sparse_again_after_revert_apply_and_rollback() {
    let project = Project::new();
    let (changed, gone, made) = (project.path("changed"), project.path("gone"), project.path("made"));
    sparse(&changed, SIZE, BEFORE);
    sparse(&gone, SIZE + 1, &[(8192, b"data")]);
    let id = project.checkpoint();
    sparse(&changed, SIZE + 4096, AFTER);
    let after = [AFTER, &BEFORE[1..]].concat();
    fs::remove_file(&gone).unwrap();
    sparse(&made, SIZE, &[]);
    let diff = project.decree(["diff", &id]).ok().out;
    assert!(diff.len() < 200_000, "the diff has {} bytes", diff.len());

    project.decree(["revert", &id]).ok();
    assert_sparse(&changed, SIZE, BEFORE);
    assert_sparse(&gone, SIZE + 1, &[(8192, b"data")]);
    assert!(!made.exists());
    assert!(fs::metadata(project.record(&id, "changes.diff")).unwrap().len() == diff.len() as u64);

    project.decree(["apply", &id]).ok();
    assert_sparse(&changed, SIZE + 4096, &after);
    assert_sparse(&made, SIZE, &[]);
    assert!(!gone.exists());

    project.decree(["rollback", &id]).ok();
    assert_sparse(&changed, SIZE, BEFORE);
    assert_sparse(&gone, SIZE + 1, &[(8192, b"data")]);
    project.decree(["checkpoint", "verify", &id]).ok();
}

/// REV-70. A program may have filled the holes; then the content was not changed, and what it wrote is not touched.
#[test]
fn recover_restores_sparse_files_as_well() {
    let project = Project::new();
    let file = project.path("image");
    sparse(&file, SIZE, BEFORE);
    let id = project.checkpoint();
    fs::write(&file, b"\0short").unwrap();
    project.decree(["recover", &id]).ok();
    assert_sparse(&file, SIZE, BEFORE);
}

/// DIF-20. A log that was truncated while a program went on writing at its old position: text, then a hole.
#[test]
fn a_hole_in_a_text_file_is_not_a_line_of_the_diff() {
    let project = Project::new();
    let (log, small) = (project.path("log"), project.path("small"));
    let line = "a line of text\n".repeat(1000);
    sparse(&log, 0, &[(0, line.as_bytes()), (SIZE, b"the last line\n")]);
    sparse(&small, 0, &[(0, line.as_bytes()), (MIB, b"the last line\n")]);
    let id = project.checkpoint();
    let (before, before_small) = (fs::metadata(&log).unwrap().len(), fs::read(&small).unwrap());
    sparse(&log, 0, &[(0, b"A line"), (2 * SIZE, b"more\n")]);
    sparse(&small, 0, &[(0, b"A line")]);
    let diff = project.decree(["diff", &id]).ok().text();
    assert!(diff.len() < 200_000, "the diff has {} bytes", diff.len());
    assert!(!diff.contains('\0') && diff.contains("# decree-binary \"log\" ") && diff.contains("# zeros "));
    project.decree(["revert", &id]).ok();
    assert_sparse(&log, before, &[(0, line.as_bytes()), (SIZE, b"the last line\n")]);
    assert!(fs::read(&small).unwrap() == before_small);
}

/// DIF-20. In git's form, zlib has the zeros; git makes the file of it.
#[test]
fn git_takes_the_diff_of_a_sparse_file_in_its_own_form() {
    let size = 16 * MIB;
    let project = Project::new();
    let file = project.path("image");
    sparse(&file, size, &[(0, b"\0one")]);
    let id = project.checkpoint();
    sparse(&file, size + 1, &[(0, b"\0two"), (size / 2, b"data")]);
    let after = fs::read(&file).unwrap();
    let patch = project.decree(["diff", "--git", &id]).ok().out;
    assert!(patch.len() < 200_000, "the patch has {} bytes", patch.len());
    project.decree(["revert", &id]).ok();
    let dir = temp_dir();
    fs::write(dir.path().join("patch"), &patch).unwrap();
    for (options, expected) in [(&[][..], &after), (&["-R"], &fs::read(&file).unwrap())] {
        let mut git = std::process::Command::new("git");
        git.arg("apply").args(options).arg(dir.path().join("patch")).current_dir(project.root());
        run_command(git.env("GIT_DIR", "/nonexistent")).ok();
        assert!(fs::read(&file).unwrap() == *expected, "{options:?}");
    }
}
