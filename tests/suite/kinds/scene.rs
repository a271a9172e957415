//! For each type of checkpoint: something to save, a change to it, and what to compare.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::harness::{CommandOutput, TreeSnapshot, run_command, snapshot};
use crate::pipeline::pipeline_project::PipelineProject;

/// One type of checkpoint, with all that is needed to try it.
pub struct Scene {
    pub kind: &'static str,
    pub project: PipelineProject,
    /// The arguments of `checkpoint create` besides the type.
    pub scope: &'static [&'static str],
    /// Changes everything that the checkpoint holds.
    pub spoil: fn(&PipelineProject),
    /// Everything that has to be as it was.
    pub look: fn(&PipelineProject) -> BTreeMap<String, String>,
    /// A part, in words of the type, and whether a line of `look` belongs to it.
    pub part: (&'static str, fn(&str) -> bool),
}

/// Every type there is.
pub fn scenes() -> Vec<Scene> {
    vec![file_backup(), git_stash(), state_snapshot(), database_savepoint()]
}

impl Scene {
    /// Saves it; the whole answer.
    pub fn create(&self, format: &str, more: &[&str]) -> Value {
        let args = [&["checkpoint", "create", "--type", self.kind, "--format", format][..], self.scope, more];
        parsed(format, &self.project.decree(args.concat()).ok().out)
    }

    /// Saves it; its id.
    pub fn checkpoint(&self) -> String {
        self.create("json", &[])["checkpoint"]["id"].as_str().unwrap().to_owned()
    }

    pub fn looks(&self) -> BTreeMap<String, String> {
        (self.look)(&self.project)
    }

    /// Runs a line with bash, in the project.
    pub fn bash(&self, line: &str) -> CommandOutput {
        let decree = std::path::Path::new(env!("CARGO_BIN_EXE_decree")).parent().unwrap();
        let path = format!("{}:{}", decree.display(), std::env::var("PATH").unwrap());
        run_command(
            Command::new("bash").args(["-c", line]).current_dir(self.project.root()).env("PATH", path),
        )
    }

    #[track_caller]
    pub fn assert_looks(&self, expected: &BTreeMap<String, String>, when: &str) {
        let found = self.looks();
        let keys: Vec<&String> = found.keys().chain(expected.keys()).collect();
        for key in keys {
            assert_eq!(found.get(key), expected.get(key), "{} {when}: {key}", self.kind);
        }
    }
}

pub fn parsed(format: &str, out: &[u8]) -> Value {
    match format {
        "json" => serde_json::from_slice(out).unwrap(),
        _ => yaml_serde::from_slice(out).unwrap(),
    }
}

fn in_words(prefix: &str, picture: &TreeSnapshot) -> BTreeMap<String, String> {
    let name = |path: &[u8]| format!("{prefix}{}", String::from_utf8_lossy(path));
    picture.iter().map(|(path, thing)| (name(path), format!("{thing:?}"))).collect()
}

/// The tree, in words.
fn tree(project: &PipelineProject) -> BTreeMap<String, String> {
    in_words("", &project.snapshot())
}

fn file_backup() -> Scene {
    Scene {
        kind: "file_backup",
        project: crate::rollback::project(),
        scope: &[],
        spoil: |project| crate::rollback::change_everything(project),
        look: tree,
        part: ("src", |path| path.starts_with("src")),
    }
}

/// Every state that git distinguishes: staged, changed on top of that, untracked, deleted, ignored.
pub fn git_stash() -> Scene {
    let project = crate::rollback::project();
    project.write(".gitignore", "ignored/\n").write("ignored/x", "x\n").write(".decree/.gitignore", "*\n");
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-qm", "first"]);
    project.write("src/main.rs", "fn main() { staged() }\n");
    git(&project, &["add", "src/main.rs"]);
    project
        .write("src/main.rs", "fn main() { staged(); edited() }\n")
        .remove("src/gone.rs")
        .write("src/untracked.rs", "untracked\r\n")
        .write("src/added.rs", "added\n")
        .chmod("src/untracked.rs", 0o600);
    git(&project, &["add", "src/added.rs"]);
    Scene {
        kind: "git_stash",
        project,
        scope: &[],
        spoil: |project| {
            project.write("src/gone.rs", "back\n");
            git(project, &["add", "-A"]);
            crate::rollback::change_everything(project);
            git(project, &["rm", "-q", "--cached", "src/lib.rs"]);
            project.remove("src/untracked.rs");
        },
        look: |project| {
            let mut looks = tree(project);
            for line in git(project, &["status", "--porcelain=v2", "--untracked-files=all"]).lines() {
                let path = line.rsplit([' ', '\t']).next().unwrap();
                looks.insert(format!("{path} in git"), line.to_owned());
            }
            looks
        },
        part: ("src", |path| path.starts_with("src")),
    }
}

pub fn git(project: &PipelineProject, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=x", "-c", "user.email=x@example.com"])
        .args(args)
        .current_dir(project.root());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    run_command(&mut command).ok().text()
}

fn state_snapshot() -> Scene {
    let project = PipelineProject::new();
    project
        .write(".decree/inbox/01-wait.md", "wait\n")
        .write(".decree/inbox/done/00-did.md", "did\n")
        .write(".decree/inbox/dead/9.md", b"not UTF-8: \xff\n")
        .write(b".decree/inbox/\xff\n.md", "a name\n")
        .chmod(".decree/inbox/01-wait.md", 0o600)
        .write("specs/processed-spec.md", "00-did.spec.md\n")
        .write(".decree/config.yml", "max_retries: 1\n");
    Scene {
        kind: "state_snapshot",
        project,
        scope: &[],
        spoil: |project| {
            project
                .write(".decree/inbox/01-wait.md", "something else\n")
                .chmod(".decree/inbox/01-wait.md", 0o644)
                .remove(".decree/inbox/done")
                .remove(b".decree/inbox/\xff\n.md")
                .write(".decree/inbox/dead/orphan.md", "new\n")
                .write(".decree/inbox/dead/9.md", b"other: \xfe\n")
                .remove("specs/processed-spec.md")
                .write(".decree/config.yml", "max_retries: 7\n");
        },
        look: |project| {
            let mut own = snapshot(&project.path(".decree/inbox"));
            own.retain(|_, thing| !format!("{thing:?}").starts_with("dir "));
            let mut looks = in_words("inbox/", &own);
            for file in [".decree/config.yml", "specs/processed-spec.md"] {
                if project.exists(file) {
                    looks.insert(file.to_owned(), project.text(file));
                }
            }
            looks
        },
        part: ("dead", |path| path.starts_with("inbox/dead")),
    }
}

/// Two SQLite files, one of them in WAL mode, and a database of files with commands.
fn database_savepoint() -> Scene {
    let project = PipelineProject::new();
    project.write("data/keep", "").write("store.txt", "one\n");
    project.config(
        "databases:\n  store:\n    save: cat store.txt > \"$DECREE_FILE\"\n    restore: cat \"$DECREE_FILE\" > store.txt\n",
    );
    sql(
        &project,
        "data/app.db",
        "PRAGMA journal_mode=WAL; CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'one'), (2, x'00ff')",
    );
    sql(&project, "other.db", "CREATE TABLE u (a); INSERT INTO u VALUES (1)");
    Scene {
        kind: "database_savepoint",
        project,
        scope: &["--scope", "data/app.db", "--scope", "other.db", "--scope", "store"],
        spoil: |project| {
            sql(
                project,
                "data/app.db",
                "UPDATE t SET b = 'spoiled'; CREATE TABLE orphan (a); DELETE FROM t WHERE a = 1",
            );
            project.remove("other.db").write("store.txt", "two\n");
        },
        look: |project| {
            let mut looks: BTreeMap<String, String> =
                [("store".to_owned(), project.text("store.txt"))].into_iter().collect();
            for file in ["data/app.db", "other.db"] {
                if project.exists(file) {
                    looks.insert(file.to_owned(), dump(project, file));
                }
            }
            looks
        },
        part: ("other.db", |name| name == "other.db"),
    }
}

pub fn sql(project: &PipelineProject, file: &str, script: &str) {
    let database = rusqlite::Connection::open(project.path(file)).unwrap();
    database.execute_batch(script).unwrap();
}

/// Everything in it, by another program.
pub fn dump(project: &PipelineProject, file: &str) -> String {
    let script = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\nprint(db.execute('pragma integrity_check').fetchall(), db.execute('pragma journal_mode').fetchall())\nprint('\\n'.join(db.iterdump()))";
    let mut command = Command::new("python3");
    let output = run_command(command.args(["-c", script]).arg(project.path(file))).ok();
    assert!(output.text().contains("'ok'"), "{}", output.text());
    output.text()
}
