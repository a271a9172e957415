//! Where the repository is, and how it keeps its refs.

use std::fs;
use std::path::Path;

use super::{COMMIT, add_nested_and_submodule, commit, repo, script, view};
use crate::harness::{run_command, skip, temp_dir};
use crate::pipeline::pipeline_project::PipelineProject;
use crate::publish::git_in;

/// A project in a directory of its own, whose routine commits and fails.
fn failing_project(dir: &Path) {
    fs::create_dir_all(dir.join(".decree/routines")).unwrap();
    fs::create_dir_all(dir.join("specs")).unwrap();
    fs::write(dir.join(".decree/.gitignore"), "*\n").unwrap();
    fs::write(dir.join(".decree/config.yml"), "max_retries: 0\n").unwrap();
    fs::write(dir.join("specs/01-a.spec.md"), "# A\n").unwrap();
    fs::write(dir.join("inner.txt"), "inner\n").unwrap();
    let routine = script(&format!("echo work >>inner.txt; {COMMIT} exit 7"));
    fs::write(dir.join(".decree/routines/develop.sh"), routine).unwrap();
}

fn index_of(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

/// GIT-04.
#[test]
fn a_project_in_a_subdirectory() {
    let repo = repo("");
    failing_project(&repo.path("deep/er"));
    repo.commit_all("inner project");
    repo.write("notes.txt", "staged at the top\n");
    repo.git(["add", "notes.txt"]).ok();
    let before = view(&repo);
    repo.decree(["-C", "deep/er", "process"]).fails(1).mentions(&["git: main is back at"]);
    assert_eq!(view(&repo), before);
}

/// GIT-04. A linked work tree has its own HEAD and index; branches are shared.
#[test]
fn a_linked_work_tree() {
    let repo = repo("");
    let place = temp_dir();
    let tree = place.path().join("linked");
    repo.git(["worktree", "add", "-q", "-b", "side", tree.to_str().unwrap()]).ok();
    failing_project(&tree);
    git_in(&tree, ["add", "-A"]).ok();
    git_in(&tree, ["commit", "-q", "-m", "project"]).ok();
    let index = repo.path(".git/worktrees/linked/index");
    let before = (view(&repo), index_of(&index), commit(&repo, "side"));
    let mut command = repo.command();
    run_command(command.current_dir(&tree).arg("process")).fails(1).mentions(&["git: side is back at"]);
    assert_eq!((view(&repo), index_of(&index), commit(&repo, "side")), before);
    assert_eq!(git_in(&tree, ["status", "--porcelain"]).ok().text(), "");
}

/// GIT-04.
#[test]
fn a_repository_without_a_commit() {
    for staged in [false, true] {
        let project = PipelineProject::with(&script(&format!("echo work >>notes.txt; {COMMIT} exit 7")));
        project.spec("01-a", "# A\n").config("max_retries: 0\n").write(".decree/.gitignore", "*\n");
        git_in(project.root(), ["init", "-q", "-b", "main"]).ok();
        if staged {
            git_in(project.root(), ["add", "notes.txt"]).ok();
        }
        let status = || git_in(project.root(), ["status", "--porcelain", "--branch"]).ok().text();
        let before = status();
        project.process().fails(1).mentions(&["git: main is back at no commit"]);
        assert_eq!(status(), before);
        assert_eq!(project.exists(".git/index"), staged);
        assert!(!project.exists(".git/refs/heads/main"));
        let id = project.only_run();
        let kept = format!("refs/decree/runs/{id}");
        let subject = git_in(project.root(), ["log", "-1", "--format=%s", &kept]).ok().text();
        assert_eq!(subject, "by the routine\n");
    }
}

/// GIT-04.
#[test]
fn a_detached_head_goes_back_to_its_commit() {
    for routine in ["", "git checkout -q main;", "git checkout -q -b topic;"] {
        let repo = repo(&format!("{routine} echo work >>notes.txt; {COMMIT} exit 7"));
        repo.git(["checkout", "-q", "--detach"]).ok();
        let before = view(&repo);
        repo.process().fails(1).mentions(&["git: a detached HEAD is back at"]);
        let after = view(&repo);
        assert_eq!((&after.head, &after.index, &after.status), (&before.head, &before.index, &before.status));
        let kept = format!("refs/decree/runs/{}", repo.only_run());
        assert_eq!(repo.says(["log", "-1", "--format=%s", &kept]), "by the routine");
        // Its branch was not HEAD's: it is left where the routine moved it.
        let moved = routine.contains("main");
        assert_eq!(commit(&repo, "main") == commit(&repo, &kept), moved);
    }
}

/// GIT-04. Variables of decree's own environment select no other repository.
#[test]
fn variables_do_not_select_another_repository() {
    let (repo, other) =
        (repo(&format!("unset GIT_DIR GIT_INDEX_FILE; echo x >>notes.txt; {COMMIT} exit 7")), repo(""));
    let (before, others) = (view(&repo), view(&other));
    let dir = other.path(".git").display().to_string();
    let index = other.path(".git/index").display().to_string();
    let variables = [("GIT_DIR", dir.as_str()), ("GIT_INDEX_FILE", &index)];
    repo.decree_with_env(&["process"], &variables).fails(1).mentions(&["git: main is back at"]);
    assert_eq!((view(&repo), view(&other)), (before, others));
}

/// GIT-04.
#[test]
fn refs_in_the_reftable_format() {
    let project =
        PipelineProject::with(&script(&format!("echo work >>notes.txt; {COMMIT} git tag v1; exit 7")));
    project.spec("01-a", "# A\n").config("max_retries: 0\n").write(".decree/.gitignore", "*\n");
    if git_in(project.root(), ["init", "-q", "-b", "main", "--ref-format=reftable"]).code != 0 {
        return skip::skip(skip::Lack::Tool("a git that knows reftable"));
    }
    git_in(project.root(), ["add", "-A"]).ok();
    git_in(project.root(), ["commit", "-q", "-m", "first"]).ok();
    let says = |args: &[&str]| git_in(project.root(), args.iter().copied()).ok().text();
    let before = (says(&["rev-parse", "HEAD", "main"]), fs::read(project.path(".git/index")).unwrap());
    project.process().fails(1).mentions(&["git: main is back at", "refs/tags/v1 (created)"]);
    assert_eq!((says(&["rev-parse", "HEAD", "main"]), fs::read(project.path(".git/index")).unwrap()), before);
    assert_eq!(says(&["symbolic-ref", "HEAD"]), "refs/heads/main\n");
    let kept = format!("refs/decree/runs/{}", project.only_run());
    assert_eq!(says(&["log", "-1", "--format=%s", &kept]), "by the routine\n");
}

/// GIT-29. Repositories below the project's own: a nested one, a submodule, a linked work tree in the tree.
#[test]
fn nested_repositories_submodules_and_inner_work_trees_go_back_too() {
    for dir in ["nested", "lib", "inner"] {
        let repo = repo("");
        add_nested_and_submodule(&repo);
        repo.git(["worktree", "add", "-q", "-b", "inner", "inner"]).ok();
        git_in(&repo.path(dir), ["branch", "spare"]).ok();
        fs::write(repo.path(dir).join("staged.txt"), "staged\n").unwrap();
        git_in(&repo.path(dir), ["add", "staged.txt"]).ok();
        let wreck = format!(
            "cd {dir}; echo b >b.txt; {COMMIT} git branch -q -D spare; git checkout -q --detach; exit 7"
        );
        repo.routine("develop", &script(&wreck));
        let says = |args: &[&str]| git_in(&repo.path(dir), args.iter().copied()).ok().text();
        let look = || {
            (
                says(&["symbolic-ref", "HEAD"]),
                says(&["rev-parse", "HEAD", "spare"]),
                says(&["status", "--porcelain"]),
            )
        };
        let files = || {
            let mut files = repo.snapshot();
            files.retain(|name, _| !String::from_utf8_lossy(name).contains("/.git/"));
            files
        };
        let (before, tree) = (look(), files());
        let output = repo.process().fails(1);
        assert_eq!(look(), before, "{dir}\n{}", output.err);
        crate::harness::assert_same(&files(), &tree);
        let kept = format!("refs/decree/runs/{}", repo.only_run());
        assert_eq!(says(&["log", "-1", "--format=%s", &kept]), "by the routine\n");
        output.mentions(&[&format!("git in {dir}: "), "is back at", &kept]);
        // The same for a guarded command, and what cannot be restored is an error.
        repo.decree(["guard", "--", "bash", "-c", &script(&wreck)]).fails(7).mentions(&["is back at"]);
        assert_eq!(look(), before, "{dir}");
        let lock = says(&["rev-parse", "--path-format=absolute", "--git-path", "index.lock"]);
        let locked = format!("{}: >{}; exit 7", wreck.replace("exit 7", ""), lock.trim());
        let output = repo.decree(["guard", "--", "bash", "-c", &script(&locked)]).fails(4);
        output.mentions(&[&format!("git's own state in {dir} is not restored: "), "index.lock exists"]);
    }
}
