//! Routines that overwrite decree's own files instead of deleting them.

use std::fs;

use super::own_files::project_with_own_files;
use super::{dead, done, inbox, only_run, process};
use crate::harness::Project;

/// Ways to write other bytes into the file `$f`. The last two leave its size and its time as they were.
const OVERWRITES: [(&str, &str); 5] = [
    ("in place", "echo evil >$f"),
    ("appended", "echo evil >>$f"),
    ("replaced", "echo evil >$f.new; mv $f.new $f"),
    (
        "with its old time",
        "touch -r $f $message_dir/time; tr a-z A-Z <$f >$message_dir/x; cat $message_dir/x >$f; touch -r $message_dir/time $f",
    ),
    ("replaced, with its old time", "tr a-z A-Z <$f >$f.new; touch -r $f $f.new; mv $f.new $f"),
];

/// A waiting message, a dead letter and a finished message.
const QUEUE: &str = ".decree/inbox/waiting.md .decree/inbox/dead/older.md .decree/inbox/done/old.md";

fn queue(project: &Project) -> Vec<String> {
    vec![
        inbox(project)["waiting.md"].clone(),
        dead(project)["older.md"].clone(),
        done(project)["old.md"].clone(),
    ]
}

/// All that a run has set aside.
fn set_aside(project: &Project) -> Vec<String> {
    let dir = project.path(format!("{}/set-aside", only_run(project)));
    let paths = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    paths.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// HLD-20.
#[test]
fn what_a_failed_routine_writes_over_the_queue_is_undone_and_kept_beside() {
    for (what, overwrite) in OVERWRITES {
        for (end, config) in [
            ("exit 3", "max_retries: 0\n"),
            ("exit 3", "max_retries: 1\n"),
            ("exit 0", "max_retries: 0\nverify: \"false\"\n"),
            ("exit 0", "max_retries: 0\npolicy:\n  deny: [\"src/**\"]\n"),
        ] {
            let project = project_with_own_files(&format!(
                "echo x >src/lib.rs\nfor f in {QUEUE}; do {overwrite}; done\n{end}\n"
            ));
            project.write(".decree/config.yml", config);
            let before = queue(&project);
            let output = project.decree(["process", "--spec", "01-*"]).fails(1);
            assert_eq!(queue(&project), before, "{what}, {end}, {config}");
            output.mentions(&[".decree/inbox/waiting.md", "restored", "set-aside"]);
            let kept = set_aside(&project);
            let is_kept = |text: &str| kept.iter().any(|kept| kept.to_lowercase().contains(text));
            let text = if overwrite.contains("evil") { "evil" } else { "wait" };
            assert!(kept.len() >= 3 && is_kept(text), "{what}, {end}, {config}: {kept:?}");
        }
    }
}

/// HLD-20.
#[test]
fn what_a_kept_routine_writes_over_the_queue_stays_and_is_named() {
    let project = project_with_own_files(
        "echo work >work\necho more >>.decree/inbox/waiting.md\necho x >.decree/inbox/new.md\n",
    );
    let output = project.decree(["process", "--spec", "01-*"]).ok();
    output.mentions(&[".decree/inbox/waiting.md", "which is in no diff"]);
    assert!(inbox(&project)["waiting.md"].ends_with("wait\nmore\n"));
    assert!(inbox(&project).contains_key("new.md"));
}

/// HLD-20.
#[test]
fn a_message_that_a_failed_routine_adds_waits_like_any_other() {
    let project = project_with_own_files("echo new >.decree/inbox/new.md\nexit 1\n");
    project.decree(["process", "--spec", "01-*"]).fails(1);
    assert_eq!(inbox(&project)["new.md"], "new\n");
}

/// HLD-20. A guarded command is no routine, and undone in the same way.
#[test]
fn what_a_failed_command_writes_over_the_queue_is_undone() {
    let project = project_with_own_files("true\n");
    let before = queue(&project);
    let script = format!("for f in {QUEUE}; do echo evil >$f; done; exit 1");
    project.decree(["guard", "--", "bash", "-c", &script]).fails(1);
    assert_eq!(queue(&project), before);
}

/// HLD-21.
#[test]
fn records_of_earlier_runs_and_checkpoints_are_not_a_routines_to_write() {
    for end in [0, 1] {
        let project = project_with_own_files("echo work >work\n");
        project.write(".decree/config.yml", "max_retries: 0\n");
        project.decree(["process", "--spec", "01-*"]).ok();
        let checkpoint = project.checkpoint();
        let run = only_run(&project);
        let id = run.rsplit('/').next().unwrap().to_owned();
        let files: Vec<String> = ["message.md", "manifest.json", "changes.diff", "result.json"]
            .map(|name| format!("{run}/{name}"))
            .into_iter()
            .chain([format!(".decree/checkpoints/{checkpoint}/manifest.json")])
            .collect();
        let before: Vec<Vec<u8>> = files.iter().map(|file| project.read(file)).collect();
        project.write(
            ".decree/routines/develop.sh",
            format!("echo later >later\nfor f in {}; do echo evil >$f; done\nexit {end}\n", files.join(" ")),
        );
        project.write("specs/02-more.spec.md", "more\n");
        project.decree(["process", "--spec", "02-*"]).fails(end).mentions(&[&files[2], "restored"]);
        let after: Vec<Vec<u8>> = files.iter().map(|file| project.read(file)).collect();
        assert!(before == after, "exit {end}");
        project.decree(["checkpoint", "verify", &checkpoint]).ok();
        project.decree(["revert", &id]).ok();
        assert!(!project.exists("work"));
    }
}

/// HLD-20. Larger messages are not held in memory.
#[test]
fn a_large_message_is_restored_like_a_small_one() {
    let project = project_with_own_files("echo evil >.decree/inbox/large.md\nexit 1\n");
    let text = "a line of a large message\n".repeat(20_000);
    project.write(".decree/inbox/large.md", &text);
    project.decree(["process", "--spec", "01-*"]).fails(1).mentions(&[".decree/inbox/large.md"]);
    assert!(inbox(&project)["large.md"] == text);
}

/// HLD-05. The directory of a message that was rejected only reserves its id.
#[test]
fn a_directory_that_never_was_a_run_is_not_called_deleted() {
    for routine in ["echo work >work\n", "echo work >work; rmdir .decree/runs/2026010203040500-0\n"] {
        let project = super::project(routine);
        project.mkdir(".decree/runs/2026010203040500-0");
        let output = process(&project).ok();
        assert!(!output.err.contains("deleted"), "{}", output.err);
    }
}
