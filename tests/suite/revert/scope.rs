//! What a checkpoint excludes: git's and decree's own data, secrets, sockets and FIFOs.

use std::os::unix::net::UnixListener;
use std::process::Command;

use super::{RoundTrip, round_trip};
use crate::harness::{Project, TreeEntry, assert_same, snapshot};

/// IGN-04.
#[test]
fn the_git_directory_of_a_nested_repository_is_left_alone() {
    let trip = RoundTrip::default().not_touching(&["vendor/lib/.git", "worktree/.git"]).run(
        |p| {
            p.write("vendor/lib/.git/HEAD", "ref: refs/heads/main\n")
                .write("vendor/lib/.git/config", "[core]\n");
            p.write("vendor/lib/code.c", "int a;\n")
                .write("worktree/.git", "gitdir: ../x\n")
                .write("worktree/a", "a\n");
        },
        |p| {
            p.write("vendor/lib/.git/HEAD", "ref: refs/heads/other\n").write("vendor/lib/.git/new", "x");
            p.write("vendor/lib/code.c", "int b;\n")
                .write("vendor/lib/more.c", "")
                .write("worktree/.git", "gitdir: y\n");
            p.remove("worktree/a");
        },
    );
    assert!(!trip.diff_text().contains(".git/"), "{}", trip.diff_text());
}

#[test]
fn the_git_directory_at_the_top_is_left_alone() {
    let trip = round_trip(
        |p| {
            p.write(".git/HEAD", "ref: refs/heads/main\n").write("a", "a\n");
        },
        |p| {
            p.write(".git/HEAD", "changed\n").write(".git/objects/ab/cd", b"\0").write("a", "b\n");
        },
    );
    assert_eq!(trip.project.read(".git/HEAD"), b"changed\n");
    assert!(trip.project.exists(".git/objects/ab/cd"));
}

#[test]
fn a_nested_repository_that_lost_its_files_gets_them_back_around_its_git_directory() {
    RoundTrip::default().run(
        |p| {
            p.write("lib/.git/HEAD", "ref\n").write("lib/a", "a\n").write("lib/b/c", "c\n");
        },
        |p| {
            p.remove("lib/a").remove("lib/b");
        },
    );
}

/// A clone's history may be work that is nowhere else: it is moved, never deleted.
#[test]
fn the_git_directory_of_a_new_repository_is_set_aside() {
    let trip = RoundTrip::default().setting_aside(&["clone/.git", "linked/.git"]).run(
        |p| {
            p.write("file", "x\n");
        },
        |p| {
            p.write("clone/.git/HEAD", "ref\n")
                .write("clone/.git/objects/ab/cd", b"\0blob")
                .write("clone/a", "a\n");
            p.write("linked/.git", "gitdir: /elsewhere\n").write("linked/b", "b\n");
        },
    );
    assert!(!trip.project.exists("clone") && !trip.project.exists("linked"));
}

/// IGN-05.
#[test]
fn an_existing_secret_is_named_in_a_warning_and_never_touched() {
    let trip = RoundTrip::default().not_touching(&[".env", "deploy/id_rsa"]).run(
        |p| {
            p.write(".env", "TOKEN=hunter2\n")
                .write("deploy/id_rsa", "key\n")
                .write(".env.example", "TOKEN=\n");
            p.write("file", "x\n");
        },
        |p| {
            p.write(".env", "TOKEN=hunter3\n")
                .write("deploy/id_rsa", "other\n")
                .write(".env.example", "TOKEN=x\n");
        },
    );
    assert!(trip.created.err.contains("warning"), "{}", trip.created.err);
    for name in [".env", "deploy/id_rsa"] {
        assert!(trip.created.err.contains(name), "{name} is not in {}", trip.created.err);
    }
    assert!(!trip.diff_text().contains("hunter"), "{}", trip.diff_text());
    let kept =
        Command::new("grep").args(["-ra", "hunter"]).arg(trip.project.path(".decree")).output().unwrap();
    assert!(kept.stdout.is_empty(), "a secret is in .decree: {:?}", String::from_utf8_lossy(&kept.stdout));
}

#[test]
fn a_new_secret_stays_and_is_not_in_the_diff() {
    let trip = RoundTrip::default().not_touching(&[".env", "server.key"]).run(
        |p| {
            p.write("file", "x\n");
        },
        |p| {
            p.write(".env", "TOKEN=hunter2\n").write("file", "y\n");
            p.write("server.key", "-----BEGIN PRIVATE KEY-----\nhunter2\n");
        },
    );
    assert!(!trip.diff_text().contains("hunter2"), "{}", trip.diff_text());
}

/// IGN-05.
#[test]
fn a_secret_that_decreeignore_asks_for_is_a_file_like_others() {
    let trip = round_trip(
        |p| {
            p.write(".decreeignore", "!.env\n").write(".env", "A=1\n");
        },
        |p| {
            p.write(".env", "A=2\n");
        },
    );
    assert!(!trip.created.err.contains("warning"), "{}", trip.created.err);
}

/// RBK-31. A file that the checkpoint holds keeps being watched when its content turns into a secret's.
#[test]
fn a_certificate_that_becomes_a_private_key_comes_back() {
    let project = Project::new();
    project.write("tls.pem", "-----BEGIN CERTIFICATE-----\n").write("file", "x\n");
    let (before, id) = (project.snapshot(), project.checkpoint());
    project.write("tls.pem", "-----BEGIN PRIVATE KEY-----\n").write("file", "y\n");
    project.decree(["revert", &id]).ok().mentions(&["set aside tls.pem", "except for what was set aside"]);
    assert_same(&project.snapshot(), &before);
    let aside = std::fs::read(project.record(&id, "set-aside").join("tls.pem")).unwrap();
    assert_eq!(aside, b"-----BEGIN PRIVATE KEY-----\n");
    let diff = std::fs::read_to_string(project.record(&id, "changes.diff")).unwrap();
    assert!(!diff.contains("PRIVATE KEY"), "{diff}");
}

/// IGN-09.
#[test]
fn decrees_own_files_are_no_part_of_it() {
    let trip = RoundTrip::default().not_touching(&["specs/processed-spec.md"]).run(
        |p| {
            p.write("specs/processed-spec.md", "01.spec.md\n").write("specs/01.spec.md", "do\n");
            p.write(".decree/config.yml", "").write(".decree/routines/develop.sh", "true\n");
        },
        |p| {
            p.write("specs/processed-spec.md", "01.spec.md\n02.spec.md\n")
                .write("specs/01.spec.md", "done\n");
            p.write(".decree/routines/develop.sh", "false\n").write(".decree/inbox/new.md", "x\n");
        },
    );
    assert!(!trip.diff_mentions("specs/processed-spec.md"), "{}", trip.diff_text());
    assert!(!trip.diff_mentions(".decree"), "{}", trip.diff_text());
    assert_eq!(trip.project.read(".decree/routines/develop.sh"), b"false\n");
    let manifest = std::fs::read_to_string(trip.project.record(&trip.id, "manifest.json")).unwrap();
    assert!(!manifest.contains("processed-spec") && !manifest.contains(".decree/"), "{manifest}");
}

fn make_fifo(project: &Project, name: &str) {
    assert!(Command::new("mkfifo").arg(project.path(name)).status().unwrap().success());
}

/// CHK-05.
#[test]
fn fifos_and_sockets_are_skipped_with_a_warning() {
    let trip = round_trip(
        |p| {
            p.write("file", "x\n");
            make_fifo(p, "pipe");
            drop(UnixListener::bind(p.path("socket")).unwrap());
        },
        |p| {
            p.write("file", "y\n");
        },
    );
    assert!(trip.created.err.contains("pipe, socket"), "{}", trip.created.err);
    assert!(trip.project.exists("pipe") && trip.project.exists("socket"));
}

#[test]
fn a_fifo_that_the_change_made_is_set_aside() {
    RoundTrip::default().setting_aside(&["file", "new/pipe"]).run(
        |p| {
            p.write("file", "x\n");
        },
        |p| {
            p.remove("file").mkdir("new");
            make_fifo(p, "file");
            make_fifo(p, "new/pipe");
        },
    );
}

/// A FIFO in a file's place must not block decree, which would wait for a writer for ever.
#[test]
fn an_ignore_file_replaced_by_a_fifo_blocks_nothing() {
    let project = Project::new();
    project.write(".gitignore", "*.log\n").write("a.log", "mine\n").write("file", "x\n");
    let original = project.snapshot();
    let id = project.checkpoint();
    project.remove(".gitignore").write("file", "y\n");
    make_fifo(&project, ".gitignore");
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &original);
    assert!(snapshot(&project.record(&id, "set-aside")).values().any(|thing| *thing == TreeEntry::Other));
}
