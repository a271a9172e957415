//! The binary: parses the command line, runs the command, and maps its result to an exit code.
//!
//! The exit codes of errors are [`decree::error::ErrorKind::exit_code`]; each command documents its own.

use std::process::ExitCode;

use clap::Parser;
use decree::cli::{self, Cli};
use decree::interrupt;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return ExitCode::from(cli::refuse_usage(&error)),
        // `--help` and `--version`.
        Err(error) => error.exit(),
    };
    let (ui, failure) = (cli.ui(), cli.failure_answer());
    if cli.is_interruptible() {
        // Without handlers a signal ends the process at once. That is safe too: the next decree recovers.
        let _ = interrupt::listen();
        failure.print_at_exit();
    }
    match cli::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            ui.error(&error);
            // If standard output is gone, the exit code and standard error still say what happened.
            let _ = failure.print(&ui, &error);
            ExitCode::from(error.kind().exit_code())
        }
    }
}
