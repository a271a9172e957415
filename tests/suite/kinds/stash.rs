//! `git_stash`: an entry that plain git can restore.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::scene::{git, git_stash, parsed};
use crate::harness::git_in_front::{FIND_DECREE, GitInFront};
use crate::harness::{assert_same, run_command, wait_until};
use crate::pipeline::pipeline_project::PipelineProject;

const CREATE: [&str; 4] = ["checkpoint", "create", "--type", "git_stash"];

/// STS-01.
#[test]
fn making_one_touches_neither_the_work_tree_nor_the_index() {
    let project = git_stash().project;
    let before = project.snapshot();
    let index = || {
        let found = fs::metadata(project.path(".git/index")).unwrap();
        (fs::read(project.path(".git/index")).unwrap(), found.ino(), found.mtime_nsec(), found.ctime_nsec())
    };
    let status = || git(&project, &["--no-optional-locks", "status", "--porcelain=v2", "-z"]);
    let (index_before, status_before) = (index(), status());
    let id = project.decree([&CREATE[..], &["--reason", "to be safe"]].concat()).ok().line();
    assert!(index() == index_before, "git's index was touched");
    assert_eq!(status(), status_before);
    assert_same(&project.snapshot(), &before);
    let list = git(&project, &["stash", "list"]);
    assert!(list.contains(&format!("On main: checkpoint:{id}:to be safe")), "{list}");
}

/// STS-02.
#[test]
fn plain_git_restores_it() {
    let project = git_stash().project;
    let before = project.snapshot();
    let status = git(&project, &["status", "--porcelain=v2"]);
    project.decree(CREATE).ok();
    git(&project, &["reset", "-q", "--hard"]);
    git(&project, &["clean", "-qfd"]);
    assert_ne!(git(&project, &["status", "--porcelain=v2"]), status);
    git(&project, &["stash", "apply", "-q", "--index"]);
    assert_eq!(git(&project, &["status", "--porcelain=v2"]), status);
    // But for what git has no place for: empty directories and modes.
    project.mkdir("empty").mkdir("specs").chmod("src/untracked.rs", 0o600);
    let mut now = project.snapshot();
    now.retain(|path, thing| before.contains_key(path) || !format!("{thing:?}").starts_with("dir "));
    assert_same(&now, &before);
}

/// STS-03.
#[test]
fn it_goes_with_its_checkpoint_and_no_other_entry_does() {
    let project = git_stash().project;
    let first = project.decree(CREATE).ok().line();
    let second = project.decree(CREATE).ok().line();
    project.decree(["checkpoint", "delete", "--yes", &first]).ok();
    let list = git(&project, &["stash", "list"]);
    assert!(!list.contains(&first) && list.contains(&second), "{list}");
    git(&project, &["stash", "drop", "-q"]);
    project.write("notes.txt", "spoiled\n");
    let back = project.decree(["rollback", &second, "--format", "json"]).ok();
    assert!(parsed("json", &back.out)["warnings"].to_string().contains("no longer in `git stash list`"));
    project.decree(["checkpoint", "delete", "--yes", &second]).ok();
}

/// STS-04.
#[test]
fn an_index_that_was_changed_alone_comes_back_and_a_moved_head_is_reported() {
    let project = git_stash().project;
    let status = git(&project, &["status", "--porcelain=v2"]);
    let id = project.decree(CREATE).ok().line();
    let before = project.snapshot();
    git(&project, &["add", "-A"]);
    let back = project.decree(["rollback", &id, "--format", "json"]).ok();
    assert_eq!(git(&project, &["status", "--porcelain=v2"]), status);
    assert_same(&project.snapshot(), &before);
    let present = parsed("json", &back.out)["saved_present_as"].as_str().unwrap().to_owned();
    project.decree(["rollback", &present]).ok();
    assert!(git(&project, &["status", "--porcelain"]).contains("A  src/untracked.rs"));
    git(&project, &["commit", "-qm", "second"]);
    project.decree(["rollback", &id]).ok().mentions(&["HEAD moved from", "commits are not undone"]);
    assert_same(&project.snapshot(), &before);
}

/// STS-05.
#[test]
fn where_there_can_be_no_entry_the_reason_and_another_way_are_reported() {
    let project = PipelineProject::new();
    project.decree(CREATE).fails(3).mentions(&["not in a git repository", "file_backup"]);
    git(&project, &["init", "-q"]);
    project.decree(CREATE).fails(1).mentions(&["no commit yet", "file_backup"]);
    assert!(project.names(".decree/checkpoints").is_empty());
}

/// STS-06.
#[test]
fn secrets_do_not_get_into_gits_objects() {
    let project = git_stash().project;
    project.write(".env", "PASSWORD=hush-hush-hush\n");
    project.decree(CREATE).ok().mentions(&["warning:", ".env"]);
    let shown = git(&project, &["stash", "show", "-p", "--include-untracked", "--no-color"]);
    assert!(shown.contains("untracked") && !shown.contains("hush"), "{shown}");
}

/// STS-07.
#[test]
fn what_git_lost_of_it_is_reported_and_nothing_is_touched() {
    let project = git_stash().project;
    let id = project.decree(CREATE).ok().line();
    project.write("notes.txt", "spoiled\n");
    let spoiled = project.snapshot();
    let objects = git(&project, &["rev-list", "--objects", "refs/stash", "--not", "HEAD"]);
    for object in objects.lines().map(|line| line.split(' ').next().unwrap()) {
        let path = project.path(format!(".git/objects/{}/{}", &object[..2], &object[2..]));
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 1;
        fs::remove_file(&path).unwrap();
        project.decree(["rollback", &id]).fails(4);
        fs::write(&path, bytes).unwrap();
        project.decree(["checkpoint", "verify", &id]).fails(4);
        project.decree(["rollback", &id]).fails(4).mentions(&["decree revert"]);
        fs::write(&path, whole).unwrap();
    }
    assert_same(&project.snapshot(), &spoiled);
    project.decree(["rollback", &id]).ok();
}

/// STS-09. A git that takes long between creating its lock and using it, and the end of decree meanwhile.
#[test]
fn the_end_of_decree_leaves_no_lock_in_the_repository() {
    for (signal, code) in [("KILL", -1), ("INT", 130)] {
        let project = git_stash().project;
        let lock = project.path(".git/refs/stash.lock");
        let wait =
            format!("{FIND_DECREE}; : >{0}; kill -{signal} $decree; sleep 0.5; rm {0}", lock.display());
        let slow = GitInFront::new(&format!("case \" $* \" in *' stash store '*) {wait} ;; esac"));
        let output = run_command(project.command().env("PATH", slow.search_path()).args(CREATE));
        assert_eq!(output.code, code, "{}", output.err);
        wait_until("the end of git", || !lock.exists());
        let id = project.decree(CREATE).ok().line();
        assert!(git(&project, &["stash", "list"]).contains(&id), "{signal}");
    }
}

/// STS-08.
#[test]
fn what_only_git_holds_is_reported_and_a_conflict_is_no_obstacle() {
    let project = git_stash().project;
    project.write(".gitignore", "ignored/\n*.log\n").write("build.log", "v1\n");
    git(&project, &["add", "-f", "build.log", ".gitignore"]);
    git(&project, &["commit", "-qm", "log"]);
    let created = project.decree([&CREATE[..], &["--format", "json"]].concat()).ok().mentions(&["build.log"]);
    let answer = parsed("json", &created.out);
    assert!(
        answer["confidence"].as_f64().unwrap() < 1.0
            && answer["assumptions"].to_string().contains("build.log")
    );
    let id = answer["checkpoint"]["id"].as_str().unwrap();
    let (before, status) = (project.snapshot(), git(&project, &["status", "--porcelain=v2"]));
    // As a merge leaves it: three versions in the index.
    let blob = git(&project, &["hash-object", "-w", "notes.txt"]).trim().to_owned();
    let entries: String = (1..4).map(|stage| format!("100644 {blob} {stage}\tnotes.txt\n")).collect();
    let line = format!(
        "git rm -q --cached notes.txt && printf '%s' '{entries}' | git update-index --index-info && echo '<<<<<<<' >>notes.txt"
    );
    run_command(std::process::Command::new("bash").args(["-c", &line]).current_dir(project.root())).ok();
    assert!(git(&project, &["status", "--porcelain"]).contains("UU notes.txt"));
    let back = project.decree(["rollback", id, "--format", "json"]).ok();
    let back = parsed("json", &back.out);
    assert_eq!(git(&project, &["status", "--porcelain=v2"]), status);
    assert_same(&project.snapshot(), &before);
    assert!(
        back["warnings"].to_string().contains("has no stash entry")
            && back["confidence"].as_f64().unwrap() < 1.0
    );
}
