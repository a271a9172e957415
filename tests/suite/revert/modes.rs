//! Permissions: every bit of them, on files and directories.

use std::os::unix::fs::PermissionsExt;

use super::{is_root, round_trip};
use crate::harness::{Project, assert_same, run_command, skip};

const FILE_MODES: [u32; 9] = [0o755, 0o600, 0o444, 0o400, 0o000, 0o4755, 0o2755, 0o1644, 0o7777];
const DIR_MODES: [u32; 8] = [0o700, 0o555, 0o750, 0o1777, 0o2755, 0o3770, 0o711, 0o777];

/// Modes that a checkpoint can be made of: its maker has to be able to read the file.
#[track_caller]
fn readable() -> impl Iterator<Item = u32> {
    let all = is_root();
    if !all {
        skip::skip(skip::Lack::Right("only root can read a file whose mode forbids it"));
    }
    FILE_MODES.into_iter().filter(move |mode| all || mode & 0o400 != 0)
}

/// DIF-04.
#[test]
fn a_change_of_mode_alone_comes_back() {
    round_trip(
        |p| {
            FILE_MODES.iter().for_each(|mode| {
                p.write(format!("to-{mode:o}"), "x\n");
            })
        },
        |p| {
            FILE_MODES.iter().for_each(|mode| {
                p.chmod(format!("to-{mode:o}"), *mode);
            })
        },
    );
    round_trip(
        |p| {
            readable().for_each(|mode| {
                p.write(format!("{mode:o}"), "x\n").chmod(format!("{mode:o}"), mode);
            })
        },
        |p| {
            readable().for_each(|mode| {
                p.chmod(format!("{mode:o}"), 0o644);
            })
        },
    );
}

#[test]
fn a_mode_comes_back_with_the_content() {
    round_trip(
        |p| {
            for mode in readable() {
                let (changed, deleted) = (format!("changed-{mode:o}"), format!("deleted-{mode:o}"));
                p.write(&changed, "x\n").chmod(&changed, mode).write(&deleted, "").chmod(&deleted, mode);
            }
        },
        |p| {
            for mode in readable() {
                let (changed, made) = (format!("changed-{mode:o}"), format!("made-{mode:o}"));
                p.remove(&changed).write(&changed, "y\n").remove(format!("deleted-{mode:o}"));
                p.write(&made, "z").chmod(&made, mode);
            }
        },
    );
}

#[test]
fn a_directory_changes_its_mode() {
    round_trip(
        |p| {
            for mode in DIR_MODES {
                p.write(format!("to-{mode:o}/file"), "x\n").mkdir(format!("empty-to-{mode:o}"));
                p.write(format!("from-{mode:o}/file"), "x\n").chmod(format!("from-{mode:o}"), mode);
            }
        },
        |p| {
            for mode in DIR_MODES {
                p.chmod(format!("to-{mode:o}"), mode).chmod(format!("empty-to-{mode:o}"), mode);
                p.chmod(format!("from-{mode:o}"), 0o755);
            }
        },
    );
}

/// REV-03.
///
/// git knows no directories, so nothing but decree's own notes says that these stay when they are empty.
#[test]
fn a_directory_with_a_mode_of_its_own_stays_when_it_is_empty() {
    round_trip(
        |p| {
            for mode in DIR_MODES {
                p.mkdir(format!("gets-{mode:o}")).chmod(format!("gets-{mode:o}"), mode);
                p.write(format!("loses-{mode:o}/file"), "x\n").chmod(format!("loses-{mode:o}"), mode);
            }
        },
        |p| {
            for mode in DIR_MODES {
                for (name, write) in [("gets", true), ("loses", false)] {
                    let dir = format!("{name}-{mode:o}");
                    p.chmod(&dir, 0o700);
                    if write {
                        p.write(format!("{dir}/file"), "x\n")
                    } else {
                        p.remove(format!("{dir}/file"))
                    };
                    p.chmod(&dir, mode);
                }
            }
        },
    );
}

#[test]
fn an_empty_directory_changes_mode_and_gets_a_file_at_once() {
    round_trip(
        |p| {
            p.mkdir("a")
                .mkdir("b")
                .chmod("b", 0o700)
                .write("c/file", "x\n")
                .write("d/file", "x\n")
                .chmod("d", 0o700);
        },
        |p| {
            p.write("a/file", "x\n").chmod("a", 0o700).write("b/file", "x\n").chmod("b", 0o755);
            p.remove("c/file").chmod("c", 0o700).remove("d/file").chmod("d", 0o755);
        },
    );
}

#[test]
fn directories_with_odd_modes_are_made_and_deleted_whole() {
    let build = |p: &Project, top: &str| {
        p.write(format!("{top}/a/b/file"), "x\n")
            .mkdir(format!("{top}/a/empty"))
            .write(format!("{top}/file"), "x\n");
        for (dir, mode) in [("a/b", 0o711), ("a/empty", 0o1777), ("a", 0o2750), ("", 0o700)] {
            p.chmod(format!("{top}/{dir}"), mode);
        }
    };
    round_trip(
        |p| build(p, "deleted"),
        |p| {
            p.remove("deleted");
            build(p, "made");
        },
    );
}

/// In a set-group-id directory everything new inherits the bit; what comes back must not.
#[test]
fn what_comes_back_inherits_nothing() {
    round_trip(
        |p| {
            p.write("shared/plain/file", "x\n").write("shared/file", "x\n").chmod("shared", 0o2775);
        },
        |p| {
            p.remove("shared/plain").write("shared/new/file", "x\n").remove("shared/file");
        },
    );
}

#[test]
fn the_umask_of_the_caller_does_not_affect_a_revert() {
    let project = Project::new();
    project
        .write("a/b/file", "x\n")
        .write("open", "x\n")
        .chmod("open", 0o666)
        .mkdir("wide")
        .chmod("wide", 0o777);
    let original = project.snapshot();
    let id = project.checkpoint();
    project.remove("a").remove("open").remove("wide").write("new/file", "y\n").chmod("new/file", 0o777);
    let mutated = project.snapshot();
    for (verb, expected) in [("revert", &original), ("apply", &mutated), ("revert", &original)] {
        let decree = env!("CARGO_BIN_EXE_decree");
        let mut shell = std::process::Command::new("sh");
        shell.current_dir(project.root()).args(["-c", &format!("umask 077; exec {decree} {verb} {id}")]);
        run_command(&mut shell).ok();
        assert_same(&project.snapshot(), expected);
    }
}

/// The top of the tree is the project's place, not its content.
#[test]
fn the_mode_of_the_project_directory_itself_is_left_alone() {
    let project = Project::new();
    project.write("file", "x\n");
    let id = project.checkpoint();
    project.write("file", "y\n");
    std::fs::set_permissions(project.root(), PermissionsExt::from_mode(0o711)).unwrap();
    project.decree(["revert", &id]).ok();
    let mode = std::fs::metadata(project.root()).unwrap().permissions().mode() & 0o7777;
    assert_eq!((project.read("file").as_slice(), mode), (&b"x\n"[..], 0o711));
}
