//! Restoring a database whose file is missing, or is not a database.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use decree::database::sqlite::{self, is_not_a_database};

use super::other::{DatabaseFixture, Other, TABLE, rows};

fn mode_of(place: &DatabaseFixture) -> u32 {
    fs::metadata(&place.live).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_missing_database_is_created_with_its_directories_and_its_mode() {
    for mode in ["DELETE", "WAL"] {
        let mut place = DatabaseFixture::new();
        place.live = place.path("var/data/app.db");
        fs::create_dir_all(place.path("var/data")).unwrap();
        place.run(&[&format!("PRAGMA journal_mode = {mode}"), TABLE, &rows(20)]);
        fs::set_permissions(&place.live, fs::Permissions::from_mode(0o640)).unwrap();
        let (saved, dump) = (place.save("copy"), place.dump());
        assert_eq!(saved.mode, 0o640);
        fs::remove_dir_all(place.path("var")).unwrap();
        assert_eq!(sqlite::content_now(&place.live, &place.path("scratch")).unwrap(), None);
        let restored = place.restore("copy", &saved);
        assert!(restored.created && restored.set_aside.is_empty(), "{restored:?}");
        assert_eq!((place.content(), place.dump(), mode_of(&place)), (saved.content, dump, 0o640), "{mode}");
        // One that is there keeps the mode that it has.
        fs::set_permissions(&place.live, fs::Permissions::from_mode(0o600)).unwrap();
        place.restore("copy", &saved);
        assert_eq!(mode_of(&place), 0o600);
    }
}

/// SQLite would play it into the new file.
#[test]
fn a_journal_without_its_database_is_moved_away_first() {
    for mode in ["DELETE", "WAL"] {
        let place = DatabaseFixture::new();
        place.run(&[&format!("PRAGMA journal_mode = {mode}"), TABLE, &rows(500)]);
        let (saved, dump) = (place.save("copy"), place.dump());
        let mut other = Other::open(&place.live);
        other.run(&[
            "PRAGMA cache_size = 5",
            "PRAGMA wal_autocheckpoint = 0",
            "UPDATE t SET what = 'old' || id",
        ]);
        other.run(&["BEGIN", "UPDATE t SET what = 'half' || id"]);
        other.kill();
        fs::remove_file(&place.live).unwrap();
        let orphans = place.names();
        assert!(!orphans.is_empty(), "{mode}");
        let restored = place.restore("copy", &saved);
        assert!(restored.created);
        let aside: Vec<_> = orphans.iter().map(|name| place.path("aside").join(name)).collect();
        let mut moved = restored.set_aside.clone();
        moved.sort();
        assert_eq!(moved, aside, "{mode}");
        assert!(aside.iter().all(|path| path.exists()));
        assert_eq!((place.content(), place.dump()), (saved.content, dump), "{mode}");
    }
}

#[test]
fn what_is_no_database_is_moved_away_and_kept() {
    let place = DatabaseFixture::new();
    place.run(&[TABLE, &rows(200)]);
    let (saved, dump) = (place.save("copy"), place.dump());
    let whole = fs::read(&place.live).unwrap();
    let noise: Vec<u8> = (0..8192u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let header = [b"SQLite format 3\0".as_slice(), &noise[..4080]].concat();
    for (number, garbage) in [b"just text\n".to_vec(), noise, whole[..whole.len() / 2 + 100].to_vec(), header]
        .into_iter()
        .enumerate()
    {
        fs::write(&place.live, &garbage).unwrap();
        let error = sqlite::content_now(&place.live, &place.path("scratch")).unwrap_err();
        assert!(is_not_a_database(&error), "{number}: {error}");
        let error = sqlite::save(&place.live, &place.path("none")).unwrap_err();
        assert!(is_not_a_database(&error), "{number}: {error}");
        assert!(!place.path("none").exists());
        assert_eq!(fs::read(&place.live).unwrap(), garbage);
        let restored = place.restore("copy", &saved);
        assert!(restored.created, "{number}");
        assert_eq!(fs::read(&restored.set_aside[0]).unwrap(), garbage, "{number}");
        assert_eq!((place.content(), place.dump()), (saved.content, dump.clone()), "{number}");
    }
    assert_eq!(fs::read_dir(place.path("aside")).unwrap().count(), 4, "none replaces another");
    assert_eq!(fs::read_dir(place.path("scratch")).unwrap().count(), 0);
    assert_eq!(place.names(), ["app.db"]);
}

#[test]
fn links_and_directories_are_refused() {
    let place = DatabaseFixture::new();
    place.run(&[TABLE]);
    let saved = place.save("copy");
    let link = place.path("link.db");
    symlink(&place.live, &link).unwrap();
    let directory = place.path("directory.db");
    fs::create_dir(&directory).unwrap();
    for path in [&link, &directory] {
        let error = sqlite::save(path, &place.path("none")).unwrap_err();
        assert!(!is_not_a_database(&error), "{error}");
        sqlite::content_now(path, &place.path("scratch")).unwrap_err();
        sqlite::restore(&place.path("copy"), &saved, path, &place.path("aside"), None).unwrap_err();
    }
    assert!(
        link.is_symlink()
            && directory.is_dir()
            && !place.path("none").exists()
            && !place.path("aside").exists()
    );
    // A directory above it may be one.
    symlink(place.dir.path(), place.path("way")).unwrap();
    let (live, again) = (place.path("way/app.db"), place.path("way/again"));
    assert_eq!(sqlite::save(&live, &again).unwrap(), saved);
    sqlite::check(&again, &saved).unwrap();
    let inode = place.live.metadata().unwrap().ino();
    sqlite::restore(&again, &saved, &live, &place.path("aside"), Some(saved.content)).unwrap();
    assert_eq!(place.live.metadata().unwrap().ino(), inode, "it is not created again");
}

#[test]
fn nothing_is_overwritten_and_nothing_damaged_is_restored() {
    let place = DatabaseFixture::new();
    place.run(&[TABLE, &rows(50)]);
    let saved = place.save("copy");
    let error = sqlite::save(&place.live, &place.path("copy")).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::AlreadyExists));
    sqlite::check(&place.path("copy"), &saved).unwrap();

    place.run(&["DELETE FROM t"]);
    let now = place.content();
    let mut bytes = fs::read(place.path("copy")).unwrap();
    bytes[9000] ^= 1;
    fs::write(place.path("copy"), &bytes).unwrap();
    for copy in ["copy", "missing"] {
        let copy = place.path(copy);
        assert_eq!(sqlite::check(&copy, &saved).unwrap_err().kind().exit_code(), 4);
        let error = sqlite::restore(&copy, &saved, &place.live, &place.path("aside"), Some(now)).unwrap_err();
        assert_eq!(error.kind().exit_code(), 4, "{error}");
    }
    assert_eq!(place.content(), now);
}

/// A copy that SQLite finds fault with is none.
#[test]
fn a_database_with_damage_inside_is_not_saved() {
    let place = DatabaseFixture::new();
    place.run(&[
        "CREATE TABLE t(a, b)",
        "CREATE INDEX i ON t(a)",
        "INSERT INTO t VALUES (1, 2), (3, 4), (5, 6)",
    ]);
    let mut bytes = fs::read(&place.live).unwrap();
    // The number of cells on the index's page: one less than there are.
    bytes[2 * 4096 + 4] -= 1;
    fs::write(&place.live, &bytes).unwrap();
    let error = sqlite::save(&place.live, &place.path("copy")).unwrap_err();
    assert_eq!(error.kind().exit_code(), 4, "{error}");
    assert!(error.detail_lines().iter().any(|line| line.contains("wrong # of entries")), "{error:?}");
    assert!(!place.path("copy").exists());
    assert_eq!(fs::read(&place.live).unwrap(), bytes);
}
