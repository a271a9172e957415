//! The directory of the project itself, deleted or renamed by what runs in it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use super::{git, head, repository};
use crate::harness::git_in_front::GitInFront;
use crate::harness::{Project, assert_same, run_command, skip, temp_dir};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// Deletes the project; `REMAKE` also makes another directory in its place.
const DELETE: &str = "rm -rf \"$PWD\"";
const REMAKE: &str = "d=$PWD; cd ..; rm -rf \"$d\"; mkdir \"$d\"; echo new >\"$d/new\"; echo x >\"$d/.env\"";
const SAID: &str = "deleted the directory of the project; it is made again";

/// A project in which nothing is ignored but likely secrets.
fn project(routine: &str) -> PipelineProject {
    let project = super::project(routine);
    project.remove("tls/cert.pem");
    project
}

fn mode(project: &Project) -> u32 {
    fs::metadata(project.root()).unwrap().permissions().mode() & 0o7777
}

/// UNC-80.
#[test]
fn a_routine_that_deletes_the_project_is_reverted_and_nothing_is_lost() {
    for (script, end) in [(DELETE, "exit 1"), (REMAKE, "exit 1"), (DELETE, "exit 0"), (REMAKE, "exit 0")] {
        let project = project(&format!("{script}; {end}"));
        let commit = repository(project.root());
        fs::set_permissions(project.root(), fs::Permissions::from_mode(0o2751)).unwrap();
        let before = project.snapshot();
        let output = project.process().fails(1);
        assert_same(&project.snapshot(), &before);
        assert_eq!((head(project.root()), mode(&project)), (commit, 0o2751), "{script}");
        assert_has(&output.err, &[SAID, ".env was ", "restored from memory"]);
        assert!(!output.err.contains("NOT restored"), "{}", output.err);
        assert_eq!(project.dead(), ["01-work"]);
        project.routine("develop", "echo done >done.txt").process().ok();
        assert_eq!(project.text("done.txt"), "done\n");
    }
}

/// UNC-80. Also by the verification, and a retry finds the project.
#[test]
fn attempts_go_on_after_the_project_was_deleted() {
    let project = project(
        "if [ \"$DECREE_ATTEMPT\" != 3 ]; then rm -rf \"$PWD\"; exit 1; fi\n\
         cat .env notes.txt; git log --oneline; echo done >done.txt",
    );
    project.config("max_retries: 2\n");
    repository(project.root());
    let output = project.process().ok();
    assert_has(&output.err, &[SAID, "two", "first"]);
    assert_eq!(project.text("done.txt"), "done\n");
    project.config(&format!("max_retries: 0\nverify: '{}; false'\n", DELETE.replace("$PWD", "$(pwd)")));
    project.spec("02-more", "Do more.\n").routine("develop", "echo more >more.txt");
    let before = project.snapshot();
    let output = project.process().fails(1);
    assert_same(&project.snapshot(), &before);
    assert_has(&output.err, &[SAID]);
}

/// UNC-80.
#[test]
fn a_guarded_command_that_deletes_the_project_is_rolled_back() {
    for (script, end) in [(DELETE, "exit 1"), (REMAKE, "exit 1"), (DELETE, "exit 0"), (REMAKE, "exit 0")] {
        let project = project("true");
        let commit = repository(project.root());
        let before = project.snapshot();
        let script = format!("{script}; {end}");
        let output = project.decree(["guard", "--", "bash", "-c", &script]).fails(1);
        assert_same(&project.snapshot(), &before);
        assert_eq!(head(project.root()), commit);
        assert_has(&output.err, &[SAID, "restored: .git"]);
        assert!(!output.err.contains("NOT restored"), "{}", output.err);
        project.process().ok();
    }
}

/// UNC-80. The directory that the project is in goes with it.
#[test]
fn a_project_is_made_again_with_the_directories_above_it() {
    let outside = temp_dir();
    let above = outside.path().join("a/b");
    let project = project("true");
    let commit = repository(project.root());
    let before = project.snapshot();
    fs::create_dir_all(&above).unwrap();
    let place = above.join("p");
    let copied = std::process::Command::new("cp").arg("-a").arg(project.root()).arg(&place).status();
    assert!(copied.unwrap().success());
    let script = format!("rm -rf {}; exit 1", outside.path().join("a").display());
    let mut command = project.command();
    run_command(command.current_dir(&place).args(["guard", "--", "bash", "-c", &script])).fails(1);
    assert_same(&crate::harness::snapshot(&place), &before);
    assert_eq!(head(&place), commit);
}

/// UNC-80. What root makes again belongs to the user whose project it is.
#[test]
fn a_project_that_root_makes_again_has_its_owner() {
    if !skip::as_root() {
        return;
    }
    let project = project("true");
    crate::revert::hand_over(project.root());
    let owner = || fs::metadata(project.root()).map(|found| (found.uid(), found.gid())).unwrap();
    let before = owner();
    project.decree(["guard", "--", "bash", "-c", &format!("{DELETE}; exit 1")]).fails(1);
    assert_eq!(owner(), before);
    assert_ne!(before.0, 0);
}

/// UNC-86. Another decree starts at the moment in which git moves the branch back.
#[test]
fn no_other_decree_starts_while_a_command_that_deleted_the_lock_is_rolled_back() {
    let project = project("true");
    let commit = repository(project.root());
    let (decree, root) = (env!("CARGO_BIN_EXE_decree"), project.root().display());
    let other =
        format!("{decree} -C {root} checkpoint create >/dev/null 2>&1; echo $? >>\"${{0%/*}}/codes\"");
    let in_front = GitInFront::new(&format!("case \" $* \" in *' update-ref '*) {other} ;; esac"));
    let script = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; rm -rf .decree; exit 1";
    let mut command = project.command();
    command.env("PATH", in_front.search_path()).args(["guard", "--", "bash", "-c", script]);
    run_command(&mut command).fails(1);
    assert_eq!(head(project.root()), commit);
    let codes = fs::read_to_string(in_front.dir().join("codes")).unwrap();
    assert!(codes.lines().all(|code| code == "5"), "{codes}");
}

/// UNC-81.
#[test]
fn a_renamed_project_is_moved_back_and_that_is_said() {
    for end in ["exit 1", "exit 0"] {
        let script = format!("d=$PWD; cd ..; mv \"$d\" \"$d.old\"; {end}");
        let project = project(&script);
        let commit = repository(project.root());
        let before = project.snapshot();
        let code = i32::from(end == "exit 1");
        let said = format!("renamed the directory of the project to {}.old", project.root().display());
        let output = project.decree(["guard", "--", "bash", "-c", &script]);
        assert_eq!(output.code, code, "{}", output.err);
        assert_has(&output.err, &[&said, "it is moved back"]);
        let output = project.process();
        assert_eq!(output.code, code, "{}", output.err);
        assert_has(&output.err, &[&said]);
        let mut now = project.snapshot();
        now.remove(&b"specs/processed-spec.md"[..]);
        assert_same(&now, &before);
        assert_eq!(head(project.root()), commit);
    }
}

/// A project in a linked work tree of a repository beside it.
fn linked_work_tree(relative: bool) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = temp_dir();
    let (main, work_tree) = (dir.path().join("main"), dir.path().join("wt"));
    fs::create_dir(&main).unwrap();
    repository(&main);
    if relative {
        git(&main, &["config", "worktree.useRelativePaths", "true"]);
    }
    git(&main, &["worktree", "add", "-q", "-b", "side", "../wt"]);
    (dir, main, work_tree)
}

/// UNC-82.
#[test]
fn the_place_of_a_work_tree_that_was_moved_is_what_it_was() {
    for relative in [false, true] {
        for end in ["exit 1", "exit 0"] {
            let (dir, main, work_tree) = linked_work_tree(relative);
            let tool = Project::bare();
            let decree = |args: &[&str]| run_command(tool.command().current_dir(&work_tree).args(args));
            decree(&["init"]).ok();
            fs::write(work_tree.join("staged"), "staged\n").unwrap();
            git(&work_tree, &["add", "staged"]);
            let place = main.join(".git/worktrees/wt/gitdir");
            let before = fs::read(&place).unwrap();
            let script =
                format!("cd {0}/main && git worktree move ../wt ../wt2; {end}", dir.path().display());
            let output = decree(&["guard", "--", "bash", "-c", &script]);
            assert_eq!(output.code, i32::from(end == "exit 1"), "{}", output.err);
            assert_has(&output.err, &["renamed the directory of the project", "worktrees/wt/gitdir"]);
            assert_eq!(fs::read(&place).unwrap(), before);
            git(&main, &["worktree", "prune"]);
            assert_eq!(git(&work_tree, &["diff", "--cached", "--name-only"]), "staged");
        }
    }
}

/// UNC-82. What is not the project's is where its owner moved it.
#[test]
fn the_place_of_another_work_tree_stays() {
    let (dir, main, work_tree) = linked_work_tree(false);
    git(&main, &["worktree", "add", "-q", "-b", "other", "../other"]);
    let tool = Project::bare();
    let decree = |args: &[&str]| run_command(tool.command().current_dir(&work_tree).args(args));
    decree(&["init"]).ok();
    let script = format!("cd {}/main && git worktree move ../other ../other2; exit 1", dir.path().display());
    decree(&["guard", "--", "bash", "-c", &script]).fails(1);
    git(&main, &["worktree", "prune"]);
    assert_eq!(git(&dir.path().join("other2"), &["branch", "--show-current"]), "other");
}
