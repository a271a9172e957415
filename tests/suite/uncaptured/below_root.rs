//! What no checkpoint holds below the root: ignored entries, special files, likely secrets in ignored directories.

use std::process::Command;

use super::{WORD, holding, project};
use crate::harness::skip;
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

const REMOVES: &str = "rm -rf app/cache app/debug.log pipe config secrets; echo work >>notes.txt; rm -rf deep/er; mkdir deep/er\n";

/// `None`, and a recorded skip, where no FIFO can be made.
#[track_caller]
fn with_ignored_entries(routine: &str) -> Option<PipelineProject> {
    let project = project(routine);
    project.write(".gitignore", ".env\n/secrets/\n/config/local/\ncache/\n*.log\n");
    project
        .write("app/main.txt", "main\n")
        .write("app/cache/part/one", "cached\n")
        .write("app/debug.log", "log\n")
        .write("deep/er/too.log", "log\n")
        .write("config/local/keys/far/.env", format!("FAR={WORD}\n"))
        .chmod("config/local/keys/far/.env", 0o600)
        .write("secrets/more/.npmrc", format!("token={WORD}\n"));
    skip::works(Command::new("mkfifo").arg(project.path("pipe")), "no FIFO can be made").then_some(project)
}

/// UNC-38. UNC-39.
#[test]
fn what_a_failed_run_deleted_below_the_root_is_named_and_likely_secrets_come_back() {
    let Some(project) = with_ignored_entries(&format!("{REMOVES} exit 1")) else { return };
    let output = project.process().fails(4);
    assert_has(
        &output.err,
        &[
            "app/cache: ignored: it was deleted",
            "app/debug.log: ignored: it was deleted",
            "deep/er/too.log: ignored: it was deleted",
            "pipe: a socket, FIFO or device: it was deleted",
            "config/local/keys/far/.env was deleted; it is restored",
        ],
    );
    assert_eq!(project.text("config/local/keys/far/.env"), format!("FAR={WORD}\n"));
    assert_eq!(project.text("secrets/more/.npmrc"), format!("token={WORD}\n"));
    assert!(!output.err.contains("config/local: ignored"), "all of it is restored: {}", output.err);
    assert!(!output.err.contains("secrets: ignored"), "all of it is restored: {}", output.err);
    assert_eq!(holding(&project, WORD), [""; 0], "a secret is on decree's disk");
    assert_eq!(project.text("notes.txt"), "one\r\ntwo\n");
}

/// UNC-38.
#[test]
fn what_a_kept_run_deleted_below_the_root_is_named() {
    let Some(project) = with_ignored_entries(REMOVES) else { return };
    let output = project.process().ok();
    let ignored = output.err.lines().find(|line| line.contains("in no diff because ignored: ")).unwrap();
    assert_has(ignored, &["app/cache", "app/debug.log", "deep/er/too.log"]);
    assert_has(&output.err, &["gone, and in no diff because a socket, FIFO or device: pipe"]);
}

/// UNC-38.
#[test]
fn what_a_guarded_command_deleted_below_the_root_is_named() {
    let Some(project) = with_ignored_entries("true") else { return };
    let script = format!("{REMOVES} exit 3");
    let output = project.decree(["guard", "--", "bash", "-c", &script]).fails(4);
    assert_has(
        &output.err,
        &["app/cache: ignored", "app/debug.log: ignored", "pipe: a socket, FIFO or device"],
    );
    assert_eq!(project.text("config/local/keys/far/.env"), format!("FAR={WORD}\n"));
}

/// UNC-39.
#[test]
fn an_ignored_directory_with_many_names_is_not_searched_below_its_first_level() {
    let project = project("true");
    project.write(".gitignore", ".env\n/secrets/\n/modules/\n").write("modules/.npmrc", "token\n");
    project.write("modules/deep/.env", "A=b\n");
    let coverage = |project: &PipelineProject| project.decree(["checkpoint", "create"]).ok().err;
    assert_has(&coverage(&project), &["modules/.npmrc", "modules/deep/.env"]);
    for number in 0..2000 {
        project.write(format!("modules/other/{number}"), "");
    }
    let output = coverage(&project);
    assert_has(&output, &["modules/.npmrc"]);
    assert!(!output.contains("modules/deep/.env"), "{output}");
}
