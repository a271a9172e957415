//! A routine's environment.

use super::pipeline_project::{PipelineProject, assert_has};

fn environment(project: &PipelineProject, id: &str, attempt: u32) -> Vec<String> {
    project.of_run(id, &format!("env-{attempt}")).lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_set(environment: &[String], key: &str, value: &str) {
    let line = format!("{key}={value}");
    assert!(environment.contains(&line), "{line} is not in {environment:?}");
}

const PRINT_ENVIRONMENT: &str =
    "env >\"$message_dir/env-$DECREE_ATTEMPT\"; pwd >>\"$message_dir/env-$DECREE_ATTEMPT\"";

/// RUN-13.
#[test]
fn a_routine_receives_everything_about_its_message() {
    let project = PipelineProject::with(PRINT_ENVIRONMENT);
    project.spec("01-a", "# A\n").process().ok();
    let id = project.only_run();
    let found = environment(&project, &id, 1);
    let root = project.root().canonicalize().unwrap().display().to_string();
    assert_set(&found, "spec_file", "specs/01-a.spec.md");
    assert_set(&found, "input_file", "specs/01-a.spec.md");
    assert_set(&found, "message_id", &id);
    assert_set(&found, "message_dir", &format!("{root}/.decree/runs/{id}"));
    assert_set(&found, "message_file", &format!("{root}/.decree/runs/{id}/message.md"));
    assert_set(&found, "chain", id.trim_end_matches("-0"));
    assert_set(&found, "seq", "0");
    assert_set(&found, "DECREE_ATTEMPT", "1");
    assert_set(&found, "DECREE_MAX_ATTEMPTS", "4");
    assert_set(&found, "DECREE_AI", "claude -p");
    assert_eq!(found.last(), Some(&root), "it runs in the project's root");
}

/// RUN-13.
#[test]
fn a_task_has_no_spec_and_perhaps_an_input() {
    let project = PipelineProject::with(PRINT_ENVIRONMENT);
    project.run(&["-m", "x", "-v", "input_file=notes.txt"]).ok();
    let found = environment(&project, &project.only_run(), 1);
    assert_set(&found, "spec_file", "");
    assert_set(&found, "input_file", "notes.txt");
}

/// RUN-13.
#[test]
fn attempts_are_counted() {
    let project = PipelineProject::with(&format!("{PRINT_ENVIRONMENT}; exit 1"));
    project.config("max_retries: 1\ncommands: { ai: 'my-ai --fast' }\n").run(&["-p", "x"]).fails(1);
    let id = project.only_run();
    for attempt in [1, 2] {
        let found = environment(&project, &id, attempt);
        assert_set(&found, "DECREE_ATTEMPT", &attempt.to_string());
        assert_set(&found, "DECREE_MAX_ATTEMPTS", "2");
        assert_set(&found, "DECREE_AI", "my-ai --fast");
    }
}

const RUNNER: [(&str, &str); 10] = [
    ("GITHUB_TOKEN", "t-one"),
    ("DECREE_GITHUB_TOKEN", "t-two"),
    ("GITHUB_OUTPUT", "/tmp/none/out"),
    ("GITHUB_ENV", "/tmp/none/env"),
    ("GITHUB_PATH", "/tmp/none/path"),
    ("GITHUB_STATE", "/tmp/none/state"),
    ("GITHUB_STEP_SUMMARY", "/tmp/none/summary"),
    ("ACTIONS_RUNTIME_URL", "https://x.invalid"),
    ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "t-three"),
    ("ANTHROPIC_API_KEY", "what-it-needs"),
];

/// RUN-22.
#[test]
fn what_speaks_for_the_runner_does_not_reach_a_routine_and_what_it_needs_does() {
    let project = PipelineProject::with(PRINT_ENVIRONMENT);
    let args = ["run", "-m", "x", "-p", "y"];
    project.decree_with_env(&args, &[&RUNNER[..], &[("GITHUB_REPOSITORY", "me/it")]].concat()).ok();
    let found = environment(&project, &project.only_run(), 1);
    assert_set(&found, "ANTHROPIC_API_KEY", "what-it-needs");
    assert_set(&found, "GITHUB_REPOSITORY", "me/it");
    for (name, _) in &RUNNER[..9] {
        assert!(!found.iter().any(|line| line.starts_with(&format!("{name}="))), "{name}");
    }
}

/// RUN-22.
#[test]
fn neither_does_it_reach_verification_hooks_and_router_unless_it_is_named() {
    let project = PipelineProject::with("true");
    let write = |file: &str| format!("env | cut -d= -f1 >.decree/{file}");
    project.config(&format!(
        "pass_env: [GITHUB_OUTPUT]\nverify: {0:?}\nhooks: {{ before_all: {1:?}, after_all: {2:?} }}\ncommands: {{ router: 'bash ask.sh' }}\n",
        write("verify"),
        write("before"),
        write("after"),
    ));
    project.write("ask.sh", write("router"));
    project.decree_with_env(&["run", "-p", "y"], &RUNNER).ok();
    for file in ["verify", "before", "after", "router"] {
        let names = project.text(&format!(".decree/{file}"));
        assert_has(&names, &["GITHUB_OUTPUT\n", "ANTHROPIC_API_KEY\n"]);
        assert!(!names.contains("GITHUB_TOKEN") && !names.contains("ACTIONS_"), "{file}: {names}");
    }
}
