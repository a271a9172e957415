//! SQLite databases in the tree that other programs have open: they are named, and a restore neither replaces their files nor loses
//! what those programs commit.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::harness::{CommandOutput, Project, run_command, skip};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

mod deleted;

/// Keeps a connection open. Each line of its input is a number of rows to insert, each in its own transaction; it answers with the
/// number of rows in the table.
const SERVER: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
db.execute("CREATE TABLE IF NOT EXISTS t(n)")
for line in sys.stdin:
    for number in range(int(line)):
        db.execute("INSERT INTO t VALUES (?)", (number,))
    print(db.execute("SELECT count(*) FROM t").fetchone()[0], flush=True)
"#;

pub struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// Opens the database, and makes the table if it is new.
    pub fn start(database: &Path, mode: &str) -> Server {
        let mut child = Command::new("python3")
            .args(["-c", SERVER])
            .args([database.as_os_str(), mode.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Server { child, output };
        server.insert(0);
        server
    }

    /// Commits rows; how many it finds in its own table then.
    pub fn insert(&mut self, rows: usize) -> usize {
        writeln!(self.child.stdin.as_mut().unwrap(), "{rows}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim()
            .parse()
            .unwrap_or_else(|_| panic!("the program that has the database open failed: {line:?}"))
    }

    pub fn name(&self) -> String {
        format!("python3 (process {})", self.child.id())
    }

    pub fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// How many rows a new connection finds; the database has to be whole.
fn rows(database: &Path) -> usize {
    let script = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute('PRAGMA integrity_check').fetchone()[0] == 'ok', 'damaged'
print(db.execute('SELECT count(*) FROM t').fetchone()[0])";
    let output = run_command(Command::new("python3").args(["-c", script]).arg(database)).ok();
    output.line().parse().unwrap()
}

fn create(project: &Project) -> Value {
    let output = project.decree(["checkpoint", "create", "--format", "json"]).ok();
    serde_json::from_slice(&output.out).unwrap()
}

fn id(answer: &Value) -> String {
    answer["checkpoint"]["id"].as_str().unwrap().to_owned()
}

/// LDB-01
#[test]
fn a_database_in_use_is_named_in_coverage_and_assumptions_and_lowers_the_confidence() {
    for mode in ["WAL", "DELETE"] {
        let project = Project::new();
        project.write("a.txt", "a\n");
        let mut server = Server::start(&project.path("app.db"), mode);
        server.insert(10);
        let output = project.decree(["checkpoint", "create", "--format", "json"]).ok();
        let answer: Value = serde_json::from_slice(&output.out).unwrap();
        assert!(answer["confidence"].as_f64().unwrap() < 1.0, "{mode}: {answer}");
        let coverage = &answer["coverage"]["live_databases"][0];
        assert_eq!(coverage["path"], "app.db", "{mode}: {answer}");
        let reasons = coverage["reasons"].as_array().unwrap();
        assert_eq!(reasons.contains(&"journal".into()), mode == "WAL");
        assert!(reasons.contains(&"in-use".into()), "{mode}: {answer}");
        let assumption = "app.db can be restored from its files, although another program has it open";
        let assumptions = answer["assumptions"].as_array().unwrap();
        assert!(assumptions.iter().any(|text| text.as_str().unwrap().starts_with(assumption)), "{answer}");
        output.mentions(&[
            "app.db is an SQLite database in use: another program has it open",
            "it is not restored while another program has it open",
            "database_savepoint",
        ]);
        let shown = project.decree(["checkpoint", "show", &id(&answer)]).ok().text();
        assert!(shown.contains("databases in use") && shown.contains("app.db"), "{shown}");
        server.stop();
        let answer = create(&project);
        assert_eq!(answer["confidence"], 1.0, "{mode}: it is closed");
        assert!(answer["coverage"].get("live_databases").is_none(), "{answer}");
    }
}

/// LDB-02: the program goes on after the rollback, and every row that it committed is there.
#[test]
fn a_rollback_of_a_database_in_use_is_refused_and_loses_no_row() {
    for mode in ["WAL", "DELETE"] {
        let project = Project::new();
        project.write("a.txt", "before\n");
        let database = project.path("app.db");
        let mut server = Server::start(&database, mode);
        server.insert(100);
        let id = id(&create(&project));
        project.write("a.txt", "after\n");
        assert_eq!(server.insert(200), 300);
        let program = server.name();
        let words = ["1 database in use by another program", "app.db", &program, "nothing was touched"];
        for command in [["rollback", &id], ["revert", &id]] {
            project
                .decree(command)
                .fails(1)
                .mentions(&words)
                .mentions(&["stop that program", "database_savepoint"]);
            assert_eq!(project.read("a.txt"), b"after\n", "{mode} {command:?}");
        }
        let dry = project.decree(["rollback", &id, "--dry-run"]).fails(1).mentions(&words);
        assert!(!dry.err.contains("matches"), "{}", dry.err);
        project.decree(["diff", &id]).ok().mentions(&["app.db changed, and is not in the diff", &program]);
        assert_eq!(server.insert(50), 350);
        assert_eq!(rows(&database), 350, "{mode}");
        // Another part of the tree can be rolled back all the same.
        project.decree(["rollback", &id, "--scope", "a.txt"]).ok();
        assert_eq!(project.read("a.txt"), b"before\n");
        assert_eq!(server.insert(1), 351);
        server.stop();
        project.decree(["rollback", &id]).ok();
        assert_eq!(rows(&database), 100, "{mode}: what the checkpoint holds, with what was in its -wal file");
    }
}

/// REV-31. No diff has what changed in a database while another program had it open.
#[test]
fn a_run_that_only_changed_a_database_in_use_is_not_called_reverted() {
    let project = PipelineProject::with(
        "python3 -c \"import sqlite3; db = sqlite3.connect('app.db', timeout=60); db.execute('INSERT INTO t VALUES (1)'); db.commit()\"",
    );
    project.spec("01-a", "# A\n");
    let database = project.path("app.db");
    let mut server = Server::start(&database, "DELETE");
    server.insert(5);
    project.process().ok();
    let run = project.only_run();
    assert_eq!(server.insert(0), 6);
    server.stop();
    let refused = project.decree(["revert", &run]).fails(4);
    refused.mentions(&["app.db", "no diff has", &format!("decree rollback {run} --scope app.db")]);
    assert!(project.result(&run).get("put_back").is_none() && project.tracker().len() == 1);
    project.decree(["rollback", &run, "--scope", "app.db"]).ok();
    assert_eq!(rows(&database), 5);
}

/// LDB-02
#[test]
fn a_recorded_change_of_a_database_is_neither_reverted_nor_applied_while_it_is_in_use() {
    let project = Project::new();
    let database = project.path("app.db");
    let mut server = Server::start(&database, "DELETE");
    server.insert(5);
    server.stop();
    let id = id(&create(&project));
    let mut server = Server::start(&database, "DELETE");
    server.insert(5);
    server.stop();
    project.decree(["revert", &id]).ok();
    assert_eq!(rows(&database), 5);
    let mut server = Server::start(&database, "DELETE");
    let words = [&*server.name(), "app.db", "nothing was touched"];
    project.decree(["apply", &id]).fails(1).mentions(&words);
    assert_eq!(server.insert(2), 7);
    server.stop();
    assert_eq!(rows(&database), 7);
}

/// LDB-02: in a container, the program on the host is not in `/proc`; its lock is there all the same.
#[test]
fn a_program_outside_of_the_container_keeps_a_database_from_being_replaced() {
    let inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    if !skip::works(Command::new(inside[0]).args(&inside[1..]).arg("true"), skip::NO_NAMESPACE) {
        return;
    }
    let project = Project::new();
    let database = project.path("app.db");
    let mut server = Server::start(&database, "WAL");
    server.insert(10);
    let id = id(&create(&project));
    server.insert(10);
    let mut command = Command::new(inside[0]);
    command
        .args(&inside[1..])
        .arg(env!("CARGO_BIN_EXE_decree"))
        .args(["rollback", &id])
        .current_dir(project.root());
    run_command(&mut command).fails(1).mentions(&[
        "app.db",
        "a process that is not visible here",
        "nothing was touched",
    ]);
    assert_eq!(server.insert(1), 21);
    server.stop();
    assert_eq!(rows(&database), 21);
}

/// What decree kept of a database in a `set-aside/`.
fn set_aside(project: &Project, below: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![project.path(below)];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else if path.ends_with("set-aside/app.db") {
                found.push(path);
            }
        }
    }
    found
}

/// LDB-07
fn assert_says_that_it_is_written_back(output: &CommandOutput) {
    let words = [
        "after a failure decree writes it back through SQLite",
        "what other programs wrote meanwhile is kept in set-aside/",
    ];
    assert_has(&output.err, &words);
    assert!(!output.err.contains("it is not restored while"), "{}", output.err);
}

/// LDB-03
#[test]
fn a_failed_guard_restores_a_database_in_use_through_sqlite_and_keeps_the_rows() {
    for mode in ["WAL", "DELETE"] {
        let project = Project::new();
        project.write("a.txt", "before\n");
        let database = project.path("app.db");
        let mut server = Server::start(&database, mode);
        server.insert(100);
        let change = "import sqlite3; db = sqlite3.connect('app.db'); db.execute('DELETE FROM t WHERE n < 50'); \
                      db.commit(); open('a.txt', 'w').write('after'); raise SystemExit(7)";
        let output = project.decree(["guard", "--", "python3", "-c", change]).fails(7);
        let program = server.name();
        assert_says_that_it_is_written_back(&output);
        output.mentions(&[
            "app.db is open in",
            &program,
            "its content was restored through SQLite",
            "set-aside/app.db",
        ]);
        assert_eq!(project.read("a.txt"), b"before\n");
        assert_eq!(server.insert(1), 101, "{mode}: the program still has the same database");
        assert_eq!(rows(&database), 101, "{mode}");
        let kept = set_aside(&project, ".decree/checkpoints");
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(rows(&kept[0]), 50, "{mode}: what was there before");
        server.stop();
    }
}

/// LDB-03: the run fails while a program commits rows all the time.
#[test]
fn a_failed_run_is_reverted_while_a_program_writes_to_a_database() {
    let project = PipelineProject::new();
    project.routine("develop", "echo changed > a.txt\nfor i in 1 2 3; do sleep 0.1; done\nexit 3\n");
    project.write("a.txt", "before\n").write("specs/01-x.spec.md", "# X\n");
    let database = project.path("app.db");
    let mut server = Server::start(&database, "WAL");
    server.insert(100);
    let (program, mut total) = (server.name(), 100);
    let output = std::thread::scope(|scope| {
        let decree = scope.spawn(|| project.decree(["process"]));
        while !decree.is_finished() {
            total += 1;
            server.insert(1);
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        decree.join().unwrap()
    });
    let output = output.fails(1);
    assert_eq!(project.read("a.txt"), b"before\n", "{}", output.err);
    assert_says_that_it_is_written_back(&output);
    output.mentions(&[
        "app.db is an SQLite database in use",
        "its content was restored through SQLite",
        &program,
    ]);
    let now = server.insert(1);
    assert!(now >= 101 && now <= total + 1, "{now} of {total}");
    assert_eq!(rows(&database), now, "the program and others see the same database");
    for kept in set_aside(&project, ".decree/runs") {
        assert!(rows(&kept) >= 100);
    }
    server.stop();
}

/// LDB-04: a program was killed, and its ignored `-wal` file is left: it does not belong to the database that comes back.
#[test]
fn an_ignored_journal_is_set_aside_with_the_database_that_it_belongs_to() {
    let project = Project::new();
    project.write(".gitignore", "*-wal\n*-shm\n");
    let database = project.path("app.db");
    let mut server = Server::start(&database, "WAL");
    server.insert(10);
    server.stop();
    let first = id(&create(&project));
    let before = project.read("app.db");
    let mut server = Server::start(&database, "WAL");
    server.insert(5000);
    server.kill();
    assert!(fs::metadata(project.path("app.db-wal")).unwrap().len() > 0);
    let answer = create(&project);
    let reasons = &answer["coverage"]["live_databases"][0]["reasons"];
    assert!(reasons.as_array().unwrap().contains(&"journal-left-out".into()), "{answer}");
    assert!(answer["confidence"].as_f64().unwrap() < 1.0);
    assert_ne!(project.read("app.db"), before, "a part of it is in its own file");
    project.decree(["rollback", &first]).ok().mentions(&["set aside app.db-wal"]);
    assert_eq!(project.read("app.db"), before);
    assert_eq!(rows(&database), 10);
}

/// LDB-01: the files of a database are read one after the other; they belong together all the same.
#[test]
fn a_checkpoint_of_a_database_that_is_written_to_can_be_opened() {
    let project = Project::new();
    let database = project.path("app.db");
    let mut server = Server::start(&database, "WAL");
    let mut last = 0;
    let answer = std::thread::scope(|scope| {
        let created = scope.spawn(|| create(&project));
        while !created.is_finished() {
            last = server.insert(1);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        created.join().unwrap()
    });
    server.stop();
    let reasons = answer["coverage"]["live_databases"][0]["reasons"].as_array().unwrap().clone();
    let is_certain = !reasons.contains(&"changed".into());
    project.decree(["rollback", &id(&answer)]).ok();
    if is_certain {
        let found = rows(&database);
        assert!(found <= last, "{found} of {last}");
    }
}
