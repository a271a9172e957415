//! As an ordinary user, for whom permissions are enforced; root bypasses them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::{NOBODY, RoundTrip, as_nobody, hand_over, look};
use crate::harness::{Project, assert_same, skip};

fn nobody() -> RoundTrip {
    RoundTrip::default().unprivileged()
}

/// Does something in a directory that forbids it, and forbids it again.
fn while_writable(project: &Project, dir: &str, mode: u32, act: impl FnOnce()) {
    project.chmod(dir, 0o755);
    act();
    project.chmod(dir, mode);
}

#[test]
fn read_only_files_come_back() {
    nobody().run(
        |p| {
            p.write("a", "a\n")
                .chmod("a", 0o444)
                .write("b", "b\n")
                .chmod("b", 0o400)
                .write("c", b"\0c")
                .chmod("c", 0o444);
        },
        |p| {
            p.remove("a")
                .write("a", "A\n")
                .chmod("a", 0o444)
                .remove("b")
                .remove("c")
                .write("c", b"\0C")
                .chmod("c", 0o400);
        },
    );
}

/// REV-08.
#[test]
fn files_in_read_only_directories_come_back() {
    nobody().run(
        |p| {
            p.write("ro/changed", "a\n").write("ro/deleted", "b\n").write("ro/sub/file", "c\n");
            p.chmod("ro/sub", 0o555).chmod("ro", 0o555);
        },
        |p| {
            while_writable(p, "ro", 0o555, || {
                p.write("ro/changed", "A\n").remove("ro/deleted").write("ro/made", "new\n");
                while_writable(p, "ro/sub", 0o555, || {
                    p.write("ro/sub/file", "C\n").write("ro/sub/new/x", "x\n");
                });
            });
        },
    );
}

#[test]
fn a_directory_made_read_only_with_its_files_is_undone() {
    nobody().run(
        |p| {
            p.write("d/a", "a\n").write("d/b", "b\n").write("d/e/f", "f\n");
        },
        |p| {
            p.write("d/a", "A\n").remove("d/b").write("d/new", "x\n").write("d/e/f", "F\n");
            p.chmod("d/e", 0o555).chmod("d", 0o555);
        },
    );
}

#[test]
fn a_read_only_directory_that_was_deleted_comes_back() {
    nobody().run(
        |p| {
            p.write("ro/a", "a\n")
                .mkdir("ro/empty")
                .chmod("ro/empty", 0o500)
                .chmod("ro", 0o555)
                .write("x", "");
        },
        |p| {
            p.chmod("ro", 0o755);
            p.remove("ro");
        },
    );
}

#[test]
fn a_read_only_directory_that_was_made_goes() {
    nobody().run(
        |p| {
            p.write("x", "");
        },
        |p| {
            p.write("ro/sub/a", "a\n").chmod("ro/sub", 0o555).mkdir("ro/empty").chmod("ro", 0o500);
        },
    );
}

#[test]
fn files_that_were_made_unreadable_come_back() {
    nobody().run(
        |p| {
            p.write("mode", "a\n").write("both", "b\n").write("binary", b"\0c");
        },
        |p| {
            p.chmod("mode", 0o000)
                .write("both", "B\n")
                .chmod("both", 0o000)
                .write("binary", b"\0C")
                .chmod("binary", 0o200);
            p.write("new", "new\n").chmod("new", 0o000);
        },
    );
}

#[test]
fn a_directory_that_was_made_unreadable_comes_back() {
    nobody().run(
        |p| {
            p.write("d/a", "a\n").write("d/e/f", "f\n").mkdir("empty");
        },
        |p| {
            p.chmod("d", 0o000).chmod("empty", 0o000);
        },
    );
}

/// REV-08.
#[test]
fn changes_in_a_directory_that_was_made_unreadable_come_back() {
    nobody().run(
        |p| {
            p.write("d/a", "a\n").write("d/b", "b\n").write("d/e/f", "f\n");
        },
        |p| {
            p.write("d/a", "A\n").remove("d/b").write("d/new", "x\n").write("d/e/f", "F\n");
            p.chmod("d/e", 0o000).chmod("d", 0o000);
        },
    );
}

#[test]
fn directories_closed_in_other_ways_come_back() {
    const MODES: [u32; 5] = [0o100, 0o200, 0o300, 0o400, 0o600];
    nobody().run(
        |p| {
            MODES.iter().for_each(|mode| {
                p.write(format!("{mode:o}/a"), "a\n").write(format!("{mode:o}/b"), "");
            })
        },
        |p| {
            for mode in MODES {
                p.write(format!("{mode:o}/a"), "A\n")
                    .remove(format!("{mode:o}/b"))
                    .write(format!("{mode:o}/c"), "c\n");
                p.chmod(format!("{mode:o}"), mode);
            }
        },
    );
}

#[test]
fn a_new_unreadable_directory_goes() {
    nobody().run(
        |p| {
            p.write("x", "");
        },
        |p| {
            p.write("new/deep/a", "a\n").chmod("new/deep", 0o000).chmod("new", 0o000);
        },
    );
}

#[test]
fn an_ignore_file_that_was_made_unreadable_comes_back() {
    nobody().run(
        |p| {
            p.write(".gitignore", "*.log\n").write("a.log", "log\n").write("file", "x\n");
        },
        |p| {
            p.chmod(".gitignore", 0o000).write("file", "y\n");
        },
    );
}

/// A directory can be moved only by someone who may write into it.
#[test]
fn an_ignored_read_only_directory_is_set_aside() {
    nobody().setting_aside(&["target"]).run(
        |p| {
            p.write(".gitignore", "").write("file", "x\n");
        },
        |p| {
            p.write(".gitignore", "/target\n").write("target/a", "a\n").chmod("target", 0o555);
        },
    );
}

/// CHK-04.
#[test]
fn an_unreadable_file_stops_a_checkpoint_and_is_named() {
    let project = Project::new();
    project
        .write("open", "x\n")
        .write("sub/closed", "x\n")
        .chmod("sub/closed", 0o000)
        .write("dir/x", "")
        .chmod("dir", 0o000);
    hand_over(project.root());
    let before = look(&project);
    as_nobody(&project, &["checkpoint", "create"]).fails(4).mentions(&["dir"]);
    project.chmod("dir", 0o755);
    as_nobody(&project, &["checkpoint", "create"]).fails(4).mentions(&["sub/closed", ".decreeignore"]);
    assert!(as_nobody(&project, &["checkpoint", "list"]).ok().out.is_empty());
    project.chmod("dir", 0o000);
    assert_same(&look(&project), &before);

    project.chmod("dir", 0o755).chmod("sub/closed", 0o600);
    as_nobody(&project, &["checkpoint", "create"]).ok();
}

/// A file that decree may not even make readable (another's) is an error, and the tree is left as it is.
#[test]
fn another_users_unreadable_file_stops_a_revert_and_nothing_is_touched() {
    if !skip::as_root() {
        return;
    }
    let project = Project::new();
    project.write("file", "x\n").write("d/e/f", "f\n");
    hand_over(project.root());
    let id = as_nobody(&project, &["checkpoint", "create"]).ok().line();
    project
        .write("file", "y\n")
        .write("d/e/f", "F\n")
        .chmod("d/e", 0o000)
        .write("d/theirs", "x\n")
        .chmod("d/theirs", 0o600);
    let before = look(&project);
    as_nobody(&project, &["diff", &id]).fails(4).mentions(&["d/theirs"]);
    assert_same(&look(&project), &before);
    as_nobody(&project, &["revert", &id]).fails(4).mentions(&["d/theirs"]);
    assert_same(&look(&project), &before);
}

/// In a container root works on another user's tree: restored files keep that user as their owner.
#[test]
fn what_root_puts_back_belongs_to_the_owner_of_the_tree() {
    if !skip::as_root() {
        return;
    }
    let project = Project::new();
    project.write("dir/sub/file", "x\n").write("changed", "x\n").mkdir("empty").link("link", "x");
    hand_over(project.root());
    let id = project.checkpoint();
    project.remove("dir").write("changed", "y\n").remove("empty").remove("link");
    project.decree(["revert", &id]).ok();
    for name in ["dir/sub/file", "changed", "link", "dir", "dir/sub", "empty"] {
        let owner = fs::symlink_metadata(project.path(name)).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (NOBODY, NOBODY), "{name}");
    }
}

/// What is set aside has to leave a directory that forbids it, although nothing else in it changed.
#[test]
fn hidden_files_in_read_only_directories_are_set_aside() {
    nobody().setting_aside(&["old/x.log", "old/cache", "new/sub/y.log"]).run(
        |p| {
            p.write(".gitignore", "").write("old/a", "a\n").chmod("old", 0o555);
        },
        |p| {
            p.write(".gitignore", "*.log\ncache/\n");
            while_writable(p, "old", 0o555, || {
                p.write("old/x.log", "log\n").write("old/cache/deep/c", "c\n").chmod("old/cache/deep", 0o555);
                p.chmod("old/cache", 0o500);
            });
            p.write("new/sub/y.log", "log\n").chmod("new/sub", 0o555).chmod("new", 0o555);
        },
    );
}

#[test]
fn a_hidden_unreadable_directory_is_set_aside() {
    nobody().setting_aside(&["target"]).run(
        |p| {
            p.write(".gitignore", "");
        },
        |p| {
            p.write(".gitignore", "/target\n").write("target/a", "a\n").chmod("target", 0o000);
        },
    );
}

/// REV-08. Also with a rollback, which saves the present first: with the modes that it has.
#[test]
fn a_guarded_command_that_closes_directories_is_rolled_back() {
    for mode in ["000", "311", "600"] {
        let project = Project::new();
        project.write("d/q", "q\n").write("a", "a\n");
        hand_over(project.root());
        let before = project.snapshot();
        let script = format!("chmod {mode} d; mkdir -m {mode} new; echo x >a; exit 3");
        as_nobody(&project, &["guard", "--", "sh", "-c", &script]).fails(3);
        assert_same(&project.snapshot(), &before);
    }
}
