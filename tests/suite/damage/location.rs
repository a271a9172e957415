//! Where decree works: `DECREE_STORE`, the home directory, and a project that another decree has locked.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::process::Stdio;

use crate::harness::{CommandOutput, Project, TreeSnapshot, assert_same, run_command, wait_for};

fn with_env(project: &Project, key: &str, value: impl AsRef<OsStr>, args: &[&str]) -> CommandOutput {
    let mut command = project.command();
    run_command(command.env(key, value.as_ref()).args(args))
}

#[track_caller]
fn round_trip_with_store(project: &Project, store: &OsStr) -> String {
    project.write("a", "a\n").write("b/c", b"\0c").link("l", "a");
    let run = |args: &[&str]| with_env(project, "DECREE_STORE", store, args);
    let original = project.snapshot();
    let id = run(&["checkpoint", "create"]).ok().line();
    assert!(run(&["diff", &id]).ok().out.is_empty(), "the store itself shows in the diff");
    let files = run(&["checkpoint", "show", "--files", &id]).ok().text();
    assert!(!files.contains(".pack"), "{files}");
    project.write("a", "A\n").remove("b").write("n", "n\n");
    // A second checkpoint adds to the store, which is no change of the tree.
    run(&["checkpoint", "create"]).ok();
    run(&["revert", &id]).ok();
    let own = |path: &Vec<u8>| !path.starts_with(b"cache");
    let restored = project.snapshot().into_iter().filter(|(path, _)| own(path)).collect();
    assert_same(&restored, &original);
    run(&["checkpoint", "verify", "--all"]).ok();
    assert!(!project.exists(".decree/store"), "there is a store in .decree as well");
    id
}

/// STO-03.
#[test]
fn the_store_may_be_outside_of_the_tree() {
    let (project, outside) = (Project::new(), Project::bare());
    let id = round_trip_with_store(&project, outside.path("store").as_os_str());
    assert!(fs::read_dir(outside.path("store")).unwrap().count() > 0);
    project.decree(["checkpoint", "verify", &id]).fails(4).mentions(&["store"]);
}

fn names(project: &Project, dir: &str) -> Vec<String> {
    let names = fs::read_dir(project.path(dir)).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// STO-15.
#[test]
fn a_forgotten_store_is_named_by_every_command_that_needs_it() {
    let (project, outside) = (Project::new(), Project::bare());
    let store = outside.path("the store");
    let run = |args: &[&str]| with_env(&project, "DECREE_STORE", &store, args);
    project.write("a", "a\n").write("gone", "b\n").write(".decree/routines/develop.sh", "echo work >a\n");
    run(&["run", "-m", "x", "-p", "y"]).ok();
    let own = names(&project, ".decree/runs")[0].clone();
    let id = run(&["checkpoint", "create"]).ok().line();
    project.write("a", "other\n").remove("gone");
    let changed = project.snapshot();
    let (store, checkpoints) = (store.canonicalize().unwrap(), names(&project, ".decree/checkpoints").len());
    for args in [&["rollback", &id][..], &["revert", &id], &["diff", &id], &["rollback", &own]] {
        let hint = format!("DECREE_STORE='{}'", store.display());
        project.decree(args).fails(4).mentions(&["content", "store", &hint]);
        assert_same(&project.snapshot(), &changed);
    }
    project.decree(["revert", &id]).fails(4);
    assert!(names(&project, ".decree/checkpoints").len() <= checkpoints + 2, "each try left a checkpoint");
    run(&["rollback", &id]).ok();
    assert_eq!(project.read("gone"), b"b\n");
    let plain = project.checkpoint();
    project.write("a", "third\n").write("new", "x\n");
    let empty = outside.path("another");
    let output = with_env(&project, "DECREE_STORE", &empty, &["rollback", &plain]).fails(4);
    output.mentions(&["without DECREE_STORE"]);
}

/// STO-16. The content of the run is not lost, and so the run must not be closed as lost.
#[test]
fn a_forgotten_store_is_named_after_a_kill_of_a_run_or_a_guard() {
    let work = "echo bad >a; echo x >.decree/ready; while :; do sleep 0.05; done";
    for is_guard in [false, true] {
        let (project, outside) = (Project::new(), Project::bare());
        let store = outside.path("the store");
        project.write("a", "a\n").write(".decree/routines/develop.sh", work);
        let before = project.snapshot();
        let started =
            if is_guard { ["guard", "--", "bash", "-c", work] } else { ["run", "-m", "x", "-p", "y"] };
        let mut command = project.command();
        let command = command.env("DECREE_STORE", &store).args(started);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for(&project.path(".decree/ready"));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = store.canonicalize().unwrap();
        let (hint, left) = (format!("DECREE_STORE='{}'", store.display()), project.snapshot());
        let commands: &[&[&str]] =
            if is_guard { &[&["recover"]] } else { &[&["process"], &["recover"], &["recover", "--dry-run"]] };
        for args in commands {
            let output = project.decree(*args).fails(4).mentions(&["in another store", &hint]);
            assert!(!output.err.contains("damaged"), "{}", output.err);
            assert_same(&project.snapshot(), &left);
        }
        with_env(&project, "DECREE_STORE", &store, &["recover"]).ok();
        assert_same(&project.snapshot(), &before);
    }
}

/// STO-03.
#[test]
fn the_store_may_be_inside_of_the_tree() {
    let project = Project::new();
    round_trip_with_store(&project, project.path("cache/store").as_os_str());
    assert!(project.exists("cache/store"));
    let project = Project::new();
    round_trip_with_store(&project, OsStr::new("cache"));
    assert!(project.exists("cache"));
}

/// The same place under another name: through a link, or with a detour.
#[test]
fn a_store_inside_of_the_tree_is_known_under_any_name() {
    let (project, elsewhere) = (Project::new(), Project::bare());
    elsewhere.link("door", project.root().to_str().unwrap());
    round_trip_with_store(&project, elsewhere.path("door/cache/store").as_os_str());
    let project = Project::new();
    project.mkdir("b");
    round_trip_with_store(&project, project.path("b/../cache").as_os_str());
    let project = Project::new();
    round_trip_with_store(&project, OsStr::new("./cache//store/"));
}

#[test]
fn two_projects_may_share_a_store() {
    let (one, two, store) = (Project::new(), Project::new(), Project::bare());
    round_trip_with_store(&one, store.root().as_os_str());
    round_trip_with_store(&two, store.root().as_os_str());
    with_env(&one, "DECREE_STORE", store.root(), &["checkpoint", "verify", "--all"]).ok();
}

/// CHK-08.
#[test]
fn the_home_directory_is_refused_as_a_project() {
    let project = Project::new();
    project.write("file", "x\n");
    for args in [&["checkpoint", "create"][..], &["init"], &["checkpoint", "list"]] {
        with_env(&project, "HOME", project.root(), args).fails(3).mentions(&["home directory"]);
    }
    let link = Project::bare();
    link.link("home", project.root().to_str().unwrap());
    with_env(&project, "HOME", link.path("home"), &["checkpoint", "create"]).fails(3);
    project.write("work/.decree/config.yml", "");
    let mut inside = project.command();
    inside.current_dir(project.path("work")).env("HOME", project.root());
    run_command(inside.args(["checkpoint", "create"])).ok();
}

/// CHK-09.
#[test]
fn a_second_decree_reports_that_the_project_is_in_use() {
    let project = Project::new();
    project.write("file", "x\n");
    let id = project.checkpoint();
    project.write("file", "y\n");
    project.decree(["revert", &id]).ok();
    project.write("file", "y\n");
    let before = project.snapshot();

    let lock = File::options().read(true).write(true).open(project.path(".decree/lock")).unwrap();
    lock.lock().unwrap();
    for args in [&["checkpoint", "create"][..], &["revert", &id], &["apply", &id]] {
        project.decree(args).fails(5).mentions(&["another decree"]);
    }
    // Those who only look need no lock.
    project.decree(["diff", &id]).ok();
    project.decree(["checkpoint", "list"]).ok();
    project.decree(["checkpoint", "verify", &id]).ok();
    assert_same(&project.snapshot(), &before);
    // Not by closing it: a process that another test is just starting may have it open for a moment.
    lock.unlock().unwrap();
    project.decree(["revert", &id]).ok();
    assert_eq!(project.read("file"), b"x\n");
}

/// The kernel drops a dead process's lock; what it wrote into the file does not count.
#[test]
fn a_lock_file_of_a_dead_process_does_not_block() {
    let project = Project::new();
    project.write(".decree/lock", r#"{"pid":1,"command":"process","since":"00:00:00"}"#).write("file", "x\n");
    project.checkpoint();
}

/// The project's own place may have any name, and be reached by any way.
#[test]
fn a_project_may_be_anywhere() {
    for name in [&b"caf\xe9"[..], b"two words\nand lines", b"-rf", b"\"quoted\"", "🦀".as_bytes()] {
        let outer = Project::bare();
        let at = |file: &str| [name, b"/", file.as_bytes()].concat();
        let run = |args: &[&str]| {
            let mut command = outer.command();
            run_command(command.current_dir(outer.path("link/sub")).args(args))
        };
        outer
            .mkdir(at(".decree"))
            .write(at("sub/file"), "x\n")
            .write(at(".gitignore"), "")
            .link("link", name);
        let original = outer.snapshot();
        let id = run(&["checkpoint", "create"]).ok().line();
        outer.write(at("sub/file"), "y\n").write(at(".gitignore"), "*.log\n").write(at("x.log"), "log\n");
        run(&["revert", &id]).ok().mentions(&["x.log"]);
        let ours = |picture: TreeSnapshot| -> TreeSnapshot {
            picture.into_iter().filter(|(path, _)| !path.starts_with(&at(".decree"))).collect()
        };
        assert_same(&ours(outer.snapshot()), &ours(original));
        run(&["apply", &id]).ok();
        assert_eq!(outer.read(at("sub/file")), b"y\n");
    }
}

#[test]
fn another_directory_can_be_named_on_the_command_line() {
    let (project, elsewhere) = (Project::new(), Project::bare());
    project.write("file", "x\n");
    let root = project.root().to_str().unwrap();
    let id = elsewhere.decree(["-C", root, "checkpoint", "create"]).ok().line();
    project.write("file", "y\n");
    elsewhere.decree(["-C", root, "revert", &id]).ok();
    assert_eq!(project.read("file"), b"x\n");
    elsewhere.decree(["-C", "nowhere", "checkpoint", "list"]).fails(1).mentions(&["nowhere"]);
}
