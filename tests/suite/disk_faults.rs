//! A disk that is full or fails at any moment: a checkpoint that is listed is whole, and the next one works.

use std::process::Output;

use crate::generate::become_like;
use crate::harness::{Project, TreeSnapshot, assert_same, snapshot};
use crate::killed::{count_calls, has_strace, strace};
use crate::packs::packs;

const FAULTS: [(&str, &str); 2] = [("ENOSPC", "No space left on device"), ("EIO", "Input/output error")];
const CREATE: [&str; 2] = ["checkpoint", "create"];
/// What writes, and what makes it durable.
const WRITING: [&str; 4] = ["write", "fsync", "fdatasync", "rename"];

/// So many files that the manifest is in parts.
const SHARED: u32 = 300;
/// So many that decree also remembers how the manifest is stored.
const REMEMBERED: u32 = 4200;

/// A tree whose next checkpoint shares its manifest's entries and merges packs.
struct Scene {
    project: Project,
    tree: TreeSnapshot,
    /// `.decree/`.
    own: TreeSnapshot,
    /// A checkpoint whose manifest is in parts, and what `dir-1/file-1` is in it.
    id: String,
    content: String,
}

impl Scene {
    fn new(files: u32) -> Scene {
        let project = Project::new();
        for n in 0..files {
            project.write(format!("dir-{}/file-{n}", n % 7), format!("content of {n}\n"));
        }
        project.checkpoint();
        let store = project.path(".decree/store");
        for n in 0..100 {
            let content = format!("{n}\n");
            let id = project.write("dir-1/file-1", &content).checkpoint();
            let (own, count) = (snapshot(&project.path(".decree")), packs(&store).len());
            project.write("dir-1/file-1", "next\n").checkpoint();
            let merges = packs(&store).len() < count;
            become_like(&project.path(".decree"), &own);
            if merges {
                return Scene { tree: project.snapshot(), project, own, id, content };
            }
        }
        panic!("packs are never merged");
    }

    fn reset(&self) {
        become_like(&self.project.path(".decree"), &self.own);
        become_like(self.project.root(), &self.tree);
    }
}

/// Has the `nth` of these calls that a thread makes fail, if it is about one of `paths`; none: about anything.
fn with_fault(
    scene: &Scene,
    args: &[&str],
    (call, nth): (&str, u32),
    error: &str,
    paths: &[String],
) -> Output {
    let (inject, trace) = (format!("inject={call}:error={error}:when={nth}"), format!("trace={call}"));
    let mut options = vec!["-o", "/dev/null", "-e", &trace, "-e", &inject];
    paths.iter().for_each(|path| options.extend(["-P", path]));
    strace(&scene.project, args, &options)
}

/// STO-27.
#[test]
fn a_checkpoint_that_shares_and_merges_survives_every_fault_of_the_disk() {
    if !has_strace() {
        return;
    }
    let scene = Scene::new(REMEMBERED);
    let project = &scene.project;
    let calls = count_calls(project, &CREATE);
    let (mut failed, mut silenced, mut all) = (0, 0, 0);
    for (call, count) in calls.iter().filter(|(call, _)| WRITING.contains(&call.as_str())) {
        for nth in 1..=*count {
            for (error, message) in FAULTS {
                scene.reset();
                let output = with_fault(&scene, &CREATE, (call, nth), error, &[]);
                let stderr = String::from_utf8_lossy(&output.stderr);
                all += 1;
                if !output.status.success() {
                    failed += 1;
                    assert!([Some(1), Some(4)].contains(&output.status.code()), "{call} {nth}: {stderr}");
                    // The main thread's report is a write, too, and may be the one that fails.
                    let is_silenced = call == "write" && stderr.is_empty();
                    assert!(is_silenced || stderr.contains(message), "{call} {nth}: {stderr}");
                    silenced += u32::from(is_silenced);
                }
                assert_same(&project.snapshot(), &scene.tree);
                project.checkpoint();
                project.decree(["checkpoint", "verify", "--all"]).ok();
            }
        }
    }
    assert!(all > 40 && failed * 2 > all, "{failed} of {all} failed: {calls:?}");
    assert!(silenced * 4 < failed, "{silenced} of {failed} failed without a word: {calls:?}");
}

/// STO-28.
#[test]
fn a_rollback_to_a_manifest_in_parts_touches_nothing_if_the_store_cannot_be_read() {
    if !has_strace() {
        return;
    }
    let scene = Scene::new(SHARED);
    let (project, rollback) = (&scene.project, ["rollback", &scene.id]);
    let store: Vec<String> =
        packs(&project.path(".decree/store")).iter().map(|pack| pack.to_str().unwrap().to_owned()).collect();
    let mut failed = 0;
    for call in ["openat", "read", "pread64"] {
        for nth in 1..60 {
            scene.reset();
            let output = with_fault(&scene, &rollback, (call, nth), "EIO", &store);
            let stderr = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                assert_eq!(project.read("dir-1/file-1"), scene.content.as_bytes(), "{call} {nth}: {stderr}");
                continue;
            }
            failed += 1;
            assert!([Some(1), Some(4)].contains(&output.status.code()), "{call} {nth}: {stderr}");
            assert_same(&project.snapshot(), &scene.tree);
        }
    }
    assert!(failed > 3, "only {failed} failed");
    scene.reset();
    project.decree(rollback).ok();
    assert_eq!(project.read("dir-1/file-1"), scene.content.as_bytes());
}
