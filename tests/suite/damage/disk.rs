//! A full disk: a clear error, an unchanged tree, and success once there is space.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Project, assert_same, skip};
use crate::revert::binary::noise;

const KIB: usize = 1024;
/// Below that, no routine is started.
const ROOM_TO_RUN: usize = 80 * KIB;

/// A project on a file system of its own.
pub struct SmallDisk {
    // Dropped before the directory it is mounted on.
    _mount: Mount,
    pub project: Project,
}

/// Unmounts when it is dropped.
pub struct Mount(pub PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

impl SmallDisk {
    /// `None`, and a recorded skip, where mounting is not allowed.
    #[track_caller]
    pub fn new(kib: usize) -> Option<SmallDisk> {
        SmallDisk::with(&format!("size={kib}k"))
    }

    #[track_caller]
    fn with(options: &str) -> Option<SmallDisk> {
        let project = Project::bare();
        let options = format!("{options},mode=755");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(project.root());
        if !skip::works(&mut mount, "no file system can be mounted") {
            return None;
        }
        let mount = Mount(project.root().to_owned());
        project.mkdir(".decree");
        Some(SmallDisk { _mount: mount, project })
    }

    /// Fills the disk until only about so much is free. What fills it is none of decree's business.
    ///
    /// The file is never removed: a process that another test is just starting may have it open for a moment, and
    /// what it held would become free later.
    fn leave(&self, free: usize) {
        let mut file = File::options().append(true).create(true).open(self.filler()).unwrap();
        while file.write_all(&[1; 4 * KIB]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(free as u64)).unwrap();
    }

    fn free(&self) {
        File::options().write(true).open(self.filler()).unwrap().set_len(0).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.project.path(".decree/filler")
    }
}

/// CHK-12.
#[test]
fn a_checkpoint_on_a_full_disk_fails_and_leaves_nothing_behind() {
    let Some(disk) = SmallDisk::new(4 * KIB) else { return };
    let project = &disk.project;
    project.write("noise", noise(1000 * KIB, 1)).write("text", "x\n").mkdir("dir");
    let before = project.snapshot();
    for free in [0, 4, 16, 64, 256, 512, 900] {
        disk.leave(free * KIB);
        let output = project.decree(["checkpoint", "create"]);
        assert!([1, 4].contains(&output.code), "{free} KiB free: {}: {}", output.code, output.err);
        assert!(output.err.contains("No space left"), "{}", output.err);
        assert!(output.err.contains("free some disk space"), "{}", output.err);
        assert_same(&project.snapshot(), &before);
        assert!(project.decree(["checkpoint", "list"]).ok().out.is_empty(), "{free} KiB");
    }
    disk.free();
    let id = project.checkpoint();
    project.decree(["checkpoint", "verify", &id]).ok();
    let used: u64 = fs::read_dir(project.path(".decree/store"))
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
    assert!(used < 1100 * KIB as u64, "unfinished packs are left in the store: {used} bytes");
}

/// CHK-12.
///
/// Whatever step runs out of space (the diff, the result, a rebuilt file, the journal), it is all or nothing.
#[test]
fn a_revert_on_a_full_disk_fails_and_touches_nothing() {
    let Some(disk) = SmallDisk::new(6 * KIB) else { return };
    let project = &disk.project;
    for n in 0..6 {
        project
            .write(format!("binary-{n}"), noise(60 * KIB, n))
            .write(format!("text-{n}"), "line\n".repeat(4000));
    }
    let original = project.snapshot();
    let id = project.checkpoint();
    for n in 0..6 {
        project.remove(format!("binary-{n}")).write(format!("text-{n}"), "other\n");
    }
    let mutated = project.snapshot();
    let mut failed = 0;
    for free in (0..3 * KIB).step_by(60) {
        disk.leave(free * KIB);
        let output = project.decree(["revert", &id]);
        if output.code == 0 {
            break;
        }
        failed += 1;
        assert!([1, 4].contains(&output.code), "{free} KiB free: {}: {}", output.code, output.err);
        assert!(output.err.contains("No space left"), "{free} KiB free: {}", output.err);
        assert_same(&project.snapshot(), &mutated);
    }
    assert!(failed > 5, "the disk was full only {failed} times");
    // Had each failure left something behind, there would never be room.
    assert_same(&project.snapshot(), &original);
}

/// REV-15. Whatever a full disk prevents, the tree is not what it has to be.
#[test]
fn a_full_disk_that_prevents_the_revert_of_a_run_is_exit_code_4() {
    let Some(disk) = SmallDisk::new(ROOM_TO_RUN) else { return };
    let project = &disk.project;
    project
        .write("binary", noise(400 * KIB, 1))
        .write(".decree/routines/develop.sh", "rm binary; echo x >new\n");
    let before = project.snapshot();
    project.decree(["run", "-m", "x", "-p", "y"]).ok();
    let run = fs::read_dir(project.path(".decree/runs")).unwrap().next().unwrap().unwrap().file_name();
    let (run, after) = (run.into_string().unwrap(), project.snapshot());
    for free in [0, 8, 100] {
        disk.leave(free * KIB);
        project.decree(["revert", &run]).fails(4).mentions(&["No space left", "free some disk space"]);
        assert_same(&project.snapshot(), &after);
    }
    disk.free();
    project.decree(["revert", &run]).ok().mentions(&["reverted 2 paths"]);
    assert_same(&project.snapshot(), &before);
}

/// REV-15. With new content the store has no room, without any the manifest of the saved state has none.
#[test]
fn a_failed_run_that_a_full_disk_keeps_from_being_reverted_is_exit_code_4_and_reverted_later() {
    for work in ["rm binary; echo x >new", "rm binary"] {
        let Some(disk) = SmallDisk::new(ROOM_TO_RUN) else { return };
        let project = &disk.project;
        let fill = format!("{work}; cat /dev/zero >.decree/filler 2>/dev/null; exit 1\n");
        project.write("binary", noise(400 * KIB, 1)).write(".decree/routines/develop.sh", fill);
        project.write(".decree/config.yml", "max_retries: 0\n");
        let before = project.snapshot();
        let output = project.decree(["run", "-m", "x", "-p", "y"]).fails(4).mentions(&["No space left"]);
        assert!(
            output.err.contains("not reverted") || output.err.contains("could not be reverted"),
            "{}",
            output.err
        );
        let left = project.snapshot();
        assert!(!project.exists("binary"), "it was reverted after all");
        for command in ["process", "run -p z", "guard -- true", "process --format json"] {
            let output = project.decree(command.split(' ')).fails(4);
            let output = output.mentions(&["No space left", "is not reverted yet"]);
            let is_answered = output.text().contains(r#""kind": "integrity""#);
            assert_eq!(is_answered, command.contains("json"), "{}", output.text());
            assert_same(&project.snapshot(), &left);
        }
        disk.free();
        project.decree(["checkpoint", "list"]).ok();
        project.write(".decree/routines/develop.sh", "exit 1\n").decree(["process"]).fails(1);
        assert_same(&project.snapshot(), &before);
    }
}

/// GRD-15.
#[test]
fn a_rollback_that_a_full_disk_prevents_is_reported_as_such_and_not_as_a_killed_decree() {
    let Some(disk) = SmallDisk::new(6 * KIB) else { return };
    let project = &disk.project;
    project.write("binary", noise(400 * KIB, 1)).write("text", "x\n");
    let before = project.snapshot();
    let script = "rm binary; echo y >text; cat /dev/zero >.decree/filler 2>/dev/null; exit 7";
    let guarded = project.decree(["guard", "--", "bash", "-c", script]);
    let guarded =
        guarded.fails(4).mentions(&["No space left", "the tree is not rolled back", "decree rollback chk_"]);
    let id = guarded.err.split("`decree rollback ").nth(1).unwrap().split('`').next().unwrap();
    assert_eq!(project.read("text"), b"y\n");
    let status = project.decree(["status"]).ok().mentions(&["the rollback after", "failed", id]);
    assert!(!status.err.contains("killed"), "{}", status.err);
    disk.free();
    let output = project.decree(["rollback", id]).ok().mentions(&["the rollback after", "failed"]);
    assert!(!output.err.contains("killed"), "{}", output.err);
    assert_same(&project.snapshot(), &before);
    assert!(project.decree(["status"]).ok().err.is_empty(), "it is reported once the tree is rolled back");
}

/// UNC-65. decree reserves the room that likely secrets need, as nothing else has their content.
#[test]
fn likely_secrets_come_back_although_the_disk_of_the_project_is_full() {
    for filler in ["fill", ".decree/filler"] {
        for command in ["guard", "run"] {
            let Some(disk) = SmallDisk::new(ROOM_TO_RUN) else { return };
            let project = &disk.project;
            let wrecks = format!(
                "rm -r .env keys; echo other >id_rsa; cat /dev/zero >{filler} 2>/dev/null; \
                 cat /dev/zero >>{filler} 2>/dev/null; exit 1\n"
            );
            let large = noise(200 * KIB, 7);
            project.write(".env", "E=1\n").write("id_rsa", "KEY\n").write("keys/deep/.env", &large);
            project.write(".decree/config.yml", "max_retries: 0\n");
            project.write(".decree/routines/develop.sh", &wrecks);
            let output = if command == "run" {
                project.decree(["run", "-m", "x", "-p", "y"])
            } else {
                project.decree(["guard", "--", "bash", "-c", &wrecks])
            };
            let case = format!("{command}, {filler}: {}", output.err);
            assert_ne!(output.code, 0, "{case}");
            assert!(!output.err.contains("NOT restored"), "{case}");
            assert!(project.exists(".env"), "{case}");
            assert_eq!(project.read(".env"), b"E=1\n", "{case}");
            assert_eq!(project.read("id_rsa"), b"KEY\n", "{case}");
            assert!(project.read("keys/deep/.env") == large, "{case}");
        }
    }
}

/// UNC-65. A disk may also have no inodes left.
#[test]
fn likely_secrets_come_back_although_the_disk_has_no_inodes_left() {
    let Some(disk) = SmallDisk::with(&format!("size={ROOM_TO_RUN}k,nr_inodes=400")) else { return };
    let project = &disk.project;
    project.write(".env", "E=1\n").write("keys/deep/.env", "K=1\n").mkdir("many");
    let wrecks = "rm -r .env keys; for n in $(seq 500); do : >many/$n || break; done 2>/dev/null; exit 1";
    let output = project.decree(["guard", "--", "bash", "-c", wrecks]);
    assert_ne!(output.code, 0, "{}", output.err);
    assert!(!output.err.contains("NOT restored"), "{}", output.err);
    assert_eq!(project.read(".env"), b"E=1\n");
    assert_eq!(project.read("keys/deep/.env"), b"K=1\n");
}

/// UNC-65. A part of the tree may be on another file system.
#[test]
fn likely_secrets_come_back_on_another_full_file_system_of_the_tree() {
    let Some(disk) = SmallDisk::new(ROOM_TO_RUN) else { return };
    let project = &disk.project;
    project.mkdir("mounted");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1024k,mode=755", "tmpfs"]).arg(project.path("mounted"));
    assert!(mount.status().unwrap().success());
    let _mount = Mount(project.path("mounted"));
    let large = noise(200 * KIB, 7);
    project.write("mounted/keys/.env", &large).write(".env", "E=1\n").write(".gitignore", "fill\n");
    let wrecks = "rm -r .env mounted/keys; cat /dev/zero >mounted/fill 2>/dev/null; exit 1";
    let output = project.decree(["guard", "--", "bash", "-c", wrecks]);
    assert_ne!(output.code, 0, "{}", output.err);
    assert!(!output.err.contains("NOT restored"), "{}", output.err);
    assert!(project.read("mounted/keys/.env") == large, "{}", output.err);
    assert_eq!(project.read(".env"), b"E=1\n");
}

/// UNC-65.
#[test]
fn the_room_that_is_reserved_for_likely_secrets_is_free_once_they_are_not_held() {
    let Some(disk) = SmallDisk::new(6 * KIB) else { return };
    let project = &disk.project;
    project.write(".env", noise(200 * KIB, 7));
    let sees = "df --output=avail -k . | tail -1";
    let during = project.decree(["guard", "--", "bash", "-c", sees]).ok().line();
    let free = |text: &str| text.trim().parse::<usize>().unwrap();
    let after = Command::new("df").args(["--output=avail", "-k"]).arg(project.root()).output().unwrap();
    let after = String::from_utf8(after.stdout).unwrap();
    let after = free(after.lines().last().unwrap());
    assert!(after >= free(&during) + 200, "{during} KiB free during the command, {after} KiB afterwards");
}

#[test]
fn an_apply_on_a_full_disk_fails_and_touches_nothing() {
    let Some(disk) = SmallDisk::new(4 * KIB) else { return };
    let project = &disk.project;
    project.write("a", "a\n");
    let original = project.snapshot();
    let id = project.checkpoint();
    project.write("a", "b\n").write("big", noise(300 * KIB, 1)).write("c/d", "e\n");
    let mutated = project.snapshot();
    project.decree(["revert", &id]).ok();
    for free in [0, 4, 40, 200, 280] {
        disk.leave(free * KIB);
        project.decree(["apply", &id]).fails(1).mentions(&["No space left"]);
        assert_same(&project.snapshot(), &original);
    }
    disk.free();
    project.decree(["apply", &id]).ok();
    assert_same(&project.snapshot(), &mutated);
}

/// A part of the tree on another file system: files cannot be renamed there, and are copied instead.
#[test]
fn a_directory_on_another_file_system_comes_back() {
    let Some(disk) = SmallDisk::new(2 * KIB) else { return };
    let project = Project::new();
    project.mkdir("mounted");
    let bind =
        Command::new("mount").arg("--bind").arg(disk.project.root()).arg(project.path("mounted")).output();
    assert!(bind.unwrap().status.success());
    let _bind = Mount(project.path("mounted"));
    project
        .remove("mounted/.decree")
        .write("mounted/a", "a\n")
        .write("mounted/b/c", b"\0c")
        .link("mounted/l", "a");
    project.write("here", "x\n");
    let original = project.snapshot();
    let id = project.checkpoint();
    project
        .write("mounted/a", "A\n")
        .remove("mounted/b")
        .remove("mounted/l")
        .write("mounted/n/m", "n\n")
        .remove("here");
    project.chmod("mounted/a", 0o700);
    let mutated = project.snapshot();
    for (verb, expected) in [("revert", &original), ("apply", &mutated), ("revert", &original)] {
        project.decree([verb, &id]).ok();
        assert_same(&project.snapshot(), expected);
    }
}

/// A volume in the tree, as containers have them: what is set aside cannot be renamed across its border.
#[test]
fn hidden_things_on_another_file_system_are_set_aside() {
    let Some(disk) = SmallDisk::new(2 * KIB) else { return };
    let project = Project::new();
    project.mkdir("mounted");
    let bind =
        Command::new("mount").arg("--bind").arg(disk.project.root()).arg(project.path("mounted")).output();
    assert!(bind.unwrap().status.success());
    let _bind = Mount(project.path("mounted"));
    project.remove("mounted/.decree").write("mounted/a", "a\n").write(".gitignore", "");
    let original = project.snapshot();
    let id = project.checkpoint();
    project.write(".gitignore", "target\n*.log\n").write("mounted/a", "b\n").write("mounted/x.log", "log\n");
    project.write("mounted/target/deep/out", "built\n").link("mounted/target/link", "deep");
    project.chmod("mounted/target/deep", 0o700);
    let target = crate::revert::below(&project.snapshot(), "mounted/target");
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &original);
    let aside = crate::harness::snapshot(&project.record(&id, "set-aside"));
    assert_same(&crate::revert::below(&aside, "mounted/target"), &target);
    assert!(aside.contains_key(&b"mounted/x.log"[..]));
}
