//! `decree supervise`: what decree starts between itself and a program. Not for people.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::error::Error;
use crate::process::supervisor::{self, SupervisedCommand, SupervisorReport};
use crate::ui::Ui;

/// Run a program and end everything that it leaves behind
#[derive(Debug, Args)]
pub struct SuperviseArgs {
    /// From SIGTERM to SIGKILL, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    grace: u64,

    /// How long the program may go on before SIGTERM when this is asked to stop, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    finish: u64,

    /// Standard input is the socket to the decree that started this
    #[arg(long)]
    control: bool,

    /// How many bytes of input for the program come over that socket
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "control")]
    input: u64,

    /// How many files the program may have open
    #[arg(long, value_name = "N")]
    open_files: Option<u64>,

    /// A file to write when nothing of the program is left because decree was killed
    #[arg(long, value_name = "PATH", requires = "control")]
    end_note: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Supervises; returns the program's exit code, or what a shell would return for a signal.
pub fn supervise(ui: &Ui, args: SuperviseArgs) -> u8 {
    let mut command = args.command.into_iter();
    let program = command.next().expect("clap requires one");
    let job = SupervisedCommand {
        program,
        args: command.collect(),
        grace: Duration::from_millis(args.grace),
        finish: Duration::from_millis(args.finish),
        control: args.control,
        input: args.input,
        open_files: args.open_files,
        end_note: args.end_note,
    };
    let report = supervisor::supervise(&job);
    if let (SupervisorReport::Unstartable { errno }, false) = (report, job.control) {
        let name = job.program.to_string_lossy();
        let cause = io::Error::from_raw_os_error(errno);
        ui.error(&Error::failed(format!("cannot start {name}")).caused_by(cause));
    }
    report.exit_code()
}
