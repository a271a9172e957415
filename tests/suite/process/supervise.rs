//! `decree supervise`.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{alive, unique_sleep, wait_for, wait_until};
use crate::harness::{Project, run_command};

fn supervise(project: &Project, grace: u32, script: &str) -> Command {
    let mut command = project.command();
    command.args(["supervise", &format!("--grace={grace}"), "--", "bash", "-c", script]);
    command
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_program_ends_as_itself() {
    let project = Project::bare();
    for (script, code) in
        [("exit 0", 0), ("exit 3", 3), ("exit 137", 137), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        run_command(&mut supervise(&project, 100, script)).fails(code);
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let project = Project::bare();
    project.decree(["supervise", "--", "no-such-program"]).fails(127).mentions(&["no-such-program"]);
    project.write("plain", "x");
    project.decree(["supervise", "--", "./plain"]).fails(126);
}

#[test]
fn output_and_input_are_the_programs_own() {
    let project = Project::bare();
    project.write("in", "given ");
    let mut command = supervise(&project, 100, "cat; echo out; echo err >&2");
    let output = run_command(command.stdin(std::fs::File::open(project.path("in")).unwrap())).ok();
    assert_eq!((output.text().as_str(), output.err.as_str()), ("given out\n", "err\n"));
}

#[test]
fn it_is_hidden_from_people() {
    let help = Project::bare().decree(["--help"]).ok().text();
    assert!(!help.contains("supervise"), "{help}");
}

#[test]
fn daemons_do_not_outlive_their_program() {
    let project = Project::bare();
    let sleep = unique_sleep();
    for start in [
        format!("sleep {sleep} &"),
        format!("nohup sleep {sleep} >/dev/null 2>&1 & disown"),
        format!("setsid sleep {sleep} &"),
        format!("(setsid bash -c '(sleep {sleep} &) ; exec sleep {sleep}' &)"),
        format!("(trap '' TERM HUP INT; exec setsid sleep {sleep}) &"),
        format!("(trap '' TERM; while :; do setsid sleep {sleep}; done) &"),
        format!("sleep {sleep} & kill -STOP $!"),
        format!("(trap '' TERM; setsid sleep {sleep} & kill -STOP $!) &"),
        format!("for i in 1 2 3 4 5 6 7 8 9; do setsid bash -c 'setsid sleep {sleep} & wait' & done"),
    ] {
        let script = format!("{start}\nsleep 0.05; exit 7");
        run_command(&mut supervise(&project, 100, &script)).fails(7);
        assert_eq!(alive(&sleep), 0, "{script}");
    }
}

#[test]
fn a_program_that_forks_away_from_itself_is_caught() {
    let project = Project::bare();
    let sleep = unique_sleep();
    // Each lives only long enough to start the next, in the same group, and ignores what can be ignored.
    project.write("comet", format!("#!/bin/bash\ntrap '' TERM\n: {sleep}\n\"$0\" {sleep} &\n"));
    project.chmod("comet", 0o755);
    run_command(&mut supervise(&project, 50, &format!("./comet {sleep} & sleep 0.1; exit 5"))).fails(5);
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn a_modest_fork_bomb_is_ended() {
    let project = Project::bare();
    let sleep = unique_sleep();
    let script = format!(
        "bomb() {{ trap '' TERM; [ $1 -gt 0 ] && {{ bomb $(($1 - 1)) & bomb $(($1 - 1)) & }}; sleep {sleep}; }}; \
         bomb 6 & sleep 0.1; exit 5"
    );
    run_command(&mut supervise(&project, 50, &script)).fails(5);
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn asked_to_stop_it_gives_the_program_time_to_clean_up() {
    for ask in [Signal::TERM, Signal::INT, Signal::HUP] {
        let project = Project::bare();
        let sleep = unique_sleep();
        let script =
            format!("trap 'echo clean > cleaned; exit 9' TERM; sleep {sleep} & echo x > ready; wait");
        let mut child = supervise(&project, 60_000, &script).spawn().unwrap();
        wait_for(&project.path("ready"));
        signal(&child, ask);
        assert_eq!(child.wait().unwrap().code(), Some(9));
        assert_eq!(project.read("cleaned"), b"clean\n");
        assert_eq!(alive(&sleep), 0);
    }
}

#[test]
fn asked_to_stop_it_kills_what_does_not() {
    let project = Project::bare();
    let sleep = unique_sleep();
    let script =
        format!("trap '' TERM; setsid sleep {sleep} & echo x > ready; while :; do sleep {sleep}; done");
    let mut child = supervise(&project, 100, &script).spawn().unwrap();
    wait_for(&project.path("ready"));
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(137));
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn asked_twice_it_does_not_wait() {
    let project = Project::bare();
    let sleep = unique_sleep();
    let script =
        format!("trap 'echo x > asked' TERM; echo x > ready; while :; do sleep {sleep} & wait; done");
    let mut child = supervise(&project, 600_000, &script).spawn().unwrap();
    wait_for(&project.path("ready"));
    signal(&child, Signal::TERM);
    wait_for(&project.path("asked"));
    signal(&child, Signal::TERM);
    wait_until("the end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(137));
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn when_its_parent_is_killed_everything_ends() {
    let project = Project::bare();
    let sleep = unique_sleep();
    let script = format!("trap '' TERM; setsid sleep {sleep} & echo x > ready; sleep {sleep}");
    project.write("script", script);
    let decree = env!("CARGO_BIN_EXE_decree");
    let mut parent = Command::new("bash")
        .args(["-c", &format!("{decree} supervise --grace 100 -- bash -c \"$(cat script)\" & wait")])
        .current_dir(project.root())
        .spawn()
        .unwrap();
    wait_for(&project.path("ready"));
    parent.kill().unwrap();
    assert_eq!(parent.wait().unwrap().signal(), Some(9));
    wait_until("no process is left", || alive(&sleep) == 0);
}

#[test]
fn a_program_cannot_ask_the_terminal() {
    let project = Project::bare();
    // In a session of its own there is no terminal to wait for, whatever decree was started from.
    let script = "exec 3</dev/tty && read -u 3 answer; exit 6";
    let mut child = supervise(&project, 100, script).stderr(Stdio::null()).spawn().unwrap();
    wait_until("an answer", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(6));
}
