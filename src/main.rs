//! The binary: parses, runs, exits.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    ExitCode::from(decree::cli::run(decree::cli::Cli::parse()))
}
