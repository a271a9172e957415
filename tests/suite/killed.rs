//! decree is killed at any moment; the next command leaves all of the change or nothing of it, and loses nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::generate::{become_like, cases, tree_of};
use super::harness::{Project, TreeEntry, TreeSnapshot, assert_same, skip, snapshot};

/// A checkpoint of `before`, and the recorded change to `after`.
struct Scene {
    project: Project,
    id: String,
    before: TreeSnapshot,
    after: TreeSnapshot,
}

/// A command that takes the tree from one of the two states to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Revert,
    Apply,
    Rollback,
}

const SIGKILL: i32 = 9;

impl Scene {
    fn new(before: TreeSnapshot, after: TreeSnapshot) -> Scene {
        let project = Project::new();
        become_like(project.root(), &before);
        let id = project.checkpoint();
        become_like(project.root(), &after);
        project.decree(["revert", &id]).ok();
        assert_same(&project.snapshot(), &before);
        Scene { project, id, before, after }
    }

    fn args(&self, which: Move) -> [&str; 2] {
        match which {
            Move::Revert => ["revert", &self.id],
            Move::Apply => ["apply", &self.id],
            Move::Rollback => ["rollback", &self.id],
        }
    }

    fn states(&self, which: Move) -> (&TreeSnapshot, &TreeSnapshot) {
        match which {
            Move::Revert | Move::Rollback => (&self.after, &self.before),
            Move::Apply => (&self.before, &self.after),
        }
    }

    fn start(&self, args: &[&str]) -> Child {
        self.project.command().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// How many lines the audit trail has of a command. A line that was cut off does not count.
    fn audit_lines(&self, which: Move) -> usize {
        let output = self.project.decree(["audit", "--format", "json"]).ok();
        let trail: serde_json::Value = serde_json::from_slice(&output.out).unwrap();
        let [action, subject] = self.args(which);
        let records = trail["records"].as_array().unwrap();
        records.iter().filter(|record| record["action"] == action && record["subject"] == subject).count()
    }

    /// How long a command takes when it is not killed.
    fn time(&self, args: &[&str], state: &TreeSnapshot) -> Duration {
        let times = (0..3).map(|_| {
            become_like(self.project.root(), state);
            let began = Instant::now();
            assert!(self.start(args).wait().unwrap().success());
            began.elapsed()
        });
        times.max().unwrap()
    }

    /// Runs a command and kills it after a while, if it is not done by then.
    fn kill_after(&self, args: &[&str], delay: Duration) {
        let mut child = self.start(args);
        sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Where a cut-off move has its files.
    fn unfinished(&self) -> Option<PathBuf> {
        let dirs = fs::read_dir(self.in_decree("tmp")).ok()?.flatten().map(|entry| entry.path());
        dirs.into_iter().find(|dir| dir.join("journal.json").exists())
    }

    /// Kills a command when what it has staged and what it has saved is as wanted. It may take a few tries to
    /// be there in time.
    fn cut_off_when(&self, which: Move, wanted: impl Fn(&[String], &[String]) -> bool) {
        let names = |dir: PathBuf| -> Vec<String> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
        };
        let there =
            || self.unfinished().is_some_and(|dir| wanted(&names(dir.join("new")), &names(dir.join("old"))));
        let can_trace = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
        let can_trace = can_trace.is_ok_and(|status| status.success());
        for attempt in 0..100 {
            become_like(self.project.root(), self.states(which).0);
            if can_trace && attempt % 2 == 1 {
                // On a busy machine the next lines may always come too late.
                kill_before(&self.project, &self.args(which), "renameat2", 5 + 4 * attempt);
            } else {
                let mut child = self.start(&self.args(which));
                while child.try_wait().unwrap().is_none() && !there() {}
                child.kill().unwrap();
                child.wait().unwrap();
            }
            if there() {
                return;
            }
            self.project.decree(self.args(which)).ok();
        }
        panic!("{which:?} was never caught in the act");
    }

    /// Kills a command when some of the new files are in place and others are not.
    fn cut_off_midway(&self, which: Move) {
        let in_place = |new: &[String], old: &[String]| {
            // What is replaced moves away first; then the new files come in, in order.
            !new.is_empty() && old.len() > 50 && new.len() < old.len() / 2
        };
        self.cut_off_when(which, in_place);
    }

    /// A path of a source file, by what is there now, what was there before the revert, and what is to be there.
    fn path_where(
        &self,
        wanted: impl Fn(Option<&TreeEntry>, Option<&TreeEntry>, Option<&TreeEntry>) -> bool,
    ) -> Vec<u8> {
        let now = self.project.snapshot();
        let (from, to) = self.states(Move::Revert);
        let paths = from.keys().chain(to.keys()).filter(|path| path.starts_with(b"src/"));
        let mut found = paths.filter(|path| wanted(now.get(*path), from.get(*path), to.get(*path)));
        found.next().expect("a path like that").clone()
    }

    fn in_decree(&self, dir: &str) -> PathBuf {
        self.project.path(format!(".decree/{dir}"))
    }

    /// Directly after a kill: the tree is where it should go, or every content is in it or beside it.
    #[track_caller]
    fn assert_nothing_lost(&self, from: &TreeSnapshot, to: &TreeSnapshot) {
        let tree = self.project.snapshot();
        if tree == *to {
            return;
        }
        let scratch = if self.in_decree("tmp").exists() {
            snapshot(&self.in_decree("tmp"))
        } else {
            TreeSnapshot::new()
        };
        let found: BTreeSet<&[u8]> = tree.values().chain(scratch.values()).filter_map(content).collect();
        for (path, thing) in from {
            if let Some(bytes) = content(thing) {
                assert!(found.contains(bytes), "the content of {:?} is gone", String::from_utf8_lossy(path));
            }
        }
    }

    #[track_caller]
    fn assert_all_or_nothing(&self, from: &TreeSnapshot, to: &TreeSnapshot) {
        let tree = self.project.snapshot();
        let wrong = |wanted: &TreeSnapshot| {
            wanted.iter().filter(|(path, thing)| tree.get(*path) != Some(thing)).count()
        };
        assert_same(&tree, if wrong(from) < wrong(to) { from } else { to });
    }

    /// After a command that took the lock: no unfinished work, no unfinished file.
    #[track_caller]
    fn assert_clean(&self) {
        let mut dirs = vec![self.in_decree("."), self.in_decree("store")];
        dirs.extend(fs::read_dir(self.in_decree("checkpoints")).unwrap().map(|entry| entry.unwrap().path()));
        let names = |dir: &PathBuf| -> Vec<String> {
            let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
            entries.map(|entry| entry.unwrap().path().display().to_string()).collect()
        };
        let mut left = names(&self.in_decree("tmp"));
        left.extend(dirs.iter().flat_map(names).filter(|path| path.contains("/tmp-")));
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    #[track_caller]
    fn assert_checkpoints_whole(&self) {
        self.project.decree(["checkpoint", "verify", "--all"]).ok();
    }

    /// A new checkpoint of the tree can be made, clears up, and is good.
    #[track_caller]
    fn assert_checkpoint_works(&self, tree: &TreeSnapshot) {
        let id = self.project.checkpoint();
        self.assert_clean();
        become_like(self.project.root(), &self.before);
        self.project.decree(["revert", &id]).ok();
        assert_same(&self.project.snapshot(), tree);
    }

    /// After `which` was killed: everything is there, and the next command makes it whole.
    ///
    /// Every other time that is another command, which has to leave all or nothing.
    #[track_caller]
    fn assert_recovers(&self, which: Move, round: u32) {
        let (from, to) = self.states(which);
        self.assert_nothing_lost(from, to);
        if round % 2 == 1 {
            self.project.decree(["checkpoint", "create", "--quiet"]).ok();
            self.assert_all_or_nothing(from, to);
            self.assert_clean();
        }
        self.project.decree(self.args(which)).ok();
        assert_same(&self.project.snapshot(), to);
        self.assert_clean();
    }
}

impl Drop for Scene {
    /// Only root could remove what is in a read-only directory.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            become_like(self.project.root(), &TreeSnapshot::new());
        }
    }
}

fn content(thing: &TreeEntry) -> Option<&[u8]> {
    match thing {
        TreeEntry::File { bytes, .. } => Some(bytes),
        TreeEntry::Link { target } => Some(target),
        _ => None,
    }
}

fn file(text: impl Into<Vec<u8>>) -> TreeEntry {
    TreeEntry::File { mode: 0o644, bytes: text.into() }
}

fn link(target: &str) -> TreeEntry {
    TreeEntry::Link { target: target.into() }
}

fn tree(things: impl IntoIterator<Item = (String, TreeEntry)>) -> TreeSnapshot {
    let things: Vec<(String, TreeEntry)> = things.into_iter().collect();
    tree_of(things.iter().map(|(path, thing)| (path.as_bytes(), thing.clone())))
}

/// One of everything that can happen to a path.
fn small() -> (TreeSnapshot, TreeSnapshot) {
    let dir = |mode| TreeEntry::Dir { mode };
    let named = |things: &[(&str, TreeEntry)]| {
        tree(things.iter().map(|(path, thing)| ((*path).to_owned(), thing.clone())))
    };
    let before = named(&[
        ("edited", file("one\ntwo\n")),
        ("binary", file(*b"\0old")),
        ("deleted/deep/file", file("deleted\n")),
        ("mode", file("mode\n")),
        ("link", link("old")),
        ("file-to-dir", file("was a file\n")),
        ("dir-to-file/x", file("was in a directory\n")),
        ("file-to-link", file("was no link\n")),
        ("empty-dir", dir(0o755)),
        ("private", dir(0o755)),
        ("private/x", file("x\n")),
        ("locked", dir(0o555)),
        ("locked/x", file("locked\n")),
        ("untouched", file("untouched\n")),
    ]);
    let after = named(&[
        ("edited", file("one\n2\n")),
        ("binary", file(*b"\0new")),
        ("mode", TreeEntry::File { mode: 0o700, bytes: b"mode\n".to_vec() }),
        ("link", link("new")),
        ("file-to-dir/y", file("is in a directory\n")),
        ("dir-to-file", file("is a file\n")),
        ("file-to-link", link("is a link")),
        ("private", dir(0o500)),
        ("private/x", file("y\n")),
        ("locked", dir(0o555)),
        ("locked/x", file("edited\n")),
        ("new/deep/file", file("new\n")),
        ("new-empty-dir", dir(0o755)),
        ("untouched", file("untouched\n")),
    ]);
    (before, after)
}

/// A few hundred files, a good part of which changes.
fn large() -> (TreeSnapshot, TreeSnapshot) {
    let (small_before, small_after) = small();
    let source = |n: usize, word: &str| -> TreeEntry {
        file((0..12).map(|line| format!("file {n} line {line} {word}\n")).collect::<String>())
    };
    let path = |n: usize| format!("src/part{}/file{n}.rs", n % 20);
    let before = tree((0..200).map(|n| (path(n), source(n, "old"))));
    let after = tree((0..220).filter(|n| n % 10 != 3).map(|n| {
        let thing = match n % 10 {
            0..=2 => source(n, "new"),
            4 => file([b"\0", format!("binary {n}").as_bytes()].concat()),
            _ => source(n, "old"),
        };
        (path(n), thing)
    }));
    (before.into_iter().chain(small_before).collect(), after.into_iter().chain(small_after).collect())
}

/// Moments spread evenly over somewhat more than a whole run.
fn moments(whole: Duration, rounds: u32) -> impl Iterator<Item = (u32, Duration)> {
    (0..rounds).map(move |round| (round, whole.mul_f64(1.2 * f64::from(round) / f64::from(rounds))))
}

fn killed_at_many_moments(which: Move) {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    let (from, _) = scene.states(which);
    let whole = scene.time(&scene.args(which), from);
    for (round, delay) in moments(whole, cases(40)) {
        become_like(scene.project.root(), from);
        scene.kill_after(&scene.args(which), delay);
        scene.assert_recovers(which, round);
        if round % 10 == 9 {
            scene.assert_checkpoints_whole();
        }
    }
    scene.assert_checkpoints_whole();
}

/// REC-02.
#[test]
fn a_revert_killed_at_any_moment_is_all_or_nothing() {
    killed_at_many_moments(Move::Revert);
}

/// REC-03.
#[test]
fn an_apply_killed_at_any_moment_is_all_or_nothing() {
    killed_at_many_moments(Move::Apply);
}

/// REC-01.
#[test]
fn a_checkpoint_killed_at_any_moment_leaves_the_tree_and_the_older_ones_alone() {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    let create = ["checkpoint", "create"];
    let state = |round: u32| {
        let mut tree = scene.after.clone();
        let fresh =
            (0..50).map(|n| (format!("fresh/{n}").into_bytes(), file(format!("{round} {n}\n").repeat(999))));
        tree.insert(b"fresh".to_vec(), TreeEntry::Dir { mode: 0o755 });
        tree.extend(fresh);
        tree
    };
    let whole = scene.time(&create, &state(1000));
    for (round, delay) in moments(whole, cases(40)) {
        let tree = state(round);
        become_like(scene.project.root(), &tree);
        scene.kill_after(&create, delay);
        assert_same(&scene.project.snapshot(), &tree);
        scene.project.decree(["checkpoint", "verify", &scene.id]).ok();
        scene.assert_checkpoint_works(&tree);
    }
    scene.assert_checkpoints_whole();
}

/// Everything that changes something on disk; `?` for what not every machine has.
pub const CALLS: &str = "?rename,?renameat,?renameat2,?unlink,?unlinkat,?rmdir,?mkdir,?mkdirat,?chmod,?fchmod,\
    ?fchmodat,?fchmodat2,?symlink,?symlinkat,?write,?fsync,?fdatasync,?syncfs";

/// decree under strace, in all its threads.
pub fn strace(project: &Project, args: &[&str], options: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq"])
        .args(options)
        .arg(project.command().get_program())
        .args(args)
        .current_dir(project.root())
        .env("RAYON_NUM_THREADS", "1")
        .stdin(Stdio::null());
    command.output().unwrap()
}

/// How often each call was made at the most by one thread. strace counts by thread, too.
pub fn count_calls(project: &Project, args: &[&str]) -> BTreeMap<String, u32> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let path = log.path().to_str().unwrap();
    let trace = format!("trace={CALLS}");
    assert!(strace(project, args, &["-o", path, "-e", &trace]).status.success());
    let mut by_thread: BTreeMap<(String, String), u32> = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let (thread, call) = line.split_once(' ').unwrap();
        if let Some((name, _)) = call.trim_start().split_once('(') {
            *by_thread.entry((name.to_owned(), thread.to_owned())).or_default() += 1;
        }
    }
    let mut counts = BTreeMap::new();
    for ((name, _), count) in by_thread {
        let most: &mut u32 = counts.entry(name).or_default();
        *most = count.max(*most);
    }
    counts
}

/// Kills decree just before a thread makes some call for the `nth` time; returns whether it came to that. It succeeds otherwise.
pub fn kill_before(project: &Project, args: &[&str], call: &str, nth: u32) -> bool {
    let output = run_until(project, args, call, nth);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let killed = was_killed(&output);
    assert!(killed || output.status.success(), "{nth}. {call}: {}: {stderr}", output.status);
    killed
}

/// The same for a command that may fail if it is not killed.
pub fn is_killed_before(project: &Project, args: &[&str], call: &str, nth: u32) -> bool {
    was_killed(&run_until(project, args, call, nth))
}

fn was_killed(output: &Output) -> bool {
    output.status.signal() == Some(SIGKILL) || output.status.code() == Some(128 + SIGKILL)
}

fn run_until(project: &Project, args: &[&str], call: &str, nth: u32) -> Output {
    let inject = format!("inject={call}:signal=KILL:when={nth}");
    strace(project, args, &["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject])
}

/// Whether there is a strace here that may trace.
#[track_caller]
pub fn has_strace() -> bool {
    skip::works(Command::new("strace").args(["-o", "/dev/null", "true"]), "strace may not trace")
}

/// Prepares, runs and kills a command before each of its calls, and checks what is left.
fn before_every_call(
    scene: &Scene,
    args: &[&str],
    mut prepare: impl FnMut(&str),
    mut check: impl FnMut(u32),
) {
    prepare("count");
    let calls = count_calls(&scene.project, args);
    let all: u32 = calls.values().sum();
    let mut kills = 0;
    for (call, count) in &calls {
        for nth in 1..=*count {
            prepare(&format!("{call} {nth}"));
            kills += u32::from(kill_before(&scene.project, args, call, nth));
            check(nth);
        }
    }
    // Not every run makes exactly as many calls as the one that was counted.
    assert!(all > 15 && kills * 10 > all * 9, "killed at only {kills} of {calls:?}");
    scene.assert_checkpoints_whole();
}

fn killed_before_every_call(which: Move) {
    if !has_strace() {
        return;
    }
    let (before, after) = small();
    let scene = Scene::new(before, after);
    let (from, _) = scene.states(which);
    let lines = RefCell::new(0);
    let prepare = |_: &str| {
        become_like(scene.project.root(), from);
        *lines.borrow_mut() = scene.audit_lines(which);
    };
    before_every_call(&scene, &scene.args(which), prepare, |nth| {
        scene.assert_recovers(which, nth);
        let added = scene.audit_lines(which) - *lines.borrow();
        assert_eq!(added, 1, "{which:?} is done once, so it has one line in the audit trail");
    });
}

/// REC-02.
#[test]
fn a_revert_killed_before_any_system_call_is_all_or_nothing() {
    killed_before_every_call(Move::Revert);
}

/// REC-03.
#[test]
fn an_apply_killed_before_any_system_call_is_all_or_nothing() {
    killed_before_every_call(Move::Apply);
}

#[test]
fn a_rollback_killed_before_any_system_call_is_all_or_nothing_and_in_the_audit_trail_once() {
    killed_before_every_call(Move::Rollback);
}

/// REC-01.
#[test]
fn a_checkpoint_killed_before_any_system_call_leaves_the_tree_and_the_older_ones_alone() {
    if !has_strace() {
        return;
    }
    let (before, after) = small();
    let scene = Scene::new(before, after);
    let tree = RefCell::new(scene.after.clone());
    let prepare = |what: &str| {
        tree.borrow_mut().insert(b"fresh".to_vec(), file(what));
        become_like(scene.project.root(), &tree.borrow());
    };
    before_every_call(&scene, &["checkpoint", "create"], prepare, |_| {
        assert_same(&scene.project.snapshot(), &tree.borrow());
        scene.project.decree(["checkpoint", "verify", &scene.id]).ok();
        scene.assert_checkpoint_works(&tree.borrow());
    });
}

/// The command that picks up what another left can be killed as well, on its way forwards and on its way back.
#[test]
fn a_recovery_killed_before_any_system_call_is_all_or_nothing() {
    if !has_strace() {
        return;
    }
    let (before, after) = small();
    let scene = Scene::new(before, after);
    let (from, _) = scene.states(Move::Revert);
    let words = RefCell::new(String::new());
    for (way_back, intruder) in [(false, false), (true, false), (false, true), (true, true)] {
        let prepare = |what: &str| {
            become_like(scene.project.root(), from);
            // Nine files move out of the tree, then nine move into it.
            assert!(kill_before(&scene.project, &scene.args(Move::Revert), "renameat2", 14));
            if way_back {
                empty_a_staged_file(&scene);
            }
            if intruder {
                let project = &scene.project;
                let away = from.iter().rev().find(|(path, thing)| {
                    let has_dir = project.path(path).parent().is_some_and(Path::is_dir);
                    is_file(Some(thing)) && !project.exists(path) && has_dir
                });
                *words.borrow_mut() = format!("written at the same time: {what}, {way_back}\n");
                project.write(away.expect("something moved away").0, words.borrow().as_bytes());
            }
        };
        let check = |nth| {
            scene.assert_recovers(Move::Revert, nth);
            let words = words.borrow();
            let kept = words.is_empty() || holds(&scene.in_decree("checkpoints"), words.as_bytes());
            assert!(kept, "gone: {words}");
        };
        before_every_call(&scene, &["checkpoint", "create"], prepare, check);
    }
}

#[test]
fn a_recovery_killed_again_and_again_is_all_or_nothing() {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    for which in [Move::Revert, Move::Apply] {
        let (from, to) = scene.states(which);
        let whole = scene.time(&scene.args(which), from);
        for (round, delay) in moments(whole, 8) {
            become_like(scene.project.root(), from);
            for (_, earlier) in moments(delay, 4) {
                scene.kill_after(&scene.args(which), delay - earlier / 2);
                scene.assert_nothing_lost(from, to);
            }
            scene.assert_recovers(which, round);
        }
    }
}

/// As a power cut may do with what was not yet on disk.
fn empty_a_staged_file(scene: &Scene) {
    let staged = scene.unfinished().expect("there is a journal").join("new");
    let files = fs::read_dir(staged).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.symlink_metadata().unwrap().is_file());
    fs::write(files.next().expect("something is still staged"), "").unwrap();
}

/// REC-04.
#[test]
fn a_staged_file_that_a_power_cut_emptied_means_the_way_back() {
    for which in [Move::Revert, Move::Apply] {
        let (before, after) = large();
        let scene = Scene::new(before, after);
        let (from, to) = scene.states(which);
        scene.cut_off_midway(which);
        empty_a_staged_file(&scene);
        scene.project.decree(["checkpoint", "create"]).ok().mentions(&["was interrupted", "undone"]);
        assert_same(&scene.project.snapshot(), from);
        scene.assert_clean();
        scene.project.decree(scene.args(which)).ok();
        assert_same(&scene.project.snapshot(), to);
    }
}

#[test]
fn a_file_already_put_in_place_that_a_power_cut_emptied_means_the_way_back() {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    let (from, to) = scene.states(Move::Revert);
    scene.cut_off_midway(Move::Revert);
    let path = scene.path_where(|now, from, to| now == to && is_file(now) && from != to);
    fs::write(scene.project.path(&path), "").unwrap();
    scene.project.decree(["checkpoint", "create"]).ok();
    assert_same(&scene.project.snapshot(), from);
    scene.project.decree(scene.args(Move::Revert)).ok();
    assert_same(&scene.project.snapshot(), to);
}

const WORDS: &[u8] = b"what a person wrote at the same time\n";

/// A person writes to `path` after a revert was cut off. Their words stay, and the work is brought to an end.
#[track_caller]
fn a_person_writes(scene: &Scene, path: &[u8]) {
    let name = String::from_utf8_lossy(path).into_owned();
    scene.project.write(path, WORDS);
    let output = scene.project.decree(scene.args(Move::Revert)).ok();
    assert!(holds(scene.project.root(), WORDS), "{name}: the words are gone; {}", output.err);
    assert_same(&scene.project.snapshot(), &scene.before);
    scene.assert_clean();
}

#[test]
fn a_persons_file_does_not_keep_a_move_from_being_undone() {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    let put = |now: Option<&TreeEntry>, from: Option<&TreeEntry>, to: Option<&TreeEntry>| {
        now == to && is_file(now) && from != to
    };
    let away = |now: Option<&TreeEntry>, from: Option<&TreeEntry>, _: Option<&TreeEntry>| {
        now.is_none() && is_file(from)
    };
    for wanted in [put, away] {
        scene.cut_off_midway(Move::Revert);
        empty_a_staged_file(&scene);
        let path = scene.path_where(wanted);
        scene.project.write(&path, WORDS);
        scene.project.decree(["checkpoint", "create"]).ok().mentions(&["was interrupted", "undone"]);
        assert!(holds(&scene.in_decree("checkpoints"), WORDS), "the words are gone");
        assert_same(&scene.project.snapshot(), &scene.after);
        scene.assert_clean();
    }
}

/// Whether some file in a directory has these bytes in it.
fn holds(dir: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).any(|path| match path.symlink_metadata() {
        Ok(found) if found.is_dir() => holds(&path, bytes),
        Ok(found) if found.is_file() => {
            fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes)
        }
        _ => false,
    })
}

fn is_file(thing: Option<&TreeEntry>) -> bool {
    matches!(thing, Some(TreeEntry::File { .. }))
}

/// REC-05.
#[test]
fn a_persons_edit_of_a_file_already_put_in_place_is_kept() {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    scene.cut_off_midway(Move::Revert);
    let path = scene.path_where(|now, from, to| now == to && is_file(now) && is_file(from) && from != to);
    a_person_writes(&scene, &path);
}

#[test]
fn a_persons_edit_of_a_file_yet_to_be_replaced_is_kept() {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    scene.cut_off_when(Move::Revert, |new, old| {
        !new.is_empty() && !old.is_empty() && old.len() < new.len() / 2
    });
    let path = scene.path_where(|now, from, to| now == from && is_file(now) && is_file(to) && from != to);
    a_person_writes(&scene, &path);
}

#[test]
fn a_persons_file_where_one_was_moved_away_is_kept() {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    scene.cut_off_midway(Move::Revert);
    let path = scene.path_where(|now, from, to| now.is_none() && is_file(from) && to.is_none());
    a_person_writes(&scene, &path);

    scene.cut_off_midway(Move::Revert);
    let path = scene.path_where(|now, from, to| now.is_none() && is_file(from) && is_file(to));
    a_person_writes(&scene, &path);
}

#[test]
fn a_persons_new_file_beside_the_change_stays_where_it_is() {
    let (before, after) = large();
    let scene = Scene::new(before, after);
    scene.cut_off_midway(Move::Apply);
    scene.project.write("src/part1/notes.txt", WORDS);
    scene.project.decree(scene.args(Move::Apply)).ok();
    let mut tree = scene.project.snapshot();
    assert_eq!(tree.remove(&b"src/part1/notes.txt"[..]), Some(file(WORDS)));
    assert_same(&tree, &scene.after);
    scene.assert_clean();
}

#[test]
fn what_a_person_writes_after_the_last_check_of_a_revert_stays_and_the_revert_is_logged_once() {
    if !has_strace() {
        return;
    }
    let (before, after) = small();
    let scene = Scene::new(before, after);
    let is_done = || scene.unfinished().is_some_and(|dir| dir.join("done").exists());
    // strace counts the calls of each thread by itself.
    let mut calls = (1..99).flat_map(|nth| [("unlink", nth), ("fsync", nth)]);
    let killed_when_done = calls.any(|(call, nth)| {
        scene.project.decree(scene.args(Move::Revert)).ok();
        become_like(scene.project.root(), &scene.after);
        let logged = scene.audit_lines(Move::Revert);
        kill_before(&scene.project, &scene.args(Move::Revert), call, nth)
            && is_done()
            && scene.audit_lines(Move::Revert) > logged
    });
    assert!(killed_when_done, "the journal is removed after the revert is done");
    let interrupted = scene.audit_lines(Move::Revert);
    scene.project.write("edited", WORDS);
    scene.project.decree(["checkpoint", "create"]).ok().mentions(&["was interrupted", "finished"]);
    assert_eq!(scene.project.snapshot().get(&b"edited"[..]), Some(&file(WORDS)));
    assert_eq!(scene.audit_lines(Move::Revert), interrupted);
    scene.assert_clean();
}

/// The next locked command is not always one that captures.
#[test]
fn what_a_killed_checkpoint_left_in_the_store_is_gone_after_any_command_that_changes_things() {
    let (before, after) = small();
    let scene = Scene::new(before, after);
    fs::write(scene.in_decree("store").join("tmp-0123456789abcdef.pack"), "half a pack").unwrap();
    scene.project.decree(["apply", &scene.id]).ok();
    scene.assert_clean();
}
