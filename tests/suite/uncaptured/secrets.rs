//! Likely secrets around a run.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::{SECRETS, WORD, holding, project, reported, set_aside};
use crate::harness::{assert_same, wait_for};
use crate::pipeline::pipeline_project::assert_has;

/// Deletes, changes and makes likely secrets.
const WRECKS: &str = "rm .env; rm -rf secrets; echo other >id_rsa; chmod 644 id_rsa; chmod 777 tls/server.pem\n\
     echo new >.env.local; mkdir new; echo deep >new/.env; echo work >>notes.txt\n";

/// UNC-01.
#[test]
fn likely_secrets_come_back_when_a_run_fails_whether_or_not_they_are_ignored() {
    let project = project(&format!("{WRECKS} exit 1"));
    let before = project.snapshot();
    let output = project.process().fails(1);
    assert_same(&project.snapshot(), &before);
    assert_has(
        &output.err,
        &[
            ".env was deleted; it is restored",
            "secrets/.env was deleted; it is restored",
            "id_rsa was changed; it is restored",
            "tls/server.pem was changed; it is restored",
            ".env.local was made; it is a likely secret, and is now .decree/runs/",
            "new/.env was made",
        ],
    );
    let result = project.result(&project.only_run());
    assert_eq!(
        reported(&result),
        [
            ".env deleted true",
            "id_rsa changed true",
            "secrets/.env deleted true",
            "tls/server.pem changed true",
            ".env.local made true",
            "new/.env made true",
        ]
    );
    assert!(result["put_back"]["not_restored"].is_null(), "{result}");
    // What the run wrote is not lost.
    assert_eq!(set_aside(&project, "id_rsa"), b"other\n");
    assert_eq!(set_aside(&project, ".env.local"), b"new\n");
    assert_eq!(set_aside(&project, "new/.env"), b"deep\n");
    assert_eq!(holding(&project, WORD), [""; 0], "a secret is on decree's disk");
}

/// UNC-02.
#[test]
fn likely_secrets_are_named_before_anything_runs_also_ignored_ones() {
    let project = project("echo work >>notes.txt");
    let output = project.process().ok();
    let line = output.err.lines().find(|line| line.contains("left out of the checkpoint")).unwrap();
    assert_has(line, &SECRETS);
    assert!(!line.contains("cert.pem"), "{line}");
    let manifest = project.of_run(&project.only_run(), "manifest.json");
    assert_has(&manifest, &[r#""sensitive":[".env","id_rsa","secrets/.env","tls/server.pem"]"#]);
    let answer = project.decree(["checkpoint", "create", "--format", "json"]).ok().text();
    assert_has(&answer, &SECRETS);
}

/// UNC-03.
#[test]
fn likely_secrets_stay_as_a_kept_run_leaves_them_and_are_named() {
    let project = project(WRECKS);
    let output = project.process().ok();
    assert!(!project.exists(".env") && !project.exists("secrets"));
    assert_eq!(project.read("id_rsa"), b"other\n");
    assert_eq!(project.read("new/.env"), b"deep\n");
    assert_has(
        &output.err,
        &[
            ".env was deleted; it is a likely secret",
            "id_rsa was changed; it is",
            "new/.env was made; it is",
            "gone, and in no diff because ignored: secrets",
        ],
    );
    let result = project.result(&project.only_run());
    assert_eq!(
        reported(&result),
        [
            ".env deleted false",
            "id_rsa changed false",
            "secrets/.env deleted false",
            "tls/server.pem changed false",
            ".env.local made false",
            "new/.env made false",
        ]
    );
}

/// UNC-04.
#[test]
fn a_clean_slate_has_the_likely_secrets_too() {
    let project = project(
        "if [ $DECREE_ATTEMPT = 2 ]; then cp .env seen.txt; exit 0; fi\nrm .env; echo x >.env.local; exit 1",
    );
    project.config("max_retries: 1\nretry_delay: 0s\n");
    project.process().ok();
    assert_eq!(project.text("seen.txt"), format!("KEY={WORD}\n"));
    assert_eq!(project.text(".env"), format!("KEY={WORD}\n"));
    assert!(!project.exists(".env.local"));
}

/// UNC-05.
#[test]
fn a_likely_secret_that_is_too_large_is_named_before_and_after_and_the_command_fails() {
    let project = project("rm big.p12; echo x >>notes.txt; exit 1");
    project.write("big.p12", vec![7; 300 << 10]);
    let output = project.process().fails(4);
    assert_has(
        &output.err,
        &[
            "these likely secrets cannot be restored after a failure: big.p12 (too large",
            "NOT restored: big.p12 (a likely secret: it was deleted",
            "error: a failed run left something",
            "  big.p12: ",
        ],
    );
    assert_has(&output.text(), &["the tree is reverted to its checkpoint, except for big.p12"]);
    let result = project.result(&project.only_run());
    assert_eq!(result["put_back"]["not_restored"][0]["path"], "big.p12");
    assert_eq!(project.dead(), ["01-work"], "the run is settled");
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
}

/// UNC-06.
#[test]
fn likely_secrets_come_back_when_decree_is_interrupted() {
    let project = project("rm .env id_rsa; echo x >.decree/ready; while :; do sleep 0.05; done");
    let before = project.snapshot();
    let mut command = project.command();
    let mut child = command.arg("process").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_same(&project.snapshot(), &before);
}

/// UNC-07.
#[test]
fn after_a_kill_the_next_command_says_that_likely_secrets_are_not_restored() {
    let script = "rm .env .decree/held.json; echo x >>notes.txt; echo x >.decree/ready";
    let project = project(&format!("{script}; while :; do sleep 0.05; done"));
    let mut command = project.command();
    let mut child = command.arg("process").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    project.routine("develop", "true");
    let output = project.process().fails(4);
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
    assert!(!project.exists(".decree/running.json"), "the run is settled");
    assert_has(
        &output.err,
        &[
            "NOT restored: .env (a likely secret: it was deleted; the decree that held its content has ended)",
            "what was changed may NOT be restored: check id_rsa",
            ", except for .env;",
        ],
    );
    project.process().ok();
}

/// UNC-08.
#[test]
fn an_artifact_has_nothing_that_was_set_aside_not_even_by_an_attempt() {
    let project = project("echo set-aside-word >.env.local; echo x >>notes.txt; exit 1");
    project.config("max_retries: 2\nretry_delay: 0s\n");
    project.process().fails(1);
    let id = project.only_run();
    assert!(project.run_has(&id, "attempts/2/set-aside/.env.local"), "the clean slate moved it");
    let target = project.path("artifact");
    project.decree(["stage", target.to_str().unwrap()]).ok();
    for (path, entry) in crate::harness::snapshot(&target) {
        let path = String::from_utf8_lossy(&path).into_owned();
        assert!(!path.contains("set-aside"), "{path}");
        if let crate::harness::TreeEntry::File { bytes, .. } = entry {
            assert!(!String::from_utf8_lossy(&bytes).contains("set-aside-word\n"), "{path}");
        }
    }
}

/// REV-31. A likely secret is held only while the routine runs.
#[test]
fn a_kept_run_that_changed_likely_secrets_is_not_wholly_reverted() {
    for work in ["", "; echo work >>notes.txt"] {
        let project = project(&format!("echo other >.env; rm id_rsa{work}"));
        project.process().ok();
        let run = project.only_run();
        let output = project.decree(["revert", &run]).fails(4);
        output.mentions(&[".env was changed by the run", "id_rsa was deleted by the run"]);
        let is_reverted = project.result(&run).get("put_back").is_some();
        assert_eq!((is_reverted, project.tracker().is_empty()), (!work.is_empty(), !work.is_empty()));
        assert_eq!(project.read("notes.txt"), b"one\r\ntwo\n");
        assert_eq!(project.read(".env"), b"other\n");
    }
}

/// UNC-71.
#[test]
fn the_modes_of_ignored_directories_are_restored_after_a_failure() {
    let project = project("chmod 777 target secrets; chmod 000 sub/target; exit 1");
    project.write(".gitignore", "target/\n/secrets/\n.env\n*.pem\n");
    project.write("target/app", "built").chmod("target", 0o750).write("sub/target/x", "x");
    let before = project.snapshot();
    let output = project.process().fails(1);
    let said = "the modes of directories were changed, and are restored: secrets, sub/target, target";
    assert_has(&output.err, &[said]);
    assert_same(&project.snapshot(), &before);

    let wrecks = "chmod 777 target; exit 1";
    let output = project.decree(["guard", "--", "bash", "-c", wrecks]).fails(1);
    assert_has(&output.err, &["the modes of directories were changed, and are restored: target"]);
    assert_same(&project.snapshot(), &before);
    // What is kept stays.
    project.decree(["guard", "--", "chmod", "777", "target"]).ok();
    assert_eq!(project.path("target").metadata().unwrap().permissions().mode() & 0o777, 0o777);
}
