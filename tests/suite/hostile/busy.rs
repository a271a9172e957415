//! Another program writes to the tree while files are moved: all other paths are restored, and nothing is lost.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::harness::{CommandOutput, Project, TreeSnapshot, assert_same};

const WORDS: &str = "written by another program\n";

/// A project of which every file changed since the checkpoint.
struct Scene {
    project: Project,
    id: String,
    before: TreeSnapshot,
}

impl Scene {
    /// The last path moves out of the tree first, and gets its new file last.
    fn new(before: impl Fn(&Project) -> &Project, after: impl Fn(&Project) -> &Project) -> Scene {
        let project = Project::new();
        for n in 0..400 {
            project.write(format!("many/{n}"), format!("{n} before\n"));
        }
        before(&project);
        let picture = project.snapshot();
        let id = project.checkpoint();
        for n in 0..400 {
            project.write(format!("many/{n}"), format!("{n} after\n"));
        }
        after(&project);
        Scene { project, id, before: picture }
    }

    /// Rolls back, and calls `act` when a path is out of the tree, until it says that it is enough.
    fn roll_back_while(&self, gone: &str, act: impl Fn(&Path) -> bool + Sync) -> CommandOutput {
        let (path, over) = (self.project.path(gone), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while path.symlink_metadata().is_ok() && !over.load(Ordering::Relaxed) {}
                while !over.load(Ordering::Relaxed) && act(&path) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let output = self.project.decree(["rollback", &self.id]);
            over.store(true, Ordering::Relaxed);
            output
        })
    }

    #[track_caller]
    fn assert_nothing_waits(&self) {
        let left = fs::read_dir(self.project.path(".decree/tmp")).into_iter().flatten().count();
        assert_eq!(left, 0, "there is unfinished work");
    }

    /// Files of decree's own with the words in them.
    fn kept(&self) -> Vec<PathBuf> {
        let mut kept = Vec::new();
        let mut todo = vec![self.project.path(".decree/checkpoints")];
        while let Some(dir) = todo.pop() {
            for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                match path.is_dir() {
                    true => todo.push(path),
                    false if fs::read(&path).unwrap() == WORDS.as_bytes() => kept.push(path),
                    false => {}
                }
            }
        }
        kept
    }
}

fn once(path: &Path) -> bool {
    fs::write(path, WORDS).unwrap();
    false
}

/// Rolls back in new scenes until `shows` says that the other program was in time: on a busy machine it may come too late.
#[track_caller]
fn repeat_until_in_time(shows: impl FnMut(usize) -> bool) {
    assert!((0..20).any(shows), "the other program was never in time");
}

/// Rolls back while something turns up once where `z` was.
#[track_caller]
fn assert_quarantined_once(make: impl Fn() -> Scene, act: impl Fn(&Path) -> bool + Sync) {
    repeat_until_in_time(|_| {
        let scene = make();
        let output = scene.roll_back_while("z", &act);
        if !output.err.contains("set-aside") {
            return false;
        }
        output.ok().mentions(&["z"]);
        assert_same(&scene.project.snapshot(), &scene.before);
        assert_eq!(scene.kept().len(), 1, "the words are kept, once");
        scene.assert_nothing_waits();
        true
    });
}

#[test]
fn a_file_that_turns_up_where_one_is_to_be_put_is_set_aside() {
    let make = || Scene::new(|it| it.write("z", "before\n"), |it| it.write("z", "after\n"));
    assert_quarantined_once(make, once);
}

#[test]
fn a_file_that_turns_up_where_none_shall_be_is_set_aside() {
    let make = || Scene::new(|it| it, |it| it.write("z", "new\n"));
    assert_quarantined_once(make, once);
}

#[test]
fn a_directory_that_turns_up_where_a_file_is_to_be_put_is_set_aside() {
    let make = || Scene::new(|it| it.write("z", "before\n"), |it| it.write("z", "after\n"));
    assert_quarantined_once(make, |path| {
        fs::create_dir(path).unwrap();
        once(&path.join("inside"))
    });
}

#[test]
fn what_turns_up_in_a_directory_that_becomes_a_file_is_set_aside_with_it() {
    let scene = Scene::new(|it| it.write("z", "before\n"), |it| it.remove("z").write("z/one", "after\n"));
    // It may be gone by then; then it is too late to be in the way.
    let output = scene.roll_back_while("z/one", |path| {
        let _ = fs::write(path.with_file_name("intruder"), WORDS);
        false
    });
    output.ok();
    assert_same(&scene.project.snapshot(), &scene.before);
    scene.assert_nothing_waits();
}

#[test]
fn a_file_where_a_directory_shall_be_is_set_aside() {
    let make = || Scene::new(|it| it.write("z/one", "before\n"), |it| it.remove("z").write("z", "after\n"));
    assert_quarantined_once(make, once);
}

#[test]
fn a_file_that_keeps_being_written_leaves_every_other_path_right() {
    repeat_until_in_time(|_| {
        let scene = Scene::new(|it| it.write("z", "before\n"), |it| it.write("z", "after\n"));
        let output = scene.roll_back_while("z", |path| {
            fs::write(path, WORDS).unwrap();
            true
        });
        if output.code == 0 {
            return false;
        }
        // Which of two checks finds it depends on how often the writer gets to run.
        let output = output.fails(4);
        let found_while_moving = output.err.contains("another process writes to");
        if found_while_moving {
            output.mentions(&["z: expected", "stop the process that writes there"]);
        } else {
            output.mentions(&["the tree does not match", "\n  z\n", "another process may be writing to it"]);
        }
        let mut tree = scene.project.snapshot();
        let mut wanted = scene.before.clone();
        tree.remove(&b"z"[..]);
        wanted.remove(&b"z"[..]);
        assert_same(&tree, &wanted);
        scene.assert_nothing_waits();
        scene.project.decree(["rollback", &scene.id]).ok();
        assert_same(&scene.project.snapshot(), &scene.before);
        true
    });
}

/// Rolls back while a process that had `z` open before appends to it, after it was replaced. `None` if that was too late.
fn roll_back_while_appending(scene: &Scene) -> Option<CommandOutput> {
    let path = scene.project.path("z");
    let inode = |path: &Path| path.symlink_metadata().ok().map(|found| found.ino());
    let before = inode(&path);
    let mut writer = Command::new("bash")
        .args(["-c", "exec 3>>z; echo open; read -r && printf '%s' \"$WORDS\" >&3; echo written"])
        .env("WORDS", WORDS)
        .current_dir(scene.project.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert_eq!(answers.next().unwrap().unwrap(), "open");
    let mut stdin = writer.stdin.take().unwrap();
    let over = AtomicBool::new(false);
    let (output, was_in_time) = std::thread::scope(|scope| {
        let appends = scope.spawn(|| {
            while inode(&path) == before && !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            // By then it is checked: it moved first, and 400 others follow.
            std::thread::sleep(Duration::from_millis(3));
            let is_late = over.load(Ordering::Relaxed);
            if !is_late {
                stdin.write_all(b"\n").unwrap();
                assert_eq!(answers.next().unwrap().unwrap(), "written");
            }
            drop(stdin);
            // The last check comes after the mark that all is done.
            let restores = fs::read_dir(scene.project.path(".decree/tmp")).into_iter().flatten().flatten();
            let is_going_on = |dir: PathBuf| dir.join("journal.json").exists() && !dir.join("done").exists();
            !is_late && restores.map(|entry| entry.path()).any(is_going_on)
        });
        let output = scene.project.decree(["rollback", &scene.id]);
        over.store(true, Ordering::Relaxed);
        (output, appends.join().unwrap())
    });
    writer.wait().unwrap();
    was_in_time.then_some(output)
}

/// REV-16. A process that had a file open before the rollback appends to it after it has moved out of the tree.
#[test]
fn a_line_appended_through_an_open_descriptor_is_set_aside_and_named() {
    for before in ["before\n", ""] {
        repeat_until_in_time(|_| {
            let scene = Scene::new(
                |it| if before.is_empty() { it } else { it.write("z", before) },
                |it| it.write("z", "after\n"),
            );
            let Some(output) = roll_back_while_appending(&scene) else { return false };
            output.ok().mentions(&["z", "set-aside"]);
            assert_same(&scene.project.snapshot(), &scene.before);
            let checkpoints = fs::read_dir(scene.project.path(".decree/checkpoints")).unwrap();
            let kept = checkpoints.filter_map(|dir| fs::read(dir.unwrap().path().join("set-aside/z")).ok());
            assert_eq!(kept.collect::<Vec<_>>(), [format!("after\n{WORDS}").into_bytes()]);
            scene.assert_nothing_waits();
            true
        });
    }
}
