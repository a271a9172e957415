//! `decree log`

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::Context;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::history::{self, RunOrCheckpoint};
use crate::humanize::count;
use crate::pipeline::RunResult;
use crate::project::Project;
use crate::sanitize::one_line;
use crate::ui;

/// Show what a run's routine said; without an id, list the runs
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree log\n  decree log 2026111603120000-0\n  decree log 2026111603120000-0 --attempt 2"
)]
pub struct LogArgs {
    /// A run, or the beginning of its id
    id: Option<String>,

    /// Of this attempt, instead of the last
    #[arg(long, value_name = "N", requires = "id")]
    attempt: Option<u32>,
}

pub fn log(context: &Context, args: &LogArgs) -> Result<()> {
    let project = context.project()?;
    context.warn_unfinished(&project);
    let Some(id) = &args.id else {
        return list(context, &project);
    };
    let RunOrCheckpoint::Run(saved) = history::find(&project.layout, id)? else {
        return Err(Error::project(format!("{id} is a checkpoint; only runs have logs")));
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

/// Every run, the oldest first.
fn list(context: &Context, project: &Project) -> Result<()> {
    let mut rows = Vec::new();
    for id in history::run_ids(&project.layout)? {
        let path = CheckpointDir::new(&*id, project.layout.runs().join(&id)).result_path();
        let story = RunResult::read(&path).ok().flatten().map(|result| result.story);
        rows.push(match story {
            Some(story) => {
                let attempts = count(story.attempts.len(), "attempt");
                vec![id, story.status.word().to_owned(), attempts, one_line(&story.name)]
            }
            None => vec![id, "no verdict".to_owned()],
        });
    }
    if rows.is_empty() {
        context.ui.note("no runs yet; `decree process` makes some");
    }
    context.ui.print(&ui::table(&rows))
}
