//! `decree log`

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::Context;
use crate::error::{Error, IoContext, Result};
use crate::history::{self, Found};

/// Show what a run's routine said
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree log 2026111603120000-0\n  decree log 2026111603120000-0 --attempt 2"
)]
pub struct LogArgs {
    /// A run, or the beginning of its id
    id: String,

    /// Of this attempt, instead of the last
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
}

pub fn log(context: &Context, args: &LogArgs) -> Result<()> {
    let project = context.project()?;
    context.tell_unfinished(&project);
    let Found::Run(saved) = history::find(&project.layout, &args.id)? else {
        return Err(Error::project(format!("{} is a checkpoint; only runs have logs", args.id)));
    };
    let dir = match args.attempt {
        Some(number) => saved.dir().join("attempts").join(number.to_string()),
        None => saved.dir().to_owned(),
    };
    let found = ["routine.log", "papermill.log"].iter().map(|name| dir.join(name)).find(|path| path.exists());
    let path: PathBuf = found.ok_or_else(|| {
        let which = args.attempt.map_or(String::new(), |number| format!(", attempt {number},"));
        Error::project(format!("run {}{which} has no log", saved.id()))
    })?;
    let mut file = File::open(&path).at("read", &path)?;
    context.ui.write(|out| io::copy(&mut file, out).map(drop))
}
