//! A project in which decree processes messages.
//!
//! A routine that writes the time whenever it starts is a clock that ticks once a message: between two ticks is all that a
//! message takes, the start of `bash` included. That is how the time per message is known in a process of many.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Result;
use super::contender::DiskSize;
use super::measure::{Cost, Runner, median, wait, wait_until};

const CONFIG: &str = "max_retries: 0\non_no_change: accept\n";

pub struct Project {
    runner: Runner,
    program: PathBuf,
    clock: PathBuf,
    added: usize,
}

impl Project {
    /// Sets decree up in the tree, with a routine of this text. It finds the clock's file in `$clock`.
    pub fn create(runner: &Runner, program: &Path, routine: &str) -> Result<Self> {
        let clock = runner.scratch().join("clock");
        let project = Self { runner: runner.clone(), program: program.to_owned(), clock, added: 0 };
        runner.prepare(&project.command(&["init"]))?;
        project.set_routine(routine)?;
        Ok(project)
    }

    pub fn set_routine(&self, routine: &str) -> Result<()> {
        let text = format!("#!/usr/bin/env bash\nset -eu\nclock='{}'\n{routine}", self.clock.display());
        fs::write(self.directory().join("config.yml"), CONFIG)?;
        Ok(fs::write(self.directory().join("routines/develop.sh"), text)?)
    }

    pub fn command(&self, arguments: &[&str]) -> Vec<OsString> {
        let mut command =
            vec![self.program.clone().into(), "-q".into(), "-C".into(), self.runner.tree().into()];
        command.extend(arguments.iter().map(OsString::from));
        command
    }

    /// Where decree keeps everything.
    pub fn directory(&self) -> PathBuf {
        self.runner.tree().join(".decree")
    }

    pub fn disk(&self) -> Result<DiskSize> {
        DiskSize::of(&self.directory())
    }

    pub fn packs(&self) -> Result<usize> {
        count_files(&self.directory().join("store"), "pack")
    }

    /// The messages that wait.
    pub fn waiting(&self) -> Result<usize> {
        count_files(&self.directory().join("inbox"), "md")
    }

    pub fn add_messages(&mut self, count: usize) -> Result<()> {
        let inbox = self.directory().join("inbox");
        fs::create_dir_all(&inbox)?;
        for number in self.added..self.added + count {
            fs::write(inbox.join(format!("bench-{number:06}.md")), "Do nothing in particular.\n")?;
        }
        self.added += count;
        Ok(())
    }

    /// `decree process` of `count` messages or specs, all of which must be kept. Returns what it took, and the summary.
    pub fn process(&self, arguments: &[&str], count: usize) -> Result<(Cost, Value)> {
        let (cost, summary) = self.process_any(arguments)?;
        if summary["kept"] != count {
            let verdicts = &summary["messages"][0]["verdict"];
            return Err(format!("{} of {count} messages were kept ({verdicts})", summary["kept"]).into());
        }
        Ok((cost, summary))
    }

    /// The same, whatever becomes of them.
    pub fn process_any(&self, arguments: &[&str]) -> Result<(Cost, Value)> {
        fs::write(&self.clock, "")?;
        let command = self.command(&[&["process"], arguments].concat());
        let (cost, status) = self.runner.measure_any(&command, &self.runner.scratch().join("output"))?;
        if status.code().is_none_or(|code| code > 1) {
            return Err(format!("`decree process`: {status}").into());
        }
        Ok((cost, serde_json::from_slice(&fs::read(self.directory().join("summary.json"))?)?))
    }

    /// The time that the routine of the only message of a summary took.
    pub fn routine_time(summary: &Value) -> Result<Duration> {
        let attempt = &summary["messages"][0]["attempts"][0];
        Ok(Duration::from_millis(attempt["duration_ms"].as_u64().ok_or("the attempt has no duration")?))
    }

    /// Starts `decree process`, and returns once the clock has ticked so often.
    pub fn start(&self, ticks: usize) -> Result<Child> {
        fs::write(&self.clock, "")?;
        let mut child =
            self.runner.start(&self.command(&["process"]), &self.runner.scratch().join("output"))?;
        match wait_until(&mut child, || Ok(self.ticks()?.len() >= ticks))? {
            None => Ok(child),
            Some(status) => Err(format!("`decree process` ended with {status} before tick {ticks}").into()),
        }
    }

    /// Asks a running decree to stop and waits until it has.
    pub fn stop(child: &mut Child) -> Result<()> {
        kill_process(Pid::from_child(child), Signal::TERM)?;
        wait(child).map(drop)
    }

    /// The seconds since 1970 at which the routine has started since decree was.
    pub fn ticks(&self) -> Result<Vec<f64>> {
        let text = fs::read_to_string(&self.clock)?;
        // The last line may be incomplete.
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        Ok(complete.lines().map(str::parse).collect::<std::result::Result<_, _>>()?)
    }

    /// The median of the seconds between ticks.
    pub fn time_per_message(ticks: &[f64]) -> f64 {
        median(ticks.windows(2).map(|pair| pair[1] - pair[0]).collect())
    }
}

/// How many files with this extension are directly in a directory, which may not exist.
pub fn count_files(directory: &Path, extension: &str) -> Result<usize> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(0) };
    let mut count = 0;
    for entry in entries {
        count += usize::from(entry?.path().extension().is_some_and(|found| found == extension));
    }
    Ok(count)
}
