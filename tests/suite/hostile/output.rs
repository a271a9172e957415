//! Routines that print too much, or close their output.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{end_of, only_dead, only_run, process, project, summary, tracker};
use crate::harness::assert_same;

/// The most memory a process has had so far, in KiB.
fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}

#[test]
fn a_gigabyte_of_output_costs_neither_disk_nor_memory() {
    let project = project(
        "yes 'the quick brown fox jumps over the lazy dog' | head -c 1000000000; echo the end; echo work > work\n",
    );
    project.write(".decree/config.yml", "max_retries: 0\nlog_limit: 1MiB\n");
    let mut command = project.command();
    let began = Instant::now();
    let mut child = command.arg("process").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = peak(child.id()).unwrap_or(0).max(most);
        std::thread::sleep(Duration::from_millis(10));
        assert!(began.elapsed() < Duration::from_secs(120), "it takes too long");
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(most > 1000 && most < 200 * 1024, "{most} KiB");
    let run = only_run(&project);
    let log = project.read(format!("{run}/routine.log"));
    assert!(log.len() < (1 << 20) + 200, "{}", log.len());
    let text = String::from_utf8_lossy(&log);
    assert!(
        text.starts_with("the quick") && text.ends_with("the end\n") && text.contains("bytes left out here")
    );
    let parts = fs::read_dir(project.path(format!("{run}/attempts/1"))).unwrap();
    let names: Vec<_> = parts.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("older") || name.contains("newer")), "{names:?}");
}

#[test]
fn one_endless_line_is_cut_wherever_people_see_it() {
    let project = project("head -c 30000000 /dev/zero | tr '\\0' x; exit 1\n");
    project.write(".decree/config.yml", "max_retries: 1\nlog_limit: 1MiB\n");
    let before = project.snapshot();
    process(&project).fails(1);
    assert_same(&project.snapshot(), &before);
    assert!(only_dead(&project).len() < 2000);
    let text = summary(&project).to_string();
    assert!(text.len() < 10_000, "{}", text.len());
    let run = only_run(&project);
    assert!(project.read(format!("{run}/failure-context.md")).len() < 200_000);
    assert!(project.read(format!("{run}/routine.log")).len() < (1 << 20) + 200);
}

#[test]
fn output_that_is_no_text_harms_nothing() {
    let project = project("head -c 300000 /dev/urandom; printf '\\033]0;title\\007\\033[2J\\0'; exit 1\n");
    process(&project).fails(1);
    summary(&project);
    only_dead(&project);
}

#[test]
fn a_routine_that_closes_its_output_goes_on() {
    for closing in ["exec >&-", "exec 2>&-", "exec >&- 2>&- <&-"] {
        let project = project(&format!("echo said; {closing}\nsleep 0.1; echo work > work\n"));
        process(&project).ok();
        assert_eq!(project.read("work"), b"work\n");
        assert_eq!(project.read(format!("{}/routine.log", only_run(&project))), b"said\n");
    }
}

#[test]
fn a_closed_listener_does_not_stop_the_run() {
    let script = "for i in {1..2000}; do echo \"line $i\"; done; sleep 0.1; for i in {1..2000}; do echo \"line $i\"; done; echo work > work\n";
    for closed in [
        "exec \"$0\" process >&- 2>&- <&-",
        "\"$0\" process 2>&1 | head -c 1",
        "\"$0\" process | true",
        "\"$0\" process 2>/dev/full >/dev/full",
    ] {
        let project = project(script);
        let program = project.command().get_program().to_owned();
        let mut child = std::process::Command::new("bash")
            .args(["-c", closed])
            .arg(program)
            .current_dir(project.root())
            .env_remove("HOME")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        end_of(&mut child);
        super::wait_until("the work", || tracker(&project) == ["01-work.spec.md"]);
        assert_eq!(project.read("work"), b"work\n", "{closed}");
        let log = project.read(format!("{}/routine.log", only_run(&project)));
        assert_eq!(log.iter().filter(|byte| **byte == b'\n').count(), 4000, "{closed}");
    }
}
