//! Files in the tree that decree's own output is redirected to: no checkpoint holds them, and nothing of the log is lost.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::git;
use crate::harness::{Project, assert_same};
use crate::pipeline::pipeline_project::PipelineProject;

/// Runs decree with both of its outputs redirected to files; returns its exit code.
fn redirected(project: &Project, args: &[&str], (out, err): (&str, &str)) -> i32 {
    let mut command: Command = project.command();
    let status = command
        .args(args)
        .stdin(Stdio::null())
        .stdout(File::create(project.path(out)).unwrap())
        .stderr(File::create(project.path(err)).unwrap())
        .status()
        .unwrap();
    status.code().unwrap()
}

fn log(project: &Project, path: &str) -> String {
    fs::read_to_string(project.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn mode(project: &Project, path: &str) -> u32 {
    fs::metadata(project.path(path)).unwrap().permissions().mode() & 0o7777
}

#[track_caller]
fn assert_nothing_left(project: &Project) {
    assert!(!project.exists(".decree/outputs"), "second names are left");
}

/// SEE-50. The file is deleted, renamed, or replaced by another one; in the root or below; ignored or not.
#[test]
fn the_log_of_a_guarded_command_that_fails_is_whole_and_in_its_place() {
    for (ignored, log_file) in [("", "log.txt"), ("*.txt\n", "log.txt"), ("", "sub/log.txt")] {
        for act in
            ["rm $L", "mv $L other.name", "echo mine >new; mv new $L", "git clean -qfdx -e .decree; ls"]
        {
            let project = Project::new();
            project.write(".gitignore", ignored).write("kept", "kept\n").write("sub/x", "x\n");
            git(project.root(), &["init", "-q"]);
            git(project.root(), &["add", ".gitignore", "kept", "sub/x"]);
            git(project.root(), &["commit", "-q", "-m", "first"]);
            let before = project.snapshot();
            let script = format!("L={log_file}; echo first; echo work >work; {act}; echo second; exit 3");
            let code = redirected(&project, &["guard", "--", "bash", "-c", &script], (log_file, "err.out"));
            let err =
                if project.exists("err.out") { log(&project, "err.out") } else { panic!("err.out is gone") };
            assert_eq!(code, 3, "{act}: {err}");
            let text = log(&project, log_file);
            assert!(text.contains("first\n") && text.ends_with("second\n"), "{act}: {text}");
            assert!(err.contains("failed with 3; ") && !err.contains("FIFO"), "{act}: {err}");
            assert!(err.contains(log_file), "{act}: {err}");
            let mut now = project.snapshot();
            now.retain(|path, _| path != log_file.as_bytes() && path != b"err.out");
            assert_same(&now, &before);
            assert_nothing_left(&project);
        }
    }
}

/// SEE-50. A command that is kept does not delete the log either.
#[test]
fn the_log_of_a_guarded_command_that_is_kept_is_not_lost() {
    for (act, place) in [("rm log.txt", "log.txt"), ("mv log.txt old.txt", "old.txt")] {
        let project = Project::new();
        let script = format!("echo first; echo work >work; {act}; echo second");
        let code = redirected(&project, &["guard", "--", "bash", "-c", &script], ("log.txt", "err.out"));
        let err = log(&project, "err.out");
        assert_eq!(code, 0, "{err}");
        assert_eq!(log(&project, place), "first\nsecond\n", "{act}");
        assert!(!err.contains("FIFO"), "{err}");
        assert_eq!(log(&project, "work"), "work\n");
        assert_nothing_left(&project);
    }
    // Another file is in its place: that is the command's work.
    let project = Project::new();
    let script = "echo first; echo mine >new; mv new log.txt; echo second";
    assert_eq!(redirected(&project, &["guard", "--", "bash", "-c", script], ("log.txt", "err.out")), 0);
    assert_eq!(log(&project, "log.txt"), "mine\n");
    let err = log(&project, "err.out");
    assert!(err.contains("log.txt is decree's own output") && err.contains(".decree/outputs/1"), "{err}");
    assert_eq!(log(&project, ".decree/outputs/1"), "first\nsecond\n");
}

/// SEE-50. Every attempt deletes both files.
#[test]
fn the_log_of_a_batch_is_whole_whatever_a_routine_does_to_it() {
    for (ending, code) in [("exit 1", 1), ("exit 0", 0)] {
        let project = PipelineProject::with(&format!(
            "echo says $DECREE_ATTEMPT; rm out.log err.log; echo work >work; {ending}"
        ));
        project.config("max_retries: 1\n").spec("01-a", "# A\n");
        let before = project.snapshot();
        assert_eq!(redirected(&project, &["process"], ("out.log", "err.log")), code);
        let (out, err) = (log(&project, "out.log"), log(&project, "err.log"));
        assert!(out.contains(if code == 0 { "1 kept" } else { "1 reverted" }), "{out}");
        assert!(err.contains("1 spec to process") && err.contains("says 1"), "{err}");
        assert_eq!(err.contains("says 2"), code == 1, "{err}");
        assert!(!err.contains("FIFO"), "{err}");
        if code == 1 {
            let mut now = project.snapshot();
            now.retain(|path, _| !path.ends_with(b".log"));
            assert_same(&now, &before);
        }
        assert_nothing_left(&project);
    }
}

/// Appends both outputs of decree to one file; returns its exit code.
fn appended(project: &Project, args: &[&str], path: &str) -> i32 {
    let file = || OpenOptions::new().append(true).open(project.path(path)).unwrap();
    let mut command: Command = project.command();
    command.args(args).stdin(Stdio::null()).stdout(file()).stderr(file()).status().unwrap().code().unwrap()
}

/// What an act leaves of a log that began with `NOTES`.
const ACTS: [&str; 3] =
    [": >$L", "printf XX | dd of=$L conv=notrunc status=none", "head -c 4 $L >new; cat new >$L; rm new"];
const NOTES: &str = "my notes of yesterday\n";

/// SEE-62. What a file had before decree appended to it is not lost, whatever is done to it in its place.
#[test]
fn what_a_log_had_before_is_set_aside_if_a_failed_run_overwrites_it() {
    for act in ACTS {
        let project =
            PipelineProject::with(&format!("L=log.txt; echo says so; {act}; echo work >work; exit 1"));
        project.config("max_retries: 0\n").spec("01-a", "# A\n");
        let before = project.snapshot();
        project.write("log.txt", NOTES).chmod("log.txt", 0o640);
        let code = appended(&project, &["process"], "log.txt");
        let text = log(&project, "log.txt");
        assert_eq!(code, 1, "{act}: {text}");
        let aside = format!(".decree/runs/{}/set-aside/log.txt", project.only_run());
        // With what decree itself had said before the routine began.
        let former = log(&project, &aside);
        assert!(former.starts_with(NOTES) && !former.contains("says so"), "{act}: {former}");
        assert!(
            text.contains(&format!(
                "log.txt is decree's own output; it was overwritten, and what it had before is now {aside}"
            )),
            "{act}: {text}"
        );
        assert_eq!(mode(&project, &aside), 0o600);
        let mut now = project.snapshot();
        now.retain(|path, _| path != b"log.txt");
        assert_same(&now, &before);
        assert_nothing_left(&project);
    }
}

/// SEE-62. Each attempt that is reverted may do it; once is enough.
#[test]
fn what_a_log_had_before_is_set_aside_once() {
    let project = PipelineProject::with("chmod 777 log.txt; : >log.txt; echo work >work; exit 1");
    project.config("max_retries: 2\n").spec("01-a", "# A\n");
    project.write("log.txt", NOTES).chmod("log.txt", 0o640);
    assert_eq!(appended(&project, &["process"], "log.txt"), 1);
    let set_aside = format!(".decree/runs/{}/set-aside", project.only_run());
    assert!(log(&project, &format!("{set_aside}/log.txt")).starts_with(NOTES));
    assert_eq!(fs::read_dir(project.path(set_aside)).unwrap().count(), 1);
    assert_eq!(mode(&project, "log.txt"), 0o640);
}

/// SEE-62. The same around a guarded command; one that is kept may do with the file what it likes, and is not silent about it.
#[test]
fn what_a_log_had_before_a_guarded_command_is_not_lost() {
    for act in ACTS {
        let project = Project::new();
        project.write("log.txt", NOTES);
        let script = format!("L=log.txt; {act}; echo work >work; exit 3");
        assert_eq!(appended(&project, &["guard", "--", "bash", "-c", &script], "log.txt"), 3);
        let text = log(&project, "log.txt");
        assert!(text.contains("log.txt is decree's own output; it was overwritten"), "{act}: {text}");
        let (_, place) = text.split_once("what it had before is now ").unwrap();
        assert_eq!(log(&project, place.lines().next().unwrap()), NOTES, "{act}");
        assert!(!project.exists("work"));
    }
    let project = Project::new();
    project.write("log.txt", NOTES);
    let script = ": >log.txt; echo says so; echo work >work";
    assert_eq!(appended(&project, &["guard", "--", "bash", "-c", script], "log.txt"), 0);
    let text = log(&project, "log.txt");
    assert!(text.starts_with("says so\n") && text.contains("is now .decree/outputs/log.txt"), "{text}");
    assert_eq!(
        (log(&project, ".decree/outputs/log.txt"), log(&project, "work")),
        (NOTES.to_owned(), "work\n".to_owned())
    );
}

/// SEE-62. The log that decree makes itself has nothing to lose; a file that only grew, neither.
#[test]
fn a_log_that_grew_is_as_it_was() {
    let project = PipelineProject::with("echo mine >>log.txt; exit 1");
    project.config("max_retries: 0\n").spec("01-a", "# A\n");
    project.write("log.txt", NOTES);
    assert_eq!(appended(&project, &["process"], "log.txt"), 1);
    let text = log(&project, "log.txt");
    assert!(text.starts_with(NOTES) && text.contains("mine\n") && !text.contains("own output;"), "{text}");
    assert!(!project.exists(format!(".decree/runs/{}/set-aside", project.only_run())));
}

/// SEE-62. More than decree holds in memory: that it is lost is said, and is an error.
#[test]
fn what_a_large_log_had_before_is_named_as_lost() {
    let project = PipelineProject::with("[ -e harmless ] && exit 1; : >log.txt; exit 1");
    project.config("max_retries: 0\n").spec("01-a", "# A\n").write("harmless", "");
    let large = "0123456789abcdef".repeat((17 << 20) / 16);
    project.write("log.txt", &large);
    assert_eq!(appended(&project, &["process"], "log.txt"), 1);
    assert!(log(&project, "log.txt").starts_with(&large));
    project.remove("harmless");
    project.decree(["retry", "--all"]).ok();
    assert_eq!(appended(&project, &["process"], "log.txt"), 4);
    let text = log(&project, "log.txt");
    assert!(text.contains("NOT restored: log.txt (decree's own output: it was overwritten; what it had before was too large to be held in memory"), "{text}");
}

/// SEE-62.
#[test]
fn the_mode_of_a_log_is_restored_after_a_failure() {
    let project = PipelineProject::with("chmod 777 log.txt; exit 1");
    project.config("max_retries: 0\n").spec("01-a", "# A\n");
    project.write("log.txt", NOTES).chmod("log.txt", 0o600);
    assert_eq!(appended(&project, &["process"], "log.txt"), 1);
    assert_eq!(mode(&project, "log.txt"), 0o600);
    let text = log(&project, "log.txt");
    assert!(text.starts_with(NOTES) && text.contains("log.txt"), "{text}");
}

/// SEE-50. The user may remove a log later.
#[test]
fn a_log_that_is_gone_later_is_no_loss() {
    let project = Project::new();
    project.write("kept", "kept\n");
    let id = {
        redirected(&project, &["checkpoint", "create", "--reason", "x"], ("id.txt", "err.out"));
        log(&project, "id.txt").trim().to_owned()
    };
    let shown = project.decree(["checkpoint", "show", &id]).ok().text();
    assert!(shown.contains("decree's own output") && shown.contains("id.txt"), "{shown}");
    project.remove("id.txt").remove("err.out").write("kept", "other\n");
    let output = project.decree(["rollback", &id]).ok();
    assert!(!output.err.contains("id.txt"), "{}", output.err);
    assert_eq!(log(&project, "kept"), "kept\n");
}

/// SEE-50. A killed decree leaves a second name, which the next one removes.
#[test]
fn what_a_killed_decree_wrote_is_not_lost() {
    for is_deleted in [false, true] {
        let project = Project::new();
        project.write("kept", "kept\n");
        let act = if is_deleted { "rm log.txt" } else { "true" };
        let script = format!("echo first; {act}; kill -9 $PPID; sleep 60");
        let mut command = project.command();
        command.args(["guard", "--", "bash", "-c", &script]).stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(File::create(project.path("log.txt")).unwrap()).status().unwrap();
        project.decree(["recover", "--keep"]).ok();
        project.decree(["guard", "--", "true"]).ok();
        assert_eq!(project.exists(".decree/outputs"), is_deleted);
        let path = if is_deleted { ".decree/outputs/1" } else { "log.txt" };
        assert_eq!(log(&project, path), "first\n");
    }
}
