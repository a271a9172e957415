//! A run that is cut off.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{COMMIT, commit, make_busy, repo, view};
use crate::publish::Repo;

/// A routine that commits, says so, and waits.
fn slow() -> Repo {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT} touch .decree/ready; sleep 60"));
    make_busy(&repo);
    repo
}

#[track_caller]
fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a `process`, sends a signal once the routine has committed, and returns what was printed and how it ended.
pub fn cut_off(repo: &Repo, signal: Signal) -> (Option<i32>, String) {
    let child = repo.command().arg("process").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&repo.path(".decree/ready"));
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// GIT-06.
#[test]
fn a_signal_takes_back_what_was_committed() {
    let repo = slow();
    let before = view(&repo);
    let (code, words) = cut_off(&repo, Signal::TERM);
    assert_eq!(code, Some(143), "{words}");
    assert_eq!(view(&repo), before);
    let id = repo.only_run();
    assert!(words.contains(&format!("refs/decree/runs/{id}")), "{words}");
    assert_eq!(repo.says(["log", "-1", "--format=%s", &format!("refs/decree/runs/{id}")]), "by the routine");
    repo.is_sound();
}

/// GIT-06.
#[test]
fn after_a_kill_the_next_command_takes_back_what_was_committed() {
    let repo = slow();
    let before = view(&repo);
    cut_off(&repo, Signal::KILL);
    assert_ne!(view(&repo).status, before.status);
    let id = repo.only_run();
    repo.decree(["revert", &id]).ok().mentions(&["git: main is back at", &format!("refs/decree/runs/{id}")]);
    assert_eq!(view(&repo), before);
    assert_eq!(repo.result(&id)["git"][0]["restored"], true);
    repo.is_sound();
}

/// GIT-06. Killed after the branch moved back, and before the index did: the lock is decree's own.
#[test]
fn a_restore_that_was_killed_before_the_index_was_replaced_goes_on() {
    let repo = slow();
    let (before, first) = (view(&repo), commit(&repo, "HEAD"));
    let index = repo.path(".git/index");
    let kept = repo.path(".decree/index-before");
    fs::copy(&index, &kept).unwrap();
    let time = index.metadata().unwrap().modified().unwrap();
    cut_off(&repo, Signal::KILL);
    repo.git(["update-ref", "refs/heads/main", &first]).ok();
    let lock = repo.path(".git/index.lock");
    fs::copy(&kept, &lock).unwrap();
    fs::File::options().write(true).open(&lock).unwrap().set_modified(time).unwrap();
    repo.decree(["revert", &repo.only_run()]).ok();
    assert_eq!(view(&repo), before);
    assert!(!lock.exists());
}
