//! decree's diffs, applied by `git apply` and `patch`, forwards and in reverse.
//!
//! The limits of these tools, which also apply to git's own diffs, are listed where a test allows for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::generate::{become_like, tree_of};
use super::harness::{
    CommandOutput, Project, TreeEntry, TreeSnapshot, assert_same, run_command, snapshot, temp_dir,
};

/// A program that takes diffs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Git,
    Patch,
}

const BOTH: [Tool; 2] = [Tool::Git, Tool::Patch];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forwards,
    Back,
}

impl Tool {
    fn take(self, dir: &Path, diff: &Path, way: Way) -> CommandOutput {
        let mut command = match self {
            Tool::Git => git(dir),
            Tool::Patch => clean(Command::new("patch"), dir),
        };
        match self {
            Tool::Git => command.arg("apply"),
            Tool::Patch => command.args(["-p1", "--no-backup-if-mismatch", "-s"]),
        };
        if way == Way::Back {
            command.arg("-R");
        }
        if self == Tool::Patch {
            command.arg("-i");
        }
        run_command(command.arg(diff))
    }
}

fn clean(mut command: Command, dir: &Path) -> Command {
    command
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null());
    command
}

/// Inside a repository that it finds, `git apply` may do nothing and be content; so it shall find none.
fn git(dir: &Path) -> Command {
    let mut command = clean(Command::new("git"), dir);
    command
        .env("GIT_DIR", "/nonexistent")
        .env("GIT_CEILING_DIRECTORIES", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

/// The tool makes `after` out of `before`, and the other way round.
#[track_caller]
pub fn assert_tool_agrees(tool: Tool, diff: &Path, before: &TreeSnapshot, after: &TreeSnapshot) {
    assert_takes(tool, diff, Way::Forwards, before, after);
    assert_takes(tool, diff, Way::Back, after, before);
}

#[track_caller]
fn assert_takes(tool: Tool, diff: &Path, way: Way, from: &TreeSnapshot, to: &TreeSnapshot) {
    let dir = temp_dir();
    become_like(dir.path(), from);
    let output = tool.take(dir.path(), diff, way);
    let text = String::from_utf8_lossy(&fs::read(diff).unwrap()).into_owned();
    assert_eq!(output.code, 0, "{tool:?} {way:?}: {}{}\n{text}", output.text(), output.err);
    let as_seen = |picture: &TreeSnapshot| as_tool_sees(tool, way, picture, from);
    assert_same(&as_seen(&snapshot(dir.path())), &as_seen(to));
}

/// A snapshot without what the tool does not distinguish.
fn as_tool_sees(tool: Tool, way: Way, picture: &TreeSnapshot, from: &TreeSnapshot) -> TreeSnapshot {
    let blur = |path: &Vec<u8>, thing: &TreeEntry| {
        // `git apply -R` brings what was deleted back as a plain file, also with git's own diffs.
        let plain = tool == Tool::Git && way == Way::Back && !from.contains_key(path);
        match thing {
            TreeEntry::Link { target } if plain => TreeEntry::File { mode: 0o644, bytes: target.clone() },
            TreeEntry::File { mode, bytes } => {
                let mode = if mode & 0o100 != 0 && !plain { 0o755 } else { 0o644 };
                TreeEntry::File { mode, bytes: bytes.clone() }
            }
            TreeEntry::Dir { .. } => TreeEntry::Dir { mode: 0o755 },
            other => other.clone(),
        }
    };
    picture.iter().map(|(path, thing)| (path.clone(), blur(path, thing))).collect()
}

/// `git apply --numstat` counts the lines of each path as decree does.
#[track_caller]
pub fn assert_counts_agree(diff: &Path, counted: &BTreeMap<Vec<u8>, (u64, u64)>) {
    let dir = temp_dir();
    let output = run_command(git(dir.path()).args(["apply", "--numstat", "-z"]).arg(diff)).ok();
    let number = |text: &[u8]| -> u64 { std::str::from_utf8(text).unwrap().parse().unwrap() };
    let by_git: BTreeMap<Vec<u8>, (u64, u64)> = output
        .out
        .split(|&byte| byte == 0)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut fields = line.splitn(3, |&byte| byte == b'\t');
            let mut next = || fields.next().unwrap();
            let counts = (number(next()), number(next()));
            (next().to_vec(), counts)
        })
        .collect();
    assert_eq!(&by_git, counted);
}

/// A change that decree wrote a diff of.
struct Changed {
    project: Project,
    id: String,
    before: TreeSnapshot,
    after: TreeSnapshot,
}

type TreeEntries<'t> = &'t [(&'t str, TreeEntry)];

impl Changed {
    fn new(before: TreeEntries<'_>, after: TreeEntries<'_>) -> Changed {
        let tree = |things: TreeEntries<'_>| {
            tree_of(things.iter().map(|(path, thing)| (path.as_bytes(), thing.clone())))
        };
        Changed::of(tree(before), tree(after))
    }

    fn of(before: TreeSnapshot, after: TreeSnapshot) -> Changed {
        let project = Project::new();
        become_like(project.root(), &before);
        let id = project.checkpoint();
        become_like(project.root(), &after);
        let diff = project.decree(["diff", &id]).ok().out;
        project.write(".decree/the.diff", &diff);
        Changed { project, id, before, after }
    }

    fn diff(&self) -> PathBuf {
        self.project.path(".decree/the.diff")
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.diff()).unwrap()).into_owned()
    }

    #[track_caller]
    fn both_tools_agree(&self) -> &Self {
        for tool in BOTH {
            assert_tool_agrees(tool, &self.diff(), &self.before, &self.after);
        }
        self
    }

    /// Both tools do the text part and leave `beyond`, which they cannot say, as it is.
    #[track_caller]
    fn both_tools_agree_but_for(&self, beyond: &[&str]) -> &Self {
        let leaving = |to: &TreeSnapshot, from: &TreeSnapshot| {
            let mut to = to.clone();
            for path in beyond.iter().map(|path| path.as_bytes()) {
                to.remove(path);
                to.extend(from.get(path).map(|thing| (path.to_vec(), thing.clone())));
            }
            to
        };
        for tool in BOTH {
            let (there, back) = (leaving(&self.after, &self.before), leaving(&self.before, &self.after));
            assert_takes(tool, &self.diff(), Way::Forwards, &self.before, &there);
            assert_takes(tool, &self.diff(), Way::Back, &self.after, &back);
        }
        self
    }
}

fn file(bytes: impl AsRef<[u8]>) -> TreeEntry {
    TreeEntry::File { mode: 0o644, bytes: bytes.as_ref().to_vec() }
}

fn program(bytes: impl AsRef<[u8]>) -> TreeEntry {
    TreeEntry::File { mode: 0o755, bytes: bytes.as_ref().to_vec() }
}

fn link(target: &str) -> TreeEntry {
    TreeEntry::Link { target: target.as_bytes().to_vec() }
}

fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

/// DIF-01.
#[test]
fn both_tools_take_a_new_a_deleted_and_a_modified_file() {
    Changed::new(
        &[("gone/deep/x", file("was\nhere\n")), ("kept", file("a\nb\nc\n"))],
        &[("kept", file("a\nB\nc\n")), ("new/deep/y", file("hello\n")), ("run", program("#!/bin/sh\n"))],
    )
    .both_tools_agree();
}

#[test]
fn both_tools_take_a_change_of_the_executable_bit_alone() {
    let change = Changed::new(
        &[("on", file("a\n")), ("off", program("b\n")), ("empty", file("")), ("both", file("x\n"))],
        &[("on", program("a\n")), ("off", file("b\n")), ("empty", program("")), ("both", program("y\n"))],
    );
    change.both_tools_agree();
    assert_eq!(change.text().matches("\nnew mode 100755\n").count(), 3);
}

#[test]
fn both_tools_take_a_new_empty_file() {
    Changed::new(&[("x", file("x\n"))], &[("x", file("x\n")), ("empty", file(""))]).both_tools_agree();
}

#[test]
fn both_tools_take_a_deleted_empty_file() {
    Changed::new(&[("x", file("x\n")), ("empty", file(""))], &[("x", file("x\n"))]).both_tools_agree();
}

#[test]
fn both_tools_take_a_file_that_becomes_empty_and_one_that_ceases_to_be() {
    Changed::new(
        &[("emptied", file("a\nb\n")), ("filled", file(""))],
        &[("emptied", file("")), ("filled", file("c\n"))],
    )
    .both_tools_agree();
}

#[test]
fn both_tools_take_files_without_a_final_newline() {
    let (with, without) = (file("a\nb\n"), file("a\nb"));
    Changed::new(
        &[
            ("gains", without.clone()),
            ("loses", with.clone()),
            ("keeps", without.clone()),
            ("gone", file("x")),
        ],
        &[("gains", with), ("loses", without), ("keeps", file("A\nb")), ("new", file("y"))],
    )
    .both_tools_agree();
}

#[test]
fn both_tools_keep_carriage_returns_and_bytes_that_are_not_utf_8() {
    Changed::new(
        &[("crlf", file("a\r\nb\r\nc\r\n")), ("latin", file(b"caf\xe9\nx\n")), ("cr", file("a\rb\nc\n"))],
        &[("crlf", file("a\r\nB\r\nc\n")), ("latin", file(b"caf\xe8\nx\n")), ("cr", file("a\rB\nc\n"))],
    )
    .both_tools_agree();
    Changed::new(&[("crlf", file("a\r\n"))], &[("new", file("x\r\ny\r\n"))]).both_tools_agree();
}

#[test]
fn both_tools_take_lines_that_look_like_a_diff() {
    let tricky = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-- \n\\ No newline at end of file\n# decree-end changes=0\n";
    Changed::new(
        &[("new-to-be", file("x\n")), ("removed", file(tricky)), ("changed", file(tricky))],
        &[("added", file(tricky)), ("changed", file(format!("{tricky}diff --git a/x b/x\n")))],
    )
    .both_tools_agree();
}

#[test]
fn both_tools_take_many_hunks() {
    let old = lines(2000);
    let new = (1..2000).step_by(37).fold(old.clone(), |text, n| {
        let line = format!("line {n}\n");
        match n % 3 {
            0 => text.replacen(&line, "", 1),
            1 => text.replacen(&line, &format!("{line}and more\n"), 1),
            _ => text.replacen(&line, "another\n", 1),
        }
    });
    let change = Changed::new(&[("long", file(old))], &[("long", file(new))]);
    change.both_tools_agree();
    assert!(change.text().matches("\n@@ -").count() > 40);
}

#[test]
fn both_tools_take_new_and_deleted_symlinks() {
    let change = Changed::new(
        &[("x", file("x\n")), ("d/gone", link("../x"))],
        &[("x", file("x\n")), ("new", link("x")), ("dangling", link("/no where"))],
    );
    change.both_tools_agree();
    assert!(change.text().contains("new file mode 120000"));
}

#[test]
fn both_tools_take_a_symlink_that_leads_elsewhere() {
    Changed::new(&[("l", link("old")), ("m", link("a/b"))], &[("l", link("new")), ("m", link("a\nb"))])
        .both_tools_agree();
}

/// `patch -R` cannot do it, with anybody's diff.
#[test]
fn a_file_that_becomes_a_symlink_is_taken_by_both_tools_and_given_back_by_git() {
    let change = Changed::new(&[("x", file("a\nb\n"))], &[("x", link("elsewhere"))]);
    assert_tool_agrees(Tool::Git, &change.diff(), &change.before, &change.after);
    assert_takes(Tool::Patch, &change.diff(), Way::Forwards, &change.before, &change.after);
}

/// patch cannot do it, with anybody's diff.
#[test]
fn a_file_that_becomes_a_directory_is_taken_by_git() {
    let change = Changed::new(&[("x", file("a\n"))], &[("x/y", file("b\n"))]);
    assert_tool_agrees(Tool::Git, &change.diff(), &change.before, &change.after);
}

/// Every way in which a name can stand in a diff: with and without hunks, with and without `/dev/null`.
fn change_everything_of(name: &[u8]) -> Changed {
    let named = |what: &str| [what.as_bytes(), b"/", name].concat();
    let tree = |things: Vec<(&str, TreeEntry)>| {
        let things: Vec<(Vec<u8>, TreeEntry)> =
            things.into_iter().map(|(what, thing)| (named(what), thing)).collect();
        tree_of(things.iter().map(|(path, thing)| (&path[..], thing.clone())))
    };
    let before = tree(vec![
        ("modified", file("a\n")),
        ("mode", file("b\n")),
        ("deleted", file("c\n")),
        ("deleted-empty", file("")),
        ("link", link("old")),
    ]);
    let after = tree(vec![
        ("modified", file("A\n")),
        ("mode", program("b\n")),
        ("new", file("d\n")),
        ("new-empty", file("")),
        ("link", link("new")),
    ]);
    Changed::of(before, after)
}

#[test]
fn both_tools_find_files_by_odd_names() {
    let names: [&[u8]; 16] = [
        b"sp ace",
        b" lead and trail ",
        b"qu\"ote",
        b"back\\slash",
        b"\\101",
        b"tab\there",
        b"bell\x07 del\x7f",
        b"cr\r",
        b"new\nline",
        b"new\n--- a/modified/x\n+++ b/x",
        "gr\u{fc}n \u{65e5}\u{672c}".as_bytes(),
        b"caf\xe9",
        b"-rf",
        b"a b/c d",
        b"*?[x]{y}",
        b"b/b/a/a",
    ];
    for name in names {
        change_everything_of(name).both_tools_agree();
    }
}

#[test]
fn both_tools_find_files_by_long_names() {
    change_everything_of(&[b'x'; 200]).both_tools_agree();
}

/// DIF-03.
#[test]
fn both_tools_do_the_text_part_of_a_change_with_binary_files() {
    let change = Changed::new(
        &[
            ("a.bin", file(b"\0old")),
            ("b.txt", file("a\nb\n")),
            ("c.bin", file(b"\0gone")),
            ("d.txt", file("x\n")),
        ],
        &[
            ("a.bin", file(b"\0new")),
            ("b.txt", file("a\nB\n")),
            ("d.txt", program("y\n")),
            ("e.bin", file(b"\0")),
        ],
    );
    let text = change.text();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} is not in\n{text}"));
    assert!(
        at("# decree-binary \"a.bin\"") < at("diff --git") && at("# decree-binary \"e.bin\"") > at("+y\n")
    );
    change.both_tools_agree_but_for(&["a.bin", "c.bin", "e.bin"]);
}

/// DIF-20.
#[test]
fn both_tools_skip_lines_of_zeros_and_take_the_text_around_them() {
    let zeros = |blocks: usize, end: &str| file([&vec![0; blocks * 4096], end.as_bytes()].concat());
    let change = Changed::new(
        &[
            ("a.txt", file("a\n")),
            ("b.bin", zeros(20, "x")),
            ("c.txt", file("c\n")),
            ("d.bin", zeros(16, "")),
        ],
        &[
            ("a.txt", file("A\n")),
            ("b.bin", zeros(30, "y")),
            ("c.txt", file("C\n")),
            ("e.bin", zeros(18, "-z\n")),
        ],
    );
    let text = change.text();
    for count in [20, 30, 16, 18] {
        assert!(text.contains(&format!("\n# zeros {}\n", count * 4096)), "{text}");
    }
    assert!(text.len() < 4096, "{text}");
    change.both_tools_agree_but_for(&["b.bin", "d.bin", "e.bin"]);
}

#[test]
fn a_name_in_a_comment_cannot_smuggle_in_a_section() {
    let evil = "x\ndiff --git a|evil b|evil\nnew file mode 100644\n--- |dev|null\n+++ b|evil\n@@ -0,0 +1 @@\n+evil\n";
    let change = Changed::new(
        &[("a", file("a\n")), (evil, file(b"\0old"))],
        &[("a", file("b\n")), (evil, file(b"\0new"))],
    );
    change.both_tools_agree_but_for(&[evil]);
}

#[test]
fn both_tools_skip_what_only_decree_can_say_between_and_around_the_sections() {
    let dir = |mode| TreeEntry::Dir { mode };
    let secret = |bytes: &str| TreeEntry::File { mode: 0o600, bytes: bytes.into() };
    let change = Changed::new(
        &[("a-mode", file("m\n")), ("b", file("x\n")), ("c-dir", dir(0o755)), ("c-dir/x", file("1\n"))],
        &[("a-mode", secret("m\n")), ("b", file("y\n")), ("c-dir", dir(0o700)), ("c-dir/x", secret("2\n"))],
    );
    let text = change.text();
    assert!(text.contains("# decree-mode \"a-mode\"") && text.contains("# decree-dir \"c-dir\""), "{text}");
    change.both_tools_agree();
}

/// Long enough to be streamed, and with a NUL only after the bytes that are searched for one.
#[test]
fn both_tools_take_texts_that_are_large_or_have_a_late_nul() {
    let big = lines(500_000);
    let late = lines(2000) + "\0\n";
    Changed::new(
        &[("big", file(&big)), ("late", file(&late))],
        &[
            ("big", file(big.replacen("line 250000\n", "changed\n", 1) + "no newline")),
            ("late", file(late.replacen("line 1990\n", "changed\n", 1))),
        ],
    )
    .both_tools_agree();
}

#[test]
fn decree_counts_lines_as_git_does() {
    let change = Changed::new(
        &[("edited", file(lines(50))), ("gone", file("1\n2\n3")), ("mode", file("x\n")), ("l", link("old"))],
        &[
            ("edited", file(lines(60).replacen("line 7\n", "seven\n", 1).replacen("line 30\n", "", 1))),
            ("mode", program("x\n")),
            ("l", link("new")),
            ("new", file("a\nb")),
            ("new-empty", file("")),
        ],
    );
    change.project.decree(["revert", &change.id]).ok();
    let result = fs::read(change.project.record(&change.id, "result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
    let count =
        |value: &serde_json::Value| (value["added"].as_u64().unwrap(), value["removed"].as_u64().unwrap());
    let counted: BTreeMap<Vec<u8>, (u64, u64)> = result["changes"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, value)| (path.clone().into_bytes(), count(value)))
        .collect();
    assert_eq!(counted[&b"edited"[..]], (11, 2));
    assert_counts_agree(&change.diff(), &counted);

    let (added, removed) = count(&result);
    let dir = temp_dir();
    let stat = run_command(git(dir.path()).args(["apply", "--stat"]).arg(change.diff())).ok().text();
    let total = format!("{added} insertions(+), {removed} deletions(-)");
    assert!(stat.contains(&total), "not {total} but {stat}");
}
