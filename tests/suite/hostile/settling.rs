//! Killed before every system call between the verdict and the end: the run is settled once, with its verdict.

use std::fs;
use std::process::{Command, Output, Stdio};

use super::{VANDALISM, dead, done, inbox, process, project, tracker, tree};
use crate::harness::{Project, assert_same};
use crate::killed::{CALLS, has_strace};

/// decree under strace, this thread alone: it is the one that settles.
fn strace(project: &Project, options: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command
        .arg("-qq")
        .args(options)
        .arg(project.command().get_program())
        .arg("process")
        .current_dir(project.root())
        .env("RAYON_NUM_THREADS", "1")
        .stdin(Stdio::null());
    command.output().unwrap()
}

/// The calls from the verdict on, each with its number among those of its name.
fn calls(project: &Project) -> Vec<(String, u32)> {
    let log = tempfile::NamedTempFile::new().unwrap();
    strace(project, &["-o", log.path().to_str().unwrap(), "-e", &format!("trace={CALLS}")]);
    let text = fs::read_to_string(log.path()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_verdict = |line: &&str| line.starts_with("rename") && line.ends_with("-0/result.json\") = 0");
    let verdict = lines.iter().position(is_verdict).expect("a verdict was written");
    let name = |line: &str| line.split('(').next().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains('(')) {
        let number = lines[..=at].iter().filter(|earlier| name(earlier) == name(line)).count();
        if at + 4 >= verdict {
            found.push((name(line), u32::try_from(number).unwrap()));
        }
    }
    found
}

/// Kills a `process` before each of its calls from the verdict on, and looks at what the next one makes of it.
fn killed_while_settling(scene: impl Fn() -> Project, code: i32, check: impl Fn(&Project, &str)) {
    if !has_strace() {
        return;
    }
    let calls = calls(&scene());
    assert!(calls.len() > 20, "{calls:?}");
    let mut kills = 0;
    for (call, number) in &calls {
        let what = format!("{number}. {call}");
        let project = scene();
        let inject = format!("inject={call}:signal=KILL:when={number}");
        let output = strace(&project, &["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
        kills += usize::from(output.status.code() != Some(code));
        let stderr = process(&project);
        assert!([0, code].contains(&stderr.code), "{what}: {}", stderr.err);
        check(&project, &what);
        assert!(inbox(&project).is_empty() && !project.exists(".decree/running.json"), "{what}");
    }
    assert!(kills * 10 > calls.len() * 8, "killed at only {kills} of {calls:?}");
}

#[test]
fn a_success_is_settled_once_wherever_it_is_cut_off() {
    let scene = || project("echo $RANDOM >> work\n");
    killed_while_settling(scene, 0, |project, what| {
        let work = String::from_utf8(project.read("work")).unwrap();
        assert_eq!(work.lines().count(), 1, "{what}");
        assert_eq!(tracker(project), ["01-work.spec.md"], "{what}");
        assert_eq!(done(project).keys().collect::<Vec<_>>(), ["01-work.md"], "{what}");
        assert!(dead(project).is_empty(), "{what}");
    });
}

#[test]
fn a_failure_is_settled_once_wherever_it_is_cut_off() {
    let scene = || {
        let project = project(&format!("{VANDALISM}exit 3\n"));
        project
            .remove("specs/01-work.spec.md")
            .write(".decree/inbox/work.md", "---\nroutine: develop\n---\nx\n");
        project
    };
    let before = tree(&scene());
    killed_while_settling(scene, 1, |project, what| {
        assert_same(&tree(project), &before);
        let dead = dead(project);
        assert_eq!(dead.keys().collect::<Vec<_>>(), ["work.md"], "{what}");
        assert!(dead["work.md"].contains("error: exit 3 (1 attempt)"), "{what}: {dead:?}");
        assert!(dead["work.md"].contains("verdict: failed-reverted"), "{what}");
        assert!(done(project).is_empty() && tracker(project).is_empty(), "{what}");
    });
}
