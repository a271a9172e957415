//! Cases in which `publish` changes nothing and says why.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::{Repo, git_in};
use crate::harness::CommandOutput;

/// Publishing fails, and nothing is different afterwards.
#[track_caller]
fn refused(repo: &Repo, args: &[&str], words: &[&str]) -> CommandOutput {
    let (before, tree) = (repo.state(), repo.snapshot());
    let output = repo.publish(args).fails(1).mentions(words);
    assert_eq!(repo.state(), before);
    crate::harness::assert_same(&repo.snapshot(), &tree);
    repo.is_sound();
    output
}

/// PUB-15.
#[test]
fn edits_from_before_the_run_are_not_smuggled_in() {
    let edits: [fn(&Repo); 4] = [
        |repo| {
            repo.write("notes.txt", "mine\n");
        },
        |repo| {
            repo.chmod("notes.txt", 0o755);
        },
        |repo| {
            repo.git(["rm", "-q", "--cached", "notes.txt"]).ok();
            repo.git(["commit", "-q", "-m", "untracked now"]).ok();
        },
        |repo| {
            repo.write("notes.txt", "mine\n");
            repo.git(["add", "notes.txt"]).ok();
        },
    ];
    for edit in edits {
        let repo = Repo::with("echo run >>notes.txt; echo run >other.txt", &[("01-a", "# A\n")]);
        edit(&repo);
        repo.process().ok();
        refused(&repo, &[], &["uncommitted changes", "notes.txt", "nothing was done", "hint:"]);
        refused(&repo, &["--dry-run"], &["notes.txt"]);
    }
}

/// PUB-15. A file that was deleted and not committed, and comes back.
#[test]
fn a_deletion_from_before_the_run_is_an_edit() {
    let repo = Repo::with("echo run >notes.txt", &[("01-a", "# A\n")]);
    repo.remove("notes.txt");
    repo.process().ok();
    refused(&repo, &[], &["notes.txt"]);
}

/// PUB-15. Edits between two runs belong to neither.
#[test]
fn edits_between_two_runs_are_refused() {
    let repo = Repo::with("echo $spec_file >>notes.txt", &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.config("hooks: { before_each: \"case $spec_file in *02*) echo hook >>notes.txt;; esac\" }\n");
    repo.process().ok();
    assert!(repo.text("notes.txt").contains("hook"));
    refused(&repo, &[], &["between two runs", "notes.txt"]);
}

/// PUB-15. What was edited elsewhere is neither in the way nor in the commit.
#[test]
fn edits_of_other_files_are_not_in_the_way() {
    let repo = Repo::with("echo run >other.txt", &[("01-a", "# A\n")]);
    repo.write("notes.txt", "mine\n").write("untracked", "x\n");
    repo.process().ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.git(["status", "--porcelain"]).ok().text(), " M notes.txt\n?? untracked\n");
    repo.is_sound();
}

/// PUB-16.
#[test]
fn something_else_that_is_staged_for_a_path_is_not_thrown_away() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    repo.write("notes.txt", "mine\n");
    repo.git(["add", "notes.txt"]).ok();
    refused(&repo, &[], &["staged", "notes.txt"]);
}

/// PUB-17. All of these fail at the last moment.
#[test]
fn a_reference_or_an_index_that_is_locked_leaves_everything_as_it_was() {
    for lock in ["refs/heads/main.lock", "HEAD.lock"] {
        let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n"), ("02-b", "# B\n")]);
        repo.process().ok();
        repo.write(format!(".git/{lock}"), "");
        refused(&repo, &[], &["update-ref", "nothing was done"]);
        repo.remove(format!(".git/{lock}"));
        repo.publish(&[]).ok();
        repo.is_clean();
    }
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    repo.write(".git/index.lock", "");
    let before = repo.state();
    repo.publish(&[]).fails(1).mentions(&["another git process is using the index", "index.lock"]);
    assert_eq!(repo.state(), before);
    assert!(repo.exists(".git/index.lock"), "another process owns it");
    repo.remove(".git/index.lock");
    repo.publish(&[]).ok();
    repo.is_clean();
}

/// PUB-17. Killed while a filter runs: nothing leads to what was written, and the next publish works.
#[test]
fn a_publish_that_is_killed_or_interrupted_leaves_nothing_half_done() {
    for signal in ["KILL", "TERM", "INT"] {
        let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n"), ("02-b", "# B\n")]);
        repo.process().ok();
        let before = repo.state();
        repo.write(".git/info/attributes", "notes.txt filter=slow\n");
        let reached = repo.path(".git/reached");
        let filter = format!("echo x >{}; sleep 30; cat", reached.display());
        repo.git(["config", "filter.slow.clean", &filter]).ok();
        let mut child = repo.command().arg("publish").envs(super::VARIABLES).spawn().unwrap();
        crate::harness::wait_for(&reached);
        let pid = child.id().to_string();
        std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap();
        let code = child.wait().unwrap().code();
        match signal {
            "KILL" => assert_eq!(code, None),
            "TERM" => assert_eq!(code, Some(143)),
            _ => assert_eq!(code, Some(130)),
        }
        repo.remove(".git/info/attributes");
        assert_eq!(repo.state(), before, "{signal}");
        repo.publish(&[]).ok();
        repo.is_clean();
    }
}

/// PUB-17. Another commit is made while commits are built.
#[test]
fn a_branch_that_moves_during_a_publish_is_not_overwritten() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    let (reached, go) = (repo.path(".git/reached"), repo.path(".git/go"));
    let wait =
        format!("echo x >{}; until [ -e {} ]; do sleep 0.01; done; cat", reached.display(), go.display());
    repo.git(["config", "filter.slow.clean", &wait]).ok();
    repo.write(".git/info/attributes", "notes.txt filter=slow\n");
    let child = repo.command().arg("publish").envs(super::VARIABLES).stderr(Stdio::piped()).spawn().unwrap();
    crate::harness::wait_for(&reached);
    repo.git(["commit", "-q", "--allow-empty", "-m", "concurrent"]).ok();
    repo.write(".git/go", "x");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(repo.subjects(), ["concurrent"]);
    repo.is_sound();
    repo.publish(&[]).ok();
    assert_eq!(repo.subjects(), ["concurrent", "01-a: A"]);
    repo.is_clean();
}

/// PUB-17. Killed between the two last steps, as far as that can be staged.
#[test]
fn an_index_that_was_left_under_its_lock_is_put_in_its_place_or_taken_away() {
    let repo = Repo::with("echo $spec_file >>notes.txt", &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.process_with(&["--limit", "1"]).ok();
    let old = repo.read(".git/index");
    repo.publish(&[]).ok();
    // The reference moved, the index did not.
    let head = repo.says(["rev-parse", "HEAD"]);
    repo.write(".git/index.lock", repo.read(".git/index")).write(".git/index", &old);
    repo.write(".git/decree-publish", format!("{head}\n"));
    repo.publish(&[]).ok().mentions(&["nothing to commit"]);
    repo.is_clean();
    // Neither did.
    repo.process().ok();
    let before = repo.state();
    repo.write(".git/index.lock", &old).write(".git/decree-publish", format!("{}\n", "0".repeat(40)));
    repo.publish(&["--dry-run"]).ok();
    assert_eq!(repo.state(), before);
    repo.publish(&[]).ok();
    repo.is_clean();
}

/// PUB-18.
#[test]
fn no_hook_runs() {
    let script = r#"
echo run >>notes.txt
for hook in pre-commit prepare-commit-msg commit-msg post-commit reference-transaction pre-push post-index-change post-rewrite fsmonitor; do
  printf '#!/bin/sh\necho "$0" >>%s/hooked\nexit 1\n' "$PWD/.decree" >.git/hooks/$hook
  chmod +x .git/hooks/$hook
done
git config core.fsmonitor .git/hooks/fsmonitor
"#;
    let repo = Repo::with(script, &[("01-a", "# A\n")]);
    repo.process().ok();
    let remote = super::pushing::Remote::of(&repo);
    assert!(repo.exists(".git/hooks/reference-transaction"));
    fs::remove_file(repo.path(".decree/hooked")).unwrap_or_default();
    repo.publish(&["--push"]).ok();
    assert!(!repo.exists(".decree/hooked"), "{}", repo.text(".decree/hooked"));
    let mode = fs::metadata(repo.path(".git/hooks/pre-push")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    assert_eq!(remote.tip("main"), repo.says(["-c", "core.hooksPath=/dev/null", "rev-parse", "HEAD"]));
}

/// PUB-19.
#[test]
fn without_an_identity_the_hint_has_the_commands() {
    let no_author = [
        ("GIT_AUTHOR_NAME", ""),
        ("GIT_AUTHOR_EMAIL", ""),
        ("GIT_COMMITTER_NAME", ""),
        ("GIT_COMMITTER_EMAIL", ""),
    ];
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    let before = repo.state();
    repo.publish_with(&[], &no_author).fails(1).mentions(&["git config user.name", "git config user.email"]);
    assert_eq!(repo.state(), before);
    let in_actions = [&no_author[..], &[("GITHUB_ACTIONS", "true")]].concat();
    repo.publish_with(&[], &in_actions).ok();
    let author = repo.says(["log", "-1", "--format=%an <%ae> %cn <%ce>"]);
    let bot = "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>";
    assert_eq!(author, format!("{bot} {bot}"));
    repo.is_clean();
}

/// PUB-19. Who is in git's settings commits.
#[test]
fn the_identity_of_gits_settings_is_used_in_actions_too() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    repo.git(["config", "user.name", "Configured"]).ok();
    repo.git(["config", "user.email", "c@example.com"]).ok();
    let mut command = repo.command();
    command.arg("publish").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GITHUB_ACTIONS", "true");
    crate::harness::run_command(&mut command).ok();
    assert_eq!(repo.says(["log", "-1", "--format=%an <%ae>"]), "Configured <c@example.com>");
}

/// PUB-20.
#[test]
fn without_git_or_a_repository_or_a_summary_the_error_says_so() {
    let project = crate::pipeline::pipeline_project::PipelineProject::with("echo x >x");
    project.decree(["publish"]).fails(3).mentions(&["nothing to publish", "decree process"]);
    project.spec("01-a", "# A\n");
    project.process().ok();
    let ceiling = project.root().parent().unwrap().to_string_lossy().into_owned();
    project
        .decree_with_env(&["publish"], &[("GIT_CEILING_DIRECTORIES", &ceiling)])
        .fails(3)
        .mentions(&["not in a git repository", "git init"]);
    project
        .decree_with_env(&["publish"], &[("PATH", "/nonexistent")])
        .fails(1)
        .mentions(&["git is not on the PATH"]);
}

/// PUB-20.
#[test]
fn a_merge_under_way_is_not_committed_into() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    repo.write(".git/MERGE_HEAD", format!("{}\n", repo.says(["rev-parse", "HEAD"])));
    refused(&repo, &[], &["a merge is in progress"]);
}

/// PUB-21.
#[test]
fn a_path_in_a_submodule_or_a_nested_repository_is_refused() {
    let repo = Repo::with("echo run >>module/file.txt; echo run >other.txt", &[("01-a", "# A\n")]);
    let module = repo.path("module");
    fs::create_dir(&module).unwrap();
    git_in(&module, ["init", "-q", "-b", "main"]).ok();
    repo.write("module/file.txt", "x\n");
    git_in(&module, ["add", "-A"]).ok();
    git_in(&module, ["commit", "-q", "-m", "module"]).ok();
    repo.git(["add", "module"]).ok();
    repo.git(["commit", "-q", "-m", "as a submodule"]).ok();
    repo.process().ok();
    refused(&repo, &[], &["module/file.txt", "submodule"]);
    repo.git(["rm", "-q", "--cached", "module"]).ok();
    repo.git(["commit", "-q", "-m", "no submodule any more"]).ok();
    refused(&repo, &[], &["module/file.txt"]);
}

/// PUB-22. Two decrees do not publish at once.
#[test]
fn it_takes_the_projects_lock() {
    let repo = Repo::with("echo x >ready; sleep 30", &[("01-a", "# A\n")]);
    let mut child = repo.command().arg("process").spawn().unwrap();
    crate::harness::wait_for(&repo.path("ready"));
    let output = repo.publish(&[]);
    std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    child.wait().unwrap();
    output.fails(5);
}

/// PUB-33.
#[test]
fn a_secret_is_not_committed() {
    for harm in [
        "echo \"key=$A_KEY\" >notes.txt",
        "echo x >\"$A_KEY\"",
        "ln -s \"$A_KEY\" leads",
        "printf '\\0%s' \"$A_KEY\" >image.bin",
    ] {
        let repo = Repo::with(harm, &[("01-a", "# A\n")]);
        let secret = [("A_KEY", "sk-live-0123456789")];
        repo.decree_with_env(&["process"], &secret).ok();
        let before = repo.state();
        let output =
            repo.publish_with(&[], &secret).fails(1).mentions(&["contain a secret", "nothing was done"]);
        assert!(!output.err.contains("sk-live"), "{}", output.err);
        assert_eq!(repo.state(), before, "{harm}");
        repo.is_sound();
        // Where it is no secret, it is content like any other.
        repo.publish(&[]).ok();
    }
}
