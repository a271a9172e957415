//! Databases that other programs use at the same time.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use decree::database::sqlite;

use super::other::{DatabaseFixture, Other, TABLE, rows};

/// Moves amounts from one table to the other until its input ends; in each transaction the sum stays the same.
const MOVER: &str = r#"
import select, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
done = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE a SET n = n - 1 WHERE id = ?", (done % 50,))
    db.execute("INSERT INTO filler VALUES (?)", ("x" * 3000,))
    db.execute("UPDATE b SET n = n + 1 WHERE id = ?", (done % 50,))
    if done % 20 == 0:
        db.execute("DELETE FROM filler")
    db.execute("COMMIT")
    done += 1
    if done == 1:
        print("begun", flush=True)
print(done, flush=True)
"#;

struct Mover(Child, BufReader<std::process::ChildStdout>);

impl Mover {
    fn start(database: &Path) -> Mover {
        let mut child = Command::new("python3")
            .args(["-c", MOVER])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        Mover(child, output)
    }

    /// How many transactions it made; none of them may have failed.
    fn stop(mut self) -> usize {
        drop(self.0.stdin.take());
        let mut rest = String::new();
        self.1.read_to_string(&mut rest).unwrap();
        assert!(self.0.wait().unwrap().success());
        rest.trim().parse().unwrap()
    }
}

fn accounts(mode: &str, megabytes: usize) -> DatabaseFixture {
    let place = DatabaseFixture::new();
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 49)";
    place.run(&[
        &format!("PRAGMA journal_mode = {mode}"),
        "CREATE TABLE a(id INTEGER PRIMARY KEY, n)",
        "CREATE TABLE b(id INTEGER PRIMARY KEY, n)",
        "CREATE TABLE filler(x)",
        TABLE,
        &format!("{numbers} INSERT INTO a SELECT i, 1000 FROM n"),
        &format!("{numbers} INSERT INTO b SELECT i, 1000 FROM n"),
        &rows(megabytes * 1000 + 1),
    ]);
    place
}

#[test]
fn a_copy_made_while_others_write_holds_whole_transactions() {
    for (mode, megabytes) in [("DELETE", 1), ("WAL", 1), ("DELETE", 40)] {
        let place = accounts(mode, megabytes);
        let mover = Mover::start(&place.live);
        let mut contents = Vec::new();
        for number in 0..4 {
            let name = format!("copy{number}");
            contents.push(place.save(&name).content);
            let mut copy = Other::open(&place.path(&name));
            assert_eq!(copy.run(&["PRAGMA integrity_check"]), [["'ok'"]], "{mode}");
            let sum = copy.run(&["SELECT (SELECT sum(n) FROM a) + (SELECT sum(n) FROM b)"]);
            assert_eq!(sum, [["100000"]], "{mode}, {megabytes} MB");
            drop(copy);
            assert!(!place.path(&format!("{name}-wal")).exists(), "a copy is one file");
            fs::remove_file(place.path(&name)).unwrap();
        }
        assert!(mover.stop() > 0);
        contents.dedup();
        assert!(contents.len() > 1, "others wrote in between");
    }
}

/// One that writes without end is not held up by a restore for good, nor the restore by it.
#[test]
fn a_database_is_restored_between_two_transactions_of_another() {
    for mode in ["DELETE", "WAL"] {
        let place = accounts(mode, 1);
        let saved = place.save("copy");
        let mover = Mover::start(&place.live);
        for _ in 0..3 {
            place.restore("copy", &saved);
        }
        assert!(mover.stop() > 0);
        let sum = place.run(&["SELECT (SELECT sum(n) FROM a) + (SELECT sum(n) FROM b)"]);
        assert_eq!(sum, [["100000"]], "{mode}");
        assert_eq!(place.run(&["PRAGMA integrity_check"]), [["'ok'"]]);
        place.restore("copy", &saved);
        assert_eq!(place.content(), saved.content);
    }
}

/// What is only in the `-wal` file yet is saved too, and stays there.
#[test]
fn saving_leaves_the_database_and_what_is_beside_it_as_they_were() {
    let bytes = |place: &DatabaseFixture| -> Vec<(String, Vec<u8>)> {
        let names = place.names().into_iter().filter(|name| !name.ends_with("-shm"));
        names.map(|name| (name.clone(), fs::read(place.path(&name)).unwrap())).collect()
    };
    // No program has it open.
    for mode in ["DELETE", "WAL"] {
        let place = DatabaseFixture::new();
        place.run(&[&format!("PRAGMA journal_mode = {mode}"), TABLE, &rows(50)]);
        let before = (place.names(), bytes(&place));
        assert_eq!(before.0, ["app.db"]);
        let saved = place.save("copy");
        assert_eq!(place.content(), saved.content);
        assert_eq!((place.names(), bytes(&place)), before, "{mode}");
    }
    // A program has it open, and part of it is in the `-wal` file.
    let place = DatabaseFixture::new();
    place.run(&["PRAGMA journal_mode = WAL", TABLE, &rows(50)]);
    let mut other = Other::open(&place.live);
    other.run(&["PRAGMA wal_autocheckpoint = 0", "INSERT INTO t VALUES (1000, 'only in the wal')"]);
    let before = (place.names(), bytes(&place));
    assert_eq!(before.0, ["app.db", "app.db-shm", "app.db-wal"]);
    let saved = place.save("copy");
    assert_eq!((place.names(), bytes(&place)), before);
    let row = Other::open(&place.path("copy")).run(&["SELECT what FROM t WHERE id = 1000"]);
    assert_eq!(row, [["'only in the wal'"]]);
    // It was killed, and its `-wal` file is all that is left; with and without the index of it.
    other.kill();
    for gone in [false, true] {
        if gone {
            fs::remove_file(place.path("app.db-shm")).unwrap();
        }
        let before = (place.names(), bytes(&place));
        assert_eq!(place.content(), saved.content);
        assert_eq!((place.names(), bytes(&place)), before, "the index is gone: {gone}");
    }
    assert_eq!(place.run(&["SELECT what FROM t WHERE id = 1000"]), [["'only in the wal'"]]);
    assert_eq!(place.content(), saved.content);
}

/// The other was killed with half of a transaction in the file, and the other half in the journal.
#[test]
fn what_a_crash_left_half_done_is_not_in_the_copy() {
    let place = DatabaseFixture::new();
    place.run(&[TABLE, &rows(500)]);
    let (saved, dump) = (place.save("copy"), place.dump());
    let mut other = Other::open(&place.live);
    other.run(&["PRAGMA cache_size = 5", "BEGIN", "UPDATE t SET what = 'half' || id"]);
    other.kill();
    assert_eq!(place.names(), ["app.db", "app.db-journal"]);
    assert_eq!(place.save("again").content, saved.content);
    assert_eq!((place.names(), place.dump()), (vec!["app.db".to_owned()], dump.clone()));

    let mut other = Other::open(&place.live);
    other.run(&["PRAGMA cache_size = 5", "BEGIN", "UPDATE t SET what = 'half' || id"]);
    other.kill();
    place.restore("copy", &saved);
    assert_eq!(
        (place.content(), place.names(), place.dump()),
        (saved.content, vec!["app.db".to_owned()], dump)
    );
}

#[test]
fn a_reader_goes_on_seeing_what_it_saw_until_its_transaction_ends() {
    let place = DatabaseFixture::new();
    place.run(&["PRAGMA journal_mode = WAL", TABLE, "INSERT INTO t VALUES (1, 'then')"]);
    let saved = place.save("copy");
    let mut other = Other::open(&place.live);
    other.run(&["UPDATE t SET what = 'now'", "BEGIN", "SELECT * FROM t"]);
    place.restore("copy", &saved);
    assert_eq!(other.run(&["SELECT what FROM t"]), [["'now'"]]);
    assert_eq!(other.run(&["COMMIT", "SELECT what FROM t"]), [["'then'"]]);
    other.run(&["INSERT INTO t VALUES (2, 'after')"]);
    drop(other);
    assert_eq!(place.run(&["SELECT what FROM t"]), [["'then'"], ["'after'"]]);
}

/// Where a scene's process finds the database, in a directory that it may not write in.
const SCENE: &str = "DECREE_TEST_READ_ONLY";

/// Not a test of its own: saves a database as a user who may only read it.
#[test]
fn saves_read_only() {
    let Some(dir) = std::env::var_os(SCENE) else { return };
    let dir = Path::new(&dir);
    assert!(fs::write(dir.join("closed/try"), "").is_err(), "the directory is not closed");
    let saved = sqlite::save(&dir.join("closed/app.db"), &dir.join("copy")).unwrap();
    fs::write(dir.join("copy.json"), serde_json::to_vec(&saved).unwrap()).unwrap();
}

#[test]
fn a_database_is_saved_from_a_directory_that_we_may_not_write_in() {
    for (mode, crashed) in [("DELETE", false), ("WAL", false), ("WAL", true)] {
        let mut place = DatabaseFixture::new();
        let closed = place.path("closed");
        fs::create_dir(&closed).unwrap();
        place.live = closed.join("app.db");
        place.run(&[&format!("PRAGMA journal_mode = {mode}"), TABLE, &rows(50)]);
        let mut other = Other::open(&place.live);
        other.run(&["PRAGMA wal_autocheckpoint = 0", "INSERT INTO t VALUES (1000, 'last')"]);
        if crashed {
            other.kill()
        } else {
            drop(other)
        }
        let content = place.content();
        let names = || fs::read_dir(&closed).unwrap().count();
        let before = names();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
        // Root may write anywhere, unless it gives that up.
        let mut command =
            if rustix::process::geteuid().is_root() { Command::new("setpriv") } else { Command::new("env") };
        if rustix::process::geteuid().is_root() {
            command.arg("--bounding-set=-dac_override,-dac_read_search");
        }
        let done = command
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "database::in_use::saves_read_only", "--test-threads=1"])
            .env(SCENE, place.dir.path())
            .output()
            .unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
        let output = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{mode}, crashed: {crashed}: {output}");
        let saved: sqlite::DatabaseCopy =
            serde_json::from_slice(&fs::read(place.path("copy.json")).unwrap()).unwrap();
        assert_eq!((saved.content, names()), (content, before), "{mode}, crashed: {crashed}");
    }
}

/// An application may bring functions, collations and kinds of tables along, which SQLite does not have here.
#[test]
fn a_database_that_relies_on_its_application_is_saved_and_what_could_not_be_checked_is_reported() {
    let place = DatabaseFixture::new();
    let script = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.create_collation("mine", lambda a, b: (a > b) - (a < b))
db.create_function("f", 1, lambda x: x, deterministic=True)
db.execute("CREATE TABLE strange(a TEXT COLLATE mine, b CHECK (f(b) > 0))")
db.execute("CREATE INDEX i ON strange(a)")
db.execute("CREATE INDEX j ON strange(f(b))")
db.execute("INSERT INTO strange VALUES ('x', 1), ('y', 2)")
db.execute("CREATE TABLE plain(x)")
db.execute("CREATE VIRTUAL TABLE v USING fts5(x)")
db.execute("PRAGMA writable_schema = ON")
db.execute("UPDATE sqlite_schema SET sql = 'CREATE VIRTUAL TABLE v USING unheard_of(x)' WHERE name = 'v'")
"#;
    let status = Command::new("python3").args(["-c", script]).arg(&place.live).status().unwrap();
    assert!(status.success());
    let saved = place.save("copy");
    assert_eq!(saved.unchecked, ["strange"]);
    place.run(&["INSERT INTO plain VALUES (1)"]);
    place.restore("copy", &saved);
    assert_eq!(place.content(), saved.content);
    let text = serde_json::to_string(&saved).unwrap();
    assert_eq!(serde_json::from_str::<sqlite::DatabaseCopy>(&text).unwrap(), saved);
}
