//! A routine rewrites the stat cache so that what it changed seems to be as the checkpoint has it.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::harness::git_in_front::FIND_DECREE;
use crate::harness::{Project, assert_same, temp_dir};

use super::{VANDALISM, only_run, project, tree};

/// Gives every file and directory that the cache has the metadata it has now, so that each counts as unchanged.
const FORGE: &str = r#"
import os, struct, sys, zlib
from pathlib import Path

cache = Path(sys.argv[1])
data = bytearray(cache.read_bytes())
assert data[:8] == b"DCRstat\x04"

def stat_now(path):
    found = os.lstat(path or ".")
    fields = found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev, found.st_mode
    return struct.pack("<QqqQQI", *fields)

table_at, _ = struct.unpack_from("<QI", data, len(data) - 12)
at = table_at + 4 + 40 * struct.unpack_from("<I", data, table_at)[0]
forged = 0
while at < len(data) - 12:
    length = struct.unpack_from("<I", data, at)[0]
    path = bytes(data[at + 4:at + 4 + length])
    at += 4 + length + 16
    block, block_length = struct.unpack_from("<QI", data, at)
    entry, end = block, block + block_length
    while entry < end:
        tag, name_length = struct.unpack_from("<BH", data, entry)
        name = bytes(data[entry + 3:entry + 3 + name_length])
        entry += 3 + name_length
        if tag == 1:
            entry += 32
        elif tag in (2, 3):
            file = os.path.join(path, name)
            if os.path.lexists(file):
                data[entry:entry + 44] = stat_now(file)
                data[entry - 3 - name_length] = 3
                forged += 1
            entry += 44 + 32
        assert tag < 5
    struct.pack_into("<I", data, at + 12, zlib.crc32(data[block:end]))
    at += 16
    if data[at] == 1:
        if os.path.isdir(path or b"."):
            data[at + 1:at + 45] = stat_now(path)
            forged += 1
        at += 44
    at += 1
struct.pack_into("<I", data, len(data) - 4, zlib.crc32(data[table_at:-12]))
assert forged > 2
if sys.argv[2] == "replace":
    cache.unlink()
cache.write_bytes(data)
"#;

/// The forger is not in the tree, so that a run changes only what the test says.
struct Forger(tempfile::TempDir);

impl Forger {
    fn new() -> Forger {
        let dir = temp_dir();
        fs::write(dir.path().join("forge.py"), FORGE).unwrap();
        Forger(dir)
    }

    fn command(&self, way: &str) -> String {
        format!("python3 {}/forge.py .decree/store/stat-cache {way}", self.0.path().display())
    }
}

/// A project whose files and directories the cache has, and trusts.
fn settled(routine: &str) -> Project {
    let project = project(routine);
    for _ in 0..2 {
        sleep(Duration::from_millis(30));
        project.checkpoint();
    }
    project
}

/// CHK-15.
#[test]
fn a_failed_run_is_reverted_although_it_forged_the_cache() {
    let forger = Forger::new();
    for way in ["overwrite", "replace"] {
        let forge = forger.command(way);
        let project = settled(&format!("{VANDALISM} echo evil >src/new.rs; {forge} || exit 9; exit 1"));
        let before = tree(&project);
        project.decree(["process"]).fails(1);
        assert_same(&before, &tree(&project));
        let diff = fs::read_to_string(project.path(format!("{}/changes.diff", only_run(&project))));
        let diff = diff.unwrap();
        assert!(diff.contains("src/new.rs") && diff.contains("+broken"), "{diff}");
    }
}

/// CHK-15.
#[test]
fn a_guarded_command_is_rolled_back_although_it_forged_the_cache() {
    let forger = Forger::new();
    let project = settled("");
    let before = tree(&project);
    let forge = forger.command("overwrite");
    let script = format!("{VANDALISM} echo evil >src/new.rs; {forge} || exit 9; exit 1");
    project.decree(["guard", "--", "bash", "-c", &script]).fails(1);
    assert_same(&before, &tree(&project));
}

/// CHK-15. What it kept is what its diff says, and the next checkpoint holds it.
#[test]
fn the_next_checkpoint_holds_what_is_there_although_the_cache_was_forged() {
    let forger = Forger::new();
    let project = settled(&format!("echo evil >src/lib.rs; {}", forger.command("overwrite")));
    project.decree(["process"]).ok();
    let kept = tree(&project);
    let id = project.checkpoint();
    project.write("src/lib.rs", "other\n");
    project.decree(["rollback", &id]).ok();
    assert_same(&kept, &tree(&project));
}

/// CHK-15. No decree is there then to notice that the cache is another one; the routine can write the lock, too.
#[test]
fn a_killed_run_is_reverted_although_it_forged_the_cache() {
    let released = r#"echo '{"pid":1,"command":"process","since":"00:00:00","released":true}' >.decree/lock"#;
    for lock in ["true", released] {
        let forger = Forger::new();
        let (mark, forge) = (forger.0.path().join("killed"), forger.command("overwrite"));
        let mark = mark.display();
        let kill = format!("{FIND_DECREE}; kill -9 $decree; sleep 60");
        let project = settled(&format!(
            "[ -e {mark} ] && exit 1; {VANDALISM} echo evil >src/new.rs; {forge} && {lock} && touch {mark} && {kill}"
        ));
        let before = tree(&project);
        project.decree(["process"]);
        assert!(project.exists("src/new.rs"));
        project.decree(["process"]).fails(1);
        assert_same(&before, &tree(&project));
    }
}

/// CHK-15. The tree is large enough for decree to remember how its manifest is stored.
#[test]
fn a_manifest_is_right_although_what_is_remembered_of_the_last_one_was_forged() {
    let memo = ".decree/store/last-manifest";
    let forge = format!(r#"sed -i 's/"tree":"[0-9a-f]*"/"tree":"{}"/' {memo}"#, "0".repeat(64));
    let project = project(&forge);
    for n in 0..5000 {
        project.write(format!("many/{}/{n}", n % 20), "x\n");
    }
    for name in ["one", "two", "three"] {
        project.write(format!("specs/{name}.spec.md"), "# Work\n");
    }
    project.checkpoint();
    assert!(project.exists(memo));
    project.decree(["process"]).ok();
    let (id, before) = (project.checkpoint(), tree(&project));
    project.decree(["checkpoint", "verify", "--all"]).ok();
    project.write("many/1/1", "other\n");
    project.decree(["rollback", &id]).ok();
    assert_same(&before, &tree(&project));
    let runs = fs::read_dir(project.path(".decree/runs")).unwrap();
    for run in runs.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        project.decree(["diff", &run]).ok();
    }
}
