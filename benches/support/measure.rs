//! Runs a command and says how long it took and how much memory it used at most.
//!
//! The kernel keeps the peak memory of a process's finished children as one maximum over all of them. To
//! learn it for one command, the command needs a parent of its own: this binary, started again as a
//! wrapper, which runs the command, takes the time, and leaves both numbers in a file.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::AddAssign;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::{Result, interrupt};

/// The first argument that turns this binary into the wrapper.
const WRAPPER: &str = "--measure-one-command";
/// How often to look whether a command has ended. The wrapper takes the time, so this adds nothing to it.
const POLL: Duration = Duration::from_millis(1);
/// How long an interrupted command may take to end: decree reverts first.
const GRACE: Duration = Duration::from_secs(20);

/// What one or several commands took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub elapsed: Duration,
    /// Peak resident memory in bytes; of several commands, the largest.
    pub peak_memory: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.elapsed += other.elapsed;
        self.peak_memory = self.peak_memory.max(other.peak_memory);
    }
}

/// The middle of the times, in seconds.
pub fn median_time(costs: &[Cost]) -> f64 {
    median(costs.iter().map(|cost| cost.elapsed.as_secs_f64()).collect())
}

/// The largest of the peaks, in bytes.
pub fn peak_memory(costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| cost.peak_memory).max().unwrap_or(0) as f64
}

/// The middle value; of an even number, the upper one of the two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs commands in the tree, with an environment that does not depend on who runs the benchmark.
#[derive(Clone, Debug)]
pub struct Runner {
    tree: PathBuf,
    scratch: PathBuf,
}

impl Runner {
    /// `scratch` is a directory that exists, and in which the tree is.
    pub fn new(tree: &Path, scratch: &Path) -> Result<Self> {
        fs::create_dir_all(scratch.join("home"))?;
        Ok(Self { tree: tree.to_owned(), scratch: scratch.to_owned() })
    }

    /// Where a contender may keep files of its own.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Runs a command that must succeed, measured, and returns what it printed.
    pub fn measure(&self, command: &[OsString]) -> Result<(Cost, Vec<u8>)> {
        let output = self.scratch.join("output");
        let cost = self.measure_into(command, &output)?;
        Ok((cost, fs::read(output)?))
    }

    /// The same, with what it prints written to a file.
    pub fn measure_into(&self, command: &[OsString], output: &Path) -> Result<Cost> {
        let (cost, status) = self.measure_any(command, output)?;
        if status.success() { Ok(cost) } else { Err(self.failure(command, status)) }
    }

    /// The same for a command that may fail; whether that is right is for the caller to judge.
    pub fn measure_any(&self, command: &[OsString], output: &Path) -> Result<(Cost, ExitStatus)> {
        let report = self.scratch.join("cost");
        let mut wrapper: Vec<OsString> =
            vec![env::current_exe()?.into(), WRAPPER.into(), report.clone().into()];
        wrapper.extend_from_slice(command);
        let status = wait(&mut self.start(&wrapper, output)?)?;
        Ok((read_cost(&report)?, status))
    }

    /// Runs a command that is not measured and must succeed.
    pub fn prepare(&self, command: &[OsString]) -> Result<()> {
        let status = wait(&mut self.start(command, &self.scratch.join("output"))?)?;
        if status.success() { Ok(()) } else { Err(self.failure(command, status)) }
    }

    /// Starts a command that the caller waits for with [`wait`].
    pub fn start(&self, command: &[OsString], output: &Path) -> Result<Child> {
        let (program, arguments) = command.split_first().expect("a command names a program");
        let mut started = Command::new(program);
        started.args(arguments);
        for (name, _) in env::vars_os() {
            let name_text = name.to_string_lossy();
            if ["GIT_", "DECREE_", "RESTIC_", "XDG_"].iter().any(|own| name_text.starts_with(own)) {
                started.env_remove(&name);
            }
        }
        started
            .current_dir(&self.tree)
            .env("HOME", self.scratch.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .env("RESTIC_PASSWORD", "benchmark")
            .stdin(Stdio::null())
            .stdout(File::create(output)?)
            .stderr(File::create(self.complaints())?)
            // A signal for the benchmark must not end the command before the benchmark knows.
            .process_group(0);
        started.spawn().map_err(|error| format!("{}: {error}", program.to_string_lossy()).into())
    }

    fn complaints(&self) -> PathBuf {
        self.scratch.join("complaints")
    }

    fn failure(&self, command: &[OsString], status: ExitStatus) -> Box<dyn std::error::Error + Send + Sync> {
        let line: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let complaint = fs::read(self.complaints()).unwrap_or_default();
        format!("`{}`: {status}\n{}", line.join(" "), String::from_utf8_lossy(&complaint)).into()
    }
}

/// Waits for a command to end. An interrupt ends it, with everything in its process group, and is an error.
pub fn wait(child: &mut Child) -> Result<ExitStatus> {
    wait_until(child, || Ok(false))?.ok_or_else(|| "nothing else ends the wait".into())
}

/// Waits for a command to end, or for `condition`; `None` if it is still running.
pub fn wait_until(child: &mut Child, condition: impl Fn() -> Result<bool>) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            interrupt::check()?;
            return Ok(Some(status));
        }
        let met = interrupt::check().and_then(|()| condition());
        match met {
            Ok(true) => return Ok(None),
            Ok(false) => thread::sleep(POLL),
            Err(error) => {
                end(child)?;
                return Err(error);
            }
        }
    }
}

/// Ends a command and its process group: by TERM, and by KILL if that does not help.
fn end(child: &mut Child) -> Result<()> {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    let start = Instant::now();
    while start.elapsed() < GRACE {
        child.try_wait()?;
        if test_kill_process_group(group).is_err() {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    Ok(())
}

/// Writes back what earlier phases left dirty, so that no phase pays for another.
pub fn settle_disk() -> Result<()> {
    interrupt::check()?;
    rustix::fs::sync();
    Ok(())
}

/// Waits for the next second: git reads files again that were written in the same second as its index.
pub fn pass_second() -> Result<()> {
    thread::sleep(Duration::from_millis(1_100));
    settle_disk()
}

/// If this process was started as the wrapper, does its work and says how to exit.
pub fn run_as_wrapper() -> Option<Result<ExitCode>> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != WRAPPER {
        return None;
    }
    Some(wrap(arguments))
}

fn wrap(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let report = arguments.next().ok_or("the wrapper needs a file to report to")?;
    let program = arguments.next().ok_or("the wrapper needs a command")?;
    let mut command = Command::new(&program);
    command.args(arguments);
    let start = Instant::now();
    let status = command.status().map_err(|error| format!("{}: {error}", program.to_string_lossy()))?;
    let elapsed = start.elapsed().as_nanos();
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    fs::write(report, format!("{elapsed} {peak}\n"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
    Ok(ExitCode::from(code))
}

fn read_cost(report: &Path) -> Result<Cost> {
    let line = fs::read_to_string(report)?;
    let (elapsed, peak) = line.trim().split_once(' ').ok_or("the wrapper's report is cut off")?;
    // Linux counts in KiB.
    Ok(Cost { elapsed: Duration::from_nanos(elapsed.parse()?), peak_memory: peak.parse::<u64>()? * 1024 })
}
