//! Stores with many packs: they are merged, all of them are held while a command runs, and nothing is lost on the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use decree::ContentHash;

use crate::generate::become_like;
use crate::harness::{CommandOutput, Project, TreeEntry, assert_same, run_command, snapshot};
use crate::killed::{count_calls, has_strace, kill_before, strace};
use crate::revert::binary::noise;

const CREATE: [&str; 3] = ["checkpoint", "create", "--no-verify"];

pub fn packs(store: &Path) -> Vec<PathBuf> {
    let mut packs: Vec<PathBuf> = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path()).collect();
    packs.retain(|path| path.extension().is_some_and(|extension| extension == "pack"));
    packs.sort();
    packs
}

/// Writes a pack with one content, as `docs/format.md` describes it.
fn write_pack(store: &Path, content: &[u8]) {
    let frame = zstd::bulk::compress(content, 1).unwrap();
    let mut index = Vec::new();
    index.extend(1_u64.to_le_bytes());
    index.extend(8_u64.to_le_bytes());
    index.extend((frame.len() as u32).to_le_bytes());
    index.extend((content.len() as u32).to_le_bytes());
    index.extend(crc32fast::hash(&frame).to_le_bytes());
    index.extend(1_u64.to_le_bytes());
    index.extend(ContentHash::of(content).0);
    index.extend([0; 8]);
    index.extend((content.len() as u64).to_le_bytes());
    let mut pack = b"DCRpack\x01".to_vec();
    pack.extend(&frame);
    let offset = pack.len() as u64;
    pack.extend(&index);
    pack.extend(offset.to_le_bytes());
    pack.extend(crc32fast::hash(&index).to_le_bytes());
    pack.extend(b"DCRindex");
    fs::write(store.join(format!("{}.pack", ContentHash::of(&index))), pack).unwrap();
}

/// Gives every content of the tree a pack of its own, as a checkpoint after every change leaves them.
pub fn split_packs(project: &Project, store: &Path) {
    packs(store).iter().for_each(|pack| fs::remove_file(pack).unwrap());
    for entry in project.snapshot().values() {
        if let TreeEntry::File { bytes, .. } = entry {
            write_pack(store, bytes);
        }
    }
}

/// A project with a checkpoint of `files` small files, each in a pack of its own.
fn project_with_packs(files: usize) -> (Project, String) {
    let project = Project::new();
    for n in 0..files {
        project.write(format!("f{n}"), format!("content {n}\n"));
    }
    let id = project.checkpoint();
    split_packs(&project, &project.path(".decree/store"));
    assert_eq!(packs(&project.path(".decree/store")).len(), files);
    (project, id)
}

/// Runs decree in a shell that sets limits first.
fn decree_limited(project: &Project, limits: &str, args: &[&str]) -> CommandOutput {
    let decree = project.command();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]).arg(decree.get_program()).args(args);
    command.current_dir(project.root()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    run_command(&mut command)
}

#[track_caller]
fn assert_whole(project: &Project) {
    let store = project.path(".decree/store");
    assert!(packs(&store).len() < 32, "{} packs", packs(&store).len());
    let verified = project.decree(["checkpoint", "verify", "--all"]).ok();
    assert_eq!(verified.err, "");
    let status = project.decree(["status"]).ok();
    assert_eq!(status.err, "");
    project.checkpoint();
}

/// HLD-02.
#[test]
fn a_guarded_command_that_deletes_decrees_files_loses_no_content_however_many_packs_there_are() {
    let (project, _) = project_with_packs(300);
    let before = project.snapshot();
    let output = project.decree(["guard", "--", "bash", "-c", "rm -rf .decree f*; exit 1"]).fails(1);
    assert_same(&project.snapshot(), &before);
    output.mentions(&["300 paths rolled back (300 recreated), 300 paths verified"]);
    assert_whole(&project);
}

/// HLD-02.
#[test]
fn a_run_that_deletes_decrees_files_loses_no_content_however_many_packs_there_are() {
    let project = Project::new();
    for n in 0..300 {
        project.write(format!("f{n}"), format!("content {n}\n"));
    }
    project.write("specs/01-work.spec.md", "Work.\n").write(".decree/config.yml", "max_retries: 0\n");
    project.write(".decree/routines/develop.sh", "rm -rf .decree f*\nexit 1\n");
    project.checkpoint();
    split_packs(&project, &project.path(".decree/store"));
    let before = project.snapshot();
    project.decree(["process"]).fails(1);
    assert_same(&project.snapshot(), &before);
    assert_whole(&project);
}

/// HLD-02. More packs than decree may have open files: the others are copied.
#[test]
fn packs_that_cannot_be_held_open_are_held_all_the_same() {
    let project = Project::new();
    for n in 0..6 {
        for (name, size) in [("small", 2_000), ("middle", 90_000), ("large", 600_000), ("huge", 4_300_000)] {
            project.write(format!("{name}-{n}"), noise(size, n));
            project.decree(CREATE).ok();
        }
    }
    assert!(packs(&project.path(".decree/store")).len() > 16);
    let before = project.snapshot();
    let script = "ulimit -n; rm -rf .decree small-* middle-* large-* huge-*; exit 1";
    let output = decree_limited(&project, "ulimit -n 64", &["guard", "--", "bash", "-c", script]).fails(1);
    assert_eq!(output.line(), "64");
    assert_same(&project.snapshot(), &before);
    assert_whole(&project);
}

/// HLD-03.
#[test]
fn programs_have_the_limit_on_open_files_that_the_user_set() {
    let project = Project::new();
    project.write("specs/01-work.spec.md", "Work.\n");
    project.write(".decree/routines/develop.sh", "ulimit -Sn >limit\n");
    let limits = "ulimit -Sn 200";
    decree_limited(&project, limits, &["process"]).ok();
    assert_eq!(project.read("limit"), b"200\n");
    let output =
        decree_limited(&project, limits, &["guard", "--", "bash", "-c", "ulimit -Sn; ulimit -Hn"]).ok();
    let hard = run_command(Command::new("bash").args(["-c", "ulimit -Hn"])).text();
    assert_eq!(output.text(), format!("200\n{hard}"));
}

/// HLD-04.
#[test]
fn many_small_packs_become_few_and_every_checkpoint_verifies() {
    let project = Project::new();
    let mut kept = Vec::new();
    for n in 0..40 {
        project.write("text", format!("text {n}\n")).write(format!("own-{n}"), noise(3_000, n));
        kept.push((project.decree(CREATE).ok().line(), project.snapshot()));
        let count = packs(&project.path(".decree/store")).len();
        assert!(count < 16, "{count} packs after {n} checkpoints");
    }
    assert_whole(&project);
    for (id, before) in &kept {
        project.decree(["rollback", id]).ok();
        assert_same(&project.snapshot(), before);
    }
}

/// HLD-04. The packs that the cache relied on are gone, their contents are not.
#[test]
fn no_file_is_read_again_because_packs_were_merged() {
    if !has_strace() {
        return;
    }
    let (project, _) = project_with_packs(20);
    // Files that are younger than the clock's tick are read again anyway.
    std::thread::sleep(std::time::Duration::from_millis(30));
    project.decree(CREATE).ok();
    split_packs(&project, &project.path(".decree/store"));
    for round in 0..2 {
        let log = tempfile::NamedTempFile::new().unwrap();
        let path = log.path().to_str().unwrap();
        assert!(strace(&project, &CREATE, &["-o", path, "-e", "trace=openat"]).status.success());
        let log = fs::read_to_string(path).unwrap();
        assert!(!log.contains("\"f7\""), "round {round}: {log}");
        assert_eq!(packs(&project.path(".decree/store")).len(), 1, "round {round}");
    }
}

/// HLD-04.
#[test]
fn killed_before_any_system_call_merging_has_lost_nothing() {
    if !has_strace() {
        return;
    }
    let (project, id) = project_with_packs(9);
    let own = snapshot(&project.path(".decree"));
    let calls = count_calls(&project, &CREATE);
    assert_eq!(packs(&project.path(".decree/store")).len(), 1);
    let (mut kills, all) = (0, calls.values().sum::<u32>());
    for (call, count) in &calls {
        for nth in 1..=*count {
            become_like(&project.path(".decree"), &own);
            kills += u32::from(kill_before(&project, &CREATE, call, nth));
            project.decree(["checkpoint", "verify", &id]).ok();
            project.decree(CREATE).ok();
            // A kill while the old packs are removed leaves fewer of them than are worth a merge.
            assert!(packs(&project.path(".decree/store")).len() < 9, "{nth}. {call}");
            project.decree(["checkpoint", "verify", "--all"]).ok();
        }
    }
    assert!(all > 15 && kills * 10 > all * 9, "killed at only {kills} of {calls:?}");
}

/// HLD-04.
#[test]
fn two_projects_that_share_a_store_merge_it_at_once() {
    let elsewhere = crate::harness::temp_dir();
    let with_store = |project: &Project, args: &[&str]| {
        run_command(project.command().env("DECREE_STORE", elsewhere.path()).args(args))
    };
    let projects = [Project::new(), Project::new()];
    std::thread::scope(|scope| {
        for (which, project) in projects.iter().enumerate() {
            scope.spawn(move || {
                for n in 0..30 {
                    project.write("same", format!("round {n}\n"));
                    project.write(format!("own-{n}"), noise(2_000, 100 * which as u64 + n));
                    with_store(project, &["checkpoint", "create"]).ok();
                    with_store(project, &["checkpoint", "verify", "--all"]).ok();
                }
            });
        }
    });
    for project in &projects {
        with_store(project, &["checkpoint", "verify", "--all"]).ok();
    }
    assert!(packs(elsewhere.path()).len() < 32);
    assert!(fs::read_dir(elsewhere.path()).unwrap().all(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        !name.starts_with("tmp-")
    }));
}
