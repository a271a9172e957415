//! What decree's ignore rules show is what git shows, pattern for pattern.
//!
//! The oracle is `git ls-files -o --exclude-standard` in a fresh repository, made in a copy of the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use decree::quote;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::generate::{become_like, cases, config, tree_of};
use super::harness::{Project, TreeEntry, TreeSnapshot, run_command, temp_dir};

type Paths = BTreeSet<Vec<u8>>;

/// The files and links that a checkpoint of this tree holds.
fn seen_by_decree(tree: &TreeSnapshot) -> Paths {
    let project = Project::new();
    become_like(project.root(), tree);
    let id = project.checkpoint();
    let manifest = fs::read(project.record(&id, "manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let entries = manifest["files"].as_object().unwrap().iter();
    entries
        .filter(|(_, node)| node["type"] != "dir")
        .map(|(path, _)| quote::from_json(path).unwrap().into_owned())
        .collect()
}

/// The files and links that git would add.
fn seen_by_git(tree: &TreeSnapshot) -> Paths {
    let dir = temp_dir();
    become_like(dir.path(), tree);
    run_command(git(dir.path()).args(["init", "-q", "--template="])).ok();
    let listed = run_command(git(dir.path()).args(["ls-files", "-o", "--exclude-standard", "-z"])).ok().out;
    listed.split(|&byte| byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
}

/// git, without anybody's settings.
fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", dir)
        .stdin(Stdio::null());
    command
}

fn file(text: impl AsRef<[u8]>) -> TreeEntry {
    TreeEntry::File { mode: 0o644, bytes: text.as_ref().to_vec() }
}

/// Files and ignore files to be compared.
#[derive(Default)]
struct Case {
    tree: TreeSnapshot,
}

impl Case {
    fn with(files: &[&str]) -> Case {
        Case { tree: tree_of(files.iter().map(|path| (path.as_bytes(), file("x")))) }
    }

    /// Writes a `.gitignore` into the directory `dir`, which is empty for the top.
    fn ignoring(self, dir: &str, text: impl AsRef<[u8]>) -> Case {
        let path = if dir.is_empty() { ".gitignore".to_owned() } else { format!("{dir}/.gitignore") };
        self.and(&path, file(text))
    }

    fn and(mut self, path: &str, thing: TreeEntry) -> Case {
        self.tree.insert(path.as_bytes().to_vec(), thing);
        self
    }

    /// git and decree both leave out these, and nothing else.
    #[track_caller]
    fn leaves_out(self, expected: &[&str]) {
        let all: Paths = self
            .tree
            .iter()
            .filter(|(_, thing)| !matches!(thing, TreeEntry::Dir { .. }))
            .map(|(path, _)| path.clone())
            .collect();
        let text = |paths: &Paths| -> Vec<String> {
            all.difference(paths).map(|path| String::from_utf8_lossy(path).into_owned()).collect()
        };
        assert_eq!(text(&seen_by_git(&self.tree)), expected, "git does not do what the test expects");
        assert_eq!(text(&seen_by_decree(&self.tree)), expected);
    }
}

#[test]
fn a_plain_name_hides_files_and_directories_at_any_depth() {
    Case::with(&["log", "a/log/x", "a/b/log", "logs", "a/xlog"])
        .ignoring("", "log\n")
        .leaves_out(&["a/b/log", "a/log/x", "log"]);
}

#[test]
fn a_slash_anchors_a_pattern_to_its_file() {
    Case::with(&["top", "a/top", "a/b/c", "b/c", "x/b/c"])
        .ignoring("", "/top\nb/c\n")
        .leaves_out(&["b/c", "top"]);
    Case::with(&["a/top", "a/b/top", "top"]).ignoring("a", "/top\n").leaves_out(&["a/top"]);
}

#[test]
fn a_trailing_slash_means_directories_only() {
    Case::with(&["out", "a/out/x", "b/out"])
        .ignoring("", "out/\n")
        .and("link-dir", TreeEntry::Dir { mode: 0o755 })
        .and("c", TreeEntry::Dir { mode: 0o755 })
        .and("c/out", TreeEntry::Link { target: b"../link-dir".to_vec() })
        .leaves_out(&["a/out/x"]);
}

#[test]
fn a_later_line_takes_an_earlier_one_back() {
    Case::with(&["a.log", "keep.log", "sub/keep.log", "sub/b.log"])
        .ignoring("", "*.log\n!keep.log\n")
        .leaves_out(&["a.log", "sub/b.log"]);
    Case::with(&["a.log", "keep.log"]).ignoring("", "!keep.log\n*.log\n").leaves_out(&["a.log", "keep.log"]);
}

#[test]
fn nothing_below_an_ignored_directory_comes_back() {
    Case::with(&["out/keep", "out/x", "out/sub/keep"]).ignoring("", "out\n!out/keep\n!keep\n").leaves_out(&[
        "out/keep",
        "out/sub/keep",
        "out/x",
    ]);
    Case::with(&["out/keep", "out/x", "out/sub/keep"])
        .ignoring("", "out/*\n!out/keep\n")
        .leaves_out(&["out/sub/keep", "out/x"]);
    Case::with(&["out/x"])
        .ignoring("", "out\n")
        .ignoring("out", "!x\n!.gitignore\n")
        .leaves_out(&["out/.gitignore", "out/x"]);
}

#[test]
fn an_inner_file_outranks_an_outer_one() {
    Case::with(&["x.o", "a/x.o", "a/b/x.o", "a/b/y.c"])
        .ignoring("", "*.o\n")
        .ignoring("a", "!x.o\n")
        .ignoring("a/b", "*\n")
        .leaves_out(&["a/b/.gitignore", "a/b/x.o", "a/b/y.c", "x.o"]);
}

#[test]
fn double_stars_cross_directories() {
    Case::with(&["x", "a/x", "a/b/x", "a/b/c/x", "ax", "a/y"])
        .ignoring("", "a/**/x\n")
        .leaves_out(&["a/b/c/x", "a/b/x", "a/x"]);
    Case::with(&["a/x", "a/b/x", "b/a"]).ignoring("", "a/**\n").leaves_out(&["a/b/x", "a/x"]);
    Case::with(&["foo/bar", "a/foo/bar", "foo1/2/bar", "foobar"])
        .ignoring("", "**/foo/bar\nfoo**/bar\n")
        .leaves_out(&["a/foo/bar", "foo/bar", "foo1/2/bar", "foobar"]);
}

#[test]
fn single_stars_and_question_marks_stop_at_a_slash() {
    Case::with(&["a/x/c", "a/c", "a/x/y/c", "b1", "b12", "b/x"])
        .ignoring("", "a/*/c\nb?\n")
        .leaves_out(&["a/x/c", "b1"]);
}

#[test]
fn character_classes_are_those_of_git() {
    Case::with(&["a1", "b1", "c1", "d1", "-1", "]1", "A1", "11", "[1", "^1", "!1", "x/1"])
        .ignoring("", "[a-c]1\n[]]1\n[[:digit:]]1\n[!-~]?1\n")
        .leaves_out(&["11", "]1", "a1", "b1", "c1"]);
    Case::with(&["a", "b", "c", "d"]).ignoring("", "[!ab]\n![^abc]\n").leaves_out(&["c"]);
    Case::with(&["[", "a", "[a", "ab"]).ignoring("", "[\n[a\n[[:nope:]]\n").leaves_out(&[]);
}

#[test]
fn neither_a_class_nor_a_question_mark_takes_a_slash() {
    Case::with(&["a/b", "a-b", "x/a/b"])
        .ignoring("", "/a[!x]b\n/a?b\na[/]b\nx/a[.-9]b\n")
        .leaves_out(&["a-b"]);
}

#[test]
fn a_backslash_takes_the_meaning_away() {
    Case::with(&["!a", "#b", "a", "b", "c*", "cd", "e\\f", "[g]", "g", "h "])
        .ignoring("", "\\!a\n\\#b\nc\\*\ne\\\\f\n\\[g\\]\nh\\ \ntrailing\\\n")
        .leaves_out(&["!a", "#b", "[g]", "c*", "e\\f", "h "]);
}

#[test]
fn braces_are_ordinary_characters() {
    Case::with(&["a", "b", "{a,b}"]).ignoring("", "{a,b}\n").leaves_out(&["{a,b}"]);
}

#[test]
fn trailing_spaces_go_and_tabs_stay() {
    Case::with(&["a", "b", "b\t", "c", " d", "d"])
        .ignoring("", "a   \nb\t\nc\\\\  \n d\n")
        .leaves_out(&[" d", "a", "b\t"]);
}

#[test]
fn a_byte_order_mark_and_carriage_returns_do_not_count() {
    Case::with(&["a", "b", "c", "d\r"])
        .ignoring("", "\u{feff}a\r\nb\r\n\r\n#c\r\nd\r\r\n")
        .leaves_out(&["a", "b", "d\r"]);
}

#[test]
fn an_ignore_file_may_hide_itself_or_everything() {
    Case::with(&["a"]).ignoring("", ".gitignore\na\n").leaves_out(&[".gitignore", "a"]);
    Case::with(&["a", "b/c"]).ignoring("", "*\n").leaves_out(&[".gitignore", "a", "b/c"]);
    Case::with(&["a", "b/c", "b/d"]).ignoring("", "*\n!*/\n!c\n").leaves_out(&[".gitignore", "a", "b/d"]);
}

#[test]
fn a_symlinked_ignore_file_says_nothing() {
    Case::with(&["a", "b", "sub/a"])
        .and("rules", file("a\n"))
        .and(".gitignore", TreeEntry::Link { target: b"rules".to_vec() })
        .ignoring("sub", "a\n")
        .leaves_out(&["sub/a"]);
}

#[test]
fn a_directory_may_be_called_gitignore() {
    Case::with(&[".gitignore/x", "a"]).leaves_out(&[]);
}

#[test]
fn names_and_patterns_are_bytes() {
    let names: [&[u8]; 4] = [b"caf\xe9", b"caf\xe8", "caf\u{e9}".as_bytes(), b"\xff\xfe"];
    let mut case = Case { tree: tree_of(names.map(|name| (name, file("x")))) };
    case = case.ignoring("", b"caf\xe9\ncaf??\n\xff[\xfe]\n");
    let left: Paths = seen_by_decree(&case.tree);
    assert_eq!(left, seen_by_git(&case.tree));
    assert_eq!(left, Paths::from([b".gitignore".to_vec(), b"caf\xe8".to_vec()]));
}

#[test]
fn lines_that_mean_nothing_hide_nothing() {
    Case::with(&["a", "b/c", "!", "#x"])
        .ignoring("", "\n   \n#a\n/\n//\n!\n!/\n\\\n./a\n../b\na//\nb//c\n")
        .leaves_out(&[]);
}

/// IGN-01.
#[test]
fn random_patterns_hide_what_they_hide_from_git() {
    let mut runner = TestRunner::new(config(1));
    let strategy = random_case();
    let (mut compared, mut hidden) = (0, 0);
    let wanted = cases(200);
    while compared < wanted {
        let batch: Vec<TreeSnapshot> =
            (0..100).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
        let tree = side_by_side(&batch);
        let (git, decree) = (seen_by_git(&tree), seen_by_decree(&tree));
        let wrong: BTreeMap<usize, Vec<String>> = differences(&git, &decree);
        let report: Vec<String> =
            wrong.iter().map(|(number, lines)| explain(&batch[*number], lines)).take(5).collect();
        assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), report.join("\n"));
        compared += 100;
        hidden += tree.len() - git.len();
    }
    assert!(hidden > 0, "nothing was ignored at all");
}

/// Every tree in a directory of its own: their ignore files do not reach each other.
fn side_by_side(trees: &[TreeSnapshot]) -> TreeSnapshot {
    let mut all = TreeSnapshot::new();
    for (number, tree) in trees.iter().enumerate() {
        let dir = format!("{number:03}");
        all.insert(dir.clone().into_bytes(), TreeEntry::Dir { mode: 0o755 });
        for (path, thing) in tree {
            all.insert([dir.as_bytes(), b"/", path].concat(), thing.clone());
        }
    }
    all
}

fn differences(git: &Paths, decree: &Paths) -> BTreeMap<usize, Vec<String>> {
    let mut wrong: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for path in git.symmetric_difference(decree) {
        let who = if git.contains(path) { "git" } else { "decree" };
        let number = std::str::from_utf8(&path[..3]).unwrap().parse().unwrap();
        let line = format!("  only {who} shows {:?}", String::from_utf8_lossy(&path[4..]));
        wrong.entry(number).or_default().push(line);
    }
    wrong
}

fn explain(tree: &TreeSnapshot, lines: &[String]) -> String {
    let rules = tree.iter().filter(|(path, _)| path.ends_with(b".gitignore"));
    let rules: Vec<String> =
        rules.map(|(path, thing)| format!("{}: {thing:?}", String::from_utf8_lossy(path))).collect();
    format!("{}\n{}", rules.join("\n"), lines.join("\n"))
}

fn random_case() -> impl Strategy<Value = TreeSnapshot> {
    let files = prop::collection::vec(prop::collection::vec(name(), 1..=4), 4..16);
    let lines = prop::collection::vec(
        prop_oneof![1 => pattern().prop_map(Line::Free), 1 => near_miss().prop_map(Line::Near)],
        1..6,
    );
    let rules = prop::collection::vec((any::<Index>(), 0..3_usize, lines), 1..4);
    (files, rules).prop_map(|(files, rules)| {
        let mut things: Vec<(Vec<u8>, TreeEntry)> =
            files.iter().map(|names| (names.join(&b'/'), file("x"))).collect();
        for (pick, depth, lines) in rules {
            // In a directory above some file, at most so deep.
            let above = pick.get(&files);
            let mut path: Vec<Vec<u8>> = above[..depth.min(above.len() - 1)].to_vec();
            let inside = files.iter().filter_map(|names| names.strip_prefix(&path[..]));
            let below: Vec<&[Vec<u8>]> = inside.filter(|names| !names.is_empty()).collect();
            let text: Vec<Vec<u8>> = lines.iter().map(|line| line.text(&below)).collect();
            path.push(b".gitignore".to_vec());
            things.push((path.join(&b'/'), file(text.join(&b'\n'))));
        }
        tree_of(things.iter().map(|(path, thing)| (&path[..], thing.clone())))
    })
}

/// A line of an ignore file.
#[derive(Clone, Debug)]
enum Line {
    /// Any.
    Free(Vec<u8>),
    /// The path of some file, with wildcards put in: it matches, or just does not.
    Near(NearMiss),
}

#[derive(Clone, Debug)]
struct NearMiss {
    start: &'static str,
    file: Index,
    depth: Index,
    edits: Vec<(Index, &'static str)>,
    /// A directory that is left out, for `**` to stand for it.
    skipped: Option<Index>,
    end: &'static str,
}

impl Line {
    fn text(&self, files: &[&[Vec<u8>]]) -> Vec<u8> {
        let near = match self {
            Line::Free(text) => return text.clone(),
            Line::Near(near) => near,
        };
        let names = near.file.get(files);
        let mut names = names[..=near.depth.index(names.len())].to_vec();
        for (at, edit) in &near.edits {
            let at = at.index(names.len());
            names[at] = with_wildcards(&names[at], edit);
        }
        if let Some(at) = near.skipped
            && names.len() > 2
        {
            names.remove(1 + at.index(names.len() - 2));
        }
        [near.start.as_bytes(), &names.join(&b'/'), near.end.as_bytes()].concat()
    }
}

/// A name with wildcards in it: `^` stands for its first byte, `~` for the others.
fn with_wildcards(name: &[u8], edit: &str) -> Vec<u8> {
    let (first, rest) = name.split_at(1);
    let parts = edit.bytes().map(|byte| match byte {
        b'^' => first.to_vec(),
        b'~' => rest.to_vec(),
        other => vec![other],
    });
    parts.flatten().collect()
}

fn near_miss() -> impl Strategy<Value = NearMiss> {
    const EDITS: &[&str] = &[
        "*",
        "**",
        "?",
        "?~",
        "^*",
        "*~",
        "^**",
        "**~",
        "[^]~",
        "[!^]~",
        "[a-c]~",
        "[[:lower:]]~",
        "\\^~",
        "^~*",
        "*^~",
        "^?",
        "**/^~",
        "^~/**",
        "*/^~",
        "^***",
        "[^-^]~",
        "[^\\-z]*",
    ];
    (
        select(&["", "", "/", "!", "!/", "**/", "/**/"][..]),
        any::<Index>(),
        any::<Index>(),
        prop::collection::vec((any::<Index>(), select(EDITS)), 0..3),
        any::<Option<Index>>(),
        select(&["", "", "", "/", "/**", "/*", " "][..]),
    )
        .prop_map(|(start, file, depth, edits, skipped, end)| NearMiss {
            start,
            file,
            depth,
            edits,
            skipped,
            end,
        })
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    const PLAIN: &[&str] = &["a", "b", "ab", "abc", "a.b", "c.o", "foo"];
    const ODD: &[&str] = &[
        "A", "a b", "a ", "[a]", "{a,b}", "*", "!a", "#a", "a\\b", "-", ".x", "\u{e9}", "a-b", "^", "]", "\t",
    ];
    prop_oneof![3 => select(PLAIN), 1 => select(ODD)].prop_map(|name| name.as_bytes().to_vec())
}

/// A typical line, or an unusual one.
fn pattern() -> impl Strategy<Value = Vec<u8>> {
    let sane = (
        select(&["", "", "!"][..]),
        select(&["", "", "/"][..]),
        prop::collection::vec(component(), 1..=3),
        select(&["", "", "/"][..]),
        prop_oneof![6 => Just(""), 1 => select(&[" ", "  ", "\\ ", "\t", "\r", " \r"][..])],
    )
        .prop_map(|(not, anchor, parts, dir, end)| {
            [not.as_bytes(), anchor.as_bytes(), &parts.join(&b'/'), dir.as_bytes(), end.as_bytes()].concat()
        });
    const SOUP: &[u8] = b"aabbc./*?[]!\\- ^#{},:o";
    let soup = prop::collection::vec(select(SOUP), 1..9);
    prop_oneof![3 => sane, 1 => soup]
}

fn component() -> impl Strategy<Value = Vec<u8>> {
    const GLOBS: &[&str] = &[
        "*",
        "**",
        "***",
        "?",
        "*.o",
        "a*",
        "*b",
        "*a*",
        "a?",
        "a**",
        "**a",
        "a**b",
        "[ab]",
        "[!a]",
        "[^a]",
        "[a-c]",
        "[]a]",
        "[!]]",
        "[a-",
        "[[:alpha:]]",
        "[[:punct:]]*",
        "[[:space:]]",
        "[\\]a]",
        "[a\\-c]",
        "\\a",
        "\\*",
        "\\!a",
        "\\#a",
        "a\\",
        "",
        "?*",
        "*?",
        "[",
        "a[",
        ".*",
        "[!-z]",
    ];
    prop_oneof![2 => name(), 3 => select(GLOBS).prop_map(|glob| glob.as_bytes().to_vec())]
}
