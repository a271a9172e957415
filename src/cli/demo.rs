//! `decree demo`: processes a sample project.

use std::path::{Path, PathBuf};

use super::locked_project::LockedProject;
use super::{Context, Format};
use crate::error::{Error, Result};
use crate::fs::random_hex;
use crate::pipeline::{RunOverrides, Selection};
use crate::process::find_program;
use crate::project::templates::write_new;

/// Process a sample project, offline, in a few seconds
///
/// Creates a small project in a temporary directory and processes its four specs with a script in place of an AI coding
/// tool: one succeeds and adds a follow-up, one succeeds on a retry, one on a clean slate, and one fails and is reverted. The
/// project stays there for inspection.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree demo\n  decree demo --dir /tmp/my-demo")]
pub struct DemoArgs {
    /// Where to create the project; the directory must not exist
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The files of the project: path, content, mode.
const FILES: [(&str, &str, u32); 10] = [
    (".decree/config.yml", include_str!("../../templates/demo/config.yml"), 0o644),
    (".decree/.gitignore", include_str!("../../templates/gitignore"), 0o644),
    (".decree/routines/develop.sh", include_str!("../../templates/demo/develop.sh"), 0o755),
    ("README.md", include_str!("../../templates/demo/README.md"), 0o644),
    ("check.sh", include_str!("../../templates/demo/check.sh"), 0o755),
    ("src/lib.sh", include_str!("../../templates/demo/lib.sh"), 0o644),
    ("specs/01-greet.spec.md", include_str!("../../templates/demo/specs/01-greet.spec.md"), 0o644),
    ("specs/02-add.spec.md", include_str!("../../templates/demo/specs/02-add.spec.md"), 0o644),
    ("specs/03-shout.spec.md", include_str!("../../templates/demo/specs/03-shout.spec.md"), 0o644),
    ("specs/04-prove-p-np.spec.md", include_str!("../../templates/demo/specs/04-prove-p-np.spec.md"), 0o644),
];

const INTRODUCTION: &str = "\
Four specs, processed by a script in place of an AI coding tool:
  01-greet        succeeds, and adds a follow-up
  02-add          fails, reads its own log, and fixes its mistake
  03-shout        fails twice on top of its own changes, then succeeds on a clean slate
  04-prove-p-np   deletes half the project and fails; every byte is restored
";

pub fn demo(context: &Context, args: &DemoArgs) -> Result<u8> {
    let temporary = || std::env::temp_dir().join(format!("decree-demo-{}", &random_hex()[..8]));
    let dir = args.dir.clone().unwrap_or_else(temporary);
    if dir.symlink_metadata().is_ok() {
        return Err(Error::failed(format!("{} exists already; nothing was written", dir.display()))
            .hint("name a directory that does not exist yet with --dir"));
    }
    for (path, text, mode) in FILES {
        write_new(&dir.join(path), text, mode)?;
    }
    context.ui.note(&format!("A sample project is in {}.\n{INTRODUCTION}", dir.display()));
    let inside = Context::new(context.ui, dir.clone(), context.verbose);
    let mut locked = LockedProject::open(&inside, "demo")?;
    let summary = locked.work(RunOverrides::default(), |pipeline| pipeline.process(&Selection::default()))?;
    let as_expected = (summary.kept, summary.reverted) == (4, 1);
    let failed =
        summary.messages.iter().find(|message| !message.run.kept).and_then(|message| message.id.clone());
    locked.report(Ok(summary), Format::Text)?;
    context.ui.note(&next_commands(&dir, &failed.unwrap_or_default()));
    if as_expected {
        return Ok(0);
    }
    Err(Error::failed("the demo did not end as expected")
        .detail(format!("the project is in {}", dir.display())))
}

fn next_commands(dir: &Path, failed: &str) -> String {
    let mut lines = vec![String::new(), "Next:".to_owned(), format!("  cd {}", dir.display())];
    if find_program("decree").is_none()
        && let Ok(binary) = std::env::current_exe()
    {
        lines.push(format!("  alias decree={}", binary.display()));
    }
    for (command, what) in [
        ("decree status".to_owned(), "what was processed and what failed"),
        (format!("decree diff {failed}"), "what 04 changed before it was reverted"),
        ("less .decree/runs/*/failure-context.md".to_owned(), "the record of failed attempts for 03 and 04"),
        ("decree report --format html -o report.html".to_owned(), "everything on one page"),
    ] {
        lines.push(format!("  {command:<44} {what}"));
    }
    lines.push("In your own project: `decree init`, then write a spec.".to_owned());
    lines.join("\n")
}
