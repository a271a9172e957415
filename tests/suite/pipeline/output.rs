//! A routine's output: limited in size, without secrets, and without effect on the CI runner.

use std::fs;
use std::process::Stdio;

use super::pipeline_project::{PipelineProject, assert_has};
use crate::harness::{assert_same, wait_until};

/// RUN-20.
#[test]
fn a_log_that_is_too_long_keeps_its_beginning_and_its_end() {
    let project = PipelineProject::with(
        "echo first; for i in $(seq 20000); do echo \"line $i of many\"; done; echo last",
    );
    project
        .config("log_limit: 64kB\n")
        .run(&["-m", "x", "-p", "y"])
        .ok()
        .mentions(&["first\n", "more output than log_limit"]);
    let log = project.of_run(&project.only_run(), "routine.log");
    assert!(
        log.starts_with("first\nline 1 of many\n") && log.ends_with("line 20000 of many\nlast\n"),
        "{}",
        log.len()
    );
    assert!(log.len() < 70_000, "{}", log.len());
    assert_has(&log, &["[decree: ", " bytes left out here]"]);
}

/// RUN-20.
#[test]
fn a_log_that_is_too_long_keeps_its_end_even_if_decree_was_killed() {
    let project = PipelineProject::with(
        "touch work; echo first; for i in $(seq 20000); do echo \"line $i of many\"; done; echo last; sleep 600",
    );
    project.config("log_limit: 64kB\n");
    let mut child =
        project.command().args(["run", "-m", "x", "-p", "y"]).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the end of the output", || {
        let tail = |id: &String| project.path(format!(".decree/runs/{id}/attempts/1/routine.log.newer"));
        project.runs().iter().any(|id| fs::read(tail(id)).is_ok_and(|tail| tail.ends_with(b"last\n")))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    // It fails, after it has settled the run.
    project.decree(["revert", "no-such-run"]).fails(3).mentions(&["was interrupted"]);
    let id = project.only_run();
    for name in ["routine.log", "attempts/1/routine.log"] {
        let log = project.of_run(&id, name);
        assert!(
            log.starts_with("first\nline 1 of many\n") && log.ends_with("line 20000 of many\nlast\n"),
            "{name}: {}",
            log.len()
        );
        assert_has(&log, &["[decree: cut off; some output may be left out here]"]);
    }
    let parts = ["routine.log.older", "routine.log.newer"];
    assert!(!parts.iter().any(|part| project.run_has(&id, &format!("attempts/1/{part}"))));
}

const SECRETS: [(&str, &str); 4] = [
    ("MY_TOKEN", "tok-4711-abcdef"),
    ("OPENAI_API_KEY", "sk-very-secret-key"),
    ("DB_PASSWORD", "correct horse battery"),
    ("GITHUB_TOKEN", "ghs_withheld_and_masked"),
];

/// RUN-21.
#[test]
fn values_of_secret_variables_are_nowhere_to_be_read() {
    let project = PipelineProject::with(
        "echo \"token $MY_TOKEN\"; echo \"$OPENAI_API_KEY\" >&2; printf 'tok-4711-'; sleep 0.05; echo abcdef; echo ghs_withheld_and_masked; touch \"$MY_TOKEN.txt\"; echo \"error: $DB_PASSWORD\"; exit 1",
    );
    project.config(
        "max_retries: 1\npolicy: { deny: ['*.txt'] }\nhooks: { before_each: 'echo hook $MY_TOKEN' }\n",
    );
    let output = project.decree_with_env(&["run", "-m", "x", "-p", "y"], &SECRETS).fails(1);
    let id = project.only_run();
    assert_eq!(project.of_run(&id, "routine.log"), "token ***\n***\n***\n***\nerror: ***\n");
    let answer = [
        output.text(),
        output.err,
        project.of_run(&id, "routine.log"),
        project.of_run(&id, "attempts/1/routine.log"),
        project.of_run(&id, "failure-context.md"),
        project.dead_letter("x"),
    ];
    for text in &answer {
        for (_, secret) in SECRETS {
            // A file's name is data, and stands where files are named.
            let names = text.replace("tok-4711-abcdef.txt", "");
            assert!(!names.contains(secret), "{secret} is in:\n{text}");
        }
    }
    assert_has(&answer[0], &["error: ***"]);
    let summary = project.summary();
    assert_eq!(summary["messages"][0]["attempts"][0]["headline"], "error: ***");
}

/// RUN-21.
#[test]
fn a_secret_in_a_reason_is_masked_too() {
    let project = PipelineProject::with("true");
    project.config("max_retries: 0\nverify: 'test tok-4711-abcdef = x'\n");
    let output = project.decree_with_env(&["run", "-m", "x", "-p", "y"], &SECRETS).fails(1);
    for text in [output.text(), output.err, project.text(".decree/summary.json"), project.dead_letter("x")] {
        assert!(!text.contains("tok-4711"), "{text}");
    }
}

/// RUN-23.
#[test]
fn in_github_actions_a_routines_output_gives_no_commands() {
    let project = PipelineProject::with(
        "echo '::set-output name=x::y'; echo '::stop-commands::'; printf '::error::no newline'; exit 1",
    );
    project.config("max_retries: 1\nverify: \"echo '::warning::v'\"\n");
    let output =
        project.decree_with_env(&["run", "-m", "x", "-p", "y"], &[("GITHUB_ACTIONS", "true")]).fails(1);
    let mut fences = Vec::new();
    let mut fence: Option<String> = None;
    let mut seen = 0;
    for line in output.err.lines() {
        match &fence {
            None => {
                if let Some(word) = line.strip_prefix("::stop-commands::") {
                    assert!(word.len() >= 16, "a word that can be guessed: {word}");
                    fence = Some(word.to_owned());
                    fences.push(word.to_owned());
                }
                let own =
                    ["::group::", "::endgroup::", "::stop-commands::", "::error title=decree%3A x::failed"];
                assert!(!line.starts_with("::") || own.iter().any(|word| line.starts_with(word)), "{line}");
            }
            Some(word) if line == format!("::{word}::") => fence = None,
            Some(_) => seen += usize::from(line.starts_with("::")),
        }
    }
    assert_eq!((fence, fences.len(), seen), (None, 2, 6), "{}", output.err);
    assert_ne!(fences[0], fences[1]);
    assert_has(&output.err, &["::group::x · attempt 1 of 2\n", "::endgroup::\n"]);
    assert!(!output.text().lines().any(|line| line.trim_start().starts_with("::")), "{}", output.text());
}

/// RUN-23.
#[test]
fn in_github_actions_hooks_give_no_commands_either() {
    let project = PipelineProject::with("true");
    project
        .config("hooks: { before_all: \"echo '::set-env name=A::b'\", after_each: \"echo '::error::x'\" }\n");
    let output = project.decree_with_env(&["run", "-m", "x", "-p", "y"], &[("GITHUB_ACTIONS", "true")]).ok();
    let mut fence: Option<String> = None;
    for line in output.err.lines() {
        match (&fence, line.strip_prefix("::stop-commands::")) {
            (None, Some(word)) => fence = Some(word.to_owned()),
            (Some(word), _) if line == format!("::{word}::") => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                assert!(!line.starts_with("::set-env") && !line.starts_with("::error"), "{}", output.err)
            }
        }
    }
}

/// RUN-23.
#[test]
fn elsewhere_there_are_no_fences() {
    let project = PipelineProject::with("echo '::notice::hi'");
    let output = project.run(&["-m", "x", "-p", "y"]).ok();
    assert!(
        !output.err.contains("::stop-commands::") && output.err.contains("\n::notice::hi\n"),
        "{}",
        output.err
    );
}

/// RUN-24.
#[test]
fn a_secret_file_that_a_routine_changed_is_warned_of() {
    let project = PipelineProject::with("echo LEAK=1 >>.env; rm deploy/id_rsa; touch work");
    project.write(".env", "A=1\n").write("deploy/id_rsa", "key\n").write(".npmrc", "x\n");
    let output = project.run(&["-m", "x", "-p", "y"]).ok();
    assert_has(&output.err, &[".env was changed", "deploy/id_rsa was deleted", "in no diff"]);
    assert!(!output.err.contains(".npmrc was changed"), "{}", output.err);
    let id = project.only_run();
    assert!(!project.of_run(&id, "changes.diff").contains(".env"));
    let warnings = project.result(&id)["warnings"].to_string();
    assert_has(&warnings, &[".env was changed"]);
    assert_eq!(project.summary()["messages"][0]["warnings"].to_string(), warnings);
}

/// RUN-12.
#[test]
fn both_streams_are_in_the_log_in_their_order_as_bytes() {
    let project =
        PipelineProject::with("echo out; echo err >&2; printf 'caf\\xe9 \\033[31mred\\033[0m no end'");
    project.run(&["-m", "x", "-p", "y"]).ok();
    let log = project.read(format!(".decree/runs/{}/routine.log", project.only_run()));
    assert_eq!(log, b"out\nerr\ncaf\xe9 \x1b[31mred\x1b[0m no end");
}

/// SEE-15. A person's edit cannot be told from the routine's; so every path that was reverted is named.
#[test]
fn every_reverted_path_is_named_also_one_that_a_person_edited() {
    let project = PipelineProject::with(
        "echo x >made; for i in $(seq 130); do echo x >many-$i; done; echo mine >notes.txt; exit 1",
    );
    let before = project.snapshot();
    let output = project.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    assert_same(&project.snapshot(), &before);
    let id = project.only_run();
    assert_eq!(output.err.matches("    reverted  ").count(), 100, "{}", output.err);
    assert_has(
        &output.err,
        &["    reverted  made", &format!("and 32 more; `decree diff {id} --stat` lists all")],
    );
    let files = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned()).collect()
    };
    let named = files(&project.result(&id)["put_back"]["files"]);
    assert_eq!(named.len(), 132);
    assert!(named.contains(&"notes.txt".to_owned()) && named.contains(&"many-130".to_owned()), "{named:?}");
    assert_eq!(files(&project.summary()["messages"][0]["put_back"]["files"]), named);
    let stat = project.decree(["diff", "--stat", &id]).ok().text();
    assert!(named.iter().all(|path| stat.contains(path.as_str())), "{stat}");
    project.decree(["apply", &id]).ok();
    let reverted = project.decree(["revert", &id]).ok();
    assert_eq!(reverted.err.matches("    reverted  ").count(), 100, "{}", reverted.err);
    assert_has(&reverted.err, &["and 32 more"]);
}

/// SEE-15. The diff of the run is that of the attempt after the clean slate.
#[test]
fn what_a_clean_slate_reverted_is_listed_by_the_command_that_is_named() {
    let project = PipelineProject::with(
        "[ $DECREE_ATTEMPT = 2 ] || for i in $(seq 130); do echo x >many-$i; done; echo x >made; exit 1",
    );
    let output = project.config("max_retries: 1\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = project.only_run();
    let command = format!("decree diff {id} --attempt 1 --stat");
    assert_has(&output.err, &[&format!("and 31 more; `{command}` lists all")]);
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    let stat = project.decree(arguments).ok().text();
    for number in 1..=130 {
        assert!(stat.contains(&format!("many-{number} ")), "{number}: {stat}");
    }
}

/// SEE-15. Names come from the routine: they must not speak to the terminal or to GitHub.
#[test]
fn a_reverted_name_with_control_characters_is_printed_on_one_line() {
    let project = PipelineProject::with("touch $'a\\n::error::injected\\n' $'b\\e[1m'; exit 1");
    project.config("max_retries: 0\n");
    let output = project.decree_with_env(&["run", "-m", "x", "-p", "y"], &[("GITHUB_ACTIONS", "true")]);
    let injected = |text: &str| text.lines().any(|line| line.starts_with("::error::injected"));
    assert!(!injected(&output.err) && !injected(&output.text()), "{}", output.err);
    assert!(!output.err.contains("b\u{1b}[1m"), "{}", output.err);
    assert_has(&output.err, &["reverted  \"a\\n::error::injected\\n\""]);
}
