//! Routines that try to outlive their attempt, to hang, or to kill decree.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use super::{
    VANDALISM, dead, done, end_of, inbox, process, project, result, start, tracker, tree, verdicts,
    wait_until,
};
use crate::harness::{Project, assert_same, run_command, skip};
use crate::revert::{as_nobody, hand_over};

/// A word in the arguments of one test's processes only.
fn token(project: &Project) -> String {
    project.root().file_name().unwrap().to_str().unwrap().to_owned()
}

fn alive(token: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let arguments = entries.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
    arguments.filter(|arguments| memchr::memmem::find(arguments, token.as_bytes()).is_some()).count()
}

/// No process of the run is left, and nothing writes any more.
#[track_caller]
fn assert_quiet(project: &Project) {
    assert_eq!(alive(&token(project)), 0);
    let now = project.snapshot();
    sleep(Duration::from_millis(100));
    assert_same(&project.snapshot(), &now);
}

/// What goes on writing, in a process that has the token in its arguments.
fn writer(project: &Project) -> String {
    format!(
        "bash -c 'while :; do echo x >> src/lib.rs; echo x > late-$RANDOM; sleep 0.01; done' {}",
        token(project)
    )
}

#[test]
fn daemons_do_not_write_into_a_tree_that_was_reverted_or_kept() {
    for start in [
        "W &",
        "setsid W >/dev/null 2>&1 &",
        "nohup W >/dev/null 2>&1 & disown",
        "( ( setsid W </dev/null >/dev/null 2>&1 & ) & )",
        "(trap '' HUP INT; cd /; setsid setsid bash -c \"cd '$PWD'; W\" & ) >/dev/null 2>&1",
    ] {
        for end in [0, 1] {
            let project = project("");
            let start = start.replace(
                'W',
                &writer(&project).replace('\'', if start.contains('"') { "'\\''" } else { "'" }),
            );
            let start = start.replace("'\\''", "\\\"");
            project.write(".decree/routines/develop.sh", format!("{start}\nsleep 0.1; exit {end}\n"));
            let before = tree(&project);
            process(&project).fails(end);
            assert_quiet(&project);
            if end == 1 {
                assert_same(&tree(&project), &before);
                assert_eq!(dead(&project).len(), 1);
            } else {
                // What is there is what is written down: it can be undone to the byte.
                let id = super::only_run(&project).rsplit('/').next().unwrap().to_owned();
                project.decree(["revert", &id]).ok();
                assert_same(&tree(&project), &before);
            }
        }
    }
}

#[test]
fn a_daemon_that_ignores_being_asked_is_killed() {
    let project = project("");
    let writer = writer(&project);
    project.write(
        ".decree/routines/develop.sh",
        format!("(trap '' TERM HUP INT; setsid {writer} &)\nsleep 0.05; exit 1\n"),
    );
    let before = project.snapshot();
    process(&project).fails(1);
    assert_quiet(&project);
    assert_same(&project.snapshot(), &before);
}

#[test]
fn a_routine_that_does_not_end_is_ended() {
    for script in [
        "trap '' TERM INT HUP; while :; do sleep 1; done",
        "kill -STOP $$; sleep 600",
        "trap '' TERM; kill -STOP $$ $PPID; sleep 600",
    ] {
        let project = project(&format!("{VANDALISM}{script}\n"));
        project.write(".decree/config.yml", "max_retries: 0\ntimeout: 500ms\n");
        let before = project.snapshot();
        process(&project).fails(1).mentions(&["timed out"]);
        assert_same(&project.snapshot(), &before);
        assert_eq!(verdicts(&project), ["timed-out"]);
        assert!(dead(&project)["01-work.md"].contains("verdict: timed-out"));
    }
}

#[test]
fn what_holds_the_pipe_is_not_waited_for() {
    let project = project("echo work > work; sleep 600 & disown; setsid sleep 600 & exit 0\n");
    process(&project).ok();
    assert_eq!(project.read("work"), b"work\n");
    let took = result(&project)["duration_ms"].as_u64().unwrap();
    assert!(took < 60_000, "{took} ms");
}

#[test]
fn a_routine_that_kills_what_watches_over_it_has_failed() {
    for script in [
        "kill -9 $PPID; sleep 600",
        "kill -9 $PPID; exit 0",
        "kill -9 $PPID $$",
        "kill -9 0",
        "kill -9 -- -$PPID; kill -9 $$",
    ] {
        let project = project("");
        let writer = writer(&project);
        project.write(".decree/routines/develop.sh", format!("{VANDALISM}setsid {writer} & {script}\n"));
        let before = project.snapshot();
        process(&project).fails(1);
        assert_quiet(&project);
        assert_same(&project.snapshot(), &before);
        assert_eq!(verdicts(&project), ["failed-reverted"]);
        assert_eq!((dead(&project).len(), inbox(&project).len()), (1, 0));
    }
}

/// Kills the decree above it the first time; the second time it works.
fn kill_decree_once(how: &str, flag: &std::path::Path) -> String {
    format!(
        "if [ ! -e {0} ]; then echo x > {0}; {VANDALISM}decree=$(awk '/^PPid/ {{ print $2 }}' /proc/$PPID/status); {how}; sleep 600; fi\necho work > work\n",
        flag.display()
    )
}

#[test]
fn a_routine_that_kills_decree_is_undone_by_the_next_one() {
    let place = crate::harness::temp_dir();
    for (number, how) in [
        "kill -9 $decree",
        "kill -9 $decree $PPID",
        "setsid sleep 600 & kill -9 $decree $PPID",
        "rm -rf .decree/inbox; kill -9 $decree",
        // Nothing that the routine leaves in the place of the run's records keeps it from being reverted.
        "ln -s result.json \"$message_dir/result.json\"; kill -9 $decree",
        "ln -s /proc/self/mem \"$message_dir/result.json\"; kill -9 $decree",
        "mkdir -p \"$message_dir/previous/99\"; cp \"$message_dir/manifest.json\" \"$message_dir/previous/99\"; \
         ln -s result.json \"$message_dir/previous/99/result.json\"; kill -9 $decree",
        "mkdir \"$message_dir/previous\"; mkdir \"$message_dir\"/previous/{4294967295,18446744073709551615}; kill -9 $decree",
    ]
    .iter()
    .enumerate()
    {
        let project = project(&kill_decree_once(how, &place.path().join(number.to_string())));
        let before = tree(&project);
        let mut child = start(&project);
        assert_eq!(end_of(&mut child).code(), None, "{how}");
        project.decree(["status"]).ok().mentions(&["was interrupted"]);
        let output = process(&project);
        assert!(output.err.contains("was interrupted; the tree is reverted"), "{how}: {}", output.err);
        assert_eq!(output.code, 0, "{how}: {}", output.err);
        let mut now = tree(&project);
        assert!(now.remove(&b"work"[..]).is_some(), "{how}");
        assert_same(&now, &before);
        assert_eq!(tracker(&project), ["01-work.spec.md"], "{how}");
        assert_eq!((dead(&project).len(), inbox(&project).len()), (0, 0), "{how}");
    }
}

#[test]
fn a_record_that_a_routine_planted_for_its_attempt_does_not_stop_recovery() {
    let place = crate::harness::temp_dir();
    let plant = "a=$message_dir/attempts/1; mkdir -p $a; : >$a/changes.diff; echo '{}' >$a/result.json";
    let project = project(&format!(
        "if [ ! -e {0} ]; then echo x >{0}; {plant}; kill -9 $(awk '/^PPid/ {{ print $2 }}' /proc/$PPID/status); sleep 600; fi\necho work >work\n",
        place.path().join("flag").display(),
    ));
    let mut child = start(&project);
    assert_eq!(end_of(&mut child).code(), None);
    process(&project).ok();
    assert_eq!(tracker(&project), ["01-work.spec.md"]);
}

#[test]
fn a_routine_that_closes_its_records_and_kills_decree_is_undone_by_the_next_one() {
    if !skip::as_root() {
        return;
    }
    let place = crate::harness::temp_dir();
    let closings = [
        "chmod 000 \"$message_dir\"",
        "chmod 000 \"$message_dir/manifest.json\"",
        "chmod 000 \"$message_dir\"/attempts \"$message_dir\"",
    ];
    for (number, closing) in closings.iter().enumerate() {
        let how = format!("{closing}; kill -9 $decree");
        let project = project(&kill_decree_once(&how, &place.path().join(number.to_string())));
        hand_over(project.root());
        hand_over(place.path());
        let before = tree(&project);
        let killed = as_nobody(&project, &["process"]);
        assert_ne!(killed.code, 0, "{how}: {}", killed.err);
        as_nobody(&project, &["process"]).ok().mentions(&["was interrupted; the tree is reverted"]);
        let mut now = tree(&project);
        assert!(now.remove(&b"work"[..]).is_some(), "{how}");
        assert_same(&now, &before);
    }
}

#[test]
fn a_routine_that_kills_everything_it_can_is_undone_by_the_next_decree() {
    // In a world of its own: there is more on this machine than ours.
    let inside = |project: &Project| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--", "sh", "-c", "\"$0\" process; exit $?"]);
        command.arg(project.command().get_program()).current_dir(project.root());
        command
    };
    let place = crate::harness::temp_dir();
    let project = project(&kill_decree_once("kill -9 -1", &place.path().join("flag")));
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "true"]);
    if !skip::works(&mut unshare, skip::NO_NAMESPACE) {
        return;
    }
    let before = tree(&project);
    assert_ne!(run_command(&mut inside(&project)).code, 0);
    assert_ne!(tree(&project), before, "it had begun");
    run_command(&mut inside(&project)).ok().mentions(&["was interrupted"]);
    let mut now = tree(&project);
    assert!(now.remove(&b"work"[..]).is_some());
    assert_same(&now, &before);
    assert!(done(&project).contains_key("01-work.md"));
}

#[test]
fn a_decree_inside_a_decree_is_rejected_and_changes_nothing() {
    let decree = env!("CARGO_BIN_EXE_decree");
    let project = project(&format!(
        "{decree} process; echo \"process: $?\"; {decree} revert 2; echo \"revert: $?\"; {decree} status; echo \"status: $?\"; echo work > work\n"
    ));
    let output = process(&project).ok();
    for words in ["process: 5", "revert: 5", "status: 0", "`decree process`"] {
        assert!(output.err.contains(words), "{words}: {}", output.err);
    }
    wait_until("no process", || alive(&token(&project)) == 0);
}
