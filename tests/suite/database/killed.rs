//! A restore that is killed at any moment is complete or did not happen.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use decree::database::sqlite::{self, DatabaseCopy};

use super::other::{DatabaseFixture, TABLE, rows};

/// Set for the process that is killed: where.
const SCENE: &str = "DECREE_TEST_RESTORES";

/// Not a test of its own: restores one copy after the other until it is killed.
#[test]
fn restores_without_end() {
    let Some(dir) = std::env::var_os(SCENE) else { return };
    let dir = Path::new(&dir);
    let copy =
        |name: &str| -> DatabaseCopy { serde_json::from_slice(&fs::read(dir.join(name)).unwrap()).unwrap() };
    let (one, two) = (copy("one.json"), copy("two.json"));
    fs::write(dir.join("begun"), "").unwrap();
    for (name, copy, other) in [("one", &one, &two), ("two", &two, &one)].into_iter().cycle() {
        let saved = Some(other.content);
        sqlite::restore(&dir.join(name), copy, &dir.join("app.db"), &dir.join("aside"), saved).unwrap();
    }
}

#[test]
fn a_restore_that_is_killed_leaves_the_one_content_or_the_other() {
    for mode in ["DELETE", "WAL"] {
        let place = DatabaseFixture::new();
        place.run(&[&format!("PRAGMA journal_mode = {mode}"), TABLE, &rows(6000)]);
        let one = place.save("one");
        place.run(&[
            "DELETE FROM t WHERE id % 2",
            "VACUUM",
            "CREATE TABLE other(x)",
            "UPDATE t SET what = randomblob(1500)",
        ]);
        let two = place.save("two");
        for (name, copy) in [("one.json", &one), ("two.json", &two)] {
            fs::write(place.path(name), serde_json::to_vec(copy).unwrap()).unwrap();
        }
        let inode = || place.live.metadata().unwrap().ino();
        let (mut cut_off, first) = (0, inode());
        let mut round = 0u64;
        // On a loaded machine none of the first may be killed in the middle.
        while round < 16 || (cut_off == 0 && round < 300) {
            round += 1;
            let _ = fs::remove_file(place.path("begun"));
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "database::killed::restores_without_end", "--test-threads=1"])
                .env(SCENE, place.dir.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            while !place.path("begun").exists() {
                assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
                sleep(Duration::from_millis(1));
            }
            sleep(Duration::from_millis(round * 11 % 97));
            child.kill().unwrap();
            child.wait().unwrap();
            cut_off += usize::from(place.names().len() > 1);
            let now = place.content();
            assert!([one.content, two.content].contains(&now), "{mode}, round {round}");
            assert_eq!(place.run(&["PRAGMA integrity_check"]), [["'ok'"]]);
            assert_eq!(place.content(), now);
        }
        assert!(cut_off > 0, "{mode}: none was killed in the middle");
        place.restore("one", &one);
        assert_eq!(place.content(), one.content);
        assert_eq!(inode(), first, "it was a database all the time");
        let mut names = place.names();
        names.retain(|name| name != "app.db");
        assert!(names.is_empty(), "{names:?}");
    }
}
