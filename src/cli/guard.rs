//! `decree guard`

use std::ffi::OsString;
use std::process::Command;

use super::Context;
use super::checkpoint::{Lifetime, lifetime};
use super::locked_project::LockedProject;
use super::rollback::lines;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, ErrorKind, Result};
use crate::history::own_files::{OwnFiles, ProtectedDir, RepairReport};
use crate::history::{
    self, CheckpointKind as Means, CheckpointPayload, CheckpointTarget, CreatedCheckpoint, GuardRecord,
    NewCheckpoint, RollbackOptions, RunOrCheckpoint,
};
use crate::humanize::count;
use crate::interrupt;
use crate::process::attended::attend;
use crate::process::redact::Redactor;
use crate::project::Layout;
use crate::sanitize::{one_line, truncate};

/// Tells the command, and what verifies it, the way back.
const CHECKPOINT: &str = "DECREE_CHECKPOINT";
/// What could not be started has this exit code, as in a shell.
const NOT_FOUND: u8 = 127;

/// Save the tree, run a command, and put the tree back if it fails
///
/// The command has the terminal, input and output of decree, and its exit code is decree's. With --verify, a second command has to
/// be content as well. If either fails, or decree is asked to stop, everything that changed is put back to the checkpoint and
/// verified; what the command had done stays saved as a checkpoint of its own. Exit code 4: the tree could not be put back.
/// Both commands find the checkpoint's id in DECREE_CHECKPOINT.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree guard -- npm update\n  decree guard --verify 'cargo test' -- cargo fix --allow-dirty\n  decree guard --scope migrations --reason 'schema 12' -- ./migrate.sh"
)]
pub struct GuardArgs {
    /// A shell command that has to succeed afterwards
    #[arg(long, value_name = "COMMAND")]
    verify: Option<String>,

    /// Put back only this path and what is below it, or what matches this pattern (may be given more than once)
    #[arg(long, value_name = "PATH|GLOB")]
    scope: Vec<String>,

    /// Why, for those who come later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// After what time the checkpoint may be collected (24h, 7d, 2w, never)
    #[arg(long, value_name = "DURATION", default_value = "never", value_parser = lifetime)]
    expiry: Lifetime,

    /// What to run: a program and its arguments, which no shell looks at
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn guard(context: &Context, args: &GuardArgs) -> Result<u8> {
    let shop = LockedProject::open(context, "guard")?;
    let aim =
        CheckpointTarget::typed(Means::FileBackup, &args.scope, &shop.project, &context.directory, &|_| {
            false
        })?;
    let words = shell_words::join(args.command.iter().map(|word| word.to_string_lossy()));
    let what = truncate(&one_line(&Redactor::of_this_process().redact(&words)), 200).to_owned();
    let about = NewCheckpoint {
        reason: Some(args.reason.clone().unwrap_or_else(|| format!("before `{what}`"))),
        aim: aim.clone(),
        lifetime: args.expiry.0,
    };
    let progress = context.ui.progress();
    let created = history::create(shop.site(&progress), about)?;
    for warning in created.warnings(&shop.project.layout, &aim) {
        context.ui.warn(&warning);
    }
    let CreatedCheckpoint { record, saved, contents, .. } = created;
    let layout = &shop.project.layout;
    // It may do anything to `.decree/`, where the way back is.
    shop.workspace.store().hold()?;
    let under_way = GuardRecord { checkpoint: record.id.clone(), command: what.clone() }.begin(layout)?;
    let mut own = match hold_own_files(layout, &saved) {
        Ok(own) => own,
        Err(error) => {
            under_way.over();
            return Err(error);
        }
    };
    let (code, blame) = run(context, args, &what, &record.id);
    // Whoever asked to stop wants the tree back as well, and that has to be finished.
    let asked = interrupt::requested();
    let _shield = interrupt::shield();
    let failed = code != 0 || asked.is_some();
    let mended = if failed { own.repair_with_settings() } else { own.repair_except_tracker() };
    let mended = mended.and_then(|mended| {
        tell_mended(context, &mended, &saved);
        shop.workspace.store().repair()?;
        match &contents {
            CheckpointPayload::Tree(manifest) if mended.spoiled.contains(&saved.manifest_path()) => {
                manifest.write(&saved.manifest_path())
            }
            _ => Ok(()),
        }
    });
    drop(contents);
    // The way back may be whole all the same.
    if let Err(error) = mended {
        context.ui.error(&error);
    }
    if !failed {
        under_way.over();
        let back = context.command_line(&format!("rollback {}", record.id));
        context.ui.note(&format!("kept; `{back}` is the way back"));
        return Ok(0);
    }
    let why = match asked {
        Some(_) => format!("`{what}` was interrupted"),
        None => blame,
    };
    // Its own scope is the one that was asked for.
    let mut wish = RollbackOptions::because(Some(why.clone()));
    wish.even_expired = true;
    let done = history::rollback(shop.site(&progress), &RunOrCheckpoint::Checkpoint(saved), &wish).map_err(
        |error| {
            let back = context.command_line(&format!("rollback {}", record.id));
            error
                .detail(format!("{why}; the tree is not put back"))
                .hint(format!("what was there before it is saved: `{back}`, once the reason is gone"))
        },
    )?;
    under_way.over();
    lines(&done).for_each(|line| context.ui.note(&line));
    let (undone, held) = (done.undone.len(), count(done.held, "path"));
    context.ui.note(&format!(
        "{why}; {} put back, {held} verified against {}",
        count(undone, "path"),
        record.id
    ));
    if let Some(present) = done.saved {
        let back = context.command_line(&format!("rollback {present}"));
        context.ui.note(&format!("what it had done is saved: `{back}` brings it back"));
    }
    match asked {
        Some(signal) => {
            Err(Error::new(ErrorKind::Interrupted { signal }, "interrupted").detail("the tree is as it was"))
        }
        None => Ok(code),
    }
}

fn hold_own_files(layout: &Layout, saved: &CheckpointDir) -> Result<OwnFiles> {
    let own = [layout.audit(), layout.guarding()];
    let protected = ProtectedDir {
        dir: saved.dir(),
        set_aside: saved.dir().join("set-aside"),
        records: [saved.manifest_path(), saved.dir().join("checkpoint.json")]
            .into_iter()
            .chain(own.clone())
            .collect(),
        is_record: &|path| path.starts_with(saved.dir()),
        reserved: own.to_vec(),
        reserved_unless_file: Vec::new(),
    };
    OwnFiles::hold(layout, protected)
}

/// What it had done to decree's own files is undone, and told.
fn tell_mended(context: &Context, mended: &RepairReport, saved: &CheckpointDir) {
    if !mended.restored.is_empty() {
        let files = count(mended.restored.len(), "file");
        context.ui.warn(&format!("it removed or replaced {files} of decree's own; they are as they were"));
    }
    if mended.set_aside > 0 {
        let aside = saved.quarantine_dir();
        context.ui.warn(&format!("what it put in the place of decree's own is in {}", aside.display()));
    }
    if mended.lost_runs > 0 {
        let runs = count(mended.lost_runs, "earlier run");
        context.ui.warn(&format!("it deleted what was kept of {runs}; that is gone"));
    }
}

/// The command, then what verifies it. Returns the first exit code that is not 0, and what it says.
fn run(context: &Context, args: &GuardArgs, what: &str, checkpoint: &str) -> (u8, String) {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]).current_dir(&context.directory).env(CHECKPOINT, checkpoint);
    let code = match attend(&mut command) {
        Ok(code) => code,
        // As a shell has it.
        Err(error) => {
            let error = Error::failed(format!("cannot run `{what}`")).caused_by(error);
            let is_line = args.command.len() == 1 && args.command[0].to_string_lossy().contains(' ');
            context.ui.error(&match is_line {
                true => error.hint(format!("a line for a shell: `decree guard -- sh -c {what}`")),
                false => error,
            });
            NOT_FOUND
        }
    };
    let blame = format!("`{what}` failed with {code}");
    let Some(verify) = args.verify.as_ref().filter(|_| code == 0 && interrupt::requested().is_none()) else {
        return (code, blame);
    };
    let mut command = Command::new("bash");
    command.args(["-c", verify]).current_dir(&context.directory).env(CHECKPOINT, checkpoint);
    let code = attend(&mut command).unwrap_or_else(|error| {
        context.ui.error(&Error::failed("cannot run bash, which verifies it").caused_by(error));
        NOT_FOUND
    });
    let verify = one_line(&Redactor::of_this_process().redact(verify));
    (code, format!("`{what}` succeeded, but `{}` failed with {code}", truncate(&verify, 200)))
}
