//! Malicious diffs with a correct hash.

use std::fs;

use decree::ContentHash;

use crate::harness::{CommandOutput, Project, TreeSnapshot, assert_same, run_command, snapshot};

/// A project inside a directory that is watched as well: what leaves the tree would show there.
struct Watched {
    outer: Project,
    id: String,
    before: TreeSnapshot,
}

impl Watched {
    fn new() -> Watched {
        let outer = Project::bare();
        outer.write("outside", "not ours\n").write("project/file", "x\n").write("project/.git/HEAD", "ref\n");
        outer.write("project/.decree/config.yml", "").write("project/specs/processed-spec.md", "done\n");
        outer.write("project/sub/.git/HEAD", "ref\n").link("project/door", "..");
        let mut watched = Watched { outer, id: String::new(), before: TreeSnapshot::new() };
        watched.id = watched.decree(&["checkpoint", "create"]).ok().line();
        watched.before = watched.look();
        watched
    }

    fn decree(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.outer.command();
        run_command(command.current_dir(self.outer.path("project")).args(args))
    }

    fn apply(&self, diff: &[u8]) -> CommandOutput {
        self.outer.write(format!("project/.decree/checkpoints/{}/changes.diff", self.id), diff);
        self.decree(&["apply", &self.id])
    }

    /// Everything inside and outside, decree's own runtime data apart.
    fn look(&self) -> TreeSnapshot {
        let mut all = snapshot(self.outer.root());
        all.retain(|path, _| {
            ![&b"checkpoints"[..], b"store", b"tmp", b"lock"]
                .iter()
                .any(|own| path.starts_with(&[&b"project/.decree/"[..], own].concat()))
        });
        all
    }
}

/// A diff with this body as decree would have ended it.
fn with_hash_line(body: &str, changes: usize) -> Vec<u8> {
    let text = format!("# decree-diff 1\n{body}");
    let hash = ContentHash::of(text.as_bytes());
    format!("{text}# decree-end changes={changes} sha256={hash}\n").into_bytes()
}

/// The sections that make a new file, with the path as it is to stand between the quotes.
fn new_file(path: &str) -> String {
    let hash = ContentHash::of(b"evil\n");
    let plain = path.bytes().all(|byte| byte > b' ' && byte != b'\\' && byte != b'"');
    let name = |prefix: &str| if plain { format!("{prefix}/{path}") } else { format!("\"{prefix}/{path}\"") };
    let (a, b) = (name("a"), name("b"));
    format!(
        "# decree-file \"{path}\" old=- new={hash} size=-:5 mode=-:100644\n\
         diff --git {a} {b}\nnew file mode 100644\n--- /dev/null\n+++ {b}\n@@ -0,0 +1 @@\n+evil\n"
    )
}

#[test]
fn a_forged_diff_that_keeps_to_the_tree_is_applied() {
    let watched = Watched::new();
    watched.apply(&with_hash_line(&new_file("fine"), 1)).ok();
    assert_eq!(watched.outer.read("project/fine"), b"evil\n");
}

/// DIF-08.
#[test]
fn paths_that_leave_the_tree_or_are_not_the_users_are_refused_by_name() {
    let watched = Watched::new();
    let absolute = watched.outer.path("evil").to_str().unwrap().to_owned();
    let paths = [
        "../evil",
        "..",
        "a/../../evil",
        "sub/../../evil",
        "./evil",
        "sub/./evil",
        &absolute,
        "/evil",
        ".git/hooks/evil",
        ".git",
        "sub/.git/hooks/evil",
        ".decree/config.yml",
        ".decree",
        "specs/processed-spec.md",
        "a//evil",
        "evil/",
    ];
    for path in paths {
        let binary = format!(
            "# decree-binary \"{path}\" old=- new={} size=-:5 mode=-:100644\n# new\n# ZXZpbAo=\n# end\n",
            ContentHash::of(b"evil\n")
        );
        let dir = format!("# decree-dir \"{path}\" old=- new=755\n");
        for body in [new_file(path), binary, dir] {
            let output = watched.apply(&with_hash_line(&body, 1));
            assert_eq!(output.code, 4, "{path}: {}", output.err);
            assert!(output.err.contains(path), "{path} is not named: {}", output.err);
            assert_same(&watched.look(), &watched.before);
        }
    }
}

/// Quoting must not be a way around.
#[test]
fn escapes_in_quoted_paths_do_not_get_out_either() {
    let watched = Watched::new();
    for path in
        [r"\056\056/evil", r"\056./evil", r"..\057evil", r"\057evil", r".gi\164/evil", r"evil\000", ""]
    {
        watched.apply(&with_hash_line(&new_file(path), 1)).fails(4);
        assert_same(&watched.look(), &watched.before);
    }
}

/// What git or an editor would write: without decree's own lines it is not decree's to apply.
#[test]
fn a_plain_git_diff_is_refused_and_its_path_named() {
    let watched = Watched::new();
    for path in ["../evil", "/evil", ".git/evil", ".decree/evil"] {
        let text = format!(
            "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n"
        );
        watched.apply(text.as_bytes()).fails(4).mentions(&[path]);
        watched.apply(&with_hash_line(&text, 1)).fails(4).mentions(&[path]);
        assert_same(&watched.look(), &watched.before);
    }
}

/// The note says one path, what git would read says another.
#[test]
fn a_section_that_names_two_paths_is_refused() {
    let watched = Watched::new();
    for (from, to) in [("b/fine", "b/../evil"), ("a/fine", "a/other"), ("/dev/null", "a/file")] {
        let body = new_file("fine").replacen(from, to, 1);
        watched.apply(&with_hash_line(&body, 1)).fails(4);
        assert_same(&watched.look(), &watched.before);
    }
}

/// DIF-08.
#[test]
fn nothing_is_written_through_a_link_that_is_there() {
    let watched = Watched::new();
    watched.apply(&with_hash_line(&new_file("door/evil"), 1)).fails(1).mentions(&["door/evil"]);
    assert_same(&watched.look(), &watched.before);
}

/// The diff brings the link itself, and then a file to be written through it.
#[test]
fn nothing_is_written_through_a_link_that_the_diff_makes() {
    let watched = Watched::new();
    let link = format!(
        "# decree-file \"exit\" old=- new={} size=-:2 mode=-:120000\ndiff --git a/exit b/exit\n\
         new file mode 120000\n--- /dev/null\n+++ b/exit\n@@ -0,0 +1 @@\n+..\n\\ No newline at end of file\n",
        ContentHash::of(b"..")
    );
    watched.apply(&with_hash_line(&link, 1)).ok();
    fs::remove_file(watched.outer.path("project/exit")).unwrap();
    fs::remove_file(watched.outer.path("project/.decree/audit.jsonl")).unwrap();
    let output = watched.apply(&with_hash_line(&format!("{link}{}", new_file("exit/evil")), 2));
    assert!([1, 4].contains(&output.code), "{}: {}", output.code, output.err);
    assert_same(&watched.look(), &watched.before);
}

#[test]
fn sections_out_of_order_or_twice_are_refused() {
    let watched = Watched::new();
    for body in [new_file("b") + &new_file("a"), new_file("a") + &new_file("a")] {
        watched.apply(&with_hash_line(&body, 2)).fails(4);
        assert_same(&watched.look(), &watched.before);
    }
}

/// A file cannot be below another file: whatever is made of it, it is made whole or not at all.
#[test]
fn a_file_inside_a_file_is_refused() {
    let watched = Watched::new();
    let output = watched.apply(&with_hash_line(&(new_file("a") + &new_file("a/b")), 2));
    assert!([1, 4].contains(&output.code), "{}: {}", output.code, output.err);
    assert_same(&watched.look(), &watched.before);
}

#[test]
fn content_that_does_not_have_its_hash_is_refused() {
    let watched = Watched::new();
    let body = new_file("fine").replace("+evil\n", "+good\n");
    watched.apply(&with_hash_line(&body, 1)).fails(4).mentions(&["fine"]);
    assert_same(&watched.look(), &watched.before);
}

/// Sizes and line numbers that no machine can hold must not be an overflow.
#[test]
fn absurd_numbers_are_refused() {
    let watched = Watched::new();
    let hash = ContentHash::of(b"evil\n");
    let huge = u64::MAX;
    let binary = |size: u64| {
        format!(
            "# decree-binary \"x\" old=- new={hash} size=-:{size} mode=-:100644\n# new\n# ZXZpbAo=\n# end\n"
        )
    };
    let hunk = |header: &str| new_file("x").replace("@@ -0,0 +1 @@", header);
    let bodies = [
        binary(huge),
        binary(huge / 2),
        binary(1 << 40),
        hunk(&format!("@@ -0,0 +{huge} @@")),
        hunk(&format!("@@ -0,0 +1,{huge} @@")),
        hunk(&format!("@@ -{huge},0 +1 @@")),
        hunk(&format!("@@ -{huge},{huge} +{huge},{huge} @@")),
        hunk("@@ -0,0 +0 @@"),
        hunk("@@ -1 +1 @@"),
        hunk("@@ -0,0 +99999999999999999999999 @@"),
        new_file("x").replace("mode=-:100644", "mode=-:777777777777"),
        new_file("x").replace("mode=-:100644", "mode=-:060644"),
        new_file("x").replace("size=-:5", &format!("size=-:{huge}")),
    ];
    for body in bodies {
        let output = watched.apply(&with_hash_line(&body, 1));
        assert_eq!(output.code, 4, "{body}\n{}", output.err);
        assert_same(&watched.look(), &watched.before);
    }
}

/// DIF-21. Numbers of zeros that the recorded size does not have, or that decree would not have written so.
#[test]
fn forged_numbers_of_zeros_are_refused() {
    let watched = Watched::new();
    let diff = |size: &str, lines: &str| {
        let hash = ContentHash::of(&vec![0; 8192]);
        with_hash_line(
            &format!(
                "# decree-binary \"zeros\" old=- new={hash} size=-:{size} mode=-:100644\n# new\n{lines}# end\n"
            ),
            1,
        )
    };
    let (block, base64) = ("# zeros 4096\n", format!("# {}\n", "A".repeat(76)));
    for (size, lines) in [
        ("8192", "# zeros 18446744073709551615\n"),
        ("8192", "# zeros 18446744073709551616\n"),
        ("8192", "# zeros 9223372036854775808\n"),
        ("8192", "# zeros 12288\n"),
        ("8192", "# zeros 4096\n# zeros 4096\n"),
        ("8192", "# zeros 08192\n"),
        ("8192", "# zeros +8192\n"),
        ("8192", "# zeros 8192 \n"),
        ("8192", "# zeros -8192\n"),
        ("8192", "# zeros\n"),
        ("8192", "# Zeros 8192\n"),
        ("8192", block),
        ("4095", "# zeros 4095\n"),
        ("0", "# zeros 0\n"),
        ("4153", &format!("{base64}{block}")),
        ("18446744073709551615", "# zeros 18446744073709551615\n"),
        ("18446744073709551616", "# zeros 18446744073709551616\n"),
    ] {
        let output = watched.apply(&diff(size, lines));
        assert_eq!(output.code, 4, "{size} {lines}: {}", output.err);
        assert!(output.err.contains("is damaged: line"), "{size} {lines}: {}", output.err);
        assert_same(&watched.look(), &watched.before);
    }
    // The hash is the last word.
    watched.apply(&diff("12288", "# zeros 12288\n")).fails(4).mentions(&["recorded hash"]);
    assert_same(&watched.look(), &watched.before);
    watched.apply(&diff("8192", "# zeros 8192\n")).ok();
    assert!(watched.outer.read("project/zeros") == vec![0; 8192]);
}

/// DIF-22. An older decree wrote zeros as base64, and its diffs are applied as ever.
#[test]
fn zeros_in_base64_are_those_of_an_older_diff() {
    let watched = Watched::new();
    let content = vec![0; 57 * 80];
    let lines = format!("# {}\n", "A".repeat(76)).repeat(80);
    let hash = ContentHash::of(&content);
    let body = format!(
        "# decree-binary \"zeros\" old=- new={hash} size=-:{} mode=-:100644\n# new\n{lines}# end\n",
        content.len()
    );
    watched.apply(&with_hash_line(&body, 1)).ok();
    assert!(watched.outer.read("project/zeros") == content);
}
