//! Other commands run while `gc` collects.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Past, expire};
use crate::harness::{Project, assert_same};
use crate::revert::binary::noise;

/// GCC-12.
#[test]
fn the_second_process_reports_the_lock_and_nothing_is_lost() {
    let project = Project::new();
    let mut kept = Vec::new();
    let mut refused = 0;
    for round in 0..25 {
        project.write("own.bin", noise(5_000, round)).write("text", format!("round {round}\n"));
        let picture = project.snapshot();
        let start = |args: &[&str]| {
            project.command().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let create = start(&["checkpoint", "create"]);
        let gc = start(&["checkpoint", "gc"]);
        let (create, gc) = (create.wait_with_output().unwrap(), gc.wait_with_output().unwrap());
        for output in [&create, &gc] {
            let stderr = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0) => {}
                Some(5) => {
                    refused += 1;
                    assert!(stderr.contains("another decree is working here"), "{stderr}");
                }
                code => panic!("{code:?}: {stderr}"),
            }
        }
        if create.status.success() {
            let id = String::from_utf8(create.stdout).unwrap().trim().to_owned();
            match round % 3 {
                0 => expire(&project, &id),
                _ => kept.push((id, picture)),
            }
        }
    }
    assert!(refused > 0 && !kept.is_empty(), "they never met, or nothing was done");
    project.decree(["checkpoint", "gc"]).ok();
    project.decree(["checkpoint", "verify", "--all"]).ok();
    for (id, picture) in kept {
        project.decree(["rollback", &id]).ok();
        assert_same(&project.snapshot(), &picture);
    }
}

/// GCC-12.
#[test]
fn nothing_is_collected_while_a_routine_is_at_work() {
    let past = Past::new();
    past.routine("develop", "decree checkpoint gc >gc.txt 2>&1; echo $? >code.txt");
    past.spec("2-b", "B\n");
    let decree = std::path::Path::new(env!("CARGO_BIN_EXE_decree")).parent().unwrap();
    let path = format!("{}:{}", decree.display(), std::env::var("PATH").unwrap());
    past.decree_with_env(&["process"], &[("PATH", &path)]).ok();
    assert_eq!(past.read("code.txt"), b"5\n", "{}", past.text("gc.txt"));
    assert!(past.expired.iter().all(|id| past.checkpoints().contains(id)));
}

/// GCC-09.
#[test]
fn a_reader_reports_no_damage() {
    let past = Past::new();
    let own = past.read("own.bin");
    let passing: Vec<String> = (0..12)
        .map(|n| {
            past.write("own.bin", noise(30_000, 1000 + n));
            past.checkpoint()
        })
        .collect();
    past.write("own.bin", own);
    let done = AtomicBool::new(false);
    let diff = format!("diff {}", past.kept[0].0);
    std::thread::scope(|scope| {
        for line in ["checkpoint verify --all", &diff, "status", "checkpoint list"] {
            let (past, done) = (&past, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let output = past.decree(line.split(' ')).ok();
                    assert!(!output.err.contains("warning"), "{}", output.err);
                }
            });
        }
        for id in &passing {
            expire(&past, id);
            past.decree(["checkpoint", "gc"]).ok();
        }
        done.store(true, Ordering::Relaxed);
    });
    past.assert_all_there();
}
