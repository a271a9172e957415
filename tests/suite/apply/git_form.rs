//! `diff --git`: the whole change, binary contents too, in the form that `git apply` takes. git itself is the judge.

use std::path::Path;
use std::process::Command;

use crate::harness::{
    CommandOutput, Project, TreeEntry, TreeSnapshot, assert_same, run_command, snapshot, temp_dir,
};
use crate::pipeline::pipeline_project::PipelineProject;

/// Bytes that cannot be compressed, with a NUL among the first.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut bytes: Vec<u8> = (0..length)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect();
    bytes.insert(0, 0);
    bytes
}

const STRANGE: [&[u8]; 5] = [b"with space", b"quo\"te\\", b"new\nline", b"latin-\xe9", "grün".as_bytes()];

fn before(project: &Project) {
    project.write("text", "a\nb\nc\n").write("crlf", "x\r\ny").write("gone.txt", "gone\n");
    project
        .write("bin/changed", noise(300_000, 1))
        .write("bin/gone", noise(100, 2))
        .write("bin/mode", noise(53, 3));
    project.write("bin/to-text", noise(52, 4)).write("to-bin", "plain\n").write("empty-to-bin", "");
    project.write("empty-gone", "").write("mode-only", "x\n").write("bin/only-mode", noise(9, 5));
    project.link("link", "old");
    for (number, name) in STRANGE.iter().enumerate() {
        project.write(name, noise(60, 10 + number as u64));
        project.write([name, &b".txt"[..]].concat(), "one\n");
    }
}

fn change(project: &Project) {
    project.write("text", "a\nB\nc\n").write("crlf", "x\r\nz").remove("gone.txt").write("new.txt", "new");
    project.write("bin/changed", noise(300_001, 6)).remove("bin/gone").write("bin/new", noise(7, 7));
    project.write("bin/mode", noise(54, 8)).chmod("bin/mode", 0o755).write("bin/to-text", "text\n");
    project
        .write("to-bin", noise(1, 9))
        .write("empty-to-bin", b"\0")
        .remove("empty-gone")
        .write("empty-new", "");
    project.chmod("mode-only", 0o755).chmod("bin/only-mode", 0o755).write("deep/er/new.bin", b"\0\0");
    project.remove("link").link("link", "new").link("new-link", "text");
    for (number, name) in STRANGE.iter().enumerate() {
        project.write(name, noise(61, 20 + number as u64));
        project.write([name, &b".txt"[..]].concat(), "two\n");
        project.write([name, &b".new"[..]].concat(), b"\0new");
    }
}

/// Outside of any repository: inside of one, git may silently apply nothing.
fn git(dir: &Path, args: &[&str]) -> CommandOutput {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).env("GIT_DIR", "/nonexistent").env("GIT_CONFIG_GLOBAL", "/dev/null");
    run_command(&mut command)
}

/// A copy of a tree, without decree's own files.
fn copy(tree: &TreeSnapshot) -> Project {
    let project = Project::bare();
    for (path, entry) in tree {
        match entry {
            TreeEntry::File { mode, bytes } => drop(project.write(path, bytes).chmod(path, *mode)),
            TreeEntry::Link { target } => drop(project.link(path, target)),
            TreeEntry::Dir { .. } => drop(project.mkdir(path)),
            TreeEntry::Other => panic!("nothing else is in these trees"),
        }
    }
    project
}

/// Applies a patch to a copy of a tree, forwards or in reverse, and compares the result.
#[track_caller]
fn check(from: &TreeSnapshot, to: &TreeSnapshot, patch: &[u8], options: &[&str]) {
    let (target, dir) = (copy(from), temp_dir());
    let file = dir.path().join("patch");
    std::fs::write(&file, patch).unwrap();
    let args = [&["apply", "--whitespace=nowarn"][..], options, &[file.to_str().unwrap()]].concat();
    git(target.root(), &args).ok();
    assert_same(&snapshot(target.root()), to);
}

/// DIF-11.
#[test]
fn git_applies_the_whole_change_forwards_and_in_reverse() {
    let project = Project::new();
    before(&project);
    let original = project.snapshot();
    let id = project.checkpoint();
    change(&project);
    let changed = project.snapshot();
    let patch = project.decree(["diff", "--git", &id]).ok().out;
    let text = String::from_utf8_lossy(&patch);
    assert!(!text.lines().any(|line| line.starts_with('#')), "it is git's format and nothing else");
    assert!(text.contains("GIT binary patch\nliteral 300002\n"), "{}", &text[..500]);
    check(&original, &changed, &patch, &[]);
    check(&changed, &original, &patch, &["-R"]);
    // git knows both sides by the hashes that the patch names.
    let index = text.split_once("diff --git a/bin/changed b/bin/changed\nindex ").unwrap().1;
    let (old, new) = index.lines().next().unwrap().strip_suffix(" 100644").unwrap().split_once("..").unwrap();
    let hash = |tree: &TreeSnapshot| {
        let copied = copy(tree);
        git(copied.root(), &["hash-object", "bin/changed"]).ok().line()
    };
    assert_eq!((old.to_owned(), new.to_owned()), (hash(&original), hash(&changed)));
}

/// DIF-11: a file that becomes a link, and the reverse.
#[test]
fn git_applies_a_binary_file_that_becomes_a_link_and_the_reverse() {
    for becomes_link in [true, false] {
        let project = Project::new();
        let write = |is_link: bool| {
            if is_link {
                project.link("a", "target");
            } else {
                project.write("a", noise(70, 1));
            }
        };
        write(!becomes_link);
        let original = project.snapshot();
        let id = project.checkpoint();
        project.remove("a");
        write(becomes_link);
        let changed = project.snapshot();
        let patch = project.decree(["diff", "--git", &id]).ok().out;
        check(&original, &changed, &patch, &[]);
        // git makes a plain file of a link that it restores, with its own diffs too.
        if becomes_link {
            check(&changed, &original, &patch, &["-R"]);
        }
    }
}

/// DIF-11.
#[test]
fn the_recorded_change_of_a_run_is_printed_for_git() {
    let project =
        PipelineProject::with("printf 'a\\0b' >image.bin; echo text >>notes.txt; printf '\\0' >new.bin");
    project.spec("01-x", "# X\n");
    let original = project.snapshot();
    project.process().ok();
    let changed = project.snapshot();
    let run = project.only_run();
    let patch = project.decree(["diff", "--git", &run]).ok().out;
    let tree = |tree: &TreeSnapshot| -> TreeSnapshot {
        // git knows no empty directories, and the tracker is no part of a change.
        let tracker = b"specs/processed-spec.md".to_vec();
        tree.clone().into_iter().filter(|(path, _)| *path != tracker).collect()
    };
    check(&tree(&original), &tree(&changed), &patch, &[]);
    assert_eq!(project.decree(["diff", "--git", "--attempt", "1", &run]).ok().out, patch);
    let only_binary = project.decree(["diff", "--git", "--stat", &run]);
    only_binary.fails(2);
}

/// DIF-12.
#[test]
fn what_git_cannot_express_is_named() {
    let project = Project::new();
    project.write("plain", "a\n").write("narrow", "b\n");
    let id = project.checkpoint();
    project.write("plain", "c\n");
    assert!(!project.decree(["diff", "--git", &id]).ok().err.contains("warning"));
    project.chmod("narrow", 0o600).mkdir("empty").write("key", "d\n").chmod("key", 0o640);
    let output = project.decree(["diff", "--git", &id]).ok();
    let output = output.mentions(&["not the whole change of empty, key, narrow;", "`decree apply`"]);
    assert!(String::from_utf8_lossy(&output.out).contains("+c"));
}
