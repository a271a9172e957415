//! decree needs no other program: no git, no patch, no shell.

use super::generate::{become_like, tree_of};
use super::harness::{CommandOutput, Project, TreeEntry, TreeSnapshot, assert_same, run_command};

/// A machine on which no program can be found.
struct Bare {
    project: Project,
    empty: tempfile::TempDir,
}

impl Bare {
    fn new() -> Bare {
        Bare { project: Project::bare(), empty: tempfile::tempdir().unwrap() }
    }

    #[track_caller]
    fn decree(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.project.command();
        run_command(command.env("PATH", self.empty.path()).args(args)).ok()
    }
}

fn tree(things: &[(&str, TreeEntry)]) -> TreeSnapshot {
    tree_of(things.iter().map(|(path, thing)| (path.as_bytes(), thing.clone())))
}

fn file(mode: u32, bytes: &[u8]) -> TreeEntry {
    TreeEntry::File { mode, bytes: bytes.to_vec() }
}

/// CHK-07.
#[test]
fn every_command_works_where_no_other_program_can_be_found() {
    let bare = Bare::new();
    bare.decree(&["init"]);
    let specs = ("specs", TreeEntry::Dir { mode: 0o755 });
    let before = tree(&[
        specs.clone(),
        ("text", file(0o644, b"one\ntwo\n")),
        ("binary", file(0o644, b"\0old")),
        ("deleted/deep", file(0o755, b"gone\n")),
        ("link", TreeEntry::Link { target: b"text".to_vec() }),
    ]);
    let after = tree(&[
        specs,
        ("text", file(0o600, b"one\n2\n")),
        ("binary", file(0o644, b"\0new")),
        ("link", TreeEntry::Link { target: b"binary".to_vec() }),
        ("new/empty", TreeEntry::Dir { mode: 0o755 }),
    ]);
    become_like(bare.project.root(), &before);
    let id = bare.decree(&["checkpoint", "create", "--reason", "to go back to"]).line();
    assert!(bare.decree(&["checkpoint", "list"]).text().contains("to go back to"));
    assert!(bare.decree(&["checkpoint", "show", &id, "--files"]).text().contains("deleted/deep"));
    assert!(bare.decree(&["checkpoint", "verify", "--all"]).text().contains(&id));

    become_like(bare.project.root(), &after);
    assert!(bare.decree(&["diff", &id]).text().contains("\n-two\n+2\n"));
    assert!(bare.decree(&["diff", &id, "--stat"]).text().contains("deleted/deep"));
    bare.decree(&["revert", &id]);
    assert_same(&bare.project.snapshot(), &before);
    bare.decree(&["apply", &id]);
    assert_same(&bare.project.snapshot(), &after);
}
