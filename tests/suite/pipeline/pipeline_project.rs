//! A project with routines and specs, for tests of the form: given these routines and specs, when they are processed, then this
//! is the result.

use std::fs;
use std::io::Write;
use std::ops::Deref;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::{CommandOutput, Project, run_command};

/// A project with what the pipeline needs.
pub struct PipelineProject {
    project: Project,
}

impl Deref for PipelineProject {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.project
    }
}

/// A routine that succeeds; its output differs from what was there before.
pub const WORKS: &str = "echo \"done ${spec_file:-$message_id}\" >>work.txt";

/// A routine that changes this and that, and fails.
pub const WRECKS: &str = r#"
echo "attempt $DECREE_ATTEMPT" >>notes.txt
rm -rf docs link
mkdir -p new/deep && head -c 5000 /dev/zero >new/deep/blob.bin
chmod 700 tool.sh; ln -sf elsewhere notes-link
echo "error: nothing works here"
exit 3
"#;

impl PipelineProject {
    /// A project with a few files of every kind, and nothing to do.
    pub fn new() -> PipelineProject {
        let project = Project::new();
        project
            .write("notes.txt", "one\r\ntwo\n")
            .write("docs/guide.md", "# Guide\n")
            .write("image.bin", b"\0\x01\x02");
        project
            .write("tool.sh", "#!/bin/sh\n")
            .chmod("tool.sh", 0o755)
            .link("link", "notes.txt")
            .mkdir("empty");
        project.mkdir("specs");
        PipelineProject { project }
    }

    /// A project whose routine `develop` is this script.
    pub fn with(script: &str) -> PipelineProject {
        let project = PipelineProject::new();
        project.routine("develop", script);
        project
    }

    pub fn config(&self, yaml: &str) -> &Self {
        self.write(".decree/config.yml", yaml);
        self
    }

    pub fn routine(&self, name: &str, script: &str) -> &Self {
        self.write(format!(".decree/routines/{name}.sh"), script);
        self
    }

    pub fn spec(&self, name: &str, text: &str) -> &Self {
        self.write(format!("specs/{name}.spec.md"), text);
        self
    }

    /// A message that waits.
    pub fn message(&self, name: &str, text: &str) -> &Self {
        self.write(format!(".decree/inbox/{name}.md"), text);
        self
    }

    pub fn process(&self) -> CommandOutput {
        self.decree(["process"])
    }

    pub fn process_with(&self, args: &[&str]) -> CommandOutput {
        self.decree([&["process"], args].concat())
    }

    /// `decree run`, with nothing on standard input.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        self.decree([&["run"], args].concat())
    }

    /// With these variables besides.
    pub fn decree_with_env(&self, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
        let mut command = self.command();
        command.args(args).envs(variables.iter().copied());
        run_command(&mut command)
    }

    /// With this on standard input.
    pub fn decree_fed(&self, args: &[&str], input: &str) -> CommandOutput {
        let mut child = self
            .command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The runs there are, the oldest first.
    pub fn runs(&self) -> Vec<String> {
        let mut runs = self.names(".decree/runs");
        runs.sort_by_key(|id| {
            let (chain, seq) = id.split_once('-').unwrap();
            (chain.to_owned(), seq.parse::<u32>().unwrap())
        });
        runs
    }

    /// The one run there is.
    #[track_caller]
    pub fn only_run(&self) -> String {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    /// The last run of the message with this name.
    #[track_caller]
    pub fn run_of(&self, name: &str) -> String {
        let found = self.runs().into_iter().rev().find(|id| {
            self.exists(format!(".decree/runs/{id}/result.json")) && self.result(id)["name"] == name
        });
        found.unwrap_or_else(|| panic!("no run of {name} among {:?}", self.runs()))
    }

    /// A run's `result.json`.
    #[track_caller]
    pub fn result(&self, id: &str) -> Value {
        serde_json::from_str(&self.of_run(id, "result.json")).unwrap()
    }

    /// A text file of a run.
    #[track_caller]
    pub fn of_run(&self, id: &str, file: &str) -> String {
        self.text(&format!(".decree/runs/{id}/{file}"))
    }

    /// Whether a run has a file.
    pub fn run_has(&self, id: &str, file: &str) -> bool {
        self.exists(format!(".decree/runs/{id}/{file}"))
    }

    #[track_caller]
    pub fn text(&self, path: &str) -> String {
        match fs::read(self.path(path)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    #[track_caller]
    pub fn summary(&self) -> Value {
        serde_json::from_str(&self.text(".decree/summary.json")).unwrap()
    }

    /// `name: verdict` of every message in the summary, in the order they were worked on.
    #[track_caller]
    pub fn verdicts(&self) -> Vec<String> {
        let summary = self.summary();
        let messages = summary["messages"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        messages.iter().map(|m| format!("{}: {}", text(&m["name"]), text(&m["verdict"]))).collect()
    }

    /// Names of messages that wait.
    pub fn inbox(&self) -> Vec<String> {
        self.messages(".decree/inbox")
    }

    pub fn done(&self) -> Vec<String> {
        self.messages(".decree/inbox/done")
    }

    pub fn dead(&self) -> Vec<String> {
        self.messages(".decree/inbox/dead")
    }

    /// The text of a dead letter, with quotes as they are read.
    #[track_caller]
    pub fn dead_letter(&self, name: &str) -> String {
        self.text(&format!(".decree/inbox/dead/{name}.md")).replace("''", "'")
    }

    /// The specs that are processed.
    pub fn tracker(&self) -> Vec<String> {
        if self.exists("specs/processed-spec.md") {
            self.text("specs/processed-spec.md").lines().map(str::to_owned).collect()
        } else {
            Vec::new()
        }
    }

    fn messages(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<String> =
            self.names(dir).iter().filter_map(|name| name.strip_suffix(".md")).map(str::to_owned).collect();
        names.sort();
        names
    }

    /// What is in a directory, sorted; nothing if it is not there.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(dir)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The value of a field in a message's front matter, as it is written.
pub fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let front = text.strip_prefix("---\n")?.split("---\n").next()?;
    front.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
}

/// Says which of these a text lacks.
#[track_caller]
pub fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
