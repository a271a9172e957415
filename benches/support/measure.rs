//! Runs a command and says how long it took and how much memory it used at most.
//!
//! The kernel keeps the peak memory of a process's finished children as one maximum over all of them. To
//! learn it for one command, the command needs a parent of its own: this binary, started again as a
//! wrapper, which runs the command, takes the time, and leaves both numbers in a file.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use super::Result;

/// The first argument that turns this binary into the wrapper.
const WRAPPER: &str = "--measure-one-command";

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

/// Runs commands in the tree, with an environment that does not depend on who runs the benchmark.
#[derive(Clone, Debug)]
pub struct Runner {
    tree: PathBuf,
    scratch: PathBuf,
}

impl Runner {
    pub fn new(tree: &Path, scratch: &Path) -> Self {
        Self { tree: tree.to_owned(), scratch: scratch.to_owned() }
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
        let report = self.scratch.join("cost");
        let mut wrapper = Command::new(env::current_exe()?);
        wrapper.arg(WRAPPER).arg(&report).args(command);
        self.isolate(&mut wrapper);
        let finished = wrapper.stdout(File::create(output)?).stderr(Stdio::piped()).output()?;
        if !finished.status.success() {
            let line: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            let complaint = String::from_utf8_lossy(&finished.stderr);
            return Err(format!("`{}`: {}\n{complaint}", line.join(" "), finished.status).into());
        }
        read_cost(&report)
    }

    /// Runs a command that is not measured; whether it succeeded is for the caller to judge.
    pub fn prepare(&self, command: &[OsString]) -> Result<bool> {
        let (program, arguments) = command.split_first().expect("a command names a program");
        let mut prepared = Command::new(program);
        prepared.args(arguments);
        self.isolate(&mut prepared);
        Ok(prepared.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
    }

    fn isolate(&self, command: &mut Command) {
        for (name, _) in env::vars_os() {
            let name_text = name.to_string_lossy();
            if ["GIT_", "DECREE_", "RESTIC_", "XDG_"].iter().any(|own| name_text.starts_with(own)) {
                command.env_remove(&name);
            }
        }
        command
            .current_dir(&self.tree)
            .env("HOME", self.scratch.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .env("RESTIC_PASSWORD", "benchmark")
            .stdin(Stdio::null());
    }
}

/// Writes back what earlier phases left dirty, so that no phase pays for another.
pub fn settle_disk() -> Result<()> {
    Command::new("sync").status()?;
    Ok(())
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
    // Linux counts in KiB, macOS in bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    let line = fs::read_to_string(report)?;
    let (elapsed, peak) = line.trim().split_once(' ').ok_or("the wrapper's report is cut off")?;
    Ok(Cost { elapsed: Duration::from_nanos(elapsed.parse()?), peak_memory: peak.parse::<u64>()? * unit })
}
