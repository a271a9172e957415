//! Another program that uses an SQLite database: Python's own SQLite, in a process of its own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use decree::database::sqlite::{self, DatabaseCopy};

/// Carries out one JSON line after the other: a list of statements, all in one transaction or each on its own.
const PROGRAM: &str = r#"
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
for line in sys.stdin:
    try:
        rows = []
        for statement in json.loads(line):
            rows = db.execute(statement).fetchall()
        print(json.dumps({"rows": [[repr(cell) for cell in row] for row in rows]}), flush=True)
    except Exception as error:
        print(json.dumps({"error": str(error)}), flush=True)
"#;

/// A program that has a database open until it is dropped.
pub struct Other {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Other {
    pub fn open(database: &Path) -> Other {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Other { child, input, output }
    }

    /// Carries out statements; what the last one answers.
    #[track_caller]
    pub fn run(&mut self, statements: &[&str]) -> Vec<Vec<String>> {
        self.ask(statements).unwrap_or_else(|error| panic!("{statements:?}: {error}"))
    }

    pub fn ask(&mut self, statements: &[&str]) -> Result<Vec<Vec<String>>, String> {
        let mut line = serde_json::to_vec(statements).unwrap();
        line.push(b'\n');
        self.input.as_mut().unwrap().write_all(&line).unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        match answer.get("error") {
            Some(error) => Err(error.as_str().unwrap().to_owned()),
            None => Ok(serde_json::from_value(answer["rows"].clone()).unwrap()),
        }
    }

    /// Kills it, whatever it is in the middle of.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

/// What a restore did, as the files show it.
#[derive(Debug)]
pub struct Restored {
    /// Whether the file is another one than before.
    pub created: bool,
    /// Whether the file's header announces a `-wal` file.
    pub wal: bool,
    pub set_aside: Vec<PathBuf>,
}

/// A directory with a database, copies, and what is set aside.
pub struct DatabaseFixture {
    pub dir: tempfile::TempDir,
    pub live: PathBuf,
}

impl DatabaseFixture {
    pub fn new() -> DatabaseFixture {
        let dir = tempfile::tempdir().unwrap();
        let live = dir.path().join("app.db");
        DatabaseFixture { dir, live }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Carries out statements in a program of their own, which then ends.
    #[track_caller]
    pub fn run(&self, statements: &[&str]) -> Vec<Vec<String>> {
        Other::open(&self.live).run(statements)
    }

    #[track_caller]
    pub fn save(&self, name: &str) -> DatabaseCopy {
        let copy = sqlite::save(&self.live, &self.path(name)).unwrap();
        sqlite::check(&self.path(name), &copy).unwrap();
        copy
    }

    /// Restores a copy as a rollback does, which has saved the present content before.
    #[track_caller]
    pub fn restore(&self, name: &str, copy: &DatabaseCopy) -> Restored {
        let inode = || self.live.metadata().ok().map(|found| found.ino());
        let before = inode();
        let saved = sqlite::content_now(&self.live, &self.path("scratch")).ok().flatten();
        let set_aside =
            sqlite::restore(&self.path(name), copy, &self.live, &self.path("aside"), saved).unwrap();
        let mut header = [0; 20];
        let wal = File::open(&self.live).unwrap().read_exact(&mut header).is_ok() && header[18..] == [2, 2];
        Restored { created: inode() != before, wal, set_aside }
    }

    #[track_caller]
    pub fn content(&self) -> decree::ContentHash {
        sqlite::content_now(&self.live, &self.path("scratch")).unwrap().unwrap()
    }

    /// Everything in the database, as another program sees it.
    #[track_caller]
    pub fn dump(&self) -> Vec<Vec<String>> {
        let mut other = Other::open(&self.live);
        assert_eq!(other.run(&["PRAGMA integrity_check"]), [["'ok'"]]);
        let mut all = other.run(&["SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2"]);
        let tables = other.run(&["SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1"]);
        for table in tables {
            all.extend(
                other.run(&[&format!("SELECT * FROM \"{}\" ORDER BY 1", table[0].trim_matches('\''))]),
            );
        }
        for pragma in
            ["user_version", "application_id", "page_size", "auto_vacuum", "encoding", "journal_mode"]
        {
            all.extend(other.run(&[&format!("PRAGMA {pragma}")]));
        }
        all
    }

    /// The names in the directory, but for copies.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.starts_with("app.db") || name.starts_with("tmp-"));
        names.sort();
        names
    }
}

/// A table with so many rows of 1000 bytes each.
pub fn rows(count: usize) -> String {
    format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
         INSERT INTO t SELECT NULL, randomblob(1000) FROM n"
    )
}

pub const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, what BLOB)";
