//! `decree log`

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use super::Context;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::history::{self, RunDir, RunOrCheckpoint};
use crate::humanize::count;
use crate::message::MessageId;
use crate::pipeline::{ActiveRun, RunResult};
use crate::process::redact::Redactor;
use crate::project::Project;
use crate::sanitize::{one_line, strip_controls};
use crate::ui;

/// Print the log of a run's routine; without an id, list the runs
///
/// Without colours, as in a pipe or with --color never, the log has no escape sequences; with --color always it is printed byte for
/// byte.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree log\n  decree log 2026111603120000-0\n  decree log 2026111603120000-0 --attempt 2"
)]
pub struct LogArgs {
    /// The id of a run, or a unique prefix
    id: Option<String>,

    /// Print the log of this attempt instead of the last
    #[arg(long, value_name = "N", requires = "id")]
    attempt: Option<u32>,
}

pub fn log(context: &Context, args: &LogArgs) -> Result<()> {
    let project = context.project_to_inspect()?;
    let Some(id) = &args.id else {
        return list(context, &project);
    };
    let RunOrCheckpoint::Run(found) = history::find(&project.layout, id)? else {
        return Err(Error::project(format!("{id} is a checkpoint; only runs have logs")));
    };
    let run = MessageId::parse(found.id()).map(|id| RunDir::of(&project.layout, &id));
    let path = run.and_then(|run| run.log(args.attempt)).ok_or_else(|| {
        let which = args.attempt.map_or(String::new(), |number| format!(", attempt {number},"));
        Error::project(format!("run {}{which} has no log", found.id()))
    })?;
    let mut file = File::open(&path).at("read", &path)?;
    if context.ui.color_out {
        return context.ui.write(|out| io::copy(&mut file, out).map(drop));
    }
    context.ui.write(|out| copy_plain(BufReader::new(file), out))
}

/// Copies a log without escape sequences and control characters, then without secrets: what is removed may have split one. A line that
/// a program wrote over several times, such as a progress bar, becomes as many lines.
fn copy_plain(mut log: impl BufRead, out: &mut dyn Write) -> io::Result<()> {
    let mut redactor = Redactor::of_this_process();
    let (mut line, mut clean) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        clean.clear();
        if log.read_until(b'\n', &mut line)? == 0 {
            redactor.flush(&mut clean);
            return out.write_all(&clean);
        }
        let text = String::from_utf8_lossy(&line).replace("\r\n", "\n").replace('\r', "\n");
        redactor.push(strip_controls(&text).as_bytes(), &mut clean);
        out.write_all(&clean)?;
    }
}

/// Prints every run, the oldest first.
fn list(context: &Context, project: &Project) -> Result<()> {
    let active = ActiveRun::read(&project.layout)?;
    let mut rows = Vec::new();
    for id in history::run_ids(&project.layout)? {
        let dir = CheckpointDir::new(&id, project.layout.runs().join(&id));
        // Its result, if there is one already, is not carried out yet.
        if let Some(run) = active.as_ref().filter(|run| run.dir.id().to_string() == id) {
            rows.push(active_row(project, run));
            continue;
        }
        rows.push(match RunResult::read(&dir) {
            Ok(Some(result)) => {
                let (attempts, name) = (count(result.run.attempts.len(), "attempt"), &result.run.name);
                let commits = result.run.commits().unwrap_or_default();
                vec![id, result.state().to_owned(), attempts, one_line(name), commits]
            }
            Ok(None) => vec![id, "no verdict".to_owned()],
            Err(error) => vec![id, "damaged".to_owned(), String::new(), error.to_string()],
        });
    }
    if rows.is_empty() {
        context.ui.note("no runs yet; `decree process` creates them");
    }
    context.ui.print(&ui::table(&rows))
}

fn active_row(project: &Project, run: &ActiveRun) -> Vec<String> {
    let state = if run.is_alive(&project.layout) { "running" } else { "unfinished" };
    let attempt = run.attempt().map_or(String::new(), |attempt| format!("attempt {}", attempt.number));
    vec![run.dir.id().to_string(), state.to_owned(), attempt, run.name()]
}
