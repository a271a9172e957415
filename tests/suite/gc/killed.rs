//! `gc` killed at any moment, or on a full disk: nothing that is needed is lost, and the next `gc` finishes.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Past, gc_json, in_decree};
use crate::generate::{become_like, cases};
use crate::harness::{Project, TreeSnapshot};
use crate::killed::{count_calls, has_strace, kill_before, strace};

const GC: [&str; 2] = ["checkpoint", "gc"];

/// A past to which it is possible to return.
struct Scene {
    past: Past,
    decree: TreeSnapshot,
}

impl Scene {
    fn new() -> Scene {
        let past = Past::new();
        let decree = in_decree(&past);
        Scene { past, decree }
    }

    fn reset(&self) {
        become_like(&self.past.path(".decree"), &self.decree);
    }

    /// What is needed is there, now and after the next collection, which finds everything that was left.
    #[track_caller]
    fn assert_recovers(&self, thorough: bool) {
        let verify_all = || {
            for (id, _) in &self.past.kept {
                self.past.decree(["checkpoint", "verify", id]).ok();
            }
            self.past.decree(["checkpoint", "verify", &self.past.run]).ok();
        };
        verify_all();
        self.past.decree(GC).ok();
        verify_all();
        assert_eq!(self.past.checkpoints().len(), self.past.kept.len());
        let left = gc_json(&self.past, &["--dry-run"]);
        assert_eq!(left["freed"], 0, "{left:#}");
        let names = in_decree(&self.past);
        let unfinished =
            |path: &&Vec<u8>| path.split(|byte| *byte == b'/').any(|name| name.starts_with(b"tmp-"));
        assert_eq!(names.keys().find(unfinished), None);
        self.past.decree(["audit", "verify"]).ok();
        if thorough {
            self.past.assert_all_there();
        }
    }
}

/// GCC-06.
#[test]
fn killed_at_any_moment_it_has_lost_nothing_and_the_next_one_finishes() {
    let scene = Scene::new();
    let start = || scene.past.command().args(GC).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = began.elapsed();
    let rounds = cases(30);
    for round in 0..rounds {
        scene.reset();
        let mut child = start();
        std::thread::sleep(whole.mul_f64(1.1 * f64::from(round) / f64::from(rounds)));
        child.kill().unwrap();
        child.wait().unwrap();
        scene.assert_recovers(round % 10 == 5);
    }
}

/// GCC-06.
#[test]
fn killed_before_any_system_call_it_has_lost_nothing_and_the_next_one_finishes() {
    if !has_strace() {
        return;
    }
    let scene = Scene::new();
    let calls = count_calls(&scene.past, &GC);
    let (mut kills, all) = (0, calls.values().sum::<u32>());
    for (call, count) in &calls {
        for nth in 1..=*count {
            scene.reset();
            kills += u32::from(kill_before(&scene.past, &GC, call, nth));
            scene.assert_recovers(false);
        }
    }
    assert!(all > 15 && kills * 10 > all * 9, "killed at only {kills} of {calls:?}");
}

/// GCC-07.
#[test]
fn without_room_there_is_a_clear_error_and_nothing_is_lost() {
    if !has_strace() {
        return;
    }
    let scene = Scene::new();
    let calls = count_calls(&scene.past, &GC);
    let mut failed = 0;
    for (call, count) in
        calls.iter().filter(|(call, _)| ["write", "fsync", "fdatasync"].contains(&call.as_str()))
    {
        for nth in 1..=*count {
            scene.reset();
            let inject = format!("inject={call}:error=ENOSPC:when={nth}");
            let trace = format!("trace={call}");
            let output = strace(&scene.past, &GC, &["-o", "/dev/null", "-e", &trace, "-e", &inject]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                failed += 1;
                assert_eq!(output.status.code(), Some(1), "{nth}. {call}: {stderr}");
                assert!(stderr.contains("No space left"), "{nth}. {call}: {stderr}");
            }
            scene.assert_recovers(false);
        }
    }
    assert!(failed > 5, "only {failed} of {calls:?} failed");
}

/// GCC-06. A signal ends it between two contents.
#[test]
fn asked_to_stop_it_stops_and_the_next_one_finishes() {
    let scene = Scene::new();
    for millis in [0, 2, 4, 8, 16, 32] {
        scene.reset();
        let mut child =
            scene.past.command().args(GC).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        let mut output = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        let status = child.wait().unwrap();
        assert!([None, Some(0), Some(143)].contains(&status.code()), "{status}: {output}");
        scene.assert_recovers(false);
    }
}

/// GCC-07. What needs no room is done first: a full disk gets some back.
#[test]
fn packs_with_nothing_needed_go_even_if_there_is_no_room_to_rewrite_others() {
    if !has_strace() {
        return;
    }
    let scene = Scene::new();
    let project: &Project = &scene.past;
    // One that nothing names at all.
    project.write("own.bin", crate::revert::binary::noise(90_000, 77));
    let id = project.checkpoint();
    super::expire(project, &id);
    let size = || super::bytes_below(&project.path(".decree/store"));
    let before = size();
    assert!(gc_json(project, &["--dry-run"])["store"]["packs_rewritten"].as_u64().unwrap() > 0);
    let output = strace(
        project,
        &GC,
        &["-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=ENOSPC:when=1+"],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("No space left") && stderr.contains("nothing that is needed is lost"),
        "{stderr}"
    );
    assert!(before - size() > 90_000, "{} of {before} are left", size());
    scene.past.decree(["checkpoint", "verify", "--all"]).ok();
    project.decree(GC).ok();
    scene.past.assert_all_there();
}
