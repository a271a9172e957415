//! Where the project is in the repository, and which branch commits are for.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{Repo, VARIABLES, git_in};
use crate::harness::run_command;
use crate::pipeline::pipeline_project::PipelineProject;

/// PUB-23.
#[test]
fn a_project_in_a_subdirectory_of_the_repository() {
    let repo = Repo::with("true", &[]);
    let project = repo.path("deep/er");
    fs::create_dir_all(project.join(".decree/routines")).unwrap();
    fs::create_dir_all(project.join("specs")).unwrap();
    repo.write(
        "deep/er/.decree/routines/develop.sh",
        "echo run >>inner.txt; rm -f gone.txt; echo x >'odd name'",
    );
    repo.write("deep/er/.decree/.gitignore", "*\n");
    repo.write("deep/er/specs/01-a.spec.md", "# A\n");
    repo.write("deep/er/inner.txt", "x\n").write("deep/er/gone.txt", "x\n").write("inner.txt", "top\n");
    repo.commit_all("inner project");
    repo.write("inner.txt", "edited at the top\n");
    repo.decree(["-C", "deep/er", "process"]).ok();
    let mut command = repo.command();
    run_command(command.args(["-C", "deep/er", "publish"]).envs(VARIABLES)).ok();
    assert_eq!(repo.blob("HEAD", "deep/er/inner.txt"), b"x\nrun\n");
    assert_eq!(repo.blob("HEAD", "deep/er/specs/processed-spec.md"), b"01-a.spec.md\n");
    assert_eq!(
        repo.says(["show", "--no-renames", "--name-status", "--format=", "HEAD"]),
        "D\tdeep/er/gone.txt\nM\tdeep/er/inner.txt\nA\tdeep/er/odd name\nA\tdeep/er/specs/processed-spec.md"
    );
    assert_eq!(repo.git(["status", "--porcelain"]).ok().text(), " M inner.txt\n");
    repo.is_sound();
}

/// PUB-23. A linked work tree has its own index and HEAD.
#[test]
fn a_linked_work_tree() {
    let repo = Repo::with("true", &[]);
    let place = crate::harness::temp_dir();
    let tree: PathBuf = place.path().join("linked");
    repo.git(["worktree", "add", "-q", "-b", "side", tree.to_str().unwrap()]).ok();
    fs::create_dir_all(tree.join(".decree/routines")).unwrap();
    fs::create_dir_all(tree.join("specs")).unwrap();
    let write = |name: &str, text: &str| fs::write(tree.join(name), text).unwrap();
    write(".decree/.gitignore", "*\n");
    write(".decree/routines/develop.sh", "echo run >>notes.txt");
    write("specs/01-a.spec.md", "# A\n");
    git_in(&tree, ["add", "-A"]).ok();
    git_in(&tree, ["commit", "-q", "-m", "spec"]).ok();
    let mut command = repo.command();
    run_command(command.current_dir(&tree).arg("process")).ok();
    let main = repo.state();
    let mut command = repo.command();
    run_command(command.current_dir(&tree).arg("publish").envs(VARIABLES))
        .ok()
        .mentions(&["1 commit on side"]);
    assert_eq!(git_in(&tree, ["status", "--porcelain"]).ok().text(), "");
    assert_eq!(repo.says(["rev-parse", "HEAD"]), repo.says(["rev-parse", "main"]));
    assert_eq!(repo.state().status, main.status);
    // The branch of another work tree is not moved under its feet.
    repo.spec("02-b", "# B\n").routine("develop", "echo run >>other.txt");
    repo.process().ok();
    repo.publish(&["--branch", "side"]).fails(1).mentions(&["checked out"]);
}

/// PUB-24.
#[test]
fn a_detached_head_takes_commits_and_a_push_needs_a_branch() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    let remote = super::pushing::Remote::of(&repo);
    repo.git(["checkout", "-q", "--detach"]).ok();
    repo.process().ok();
    let main = repo.says(["rev-parse", "main"]);
    let before = repo.state();
    repo.publish(&["--push"]).fails(2).mentions(&["detached", "--branch"]);
    assert_eq!(repo.state(), before);
    repo.publish(&[]).ok().mentions(&["1 commit on a detached HEAD"]);
    assert_eq!(repo.subjects(), ["01-a: A"]);
    assert_eq!(repo.says(["rev-parse", "main"]), main);
    repo.is_clean();
    let output = repo.publish_with(&["--push", "--format", "json"], &[("GITHUB_HEAD_REF", "topic")]).ok();
    let answer: serde_json::Value = serde_json::from_slice(&output.out).unwrap();
    assert_eq!((&answer["branch"], &answer["pushed"]), (&"topic".into(), &true.into()));
    assert_eq!(remote.tip("topic"), repo.says(["rev-parse", "HEAD"]));
}

/// PUB-24.
#[test]
fn a_forks_branch_is_not_the_branch_of_that_name_here() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    let remote = super::pushing::Remote::of(&repo);
    let main = remote.tip("main");
    repo.git(["checkout", "-q", "--detach"]).ok();
    repo.process().ok();
    for head in [json!({"full_name": "guest/repo"}), json!(null)] {
        let pull = json!({"number": 7, "head": {"ref": "main", "repo": head}, "base": {"ref": "main", "repo": {"full_name": "octo/repo"}}});
        repo.write(".decree/event.json", json!({ "pull_request": pull }).to_string());
        let event = repo.path(".decree/event.json").display().to_string();
        let variables = [
            ("GITHUB_EVENT_NAME", "pull_request_target"),
            ("GITHUB_EVENT_PATH", event.as_str()),
            ("GITHUB_HEAD_REF", "main"),
        ];
        let before = repo.state();
        repo.publish_with(&["--push"], &variables).fails(2).mentions(&["detached", "--branch"]);
        assert_eq!((repo.state(), remote.tip("main")), (before, main.clone()));
    }
}

/// PUB-25.
#[test]
fn another_branch_gets_the_commits_and_the_checkout_stays() {
    let repo = Repo::with("echo $spec_file >>notes.txt", &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.process_with(&["--limit", "1"]).ok();
    let before = repo.state();
    repo.publish(&["--branch", "decree/work"])
        .ok()
        .mentions(&["1 commit on decree/work", "the checkout is unchanged"]);
    let after = repo.state();
    assert_eq!((&after.head, &after.index, &after.status), (&before.head, &before.index, &before.status));
    assert_eq!(repo.says(["rev-parse", "decree/work~1"]), before.head);
    assert_eq!(repo.says(["rev-parse", "--abbrev-ref", "HEAD"]), "main");
    // Again: nothing. With more: on top of it.
    repo.publish(&["--branch", "decree/work"]).ok().mentions(&["nothing to commit"]);
    repo.process().ok();
    repo.publish(&["--branch", "decree/work"]).ok();
    assert_eq!(repo.says(["rev-parse", "decree/work~2"]), before.head);
    assert_eq!(repo.blob("decree/work", "notes.txt"), repo.read("notes.txt"));
    assert_eq!(repo.blob("decree/work", "specs/processed-spec.md"), b"01-a.spec.md\n02-b.spec.md\n");
    repo.git(["checkout", "-q", "-f", "decree/work"]).ok();
    repo.is_clean();
    for bad in ["-x", "a..b", "a b", ""] {
        repo.publish(&[&format!("--branch={bad}")]).fails(2);
    }
}

/// PUB-23. Before the first commit.
#[test]
fn a_repository_without_a_commit() {
    let project = PipelineProject::with("echo run >made.txt");
    project.spec("01-a", "# A\n").write(".decree/.gitignore", "*\n");
    let repo = Repo { project };
    repo.git(["init", "-q", "-b", "main"]).ok();
    repo.process().ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.says(["ls-tree", "-r", "--name-only", "HEAD"]), "made.txt\nspecs/processed-spec.md");
    assert_eq!(repo.says(["rev-list", "--count", "HEAD"]), "1");
    repo.is_sound();
}

/// PUB-23. What the environment says of another repository does not count.
#[test]
fn variables_of_another_repository_do_not_mislead() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    let other = Repo::with("true", &[]);
    repo.process().ok();
    let before = other.state();
    let place = |name: &str| other.path(name).to_string_lossy().into_owned();
    let (dir, tree, index) = (place(".git"), place(""), place(".git/index"));
    repo.publish_with(&[], &[("GIT_DIR", &dir), ("GIT_WORK_TREE", &tree), ("GIT_INDEX_FILE", &index)]).ok();
    assert_eq!(repo.subjects(), ["01-a: A"]);
    assert_eq!(other.state(), before);
    repo.is_clean();
}

/// PUB-23. Hashes may be longer, and settings unusual.
#[test]
fn a_repository_with_sha_256_and_settings_of_its_own() {
    let project = PipelineProject::with("echo run >>notes.txt; rm docs/guide.md; ln -s x new-link");
    project.spec("01-a", "# A\n").write(".decree/.gitignore", "*\n");
    let repo = Repo { project };
    repo.git(["init", "-q", "-b", "main", "--object-format=sha256"]).ok();
    for (name, value) in [
        ("core.splitIndex", "true"),
        ("core.untrackedCache", "true"),
        ("core.quotePath", "false"),
        ("diff.noprefix", "true"),
        ("diff.renames", "copies"),
        ("log.showSignature", "true"),
        ("grep.patternType", "fixed"),
        ("trailer.separators", "="),
        ("color.ui", "always"),
        ("core.abbrev", "4"),
    ] {
        repo.git(["config", name, value]).ok();
    }
    repo.commit_all("first");
    repo.process().ok();
    repo.publish(&[]).ok();
    repo.publish(&[]).ok().mentions(&["1 run already committed"]);
    assert_eq!(repo.says(["rev-list", "--count", "HEAD"]), "2");
    repo.is_clean();
}

/// By the time of the index git knows that it has to look at a file of the same second: the index that takes its place must not
/// make that look old.
#[test]
fn an_edit_in_the_second_of_the_index_is_still_seen_after_a_publish() {
    let repo = Repo::with("echo run >>out.txt", &[("01-a.spec.md", "# A\n")]);
    repo.write("kept.txt", "1\n");
    repo.commit_all("kept");
    repo.decree(["process"]).ok();
    let time = SystemTime::now() - Duration::from_secs(100);
    let age =
        |name: &str| File::options().write(true).open(repo.path(name)).unwrap().set_modified(time).unwrap();
    repo.git(["config", "core.trustctime", "false"]).ok();
    age("kept.txt");
    repo.git(["update-index", "-q", "--refresh"]);
    age(".git/index");
    repo.write("kept.txt", "2\n");
    age("kept.txt");
    repo.publish(&[]).ok();
    assert_eq!(repo.says(["status", "--porcelain"]), " M kept.txt");
}
