//! What no checkpoint holds, after `kill -9` of the decree that held it: what changed is restored or named, what did not is not named.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::{WORD, git, holding, project, repository};
use crate::harness::{CommandOutput, snapshot, wait_for};
use crate::live_database::Server;
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// Says that the work is done, and goes on until decree is killed.
const WAIT: &str = "echo x >.decree/ready; while :; do sleep 0.05; done";
const HOOK: &str = "#!/bin/sh\nexit 0\n";
/// The password of a remote in `.git/config`.
const PASSWORD: &str = "correct-horse";

/// A project with a repository that has a hook of its own, and a password in its settings.
fn repository_project(script: &str) -> PipelineProject {
    let project = project(&format!("{script}; {WAIT}"));
    repository(project.root());
    git(project.root(), &["remote", "add", "origin", &format!("https://a:{PASSWORD}@example.org/x")]);
    project.write(".git/hooks/pre-commit", HOOK).chmod(".git/hooks/pre-commit", 0o755);
    project.write(".git/info/exclude", "/mine\n");
    project
}

/// Runs decree until the work is done, and kills it.
fn kill_during(project: &PipelineProject, args: &[&str]) {
    let mut command = project.command();
    let command = command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    for word in [WORD, PASSWORD] {
        let found = holding(project, word);
        assert!(found.is_empty(), "{word} is in {found:?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Kills a run, and lets the next command settle it.
fn settle_run(project: &PipelineProject, code: u8) -> CommandOutput {
    kill_during(project, &["process"]);
    project.routine("develop", "true");
    if code == 0 { project.process().ok() } else { project.process().fails(code.into()) }
}

/// Kills a guard, and rolls back to its checkpoint.
fn settle_guard(project: &PipelineProject, script: &str, code: u8) -> CommandOutput {
    kill_during(project, &["guard", "--", "bash", "-c", &format!("{script}; {WAIT}")]);
    let output = project.decree(["rollback", &checkpoint(project)]);
    if code == 0 { output.ok() } else { output.fails(code.into()) }
}

/// The first checkpoint in the list.
fn checkpoint(project: &PipelineProject) -> String {
    let checkpoints = project.decree(["checkpoint", "list"]).ok().text();
    checkpoints.split_whitespace().find(|word| word.starts_with("chk_")).unwrap().to_owned()
}

/// Changes a likely secret, settings and hooks, and leaves others as they are, also if it writes them again.
const CHANGES: &str = "echo x >>notes.txt; echo KEY=other >.env; cp id_rsa x; mv x id_rsa; chmod 600 id_rsa\n\
     echo evil >.git/hooks/pre-commit; echo evil >.git/hooks/post-checkout; rm .git/info/exclude\n\
     git config core.pager evil; rm -r .git/logs";

fn assert_known(project: &PipelineProject, output: &CommandOutput) {
    assert_has(
        &output.err,
        &[
            "NOT restored: ",
            ".env (a likely secret: it was changed; ",
            ".git/config (a repository: it was changed; ",
            ".git/logs (a repository: it is gone; ",
            "restored: .git/",
            "restore it from a backup or from where it came from",
        ],
    );
    let lost = output.err.lines().find(|line| line.contains("NOT restored: ")).unwrap();
    for same in ["id_rsa", "secrets/.env", "tls/server.pem", "description"] {
        assert!(!lost.contains(same), "{same} is named: {lost}");
    }
    assert!(!output.err.contains("may NOT be restored"), "{}", output.err);
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
    assert_eq!(project.text(".env"), "KEY=other\n", "it stays as it was found");
    assert_eq!(project.text(".git/hooks/pre-commit"), HOOK);
    assert_eq!(project.text(".git/info/exclude"), "/mine\n");
    let mode = std::fs::metadata(project.path(".git/hooks/pre-commit")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(!project.exists(".git/hooks/post-checkout"), "a new hook is moved away");
    assert!(project.text(".git/config").contains("pager = evil"), "it stays as it was found");
    let output = project.process();
    assert!(!output.err.contains("restored"), "it is reported once: {}", output.err);
}

/// UNC-50. UNC-51.
#[test]
fn after_a_killed_guard_changed_secrets_and_settings_are_named_and_hooks_are_restored() {
    let project = repository_project("true");
    let output = settle_guard(&project, CHANGES, 4);
    project.routine("develop", "true");
    assert_known(&project, &output);
}

/// UNC-50. A path in `.git` is no path of the tree.
#[test]
fn recover_after_a_killed_guard_names_changed_settings_of_git() {
    let project = repository_project("true");
    kill_during(&project, &["guard", "--", "bash", "-c", &format!("git config core.pager evil; {WAIT}")]);
    let output = project.decree(["recover", "--format", "json"]).fails(4);
    let answer: serde_json::Value = serde_json::from_str(&output.text()).unwrap();
    assert_eq!(answer["recovered"], false);
    assert_has(answer["not_restored"][0].as_str().unwrap(), &[".git/config: a repository: it was changed"]);
    let project = repository_project("true");
    kill_during(&project, &["guard", "--", "bash", "-c", &format!("git config core.pager evil; {WAIT}")]);
    let output = project.decree(["recover"]).fails(4);
    assert_has(&output.text(), &["not restored: .git/config: "]);
    assert_has(&output.err, &["except for what no checkpoint holds"]);
}

/// UNC-50. UNC-51.
#[test]
fn after_a_killed_run_changed_secrets_and_settings_are_named_and_hooks_are_restored() {
    let project = repository_project(CHANGES);
    let output = settle_run(&project, 4);
    assert_known(&project, &output);
}

/// UNC-67.
#[test]
fn after_a_kill_renamed_ignored_entries_are_moved_back() {
    let script = "mkdir -p deep/down; mv target deep/down/t2; mv secrets s2; mv run.log r.txt; mkdir target; echo x >target/new";
    for is_guard in [true, false] {
        let project = repository_project(script);
        project.write("target/app", "built").write("run.log", "a log\n");
        let output = if is_guard { settle_guard(&project, script, 0) } else { settle_run(&project, 0) };
        for path in ["target", "secrets", "run.log"] {
            assert_has(
                &output.err,
                &[&format!("decree was killed; {path} had been renamed, and is moved back")],
            );
        }
        assert_eq!(project.text("target/app"), "built");
        assert_eq!(project.text("run.log"), "a log\n");
        assert_eq!(project.text("secrets/.env"), format!("DEEP={WORD}\n"));
        assert!(!project.exists("deep") && !project.exists("s2") && !project.exists("r.txt"));
        assert!(!project.exists("target/new"), "it is set aside");
        assert_has(&output.err, &["target had been renamed; what was in its place is now .decree/"]);
        assert_eq!(holding(&project, WORD), [""; 0], "a secret is on decree's disk");
        let kept = snapshot(&project.path(".decree"));
        assert!(kept.keys().any(|path| path.ends_with(b"set-aside/target/new")));
    }
}

/// UNC-67. One is in the other, and a file with two names has lost one of them.
#[test]
fn after_a_kill_entries_in_one_another_are_found_and_hard_links_stay() {
    let script = "mv target other; mv secrets other/s; rm one.log";
    let project = repository_project(script);
    project.write("target/app", "built").write("one.log", "a log\n");
    std::fs::hard_link(project.path("one.log"), project.path("target/keep")).unwrap();
    let output = settle_run(&project, 4);
    assert_eq!(project.text("target/app"), "built");
    assert_eq!(project.text("secrets/.env"), format!("DEEP={WORD}\n"));
    assert_eq!(project.text("target/keep"), "a log\n");
    assert!(!project.exists("other") && !project.exists("target/s"));
    let lost = output.err.lines().find(|line| line.contains("NOT restored: ")).unwrap();
    assert_has(lost, &["NOT restored: one.log (ignored: it is gone"]);
}

/// UNC-67. `.git` and `.decree` are no part of the tree, but of the project.
#[test]
fn after_a_kill_entries_that_were_moved_into_git_or_decree_are_moved_back() {
    let script = "mv target .decree/runs/t; mv secrets .git/s; mkdir .decree/x; mv run.log .decree/x/";
    for is_guard in [true, false] {
        let project = repository_project(script);
        project.write("target/app", "built").write("run.log", "a log\n");
        let output = if is_guard { settle_guard(&project, script, 0) } else { settle_run(&project, 0) };
        assert_eq!(project.text("target/app"), "built", "{}", output.err);
        assert_eq!(project.text("run.log"), "a log\n");
        assert_eq!(project.text("secrets/.env"), format!("DEEP={WORD}\n"));
        assert_has(&output.err, &["decree was killed; target had been renamed, and is moved back"]);
    }
}

/// UNC-67. A rollback that is refused moves nothing.
#[test]
fn after_a_killed_guard_a_refused_rollback_leaves_renamed_entries() {
    let project = repository_project("true");
    project.write("target/app", "built").mkdir("data");
    let mut server = Server::start(&project.path("data/app.db"), "WAL");
    let script = "mv target other; printf more >>notes.txt";
    kill_during(&project, &["guard", "--", "bash", "-c", &format!("{script}; {WAIT}")]);
    server.insert(5);
    let id = checkpoint(&project);
    for command in ["rollback", "revert"] {
        let output = project.decree([command, &id]).fails(1);
        assert_has(&output.err, &["data/app.db", &server.name()]);
        assert_eq!(project.text("other/app"), "built", "{}", output.err);
        assert!(!project.exists("target"), "{}", output.err);
    }
    server.stop();
    project.decree(["rollback", &id]).ok();
    assert_eq!(project.text("target/app"), "built");
    assert!(!project.exists("other"));
}

/// UNC-71.
#[test]
fn after_a_kill_the_modes_of_ignored_directories_are_restored() {
    let script = "chmod 777 target; chmod 755 secrets; chmod 700 sub/target";
    for is_guard in [true, false] {
        let project = repository_project(script);
        project.write("target/app", "built").chmod("target", 0o750);
        project.write(".gitignore", "target/\n/secrets/\n.env\n*.pem\n").write("sub/target/x", "x");
        project.chmod("sub/target", 0o755);
        let output = if is_guard { settle_guard(&project, script, 0) } else { settle_run(&project, 0) };
        let said = "the modes of directories were changed, and are restored: secrets, sub/target, target";
        assert_has(&output.err, &[said]);
        for (dir, mode) in [("target", 0o750), ("secrets", 0o700), ("sub/target", 0o755)] {
            assert_eq!(project.path(dir).metadata().unwrap().permissions().mode() & 0o777, mode, "{dir}");
        }
    }
}

/// UNC-67. The `.git` of a submodule or a linked work tree is a file.
#[test]
fn after_a_kill_a_renamed_git_file_is_moved_back() {
    let project = repository_project("mv inner/.git inner/g");
    git(project.root(), &["worktree", "add", "-q", "-b", "inner", "inner"]);
    let output = settle_run(&project, 0);
    assert_has(&output.err, &["decree was killed; inner/.git had been renamed, and is moved back"]);
    assert!(project.exists("inner/.git") && !project.exists("inner/g"));
    git(&project.path("inner"), &["status"]);
}

/// UNC-67. What only looks, and what keeps the tree, moves nothing.
#[test]
fn after_a_killed_guard_renamed_entries_stay_until_it_is_rolled_back() {
    let script = "mv target other; mkdir target; echo new >target/new";
    for args in [&["rollback", "ID", "--dry-run"][..], &["recover", "--dry-run"], &["recover", "--keep"]] {
        let project = repository_project("true");
        project.write("target/app", "built");
        kill_during(&project, &["guard", "--", "bash", "-c", &format!("{script}; {WAIT}")]);
        let id = checkpoint(&project);
        let args: Vec<&str> = args.iter().map(|arg| if *arg == "ID" { &id } else { *arg }).collect();
        let output = project.decree(args).ok();
        assert_eq!(project.text("other/app"), "built", "{}", output.err);
        assert_eq!(project.text("target/new"), "new\n", "{}", output.err);
    }
}

/// UNC-69.
#[test]
fn after_a_kill_a_record_that_the_routine_deleted_is_restored() {
    for (wrecks, what) in [
        ("rm .decree/running.json", "deleted"),
        (": >.decree/running.json", "damaged"),
        ("rm .decree/running.json; mkdir .decree/running.json", "damaged"),
    ] {
        let project = repository_project(&format!("{wrecks}; echo evil >notes.txt"));
        let output = settle_run(&project, 0);
        let said = format!(".decree/running.json was {what} while decree worked");
        assert_has(&output.err, &[&said, "was interrupted"]);
        assert_eq!(project.text("notes.txt"), "one\r\ntwo\n", "{wrecks}");
    }

    let project = repository_project("true");
    let script = format!("rm .decree/guarding.json; echo evil >notes.txt; {WAIT}");
    kill_during(&project, &["guard", "--", "bash", "-c", &script]);
    let output = project.process().fails(1);
    assert_has(&output.err, &["guarding.json was deleted while", "does not start on a tree"]);
    project.decree(["rollback", &checkpoint(&project)]).ok();
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
    project.routine("develop", "true");
    project.process().ok();
}

/// UNC-70. A routine can write what it likes to decree's files.
#[test]
fn after_a_kill_a_forged_record_leads_nowhere_else() {
    let outside = crate::harness::temp_dir();
    repository(outside.path());
    let project = repository_project("true");
    project.link("x.log", outside.path().to_str().unwrap());
    kill_during(&project, &["guard", "--", "bash", "-c", WAIT]);
    let record = project.text(".decree/held.json");
    let hook = "\"hooks/pre-commit\"";
    assert!(record.contains("\"path\":\".git\"") && record.contains(hook), "{record}");
    let forged = record.replacen("\"path\":\".git\"", "\"path\":\"x.log/.git\"", 1);
    project.write(".decree/held.json", forged);
    project.decree(["rollback", &checkpoint(&project)]);
    assert!(!outside.path().join(".git/hooks/pre-commit").exists());
    // A link in the place of a directory of git's.
    let project = repository_project("true");
    let script = format!("rm -r .git/hooks; ln -s {} .git/hooks; {WAIT}", outside.path().display());
    kill_during(&project, &["guard", "--", "bash", "-c", &script]);
    let record = project.text(".decree/held.json");
    let start = record.find("\"hooks\":{\"dir\"").expect("the directory is recorded");
    let end = start + record[start..].find("},").unwrap() + 2;
    project.write(".decree/held.json", format!("{}{}", &record[..start], &record[end..]));
    project.decree(["rollback", &checkpoint(&project)]).fails(4);
    assert!(!outside.path().join("pre-commit").exists());
}

/// UNC-67. A new directory may have the inode of one that was deleted.
#[test]
fn after_a_kill_a_new_directory_is_not_taken_for_a_renamed_one() {
    let script = "rm -r target; for i in 1 2 3 4 5 6 7 8; do mkdir new$i; echo x >new$i/file; done";
    let project = repository_project(script);
    project.write("target/app", "built");
    let output = settle_run(&project, 4);
    assert_has(
        &output.err,
        &["NOT restored: target (ignored: it is gone; the decree that held it has ended)"],
    );
    assert!(!project.exists("target") && !project.exists("new1"));
}

/// UNC-51. A merge that was in progress, and that the command gave up.
#[test]
fn after_a_killed_guard_a_merge_is_in_progress_again() {
    let project = repository_project("true");
    let root = project.root();
    git(root, &["add", "notes.txt"]);
    git(root, &["commit", "-q", "-m", "notes"]);
    git(root, &["checkout", "-q", "-b", "side", "HEAD~1"]);
    project.write("other.txt", "other\n");
    git(root, &["add", "other.txt"]);
    git(root, &["commit", "-q", "-m", "other"]);
    git(root, &["merge", "-q", "--no-commit", "--no-ff", "-"]);
    let (head, message) = (project.text(".git/MERGE_HEAD"), project.text(".git/MERGE_MSG"));
    settle_guard(&project, "git merge --abort", 0);
    assert_eq!((project.text(".git/MERGE_HEAD"), project.text(".git/MERGE_MSG")), (head, message));
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
}

/// UNC-56.
#[test]
fn after_a_kill_changed_settings_of_decree_are_named_and_their_former_versions_kept() {
    let script =
        "echo '# mine' >>.decree/config.yml; rm .decree/routines/other.sh; echo x >.decree/routines/new.sh";
    let project = repository_project(script);
    project.routine("other", "echo former");
    let config = project.text(".decree/config.yml");
    kill_during(&project, &["process"]);
    let output = project.decree(["revert", "nothing"]).fails(3);
    let said =
        output.err.lines().find(|line| line.contains("by it or by you, and left as they are")).unwrap();
    for path in ["config.yml", "routines/other.sh", "routines/new.sh"] {
        assert_has(said, &[&format!(".decree/{path}")]);
    }
    assert!(!said.contains("develop.sh"), "{said}");
    let run = format!(".decree/runs/{}/set-aside", project.only_run());
    assert_eq!(project.text(&format!("{run}/.decree-1-config.yml")), config);
    assert_has(&project.text(&format!("{run}/.decree-1-other.sh")), &["echo former"]);
    assert!(project.exists(".decree/routines/new.sh") && !project.exists(".decree/routines/other.sh"));
}

/// UNC-52. The machine has another boot id after a restart.
#[test]
fn after_a_kill_and_a_restart_the_kernels_times_say_what_changed() {
    let project = repository_project("echo KEY=other >.env; chmod 600 tls/server.pem");
    kill_during(&project, &["process"]);
    let record = project.text(".decree/held.json");
    let start = record.find("\"key_check\":\"").expect("there is a boot id") + 13;
    project.write(
        ".decree/held.json",
        format!("{}{}{}", &record[..start], "0".repeat(64), &record[start + 64..]),
    );
    project.routine("develop", "true");
    let output = project.process().fails(4);
    let lost = output.err.lines().find(|line| line.contains("NOT restored: ")).unwrap();
    assert_has(
        lost,
        &[".env (a likely secret: it was changed", "tls/server.pem (a likely secret: it was changed"],
    );
    for same in ["id_rsa", "secrets/.env", ".git/"] {
        assert!(!lost.contains(same), "{same} is named: {lost}");
    }
}

/// UNC-52.
#[test]
fn after_a_kill_nothing_is_said_of_what_did_not_change() {
    let same = "echo x >>notes.txt; cp -p .env x; mv x .env; git config core.bare false";
    for is_guard in [true, false] {
        let project = repository_project(same);
        let output = if is_guard { settle_guard(&project, same, 0) } else { settle_run(&project, 0) };
        for word in ["was changed", "NOT restored", "hooks", "check ", ".git/"] {
            assert!(!output.err.contains(word), "{word}: {}", output.err);
        }
        assert!(!project.exists(".decree/held.json"), "it is needed no more");
    }
}

/// UNC-64. A file among the hooks that is a likely secret by its name.
#[test]
fn a_likely_secret_inside_of_git_is_not_on_disk_while_a_command_runs() {
    let project = repository_project("true");
    project.write(".git/hooks/.env", format!("KEY={WORD}\n"));
    project.write(".git/info/id_ed25519", format!("{WORD} key\n"));
    let output = settle_guard(&project, "rm .git/hooks/.env; echo other >.git/info/id_ed25519", 4);
    assert_has(
        &output.err,
        &[".git/hooks/.env (a repository: it is gone", ".git/info/id_ed25519 (a repository: it was changed"],
    );
    assert_eq!(project.text(".git/hooks/pre-commit"), HOOK);
}
