//! Ignore rules and time: a path is in scope only if the rules before the change and those after it show it.

use super::{RoundTrip, round_trip};
use crate::harness::{Project, TreeEntry, assert_same};

/// IGN-06.
#[test]
fn a_build_that_a_new_ignore_rule_hides_is_set_aside() {
    let trip = RoundTrip::default().setting_aside(&["target"]).run(
        |p| {
            p.write("src/main.rs", "fn main() {}\n").write(".gitignore", "*.log\n");
        },
        |p| {
            p.write(".gitignore", "*.log\n/target\n").write("src/main.rs", "fn main() { todo!() }\n");
            p.write("target/debug/main", b"\x7fELF\0")
                .write("target/.hidden", "x")
                .link("target/latest", "debug");
        },
    );
    assert!(!trip.diff_mentions("target"), "{}", trip.diff_text());
    assert!(trip.reverted.err.contains("set-aside/target"), "{}", trip.reverted.err);
}

/// Every file that reverts to checkpoints have set aside.
fn all_set_aside(project: &Project) -> Vec<Vec<u8>> {
    let kept = crate::harness::snapshot(&project.path(".decree/checkpoints"));
    let aside = kept.into_iter().filter(|(path, _)| String::from_utf8_lossy(path).contains("/set-aside"));
    let mut contents: Vec<Vec<u8>> = aside
        .filter_map(|(_, thing)| match thing {
            TreeEntry::File { bytes, .. } => Some(bytes),
            _ => None,
        })
        .collect();
    contents.sort();
    contents
}

/// Also where the name has the full length already, and nothing can be appended to distinguish the two.
#[test]
fn what_is_set_aside_never_replaces_what_was_set_aside_before() {
    for name in ["target/out".to_owned(), format!("{}/out", "x".repeat(255)), "y".repeat(255)] {
        let project = Project::new();
        project.write(".gitignore", "").write("file", "x\n");
        let original = project.snapshot();
        let id = project.checkpoint();
        for content in ["1", "2", "3"] {
            project.write(".gitignore", "/target\nx*\ny*\n").write(&name, content);
            project.decree(["revert", &id]).ok().mentions(&["set aside"]);
            assert_same(&project.snapshot(), &original);
        }
        assert_eq!(all_set_aside(&project), [b"1", b"2", b"3"]);
    }
}

/// IGN-07.
#[test]
fn what_a_removed_rule_shows_was_never_protected_and_is_never_touched() {
    let trip = RoundTrip::default().not_touching(&["build", "notes.log"]).run(
        |p| {
            p.write(".gitignore", "/build\n*.log\n")
                .write("build/old", "built\n")
                .write("notes.log", "mine\n");
            p.write("file", "x\n");
        },
        |p| {
            p.write(".gitignore", "").write("file", "y\n").write("notes.log", "changed\n");
            p.write("build/old", "rebuilt\n").write("build/new", "new\n");
        },
    );
    assert!(!trip.diff_mentions("build"), "{}", trip.diff_text());
    assert!(!trip.diff_mentions("notes.log"), "{}", trip.diff_text());
    assert_eq!(trip.project.read("build/new"), b"new\n");
}

/// Trashes everything that [`tracked`] made and leaves junk.
fn trash(p: &Project) {
    p.write("src/main.rs", "trash\n").remove("src/deep").write("README", "").remove("data.bin");
    p.remove("link").link("link", "elsewhere").remove("empty").remove("gone");
    p.write("junk/a", "1").write("junk/b", "2").write("src/junk.rs", "3");
}

fn tracked(p: &Project) {
    p.write("src/main.rs", "fn main() {}\n").write("src/deep/a.rs", "a\n").write("README", "hello\n");
    p.write("data.bin", b"\0data").link("link", "README").mkdir("empty").write("gone/file", "x\n");
}

/// IGN-08.
#[test]
fn ignoring_everything_does_not_save_what_was_trashed() {
    let trip = RoundTrip::default().setting_aside(&["junk", "src/junk.rs"]).run(
        |p| {
            tracked(p);
            p.write(".gitignore", "*.log\n");
        },
        |p| {
            trash(p);
            p.write(".gitignore", "*\n");
        },
    );
    assert!(trip.diff_mentions("src/deep/a.rs") && trip.diff_mentions(".gitignore"));
}

/// A new `.gitignore` that says `*` hides itself as well.
#[test]
fn a_new_rule_that_hides_everything_hides_itself_and_is_set_aside() {
    RoundTrip::default().setting_aside(&["junk", "src/junk.rs", ".gitignore"]).run(tracked, |p| {
        trash(p);
        p.write(".gitignore", "*\n");
    });
}

#[test]
fn a_deleted_gitignore_is_restored_and_widens_no_scope_before() {
    let trip = RoundTrip::default().not_touching(&["cache", "sub/old.o"]).run(
        |p| {
            p.write(".gitignore", "cache/\n").write("cache/a", "a\n").write("sub/.gitignore", "*.o\n");
            p.write("sub/old.o", "object\n").write("sub/main.c", "int main;\n");
        },
        |p| {
            p.remove(".gitignore").remove("sub/.gitignore").write("cache/a", "b\n").write("cache/b", "b\n");
            p.write("sub/old.o", "other\n").write("sub/main.c", "int main();\n");
        },
    );
    assert!(!trip.diff_mentions("cache"), "{}", trip.diff_text());
    assert!(!trip.diff_mentions("sub/old.o"), "{}", trip.diff_text());
}

/// IGN-10.
#[test]
fn ignored_files_in_a_new_directory_are_set_aside_so_that_it_can_go() {
    let trip = RoundTrip::default().setting_aside(&["new/a.log", "new/deep/node_modules"]).run(
        |p| {
            p.write(".gitignore", "*.log\nnode_modules/\n").write("file", "x\n");
        },
        |p| {
            p.write("new/a.log", "log\n").write("new/a.txt", "text\n");
            p.write("new/deep/node_modules/x/index.js", "js\n").write("new/deep/package.json", "{}\n");
        },
    );
    assert!(!trip.project.exists("new"));
}

/// Out of scope means out of scope: decree does not touch what is in an ignored directory.
#[test]
fn new_files_in_an_ignored_directory_stay() {
    RoundTrip::default().not_touching(&["cache", "src/x.log"]).run(
        |p| {
            p.write(".gitignore", "cache/\n*.log\n").write("cache/a", "a\n").write("src/x", "x\n");
        },
        |p| {
            p.write("cache/a", "b\n")
                .write("cache/b/c", "new\n")
                .write("src/x.log", "new\n")
                .write("src/x", "y\n");
        },
    );
}

/// The files of an ignored directory are in the way of nothing, unless a file takes the directory's place.
#[test]
fn a_directory_with_ignored_files_in_it_loses_and_regains_the_others() {
    RoundTrip::default().not_touching(&["src/x.log"]).run(
        |p| {
            p.write(".gitignore", "*.log\n").write("src/a", "a\n").write("src/x.log", "log\n");
        },
        |p| {
            p.remove("src/a").write("src/x.log", "more\n");
        },
    );
}

#[test]
fn nested_rules_and_negation_hold_before_and_after() {
    RoundTrip::default().not_touching(&["a/b/drop.o"]).run(
        |p| {
            p.write(".gitignore", "*.o\n").write("a/.gitignore", "!keep.o\n").write("a/keep.o", "1\n");
            p.write("a/b/keep.o", "2\n").write("a/b/drop.o", "3\n");
        },
        |p| {
            p.write("a/keep.o", "1!\n")
                .remove("a/b/keep.o")
                .write("a/b/drop.o", "3!\n")
                .write("a/c/keep.o", "4\n");
        },
    );
}

/// IGN-02.
#[test]
fn decreeignore_has_the_last_word_in_both_directions() {
    let trip = RoundTrip::default().not_touching(&["dist/other.js", "big.dat"]).run(
        |p| {
            p.write(".gitignore", "dist/\n").write(".decreeignore", "!dist/keep.json\nbig.dat\n");
            p.write("dist/keep.json", "{}\n").write("dist/other.js", "js\n").write("big.dat", "data\n");
        },
        |p| {
            p.write("dist/keep.json", "{\"a\":1}\n")
                .write("dist/other.js", "changed\n")
                .write("big.dat", "changed\n");
        },
    );
    assert!(trip.diff_mentions("dist/keep.json"));
}

/// IGN-03.
#[test]
fn a_kept_file_in_an_ignored_directory_comes_and_goes() {
    RoundTrip::default().not_touching(&["dist/other.js"]).run(
        |p| {
            p.write(".gitignore", "dist/\n").write(".decreeignore", "!dist/keep.json\n!dist/sub/*.txt\n");
            p.write("dist/keep.json", "{}\n").write("dist/other.js", "js\n");
        },
        |p| {
            p.remove("dist/keep.json").write("dist/sub/new.txt", "x\n");
        },
    );
}

#[test]
fn an_ignored_directory_made_for_a_kept_file_goes_again() {
    let trip = RoundTrip::default().setting_aside(&["dist/other.js"]).run(
        |p| {
            p.write(".gitignore", "dist/\n").write(".decreeignore", "!dist/keep.json\n").write("file", "x\n");
        },
        |p| {
            p.write("dist/keep.json", "{}\n").write("dist/other.js", "js\n");
        },
    );
    assert!(!trip.project.exists("dist"));
}

/// The directory was there, but no kept file in it yet: it is as much the user's as any other ignored one.
#[test]
fn files_of_an_ignored_directory_stay_although_a_pattern_may_keep_others_in_it() {
    RoundTrip::default().not_touching(&["dist/other.js"]).run(
        |p| {
            p.write(".gitignore", "dist/\n").write(".decreeignore", "!dist/keep.json\n");
            p.write("dist/other.js", "js\n").write("file", "x\n");
        },
        |p| {
            p.write("file", "y\n");
        },
    );
}

#[test]
fn a_decreeignore_that_the_change_itself_brings_hides_nothing() {
    RoundTrip::default().setting_aside(&["new.txt"]).run(
        |p| {
            p.write("file", "x\n").write("src/a", "a\n");
        },
        |p| {
            p.write(".decreeignore", "file\nsrc/\nnew.txt\n")
                .write("file", "y\n")
                .remove("src")
                .write("new.txt", "n\n");
        },
    );
}

#[test]
fn a_decreeignore_that_the_change_takes_away_shows_nothing() {
    let trip = RoundTrip::default().not_touching(&["private.txt"]).run(
        |p| {
            p.write(".decreeignore", "private.txt\n").write("private.txt", "mine\n").write("file", "x\n");
        },
        |p| {
            p.remove(".decreeignore").write("private.txt", "changed\n").write("file", "y\n");
        },
    );
    assert!(!trip.diff_mentions("private.txt"), "{}", trip.diff_text());
}

/// `.git/info/exclude`, `.ignore` and ignore files above the project are other tools' business.
#[test]
fn only_gitignore_and_decreeignore_in_the_project_count() {
    let outer = Project::bare();
    outer.write(".gitignore", "*\n");
    round_trip(
        |p| {
            p.write(".git/info/exclude", "a.txt\n").write(".ignore", "b.txt\n");
            p.write("a.txt", "a\n").write("b.txt", "b\n");
        },
        |p| {
            p.write("a.txt", "A\n").remove("b.txt");
        },
    );
    outer.write("inner/.decree/config.yml", "").write("inner/file", "x\n");
    let inner = |args: &[&str]| {
        let mut command = outer.command();
        crate::harness::run_command(command.current_dir(outer.path("inner")).args(args))
    };
    let id = inner(&["checkpoint", "create"]).ok().line();
    outer.write("inner/file", "y\n");
    inner(&["revert", &id]).ok();
    assert_eq!(outer.read("inner/file"), b"x\n");
}

#[test]
fn a_file_that_became_a_directory_of_hidden_things_comes_back() {
    RoundTrip::default().setting_aside(&["a/.env", "b/deep/x.log", "c/.git"]).run(
        |p| {
            p.write(".gitignore", "*.log\n").write("a", "a\n").write("b", b"\0b").link("c", "a");
        },
        |p| {
            p.remove("a").write("a/.env", "A=1\n").remove("b").write("b/deep/x.log", "log\n");
            p.remove("c").write("c/.git/HEAD", "ref\n");
        },
    );
}

/// What was ignored is lost with its directory, for it was never protected; the rest comes back.
#[test]
fn a_directory_with_ignored_files_that_became_a_file_comes_back_without_them() {
    RoundTrip::default().not_touching(&["d/x.log"]).run(
        |p| {
            p.write(".gitignore", "*.log\n").write("d/a", "a\n").write("d/x.log", "log\n");
        },
        |p| {
            p.remove("d").write("d", "file\n");
        },
    );
}

#[test]
fn a_new_directory_with_rules_of_its_own_goes_and_what_they_hide_is_set_aside() {
    RoundTrip::default().setting_aside(&["new/a.o", "new/build"]).run(
        |p| {
            p.write("file", "x\n");
        },
        |p| {
            p.write("new/.gitignore", "*.o\nbuild/\n")
                .write("new/a.c", "int a;\n")
                .write("new/a.o", "object\n");
            p.write("new/build/out", "out\n");
        },
    );
}

/// Only a regular file has rules, as with git.
#[test]
fn a_gitignore_that_became_something_else_shows_nothing() {
    let become_else: [fn(&Project); 2] = [
        |p| {
            p.link(".gitignore", "rules");
        },
        |p| {
            p.write(".gitignore/x", "");
        },
    ];
    for become_else in become_else {
        RoundTrip::default().not_touching(&["cache", "a.log"]).run(
            |p| {
                p.write(".gitignore", "cache/\n*.log\n").write("rules", "file\n").write("file", "x\n");
                p.write("cache/a", "a\n").write("a.log", "log\n");
            },
            |p| {
                p.remove(".gitignore");
                become_else(p);
                p.write("file", "y\n").write("cache/a", "b\n").write("a.log", "more\n");
            },
        );
    }
}

/// The cache remembers which names were visible, and under which rules.
#[test]
fn each_of_a_series_of_checkpoints_goes_by_its_own_rules() {
    let project = Project::new();
    project.write(".gitignore", "*.log\n").write("a.log", "1\n").write("file", "1\n");
    let hidden = project.checkpoint();
    project.write(".gitignore", "").write("a.log", "2\n").write("file", "2\n");
    let shown = project.checkpoint();
    project.write(".gitignore", "*.log\n").write("a.log", "3\n").write("file", "3\n");
    let again = project.checkpoint();
    let state = || [project.read(".gitignore"), project.read("a.log"), project.read("file")];
    for (id, expected) in [
        (&hidden, ["*.log\n", "3\n", "1\n"]),
        (&shown, ["", "2\n", "2\n"]),
        (&hidden, ["*.log\n", "2\n", "1\n"]),
        (&again, ["*.log\n", "2\n", "3\n"]),
    ] {
        project.decree(["revert", id]).ok();
        assert_eq!(state(), expected.map(|text| text.as_bytes().to_vec()));
    }
}
