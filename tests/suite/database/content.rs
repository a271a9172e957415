//! The hash of what is in a database: the same whenever the content is.

use std::fs;

use decree::database::sqlite;

use super::other::{DatabaseFixture, Other, TABLE, rows};

/// What a database may be like: statements that make it so, before and after there is a journal mode.
const SHAPES: &[(&str, &[&str], &[&str])] = &[
    ("plain", &[], &["INSERT INTO t VALUES (1, 'one'), (2, 'two')"]),
    ("small pages", &["PRAGMA page_size = 512"], &["INSERT INTO t VALUES (1, 'one'), (2, 'two')"]),
    ("large pages", &["PRAGMA page_size = 65536"], &["INSERT INTO t VALUES (1, randomblob(300000))"]),
    ("auto_vacuum", &["PRAGMA auto_vacuum = FULL"], &["INSERT INTO t VALUES (1, randomblob(90000))"]),
    (
        "incremental",
        &["PRAGMA auto_vacuum = INCREMENTAL"],
        &["INSERT INTO t VALUES (1, randomblob(90000))", "DELETE FROM t WHERE id = 1"],
    ),
    ("UTF-16", &["PRAGMA encoding = 'UTF-16le'"], &["INSERT INTO t VALUES (1, 'ä€')"]),
    (
        "free pages",
        &[],
        &["INSERT INTO t VALUES (1, randomblob(900000)), (2, 'x')", "DELETE FROM t WHERE id = 1"],
    ),
    (
        "WITHOUT ROWID",
        &[],
        &[
            "CREATE TABLE w(a TEXT, b, PRIMARY KEY (a, b)) WITHOUT ROWID",
            "INSERT INTO w VALUES ('x', 1), ('y', 2)",
        ],
    ),
    (
        "FTS5",
        &[],
        &["CREATE VIRTUAL TABLE f USING fts5(body)", "INSERT INTO f VALUES ('a fox'), ('a dog and a fox')"],
    ),
    (
        "triggers and views",
        &[],
        &[
            "CREATE TABLE log(what)",
            "CREATE VIEW v AS SELECT count(*) AS n FROM t",
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.what); END",
            "CREATE INDEX i ON t(what) WHERE id > 1",
            "INSERT INTO t VALUES (1, 'one'), (2, 'two')",
        ],
    ),
    (
        "numbers in the header",
        &[],
        &["PRAGMA user_version = 7", "PRAGMA application_id = 4711", "INSERT INTO t VALUES (1, 1.5)"],
    ),
];

/// What may happen to it before it is restored.
const CHANGES: &[(&str, &[&str])] = &[
    ("grown", &["INSERT INTO t VALUES (100, randomblob(200000))", "CREATE TABLE other(x)"]),
    ("shrunk", &["DELETE FROM t", "VACUUM"]),
    ("emptied", &["DROP TABLE t", "PRAGMA user_version = 99"]),
    ("counted on", &["CREATE TABLE a(x)", "DROP TABLE a", "CREATE TABLE a(x)", "DROP TABLE a"]),
];

fn make(place: &DatabaseFixture, before: &[&str], mode: &str, after: &[&str]) {
    let mode = format!("PRAGMA journal_mode = {mode}");
    place.run(&[before, &[TABLE, mode.as_str(), "INSERT INTO t VALUES (50, 'fifty')"], after].concat());
}

#[test]
fn what_is_restored_has_the_hash_that_was_saved_whatever_it_was_and_became() {
    for (number, mode) in ["DELETE", "WAL"].into_iter().enumerate() {
        for (at, (shape, before, after)) in SHAPES.iter().enumerate() {
            let place = DatabaseFixture::new();
            make(&place, before, mode, after);
            let dump = place.dump();
            let saved = place.save("copy");
            assert_eq!(saved.wal, mode == "WAL", "{shape}");
            assert_eq!(place.save("again"), saved, "{shape} {mode}: the same content, the same copy");
            for (which, (change, statements)) in CHANGES.iter().enumerate() {
                // Each change of each shape is made once with the database open elsewhere, and once without.
                let open = (number + at + which) % 2 == 0;
                let what = format!("{shape}, {mode}, {change}, open elsewhere: {open}");
                let mut other = Other::open(&place.live);
                other.run(statements);
                let other = open.then_some(other);
                assert_ne!(place.content(), saved.content, "{what}");
                let restored = place.restore("copy", &saved);
                assert!(!restored.created && restored.wal == saved.wal, "{what}: {restored:?}");
                assert_eq!(place.content(), saved.content, "{what}");
                if let Some(mut other) = other {
                    assert_eq!(other.run(&["PRAGMA integrity_check"]), [["'ok'"]], "{what}");
                }
                assert_eq!(place.dump(), dump, "{what}");
                assert_eq!(place.content(), saved.content, "{what}");
            }
        }
    }
}

#[test]
fn a_database_of_several_megabytes_comes_back() {
    for mode in ["DELETE", "WAL"] {
        let place = DatabaseFixture::new();
        make(&place, &[], mode, &[&rows(8000)]);
        let (saved, dump) = (place.save("copy"), place.dump());
        place.run(&["DELETE FROM t WHERE id % 3 = 0", "VACUUM", "UPDATE t SET what = randomblob(2000)"]);
        place.restore("copy", &saved);
        assert_eq!((place.content(), place.dump()), (saved.content, dump));
    }
}

/// Only SQLite's own counters are left out: everything that can be asked for changes the hash.
#[test]
fn any_change_of_content_changes_the_hash() {
    let place = DatabaseFixture::new();
    place.run(&[TABLE, "INSERT INTO t VALUES (1, 'one')"]);
    let mut seen = vec![place.content()];
    for change in [
        "UPDATE t SET what = 'two'",
        "CREATE INDEX i ON t(what)",
        "PRAGMA user_version = 1",
        "PRAGMA application_id = 1",
        "DROP INDEX i",
        "INSERT INTO t VALUES (2, NULL)",
    ] {
        place.run(&[change]);
        let now = place.content();
        assert!(!seen.contains(&now), "{change}");
        assert_eq!(place.content(), now, "{change}");
        seen.push(now);
    }
}

/// Computes the hash as `docs/format.md` describes it.
#[test]
fn the_hash_can_be_worked_out_by_hand() {
    let place = DatabaseFixture::new();
    place.run(&["PRAGMA journal_mode = WAL", TABLE, "INSERT INTO t VALUES (1, 'one')"]);
    let saved = place.save("copy");
    let mut bytes = fs::read(place.path("copy")).unwrap();
    assert_eq!(decree::ContentHash::of(&bytes), saved.sha256);
    for range in [18..20, 24..28, 40..44, 92..100] {
        bytes[range].fill(0);
    }
    assert_eq!(decree::ContentHash::of(&bytes), saved.content);
    assert_eq!(saved.bytes, bytes.len() as u64);
}

/// The size of pages can only be changed without a `-wal` file.
#[test]
fn a_database_whose_pages_got_another_size_comes_back() {
    for (mode, sizes) in
        [("DELETE", [1024, 8192]), ("DELETE", [8192, 1024]), ("WAL", [1024, 8192]), ("WAL", [8192, 512])]
    {
        let place = DatabaseFixture::new();
        make(&place, &[&format!("PRAGMA page_size = {}", sizes[0])], mode, &[&rows(100)]);
        let (saved, dump) = (place.save("copy"), place.dump());
        place.run(&[
            "PRAGMA journal_mode = DELETE",
            &format!("PRAGMA page_size = {}", sizes[1]),
            "VACUUM",
            &format!("PRAGMA journal_mode = {mode}"),
            "DELETE FROM t",
        ]);
        if mode == "WAL" {
            let mut other = Other::open(&place.live);
            let before = other.run(&["SELECT count(*) FROM t"]);
            let content = place.content();
            let error = sqlite::restore(
                &place.path("copy"),
                &saved,
                &place.live,
                &place.path("aside"),
                Some(content),
            )
            .unwrap_err();
            assert!(error.to_string().ends_with("is open in another program"), "{error}");
            assert!(error.hint_text().is_some());
            assert!(error.detail_lines().iter().any(|line| line.starts_with("open in python3")), "{error:?}");
            assert_eq!((other.run(&["SELECT count(*) FROM t"]), place.content()), (before, content));
        }
        place.restore("copy", &saved);
        assert_eq!((place.content(), place.dump()), (saved.content, dump), "{mode} {sizes:?}");
    }
}

/// The mode is not content, but it is restored if no program has the database open, and otherwise reported.
#[test]
fn the_journal_mode_is_restored_if_no_other_process_has_the_database_open() {
    for (was, is) in [("DELETE", "WAL"), ("WAL", "DELETE")] {
        let place = DatabaseFixture::new();
        make(&place, &[], was, &["INSERT INTO t VALUES (1, 'one')"]);
        let saved = place.save("copy");
        let change = format!("PRAGMA journal_mode = {is}");
        place.run(&[&change, "DELETE FROM t"]);
        assert_eq!(place.restore("copy", &saved).wal, saved.wal);
        assert_eq!(place.run(&["PRAGMA journal_mode"]), [[format!("'{}'", was.to_lowercase())]]);
        assert_eq!(place.content(), saved.content);

        let mut other = Other::open(&place.live);
        other.run(&[&change, "DELETE FROM t", "SELECT * FROM t"]);
        let restored = place.restore("copy", &saved);
        if is == "WAL" {
            assert!(restored.wal, "it cannot be changed under the other");
        }
        assert_eq!(other.run(&["SELECT what FROM t WHERE id = 1"]), [["'one'"]]);
        assert_eq!(place.content(), saved.content);
    }
}

#[test]
fn a_database_with_nothing_in_it_is_one_too() {
    let place = DatabaseFixture::new();
    fs::write(&place.live, "").unwrap();
    let saved = place.save("copy");
    place.run(&[TABLE, &rows(10)]);
    assert_ne!(place.content(), saved.content);
    place.restore("copy", &saved);
    assert_eq!(place.content(), saved.content);
    assert!(place.run(&["SELECT * FROM sqlite_schema"]).is_empty());
}
