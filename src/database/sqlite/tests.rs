//! What takes a shorter wait than people get.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::restore::{LastWrites, restore_within};
use super::*;

const SHORT: Duration = Duration::from_millis(200);

/// Another program that carries out some statements and then waits.
struct Other(Child);

impl Other {
    fn after(database: &Path, statements: &str) -> Other {
        let script = "import sqlite3, sys\n\
            db = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
            for statement in sys.argv[2].split(';'): db.execute(statement).fetchall()\n\
            print('done', flush=True)\n\
            sys.stdin.read()";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .arg(database)
            .arg(statements)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "done\n", "{statements}");
        Other(child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.stdin.take().map(|mut input| input.flush());
        self.0.wait().unwrap();
    }
}

fn database(dir: &Path, mode: &str) -> PathBuf {
    let live = dir.join("app.db");
    drop(Other::after(
        &live,
        &format!("PRAGMA journal_mode = {mode}; CREATE TABLE t(x); INSERT INTO t VALUES (1)"),
    ));
    live
}

#[track_caller]
fn assert_locked(error: &Error) {
    let text = error.to_string();
    assert!(text.ends_with("app.db is locked by another program: waited for 0.2s"), "{text}");
    assert!(
        error.detail_lines().iter().any(|line| line.starts_with("locked by python3 (process ")),
        "{error:?}"
    );
    assert!(error.hint_text().is_some());
}

#[test]
fn a_database_that_others_keep_locked_is_not_waited_for_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let live = database(dir.path(), "DELETE");
    let copy = dir.path().join("copy");
    let other = Other::after(&live, "BEGIN EXCLUSIVE; INSERT INTO t VALUES (2)");
    assert_locked(&save_within(&live, &copy, SHORT).unwrap_err());
    assert!(!copy.exists());
    drop(other);
    save_within(&live, &copy, SHORT).unwrap();
}

#[test]
fn a_restore_that_does_not_get_the_lock_changes_nothing() {
    for (mode, statements) in [
        ("DELETE", "BEGIN IMMEDIATE; INSERT INTO t VALUES (3)"),
        ("DELETE", "BEGIN; SELECT * FROM t"),
        ("WAL", "BEGIN IMMEDIATE; INSERT INTO t VALUES (3)"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (live, copy, aside) =
            (database(dir.path(), mode), dir.path().join("copy"), dir.path().join("aside"));
        let saved = save(&live, &copy).unwrap();
        drop(Other::after(&live, "INSERT INTO t VALUES (2)"));
        let now = content_now(&live, dir.path()).unwrap();
        let last = LastWrites { set_aside: &aside, saved: now };
        let other = Other::after(&live, statements);
        assert_locked(&restore_within(&copy, &saved, &live, last, SHORT).unwrap_err());
        assert!(!aside.exists());
        drop(other);
        assert_eq!(content_now(&live, dir.path()).unwrap(), now, "{mode}: {statements}");
        restore_within(&copy, &saved, &live, last, SHORT).unwrap();
        assert_eq!(content_now(&live, dir.path()).unwrap(), Some(saved.content));
    }
}
