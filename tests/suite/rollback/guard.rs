use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::project;
use crate::harness::{assert_same, skip, wait_for};

/// GRD-01.
#[test]
fn what_a_command_did_stays_if_it_succeeds() {
    let project = project();
    let output = project.decree_fed(
        &[
            "guard",
            "--verify",
            "grep -q new notes.txt",
            "--",
            "bash",
            "-c",
            "cat >notes.txt; echo to stdout; echo to stderr >&2; pwd",
        ],
        "new text\n",
    );
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(project.read("notes.txt"), b"new text\n");
    let root = project.root().canonicalize().unwrap();
    assert_eq!(output.text(), format!("to stdout\n{}\n", root.display()));
    assert!(
        output.err.contains("to stderr\n") && output.err.contains("kept; `decree rollback chk_"),
        "{}",
        output.err
    );
    project.decree(["guard"]).fails(2);
}

/// GRD-02.
#[test]
fn what_a_command_did_is_reverted_if_it_fails() {
    let harm = "echo x >notes.txt; rm -r docs src; mkdir new; echo y >new/file; chmod 600 tool.sh";
    let project = project();
    let before = project.snapshot();
    for (verify, script, code) in [
        (None, format!("{harm}; exit 7"), 7),
        (None, format!("{harm}; kill -9 $$"), 137),
        (Some("exit 3"), harm.to_owned(), 3),
        (None, format!("{harm}; (sleep 0.3; echo late >late.txt) & exit 9"), 9),
    ] {
        let verify = verify.map_or_else(Vec::new, |verify| vec!["--verify", verify]);
        let args = [&["guard"], &verify[..], &["--", "bash", "-c", &script]].concat();
        let output = project.decree(args).fails(code);
        assert_same(&project.snapshot(), &before);
        output.mentions(&["rolled back", "verified against", "the work of the command is saved"]);
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_same(&project.snapshot(), &before);
    project.decree(["guard", "--", "no-such-program-anywhere"]).fails(127).mentions(&["cannot run"]);
    let trail = project.decree(["audit"]).ok().text();
    assert_eq!(trail.lines().count(), 4, "{trail}");
}

/// GRD-03.
#[test]
fn a_signal_puts_the_tree_back() {
    for (signal, code, script) in [
        (Signal::TERM, 143, "echo x >notes.txt; echo yes >.decree/begun; sleep 60"),
        (Signal::INT, 130, "trap '' TERM; echo x >notes.txt; echo yes >.decree/begun; sleep 60; sleep 60"),
    ] {
        let project = project();
        let before = project.snapshot();
        let mut child = project
            .command()
            .args(["guard", "--", "bash", "-c", script])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&project.path(".decree/begun"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_same(&project.snapshot(), &before);
    }
}

/// GRD-16. A command that ignores being asked ends at the second Ctrl-C, with all that it started, and the tree is rolled back.
#[test]
fn a_second_ctrl_c_ends_the_command_at_once_and_the_tree_is_rolled_back() {
    let script = "trap '' TERM INT; (trap '' TERM INT; while [ -d .decree ]; do echo late >>late.txt; sleep 0.05; done) & \
                  echo x >notes.txt; echo yes >.decree/begun; while [ -d .decree ]; do sleep 0.05; done";
    for signal in [Signal::INT, Signal::TERM] {
        let project = project();
        let before = project.snapshot();
        let mut command = project.command();
        command.args(["guard", "--", "bash", "-c", script]).stdout(Stdio::null());
        // A file: a pipe would be open as long as a process that decree left.
        let err = std::fs::File::create(project.path(".decree/err")).unwrap();
        let mut child = command.stderr(err).spawn().unwrap();
        wait_for(&project.path(".decree/begun"));
        wait_for(&project.path("late.txt"));
        let asked = std::time::Instant::now();
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(150));
        kill_process(pid, signal).unwrap();
        let status = child.wait().unwrap();
        let err = String::from_utf8_lossy(&project.read(".decree/err")).into_owned();
        assert_eq!(status.code(), Some(128 + signal.as_raw()), "{err}");
        assert!(err.contains("rolled back") && err.contains("the tree is as it was"), "{err}");
        assert!(asked.elapsed() < std::time::Duration::from_secs(30));
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_same(&project.snapshot(), &before);
        assert!(!project.exists(".decree/guarding.json"));
    }
}

/// GRD-04.
#[test]
fn only_the_scope_is_reverted() {
    let project = project();
    let script = "echo x >src/main.rs; echo y >notes.txt; exit 1";
    project.decree(["guard", "--scope", "src", "--", "bash", "-c", script]).fails(1);
    assert_eq!(project.read("src/main.rs"), b"fn main() {}\n");
    assert_eq!(project.read("notes.txt"), b"y\n");
}

/// GRD-05.
#[test]
fn a_command_that_destroys_decrees_own_files_is_undone_anyway() {
    for harm in [
        "rm -rf .decree",
        "mv .decree elsewhere",
        "rm -rf .decree; echo x >.decree",
        "for file in $(find .decree/checkpoints .decree/audit.jsonl -type f); do echo spoiled >$file; done",
        "find .decree/checkpoints .decree/store -type f -delete",
    ] {
        let project = project();
        for number in 0..3000 {
            project.write(format!("many/{number}"), format!("{number}"));
        }
        let before = project.snapshot();
        let script = format!("{harm}; echo x >notes.txt; rm -r src; exit 7");
        project.decree(["guard", "--", "bash", "-c", &script]).fails(7).mentions(&["verified against"]);
        assert_same(&project.snapshot(), &before);
        project.decree(["checkpoint", "verify", "--all"]).ok();
        project.decree(["audit", "verify"]).ok();
        let kept = project.decree(["guard", "--", "bash", "-c", "rm -rf .decree; echo y >notes.txt"]).ok();
        assert_eq!(project.read("notes.txt"), b"y\n");
        let id =
            kept.err.split('`').find_map(|word| word.strip_prefix("decree rollback ")).unwrap().to_owned();
        project.decree(["rollback", &id]).ok();
        assert_same(&project.snapshot(), &before);
    }
}

/// GRD-06.
#[test]
fn a_guard_that_was_killed_is_reported_and_the_way_back_is_named() {
    let project = project();
    let before = project.snapshot();
    let mut child = project
        .command()
        .args(["guard", "--", "bash", "-c", "echo x >notes.txt; echo yes >.decree/begun; sleep 60"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&project.path(".decree/begun"));
    child.kill().unwrap();
    child.wait().unwrap();
    let output =
        project.decree(["checkpoint", "create"]).ok().mentions(&["killed or stopped while it guarded"]);
    let id = output.err.split('`').find_map(|word| word.strip_prefix("decree rollback chk_")).unwrap();
    project.decree(["rollback", &format!("chk_{id}")]).ok();
    assert_same(&project.snapshot(), &before);
    assert!(!project.decree(["checkpoint", "create"]).ok().err.contains("killed"));
}

/// GRD-07.
#[test]
fn a_guard_works_where_its_session_was_made_outside_of_what_it_can_see() {
    let inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let mut unshare = std::process::Command::new(inside[0]);
    if !skip::works(unshare.args(&inside[1..]).arg("true"), skip::NO_NAMESPACE) {
        return;
    }
    let project = project();
    let before = project.snapshot();
    let script = "echo x >notes.txt; sleep 60 & exit 3";
    let mut command = std::process::Command::new(inside[0]);
    command.args(&inside[1..]).arg(project.command().get_program());
    command.args(["guard", "--", "bash", "-c", script]).current_dir(project.root());
    crate::harness::run_command(&mut command).fails(3).mentions(&["verified against"]);
    assert_same(&project.snapshot(), &before);
}

/// GRD-09.
#[test]
fn whatever_goes_wrong_after_the_command_the_tree_is_reverted() {
    let project = project();
    project.write(".decree/config.yml", "max_retries: 1\n");
    let before = project.snapshot();
    // What verifies it cannot be started: its directory is gone.
    let src = project.path("src").to_str().unwrap().to_owned();
    let harm = "echo x >../notes.txt; rm -r ../src";
    project.decree(["-C", &src, "guard", "--verify", "true", "--", "bash", "-c", harm]).fails(127);
    assert_same(&project.snapshot(), &before);
    // It leaves something in the place of decree's own files that cannot be read to its end, and a broken config.
    let harm = "mkfifo .decree/audit.jsonl || { rm .decree/audit.jsonl; mkfifo .decree/audit.jsonl; }; echo ': {' >.decree/config.yml; echo x >notes.txt; exit 1";
    project.decree(["guard", "--", "bash", "-c", harm]).fails(1).mentions(&["set-aside"]);
    assert_same(&project.snapshot(), &before);
    assert_eq!(project.read(".decree/config.yml"), b"max_retries: 1\n");
    project.decree(["audit", "verify"]).ok();
}

/// GRD-02.
#[test]
fn a_command_that_outlives_the_expiry_of_its_checkpoint_is_reverted_anyway() {
    let project = project();
    let before = project.snapshot();
    let harm = "echo x >notes.txt; sleep 2.2; exit 5";
    project
        .decree(["guard", "--expiry", "1s", "--", "bash", "-c", harm])
        .fails(5)
        .mentions(&["verified against"]);
    assert_same(&project.snapshot(), &before);
}
