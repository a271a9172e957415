//! Many messages that wait: each costs as much as if it were alone, and none is protected less.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::pipeline_project::{PipelineProject, assert_has};
use crate::generate::become_like;
use crate::harness::{snapshot, wait_for};
use crate::killed::{has_strace, is_killed_before, strace};

fn file(n: u32) -> String {
    format!("20250225{:02}{:02}0000-0.md", n / 60, n % 60)
}

/// A project with so many messages, all of them older than what the kernel's clock can confuse.
fn waiting(count: u32, routine: &str) -> PipelineProject {
    let project = PipelineProject::with(routine);
    project.config("max_retries: 0\n");
    for n in 0..count {
        let file = file(n);
        project.write(format!(".decree/inbox/{file}"), format!("---\nroutine: develop\n---\nDo {file}.\n"));
    }
    sleep(Duration::from_millis(2100));
    project
}

/// MSG-64.
#[test]
fn no_message_reads_all_that_wait() {
    if !has_strace() {
        return;
    }
    const COUNT: u32 = 80;
    let project = waiting(COUNT, "true");
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = ["-f", "-o", log.path().to_str().unwrap(), "-e", "trace=openat"];
    assert!(strace(&project, &["process"], &options).status.success());
    let log = fs::read_to_string(log.path()).unwrap();
    let opened = log.lines().filter(|line| line.contains(".decree/inbox/2025")).count();
    assert!(opened < 30 * COUNT as usize, "{COUNT} messages were opened {opened} times");
    assert_eq!(project.done().len(), COUNT as usize);
}

/// MSG-65. What the first run of a letter left is not put back into the second one.
#[test]
fn a_letter_that_is_tried_again_late_in_a_batch_is_a_new_run() {
    let (id, failing) = (file(4).replace(".md", ""), "[ $message_id != ID ] || exit 1");
    let project = waiting(5, &failing.replace("ID", &id));
    project.process().fails(1);
    fs::rename(
        project.path(format!(".decree/inbox/dead/{}", file(4))),
        project.path(format!(".decree/inbox/{}", file(4))),
    )
    .unwrap();
    for n in 0..3 {
        project
            .write(format!(".decree/inbox/2024022500000{n}00-0.md"), "---\nroutine: develop\n---\nDo it.\n");
    }
    project.routine("develop", "true");
    let output = project.process().ok();
    assert!(!output.err.contains("decree's own"), "{}", output.err);
    assert!(!project.exists(format!(".decree/runs/{id}/set-aside")));
}

/// MSG-65. A message of the chain that waited before the attempt is no follow-up of it, whatever became of the list.
#[test]
fn a_message_that_waits_is_not_taken_for_a_follow_up_if_the_list_is_deleted() {
    let chain = file(0).replace("-0.md", "");
    let project = waiting(
        0,
        &format!(
            "[ $message_id != {chain}-0 ] || {{ rm -r .decree/waiting.json .decree/waiting/*.md; exit 1; }}"
        ),
    );
    project.config("max_retries: 0\n");
    for name in
        (0..300).map(|n| format!("2026{}", &file(n)[4..])).chain([0, 1].map(|n| format!("{chain}-{n}.md")))
    {
        project.write(format!(".decree/inbox/{name}"), "---\nroutine: develop\n---\nDo it.\n");
    }
    project.process_with(&["--fail-fast"]).fails(1);
    assert!(project.exists(format!(".decree/inbox/done/{chain}-1.md")));
}

/// MSG-66.
#[test]
fn what_takes_the_place_of_the_list_of_messages_stops_no_batch() {
    let script = "rm -f .decree/waiting.json; mkdir -p .decree/waiting.json/x";
    let project =
        waiting(260, &format!("[ $message_id != {} ] || {{ {script}; }}", file(1).replace(".md", "")));
    project.process().ok();
    assert_eq!(project.done().len(), 260);
}

/// What the routine of the fourth message does to the queue; `LAST` is one that waits.
const DAMAGE: [(&str, &str); 8] = [
    ("deleted", "rm .decree/inbox/LAST"),
    ("overwritten", "echo evil >.decree/inbox/LAST"),
    ("replaced", "echo evil >x; mv x .decree/inbox/LAST"),
    ("another name", "ln .decree/inbox/LAST .decree/other; echo evil >.decree/other"),
    ("renamed", "mv .decree/inbox/LAST .decree/inbox/x.txt"),
    ("a directory", "rm .decree/inbox/LAST; mkdir .decree/inbox/LAST"),
    ("the queue renamed", "mv .decree/inbox .decree/elsewhere; mkdir .decree/inbox"),
    ("everything deleted", "rm -rf .decree"),
];

/// MSG-65.
#[test]
fn what_a_later_routine_does_to_the_queue_is_undone_if_it_fails() {
    for (what, script) in DAMAGE {
        let script = script.replace("LAST", &file(5));
        let id = file(3).replace(".md", "");
        // By the fourth message, the kernel's clock can confuse none of the others, and only reports say what changed.
        let third = file(2).replace(".md", "");
        let routine = format!("case $message_id in {third}) sleep 2.1;; {id}) {script}; exit 1;; esac");
        let project = waiting(6, &routine);
        project.process().fails(1);
        assert_eq!(project.dead().len(), 1, "{what}");
        for n in [0, 1, 2, 4, 5] {
            let done = project.text(&format!(".decree/inbox/done/{}", file(n)));
            assert!(done.contains(&format!("Do {}.\n", file(n))), "{what}: {done}");
        }
    }
}

/// MSG-65.
#[test]
fn what_a_later_routine_edits_in_the_queue_is_named_if_it_succeeds() {
    let (id, last) = (file(3).replace(".md", ""), file(5));
    let script = format!(
        "[ $message_id != {id} ] || {{ echo 'Do more.' >>.decree/inbox/{last}; rm .decree/inbox/{}; }}",
        file(4)
    );
    let project = waiting(6, &script);
    let output = project.process().ok();
    assert_has(&output.err, &[&format!("the routine changed .decree/inbox/{last}, which is in no diff")]);
    assert!(project.text(&format!(".decree/inbox/done/{last}")).ends_with("Do more.\n"));
    assert!(project.exists(format!(".decree/inbox/done/{}", file(4))));
}

/// MSG-65. Follow-ups come before older messages that wait, whichever message wrote them.
#[test]
fn a_follow_up_that_a_later_routine_writes_is_next() {
    let chain = file(3).replace("-0.md", "");
    let work = format!(
        "echo $message_id >>order.txt\n[ $message_id != {chain}-0 ] || printf 'Go on.\\n' >.decree/inbox/{chain}-1.md"
    );
    let project = waiting(6, &work);
    project.process().ok();
    let expected: Vec<String> = [0, 1, 2, 3].map(|n| file(n).replace(".md", "")).into_iter().collect();
    let order = project.text("order.txt");
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(order[..4], expected);
    assert_eq!(order[4], format!("{chain}-1"));
    assert_eq!(order.len(), 7);
}

/// Three hundred messages. The first deletes the others, and decree is killed.
fn killed(count: u32) -> PipelineProject {
    let project = waiting(count, "rm -rf .decree/inbox; echo x >.decree/ready; while :; do sleep 0.05; done");
    killed_when_ready(&project);
    project
}

/// Kills decree when the routine says that it is ready. After that the routine does nothing any more.
fn killed_when_ready(project: &PipelineProject) {
    let mut command = project.command();
    let mut child = command.arg("process").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&project.path(".decree/ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    project.routine("develop", "true");
}

/// MSG-66.
#[test]
fn hundreds_of_messages_that_a_killed_run_deleted_are_restored() {
    let project = killed(300);
    let running = project.text(".decree/running.json");
    assert!(running.len() < 2000, "{running}");
    assert_has(&running, &["\"version\": 2"]);
    let output = project.run(&["-m", "other", "-p", "Do it."]).ok();
    assert_has(&output.err, &["were gone when decree was killed, are in the inbox again: "]);
    assert_eq!(project.inbox().len(), 300);
}

/// Processes one of the messages that wait, if it fails.
const ONE: [&str; 2] = ["process", "--fail-fast"];

/// Which calls of that are about a file, by the call: the numbers of the first that a thread makes, and of the one after the last.
fn calls_about(project: &PipelineProject, file: &str) -> BTreeMap<String, (u32, u32)> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let calls = "trace=write,fsync,fdatasync,rename,unlink";
    // `-y` prints the path of each descriptor.
    strace(project, &ONE, &["-y", "-o", log.path().to_str().unwrap(), "-e", calls]);
    let (mut counts, mut found) = (HashMap::new(), BTreeMap::new());
    for line in fs::read_to_string(log.path()).unwrap().lines() {
        let (thread, call) = line.split_once(' ').unwrap();
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        let nth: &mut u32 = counts.entry((thread.to_owned(), name.to_owned())).or_default();
        *nth += 1;
        if call.contains(file) {
            let (_, last) = found.entry(name.to_owned()).or_insert((*nth, *nth));
            *last = *nth + 1;
        }
    }
    found
}

/// MSG-66. Before the run's record names the list, a kill leaves the messages as they are; after that, the list is whole.
#[test]
fn killed_while_it_writes_the_list_of_messages_decree_has_lost_none() {
    if !has_strace() {
        return;
    }
    let project = waiting(300, "exit 1");
    let own = snapshot(&project.path(".decree"));
    let delete = "rm -rf .decree/inbox; echo x >.decree/ready; while :; do sleep 0.05; done";
    let calls = calls_about(&project, "waiting.json");
    assert!(calls.contains_key("write") && calls.contains_key("rename"), "{calls:?}");
    let mut kills = 0;
    for (call, (first, last)) in calls {
        for nth in first..=last {
            become_like(&project.path(".decree"), &own);
            if !is_killed_before(&project, &ONE, &call, nth) {
                continue;
            }
            kills += 1;
            assert_eq!(project.inbox().len(), 300, "{nth}. {call}");
            project.routine("develop", delete);
            killed_when_ready(&project);
            let output = project.run(&["-m", "other", "-p", "Do it."]).ok();
            assert_has(&output.err, &["are in the inbox again: "]);
            assert_eq!(project.inbox().len(), 300, "{nth}. {call}");
        }
    }
    assert!(kills > 5, "killed only {kills} times");
}

/// MSG-66.
#[test]
fn a_list_of_messages_that_is_gone_or_changed_is_not_believed() {
    for what in ["gone", "changed", "a link"] {
        let project = killed(300);
        let list = ".decree/waiting.json";
        let text = project.text(list);
        project.remove(list);
        match what {
            "gone" => {}
            "changed" => drop(project.write(list, text.replace(&file(7), "evil.md"))),
            _ => drop(project.link(list, "/etc/passwd")),
        }
        let output = project.run(&["-m", "other", "-p", "Do it."]).ok();
        assert_has(&output.err, &[".decree/waiting.json is not as run ", "are in the inbox again: "]);
        assert_eq!(project.inbox().len(), 300, "{what}");
    }
}

/// REC-06.
#[test]
fn what_a_killed_command_left_unfinished_is_removed_once() {
    let project = killed(2);
    let left = ".decree/runs/2025010100000000-0/tmp-4711-result.json";
    project.write(left, "half");
    // A command that fails before it looks for such files leaves them to the next.
    let running = project.text(".decree/running.json");
    project.process().ok();
    assert!(!project.exists(left), "{running}");
    let lock = project.text(".decree/lock");
    assert_has(&lock, &["\"released\":true"]);
}

/// STO-17.
#[test]
fn status_does_not_search_all_runs() {
    if !has_strace() {
        return;
    }
    let project = waiting(1, "true");
    project.process().ok();
    let run = project.runs().pop().unwrap();
    for n in 0..300 {
        let dir = format!(".decree/runs/20240225{:02}{:02}0000-0", n / 60, n % 60);
        for name in ["manifest.json", "result.json", "attempts/1/changes.diff"] {
            project.write(format!("{dir}/{name}"), project.of_run(&run, name.rsplit('/').next().unwrap()));
        }
    }
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = ["-f", "-o", log.path().to_str().unwrap(), "-e", "trace=openat"];
    assert!(strace(&project, &["status"], &options).status.success());
    let log = fs::read_to_string(log.path()).unwrap();
    let opened = log.lines().filter(|line| line.contains("runs/2")).count();
    assert!(opened < 250, "{opened} files and directories of 301 runs were opened");
    assert_has(&project.decree(["status"]).ok().text(), &["301 "]);
}
