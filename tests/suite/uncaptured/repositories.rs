//! Repositories and ignored entries in the root, around a run.

use std::process::Stdio;

use super::{EMPTY_AND_REMOVE, git, head, project, repository};
use crate::harness::{Project, assert_same, skip, temp_dir, wait_for};
use crate::pipeline::pipeline_project::assert_has;
use crate::revert::{as_nobody, hand_over};

/// UNC-13.
#[test]
fn renamed_repositories_and_ignored_directories_are_moved_back() {
    for script in [
        "mv .git .git.bak; mv lib/.git lib/old; mv target target2",
        "mv .git lib/elsewhere; mv target docs/t",
        "mv .git .git.bak; git init -q .; mv target t; mkdir target; echo new >target/new",
        "mv lib lib2",
        "mv lib/.git lib.git; rm -rf lib",
        "mv target secrets/t; mv secrets s",
    ] {
        let project = project(&format!("{script}\necho x >>notes.txt; exit 1"));
        let commit = repository(project.root());
        project.write("lib/a.c", "int a;\n").write("target/debug/bin", "built\n");
        let nested = repository(&project.path("lib"));
        let before = project.snapshot();
        let output = project.process().fails(1);
        assert_same(&project.snapshot(), &before);
        assert_eq!((head(project.root()), head(&project.path("lib"))), (commit, nested), "{script}");
        assert_has(&output.err, &["renamed, and moved back: "]);
        let id = project.only_run();
        let diff = project.of_run(&id, "changes.diff");
        assert!(!diff.contains("objects/") && !diff.contains("debug/bin"), "{script}: {diff}");
        assert!(!project.result(&id)["put_back"]["moved_back"].as_array().unwrap().is_empty());
    }
}

/// UNC-13. Also out of the project, on the same file system.
#[test]
fn what_was_moved_out_of_the_project_is_moved_back() {
    let outside = temp_dir();
    let place = outside.path().display();
    let project = project(&format!("mv .git {place}/git; mv target {place}/; exit 1"));
    let commit = repository(project.root());
    project.write("target/debug/bin", "built\n");
    let before = project.snapshot();
    project.process().fails(1);
    assert_same(&project.snapshot(), &before);
    assert_eq!(head(project.root()), commit);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// UNC-14. UNC-55.
#[test]
fn a_routine_that_succeeds_and_removed_a_repository_has_failed() {
    for (script, code, why) in [
        ("mv .git .git.bak", 1, "policy: .git was renamed to .git.bak"),
        ("mv .git .git.bak; git init -q .", 1, "policy: .git was renamed to .git.bak"),
        ("mv lib/.git lib/x", 1, "policy: lib/.git was renamed to lib/x"),
        ("rm -rf .git", 1, "policy: .git is gone"),
        ("rm -rf .git; git init -q .", 1, "policy: .git was replaced"),
        ("rm -rf lib", 1, "policy: lib/.git is gone"),
        // Without the second names of the objects, which are open as well.
        ("rm -rf .git .decree", 1, "policy: .git is gone"),
        ("rm -rf .git .decree/git-objects; git init -q .", 1, "policy: .git was replaced"),
        ("rm -rf lib .decree/git-objects", 1, "policy: lib/.git is gone"),
        // An object that was emptied is so under every name.
        (EMPTY_AND_REMOVE, 4, "policy: .git is gone"),
    ] {
        let project = project(&format!("{script}\necho x >>notes.txt"));
        let commit = repository(project.root());
        project.write("lib/a.c", "int a;\n");
        let nested = repository(&project.path("lib"));
        let output = project.process().fails(code);
        if code == 1 {
            assert_eq!((head(project.root()), head(&project.path("lib"))), (commit, nested), "{script}");
        }
        let result = project.result(&project.only_run());
        assert_has(result["reason"].as_str().unwrap(), &[why]);
        assert_eq!(result["status"], "policy");
        assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
        assert_eq!(project.text("lib/a.c"), "int a;\n");
        assert_eq!(project.dead(), ["01-work"]);
        if code == 4 {
            let lost = result["put_back"]["not_restored"][0]["path"].as_str().unwrap().to_owned();
            assert_has(&output.err, &[&format!("NOT restored: {lost}"), "error: a failed run left"]);
            assert_has(&output.text(), &[&format!("reverted to its checkpoint, except for {lost}")]);
        }
    }
}

/// UNC-14. A repository that moves with its work tree, or whose `.git` becomes a file, is not removed.
#[test]
fn a_repository_that_git_itself_moved_is_kept() {
    for script in ["mv lib lib2", "git -C lib init -q --separate-git-dir ../lib.git"] {
        let project = project(script);
        project.write("lib/a.c", "int a;\n").write(".gitignore", "/lib.git\n");
        repository(&project.path("lib"));
        project.process().ok();
    }
}

/// UNC-15.
#[test]
fn the_git_file_of_a_submodule_comes_back() {
    for script in ["rm lib/.git", "echo gitdir: /nowhere >lib/.git", "rm -rf lib"] {
        let project = project(&format!("{script}\nexit 1"));
        project.write("lib/a.c", "int a;\n").write(".gitignore", "/lib.git\n");
        repository(&project.path("lib"));
        git(&project.path("lib"), &["init", "-q", "--separate-git-dir", "../lib.git"]);
        let before = project.snapshot();
        project.process().fails(1);
        assert_same(&project.snapshot(), &before);
    }
}

/// UNC-16.
#[test]
fn an_ignored_entry_that_a_failed_run_deleted_is_an_error_that_names_it() {
    let project = project("rm -rf target app.log; echo x >>notes.txt; exit 1");
    project.write("target/debug/bin", "built\n").write("app.log", "log\n");
    let output = project.process().fails(4);
    assert_has(&output.err, &["NOT restored: app.log (ignored: it was deleted), target (ignored:"]);
    assert_has(&output.text(), &["the tree is reverted to its checkpoint, except for app.log, target ("]);
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
    assert_eq!(project.dead(), ["01-work"]);
    let report = project.decree(["report", "--format", "markdown"]).ok().text();
    assert_has(&report, &["except for app.log, target"]);
}

/// UNC-16.
#[test]
fn an_ignored_entry_that_a_kept_run_deleted_is_a_warning() {
    let project = project("rm -rf target; echo x >>notes.txt");
    project.write("target/debug/bin", "built\n");
    let output = project.process().ok();
    assert_has(&output.err, &["gone, and in no diff because ignored: target"]);
}

/// UNC-16. An ignored directory that is made anew is there.
#[test]
fn an_ignored_directory_that_was_made_anew_is_not_missing() {
    let project = project("rm -rf target; mkdir target; echo other >target/new; exit 1");
    project.write("target/debug/bin", "built\n");
    project.process().fails(1);
    assert_eq!(project.text("target/new"), "other\n");
}

/// UNC-17.
#[test]
fn repositories_and_ignored_entries_are_recorded_in_the_manifest() {
    let project = project("true");
    repository(project.root());
    project.write("lib/a.c", "int a;\n").write("target/x", "x").write("app.log", "log\n");
    repository(&project.path("lib"));
    repository(&project.path("target"));
    let id = project.checkpoint();
    let manifest = String::from_utf8(std::fs::read(project.record(&id, "manifest.json")).unwrap()).unwrap();
    assert_has(
        &manifest,
        &[r#""ignored_in_root":["app.log","secrets","target"]"#, r#""repositories":[".git","lib/.git"]"#],
    );
    project.decree(["checkpoint", "verify", &id]).ok();
}

/// A repository with a project in `app/`; returns the commit, too.
fn below_its_repository() -> (Project, String) {
    let top = Project::new();
    top.write("app/notes.txt", "notes\n").write("app/.decree/config.yml", "max_retries: 0\n");
    git(top.root(), &["init", "-q"]);
    git(top.root(), &["add", "-A"]);
    git(top.root(), &["commit", "-q", "-m", "the only copy"]);
    let commit = head(top.root());
    (top, commit)
}

/// UNC-14. GIT-24. The repository is not in the tree, and what was committed is nowhere else.
#[test]
fn a_command_that_removed_the_repository_above_the_project_has_failed() {
    for script in ["rm -rf ../.git", "mv ../.git ../gitx"] {
        let (top, commit) = below_its_repository();
        let output = top.decree(["-C", "app", "guard", "--", "bash", "-c", script]).fails(1);
        assert_has(&output.err, &[".git is gone; a repository must stay where it is"]);
        assert_eq!(head(top.root()), commit, "{script}");
        git(top.root(), &["fsck", "--strict"]);
    }
}

/// UNC-62. After a kill, its objects are kept and named.
#[test]
fn after_a_kill_the_objects_of_a_repository_above_the_project_are_kept() {
    let (top, commit) = below_its_repository();
    let script = "rm -rf ../.git; echo x >ready; while :; do sleep 0.05; done";
    top.write("app/.decree/routines/develop.sh", script).write("app/specs/01-a.spec.md", "Work.\n");
    let mut command = top.command();
    command.args(["-C", "app", "process"]).stderr(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_for(&top.path("app/ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    top.write("app/.decree/routines/develop.sh", "true\n");
    let output = top.decree(["-C", "app", "process"]).fails(4);
    assert_has(&output.err, &["that could not be restored are kept in .decree/git-objects-2"]);
    let kept = format!("app/.decree/git-objects-2/0/{}/{}", &commit[..2], &commit[2..]);
    assert!(top.exists(&kept), "{kept}");
}

/// GIT-22. GIT-83. The repository that a linked work tree belongs to.
#[test]
fn a_failed_command_in_a_linked_work_tree_leaves_its_repository_as_it_was() {
    let main = Project::new();
    repository(main.root());
    let work_tree = temp_dir();
    let dir = work_tree.path().join("linked");
    let dir = dir.to_str().unwrap();
    git(main.root(), &["worktree", "add", "-q", "-b", "side", dir]);
    std::fs::create_dir(format!("{dir}/.decree")).unwrap();
    main.write(".git/hooks/pre-commit", "exit 0\n");
    let paths = [".git/config", ".git/hooks/pre-commit", ".git/worktrees/linked/logs/HEAD"];
    let before = paths.map(|path| main.read(path));
    let script = "git config core.pager evil; rm $(git rev-parse --git-common-dir)/hooks/pre-commit\n\
         : >$(git rev-parse --git-dir)/logs/HEAD; exit 3";
    main.decree(["-C", dir, "guard", "--", "bash", "-c", script]).fails(3);
    assert_eq!(paths.map(|path| main.read(path)), before);
    let script = format!("rm -rf {}", main.path(".git").display());
    main.decree(["-C", dir, "guard", "--", "bash", "-c", &script]).fails(1);
    git(main.root(), &["fsck", "--strict"]);
    assert_eq!(paths.map(|path| main.read(path)), before);
    assert_eq!(head(dir.as_ref()), head(main.root()));
}

/// UNC-13. An ordinary user closed the directory that an entry was moved to.
#[test]
fn what_was_moved_to_a_directory_that_was_closed_is_moved_back() {
    if !skip::as_root() {
        return;
    }
    let project =
        project("mkdir shut; mv target shut/t; mkdir target; echo new >target/new; chmod 500 shut; exit 1");
    project.write("target/debug/bin", "built\n");
    hand_over(project.root());
    let before = project.snapshot();
    as_nobody(&project, &["process"]).fails(1).mentions(&[
        "renamed, and moved back: target",
        "target had been renamed; what was in its place is now .decree/",
    ]);
    assert_same(&project.snapshot(), &before);
}

/// UNC-16.
#[test]
fn an_ignored_directory_that_was_deleted_and_made_again_is_named() {
    let project = project("rm -rf target; mkdir target; exit 1");
    project.write("target/debug/bin", "built\n");
    let output = project.process().fails(1);
    assert_has(&output.err, &["deleted and made again, so that what was in them is gone: target"]);
}

/// UNC-85.
#[test]
fn what_was_moved_back_from_the_place_of_another_entry_is_not_said_to_be_set_aside() {
    for script in ["mv .git g; mv target .git", "mv .git g; mv lib/.git .git; mv g lib/.git"] {
        let project = project(&format!("{script}; exit 1"));
        let commit = repository(project.root());
        project.write("lib/a.c", "int a;\n").write("target/debug/bin", "built\n");
        let nested = repository(&project.path("lib"));
        let before = project.snapshot();
        let output = project.process().fails(1);
        assert_same(&project.snapshot(), &before);
        assert_eq!((head(project.root()), head(&project.path("lib"))), (commit, nested), "{script}");
        assert_has(&output.err, &["renamed, and moved back: "]);
        assert!(!output.err.contains("what was in its place is now"), "{script}: {}", output.err);
    }
}

/// UNC-85.
#[test]
fn an_ignored_directory_that_was_deleted_is_named_once_and_only_if_something_is_lost() {
    for script in ["rm -rf secrets", "rm -rf secrets; mkdir secrets"] {
        let project = project(&format!("{script}; exit 1"));
        let before = project.snapshot();
        let output = project.process().fails(1);
        assert_same(&project.snapshot(), &before);
        assert!(!output.err.contains("is gone"), "{script}: {}", output.err);
        project.write("secrets/cache", "more\n");
        project.routine("develop", "rm -rf secrets; exit 1");
        let output = project.process().fails(4);
        assert_has(
            &output.err,
            &["NOT restored: secrets (ignored: it was deleted)", "secrets/.env was deleted"],
        );
        assert!(!output.err.contains("made again"), "{}", output.err);
    }
}
