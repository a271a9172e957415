//! Databases.

use std::fs;
use std::process::{Command, Stdio};

use super::scene::{dump, parsed, sql};
use crate::harness::{wait_for, wait_until};
use crate::pipeline::workshop::Workshop;

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
    let shop = Workshop::new();
    let mut bank = Command::new("python3")
        .args(["-c", BANK])
        .args([shop.path("app.db"), shop.path("begun")])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&shop.path("begun"));
    let mut ids = Vec::new();
    for _ in 0..8 {
        let args = ["checkpoint", "create", "--type", "database_savepoint", "--scope", "app.db"];
        ids.push(shop.decree(args).ok().line());
    }
    assert!(bank.try_wait().unwrap().is_none(), "it wrote all the time");
    bank.kill().unwrap();
    bank.wait().unwrap();
    for id in &ids {
        let copy = shop.path(format!(".decree/checkpoints/{id}/databases/0"));
        assert!(!shop.exists(format!(".decree/checkpoints/{id}/databases/0-wal")), "it is one file");
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
        let shop = Workshop::new();
        shop.mkdir("data");
        sql(&shop, "data/app.db", "CREATE TABLE t (a); INSERT INTO t VALUES (1)");
        shop.chmod("data/app.db", 0o640);
        let before = dump(&shop, "data/app.db");
        let args = ["checkpoint", "create", "--type", "database_savepoint", "--scope", "data/app.db"];
        let id = shop.decree(args).ok().line();
        Command::new("bash").args(["-c", harm]).current_dir(shop.root()).status().unwrap();
        let spoiled = fs::read(shop.path("data/app.db")).ok();
        let back = shop.decree(["rollback", &id, "--format", "json"]).ok();
        assert_eq!(dump(&shop, "data/app.db"), before, "{harm}");
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(shop.path("data/app.db")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o640, "{harm}");
        // And what was there instead can be had again.
        if let Some(present) = parsed("json", &back.out)["saved_present_as"].as_str() {
            shop.decree(["rollback", present]).ok();
            assert_eq!(fs::read(shop.path("data/app.db")).ok(), spoiled, "{harm}");
        }
    }
}

/// DBS-03.
#[test]
fn what_is_no_database_of_the_project_is_refused() {
    let shop = Workshop::new();
    shop.write("notes.db", "no database\n").link("link.db", "/etc/hosts").link("away", "/tmp");
    let create = |scope: &[&str]| {
        let words = scope.iter().flat_map(|word| ["--scope", word]);
        shop.decree(["checkpoint", "create", "--type", "database_savepoint"].into_iter().chain(words))
    };
    create(&[]).fails(2).mentions(&["which database?", "--scope"]);
    create(&["/etc/hosts"]).fails(2).mentions(&["not in the project"]);
    create(&["../x.db"]).fails(2).mentions(&["not in the project"]);
    create(&[".decree/lock"]).fails(2).mentions(&["decree's own"]);
    create(&["missing.db"]).fails(1).mentions(&["no database at"]);
    create(&["notes.db"]).fails(1);
    create(&["link.db"]).fails(1).mentions(&["is a link"]);
    create(&["away/x.db"]).fails(1).mentions(&["is a link"]);
    assert!(shop.names(".decree/checkpoints").is_empty());
}

/// DBS-04.
#[test]
fn the_commands_of_another_database_are_run_and_checked() {
    let shop = Workshop::new();
    let config = |save: &str, restore: &str| {
        shop.config(&format!("databases:\n  main:\n    save: '{save}'\n    restore: '{restore}'\n"));
    };
    let create = ["checkpoint", "create", "--type", "database_savepoint"];
    shop.write("rows", "one\n");
    for (save, why) in [
        ("echo no connection >&2; exit 3", "no connection"),
        ("true", "main"),
        (": >\"$DECREE_FILE\"", "main"),
    ] {
        config(save, "true");
        shop.decree(create).fails(1).mentions(&[why]);
        assert!(shop.names(".decree/checkpoints").is_empty(), "{save}");
    }
    config("cat rows >\"$DECREE_FILE\"", "cat \"$DECREE_FILE\" >rows");
    let id = shop.decree(create).ok().line();
    shop.write("rows", "two\n");
    // One that does not do what it says is found out.
    config("cat rows >\"$DECREE_FILE\"", "echo three >rows");
    shop.decree(["rollback", &id]).fails(4).mentions(&["is not what", "decree rollback chk_"]);
    config("cat rows >\"$DECREE_FILE\"", "echo broken >&2; exit 9");
    shop.decree(["rollback", &id]).fails(1).mentions(&["broken"]);
    config("cat rows >\"$DECREE_FILE\"", "cat \"$DECREE_FILE\" >rows");
    shop.decree(["rollback", &id]).ok();
    assert_eq!(shop.text("rows"), "one\n");
    config("sleep 60; cat rows >\"$DECREE_FILE\"", "true");
    let mut child = shop.command().args(create).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("it has begun", || {
        shop.names(".decree/checkpoints").iter().any(|name| name.starts_with("tmp-"))
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!shop.names(".decree/checkpoints").iter().any(|name| name.starts_with("tmp-")));
}
