//! A revert restores every byte, whatever was changed.
//!
//! A case is a tree, a change to it, and a [`RoundTrip`]: `diff` prints the change, `revert` undoes it, `apply`
//! does it again, a second `revert` undoes that; each time to the byte, the mode and the link's target.

mod attributes;
pub mod binary;
mod ignored;
mod large;
mod links;
mod modes;
mod names;
mod scope;
mod shapes;
mod sparse;
mod text;
mod time;
mod unprivileged;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::harness::{CommandOutput, Project, TreeEntry, TreeSnapshot, assert_same, run_command, snapshot};

/// The user and group that tests give up root for.
pub const NOBODY: u32 = 65534;

/// The ordinary case: everything comes back, and `apply` brings all of the change again.
#[track_caller]
pub fn round_trip(setup: impl FnOnce(&Project), mutate: impl FnOnce(&Project)) -> CompletedRoundTrip {
    RoundTrip::default().run(setup, mutate)
}

/// A round trip that is about to begin.
#[derive(Default)]
pub struct RoundTrip {
    aside: Vec<&'static str>,
    untouched: Vec<&'static str>,
    nobody: bool,
}

/// A round trip that went well.
pub struct CompletedRoundTrip {
    pub project: Project,
    pub id: String,
    /// What `decree diff` said of the change.
    pub diff: Vec<u8>,
    /// What the first `checkpoint create` said.
    pub created: CommandOutput,
    /// What the first `revert` said.
    pub reverted: CommandOutput,
}

impl CompletedRoundTrip {
    /// The diff as text.
    pub fn diff_text(&self) -> String {
        String::from_utf8_lossy(&self.diff).into_owned()
    }

    /// Whether the diff has a section of this path, or of something in it.
    pub fn diff_mentions(&self, path: &str) -> bool {
        let (itself, inside) = (format!(" \"{path}\" "), format!(" \"{path}/"));
        let text = self.diff_text();
        let mut notes = text.lines().filter(|line| line.starts_with("# decree-"));
        notes.any(|note| note.contains(&itself) || note.contains(&inside))
    }
}

/// An ordinary user cannot remove a temporary directory with read-only directories in it.
impl Drop for CompletedRoundTrip {
    fn drop(&mut self) {
        if !is_root() {
            make_removable(self.project.root());
        }
    }
}

fn make_removable(dir: &Path) {
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path());
        }
    }
}

impl RoundTrip {
    /// These are not in the diff; a revert moves them into the checkpoint's `set-aside/` and says so.
    pub fn setting_aside(mut self, paths: &[&'static str]) -> Self {
        self.aside = paths.to_vec();
        self
    }

    /// These are out of decree's reach: they stay as the mutation left them.
    pub fn not_touching(mut self, paths: &[&'static str]) -> Self {
        self.untouched = paths.to_vec();
        self
    }

    /// The tree and the decree that works on it belong to an ordinary user.
    pub fn unprivileged(mut self) -> Self {
        self.nobody = true;
        self
    }

    #[track_caller]
    pub fn run(self, setup: impl FnOnce(&Project), mutate: impl FnOnce(&Project)) -> CompletedRoundTrip {
        let project = Project::new();
        setup(&project);
        self.hand_over(&project);
        let original = look(&project);
        let created = self.decree(&project, &["checkpoint", "create"]).ok();
        let id = created.line();
        assert_same(&look(&project), &original);

        mutate(&project);
        self.hand_over(&project);
        let mutated = look(&project);
        assert!(original != mutated, "the mutation does nothing, so the test proves nothing");
        let restored = self.restored(&original, &mutated);
        let applied = without(&mutated, &self.aside);

        let diff = self.decree(&project, &["diff", &id]).ok().out;
        assert_same(&look(&project), &mutated);
        let reverted = self.decree(&project, &["revert", &id]).ok();
        assert_same(&look(&project), &restored);
        self.assert_set_aside(&project, &id, &mutated, &reverted);
        let recorded = fs::read(project.record(&id, "changes.diff")).unwrap();
        assert!(recorded == diff, "what was recorded is not what `decree diff` showed");
        let left = self.decree(&project, &["diff", &id]).ok();
        assert!(left.out.is_empty(), "after the revert the diff still says: {}", left.text());

        self.decree(&project, &["apply", &id]).ok();
        assert_same(&look(&project), &applied);
        let again = self.decree(&project, &["diff", &id]).ok().out;
        assert!(again == diff, "the diff after apply: {}", String::from_utf8_lossy(&again));
        self.decree(&project, &["revert", &id]).ok();
        assert_same(&look(&project), &restored);
        self.decree(&project, &["checkpoint", "verify", &id]).ok();
        CompletedRoundTrip { project, id, diff, created, reverted }
    }

    fn decree(&self, project: &Project, args: &[&str]) -> CommandOutput {
        let mut command = project.command();
        command.args(args);
        if self.nobody && is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        run_command(&mut command)
    }

    fn hand_over(&self, project: &Project) {
        if self.nobody {
            hand_over(project.root());
        }
    }

    /// The original, with what is out of reach as the mutation left it.
    fn restored(&self, original: &TreeSnapshot, mutated: &TreeSnapshot) -> TreeSnapshot {
        let mut restored = without(original, &self.untouched);
        for path in &self.untouched {
            restored.extend(below(mutated, path));
        }
        restored
    }

    #[track_caller]
    fn assert_set_aside(
        &self,
        project: &Project,
        id: &str,
        mutated: &TreeSnapshot,
        reverted: &CommandOutput,
    ) {
        let dir = project.record(id, "set-aside");
        if self.aside.is_empty() {
            assert!(!dir.exists(), "something was set aside: {}", reverted.err);
            return;
        }
        let kept = look_at(&dir);
        for path in &self.aside {
            assert_same(&below(&kept, path), &below(mutated, path));
            assert!(!below(&kept, path).is_empty(), "{path} is not in set-aside");
            assert!(reverted.err.contains(path), "{path} is not named in: {}", reverted.err);
        }
        let leaves =
            |picture: &TreeSnapshot| picture.values().filter(|t| !matches!(t, TreeEntry::Dir { .. })).count();
        let expected: usize = self.aside.iter().map(|path| leaves(&below(mutated, path))).sum();
        assert_eq!(leaves(&kept), expected, "more was set aside than expected: {kept:?}");
    }
}

/// What a picture has at `path` and in it.
pub fn below(picture: &TreeSnapshot, path: &str) -> TreeSnapshot {
    picture.iter().filter(|(known, _)| is_in(known, path)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// A picture without these paths and what is in them.
pub fn without(picture: &TreeSnapshot, paths: &[&str]) -> TreeSnapshot {
    let mut rest = picture.clone();
    rest.retain(|known, _| !paths.iter().any(|path| is_in(known, path)));
    rest
}

fn is_in(known: &[u8], path: &str) -> bool {
    known.strip_prefix(path.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Whether the tests have root's rights.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Gives a tree to the ordinary user, if the test runs as root.
pub fn hand_over(path: &Path) {
    let metadata = path.symlink_metadata().unwrap();
    if !is_root() {
        return;
    }
    // A change of owner takes set-id bits away, so it happens only where it has to.
    if metadata.uid() != NOBODY {
        lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            hand_over(&entry.unwrap().path());
        }
    }
}

/// The binary as the ordinary user runs it.
pub fn as_nobody(project: &Project, args: &[&str]) -> CommandOutput {
    RoundTrip::default().unprivileged().decree(project, args)
}

/// The tree as it is, even where its owner may not look.
pub fn look(project: &Project) -> TreeSnapshot {
    look_at(project.root())
}

fn look_at(root: &Path) -> TreeSnapshot {
    if is_root() {
        return snapshot(root);
    }
    let mut closed = Vec::new();
    open_up(root, &mut closed);
    let mut picture = snapshot(root);
    for (path, mode) in closed.into_iter().rev() {
        let name = path.strip_prefix(root).unwrap().as_os_str().to_owned().into_vec();
        if let Some(TreeEntry::File { mode: seen, .. } | TreeEntry::Dir { mode: seen }) =
            picture.get_mut(&name)
        {
            *seen = mode;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    picture
}

fn open_up(dir: &Path, closed: &mut Vec<(PathBuf, u32)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let wanted = if metadata.is_dir() { 0o500 } else { 0o400 };
        let mode = metadata.mode() & 0o7777;
        if !metadata.is_symlink() && mode & wanted != wanted {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode | wanted)).unwrap();
            closed.push((path.clone(), mode));
        }
        if metadata.is_dir() {
            open_up(&path, closed);
        }
    }
}

/// A name from any bytes, for messages and paths alike.
pub fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}
