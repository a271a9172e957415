//! `decree recover`

use serde_json::{Value, json};

use super::locked_project::{LockedProject, RECOVER};
use super::rollback::{NOT_SAVED, moved_runs};
use super::rollback_answer::{run_answer, secrets_left};
use super::{Context, Format};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::partial_restore::LostPath;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::store::PackCheck;
use crate::error::{ErrorKind, Result};
use crate::history::uncaptured::NotRestored;
use crate::history::{
    self, CheckpointRecord, GitChange, GuardRecord, PendingGitRestore, Scope, SettledGuard, TreeRecovery,
};
use crate::humanize::count;
use crate::pipeline::rolled_back::MovedRun;
use crate::pipeline::{ActiveRun, RecoveredRun, quarantine_damaged_record};
use crate::project::Layout;

/// Get a project working again whose store was damaged: restore what can be restored, and name the rest
///
/// Reads the whole store. Damaged packs move to store/damaged/ after what is intact in them is stored again, also if their index is lost.
/// Then an unfinished run that
/// cannot be reverted as a whole is reverted as far as possible, and closed: its verdict is `failed-unrestored`, and its message goes to
/// inbox/dead/. The same for the checkpoint of a guarded command, or for the one that is named. What is in the tree is saved as a
/// checkpoint first. Likely secrets that are newer than a checkpoint stay. A checkpoint that has expired is refused. git's own state goes back with the files of a run or a guarded command. Exit code 4: something is lost, could not be
/// restored, or is unknown; with --dry-run, too.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree recover --dry-run\n  decree recover\n  decree recover chk_20261116_0312"
)]
pub struct RecoverArgs {
    /// A checkpoint, or a run, to go back to as far as possible; or a unique prefix
    #[arg(value_name = "ID")]
    id: Option<String>,

    /// Only keep the tree as it is after a guarded command whose decree was killed, or whose rollback failed, and git's own state if it could not be restored
    #[arg(long, conflicts_with_all = ["id", "dry_run"])]
    keep: bool,

    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// The output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(super) format: Format,
}

/// What was found and done.
struct Recovery {
    packs: PackCheck,
    /// Whether `running.json` could not be read, so that it is unknown which run was active.
    is_run_unknown: bool,
    run: Option<RecoveredRun>,
    /// The checkpoint to which the tree was taken back, if no run was.
    checkpoint: Option<(String, TreeRecovery)>,
    /// Of the checkpoint of a guarded command.
    git: Vec<GitChange>,
    /// Runs whose work left the tree with the checkpoint, or came back.
    moved: Vec<MovedRun>,
    /// What else the guarded command left that is not as it was.
    not_restored: Vec<String>,
}

impl Recovery {
    fn tree(&self) -> Option<&TreeRecovery> {
        self.run.as_ref().map(|run| &run.tree).or(self.checkpoint.as_ref().map(|(_, tree)| tree))
    }

    /// What no checkpoint holds, and is not as it was.
    fn not_restored(&self) -> impl Iterator<Item = &String> {
        self.run.iter().flat_map(|run| &run.not_restored).chain(&self.not_restored)
    }

    /// Adds what became of a guarded command beside the tree.
    fn add_guard(&mut self, settled: SettledGuard, tree: &mut TreeRecovery) {
        for lost in &settled.not_restored {
            match lost_path(lost) {
                Some(path) => tree.report.lost.push(path),
                None => self.not_restored.push(lost.line()),
            }
        }
        self.not_restored.extend(settled.git.iter().flat_map(GitChange::unrestored_lines));
        self.git = settled.git;
    }

    /// Whether something cannot be restored, or is unknown.
    fn has_losses(&self) -> bool {
        let of_run = |run: &RecoveredRun| run.unknown.is_some() || !run.not_restored.is_empty();
        self.is_run_unknown
            || self.packs.missing > 0
            || self.run.as_ref().is_some_and(of_run)
            || self.git.iter().any(GitChange::is_unrestored)
            || !self.not_restored.is_empty()
            || self.tree().is_some_and(|tree| !tree.report.lost.is_empty())
    }
}

pub fn recover(context: &Context, args: &RecoverArgs) -> Result<u8> {
    let locked = LockedProject::open_unsettled(context, RECOVER)?;
    let layout = &locked.project.layout;
    let guarded = GuardRecord::find(layout);
    if args.keep {
        return keep(&locked, context, guarded.is_some()).map(|()| 0);
    }
    let progress = context.ui.progress();
    let packs = history::check_packs(locked.history_context(&progress), !args.dry_run)?;
    let is_run_unknown = quarantine_record(context, layout, args.dry_run)?;
    let run = if is_run_unknown { None } else { locked.recover_run(args.dry_run)? };
    let mut recovery = Recovery {
        packs,
        is_run_unknown,
        run,
        checkpoint: None,
        git: Vec::new(),
        moved: Vec::new(),
        not_restored: Vec::new(),
    };
    let wanted = args.id.clone().or(guarded.and_then(|guard| Some(guard.checkpoint()?.to_owned())));
    if let Some(id) = wanted.filter(|_| recovery.run.is_none()) {
        let found = history::find_tree(layout, &id)?;
        let dir = found.dir();
        refuse_state(&locked, dir)?;
        let manifest = dir.manifest(locked.workspace.store())?;
        let diffs = [dir.diff_path()];
        let history = locked.history_context(&progress);
        if let Some(guard) = locked.guard_of(dir).filter(|_| !args.dry_run) {
            locked.prepare_guard(&guard, dir, None)?;
        }
        let mut tree = history::recover_tree(history, dir.id(), &manifest, &diffs, true, args.dry_run)?;
        if let Some(guard) = locked.guard_of(dir).filter(|_| !args.dry_run) {
            let settled = locked.settle_guard(&guard, dir)?;
            settled.warnings.iter().for_each(|warning| context.ui.warn(warning));
            recovery.add_guard(settled, &mut tree);
        }
        let (all, lost, saved) = (Scope::default(), &tree.report.lost, tree.saved.as_deref());
        recovery.moved = moved_runs(&locked, dir, &all, lost, saved, args.dry_run)?;
        recovery.checkpoint = Some((dir.id().to_owned(), tree));
    }
    recovery.tree().iter().flat_map(|tree| &tree.notes).for_each(|note| context.warn(note));
    if !args.dry_run
        && let Err(error) = history::restock(locked.history_context(&progress), &mut recovery.packs)
    {
        context.ui.warn(&format!(
            "what the tree still has of the lost contents could not be stored again: {error}"
        ));
    }
    name_git_restores(&locked, context, &mut recovery, args.dry_run)?;
    match args.format {
        Format::Json => context.ui.print_json(&answer(&recovery, args.dry_run, &context.warned()))?,
        Format::Text => print(context, &locked, &recovery, args.dry_run)?,
    }
    Ok(if recovery.has_losses() { ErrorKind::Integrity.exit_code() } else { 0 })
}

/// Tries restores of git's own state again that were still to be done, now that the store has what can be had, and names what stays.
fn name_git_restores(
    locked: &LockedProject<'_>,
    context: &Context,
    recovery: &mut Recovery,
    dry_run: bool,
) -> Result<()> {
    let layout = &locked.project.layout;
    if !dry_run && PendingGitRestore::exists(layout) {
        locked.finish_git_restores()?;
    }
    let Some((_, lines)) = PendingGitRestore::unrestored(layout)? else { return Ok(()) };
    let known: Vec<String> = recovery.not_restored().cloned().collect();
    recovery.not_restored.extend(lines.into_iter().filter(|line| !known.contains(line)));
    context.ui.note("git's own state is still to be restored: every command tries again, and `decree recover --keep` leaves it as it is");
    Ok(())
}

/// Forgets what a killed guard, or a restore of git's own state that failed, left to do.
fn keep(locked: &LockedProject<'_>, context: &Context, was_guarded: bool) -> Result<()> {
    let layout = &locked.project.layout;
    GuardRecord::forget(layout);
    let was_pending = PendingGitRestore::forget(layout, &locked.workspace)?;
    context.ui.note(match (was_guarded, was_pending) {
        (true, _) => "the tree stays as the guarded command left it",
        (false, true) => "git's own state stays as it is",
        (false, false) => "no guarded command was cut off; nothing was done",
    });
    Ok(())
}

/// Moves a `running.json` that cannot be read out of the way. Returns whether there is one.
fn quarantine_record(context: &Context, layout: &Layout, dry_run: bool) -> Result<bool> {
    let Err(error) = ActiveRun::read(layout) else { return Ok(false) };
    let unknown = "which run was active is unknown, and the tree is as it was found";
    if dry_run && error.kind() == ErrorKind::Integrity {
        context.ui.warn(&format!("{unknown}: {error}"));
        return Ok(true);
    }
    let moved = quarantine_damaged_record(layout, error)?;
    context.ui.warn(&format!(
        "{unknown}; the damaged record is {}; `decree log` lists the runs, and `decree revert` reverts one that has a changes.diff",
        layout.shown(&moved)
    ));
    Ok(true)
}

/// Refuses a checkpoint that has expired, unless a killed guard needs it, and one whose content is in another store.
fn refuse_state(locked: &LockedProject<'_>, dir: &CheckpointDir) -> Result<()> {
    // A checkpoint whose record is damaged may still have its manifest.
    if let Ok(record) = CheckpointRecord::read(dir.dir())
        && locked.guard_of(dir).is_none()
    {
        record.refuse_expired()?;
    }
    history::refuse_other_store_of(&locked.project.layout, dir)
}

/// Something that no checkpoint holds, among what is lost; `None` for what is inside of a git directory, which is no part of a tree.
fn lost_path(lost: &NotRestored) -> Option<LostPath> {
    let path = TreePath::out_of_scope(&quote::from_json(&lost.path)?)?;
    Some(LostPath { path, why: lost.why.clone() })
}

fn print(context: &Context, locked: &LockedProject<'_>, recovery: &Recovery, dry_run: bool) -> Result<()> {
    let (ui, layout) = (&context.ui, &locked.project.layout);
    let would = if dry_run { "would be " } else { "" };
    for pack in &recovery.packs.damaged {
        let intact = count(pack.intact, "content");
        let lost = match pack.lost {
            Some(lost) => format!("{intact} intact, {lost} lost"),
            None => format!("{intact} found in it without its index"),
        };
        let to = pack
            .moved_to
            .as_ref()
            .map_or("moved out of the store".to_owned(), |to| format!("moved to {}", layout.shown(to)));
        ui.print(&format!("{would}{to}: {} ({}; {lost})\n", layout.shown(&pack.path), pack.why))?;
    }
    if recovery.packs.missing > 0 {
        let missing = count(recovery.packs.missing, "content");
        let unless = if dry_run { ", unless the tree has them" } else { "" };
        ui.print(&format!("lost: {missing} that runs or checkpoints name{unless}; `decree checkpoint verify --all` lists the affected checkpoints\n"))?;
    }
    if let Some(tree) = recovery.tree() {
        for path in &tree.report.restored {
            let what = if tree.report.removed.contains(path) { "removed" } else { "restored" };
            ui.print(&format!("{would}{what}: {path}\n"))?;
        }
        for (path, to) in &tree.report.set_aside {
            let place = if dry_run { String::new() } else { format!(": moved to {}", layout.shown(to)) };
            ui.print(&format!("{would}set aside: {path}{place}\n"))?;
        }
        let left: Vec<String> = tree.report.secrets_left.iter().map(TreePath::to_string).collect();
        secrets_left(&left).iter().for_each(|warning| ui.warn(warning));
        for lost in &tree.report.lost {
            ui.print(&format!("not restored: {lost}\n"))?;
        }
        if let Some(saved) = &tree.saved {
            let back = context.command_line(&format!("rollback {saved}"));
            let but = if tree.report.set_aside.is_empty() { "" } else { NOT_SAVED };
            ui.note(&format!("the tree as it was found is saved: `{back}` restores it{but}"));
        }
    }
    for lost in recovery.not_restored() {
        ui.print(&format!("not restored: {lost}\n"))?;
    }
    recovery.moved.iter().for_each(|run| ui.note(&run.sentence(dry_run)));
    ui.note(&closing(recovery, dry_run));
    Ok(())
}

/// What all of it means, in a sentence.
fn closing(recovery: &Recovery, dry_run: bool) -> String {
    let lost = recovery.tree().map_or(0, |tree| tree.report.lost.len());
    match (&recovery.run, &recovery.checkpoint) {
        _ if dry_run => "nothing was done".to_owned(),
        (Some(RecoveredRun { id, unknown: Some(why), .. }), _) => {
            format!("run {id} is closed as failed-unrestored; the tree is as the run left it: {why}")
        }
        (Some(run), _) if lost > 0 => {
            let lost = count(lost, "file");
            format!(
                "run {} is closed as failed-unrestored: {lost} could not be restored; all other paths that the checkpoint holds are as they were before it",
                run.id
            )
        }
        (Some(run), _) if !run.not_restored.is_empty() => format!(
            "run {} is settled, and the tree is as it was before it, except for what no checkpoint holds",
            run.id
        ),
        (Some(run), _) => format!("run {} is settled, and the tree is as it was before it", run.id),
        (None, Some((id, _))) if lost > 0 => {
            format!("{} could not be restored; all other paths are as in {id}", count(lost, "file"))
        }
        (None, Some((id, _))) if !recovery.not_restored.is_empty() => {
            format!("the tree is as in {id}, except for what no checkpoint holds")
        }
        (None, Some((id, _))) => format!("the tree is as in {id}"),
        (None, None) if recovery.is_run_unknown => {
            "the tree is as it was found, and every other command works again".to_owned()
        }
        (None, None) if recovery.packs.damaged.is_empty() => {
            "every pack is intact, and no run is unfinished".to_owned()
        }
        (None, None) => {
            "no run is unfinished; `decree checkpoint verify --all` lists the affected checkpoints".to_owned()
        }
    }
}

/// The answer for programs.
fn answer(recovery: &Recovery, dry_run: bool, warnings: &[String]) -> Value {
    let path = |path: &crate::checkpoint::path::TreePath| quote::in_json(path.as_bytes()).into_owned();
    let report = recovery.tree().map(|tree| &tree.report);
    let packs: Vec<Value> = recovery
        .packs
        .damaged
        .iter()
        .map(|pack| {
            json!({
                "pack": pack.path.to_string_lossy(),
                "why": pack.why,
                "intact": pack.intact,
                "lost": pack.lost,
                "moved_to": pack.moved_to.as_ref().map(|to| to.to_string_lossy()),
            })
        })
        .collect();
    json!({
        "recovered": !dry_run && !recovery.has_losses(),
        "dry_run": dry_run,
        "packs": packs,
        "missing": recovery.packs.missing,
        "run": recovery.run.as_ref().map(|run| &run.id),
        "verdict": recovery.run.as_ref().and_then(|run| run.verdict),
        "unknown": recovery.run.as_ref().and_then(|run| run.unknown.as_ref()),
        "checkpoint": recovery.checkpoint.as_ref().map(|(id, _)| id),
        "saved_present_as": recovery.tree().and_then(|tree| tree.saved.as_ref()),
        "restored": report.map_or(Vec::new(), |report| report.restored.iter().map(path).collect::<Vec<_>>()),
        "removed": report.map_or(Vec::new(), |report| report.removed.iter().map(path).collect::<Vec<_>>()),
        "not_restored": recovery.not_restored().collect::<Vec<_>>(),
        "lost": report.map_or(Vec::new(), |report| {
            report.lost.iter().map(|lost| json!({ "path": path(&lost.path), "why": lost.why })).collect::<Vec<_>>()
        }),
        "set_aside": report.map_or(Vec::new(), |report| {
            report.set_aside.iter().map(|(from, _)| path(from)).collect::<Vec<_>>()
        }),
        "warnings": warnings,
        "runs": recovery.moved.iter().map(run_answer).collect::<Vec<_>>(),
        "secrets_left": report.map_or(Vec::new(), |report| report.secrets_left.iter().map(path).collect::<Vec<_>>()),
    })
}
