//! Likely secrets when decree is stopped at once, killed, or has no space left.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{WORD, head, holding, project, repository};
use crate::damage::disk::Mount;
use crate::harness::{assert_same, skip, snapshot, temp_dir, wait_for};
use crate::killed::{has_strace, strace};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// Wrecks likely secrets, and does not end by itself.
const STAYS: &str = "trap '' INT TERM HUP; rm .env; echo other >id_rsa; echo x >.decree/ready\n\
     while :; do sleep 0.05; done\n";

/// Starts decree, and sends it SIGINT at these intervals until it has ended. Returns its exit code and standard error, which goes to a file:
/// what outlives decree would keep a pipe open.
fn interrupt_until_it_ends(
    project: &PipelineProject,
    args: &[&str],
    interval: Duration,
) -> (Option<i32>, String) {
    let (code, _, err) = interrupt_and_read(project, args, interval);
    (code, err)
}

/// The same, with standard output between the two.
fn interrupt_and_read(
    project: &PipelineProject,
    args: &[&str],
    interval: Duration,
) -> (Option<i32>, String, String) {
    let dir = temp_dir();
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    let mut command = project.command();
    command.args(args).stdin(Stdio::null());
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    while child.try_wait().unwrap().is_none() {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        sleep(interval);
    }
    (child.wait().unwrap().code(), fs::read_to_string(&out).unwrap(), fs::read_to_string(&err).unwrap())
}

fn assert_secrets_are_back(project: &PipelineProject) {
    assert_eq!(project.text(".env"), format!("KEY={WORD}\n"));
    assert_eq!(project.path(".env").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(project.text("id_rsa"), format!("{WORD} key\n"));
}

/// UNC-32.
#[test]
fn a_second_interrupt_restores_likely_secrets_before_it_stops_decree() {
    let project = project(STAYS);
    let (code, err) = interrupt_until_it_ends(&project, &["process"], Duration::from_millis(150));
    assert_eq!(code, Some(130), "{err}");
    assert_has(&err, &["interrupted again", "likely secrets are restored: .env, id_rsa"]);
    assert_secrets_are_back(&project);
    project.routine("develop", "true");
    let output = project.process().ok();
    assert!(!output.err.contains("NOT restored:"), "{}", output.err);
    assert!(!output.err.contains("killed"), "{}", output.err);
    assert_secrets_are_back(&project);
    assert_eq!(holding(&project, WORD), [""; 0], "a secret is on decree's disk");
}

/// ANS-07.
#[test]
fn a_second_interrupt_is_answered_in_the_format_that_was_asked_for() {
    for args in [
        &["process", "--format", "json"][..],
        &["guard", "--format", "json", "--", "bash", "-c", STAYS],
        &["guard", "--format", "yaml", "--", "bash", "-c", STAYS],
    ] {
        let project = project(STAYS);
        let (code, out, err) = interrupt_and_read(&project, args, Duration::from_millis(3));
        project.decree(["recover", "--keep"]);
        assert_eq!(code, Some(130), "{err}");
        let words =
            ["interrupted again: decree stopped at once", "likely secrets are restored: .env, id_rsa"];
        if args.contains(&"yaml") {
            assert_has(&out, &["rolled_back: false", "kind: \"interrupted\"", words[0]]);
            continue;
        }
        let answer: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out:?}, {err}"));
        assert_eq!(answer["error"]["kind"], "interrupted", "{out}");
        // On a busy machine the guarded command may have been rolled back before the third signal.
        if answer["error"]["message"] == words[0] {
            assert_has(answer["error"]["details"][1].as_str().unwrap(), &words[1..]);
        }
    }
}

/// UNC-66. What the routine does when it is asked to end must not destroy again what is restored.
#[test]
fn a_second_interrupt_ends_the_routine_before_it_restores_anything() {
    let cleans_up = "trap 'sleep 0.5; rm -rf .env .git; exit' TERM; echo test >.env; echo x >.decree/ready\n\
         while :; do sleep 0.05; done\n";
    let project = project(cleans_up);
    let commit = repository(project.root());
    let (code, err) = interrupt_until_it_ends(&project, &["process"], Duration::from_millis(150));
    assert_eq!(code, Some(130), "{err}");
    sleep(Duration::from_secs(1));
    assert_has(&err, &["likely secrets are restored: .env"]);
    assert_eq!(project.text(".env"), format!("KEY={WORD}\n"));
    assert_eq!(head(project.root()), commit);
}

/// UNC-68.
#[test]
fn a_second_interrupt_does_not_end_decree_if_its_own_files_are_deleted() {
    let wrecks = "trap '' TERM; rm -rf .decree; rm notes.txt .env; mkdir .decree; echo x >.decree/ready\n\
         while :; do sleep 0.05; done\n";
    for args in [&["process"][..], &["guard", "--", "bash", "-c", wrecks]] {
        let project = project(wrecks);
        let before = project.snapshot();
        let (code, err) = interrupt_until_it_ends(&project, args, Duration::from_millis(150));
        assert_eq!(code, Some(130), "{err}");
        // Under guard the second signal ends the command, and the tree is rolled back before a third.
        if args[0] == "process" {
            assert_has(&err, &["interrupted again: decree's own files are deleted"]);
        }
        assert_same(&project.snapshot(), &before);
    }
}

/// UNC-66. A directory with a likely secret in it would be made again, and stand in the way of the one that was renamed.
#[test]
fn a_second_interrupt_moves_renamed_entries_back_and_rebuilds_repositories() {
    let wrecks = "mv secrets s2; mv target t2; rm -rf .git; echo x >>notes.txt";
    let project = project(&format!("{wrecks}; {STAYS}"));
    project.write("target/app", "built").write("target/.env", format!("APP={WORD}\n"));
    let commit = repository(project.root());
    project.write(".git/hooks/pre-commit", "exit 0\n");
    let (code, err) = interrupt_until_it_ends(&project, &["process"], Duration::from_millis(150));
    assert_eq!(code, Some(130), "{err}");
    assert_has(&err, &["interrupted again", "renamed, and moved back: secrets, target", "; restored: .git"]);
    project.routine("develop", "true");
    let output = project.process().ok();
    assert!(!output.err.contains("NOT restored:"), "{}", output.err);
    assert_secrets_are_back(&project);
    assert_eq!(project.text("target/app"), "built");
    assert_eq!(project.text("target/.env"), format!("APP={WORD}\n"));
    assert_eq!(project.text("secrets/.env"), format!("DEEP={WORD}\n"));
    assert!(!project.exists("s2") && !project.exists("t2"));
    assert_eq!(head(project.root()), commit);
    assert_eq!(project.text(".git/hooks/pre-commit"), "exit 0\n");
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
}

/// UNC-32.
#[test]
fn a_guard_that_is_stopped_by_signals_loses_no_likely_secret() {
    let project = project("true");
    let args = ["guard", "--", "bash", "-c", STAYS];
    let (code, err) = interrupt_until_it_ends(&project, &args, Duration::from_millis(3));
    // Ends the command.
    project.decree(["recover", "--keep"]).ok();
    assert_eq!(code, Some(130), "{err}");
    assert_secrets_are_back(&project);
    // The third signal comes before the command has ended, or after the rollback if the machine is busy.
    if err.contains("the tree is NOT rolled back") {
        assert_has(&err, &["likely secrets are restored: .env, id_rsa"]);
    }
}

/// UNC-33.
#[test]
fn likely_secrets_come_back_although_decree_has_no_space_left() {
    let project = project("");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=81920k,mode=755", "tmpfs"]).arg(project.path(".decree"));
    if !skip::works(&mut mount, "no file system can be mounted") {
        return;
    }
    let _mount = Mount(project.path(".decree"));
    project.config("max_retries: 0\n");
    project.routine(
        "develop",
        "rm .env; echo other >id_rsa; echo x >>notes.txt; cat /dev/zero >.decree/filler 2>/dev/null; exit 1",
    );
    let before = project.snapshot();
    let output = project.process().fails(4);
    assert_has(&output.err, &["No space left"]);
    assert!(!output.err.contains("decree was killed"), "{}", output.err);
    assert_secrets_are_back(&project);
    // What could not be moved to a full disk is named, and not lost.
    File::options().write(true).open(project.path(".decree/filler")).unwrap().set_len(0).unwrap();
    project.routine("develop", "exit 1");
    let output = project.process().fails(1);
    assert!(!output.err.contains("decree was killed"), "{}", output.err);
    assert_secrets_are_back(&project);
    assert_same(&project.snapshot(), &before);
}

/// UNC-34.
#[test]
fn a_kill_while_a_likely_secret_is_written_leaves_nothing_in_the_tree() {
    if !has_strace() {
        return;
    }
    for (wrecks, call) in [("rm .env", "linkat"), ("rm .env", "renameat2"), ("echo other >.env", "renameat2")]
    {
        let project = project(&format!("{wrecks}; exit 1"));
        let inject = format!("inject={call}:signal=KILL:when=1");
        strace(&project, &["process"], &["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
        project.routine("develop", "true");
        let output = project.process();
        for (path, _) in project.snapshot() {
            let path = String::from_utf8_lossy(&path).into_owned();
            assert!(!path.contains(".decree-tmp-"), "{wrecks}, {call}: {path}\n{}", output.err);
        }
        let set_aside = project.path(format!(".decree/runs/{}/set-aside", project.only_run()));
        let left = if set_aside.exists() { snapshot(&set_aside) } else { BTreeMap::new() };
        let left: Vec<_> = left.into_keys().collect();
        let left: Vec<String> = left.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        if let Some(path) = left.iter().find(|path| path.contains(".decree-tmp-")) {
            assert_has(
                &output.err,
                &["is what a killed decree left of restoring a likely secret; it is now", path],
            );
        }
        let is_kept = project.exists(".env") || !left.is_empty() || output.err.contains(".env: ");
        assert!(is_kept, "{wrecks}, {call}: {}", output.err);
    }
}

/// UNC-40.
#[test]
fn a_restored_likely_secret_has_its_extended_attributes() {
    let project = project("rm .env; setfattr -x user.note id_rsa; exit 1");
    let set = |path: &str| {
        let mut command = Command::new("setfattr");
        command.args(["-n", "user.note", "-v", "of a secret"]).arg(project.path(path));
        skip::works(&mut command, "no extended attributes here")
    };
    if !set(".env") || !set("id_rsa") {
        return;
    }
    project.process().fails(1);
    for path in [".env", "id_rsa"] {
        let mut command = Command::new("getfattr");
        let output =
            command.args(["--only-values", "-n", "user.note"]).arg(project.path(path)).output().unwrap();
        assert_eq!(output.stdout, b"of a secret", "{path}");
    }
    assert_secrets_are_back(&project);
}
