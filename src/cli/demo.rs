//! `decree demo`

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::locked_project::LockedProject;
use super::{Context, Format};
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, random_hex};
use crate::pipeline::{RunOverrides, Selection};
use crate::process::find_program;

/// Watch decree at work on a sample project, offline, in a few seconds
///
/// Makes a small project in a temporary directory and processes its four specs with a routine that stands in for an AI
/// coding tool: a success with a follow-up, a retry that learns from its failure, a retry on a clean slate, and one that
/// fails for good and is put back. The project stays there to look at.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree demo\n  decree demo --dir /tmp/my-demo")]
pub struct DemoArgs {
    /// Where to make the project; it must not exist yet
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Path, text, mode.
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
Four specs, and a routine that stands in for an AI coding tool:
  01-greet        succeeds, and asks for a follow-up
  02-add          fails, reads its own log, and mends what it did
  03-shout        builds on its own mess twice; put back to a clean slate, it succeeds
  04-prove-p-np   deletes half the project and fails; every byte is put back
";

pub fn demo(context: &Context, args: &DemoArgs) -> Result<u8> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("decree-demo-{}", &random_hex()[..8])),
    };
    if dir.symlink_metadata().is_ok() {
        return Err(Error::failed(format!("{} exists already; nothing was written", dir.display()))
            .hint("give a directory that does not exist yet with --dir"));
    }
    for (path, text, mode) in FILES {
        write(&dir.join(path), text, mode)?;
    }
    context.ui.note(&format!("A sample project is in {}.\n{INTRODUCTION}", dir.display()));
    let inside = Context { directory: dir.clone(), ..*context };
    let mut shop = LockedProject::open(&inside, "demo")?;
    let summary = shop.work(RunOverrides::default(), |pipeline| pipeline.process(&Selection::default()))?;
    let as_planned = (summary.kept, summary.put_back) == (4, 1);
    let failed = summary.messages.iter().find(|message| !message.kept).and_then(|message| message.id.clone());
    shop.tell(Ok(summary), Format::Text)?;
    context.ui.note(&where_to_look(&dir, &failed.unwrap_or_default()));
    match as_planned {
        true => Ok(0),
        false => {
            Err(Error::failed("the demo did not go as planned").detail(format!("it is in {}", dir.display())))
        }
    }
}

fn where_to_look(dir: &Path, failed: &str) -> String {
    let mut lines = vec![String::new(), "Look around:".to_owned(), format!("  cd {}", dir.display())];
    if find_program("decree").is_none()
        && let Ok(binary) = std::env::current_exe()
    {
        lines.push(format!("  alias decree={}", binary.display()));
    }
    for (command, what) in [
        ("decree status".to_owned(), "what is done and what failed"),
        (format!("decree diff {failed}"), "what 04 had done before it was put back"),
        ("less .decree/runs/*/failure-context.md".to_owned(), "what 03 and 04 had learned"),
        ("decree report --format html -o report.html".to_owned(), "everything on one page"),
    ] {
        lines.push(format!("  {command:<44} {what}"));
    }
    lines.push("In a project of your own: `decree init`, then write a spec.".to_owned());
    lines.join("\n")
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let parent = path.parent().expect("every file is in a directory");
    fs::create_dir_all(parent).at("create", parent)?;
    atomic::write(path, text.as_bytes())?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("write", path)
}
