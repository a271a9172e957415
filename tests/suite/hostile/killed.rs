//! decree is killed with `kill -9` at any moment of a `process`; the next one ends as if nothing had happened.

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{VANDALISM, dead, done, inbox, process, project, start, tracker, tree};
use crate::generate::cases;
use crate::harness::{Project, TreeSnapshot, assert_same};

/// One of each: a success with a follow-up, one that learns, one that needs a clean slate, and one that nothing helps.
const SPECS: [&str; 4] = ["01-greet", "02-learn", "03-slate", "04-doomed"];

fn scene() -> Project {
    let routine = format!(
        "case $spec_file$seq in\n\
         specs/01-*) echo hello > greeting; echo more > .decree/inbox/$chain-1.md ;;\n\
         specs/02-*) echo $DECREE_ATTEMPT >> src/lib.rs; [ $DECREE_ATTEMPT = 2 ] ;;\n\
         specs/03-*) echo x >> mess; rm -f notes.txt; [ $(wc -l < mess) = 1 ] && [ $DECREE_ATTEMPT = 3 ] ;;\n\
         specs/04-*) {VANDALISM} echo more > .decree/inbox/$chain-1.md; exit 4 ;;\n\
         *) echo followed >> greeting ;;\n\
         esac\n"
    );
    let project = project(&routine);
    project.remove("specs/01-work.spec.md").write(".decree/config.yml", "max_retries: 2\n");
    for name in SPECS {
        project.write(format!("specs/{name}.spec.md"), format!("Do {name}.\n"));
    }
    project
}

/// Everything that has to be the same in the end, whatever happened on the way.
#[derive(Debug, PartialEq)]
struct End {
    tree: TreeSnapshot,
    tracker: Vec<String>,
    done: BTreeMap<String, String>,
    dead: BTreeMap<String, String>,
    inbox: usize,
}

fn end_of(project: &Project) -> End {
    End {
        tree: tree(project),
        tracker: tracker(project),
        done: without_ids(done(project)),
        dead: without_ids(dead(project)),
        inbox: inbox(project).len(),
    }
}

/// Without the ids, which are times.
fn without_ids(letters: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let blur = |text: &str| {
        let words = text.split_inclusive(|c: char| !c.is_ascii_digit());
        words.map(|word| if word.len() >= 16 { "T-".to_owned() } else { word.to_owned() }).collect::<String>()
    };
    letters.into_iter().map(|(name, text)| (blur(&name), blur(&text))).collect()
}

/// All that a process has started, and what those have.
fn below(pid: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(')') else { continue };
        let number = head.split(' ').next().and_then(|pid| pid.parse::<u32>().ok());
        let parent = rest.split_whitespace().nth(1).and_then(|parent| parent.parse::<u32>().ok());
        parents.extend(number.zip(parent));
    }
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, above)| *above == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Kills decree, alone or with all that it has started. Returns whether it was still at work.
fn kill(child: &mut Child, with_children: bool) -> bool {
    let all = if with_children { below(child.id()) } else { vec![child.id()] };
    for pid in all {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
    }
    child.wait().unwrap().code().is_none()
}

/// A number from 0 to 1, always the same for the same seed.
fn random(seed: u32) -> f64 {
    let mut x = u64::from(seed).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x >> 40) as f64 / f64::from(1 << 24)
}

/// Kills one decree, every third time a second one that picks up what the first left, and lets the last one finish. Returns whether
/// one was killed at work.
fn round(number: u32, whole: Duration, expected: &End) -> bool {
    let project = scene();
    let mut killed = false;
    let kills = if number % 3 == 2 { 2 } else { 1 };
    for kill_number in 0..kills {
        let mut child = start(&project);
        thread::sleep(whole.mul_f64(random(number * 10 + kill_number)));
        killed |= kill(&mut child, number % 2 == 1);
    }
    // It may have come to an end: then there is only the dead letter left to be tried.
    let output = process(&project);
    assert_eq!(output.code, 1, "round {number}: {}", output.err);
    let end = end_of(&project);
    assert_same(&end.tree, &expected.tree);
    assert_eq!(end, *expected, "round {number}: {}", output.err);
    assert!(!project.exists(".decree/running.json"), "round {number}");
    killed
}

#[test]
fn killed_at_any_moment_the_next_process_ends_like_one_that_was_not() {
    let project = scene();
    let began = Instant::now();
    process(&project).fails(1);
    let whole = began.elapsed();
    let expected = end_of(&project);
    assert_eq!(expected.tracker, ["01-greet.spec.md", "02-learn.spec.md", "03-slate.spec.md"]);
    assert_eq!((expected.done.len(), expected.dead.len(), expected.inbox), (4, 1, 0), "{expected:#?}");
    assert!(expected.dead["04-doomed.md"].contains("error: exit 4 (3 attempts)"), "{:?}", expected.dead);
    let rounds = cases(50);
    let (next, kills) = (AtomicU32::new(0), AtomicU32::new(0));
    // Three at a time take longer than one.
    let longest = Mutex::new(whole.mul_f64(1.8));
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= rounds {
                        return;
                    }
                    let whole = *longest.lock().unwrap();
                    let done = std::panic::catch_unwind(|| round(number, whole, &expected));
                    match done {
                        Ok(killed) => {
                            kills.fetch_add(killed.into(), Ordering::Relaxed);
                            // The machine may become busier, or less busy.
                            let mut longest = longest.lock().unwrap();
                            *longest = longest.mul_f64(if killed { 1.1 } else { 0.7 });
                        }
                        Err(_) => failures.lock().unwrap().push(number),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "rounds {failures:?} ended otherwise");
    let kills = kills.into_inner();
    assert!(kills * 3 > rounds, "killed at work in only {kills} of {rounds} rounds");
}
