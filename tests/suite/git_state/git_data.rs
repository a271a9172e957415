//! What only `.git` has, besides settings, refs and objects: reflogs, a shared index, the data of other programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::process::Signal;

use super::interrupted::cut_off;
use super::{COMMIT, commit, make_busy, repo, view};
use crate::harness::{assert_same, snapshot, temp_dir};
use crate::publish::Repo;

const EXPIRE: &str = "git reflog expire --expire=now --expire-unreachable=now --all";

fn log(repo: &Repo, name: &str) -> String {
    String::from_utf8(fs::read(repo.path(".git/logs").join(name)).unwrap()).unwrap()
}

fn mode(repo: &Repo, name: &str) -> u32 {
    repo.path(name).metadata().unwrap().permissions().mode() & 0o7777
}

/// A commit that only reflogs lead to.
fn leave_commit(repo: &Repo) -> String {
    repo.write("left.txt", "left\n");
    repo.commit_all("only in the reflog");
    let left = commit(repo, "HEAD");
    repo.git(["reset", "-q", "--hard", "HEAD~1"]).ok();
    left
}

/// GIT-80.
#[test]
fn reflogs_that_a_failed_command_rewrote_have_their_lines_again() {
    for wreck in [
        format!("{EXPIRE}; git gc -q --prune=now"),
        ": >.git/logs/HEAD; : >.git/logs/refs/heads/main; git gc -q --prune=now".to_owned(),
        format!("{EXPIRE}; echo x >>docs/guide.md; {COMMIT}"),
        format!("echo x >>docs/guide.md; {COMMIT} git reflog delete HEAD@{{1}} HEAD@{{2}}"),
    ] {
        let repo = repo(&format!("{wreck}\nexit 7"));
        let left = leave_commit(&repo);
        let (before, files) = (view(&repo), [log(&repo, "HEAD"), log(&repo, "refs/heads/main")]);
        let modes = [mode(&repo, ".git/logs/HEAD"), mode(&repo, ".git/logs/refs/heads/main")];
        let output = repo.process().fails(1);
        for (name, old) in ["HEAD", "refs/heads/main"].iter().zip(&files) {
            let now = log(&repo, name);
            assert!(now.starts_with(old), "{wreck}, {name}:\n{now}\nwas\n{old}\n{}", output.err);
            assert_eq!(now.contains("commit: by the routine"), wreck.contains(COMMIT), "{wreck}:\n{now}");
        }
        assert_eq!([mode(&repo, ".git/logs/HEAD"), mode(&repo, ".git/logs/refs/heads/main")], modes);
        let after = view(&repo);
        assert_eq!((after.head, after.index), (before.head, before.index));
        output.mentions(&["changed or deleted, and restored: ", ".git/logs/HEAD"]);
        repo.git(["gc", "-q", "--prune=now"]).ok();
        assert_eq!(repo.blob(&left, "left.txt"), b"left\n", "{wreck}");
        repo.git(["fsck", "--strict", "--no-dangling"]).ok();
    }
}

/// GIT-80. After `kill -9`, too.
#[test]
fn reflogs_that_a_killed_run_rewrote_have_their_lines_again() {
    let repo = repo(&format!("{EXPIRE}; git gc -q --prune=now; touch .decree/ready; sleep 60"));
    let left = leave_commit(&repo);
    let files = [log(&repo, "HEAD"), log(&repo, "refs/heads/main")];
    cut_off(&repo, Signal::KILL);
    repo.decree(["revert", &repo.only_run()]).ok().mentions(&[".git/logs/HEAD"]);
    assert_eq!([log(&repo, "HEAD"), log(&repo, "refs/heads/main")], files);
    repo.git(["gc", "-q", "--prune=now"]).ok();
    assert_eq!(repo.blob(&left, "left.txt"), b"left\n");
}

/// GIT-80. A log that only grew is as git left it.
#[test]
fn a_reflog_that_only_grew_is_left_alone() {
    let repo = repo(&format!("echo x >>docs/guide.md; {COMMIT} exit 7"));
    let old = log(&repo, "HEAD");
    let output = repo.process().fails(1);
    assert!(!output.err.contains(".git/logs"), "{}", output.err);
    let now = log(&repo, "HEAD");
    let added: Vec<&str> = now.strip_prefix(&old).unwrap().lines().collect();
    assert_eq!(added.len(), 2, "{now}");
}

/// GIT-80. The list of stashes stays readable for those who could read it.
#[test]
fn the_log_of_the_stash_has_its_mode_again() {
    for wreck in ["git stash drop -q", "git stash clear", "rm .git/logs/refs/stash"] {
        let repo = repo(&format!("{wreck}; exit 7"));
        for text in ["one\n", "two\n"] {
            repo.write("docs/guide.md", text);
            repo.git(["stash", "-q"]).ok();
        }
        fs::set_permissions(repo.path(".git/logs/refs/stash"), fs::Permissions::from_mode(0o640)).unwrap();
        let (list, bytes) = (repo.says(["stash", "list"]), log(&repo, "refs/stash"));
        let stash = commit(&repo, "refs/stash");
        repo.process().fails(1);
        assert_eq!((repo.says(["stash", "list"]), log(&repo, "refs/stash")), (list, bytes), "{wreck}");
        assert_eq!(commit(&repo, "refs/stash"), stash, "{wreck}");
        assert_eq!(mode(&repo, ".git/logs/refs/stash"), 0o640, "{wreck}");
    }
}

/// A repository with a split index: most of it is in another file.
fn split(text: &str) -> Repo {
    let repo = repo(text);
    repo.git(["update-index", "--split-index"]).ok();
    repo.write("docs/guide.md", "staged\n");
    repo.git(["add", "docs/guide.md"]).ok();
    repo
}

fn shared_index(repo: &Repo) -> String {
    let names = fs::read_dir(repo.path(".git")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.find(|name| name.starts_with("sharedindex.")).expect("a shared index")
}

/// GIT-81.
#[test]
fn the_shared_part_of_a_split_index_comes_back() {
    for wreck in [
        "git update-index --no-split-index; rm .git/sharedindex.*",
        "for it in .git/sharedindex.*; do chmod u+w $it; echo nothing >$it; done",
    ] {
        let repo = split(&format!("{wreck}; exit 7"));
        let name = shared_index(&repo);
        let (bytes, status) = (fs::read(repo.path(".git").join(&name)).unwrap(), repo.says(["status", "-s"]));
        repo.process().fails(1).mentions(&["changed or deleted, and restored: ", &name]);
        assert_eq!(fs::read(repo.path(".git").join(&name)).unwrap(), bytes, "{wreck}");
        assert_eq!(repo.says(["status", "-s"]), status, "{wreck}");
        assert_eq!(repo.blob("", "docs/guide.md"), b"staged\n");
    }
}

/// GIT-81. After `kill -9`, too.
#[test]
fn the_shared_part_of_a_split_index_comes_back_after_a_kill() {
    let repo =
        split("git update-index --no-split-index; rm .git/sharedindex.*; touch .decree/ready; sleep 60");
    let status = repo.says(["status", "-s"]);
    cut_off(&repo, Signal::KILL);
    repo.decree(["revert", &repo.only_run()]).ok();
    assert_eq!(repo.says(["status", "-s"]), status);
    assert_eq!(repo.blob("", "docs/guide.md"), b"staged\n");
}

/// The data of another program in `.git`, a link and a mode among it.
fn with_data(text: &str) -> Repo {
    let repo = repo(text);
    let objects = repo.path(".git/lfs/objects/aa");
    fs::create_dir_all(&objects).unwrap();
    fs::write(objects.join("index.one"), "not pushed yet\n").unwrap();
    fs::set_permissions(objects.join("index.one"), fs::Permissions::from_mode(0o440)).unwrap();
    symlink("aa/index.one", repo.path(".git/lfs/objects/link")).unwrap();
    repo
}

/// GIT-81.
#[test]
fn the_data_of_other_programs_comes_back() {
    for wreck in ["rm -rf .git/lfs", "rm -f .git/lfs/objects/aa/*", "mv .git/lfs .git/elsewhere"] {
        let repo = with_data(&format!("{wreck}; exit 7"));
        let before = snapshot(&repo.path(".git/lfs"));
        repo.process()
            .fails(1)
            .mentions(&["changed or deleted, and restored: ", ".git/lfs/objects/aa/index.one"]);
        assert_same(&snapshot(&repo.path(".git/lfs")), &before);
    }
    let repo = with_data("rm -rf .git/lfs; echo x >>docs/guide.md");
    repo.process().ok().mentions(&["gone from git's directory, and in no diff: .git/lfs\n"]);
    assert!(!repo.exists(".git/lfs"));
}

/// GIT-81. After `kill -9` the content is lost, and that is said.
#[test]
fn the_data_of_other_programs_that_a_killed_run_deleted_is_named() {
    let repo = with_data("rm -rf .git/lfs; touch .decree/ready; sleep 60");
    cut_off(&repo, Signal::KILL);
    let output = repo.decree(["revert", &repo.only_run()]).fails(4);
    output.mentions(&[
        "NOT restored: .git/lfs (a repository: it is gone; the decree that held its content has ended)",
    ]);
}

/// Files that are too many bytes to be held together, beside settings.
fn with_much_data(text: &str) -> Repo {
    let repo = repo(text);
    repo.git(["config", "user.nickname", "mine"]).ok();
    for dir in ["a", "lfs", "t0"] {
        let dir = repo.path(".git").join(dir);
        fs::create_dir_all(&dir).unwrap();
        for number in 0..3 {
            fs::File::create(dir.join(number.to_string())).unwrap().set_len(16 << 20).unwrap();
        }
    }
    repo
}

/// GIT-82. Settings are held first, and what is not held is named.
#[test]
fn settings_are_held_whatever_else_is_in_the_git_directory() {
    let wreck = "git config user.nickname other; echo '*' >.git/info/exclude; mkdir -p .git/hooks; echo x >.git/hooks/x";
    let repo = with_much_data(&format!("{wreck}; exit 7"));
    let config = fs::read(repo.path(".git/config")).unwrap();
    let exclude = fs::read(repo.path(".git/info/exclude")).ok();
    let output = repo.process().fails(1);
    output.mentions(&["cannot be restored after a failure: ", " of .git/"]);
    assert_eq!(fs::read(repo.path(".git/config")).unwrap(), config);
    assert_eq!(fs::read(repo.path(".git/info/exclude")).ok(), exclude);
    assert!(!repo.exists(".git/hooks/x"));
}

/// GIT-82. What was not held and is gone or changed is an error.
#[test]
fn what_was_not_held_and_is_gone_or_changed_is_named() {
    for (wreck, lost) in [
        ("rm -rf .git/lfs", ".git/lfs (a repository: 1 file"),
        ("truncate -s 10 .git/hooks/large", ".git/hooks/large (a repository: "),
        ("truncate -s 10 .git/logs/refs/heads/large", ".git/logs/refs/heads/large (a repository: "),
    ] {
        let repo = repo(&format!("{wreck}; exit 7"));
        for name in ["lfs/large", "hooks/large", "logs/refs/heads/large"] {
            let path = repo.path(".git").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, vec![b'\n'; 17 << 20]).unwrap();
        }
        let output = repo.process().fails(4);
        output.mentions(&[
            "cannot be restored after a failure: ",
            ".git/hooks/large",
            "NOT restored: ",
            lost,
        ]);
    }
    let repo = repo("exit 7");
    fs::create_dir_all(repo.path(".git/lfs")).unwrap();
    fs::write(repo.path(".git/lfs/large"), vec![b'\n'; 17 << 20]).unwrap();
    assert!(!repo.process().fails(1).err.contains("NOT restored"));
}

/// GIT-83. A project below the top of its repository, and a `.git` that is a link.
#[test]
fn a_repository_outside_of_the_project_gets_its_settings_back() {
    let wreck = "git config user.nickname other; d=$(git rev-parse --git-dir); mkdir -p $d/hooks\n\
                 echo 'exit 1' >$d/hooks/pre-commit; chmod +x $d/hooks/pre-commit; rm -rf $d/lfs; exit 7";
    let elsewhere = temp_dir();
    for is_linked in [false, true] {
        let repo = repo("");
        repo.git(["config", "user.nickname", "mine"]).ok();
        fs::create_dir_all(repo.path(".git/lfs")).unwrap();
        fs::write(repo.path(".git/lfs/one"), "one\n").unwrap();
        let mut dir = repo.root().to_owned();
        if is_linked {
            let place = elsewhere.path().join("git");
            fs::rename(repo.path(".git"), &place).unwrap();
            symlink(&place, repo.path(".git")).unwrap();
        } else {
            dir = repo.path("deep/er");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("inner.txt"), "inner\n").unwrap();
            repo.decree(["-C", "deep/er", "init"]).ok();
            repo.commit_all("project");
        }
        make_busy(&repo);
        let git_dir = repo.path(".git").canonicalize().unwrap();
        let inside = || {
            let mut files = snapshot(&git_dir);
            files.retain(|name, _| !String::from_utf8_lossy(name).starts_with("objects"));
            files
        };
        let (before, files) = (view(&repo), inside());
        let dir = dir.to_str().unwrap();
        let output = repo.decree(["-C", dir, "guard", "--", "bash", "-c", wreck]).fails(7);
        assert_same(&inside(), &files);
        assert_eq!(view(&repo), before);
        output.mentions(&["changed or deleted, and restored: ", "/config", "/hooks/pre-commit", "/lfs/one"]);
    }
}
