//! `decree recover`: the way out of a store that was damaged while a run or a guarded command changed the tree.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::generate::become_like;
use crate::harness::{CommandOutput, Project, TreeSnapshot, assert_same, snapshot, wait_for, wait_until};
use crate::killed::{has_strace, strace};
use crate::packs::packs;
use crate::pipeline::pipeline_project::PipelineProject;
use crate::revert::binary::noise;
use crate::rollback::contract::assert_valid;

/// A project with a checkpoint whose one pack has a frame with the small files, behind those of the large one.
struct Scene {
    project: Project,
    before: TreeSnapshot,
    pack: PathBuf,
    /// Where the frame with the small files ends.
    small_end: u64,
}

/// What a routine does to the tree.
const CHANGES: &str = "echo changed >changed.txt; rm deleted.txt large.bin; echo new >new.txt\n";

impl Scene {
    fn new() -> Scene {
        let project = Project::new();
        project
            .write("changed.txt", "as it was\n")
            .write("deleted.txt", "deleted\n")
            .write("kept.txt", "kept\n")
            .write("large.bin", noise(700_000, 1))
            .write("specs/01-work.spec.md", "Work.\n")
            .write(".decree/config.yml", "max_retries: 0\n")
            .write(".decree/routines/develop.sh", "true\n");
        project.checkpoint();
        let before = project.snapshot();
        let pack = packs(&project.path(".decree/store")).pop().unwrap();
        let bytes = fs::read(&pack).unwrap();
        let footer = &bytes[bytes.len() - 20..];
        let small_end = u64::from_le_bytes(footer[..8].try_into().unwrap());
        Scene { project, before, pack, small_end }
    }

    /// A script that overwrites two bytes of the small files' frame in place.
    fn flip(&self) -> String {
        let (pack, at) = (self.pack.display(), self.small_end - 6);
        format!("printf XX | dd of={pack} bs=1 seek={at} conv=notrunc status=none\n")
    }

    /// The routine damages the store and fails, once; later it works.
    fn routine(&self, damage: &str) -> &Self {
        let script = format!(
            "[ -e .decree/once ] && {{ echo ok >ok.txt; exit 0; }}\ntouch .decree/once\n{CHANGES}{damage}\nexit 1\n"
        );
        self.project.write(".decree/routines/develop.sh", script);
        self
    }

    fn checkpoints(&self) -> usize {
        fs::read_dir(self.project.path(".decree/checkpoints")).unwrap().count()
    }

    fn recover(&self, code: i32) -> Value {
        let output = self.project.decree(["recover", "--format", "json"]).fails(code);
        let answer = serde_json::from_slice(&output.out).unwrap();
        assert_valid(&answer, "recover");
        answer
    }

    /// Every command works again.
    #[track_caller]
    fn assert_works(&self) {
        let project = &self.project;
        assert!(!project.exists(".decree/running.json"));
        project.decree(["recover"]).ok().mentions(&["every pack is intact"]);
        project.decree(["process"]).ok();
        assert_eq!(project.read("ok.txt"), b"ok\n");
        let run = fs::read_dir(project.path(".decree/runs")).unwrap().map(|entry| entry.unwrap().file_name());
        let latest = run.max().unwrap().into_string().unwrap();
        project.decree(["revert", &latest]).ok();
        assert!(!project.exists("ok.txt"));
        let id = project.checkpoint();
        let now = project.snapshot();
        project.write("kept.txt", "other\n").remove("specs/01-work.spec.md");
        project.decree(["rollback", &id]).ok();
        assert_same(&project.snapshot(), &now);
        project.decree(["status"]).ok();
        project.decree(["run", "-p", "again"]).ok();
    }
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it["path"].as_str().or(it.as_str()).unwrap()).collect()
}

/// No word says that the tree is back.
#[track_caller]
fn assert_truthful(output: &CommandOutput) {
    for word in ["is reverted", "was reverted", "put back", "is restored", "was killed"] {
        assert!(!output.err.contains(word), "{word}: {}", output.err);
    }
}

/// RCV-01. RCV-02. RCV-03.
#[test]
fn a_run_that_damaged_the_store_is_named_by_paths_until_recover_closes_it() {
    let scene = Scene::new();
    let project = &scene.project;
    scene.routine(&scene.flip());
    let checkpoints = scene.checkpoints();
    let after = {
        let output = project.decree(["process"]).fails(4);
        assert_truthful(&output);
        output.mentions(&["changed.txt", "deleted.txt", "decree recover"]);
        project.snapshot()
    };
    for command in [&["process"][..], &["run", "-p", "x"], &["revert", "chk_"]] {
        let output = project.decree(command).fails(4);
        assert_truthful(&output);
        output.mentions(&["changed.txt: its content is damaged in", "deleted.txt", "decree recover"]);
        assert_eq!(scene.checkpoints(), checkpoints, "{command:?}");
        assert_same(&project.snapshot(), &after);
    }
    let planned = project.decree(["recover", "--dry-run"]).fails(4);
    assert!(planned.text().contains("not restored: changed.txt"), "{}", planned.text());
    assert!(planned.text().contains("would be removed: new.txt"), "{}", planned.text());
    assert_same(&project.snapshot(), &after);
    assert!(project.exists(".decree/running.json") && scene.pack.exists());

    let answer = scene.recover(4);
    assert_eq!(paths(&answer["lost"]), ["changed.txt", "deleted.txt"], "{answer:#}");
    assert_eq!(paths(&answer["restored"]), ["large.bin", "new.txt"], "{answer:#}");
    assert_eq!((&answer["verdict"], &answer["recovered"]), (&"failed-unrestored".into(), &false.into()));
    assert_eq!(project.read("large.bin"), noise(700_000, 1));
    assert_eq!(project.read("changed.txt"), b"changed\n");
    assert!(!project.exists("new.txt") && !project.exists("deleted.txt"));
    assert!(!scene.pack.exists());
    let moved = answer["packs"][0]["moved_to"].as_str().unwrap();
    assert!(moved.contains(".decree/store/damaged/") && fs::metadata(moved).is_ok(), "{answer:#}");
    let dead = project.path(".decree/inbox/dead");
    let letter = fs::read_dir(dead).unwrap().next().unwrap().unwrap().path();
    let letter = fs::read_to_string(letter).unwrap();
    assert!(letter.contains("verdict: failed-unrestored"), "{letter}");
    assert!(letter.contains("2 files could not be restored: changed.txt, deleted.txt"), "{letter}");
    // What was there is saved.
    let saved = answer["saved_present_as"].as_str().unwrap();
    project.decree(["checkpoint", "verify", saved]).ok();
    scene.assert_works();
    project.decree(["rollback", saved]).ok();
    assert_eq!(project.read("new.txt"), b"new\n");
}

/// RCV-01. RCV-04.
#[test]
fn whatever_was_done_to_the_packs_every_later_command_works_after_recover() {
    let damages = [
        "for p in .decree/store/*.pack; do truncate -s 20 $p; done",
        "for p in .decree/store/*.pack; do : >$p; done",
        "for p in .decree/store/*.pack; do printf XXXX | dd of=$p bs=1 seek=12 conv=notrunc status=none; done",
        "for p in .decree/store/*.pack; do head -c 9999 /dev/urandom >$p; done; rm .decree/store/stat-cache",
    ];
    for damage in damages {
        let scene = Scene::new();
        scene.routine(damage);
        scene.project.decree(["process"]).fails(4).mentions(&["decree recover"]);
        let checkpoints = scene.checkpoints();
        scene.project.decree(["process"]).fails(4).mentions(&["cannot be reverted", "decree recover"]);
        assert_eq!(scene.checkpoints(), checkpoints, "{damage}");
        let answer = scene.recover(4);
        let (lost, restored) = (paths(&answer["lost"]), paths(&answer["restored"]));
        assert!(lost.contains(&"deleted.txt") || restored.contains(&"deleted.txt"), "{damage}: {answer:#}");
        for path in &restored {
            let key = path.as_bytes();
            assert_eq!(scene.project.snapshot().get(key), scene.before.get(key), "{damage}: {path}");
        }
        assert_eq!(scene.project.read("kept.txt"), b"kept\n");
        scene.assert_works();
    }
}

/// A pack that a routine replaces or deletes is held, and comes back: there is nothing to recover.
#[test]
fn a_pack_that_was_replaced_is_no_damage() {
    let scene = Scene::new();
    scene.routine("for p in .decree/store/*.pack; do cp $p x; rm $p; head -c 99 x >$p; rm x; done");
    scene.project.decree(["process"]).fails(1);
    let mut before = scene.before.clone();
    before.remove(&b"specs/processed-spec.md"[..]);
    assert_same(&scene.project.snapshot(), &before);
    scene.assert_works();
}

/// RCV-04. The index is in memory while the routine runs.
#[test]
fn a_run_that_overwrote_only_an_index_is_reverted_and_recover_replaces_the_pack() {
    let scene = Scene::new();
    let at = fs::metadata(&scene.pack).unwrap().len() - 30;
    scene.routine(&format!(
        "printf X | dd of={} bs=1 seek={at} conv=notrunc status=none",
        scene.pack.display()
    ));
    scene.project.decree(["process"]).fails(1);
    assert_same(&scene.project.snapshot(), &scene.before);
    scene.recover(0);
    // Nothing is lost, so the new pack has the name of the old one, which is kept.
    assert_eq!(fs::read_dir(scene.project.path(".decree/store/damaged")).unwrap().count(), 1);
    scene.project.decree(["checkpoint", "verify", "--all"]).ok();
    scene.assert_works();
}

/// RCV-02. The first attempt's diff has what the store lost in the second.
#[test]
fn what_an_earlier_diff_has_is_restored_from_it() {
    let scene = Scene::new();
    let project = &scene.project;
    project.write(".decree/config.yml", "max_retries: 1\n");
    // More than decree keeps in memory of what it read.
    for n in 0..5 {
        project.write(format!("z-{n}"), noise(1_100_000, n));
    }
    let (before, flip) = (project.snapshot(), scene.flip());
    project.write(
        ".decree/routines/develop.sh",
        format!(
            "[ -e ok ] && exit 0\n{CHANGES}rm z-*\n[ \"$DECREE_ATTEMPT\" = 1 ] || {{\n{flip}\n}}\nexit 1\n"
        ),
    );
    project.decree(["process"]).fails(4).mentions(&["changed.txt", "decree recover"]);
    let answer = scene.recover(0);
    assert_eq!(answer["lost"], Value::Array(Vec::new()), "{answer:#}");
    assert_same(&project.snapshot(), &before);
    project.write("ok", "");
    project.decree(["process"]).ok();
}

/// RCV-05.
#[test]
fn a_guarded_command_that_damaged_the_store_can_be_undone_as_far_as_possible() {
    let scene = Scene::new();
    let project = &scene.project;
    let script = format!("{CHANGES}{}exit 1", scene.flip());
    let checkpoints = scene.checkpoints();
    let output = project.decree(["guard", "--", "bash", "-c", &script]).fails(4);
    output.mentions(&["changed.txt", "deleted.txt", "the tree is not rolled back", "decree recover chk_"]);
    assert_eq!(scene.checkpoints(), checkpoints + 1);
    let status =
        project.decree(["status"]).ok().mentions(&["the rollback after", "failed", "decree recover chk_"]);
    assert!(!status.err.contains("was killed"), "{}", status.err);
    let answer = scene.recover(4);
    assert_eq!(paths(&answer["lost"]), ["changed.txt", "deleted.txt"], "{answer:#}");
    assert_eq!(paths(&answer["restored"]), ["large.bin", "new.txt"]);
    assert_eq!(project.read("large.bin"), noise(700_000, 1));
    scene.routine("true").project.write(".decree/once", "");
    scene.assert_works();
}

/// RCV-01. A rollback that cannot succeed adds no checkpoint, and leads to the command that can.
#[test]
fn a_rollback_without_its_content_saves_nothing_and_names_the_way_out() {
    let scene = Scene::new();
    let project = &scene.project;
    let id = fs::read_dir(project.path(".decree/checkpoints")).unwrap().next().unwrap().unwrap().file_name();
    let id = id.into_string().unwrap();
    std::process::Command::new("bash")
        .args(["-c", &format!("{CHANGES}{}", scene.flip())])
        .current_dir(project.root())
        .status()
        .unwrap();
    for _ in 0..2 {
        let output = project.decree(["rollback", &id]).fails(4);
        output.mentions(&[
            "changed.txt",
            "deleted.txt",
            "nothing was touched",
            &format!("decree recover {id}"),
        ]);
        assert_eq!(scene.checkpoints(), 1);
    }
    let output = project.decree(["recover", &id]).fails(4);
    assert!(output.text().contains("restored: large.bin"), "{}", output.text());
    assert!(output.text().contains("not restored: deleted.txt"), "{}", output.text());
    assert_eq!(project.read("large.bin"), noise(700_000, 1));
}

/// RCV-40. A likely secret that is newer than the checkpoint is in no checkpoint: a rollback leaves it, and so does this.
#[test]
fn a_newer_likely_secret_stays_where_it_is() {
    for is_damaged in [false, true] {
        let scene = Scene::new();
        let project = &scene.project;
        let id = project.checkpoint();
        project.write(".env", "KEY=hunter2\n").chmod(".env", 0o640);
        project.write("new/.env.local", "A=b\n").write("new.txt", "new\n").remove("large.bin");
        if is_damaged {
            project.remove("deleted.txt");
            let damage = ["-c", &scene.flip()];
            std::process::Command::new("bash").args(damage).current_dir(project.root()).status().unwrap();
        }
        let code = if is_damaged { 4 } else { 0 };
        let stay = "newer than the checkpoint stay where they are: .env, new/.env.local";
        let before = project.snapshot();
        let plan = project.decree(["recover", &id, "--dry-run"]).fails(code).mentions(&[stay]);
        assert!(!plan.text().contains(".env"), "{}", plan.text());
        assert_same(&project.snapshot(), &before);
        let output = project.decree(["recover", &id]).fails(code).mentions(&[stay]);
        assert!(!output.text().contains(".env"), "{}", output.text());
        assert_eq!(project.read("large.bin"), noise(700_000, 1));
        assert!(!project.exists("new.txt"));
        let mut expected = scene.before.clone();
        expected.extend(
            before
                .iter()
                .filter(|(path, _)| path.starts_with(b".env") || path.starts_with(b"new/"))
                .map(|(path, entry)| (path.clone(), entry.clone())),
        );
        expected.extend(before.get(&b"new"[..]).map(|entry| (b"new".to_vec(), entry.clone())));
        if is_damaged {
            expected.remove(&b"deleted.txt"[..]);
        }
        assert_same(&project.snapshot(), &expected);
        let again = project.decree(["recover", &id, "--format", "json"]).fails(code);
        let answer: Value = serde_json::from_slice(&again.out).unwrap();
        assert_valid(&answer, "recover");
        assert_eq!(paths(&answer["secrets_left"]), [".env", "new/.env.local"]);
        assert_eq!(paths(&answer["set_aside"]), [""; 0]);
    }
}

/// RCV-03.
#[test]
fn a_run_whose_manifest_is_damaged_is_closed_with_its_tree_as_it_is() {
    let scene = Scene::new();
    let project = &scene.project;
    project.write(
        ".decree/routines/develop.sh",
        "[ -e once ] && { echo ok >ok.txt; exit 0; }\necho x >once\nsleep 60\n",
    );
    let mut child = project.command().arg("process").stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_for(&project.path("once"));
    child.kill().unwrap();
    child.wait().unwrap();
    let run = fs::read_dir(project.path(".decree/runs")).unwrap().next().unwrap().unwrap().path();
    fs::write(run.join("manifest.json"), "{]").unwrap();
    project.decree(["process"]).fails(4);
    let answer = scene.recover(4);
    assert_eq!(answer["verdict"], "failed-unrestored");
    assert!(answer["unknown"].as_str().unwrap().contains("manifest.json"), "{answer:#}");
    assert!(project.exists("once"));
    scene.assert_works();
}

/// RCV-03.
#[test]
fn a_running_record_that_cannot_be_read_moves_out_of_the_way() {
    let scene = Scene::new();
    let project = &scene.project;
    project.write(".decree/running.json", "{");
    project.decree(["process"]).fails(4).mentions(&["decree recover"]);
    project.decree(["recover", "--dry-run"]).fails(4).mentions(&["which run was active is unknown"]);
    project
        .decree(["recover"])
        .fails(4)
        .mentions(&["which run was active is unknown", "running.json.damaged"]);
    assert_eq!(project.read(".decree/running.json.damaged"), b"{");
    project.write(".decree/routines/develop.sh", "echo ok >ok.txt\n");
    scene.assert_works();
}

/// RCV-06.
#[test]
fn a_checkpoint_stores_again_what_is_damaged_in_the_store_and_still_in_the_tree() {
    let scene = Scene::new();
    let project = &scene.project;
    // The cache is sure of every file.
    std::thread::sleep(std::time::Duration::from_millis(20));
    project.checkpoint();
    let bytes = fs::read(&scene.pack).unwrap();
    for at in [12, scene.small_end as usize - 6] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        fs::write(&scene.pack, damaged).unwrap();
        let id = project.checkpoint();
        project.decree(["checkpoint", "verify", &id]).ok();
        project.remove("large.bin").remove("kept.txt");
        project.decree(["rollback", &id]).ok();
        assert_same(&project.snapshot(), &scene.before);
    }
}

/// RCV-06.
#[test]
fn whatever_is_in_the_place_of_the_stat_cache_a_checkpoint_is_made() {
    let scene = Scene::new();
    let project = &scene.project;
    let path = project.path(".decree/store/stat-cache");
    let good = fs::read(&path).unwrap();
    let remove = || {
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    };
    let kinds: [(&str, &dyn Fn()); 7] = [
        ("empty", &|| fs::write(&path, "").unwrap()),
        ("foreign", &|| fs::write(&path, noise(9_000, 3)).unwrap()),
        ("of another version", &|| fs::write(&path, [b"DCRstat\x09", &good[8..]].concat()).unwrap()),
        ("cut off", &|| fs::write(&path, &good[..good.len() - 5]).unwrap()),
        ("a directory", &|| fs::create_dir_all(path.join("x")).unwrap()),
        ("a link to nothing", &|| std::os::unix::fs::symlink("/nonexistent/x", &path).unwrap()),
        ("a pipe", &|| {
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        }),
    ];
    for (what, make) in kinds {
        remove();
        make();
        for _ in 0..2 {
            let output = project.decree(["checkpoint", "create"]);
            assert_eq!(output.code, 0, "{what}: {}", output.err);
            project.decree(["checkpoint", "verify", &output.line()]).ok();
        }
    }
}

/// RCV-07.
#[test]
fn killed_before_any_write_recover_can_be_repeated_and_nothing_is_lost() {
    if !has_strace() {
        return;
    }
    let scene = Scene::new();
    let project = &scene.project;
    scene.routine(&scene.flip());
    project.decree(["process"]).fails(4);
    let (own, tree) = (snapshot(&project.path(".decree")), project.snapshot());
    for call in ["rename", "renameat2", "unlink", "fdatasync", "fsync"] {
        for nth in [1, 2, 4, 8] {
            become_like(project.root(), &tree);
            become_like(&project.path(".decree"), &own);
            let inject = format!("inject={call}:signal=KILL:when={nth}");
            let trace = format!("trace={call}");
            strace(project, &["recover"], &["-o", "/dev/null", "-e", &trace, "-e", &inject]);
            project.decree(["recover"]);
            let what = format!("{nth}. {call}");
            assert!(!project.exists(".decree/running.json"), "{what}");
            assert!(project.read("large.bin") == noise(700_000, 1), "{what}");
            assert!(!project.exists("new.txt"), "{what}");
            assert_eq!(project.read("changed.txt"), b"changed\n", "{what}");
            assert_eq!(fs::read_dir(project.path(".decree/inbox/dead")).unwrap().count(), 1, "{what}");
            project.checkpoint();
        }
    }
}

/// RCV-04. Without its manifest a run that had begun is not reverted, and that is never called a success.
#[test]
fn a_run_whose_manifest_is_gone_is_closed_as_not_restored() {
    let project = PipelineProject::with("rm notes.txt; rm -rf .decree/runs; sleep 60");
    let mut command = project.command();
    command.args(["run", "-m", "x", "-p", "y"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the routine deletes the runs", || !project.exists("notes.txt"));
    wait_until("the routine deletes the runs", || !project.exists(".decree/runs"));
    child.kill().unwrap();
    child.wait().unwrap();
    let process = project.process().fails(4).mentions(&["manifest", "the tree may have its changes"]);
    assert!(!process.err.contains("before it began"), "{}", process.err);
    let recovered = project.decree(["recover"]);
    assert_eq!(recovered.code, 4, "{}", recovered.err);
    assert!(!recovered.err.contains("as it was before"), "{}", recovered.err);
}

/// RCV-31. The index is at the end of a pack, and the contents are before it.
#[test]
fn a_pack_that_lost_its_end_gives_back_what_is_before_it() {
    for cut in ["200", "30", "1"] {
        let scene = Scene::new();
        let project = &scene.project;
        scene.routine(&format!("truncate -s -{cut} {}", scene.pack.display()));
        let mut child = project.command();
        child.arg("process");
        crate::harness::run_command(&mut child);
        project.write("deleted.txt", "in the way\n").write("large.bin", "x");
        let id = fs::read_dir(project.path(".decree/checkpoints")).unwrap().next().unwrap().unwrap();
        let id = id.file_name().into_string().unwrap();
        scene.recover(0);
        project.decree(["checkpoint", "verify", &id]).ok();
        project.decree(["rollback", &id]).ok();
        assert_same(&project.snapshot(), &scene.before);
    }
}

/// RCV-32. Nothing has to be unfinished for content to be lost.
#[test]
fn content_that_is_lost_is_never_a_success() {
    let scene = Scene::new();
    let project = &scene.project;
    project.remove("changed.txt");
    let flip = scene.flip();
    assert!(std::process::Command::new("bash").args(["-c", &flip]).status().unwrap().success());
    let output = project.decree(["recover", "--dry-run"]).fails(4);
    assert!(output.text().contains("lost"), "{}", output.text());
    assert!(scene.pack.exists());
    let answer = scene.recover(4);
    assert_eq!(answer["recovered"], false, "{answer:#}");
    project.decree(["recover"]).ok();
}

/// RCV-33. A file that the run made is removed, not restored.
#[test]
fn recover_calls_what_it_removes_removed() {
    let scene = Scene::new();
    scene.routine(&scene.flip()).project.decree(["process"]).fails(4);
    let status = scene.project.decree(["status"]).ok();
    assert!(!status.text().contains("`decree process` recovers it"), "{}", status.text());
    assert!(status.text().contains("decree recover"), "{}", status.text());
    let planned = scene.project.decree(["recover", "--dry-run"]).fails(4).text();
    assert!(planned.contains("would be removed: new.txt\n"), "{planned}");
    let output = scene.project.decree(["recover"]).fails(4).text();
    assert!(
        output.contains("\nremoved: new.txt\n") && output.contains("\nrestored: large.bin\n"),
        "{output}"
    );
}

/// RCV-34. git's own state goes back with the files.
#[test]
fn recover_restores_git_too() {
    let scene = Scene::new();
    let project = &scene.project;
    let git = |args: &str| {
        let script = format!("git -c user.name=x -c user.email=x@x {args}");
        let output =
            std::process::Command::new("bash").args(["-c", &script]).current_dir(project.root()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(
        "init -q -b main . && echo /.decree >.gitignore && git add -A && git -c user.name=x -c user.email=x@x commit -qm first",
    );
    project.checkpoint();
    let (head, index) = (git("rev-parse HEAD"), git("ls-files -s"));
    let commit = "git checkout -qb other; git add -A; git -c user.name=y -c user.email=y@y commit -qm evil";
    scene.routine(&format!("{commit}\n{}", scene.flip()));
    project.decree(["process"]).fails(4);
    assert_eq!(git("symbolic-ref HEAD"), "refs/heads/other");
    let output = project.decree(["recover"]).fails(4);
    assert_eq!((git("symbolic-ref HEAD"), git("rev-parse HEAD")), ("refs/heads/main".to_owned(), head));
    assert_eq!(git("ls-files -s"), index);
    output.mentions(&["refs/decree/runs/"]);
}

/// RCV-35. Secrets were in the memory of the decree that was killed.
#[test]
fn recover_names_the_secrets_that_it_cannot_restore() {
    let scene = Scene::new();
    let project = &scene.project;
    project.write(".env", "TOKEN=1\n");
    let at = scene.small_end - 6;
    project.write(
        ".decree/routines/develop.sh",
        format!(
            "{CHANGES}rm .env\nprintf XX | dd of={} bs=1 seek={at} conv=notrunc status=none\necho x >ready; sleep 60\n",
            scene.pack.display()
        ),
    );
    let mut child = project.command().arg("process").stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path("ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    project.decree(["recover"]).fails(4).mentions(&[".env"]);
}

/// RCV-41.
#[test]
fn a_run_that_cannot_be_reverted_names_what_became_of_likely_secrets() {
    let scene = Scene::new();
    let project = &scene.project;
    project.write(".env", "TOKEN=1\n").write(".gitignore", "*.p12\n");
    scene.routine(&format!("rm .env; echo x >made.p12; {}", scene.flip()));
    let output = project.decree(["process"]).fails(4);
    output.mentions(&[
        "the tree is as the run left it",
        ".env was deleted; it is a likely secret, and as it was again",
        "made.p12 was made; it is a likely secret, and stays",
    ]);
    assert_eq!(project.read(".env"), b"TOKEN=1\n");
    let output = project.decree(["recover"]).fails(4);
    let output =
        output.mentions(&["made.p12 was made; it is a likely secret that an ignore rule hides, and stays"]);
    assert!(!output.err.contains(".env was"), "{}", output.err);
    assert!(project.exists("made.p12"));
    scene.assert_works();
}

/// RCV-36. A kept command that destroyed the way back is told so.
#[test]
fn a_kept_command_that_damaged_the_store_is_promised_no_rollback() {
    let scene = Scene::new();
    let project = &scene.project;
    let script = format!("{CHANGES}{}", scene.flip());
    let output = project.decree(["guard", "--", "bash", "-c", &script]).fails(4);
    assert!(!output.err.contains("rolls the tree back to before"), "{}", output.err);
    output.mentions(&["kept", "changed.txt"]);
    assert_eq!(project.read("changed.txt"), b"changed\n");
    // A pack that was only deleted comes back.
    let scene = Scene::new();
    let script = format!("{CHANGES}rm -rf .decree/store");
    let output = scene.project.decree(["guard", "--", "bash", "-c", &script]).ok();
    output.mentions(&["rolls the tree back to before"]);
}

/// RCV-37.
#[test]
fn a_checkpoint_of_which_all_is_lost_counts_no_more_than_there_is() {
    let scene = Scene::new();
    let project = &scene.project;
    let git = "git init -q . && git add notes 2>/dev/null; git add kept.txt";
    assert!(
        std::process::Command::new("bash")
            .args(["-c", git])
            .current_dir(project.root())
            .status()
            .unwrap()
            .success()
    );
    let id = project.checkpoint();
    for pack in packs(&project.path(".decree/store")) {
        fs::remove_file(pack).unwrap();
    }
    let output = project.decree(["checkpoint", "verify", &id]).fails(4);
    let (n, all) = output.err.split_once("does not verify: ").unwrap().1.split_once(" of ").unwrap();
    let all: usize = all.split(' ').next().unwrap().parse().unwrap();
    assert!(n.parse::<usize>().unwrap() <= all, "{}", output.err);
}

/// RCV-38.
#[test]
fn a_dead_letter_that_is_no_text_is_named_with_its_reason() {
    let scene = Scene::new();
    scene.project.remove("specs/01-work.spec.md").write(".decree/inbox/bin.md", b"\xff\xfe\n");
    scene.project.decree(["process"]).fails(1);
    let text = scene.project.decree(["status"]).ok().text();
    assert!(text.contains("bin (") && !text.contains("bin ()"), "{text}");
}
