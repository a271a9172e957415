//! Databases that are deleted or replaced while a program has them open: what it commits goes to a file without a name.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Server, create, id, rows};
use crate::harness::{CommandOutput, Project};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// Makes a new database in the place of the one that was deleted.
const RECREATE: &str = "python3 -c \"import sqlite3; db = sqlite3.connect('data/app.db'); \
                        db.execute('CREATE TABLE other(n)'); db.commit()\"";

/// A script that deletes a database between two moments that the test chooses, and fails.
struct Script {
    dir: TempDir,
    text: String,
}

impl Script {
    fn new(deletes: &str) -> Script {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let wait = |name: &str| format!("until [ -e {at}/{name} ]; do sleep 0.01; done");
        let text = format!(
            "touch {at}/began; {}; {deletes}; touch {at}/deleted; {}; exit 3",
            wait("delete"),
            wait("end")
        );
        Script { dir, text }
    }

    fn wait_for(&self, name: &str) {
        let since = Instant::now();
        while !self.dir.path().join(name).exists() {
            assert!(since.elapsed() < Duration::from_secs(60), "{name} did not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn tell(&self, name: &str) {
        fs::write(self.dir.path().join(name), "").unwrap();
    }

    /// Runs decree with it. The program commits rows before the database is deleted, and afterwards.
    fn attend(
        &self,
        server: &mut Server,
        rows: [usize; 2],
        decree: impl Fn() -> CommandOutput + Sync,
    ) -> CommandOutput {
        std::thread::scope(|scope| {
            let decree = scope.spawn(&decree);
            self.wait_for("began");
            server.insert(rows[0]);
            self.tell("delete");
            self.wait_for("deleted");
            if rows[1] > 0 {
                server.insert(rows[1]);
            }
            self.tell("end");
            decree.join().unwrap()
        })
    }
}

/// The copies of a deleted database in a `set-aside/`.
fn kept(project: &Project, below: &str) -> Vec<PathBuf> {
    let found = walkdir::WalkDir::new(project.path(below)).into_iter().flatten();
    let is_copy = |path: &Path| path.ends_with("set-aside/data/app.db.deleted/app.db");
    found.map(walkdir::DirEntry::into_path).filter(|path| is_copy(path)).collect()
}

fn assert_is_named(output: &CommandOutput, program: &str) {
    let words = [
        "data/app.db was deleted or replaced while",
        program,
        "set-aside/data/app.db.deleted",
        "goes to a deleted file until it opens the database again",
    ];
    assert_has(&output.err, &words);
}

/// LDB-05
#[test]
fn a_failed_guard_that_deleted_a_database_in_use_keeps_what_its_program_committed() {
    let recreate = format!("rm -f data/app.db*; {RECREATE}");
    let cases = [
        // SQLite itself refuses to write to a deleted database that is not in WAL mode.
        ("WAL", "rm -rf data", 20),
        ("DELETE", "rm -rf data", 0),
        ("WAL", &*recreate, 20),
    ];
    for (mode, deletes, later) in cases {
        let project = Project::new();
        project.mkdir("data");
        let database = project.path("data/app.db");
        let mut server = Server::start(&database, mode);
        server.insert(100);
        let script = Script::new(deletes);
        let guard = || project.decree(["guard", "--", "bash", "-c", &script.text]);
        let output = script.attend(&mut server, [50, later], guard).fails(3);
        assert_is_named(&output, &server.name());
        assert_eq!(rows(&database), 100, "{mode}, {deletes}: what the checkpoint holds");
        let kept = kept(&project, ".decree/checkpoints");
        assert_eq!(kept.len(), 1, "{mode}, {deletes}: {kept:?}");
        assert_eq!(rows(&kept[0]), 150 + later, "{mode}, {deletes}: what the program committed");
        server.kill();
        assert_eq!(rows(&database), 100, "{mode}, {deletes}: whatever becomes of the program");
    }
}

/// LDB-05: the program opened the database after the checkpoint.
#[test]
fn a_failed_run_that_deleted_a_database_in_use_keeps_what_its_program_committed() {
    let script = Script::new("rm -rf data");
    let project = PipelineProject::with(&script.text);
    project.config("max_retries: 0\n");
    project.spec("01-a", "# A\n").mkdir("data");
    let database = project.path("data/app.db");
    let mut server = Server::start(&database, "WAL");
    server.insert(100);
    server.stop();
    let (output, server) = std::thread::scope(|scope| {
        let decree = scope.spawn(|| project.process());
        script.wait_for("began");
        let mut server = Server::start(&database, "WAL");
        server.insert(50);
        script.tell("delete");
        script.wait_for("deleted");
        server.insert(20);
        script.tell("end");
        (decree.join().unwrap(), server)
    });
    assert_is_named(&output.fails(1), &server.name());
    assert_eq!(rows(&database), 100);
    let kept = kept(&project, ".decree/runs");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(rows(&kept[0]), 170);
    server.kill();
}

/// LDB-06
#[test]
fn a_rollback_that_would_recreate_a_deleted_database_in_use_is_refused() {
    for mode in ["WAL", "DELETE"] {
        let project = Project::new();
        project.write("a.txt", "before\n").mkdir("data");
        let database = project.path("data/app.db");
        let mut server = Server::start(&database, mode);
        server.insert(100);
        let id = id(&create(&project));
        server.insert(50);
        project.write("a.txt", "after\n").remove("data");
        let program = server.name();
        let words = [
            "1 database in use by another program",
            "data/app.db is an SQLite database that is open in",
            &program,
            "nothing was touched",
            "stop that program",
            "gone when that program ends",
            "/proc/",
        ];
        for command in [&["rollback", &id][..], &["revert", &id], &["rollback", &id, "--dry-run"]] {
            project.decree(command).fails(1).mentions(&words);
            assert!(!database.exists() && project.read("a.txt") == b"after\n", "{mode} {command:?}");
        }
        // Another part of the tree can be rolled back all the same.
        project.decree(["rollback", &id, "--scope", "a.txt"]).ok();
        server.kill();
        project.decree(["rollback", &id]).ok();
        assert_eq!(rows(&database), 100, "{mode}");
    }
}

/// LDB-05: `decree recover` is the way out, so it does not refuse.
#[test]
fn a_recovery_that_recreates_a_deleted_database_in_use_keeps_what_its_program_committed() {
    let project = Project::new();
    project.write("a.txt", "before\n").mkdir("data");
    let database = project.path("data/app.db");
    let mut server = Server::start(&database, "WAL");
    server.insert(100);
    let id = id(&create(&project));
    server.insert(50);
    project.remove("data");
    server.insert(20);
    let output = project.decree(["recover", &id]).ok();
    assert_is_named(&output, &server.name());
    assert_eq!(rows(&database), 100);
    let kept = kept(&project, ".decree/checkpoints");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(rows(&kept[0]), 170);
    server.kill();
}

/// LDB-06
#[test]
fn a_kept_run_that_deleted_a_database_in_use_is_not_reverted_until_its_program_ends() {
    let project = PipelineProject::with("rm data/app.db; echo x >a.txt");
    project.spec("01-a", "# A\n").mkdir("data");
    let database = project.path("data/app.db");
    let mut server = Server::start(&database, "DELETE");
    server.insert(100);
    project.process().ok();
    let run = project.only_run();
    let program = server.name();
    project.decree(["revert", &run]).fails(1).mentions(&["data/app.db", &program, "nothing was touched"]);
    assert!(!database.exists() && project.exists("a.txt"));
    server.kill();
    project.decree(["revert", &run]).ok();
    assert_eq!(rows(&database), 100);
}

/// Has two connections to one path: the second is opened when the database of the first is deleted. Ends with its input.
const TWICE: &str = "
import os, sqlite3, sys, time
def connect(rows):
    db = sqlite3.connect(sys.argv[1], isolation_level=None)
    db.execute('PRAGMA journal_mode = WAL')
    db.execute('CREATE TABLE IF NOT EXISTS t(n)')
    for number in range(rows):
        db.execute('INSERT INTO t VALUES (?)', (number,))
    return db
first = connect(100)
print('ready', flush=True)
while os.path.exists(sys.argv[1]):
    time.sleep(0.01)
second = connect(7)
open(sys.argv[2], 'w').close()
sys.stdin.read()
";

/// LDB-08
#[test]
fn two_deleted_databases_of_one_path_in_one_program_are_both_kept() {
    let project = Project::new();
    project.mkdir("data");
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join("again");
    let mut program = Command::new("python3")
        .args(["-c", TWICE])
        .args([&project.path("data/app.db"), &again])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let deletes = "rm -f data/app.db-wal data/app.db-shm data/app.db";
    let script =
        format!("{deletes}; until [ -e {} ]; do sleep 0.01; done; {deletes}; exit 3", again.display());
    let output = project.decree(["guard", "--", "bash", "-c", &script]).fails(3);
    assert_has(&output.err, &["the program has several deleted databases of this path open"]);
    assert_eq!(rows(&project.path("data/app.db")), 100);
    let found = walkdir::WalkDir::new(project.path(".decree/checkpoints")).into_iter().flatten();
    let mut kept: Vec<usize> = found
        .filter(|file| file.path().ends_with("app.db") && file.file_type().is_file())
        .map(|file| rows(file.path()))
        .collect();
    kept.sort();
    assert_eq!(kept, [7, 100]);
    drop(program.stdin.take());
    program.wait().unwrap();
}
