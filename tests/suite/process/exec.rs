//! `Exec::run`, in a process of its own: it becomes a subreaper, handles signals, and ends every process it adopts,
//! which a test binary with many threads must not.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use decree::interrupt;
use decree::process::marked::MARK_VARIABLE;
use decree::process::{Exec, GracePeriods};
use rustix::process::{Pid, Signal, kill_process};

use super::{alive, unique_sleep, wait_for, wait_until};
use crate::harness::Project;

const SCENARIO: &str = "DECREE_TEST_EXEC";

/// What a scenario's process is to do: one line each, in the file `scenario` of its directory.
#[derive(Default)]
struct Scenario {
    script: String,
    timeout: Option<u64>,
    grace: Option<u64>,
    capture: Option<usize>,
    input: String,
    program: Option<String>,
    shielded: bool,
    broken_sink: bool,
}

/// What the process reported.
struct ExecReport {
    how: String,
    output: String,
    stdout: String,
}

impl Scenario {
    fn script(script: impl Into<String>) -> Scenario {
        Scenario { script: script.into(), ..Scenario::default() }
    }

    fn start(&self, project: &Project) -> Child {
        let text = serde_json::json!({
            "script": self.script, "timeout": self.timeout, "grace": self.grace, "capture": self.capture,
            "input": self.input, "program": self.program, "shielded": self.shielded, "broken_sink": self.broken_sink,
        });
        project.write("scenario", text.to_string());
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::exec::scenario", "--test-threads=1", "--nocapture"])
            .env(SCENARIO, project.root())
            .current_dir(project.root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Away from the signals of the group that runs the tests.
            .process_group(0)
            .spawn()
            .unwrap()
    }

    #[track_caller]
    fn run(&self, project: &Project) -> ExecReport {
        let child = self.start(project);
        finish(project, child)
    }
}

#[track_caller]
fn finish(project: &Project, mut child: Child) -> ExecReport {
    wait_until("the scenario's end", || child.try_wait().unwrap().is_some());
    let text =
        |name: &str| String::from_utf8_lossy(&fs::read(project.path(name)).unwrap_or_default()).into_owned();
    ExecReport { how: text("how"), output: text("output"), stdout: text("stdout") }
}

/// Not a test of its own: what a scenario's process runs.
#[test]
fn scenario() {
    let Some(directory) = std::env::var_os(SCENARIO) else { return };
    let directory = Path::new(&directory);
    let scenario: serde_json::Value =
        serde_json::from_slice(&fs::read(directory.join("scenario")).unwrap()).unwrap();
    interrupt::listen().unwrap();
    let millis = |name: &str| scenario[name].as_u64().map(Duration::from_millis);
    let mut exec = match scenario["program"].as_str() {
        Some(program) => Exec::new(program),
        None => Exec::new("bash").args(["-c", scenario["script"].as_str().unwrap()]),
    };
    let grace = millis("grace").unwrap_or(Duration::from_millis(100));
    exec = exec
        .directory(directory)
        .variable("PATH", std::env::var_os("PATH").unwrap())
        .variable(MARK_VARIABLE, "a".repeat(32))
        .timeout(millis("timeout"));
    exec.supervisor = env!("CARGO_BIN_EXE_decree").into();
    exec.input = scenario["input"].as_str().unwrap().into();
    exec.grace_periods = GracePeriods { timeout: grace, interrupt: grace };
    exec.capture = scenario["capture"].as_u64().map(|limit| usize::try_from(limit).unwrap());
    let _shield = scenario["shielded"].as_bool().unwrap().then(interrupt::shield);
    let broken = scenario["broken_sink"].as_bool().unwrap();
    let mut output = Vec::new();
    let ended = exec.run(&mut |bytes: &[u8]| {
        output.extend_from_slice(bytes);
        if broken { Err(decree::error::Error::failed("the disk is full")) } else { Ok(()) }
    });
    fs::write(directory.join("output"), output).unwrap();
    let how = match &ended {
        Ok(ended) => format!("{:?} {}", ended.end, ended.survivors),
        Err(error) => format!("error: {error} ({})", error.hint_text().unwrap_or_default()),
    };
    if let Ok(ended) = &ended {
        fs::write(directory.join("stdout"), &ended.stdout).unwrap();
        assert_eq!(ended.stdout_truncated, how.contains("Exited(77)"));
    }
    fs::write(directory.join("how"), how).unwrap();
}

#[test]
fn exits_and_signals_are_distinguished() {
    for (script, how) in [
        ("exit 0", "Exited(0) 0"),
        ("exit 137", "Exited(137) 0"),
        ("kill -9 $$", "Signalled(9) 0"),
        ("kill -9 $PPID; sleep 600", "SupervisorLost 0"),
        ("kill -SEGV $$", "Signalled(11) 0"),
    ] {
        assert_eq!(Scenario::script(script).run(&Project::bare()).how, how, "{script}");
    }
}

#[test]
fn both_streams_arrive_in_the_order_they_were_written() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done";
    let output = Scenario::script(script).run(&Project::bare());
    let expected: String = (1..=9).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(output.output, expected);
}

#[test]
fn the_program_has_the_environment_it_was_given_and_no_other() {
    let output = Scenario::script("export -p; cat; pwd").run(&Project::bare());
    let names: Vec<&str> = output
        .output
        .lines()
        .filter_map(|line| line.strip_prefix("declare -x ")?.split('=').next())
        .collect();
    assert_eq!(names, ["DECREE_RUN_MARK", "OLDPWD", "PATH", "PWD", "SHLVL"]);
}

#[test]
fn input_of_any_size_is_read_or_not() {
    let input = "0123456789abcde\n".repeat(1 << 16);
    let mut scenario = Scenario::script("wc -c");
    scenario.input.clone_from(&input);
    assert_eq!(scenario.run(&Project::bare()).output.trim(), (1 << 20).to_string());
    scenario.script = "exit 4".into();
    assert_eq!(scenario.run(&Project::bare()).how, "Exited(4) 0");
}

#[test]
fn captured_output_is_kept_apart_and_limited() {
    let mut scenario = Scenario::script("echo question >&2; echo answer; exit 3");
    scenario.capture = Some(100);
    let output = scenario.run(&Project::bare());
    assert_eq!(
        (output.stdout.as_str(), output.output.as_str(), output.how.as_str()),
        ("answer\n", "question\n", "Exited(3) 0")
    );
    scenario.script = "yes | head -c 1000000; exit 77".into();
    let output = scenario.run(&Project::bare());
    assert_eq!((output.stdout.len(), output.how.as_str()), (100, "Exited(77) 0"));
}

#[test]
fn a_lot_of_output_arrives_whole() {
    let output = Scenario::script("head -c 30000000 /dev/zero; printf end").run(&Project::bare());
    assert_eq!(output.output.len(), 30_000_003);
    assert!(output.output.ends_with("end"));
}

#[test]
fn neither_closed_nor_kept_output_decides_when_it_ends() {
    let project = Project::bare();
    let sleep = unique_sleep();
    let script = "exec >/dev/null 2>&1; sleep 0.3; echo x > late; exit 2";
    assert_eq!(Scenario::script(script).run(&project).how, "Exited(2) 0");
    assert!(project.exists("late"));
    let script = format!("setsid sleep {sleep} & (trap '' TERM; exec setsid sleep {sleep}) & exit 2");
    assert_eq!(Scenario::script(script).run(&project).how, "Exited(2) 0");
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn when_its_time_is_up_it_may_clean_up() {
    let sleep = unique_sleep();
    let mut scenario = Scenario::script(format!(
        "trap 'echo cleaned; exit 0' TERM; sleep {sleep} & setsid sleep {sleep} & echo begun; wait"
    ));
    scenario.timeout = Some(1500);
    scenario.grace = Some(50_000);
    let output = scenario.run(&Project::bare());
    assert_eq!((output.how.as_str(), output.output.as_str()), ("TimedOut 0", "begun\ncleaned\n"));
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn when_its_time_is_up_it_has_to_go() {
    let sleep = unique_sleep();
    let mut scenario =
        Scenario::script(format!("trap '' TERM; setsid sleep {sleep} & while :; do sleep {sleep}; done"));
    scenario.timeout = Some(200);
    assert_eq!(scenario.run(&Project::bare()).how, "TimedOut 0");
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn a_supervisor_that_was_killed_is_made_up_for() {
    let sleep = unique_sleep();
    for script in [
        format!("setsid sleep {sleep} & kill -9 $PPID; sleep {sleep}"),
        format!("trap '' TERM; env -i setsid bash -c 'env -i sleep {sleep} & sleep {sleep}' & kill -9 $PPID"),
        format!("kill -9 $PPID; while :; do setsid sleep {sleep} & sleep 0.01; done"),
    ] {
        let output = Scenario::script(&script).run(&Project::bare());
        assert_eq!(output.how, "SupervisorLost 0", "{script}");
        assert_eq!(alive(&sleep), 0, "{script}");
    }
}

#[test]
fn a_supervisor_that_was_stopped_goes_on() {
    let sleep = unique_sleep();
    let output = Scenario::script(format!("sleep {sleep} & kill -STOP $PPID; exit 8")).run(&Project::bare());
    assert_eq!(output.how, "Exited(8) 0");
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn interrupted_it_ends_the_program_and_says_so() {
    for signal in [Signal::INT, Signal::TERM] {
        let project = Project::bare();
        let sleep = unique_sleep();
        let script = format!("trap '' TERM INT; setsid sleep {sleep} & echo x > ready; sleep {sleep}");
        let child = Scenario::script(script).start(&project);
        wait_for(&project.path("ready"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(finish(&project, child).how, "Interrupted 0");
        assert_eq!(alive(&sleep), 0);
    }
}

#[test]
fn behind_a_shield_it_is_not_interrupted() {
    let project = Project::bare();
    let script = "echo x > ready; until [ -e go ]; do sleep 0.01; done; exit 3";
    let child = Scenario { shielded: true, ..Scenario::script(script) }.start(&project);
    wait_for(&project.path("ready"));
    // Of two kinds, as a CI runner sends them.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    project.write("go", "");
    assert_eq!(finish(&project, child).how, "Exited(3) 0");
}

#[test]
fn when_decree_is_killed_the_program_ends() {
    let project = Project::bare();
    let sleep = unique_sleep();
    let script = format!("trap '' TERM; setsid sleep {sleep} & echo x > ready; sleep {sleep}");
    let mut child = Scenario::script(script).start(&project);
    wait_for(&project.path("ready"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no process is left", || alive(&sleep) == 0);
}

#[test]
fn output_that_cannot_be_written_ends_the_program() {
    let sleep = unique_sleep();
    let scenario =
        Scenario { broken_sink: true, ..Scenario::script(format!("echo x; sleep {sleep} & sleep {sleep}")) };
    assert_eq!(scenario.run(&Project::bare()).how, "error: the disk is full ()");
    assert_eq!(alive(&sleep), 0);
}

#[test]
fn a_program_that_cannot_be_started_is_named_with_a_hint() {
    let project = Project::bare();
    project.write("plain", "echo x");
    for (program, words) in [
        ("no-such-program", ["cannot start no-such-program: No such file", "is no-such-program installed"]),
        ("./plain", ["cannot start ./plain: Permission denied", "chmod +x ./plain"]),
        ("./gone", ["cannot start ./gone: No such file", "does the file exist"]),
    ] {
        let scenario = Scenario { program: Some(program.into()), ..Scenario::default() };
        let output = scenario.run(&project);
        assert!(words.iter().all(|word| output.how.contains(word)), "{}", output.how);
    }
}
