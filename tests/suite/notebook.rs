//! Notebooks: real papermill in a real Python environment, which decree itself makes once for all of these.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::harness::{CommandOutput, Project, run_command, skip};

/// The project whose Python environment the tests share: made by the first test that needs it, kept between runs. Another user, or a
/// container in which the environment's Python does not exist, makes its own.
fn shared() -> PathBuf {
    static SHARED: OnceLock<PathBuf> = OnceLock::new();
    SHARED
        .get_or_init(|| {
            let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
            let shared = target.join("notebook-project");
            let works =
                Command::new(shared.join(".decree/venv/bin/python")).arg("--version").output().is_ok();
            if works || tempfile::tempfile_in(target).is_ok() {
                shared
            } else {
                std::env::temp_dir().join("decree-notebook-project")
            }
        })
        .clone()
}

fn venv() -> PathBuf {
    shared().join(".decree/venv")
}

/// decree with what it takes to reach a package index, and the shared environment.
fn command(project: &Project, venv: &Path) -> Command {
    let mut command = project.command();
    for (name, value) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["PIP_", "SSL_", "REQUESTS_", "CURL_", "UV_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env(name, value);
        }
    }
    command.env("DECREE_VENV", venv);
    command
}

/// Whether Python environments can be made here; if not, that is the reason for a skip.
#[track_caller]
fn has_python() -> bool {
    let mut python = Command::new("python3");
    let works = python.args(["-c", "import ensurepip, venv"]).output();
    let works = works.is_ok_and(|output| output.status.success());
    if !works {
        skip::skip(skip::Lack::Tool("python3 with venv"));
    }
    works
}

fn run(project: &Project, arguments: &[&str]) -> CommandOutput {
    ready();
    run_command(command(project, &venv()).args(arguments))
}

/// The environment, made through decree if it is not there yet.
fn ready() {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        if !venv().join("decree-made-this").exists() {
            let (shared, project) = (shared(), project(""));
            let _ = fs::remove_dir_all(&shared);
            fs::create_dir_all(shared.join(".decree/routines")).unwrap();
            let config = project.read(".decree/config.yml");
            fs::write(shared.join(".decree/config.yml"), config).unwrap();
            let work = notebook("", "open('made', 'w').write('by a notebook')");
            fs::write(shared.join(".decree/routines/nb.ipynb"), work).unwrap();
            let mut first = command(&project, &venv());
            first.current_dir(&shared).env_remove("DECREE_VENV");
            let output = run_command(first.args(["run", "-p", "x", "-v", "routine=nb"])).ok();
            assert!(output.err.contains("creating a Python environment"), "{}", output.err);
            assert_eq!(fs::read(shared.join("made")).unwrap(), b"by a notebook");
        }
    });
}

fn project(config: &str) -> Project {
    let project = Project::new();
    project.write(".decree/config.yml", format!("notebook_support: true\nmax_retries: 0\n{config}"));
    project
}

/// A notebook with a parameters cell and one that does the work.
fn notebook(parameters: &str, work: &str) -> String {
    let cell = |id: &str, tags: Value, source: &str| json!({ "cell_type": "code", "id": id, "execution_count": null, "metadata": tags, "outputs": [], "source": source });
    json!({
        "cells": [
            cell("parameters", json!({ "tags": ["parameters"] }), parameters),
            cell("work", json!({}), work),
        ],
        "metadata": { "kernelspec": { "display_name": "Python 3", "language": "python", "name": "python3" } },
        "nbformat": 4,
        "nbformat_minor": 5,
    })
    .to_string()
}

/// The only run's directory.
fn run_dir(project: &Project) -> PathBuf {
    let runs: Vec<_> =
        fs::read_dir(project.path(".decree/runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].clone()
}

/// NTB-01, NTB-03.
#[test]
fn a_notebook_runs_in_the_project_with_its_parameters() {
    if !has_python() {
        return;
    }
    let project = project("");
    let parameters = "spec_file = ''\nchain = ''\nrows = 3\nword = 'x'\n";
    let work = "assert isinstance(chain, str) and len(chain) == 16\nopen('out', 'w').write(word * rows)\nprint('written', rows)";
    project.write(".decree/routines/nb.ipynb", notebook(parameters, work));
    run(&project, &["run", "-p", "write", "-v", "routine=nb", "-v", "rows=5", "-v", "word=7"]).ok();
    assert_eq!(project.read("out"), b"77777");
    let dir = run_dir(&project);
    for file in ["output.ipynb", "papermill.log", "changes.diff", "attempts/1/output.ipynb"] {
        assert!(dir.join(file).exists(), "{file}");
    }
    assert!(fs::read_to_string(dir.join("output.ipynb")).unwrap().contains("written 5"));
    assert!(fs::read_to_string(dir.join("changes.diff")).unwrap().contains("+77777"));
}

/// NTB-02.
#[test]
fn a_notebook_wins_over_a_script_of_the_same_name_only_if_notebooks_are_supported() {
    if !has_python() {
        return;
    }
    for (support, expected) in [(true, "notebook"), (false, "script")] {
        let project = project("");
        project.write(".decree/config.yml", format!("notebook_support: {support}\nmax_retries: 0\n"));
        project.write(".decree/routines/both.ipynb", notebook("", "open('who', 'w').write('notebook')"));
        project.write(".decree/routines/both.sh", "printf script > who\n");
        run(&project, &["run", "-p", "x", "-v", "routine=both"]).ok();
        assert_eq!(project.read("who"), expected.as_bytes());
    }
}

/// NTB-04.
#[test]
fn a_notebook_that_fails_is_reverted_and_what_it_said_is_kept() {
    if !has_python() {
        return;
    }
    let project = project("");
    project.write(".decree/config.yml", "notebook_support: true\nmax_retries: 1\n").write("kept", "before\n");
    let work = "open('kept', 'w').write('after')\nraise ValueError('no such luck')";
    project.write(".decree/routines/nb.ipynb", notebook("", work));
    run(&project, &["run", "-p", "x", "-v", "routine=nb"]).fails(1);
    assert_eq!(project.read("kept"), b"before\n");
    let dir = run_dir(&project);
    for attempt in ["attempts/1", "attempts/2"] {
        assert!(dir.join(attempt).join("output.ipynb").exists(), "{attempt}");
        let log = fs::read_to_string(dir.join(attempt).join("papermill.log")).unwrap();
        assert!(log.contains("no such luck"), "{attempt}: {log}");
    }
    let context = fs::read_to_string(dir.join("failure-context.md")).unwrap();
    assert!(context.contains("no such luck") && context.contains("papermill.log"), "{context}");
}

/// NTB-08.
#[test]
fn a_number_or_a_truth_of_the_message_arrives_as_one() {
    if !has_python() {
        return;
    }
    let project = project("");
    let parameters = "count = None\nratio = None\nflag = None\nword = None\nzip_code = ''\nrows = 3\non = False\ntags = None\n";
    let work = "open('out', 'w').write(repr([count, ratio, flag, word, zip_code, rows, on, tags]))";
    project.write(".decree/routines/nb.ipynb", notebook(parameters, work));
    let fields = "count: 5\nratio: 0.5\nflag: true\nword: \"7\"\nzip_code: \"007\"\nrows: 4\non: true\ntags: [a, 1, {b: no}]\n";
    project.write(".decree/inbox/x.md", format!("---\nroutine: nb\n{fields}---\nx\n"));
    run(&project, &["process"]).ok();
    let out = String::from_utf8(project.read("out")).unwrap();
    assert_eq!(out, "[5, 0.5, True, '7', '007', 4, True, ['a', 1, {'b': 'no'}]]");
    // On the command line everything is text, except where the notebook's own default is not.
    let fields = ["count=5", "ratio=0.5", "flag=true", "word=7", "zip_code=7", "rows=4", "on=true"];
    let fields = fields.iter().flat_map(|field| ["-v", field]);
    run(&project, &["run", "-p", "x", "-v", "routine=nb"].into_iter().chain(fields).collect::<Vec<_>>()).ok();
    let out = String::from_utf8(project.read("out")).unwrap();
    assert_eq!(out, "['5', '0.5', 'true', '7', '7', 4, True, None]");
}

/// NTB-08.
#[test]
fn what_a_spec_sets_arrives_with_its_type_unless_the_message_sets_it() {
    if !has_python() {
        return;
    }
    let project = project("default_routine: nb\n");
    let parameters = "tags = None\nlimits = None\ncount = None\nword = None\nowner = None\n";
    let work = "open('out', 'w').write(repr([tags, limits, count, word, owner]))";
    project.write(".decree/routines/nb.ipynb", notebook(parameters, work));
    let fields = "tags: [a, 1]\nlimits: {cpu: 2, names: [x]}\ncount: 5\nword: '7'\nowner: [b]\n";
    project.write("specs/01-a.spec.md", format!("---\n{fields}---\n# A\n"));
    run(&project, &["process"]).ok();
    let out = String::from_utf8(project.read("out")).unwrap();
    assert_eq!(out, "[['a', 1], {'cpu': 2, 'names': ['x']}, 5, '7', ['b']]");
    // A text of the message outranks a list of the spec.
    run(&project, &["run", "-v", "input_file=specs/01-a.spec.md", "-v", "owner=me", "-v", "count=six"]).ok();
    let out = String::from_utf8(project.read("out")).unwrap();
    assert_eq!(out, "[['a', 1], {'cpu': 2, 'names': ['x']}, 'six', '7', 'me']");
}

/// NTB-10.
#[test]
fn doctor_names_a_venv_that_cannot_run_notebooks() {
    let project = project("");
    project.write(".decree/routines/nb.ipynb", notebook("", "pass")).mkdir("venv");
    let doctor = run_command(command(&project, &project.path("venv")).arg("doctor")).fails(1).text();
    assert!(doctor.contains("DECREE_VENV names") && doctor.contains("has no papermill"), "{doctor}");
    assert!(doctor.contains("python3 -m venv"), "there is no Python in it either: {doctor}");
    project.write("venv/bin/python", "").chmod("venv/bin/python", 0o755);
    let doctor = run_command(command(&project, &project.path("venv")).arg("doctor")).fails(1).text();
    assert!(doctor.contains("venv/bin/python -m pip install papermill"), "{doctor}");
    assert!(!doctor.contains("python3 -m venv"), "{doctor}");
}

/// NTB-09.
#[test]
fn a_venv_that_does_not_exist_is_an_error_before_anything_runs() {
    let project = project("");
    project
        .write(".decree/routines/nb.ipynb", notebook("", "pass"))
        .write(".decree/routines/sh.sh", "touch ran\n")
        .write(".decree/inbox/waits.md", "---\nroutine: nb\n---\nx\n");
    for args in [
        &["run", "-p", "x", "-v", "routine=nb"][..],
        &["run", "-p", "x", "-v", "routine=sh"],
        &["process"],
        &["process", "--dry-run"],
    ] {
        let output = run_command(command(&project, &project.path("no/such/venv")).args(args)).fails(3);
        output.mentions(&["DECREE_VENV", "no/such/venv", "does not exist", "hint:", "python3 -m venv"]);
        assert!(project.exists(".decree/inbox/waits.md") && !project.exists("no") && !project.exists("ran"));
        assert!(!project.exists(".decree/venv"));
    }
    let doctor = run_command(command(&project, &project.path("no/such/venv")).arg("doctor")).fails(1);
    assert!(doctor.text().contains("DECREE_VENV names"), "{}", doctor.text());
    let not_a_dir =
        run_command(command(&project, &project.path(".decree/config.yml")).arg("process")).fails(3);
    not_a_dir.mentions(&["is not a directory", "set DECREE_VENV to another directory"]);
    // Where notebooks are not supported, the variable has no meaning.
    project.write(".decree/config.yml", "max_retries: 0\n");
    run_command(command(&project, &project.path("no/such/venv")).args([
        "run",
        "-p",
        "x",
        "-v",
        "routine=sh",
    ]))
    .ok();
}

/// NTB-05.
#[test]
fn an_environment_without_papermill_is_reported_before_any_attempt() {
    let project = project("");
    project.write(".decree/routines/nb.ipynb", notebook("", "pass")).mkdir("venv/bin");
    let output =
        run_command(command(&project, &project.path("venv")).args(["run", "-p", "x", "-v", "routine=nb"]))
            .fails(1);
    assert!(
        output.text().contains("has no papermill") && output.text().contains("pip install papermill"),
        "{}",
        output.text()
    );
    assert_eq!(fs::read_dir(project.path(".decree/inbox/dead")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(project.path(".decree/runs")).unwrap().count(), 0, "no attempt was made");
}

/// NTB-06.
#[test]
fn the_notebooks_that_init_writes_call_the_ai_command() {
    if !has_python() {
        return;
    }
    let project = Project::bare();
    project.decree(["init", "--ai", "none", "--notebook"]).ok();
    // Its first attempt prints a line that no argument can hold.
    let ai = "#!/bin/bash\ncat >prompt; echo \"$#\" >arguments\n[ \"$DECREE_ATTEMPT\" = 2 ] || { printf 'x%.0s' {1..300000}; echo ' the end'; exit 1; }\n";
    project.write("bin/fake-ai", ai).chmod("bin/fake-ai", 0o755);
    let config = String::from_utf8(project.read(".decree/config.yml")).unwrap();
    project.write(
        ".decree/config.yml",
        config.replace("ai: \"\"", &format!("ai: {}", project.path("bin/fake-ai").display())),
    );
    project.write("specs/01-a.spec.md", "# Do it\n");
    run(&project, &["process"]).ok();
    let prompt = String::from_utf8(project.read("prompt")).unwrap();
    assert!(
        prompt.contains("specs/01-a.spec.md") && prompt.contains("An earlier attempt failed"),
        "{prompt}"
    );
    assert!(prompt.len() < 20_000, "{} bytes", prompt.len());
    assert_eq!(project.read("arguments"), b"0\n");
    assert!(run_dir(&project).join("output.ipynb").exists());
}

/// NTB-07.
#[test]
fn a_notebook_that_takes_too_long_is_ended_with_its_kernel() {
    if !has_python() {
        return;
    }
    let project = project("");
    let work = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nopen('.decree/pid', 'w').write(str(os.getpid()))\ntime.sleep(600)";
    project.write(".decree/routines/nb.ipynb", notebook("", work));
    run(&project, &["run", "-p", "x", "-v", "routine=nb", "--timeout", "30s"]).fails(1);
    let pid = String::from_utf8(project.read(".decree/pid")).unwrap();
    assert!(!Path::new("/proc").join(pid).exists(), "the kernel is gone");
    assert!(!project.exists("pid"));
}
