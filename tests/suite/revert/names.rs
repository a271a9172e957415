//! Names: any bytes but NUL and `/`, also those that look like something else.

use super::round_trip;
use crate::harness::Project;

/// Every one is a path of a file; a `/` in it makes directories.
fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "two words",
        " leading",
        "trailing ",
        " ",
        "\"quoted\"",
        "'quoted'",
        "\"",
        "tab\there",
        "new\nline",
        "\n",
        "carriage\rreturn",
        "back\\slash",
        "ends in backslash\\",
        "\\n",
        "\\303\\251",
        "-rf",
        "--help",
        "-",
        "🦀 crab",
        "e\u{301}",
        "é",
        "\u{202e}txt.exe",
        "\u{1}\u{7f}\u{1b}[31m",
        "--- a/x",
        "+++ b",
        "@@ -1 +1 @@",
        "# decree-end",
        "# decree-end changes=0 sha256=00",
        "# decree-diff 1",
        "diff --git a/x b/x",
        "\\ No newline at end of file",
        "GIT binary patch",
        " b/x",
        "x b/x",
        "a/a b/a",
        "b/b",
        "dev/null",
        "*",
        "[a-z]?",
        "$HOME",
        "`id`",
        "%s%n",
        "~",
        "...",
        ".gitx",
        "sub/.decree/config.yml",
        "tmp-1",
        "CON",
        "#",
        "!bang",
        "null",
    ]
    .into_iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push(b"caf\xe9".to_vec());
    names.push(b"\xff\xfe\x80".to_vec());
    names.push(b"\xe9/\xe8/\xea".to_vec());
    names.push(b"\"caf\xe9".to_vec());
    names.push(vec![b'x'; 255]);
    names.push(vec![0xe9; 255]);
    names.push(vec![b'\n'; 255]);
    names.push("é".repeat(127).into_bytes());
    names
}

fn each(act: impl Fn(&[u8])) {
    names().iter().for_each(|name| act(name));
}

/// The same name in another place, so that one tree can hold a case of each.
fn at(place: &str, name: &[u8]) -> Vec<u8> {
    [place.as_bytes(), b"/", name].concat()
}

/// DIF-05.
#[test]
fn files_of_any_name_are_changed_made_and_deleted() {
    round_trip(
        |p| {
            each(|name| {
                p.write(name, "at the top\n").write(at("changed", name), "a\nb\n");
                p.write(at("deleted", name), "x\n").write(at("open", name), "x");
            });
        },
        |p| {
            each(|name| {
                p.write(name, "changed at the top\n").write(at("changed", name), "a\nB\n");
                p.remove(at("deleted", name)).write(at("made", name), "x\n").write(at("open", name), "x\ny");
            });
        },
    );
}

/// These have no `---` and `+++` lines, or none at all: the name stands in other places.
#[test]
fn names_survive_where_there_are_no_hunks() {
    round_trip(
        |p| {
            each(|name| {
                p.write(at("mode", name), "x\n")
                    .write(at("odd-mode", name), "x\n")
                    .write(at("emptied", name), "");
                p.write(at("binary", name), b"\0a").mkdir(at("dir", name)).link(at("link", name), "old");
            });
        },
        |p| {
            each(|name| {
                p.chmod(at("mode", name), 0o755)
                    .chmod(at("odd-mode", name), 0o640)
                    .remove(at("emptied", name));
                p.write(at("empty", name), "")
                    .write(at("binary", name), b"\0b")
                    .write(at("new-binary", name), b"\0");
                p.remove(at("dir", name)).mkdir(at("new-dir", name));
                p.remove(at("link", name)).link(at("link", name), "new");
            });
        },
    );
}

#[test]
fn names_survive_a_change_of_type() {
    round_trip(
        |p| {
            each(|name| {
                p.write(at("file-to-dir", name), "x\n").write(at("dir-to-file", &at_end(name)), "x\n");
                p.write(at("file-to-link", name), "x\n").link(at("link-to-file", name), "x\n");
            });
        },
        |p| {
            each(|name| {
                p.remove(at("file-to-dir", name)).write(at("file-to-dir", &at_end(name)), "x\n");
                p.remove(at("dir-to-file", name)).write(at("dir-to-file", name), "x\n");
                p.remove(at("file-to-link", name)).link(at("file-to-link", name), "x\n");
                p.remove(at("link-to-file", name)).write(at("link-to-file", name), "x\n");
            });
        },
    );
}

fn at_end(name: &[u8]) -> Vec<u8> {
    [name, b"/inside"].concat()
}

/// What has no place in the diff is moved away under its own name, too.
#[test]
fn things_of_any_name_are_set_aside() {
    let project = Project::new();
    project.write(".gitignore", "*.log\n").write("file", "x\n");
    let original = project.snapshot();
    let id = project.checkpoint();
    each(|name| {
        project.write(at("new", &at_end(name)), "x\n").write(at("new", &with_log(name)), "log\n");
    });
    project.decree(["revert", &id]).ok();
    crate::harness::assert_same(&project.snapshot(), &original);
    let aside = crate::harness::snapshot(&project.record(&id, "set-aside"));
    each(|name| assert!(aside.contains_key(&at("new", &with_log(name))), "{:?}", super::os(name)));
}

fn with_log(name: &[u8]) -> Vec<u8> {
    [name, b"/x.log"].concat()
}

/// A path of the length that the system allows at the most.
#[test]
fn the_longest_paths_come_back() {
    let deep = vec!["d".repeat(200); 17].join("/");
    round_trip(
        |p| {
            p.write("short", "x\n").write(format!("{deep}/deleted"), "x\n");
        },
        |p| {
            p.remove(format!("{deep}/deleted")).write(format!("{deep}/made"), "x\n");
        },
    );
}

/// An error or a note shows a name on one line and cannot move the cursor or colour the screen.
#[test]
fn names_are_shown_without_their_control_characters() {
    let project = Project::new();
    project.write("evil\u{1b}[2J\nname.txt", "a\n");
    let id = project.checkpoint();
    project.write("evil\u{1b}[2J\nname.txt", "b\n");
    project.decree(["revert", &id]).ok();
    project.write("evil\u{1b}[2J\nname.txt", "c\n");
    let output = project.decree(["apply", &id]).fails(1).mentions(&[r#""evil\033[2J\nname.txt""#]);
    assert!(!output.err.contains('\u{1b}'), "{:?}", output.err);
    let stat = project.decree(["diff", "--stat", &id]).ok();
    assert!(!stat.text().contains('\u{1b}'), "{:?}", stat.text());
}
