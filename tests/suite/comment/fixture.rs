//! A fixture for `comment`: a summary, an event file, a server.

use std::path::Path;
use std::process::Command;

use decree::pipeline::{FileChange, MessageSummary, Summary, Verdict};
use serde_json::{Value, json};

use super::server::{RUNNER, Server};
use crate::harness::{CommandOutput, Project, run_command};

pub const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/fixture/summary.json");
pub const ID: &str = "2026111613574500-0";
pub const MARKER: &str = "<!-- decree:v1 key=CI/process -->\n";

pub struct Stage {
    pub place: Project,
    pub server: Server,
    variables: Vec<(String, String)>,
}

impl Stage {
    /// A job `process` of a workflow `CI`, run for pull request 7 by the runner itself.
    pub fn new(server: Server) -> Stage {
        let place = Project::bare();
        let mut stage = Stage { place, server, variables: Vec::new() };
        for (name, value) in [
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_REPOSITORY", "octo/repo"),
            ("GITHUB_SERVER_URL", "https://git.example.org"),
            ("GITHUB_RUN_ID", "123"),
            ("GITHUB_RUN_ATTEMPT", "1"),
            ("GITHUB_WORKFLOW", "CI"),
            ("GITHUB_JOB", "process"),
            ("GITHUB_TOKEN", RUNNER),
            ("DECREE_INTERNAL_BACKOFF_MS", "1"),
        ] {
            stage.set(name, value);
        }
        let url = stage.server.url.clone();
        stage.set("GITHUB_API_URL", &url);
        stage.event("pull_request", &pull_request("octo/repo"));
        stage
    }

    pub fn github() -> Stage {
        Stage::new(Server::github())
    }

    pub fn set(&mut self, name: &str, value: &str) -> &mut Stage {
        self.unset(name).variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn unset(&mut self, name: &str) -> &mut Stage {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    pub fn event(&mut self, name: &str, payload: &Value) -> &mut Stage {
        self.place.write("event.json", payload.to_string());
        let path = self.place.path("event.json").display().to_string();
        self.set("GITHUB_EVENT_NAME", name).set("GITHUB_EVENT_PATH", &path)
    }

    /// Comments on what is written down in `tests/report/fixture`.
    pub fn comment(&self, arguments: &[&str]) -> CommandOutput {
        self.comment_on(Path::new(FIXTURE), arguments)
    }

    pub fn comment_on(&self, summary: &Path, arguments: &[&str]) -> CommandOutput {
        run_command(self.command(&["--summary", &summary.display().to_string()]).args(arguments))
    }

    /// The command, ready to run with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command();
        command.envs(self.variables.iter().cloned()).arg("comment").args(arguments);
        command
    }

    /// Comments on a summary of one spec.
    pub fn comment_on_spec(&self, name: &str, arguments: &[&str]) -> CommandOutput {
        let mut summary = Summary::new("process");
        let mut message = MessageSummary::without_run(name.to_owned(), Verdict::Success);
        (message.run.kept, message.run.spec) = (true, Some("x".to_owned()));
        summary.add(message);
        self.write(&summary);
        self.comment_on(&self.place.path("summary.json"), arguments)
    }

    /// Comments on nothing.
    pub fn comment_on_nothing(&self, arguments: &[&str]) -> CommandOutput {
        self.write(&Summary::new("process"));
        self.comment_on(&self.place.path("summary.json"), arguments)
    }

    /// Comments on a run with this diff of a file of this name.
    pub fn comment_on_diff(&self, name: &str, diff: &str, arguments: &[&str]) -> CommandOutput {
        let mut summary = Summary::new("process");
        let mut message = MessageSummary::without_run(name.to_owned(), Verdict::Success);
        message.run.kept = true;
        let file = FileChange { path: name.to_owned(), added: 1, removed: 0, binary: false };
        let (id, run_dir) = (Some(ID.to_owned()), Some(format!(".decree/runs/{ID}")));
        summary.add(MessageSummary { id, run_dir, files: vec![file], ..message });
        self.write(&summary);
        self.place.write(format!("runs/{ID}/changes.diff"), diff);
        self.comment_on(&self.place.path("summary.json"), arguments)
    }

    fn write(&self, summary: &Summary) {
        summary.write(&self.place.path("summary.json")).unwrap();
    }
}

/// A diff of one file with these lines added.
pub fn added(path: &str, lines: impl IntoIterator<Item = String>) -> String {
    let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let lines: String = lines.into_iter().map(|line| format!("+{line}\n")).collect();
    format!(
        "# decree-diff 1\n# decree-file \"{path}\" old=- new={hash} size=-:1 mode=-:100644\n\
         diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n{lines}"
    )
}

/// The event of a pull request that comes from this repository.
pub fn pull_request(head: &str) -> Value {
    json!({
        "action": "synchronize",
        "number": 7,
        "pull_request": {
            "number": 7,
            "head": {"ref": "fix", "sha": "1a2b3c4d5e6f708192a3b4c5d6e7f80910213243", "repo": {"full_name": head}},
            "base": {"ref": "main", "repo": {"full_name": "octo/repo"}},
        },
        "repository": {"id": 1, "full_name": "octo/repo"},
    })
}
