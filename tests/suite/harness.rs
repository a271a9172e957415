//! A project in a temporary directory, the real binary, and exact snapshots of the tree.
//!
//! decree inherits only `PATH`.

pub mod git_in_front;
mod records;
pub mod skip;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A decree project that is gone when it goes out of scope.
pub struct Project {
    dir: tempfile::TempDir,
}

/// What a command printed, and its exit code.
pub struct CommandOutput {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl CommandOutput {
    #[track_caller]
    pub fn ok(self) -> CommandOutput {
        assert_eq!(self.code, 0, "stderr: {}", self.err);
        self
    }

    #[track_caller]
    pub fn fails(self, code: i32) -> CommandOutput {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.text(), self.err);
        self
    }

    /// Checks that standard error contains all of these.
    #[track_caller]
    pub fn mentions(self, words: &[&str]) -> CommandOutput {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// The first line of standard output.
    pub fn line(&self) -> String {
        self.text().lines().next().unwrap_or_default().to_owned()
    }
}

/// One entry of the tree, with all that a test may compare.
#[derive(Clone, PartialEq, Eq)]
pub enum TreeEntry {
    File { mode: u32, bytes: Vec<u8> },
    Link { target: Vec<u8> },
    Dir { mode: u32 },
    Other,
}

impl std::fmt::Debug for TreeEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TreeEntry::File { mode, bytes } => {
                let head = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
                write!(f, "file {mode:o} {} bytes {head:?}", bytes.len())
            }
            TreeEntry::Link { target } => write!(f, "link to {:?}", String::from_utf8_lossy(target)),
            TreeEntry::Dir { mode } => write!(f, "dir {mode:o}"),
            TreeEntry::Other => write!(f, "something else"),
        }
    }
}

/// Everything in a tree but its `.decree/` and `.git/` at the top.
pub type TreeSnapshot = BTreeMap<Vec<u8>, TreeEntry>;

impl Project {
    /// A fresh project, with nothing in it but `.decree/`.
    pub fn new() -> Project {
        let project = Project::bare();
        fs::create_dir(project.path(".decree")).unwrap();
        project
    }

    /// An empty directory.
    pub fn bare() -> Project {
        Project { dir: temp_dir() }
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the tree, from any bytes.
    pub fn path(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.root().join(OsStr::from_bytes(name.as_ref()))
    }

    /// Writes a file, making the directories above it.
    pub fn write(&self, name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    pub fn read(&self, name: impl AsRef<[u8]>) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn remove(&self, name: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        if path.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        self
    }

    pub fn mkdir(&self, name: impl AsRef<[u8]>) -> &Self {
        fs::create_dir_all(self.path(name)).unwrap();
        self
    }

    pub fn link(&self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(OsStr::from_bytes(target.as_ref()), path).unwrap();
        self
    }

    pub fn chmod(&self, name: impl AsRef<[u8]>, mode: u32) -> &Self {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    pub fn exists(&self, name: impl AsRef<[u8]>) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// The binary, ready to run here, with a clean environment.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_decree"));
        command
            .current_dir(self.root())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null());
        command
    }

    /// Runs decree.
    pub fn decree<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> CommandOutput {
        let mut command = self.command();
        command.args(args);
        run_command(&mut command)
    }

    /// Makes a checkpoint and returns its id.
    #[track_caller]
    pub fn checkpoint(&self) -> String {
        self.decree(["checkpoint", "create"]).ok().line()
    }

    /// The tree as it is.
    pub fn snapshot(&self) -> TreeSnapshot {
        snapshot(self.root())
    }

    /// A file of a checkpoint. What a revert to it recorded is in the checkpoint in which the last such revert saved the present.
    pub fn record(&self, id: &str, file: &str) -> PathBuf {
        let own = self.path(format!(".decree/checkpoints/{id}/{file}"));
        let of_revert = ["changes.diff", "result.json", "set-aside"].contains(&file) && !own.exists();
        match self.saved_by_revert(id).filter(|_| of_revert) {
            Some(saved) => self.path(format!(".decree/checkpoints/{saved}/{file}")),
            None => own,
        }
    }

    /// The id of the checkpoint in which the last revert to a checkpoint saved the present.
    pub fn saved_by_revert(&self, id: &str) -> Option<String> {
        let dirs = fs::read_dir(self.path(".decree/checkpoints")).ok()?.flatten().map(|entry| entry.path());
        let of_id = |dir: &PathBuf| {
            let text = fs::read(dir.join("result.json")).ok()?;
            let result: serde_json::Value = serde_json::from_slice(&text).ok()?;
            (result["id"] == id && !dir.ends_with(id)).then_some(())?;
            dir.join("checkpoint.json").metadata().ok()?.modified().ok()
        };
        let last = dirs.filter_map(|dir| Some((of_id(&dir)?, dir))).max()?.1;
        Some(last.file_name()?.to_str()?.to_owned())
    }
}

/// A temporary directory; in memory if it can be, as no test is about how slowly a disk syncs.
pub fn temp_dir() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    let memory = Path::new("/dev/shm");
    builder.prefix("decree-test-");
    if std::env::var_os("TMPDIR").is_none() && memory.is_dir() {
        builder.tempdir_in(memory).or_else(|_| builder.tempdir()).unwrap()
    } else {
        builder.tempdir().unwrap()
    }
}

/// Runs a command to its end.
pub fn run_command(command: &mut Command) -> CommandOutput {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{:?}: {error}; CONTRIBUTING.md lists what the tests need", command.get_program())
    });
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Everything in a directory but its `.decree/` and `.git/` at the top.
pub fn snapshot(root: &Path) -> TreeSnapshot {
    let mut picture = TreeSnapshot::new();
    let mut todo = vec![Vec::new()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(root.join(OsStr::from_bytes(&dir))).unwrap() {
            let entry = entry.unwrap();
            let mut path = dir.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(entry.file_name().as_bytes());
            if path == b".decree" || path == b".git" {
                continue;
            }
            let metadata = entry.path().symlink_metadata().unwrap();
            let mode = metadata.mode() & 0o7777;
            let thing = if metadata.is_symlink() {
                TreeEntry::Link { target: fs::read_link(entry.path()).unwrap().into_os_string().into_vec() }
            } else if metadata.is_dir() {
                todo.push(path.clone());
                TreeEntry::Dir { mode }
            } else if metadata.is_file() {
                TreeEntry::File { mode, bytes: fs::read(entry.path()).unwrap() }
            } else {
                TreeEntry::Other
            };
            picture.insert(path, thing);
        }
    }
    picture
}

/// Says what differs, instead of printing two whole trees.
#[track_caller]
pub fn assert_same(found: &TreeSnapshot, expected: &TreeSnapshot) {
    let mut differences = Vec::new();
    for path in found.keys().chain(expected.keys()).collect::<std::collections::BTreeSet<_>>() {
        let (is, should) = (found.get(path), expected.get(path));
        if is != should {
            differences.push(format!("{:?}: is {is:?}, should be {should:?}", String::from_utf8_lossy(path)));
        }
    }
    assert!(differences.is_empty(), "the trees differ:\n{}", differences.join("\n"));
}

/// How long a loaded machine may take for anything.
pub const LONG: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Waits for a file that a script makes, with something in it.
#[track_caller]
pub fn wait_for(file: &Path) {
    wait_until(&file.display().to_string(), || fs::metadata(file).is_ok_and(|file| file.len() > 0));
}
