//! Invalid specs, routines and settings.

use std::fs;

use super::{dead, done, only_dead, process, project, summary, tracker, tree, verdicts};
use crate::harness::{Project, assert_same};
use crate::revert::{as_nobody, hand_over};

const WORK: &str = "echo work >> work\n";

/// Only good specs are carried out; the others are dead letters with these words, and the tree is what the good ones make of it.
#[track_caller]
fn assert_rejected(project: &Project, name: &str, words: &[&str]) {
    project.write("specs/99-good.spec.md", "---\nroutine: good\n---\nGood.\n");
    project.write(".decree/routines/good.sh", "echo good > good\n");
    let mut expected = tree(project);
    process(project).fails(1).mentions(words);
    let mut found = tree(project);
    assert!(found.remove(&b"good"[..]).is_some(), "the next one runs");
    expected.remove(&b"good"[..]);
    assert_same(&found, &expected);
    let letter = only_dead(project);
    assert!(dead(project).contains_key(name), "{:?}", dead(project));
    for word in words {
        assert!(letter.contains(word), "{word:?} is not in {letter}");
    }
    assert_eq!(tracker(project), ["99-good.spec.md"]);
    // Nothing was tried, and nothing is there that was.
    let attempts = summary(project)["messages"][0]["attempts"].clone();
    assert_eq!(attempts.as_array().map(Vec::len), Some(0), "{attempts}");
    // Once more: still one dead letter, the new one.
    process(project).fails(1);
    assert_eq!(dead(project).len(), 1, "{:?}", dead(project));
}

#[test]
fn a_spec_that_is_not_text_is_a_dead_letter() {
    let project = project(WORK);
    project.write("specs/01-work.spec.md", b"Do it, \xff\xfe\n");
    assert_rejected(&project, "01-work.md", &["BadSpec", "specs/01-work.spec.md is not UTF-8"]);
}

#[test]
fn a_spec_with_broken_front_matter_is_a_dead_letter_that_names_the_line() {
    for (text, line) in [
        ("---\nroutine: develop\nno colon here\n---\nx\n", "specs/01-work.spec.md:3"),
        ("---\nroutine: [\n---\nx\n", "specs/01-work.spec.md:"),
        ("---\nnever closed\n", "specs/01-work.spec.md:1"),
        ("---\na: 1\na: 2\n---\n", "specs/01-work.spec.md:3"),
    ] {
        let project = project(WORK);
        project.write("specs/01-work.spec.md", text);
        assert_rejected(&project, "01-work.md", &["BadSpec", line]);
    }
}

#[test]
fn many_bad_specs_do_not_keep_the_good_ones_from_their_turn() {
    // More than there are chain ids in a second.
    let project = project(WORK);
    for number in 0..130 {
        project.write(format!("specs/00-{number:03}.spec.md"), b"\xff");
    }
    process(&project).fails(1);
    assert_eq!(dead(&project).len(), 130);
    assert_eq!(tracker(&project), ["01-work.spec.md"]);
}

#[test]
fn a_routines_name_cannot_lead_out_of_its_directory() {
    for name in ["../../etc/x", "/etc/passwd", "..", "a/b", "\"x\\0y\"", "$(touch pwned)", "-c"] {
        let project = project(WORK);
        project.write("specs/01-work.spec.md", format!("---\nroutine: '{name}'\n---\nx\n"));
        fs::create_dir_all(project.path("etc")).unwrap();
        project.write("etc/x.sh", "touch pwned\n");
        assert_rejected(&project, "01-work.md", &["RoutineNotFound"]);
        assert!(!project.exists("pwned"));
    }
}

#[test]
fn a_message_cannot_set_what_decides_what_runs() {
    let declared: String = ["PATH", "LD_PRELOAD", "BASH_ENV", "DECREE_ATTEMPT", "HOME", "IFS"]
        .map(|name| format!("{name}=\"${{{name}:-none}}\"\n"))
        .concat();
    let project = project(&format!(
        "{declared}mine=\"${{mine:-none}}\"\necho \"$PATH|$LD_PRELOAD|$BASH_ENV|$DECREE_ATTEMPT|$HOME|$mine\" > seen\n"
    ));
    project.remove("specs/01-work.spec.md").write("evil.sh", "touch pwned\n");
    let evil = project.path("evil.sh").display().to_string();
    project.write(
        ".decree/inbox/evil.md",
        format!(
            "---\nroutine: develop\nPATH: {0}\nLD_PRELOAD: {0}\nBASH_ENV: {0}\nDECREE_ATTEMPT: 7\nHOME: {0}\nIFS: x\nmine: kept\n---\n",
            evil
        ),
    );
    let output = process(&project).ok();
    for name in ["PATH", "LD_PRELOAD", "BASH_ENV"] {
        assert!(output.err.contains(&format!("warning: a message cannot set {name}")), "{}", output.err);
    }
    let seen = String::from_utf8(project.read("seen")).unwrap();
    assert!(!seen.contains("evil.sh") && seen.ends_with("|none|none|1|/nonexistent|kept\n"), "{seen}");
    assert!(!project.exists("pwned"));
    assert_eq!(verdicts(&project), ["success"]);
}

#[test]
fn a_routine_need_not_be_executable() {
    let project = project(WORK);
    project.chmod(".decree/routines/develop.sh", 0o644);
    process(&project).ok();
    assert_eq!(project.read("work"), b"work\n");
}

#[test]
fn a_routine_with_a_syntax_error_costs_no_attempt() {
    let project = project("echo work > work\nif true; then\n");
    assert_rejected(&project, "01-work.md", &["RoutineInvalid", ".decree/routines/develop.sh: line"]);
}

#[test]
fn a_routine_that_is_no_file_is_not_found_and_it_is_said_why() {
    let path = ".decree/routines/develop.sh";
    let fifo = |p: &Project| {
        let made = std::process::Command::new("mkfifo").arg(p.remove(path).path(path)).status().unwrap();
        assert!(made.success());
    };
    let with = |make: &dyn Fn(&Project), why: &str| {
        let project = project(WORK);
        make(&project);
        assert_rejected(&project, "01-work.md", &["RoutineNotFound", "develop", why]);
    };
    with(&|p| _ = p.remove(path).mkdir(path), "it is a directory");
    with(&|p| _ = p.remove(path).link(path, "nowhere"), "a link to nothing");
    with(&|p| _ = p.write(path, b"\xff\xff"), "not UTF-8");
    with(&fifo, "not a regular file");
}

#[test]
fn a_routine_that_cannot_be_read_is_not_found_and_does_not_stop_the_others() {
    if !crate::harness::skip::as_root() {
        return;
    }
    let project = project(WORK);
    project
        .write("specs/02-other.spec.md", "---\nroutine: other\n---\n")
        .write(".decree/routines/other.sh", "echo x > other\n");
    project.chmod(".decree/routines/develop.sh", 0o000);
    hand_over(project.root());
    as_nobody(&project, &["process"]).fails(1).mentions(&["RoutineNotFound", "Permission denied"]);
    assert_eq!(tracker(&project), ["02-other.spec.md"]);
    assert!(done(&project).contains_key("02-other.md") && dead(&project).contains_key("01-work.md"));
}

#[test]
fn settings_that_make_no_sense_are_named_by_file_and_line() {
    for (text, words) in [
        ("max_retries: 0\nmax_retrys: 3\n", &["config.yml:2", "max_retrys", "max_retries"][..]),
        ("max_retries: many\n", &["config.yml:1", "max_retries", "whole number"]),
        ("timeout: [1]\n", &["config.yml:1", "timeout"]),
        ("hooks: yes\n", &["config.yml:1", "hooks"]),
        ("hooks:\n  before_al: x\n", &["config.yml:2", "before_al"]),
        ("budget:\n  usd: -1\n", &["config.yml:2", "usd"]),
        ("policy: {max_files: lots}\n", &["config.yml:1", "max_files"]),
        ("a: &a [*a]\n", &["config.yml"]),
        ("\u{0}", &["config.yml"]),
        ("- 1\n", &["config.yml:1"]),
    ] {
        let project = project(WORK);
        project.write(".decree/config.yml", text);
        let before = project.snapshot();
        process(&project).fails(3).mentions(words);
        assert_same(&project.snapshot(), &before);
    }
    let project = project(WORK);
    project.write(".decree/config.yml", b"max_retries: 1\n# \xff\n");
    process(&project).fails(3).mentions(&["config.yml:2", "UTF-8"]);
}

#[test]
fn settings_that_are_no_file_are_an_error_and_not_a_wait() {
    let project = project(WORK);
    project.remove(".decree/config.yml").mkdir(".decree/config.yml");
    process(&project).fails(3).mentions(&["config.yml", "a directory"]);
    project.remove(".decree/config.yml");
    let made = std::process::Command::new("mkfifo").arg(project.path(".decree/config.yml")).status().unwrap();
    assert!(made.success());
    let mut child = super::start(&project);
    assert_eq!(super::end_of(&mut child).code(), Some(3));
}
