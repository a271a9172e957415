//! Directories that have not changed are not listed again, and what is in them is found all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::harness::skip::{Lack, skip};
use crate::harness::{Project, run_command};
use crate::killed::{has_strace, strace};

const CREATE: [&str; 2] = ["checkpoint", "create"];

/// A project whose directories the cache has: files and directories that are younger than the clock's tick are looked at again.
fn settled() -> Project {
    let project = Project::new();
    for dir in ["a", "b", "b/c", "d", "d/e/f"] {
        for n in 0..3 {
            project.write(format!("{dir}/file-{n}"), format!("{dir} {n}\n"));
        }
    }
    project
        .link("a/link", "file-1")
        .mkdir("d/empty")
        .write("ignored/x", "x")
        .write(".gitignore", "*.tmp\n/ignored/\n");
    settle(&project);
    project
}

fn settle(project: &Project) {
    for _ in 0..2 {
        sleep(Duration::from_millis(30));
        project.checkpoint();
    }
}

fn listed(project: &Project, args: &[&str]) -> usize {
    let log = tempfile::NamedTempFile::new().unwrap();
    let path = log.path().to_str().unwrap();
    assert!(strace(project, args, &["-y", "-o", path, "-e", "trace=getdents64"]).status.success());
    let root = project.root().canonicalize().unwrap();
    let log = fs::read_to_string(path).unwrap();
    let in_tree = |line: &&str| {
        let dir = line.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(dir, _)| dir);
        dir.starts_with(root.to_str().unwrap()) && !dir.contains("/.decree")
    };
    log.lines().filter(in_tree).count()
}

/// CHK-13.
#[test]
fn directories_that_have_not_changed_are_not_listed() {
    let project = settled();
    if !has_strace() || !listings_are_cached(&project) {
        return;
    }
    // The root, which has decree's own directory, and the ignored one, where likely secrets are searched: two calls each.
    assert_eq!(listed(&project, &CREATE), 4);
    project.write("b/c/new", "new\n");
    assert_eq!(listed(&project, &CREATE), 6);
}

/// They are on file systems whose times can be trusted.
fn listings_are_cached(project: &Project) -> bool {
    let found = run_command(Command::new("stat").args(["-f", "-c", "%T"]).arg(project.root())).text();
    let is_local = ["ext2/ext3", "xfs", "btrfs", "tmpfs"].contains(&found.trim());
    if !is_local {
        skip(Lack::Right("the temporary directory is on another kind of file system"));
    }
    is_local
}

/// CHK-13. Every way in which the names in a directory, or what they stand for, can change.
#[test]
fn whatever_changes_in_a_directory_that_was_cached_is_found() {
    let scripts = [
        "echo new >b/c/new",
        "rm b/c/file-1",
        "mv b/c/file-1 b/c/other",
        "mv b/c/file-1 d/e/f/moved",
        "mv b/c x && mv x b/c && echo new >b/c/new",
        "mv b/c x; mkdir b/c; cp x/* b/c; echo more >b/c/more; rm -r x",
        "rm b/c/file-1; mkdir b/c/file-1; echo x >b/c/file-1/x",
        "rm -r b/c; echo file >b/c",
        "rm -r b/c; ln -s ../a b/c",
        "rm a/link; echo file >a/link",
        "rm a/link; ln -s file-2 a/link",
        "ln -f a/file-0 b/c/file-2",
        "echo changed >b/c/file-0",
        "printf 'b/c 0\\n' >b/c/file-0; touch -d @1 b/c/file-0 b/c",
        "echo new >b/c/new; touch -r b b/c",
        "chmod 700 b/c",
        "mkdir b/c/deep; echo x >b/c/deep/x",
        "rmdir d/empty",
        "echo x >d/empty/x",
        "echo x >b/c/hidden.tmp; echo x >d/new",
        "echo secret >b/c/.env; echo x >d/new",
        "touch -d @1 b/c b; echo x >b/c/new; touch -d @1 b/c b",
        "echo 'file-1' >b/c/.gitignore",
        "echo '/b/' >>.gitignore; echo x >b/c/new",
    ];
    for script in scripts {
        let project = settled();
        let id = project.checkpoint();
        run_command(Command::new("bash").args(["-c", script]).current_dir(project.root())).ok();
        let by_cache = (difference(&project, &id), manifest(&project));
        fs::remove_file(project.path(".decree/store/stat-cache")).unwrap();
        assert_eq!(by_cache.0, difference(&project, &id), "{script}");
        assert_eq!(by_cache.1, manifest(&project), "{script}");
    }
}

fn difference(project: &Project, id: &str) -> String {
    project.decree(["diff", id]).ok().text()
}

/// What a new checkpoint holds.
fn manifest(project: &Project) -> Value {
    let text = fs::read(project.record(&project.checkpoint(), "manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&text).unwrap();
    manifest.as_object_mut().unwrap().remove("git");
    manifest
}

/// CHK-13. Its attributes are recorded although the directory is not listed.
#[test]
fn an_attribute_of_a_directory_that_was_cached_is_found() {
    let project = settled();
    let id = project.checkpoint();
    let set = |value: &str| {
        run_command(
            Command::new("setfattr")
                .args(["-n", "user.note", "-v", value, "b/c"])
                .current_dir(project.root()),
        )
    };
    if set("one").code != 0 {
        skip(Lack::Right("extended attributes cannot be set here"));
        return;
    }
    project.decree(["diff", &id]).ok();
    assert!(project.decree(["diff", &id]).ok().text().contains("b/c"));
    settle(&project);
    let with = project.checkpoint();
    set("two").ok();
    assert!(project.decree(["diff", &with]).ok().text().contains("b/c"));
}

/// CHK-14. A cache of the version before: without what directories were.
#[test]
fn a_damaged_or_foreign_cache_costs_only_time() {
    let project = settled();
    let id = project.checkpoint();
    let path = project.path(".decree/store/stat-cache");
    let good = fs::read(&path).unwrap();
    assert_eq!(good[7], 4);
    for damage in [&good[..good.len() - 30], &[&b"DCRstat\x03"[..], &good[8..]].concat(), b"", b"DCRstat\x09"]
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, damage).unwrap();
        project.write("b/c/new", "new\n");
        let changed = project.checkpoint();
        project.decree(["rollback", &id]).ok();
        assert!(!project.exists("b/c/new"));
        project.decree(["rollback", &changed]).ok();
        assert!(project.exists("b/c/new"));
        project.remove("b/c/new");
    }
}
