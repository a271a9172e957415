//! What no checkpoint holds: likely secrets, repositories, ignored entries in the root. It is named, and restored with the tree.

mod attacks;
mod became_secret;
mod below_root;
mod guard;
mod guard_killed;
mod killed;
mod objects;
mod orphans;
mod output;
mod project_dir;
mod repositories;
mod secrets;
mod set_aside;
mod stopped;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Project, TreeEntry};
use crate::pipeline::pipeline_project::PipelineProject;

/// A word that only the secrets of [`project`] have.
const WORD: &str = "hunter2";

/// A project with likely secrets of every kind, hidden by an ignore rule or not. A routine that fails is not tried again.
fn project(routine: &str) -> PipelineProject {
    let project = PipelineProject::with(routine);
    project.config("max_retries: 0\n").spec("01-work", "Do the work.\n");
    project
        .write(".gitignore", ".env\n/secrets/\n/target/\n*.pem\n*.log\n")
        .write(".env", format!("KEY={WORD}\n"))
        .chmod(".env", 0o640)
        .write("id_rsa", format!("{WORD} key\n"))
        .chmod("id_rsa", 0o600)
        .write("secrets/.env", format!("DEEP={WORD}\n"))
        .chmod("secrets/.env", 0o400)
        .chmod("secrets", 0o700)
        .write("tls/server.pem", format!("-----BEGIN PRIVATE KEY-----\n{WORD}\n"))
        .write("tls/cert.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    project
}

/// Removes a repository with every copy of its objects: one that is emptied is so under every name.
const EMPTY_AND_REMOVE: &str = "find .git/objects -type f -exec chmod u+w {} + -exec truncate -s 0 {} +\n\
     rm -rf .git .decree/git-objects";

/// The likely secrets of [`project`].
const SECRETS: [&str; 4] = [".env", "id_rsa", "secrets/.env", "tls/server.pem"];

/// `path change restored` of each likely secret that a run's result reports.
fn reported(result: &Value) -> Vec<String> {
    let list = result["secrets"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| {
        let (path, change) = (value["path"].as_str().unwrap(), value["change"].as_str().unwrap());
        format!("{path} {change} {}", value["restored"])
    };
    list.iter().map(text).collect()
}

/// The files below `.decree/` that contain a text, without those in `set-aside/`.
fn holding(project: &Project, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (path, entry) in crate::harness::snapshot(&project.path(".decree")) {
        let path = String::from_utf8_lossy(&path).into_owned();
        let TreeEntry::File { bytes, .. } = entry else { continue };
        let is_script = path.starts_with("routines/");
        if !is_script && !path.contains("set-aside") && String::from_utf8_lossy(&bytes).contains(word) {
            found.push(path);
        }
    }
    found
}

/// A repository with one commit; returns its hash.
fn repository(dir: &Path) -> String {
    git(dir, &["init", "-q"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "first"]);
    head(dir)
}

fn head(dir: &Path) -> String {
    git(dir, &["rev-parse", "HEAD"])
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The file that a run set aside.
fn set_aside(project: &PipelineProject, path: &str) -> Vec<u8> {
    fs::read(project.path(format!(".decree/runs/{}/set-aside/{path}", project.only_run()))).unwrap()
}
