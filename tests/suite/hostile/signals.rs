//! Signals while a routine runs, on a tree of 20,000 files.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{dead, end_of, inbox, only_run, process, project, start, tracker, wait_for};
use crate::harness::{Project, TreeSnapshot, assert_same};

/// More than a CI grants is too long. The machine may be busy, so the best of a few counts, and reading the tree ten times is not too
/// long either.
fn soon(project: &Project) -> Duration {
    let began = Instant::now();
    project.snapshot();
    Duration::from_secs(5).max(began.elapsed() * 10)
}

/// Changes a few files, says so, and goes on; the second part decides how it takes being asked.
fn script(manners: &str) -> String {
    format!(
        "{manners}\nfor i in 1 2 3 4 5; do echo changed > files/$i/$i.txt; done; rm -r files/7; echo x > new\n\
         echo x > .decree/ready; while :; do sleep 0.05; done\n"
    )
}

const POLITE: &str = "trap 'exit 0' TERM";
const RUDE: &str = "trap '' TERM INT HUP";

fn large(routine: &str) -> Project {
    let project = project(routine);
    for dir in 0..100 {
        project.mkdir(format!("files/{dir}"));
        for file in 0..200 {
            std::fs::write(project.path(format!("files/{dir}/{file}.txt")), format!("{dir} {file}\n"))
                .unwrap();
        }
    }
    project
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Interrupts a `process` once; returns how long it took to end.
#[track_caller]
fn interrupt(project: &Project, signals: &[Signal], codes: &[i32], before: &TreeSnapshot) -> Duration {
    let _ = std::fs::remove_file(project.path(".decree/ready"));
    let mut child = start(project);
    wait_for(&project.path(".decree/ready"));
    let asked = Instant::now();
    for (number, signal) in signals.iter().enumerate() {
        if number > 0 {
            std::thread::sleep(Duration::from_millis(200));
        }
        send(&child, *signal);
    }
    let status = end_of(&mut child);
    let took = asked.elapsed();
    assert!(status.code().is_some_and(|code| codes.contains(&code)), "{status}");
    assert_same(&project.snapshot(), before);
    assert_eq!(inbox(project).keys().collect::<Vec<_>>(), ["01-work.md"]);
    assert!(dead(project).is_empty() && tracker(project).is_empty());
    assert!(!project.exists(".decree/running.json"), "it is settled");
    let run = only_run(project);
    for diff in [format!("{run}/changes.diff"), format!("{run}/attempts/1/changes.diff")] {
        let text = String::from_utf8(project.read(diff)).unwrap();
        assert!(text.contains("+changed") && text.contains("files/7/") && text.contains("b/new"), "{text}");
    }
    let result = super::result(project);
    assert_eq!((&result["status"], &result["put_back"]["verified"]), (&"interrupted".into(), &20_006.into()));
    assert_eq!(super::summary(project)["messages"][0]["verdict"], "interrupted");
    took
}

#[test]
fn a_signal_leaves_a_diff_a_reverted_tree_and_a_pending_message() {
    let project = large(&script(POLITE));
    let before = project.snapshot();
    let routine = |text: String| project.write(".decree/routines/develop.sh", text);
    let (int, term) = (Signal::INT, Signal::TERM);
    let mut times =
        vec![interrupt(&project, &[term], &[143], &before), interrupt(&project, &[int], &[130], &before)];
    routine(script(RUDE));
    let rude = interrupt(&project, &[term], &[143], &before);
    times.push(interrupt(&project, &[int, term], &[130, 143], &before));
    assert!(*times.iter().min().unwrap() < soon(&project), "{times:?}");
    let is_soon = |rude| rude < soon(&project);
    assert!(is_soon(rude) || is_soon(interrupt(&project, &[int], &[130], &before)), "{rude:?}");
    // So often in a row that it is not tried again, until it is requested.
    routine(script(POLITE));
    while super::result(&project)["status"] == "interrupted"
        && !project.exists(format!("{}/previous/4", only_run(&project)))
    {
        interrupt(&project, &[term], &[143], &before);
    }
    process(&project).fails(1).mentions(&["interrupted 5 times in a row"]);
    assert_same(&project.snapshot(), &before);
    assert!(inbox(&project).is_empty() && tracker(&project).is_empty());
    let letter = &dead(&project)["01-work.md"];
    assert!(letter.contains("verdict: interrupted"), "{letter}");
    routine("echo work > work\n".to_owned());
    project.decree(["retry", "--all"]).ok();
    process(&project).ok();
    assert_eq!(tracker(&project), ["01-work.spec.md"]);
    assert!(project.exists("work") && dead(&project).is_empty());
}

/// RUN-36.
#[test]
fn the_same_signal_twice_ends_decree_at_once_and_the_next_one_puts_back() {
    let project = project(
        &script(RUDE).replace("files/$i/$i.txt", "src/lib.rs").replace("rm -r files/7", "rm notes.txt"),
    );
    let before = project.snapshot();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let child =
            project.command().arg("process").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(&project.path(".decree/ready"));
        send(&child, signal);
        std::thread::sleep(Duration::from_millis(100));
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{err}");
        let run = only_run(&project).rsplit('/').next().unwrap().to_owned();
        for words in ["interrupted again", "the tree is NOT reverted", "the next `decree process`", &run] {
            assert!(err.contains(words), "{words:?} is not in {err}");
        }
        assert!(project.exists("new") && !project.exists("notes.txt"), "the tree was reverted after all");
        std::fs::remove_file(project.path(".decree/ready")).unwrap();
        if signal == Signal::INT {
            project.checkpoint();
            assert!(project.exists("new"), "only a command that reverts or runs settles it");
            project.decree(["revert", "nothing"]).fails(3).mentions(&["was interrupted"]);
            assert_same(&project.snapshot(), &before);
        }
    }
    project.write(".decree/routines/develop.sh", "exit 1\n");
    process(&project).fails(1).mentions(&["was interrupted; the tree is reverted"]);
    assert_same(&project.snapshot(), &before);
}

/// RUN-45. A CI kills the process after the second one.
#[test]
fn another_signal_has_the_log_say_what_a_kill_leaves_to_the_next_process() {
    let project = project(
        &script(RUDE).replace("files/$i/$i.txt", "src/lib.rs").replace("rm -r files/7", "rm notes.txt"),
    );
    let before = project.snapshot();
    let child =
        project.command().arg("process").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    send(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    send(&child, Signal::TERM);
    std::thread::sleep(Duration::from_millis(100));
    send(&child, Signal::KILL);
    let err = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    for words in
        ["still at work", "if it is killed now, the tree is NOT reverted", "the next `decree process`"]
    {
        assert!(err.contains(words), "{words:?} is not in {err}");
    }
    assert_ne!(project.snapshot(), before);
    project.write(".decree/routines/develop.sh", "exit 1\n");
    process(&project).fails(1).mentions(&["was interrupted; the tree is reverted"]);
    assert_same(&project.snapshot(), &before);
}
