//! The binary: parses, runs, exits.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = decree::cli::Cli::parse();
    // Without handlers a signal simply ends the process, which nothing here depends on to be safe.
    if cli.is_interruptible() {
        let _ = decree::interrupt::listen();
    }
    ExitCode::from(decree::cli::run(cli))
}
