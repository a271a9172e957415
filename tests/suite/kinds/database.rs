//! `database_savepoint`: databases.

use std::fs;
use std::process::{Command, Stdio};

use super::scene::{dump, parsed, sql};
use crate::harness::{wait_for, wait_until};
use crate::pipeline::pipeline_project::PipelineProject;

/// Moves money between two accounts for ever; the sum stays the same in every transaction.
const BANK: &str = "
import sqlite3, sys, random
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
db.execute('pragma journal_mode=wal')
db.execute('create table if not exists a (n)'); db.execute('create table if not exists b (n)')
db.execute('begin'); db.execute('insert into a select 500 where not exists (select 1 from a)')
db.execute('insert into b select 500 where not exists (select 1 from b)'); db.execute('commit')
open(sys.argv[2], 'w').write('x')
while True:
    n = random.randint(-9, 9)
    db.execute('begin immediate'); db.execute('update a set n = n + ?', (n,))
    db.execute('update b set n = n - ?', (n,)); db.execute('commit')
";

/// DBS-01.
#[test]
fn a_database_is_saved_whole_while_another_process_writes() {
    let project = PipelineProject::new();
    let mut bank = Command::new("python3")
        .args(["-c", BANK])
        .args([project.path("app.db"), project.path("begun")])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&project.path("begun"));
    let mut ids = Vec::new();
    for _ in 0..8 {
        let args = ["checkpoint", "create", "--type", "database_savepoint", "--scope", "app.db"];
        ids.push(project.decree(args).ok().line());
    }
    assert!(bank.try_wait().unwrap().is_none(), "it wrote all the time");
    bank.kill().unwrap();
    bank.wait().unwrap();
    for id in &ids {
        let copy = project.path(format!(".decree/checkpoints/{id}/databases/0"));
        assert!(!project.exists(format!(".decree/checkpoints/{id}/databases/0-wal")), "it is one file");
        let copy = rusqlite::Connection::open(copy).unwrap();
        let one = |sql: &str| copy.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
        assert_eq!(one("pragma integrity_check"), "ok".to_owned().into());
        assert_eq!(one("select (select n from a) + (select n from b)"), 1000.into());
    }
}

/// DBS-02.
#[test]
fn a_database_that_is_gone_or_no_database_any_more_comes_back() {
    for harm in [
        "rm -rf data",
        "echo garbage >data/app.db",
        "truncate -s 100 data/app.db",
        "echo x >data/app.db-journal",
    ] {
        let project = PipelineProject::new();
        project.mkdir("data");
        sql(&project, "data/app.db", "CREATE TABLE t (a); INSERT INTO t VALUES (1)");
        project.chmod("data/app.db", 0o640);
        let before = dump(&project, "data/app.db");
        let args = ["checkpoint", "create", "--type", "database_savepoint", "--scope", "data/app.db"];
        let id = project.decree(args).ok().line();
        Command::new("bash").args(["-c", harm]).current_dir(project.root()).status().unwrap();
        let spoiled = fs::read(project.path("data/app.db")).ok();
        let back = project.decree(["rollback", &id, "--format", "json"]).ok();
        assert_eq!(dump(&project, "data/app.db"), before, "{harm}");
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(project.path("data/app.db")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o640, "{harm}");
        // And what was there instead can be had again.
        if let Some(present) = parsed("json", &back.out)["saved_present_as"].as_str() {
            project.decree(["rollback", present]).ok();
            assert_eq!(fs::read(project.path("data/app.db")).ok(), spoiled, "{harm}");
        }
    }
}

/// DBS-03.
#[test]
fn what_is_no_database_of_the_project_is_refused() {
    let project = PipelineProject::new();
    project.write("notes.db", "no database\n").link("link.db", "/etc/hosts").link("away", "/tmp");
    let create = |scope: &[&str]| {
        let words = scope.iter().flat_map(|word| ["--scope", word]);
        project.decree(["checkpoint", "create", "--type", "database_savepoint"].into_iter().chain(words))
    };
    create(&[]).fails(2).mentions(&["no database is named", "--scope"]);
    create(&["/etc/hosts"]).fails(2).mentions(&["not in the project"]);
    create(&["../x.db"]).fails(2).mentions(&["not in the project"]);
    create(&[".decree/lock"]).fails(2).mentions(&["decree's own"]);
    create(&["missing.db"]).fails(1).mentions(&["no database at"]);
    create(&["notes.db"]).fails(1);
    create(&["link.db"]).fails(1).mentions(&["is a link"]);
    create(&["away/x.db"]).fails(1).mentions(&["is a link"]);
    assert!(project.names(".decree/checkpoints").is_empty());
}

/// DBS-04.
#[test]
fn the_commands_of_another_database_are_run_and_checked() {
    let project = PipelineProject::new();
    let config = |save: &str, restore: &str| {
        project.config(&format!("databases:\n  main:\n    save: '{save}'\n    restore: '{restore}'\n"));
    };
    let create = ["checkpoint", "create", "--type", "database_savepoint"];
    project.write("rows", "one\n");
    for (save, why) in [
        ("echo no connection >&2; exit 3", "no connection"),
        ("true", "main"),
        (": >\"$DECREE_FILE\"", "main"),
    ] {
        config(save, "true");
        project.decree(create).fails(1).mentions(&[why]);
        assert!(project.names(".decree/checkpoints").is_empty(), "{save}");
    }
    config("cat rows >\"$DECREE_FILE\"", "cat \"$DECREE_FILE\" >rows");
    let id = project.decree(create).ok().line();
    project.write("rows", "two\n");
    // One that does not do what it says is found out.
    config("cat rows >\"$DECREE_FILE\"", "echo three >rows");
    project.decree(["rollback", &id]).fails(4).mentions(&["does not match", "decree rollback chk_"]);
    config("cat rows >\"$DECREE_FILE\"", "echo broken >&2; exit 9");
    project.decree(["rollback", &id]).fails(1).mentions(&["broken"]);
    config("cat rows >\"$DECREE_FILE\"", "cat \"$DECREE_FILE\" >rows");
    project.decree(["rollback", &id]).ok();
    assert_eq!(project.text("rows"), "one\n");
    config("sleep 60; cat rows >\"$DECREE_FILE\"", "true");
    let mut child =
        project.command().args(create).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("it has begun", || {
        project.names(".decree/checkpoints").iter().any(|name| name.starts_with("tmp-"))
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!project.names(".decree/checkpoints").iter().any(|name| name.starts_with("tmp-")));
}

/// DBS-05.
#[test]
fn what_is_committed_until_the_last_moment_is_in_the_database_or_saved() {
    for mode in ["wal", "delete"] {
        let project = PipelineProject::new();
        sql(
            &project,
            "app.db",
            &format!("PRAGMA journal_mode={mode}; CREATE TABLE t (n INTEGER PRIMARY KEY, x)"),
        );
        sql(
            &project,
            "app.db",
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < 2000) INSERT INTO t SELECT n, hex(randomblob(2000)) FROM c",
        );
        let args = ["checkpoint", "create", "--type", "database_savepoint", "--scope", "app.db"];
        let id = project.decree(args).ok().line();
        let writer = "import sqlite3, sys, time\ndb = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)\nopen(sys.argv[2], 'w').write('x')\nn = 10000\nwhile True:\n    db.execute('insert or ignore into t values (?, 1)', (n,)); print(n, flush=True); n += 1; time.sleep(0.002)";
        let log = project.path("committed");
        let mut child = Command::new("python3")
            .args(["-c", writer])
            .args([project.path("app.db"), project.path("begun")])
            .stdout(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        wait_for(&project.path("begun"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        let code = project.decree(["rollback", &id]).code;
        assert!(code == 0 || code == 4, "{mode}: {code}");
        child.kill().unwrap();
        child.wait().unwrap();
        let committed: Vec<i64> =
            fs::read_to_string(&log).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        let found = Command::new("find")
            .args(["app.db", ".decree/checkpoints", "-type", "f"])
            .current_dir(project.root())
            .output()
            .unwrap();
        let mut rows = std::collections::BTreeSet::new();
        for file in String::from_utf8(found.stdout).unwrap().lines() {
            let Ok(db) = rusqlite::Connection::open(project.path(file)) else { continue };
            let Ok(mut query) = db.prepare("select n from t where n >= 10000") else { continue };
            rows.extend(query.query_map([], |row| row.get::<_, i64>(0)).unwrap().flatten());
        }
        let lost: Vec<&i64> = committed.iter().filter(|n| !rows.contains(n)).collect();
        assert!(lost.is_empty(), "{mode}: {} of {} are nowhere: {lost:?}", lost.len(), committed.len());
    }
}

/// DBS-02.
#[test]
fn a_database_with_damaged_pages_comes_back_and_its_bytes_are_kept() {
    let project = PipelineProject::new();
    sql(&project, "app.db", "CREATE TABLE t (n INTEGER PRIMARY KEY, x)");
    sql(
        &project,
        "app.db",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < 500) INSERT INTO t SELECT n, hex(randomblob(500)) FROM c",
    );
    let before = dump(&project, "app.db");
    let args = ["checkpoint", "create", "--type", "database_savepoint", "--scope", "app.db"];
    let id = project.decree(args).ok().line();
    let mut bytes = project.read("app.db");
    for page in 9..12 {
        bytes[page * 4096..(page + 1) * 4096].fill(0x5a);
    }
    project.write("app.db", &bytes);
    let back = project.decree(["rollback", &id, "--format", "json"]).ok();
    assert_eq!(dump(&project, "app.db"), before);
    let present = parsed("json", &back.out)["saved_present_as"].as_str().unwrap().to_owned();
    assert_eq!(project.read(format!(".decree/checkpoints/{present}/databases/0")), bytes);
}

/// No journal outlives a kill, so the entry is there before the database is touched.
#[test]
fn a_rollback_is_in_the_audit_trail_before_it_restores_a_database() {
    let project = PipelineProject::new();
    project.write("rows", "one\n");
    project.config(
        "databases:\n  main:\n    save: 'cp rows \"$DECREE_FILE\"'\n    restore: 'cp .decree/audit.jsonl seen; cp \"$DECREE_FILE\" rows'\n",
    );
    let create = ["checkpoint", "create", "--type", "database_savepoint"];
    let id = project.decree(create).ok().line();
    project.write("rows", "two\n");
    project.decree(["rollback", &id]).ok();
    assert_eq!(project.read("rows"), b"one\n");
    let trail = project.read(".decree/audit.jsonl");
    assert_eq!(project.read("seen"), trail);
    assert_eq!(trail.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(String::from_utf8(trail).unwrap().contains(&id));
}
