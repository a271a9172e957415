//! The end of a run: result, tree, queue and tracker, and only then is it no longer active. A process that is killed on the way
//! leaves a run that is settled again from the start, so every step can be repeated.

use std::fs;

use super::active_run::ActiveRun;
use super::context::PipelineContext;
use super::outcome::OutcomeRecorder;
use super::result::RunResult;
use super::revert_tree::{revert_tree, withdraw_follow_ups};
use super::summary::MessageSummary;
use super::verdict::Verdict;
use super::{dead_letter, hooks};
use crate::checkpoint::manifest::Manifest;
use crate::error::{IoContext, Result};
use crate::history::RunDir;
use crate::humanize::count;
use crate::project::Layout;
use crate::spec::Tracker;

/// A run that is about to be settled.
pub(super) struct Settlement<'s> {
    pub active: &'s ActiveRun,
    pub run: &'s RunDir,
    /// The checkpoint to revert to; `None` if no attempt began.
    pub manifest: Option<&'s Manifest>,
    /// Whether an interrupted message becomes a dead letter instead of waiting for the next command.
    pub is_final: bool,
}

impl Settlement<'_> {
    /// Writes the verdict and does what follows from it.
    pub fn settle(
        &self,
        context: &PipelineContext<'_>,
        recorder: &mut OutcomeRecorder<'_>,
        mut result: RunResult,
    ) -> Result<MessageSummary> {
        let (run, checkpoint) = (self.run, self.run.checkpoint());
        self.active.mark_text().clone_into(&mut result.mark);
        if result.run.kept {
            // A change that the result calls kept has to survive a power failure.
            context.workspace.root().sync().at("sync", context.layout.root())?;
        }
        result.write(&checkpoint)?;
        if let Some(manifest) = self.manifest
            && !result.run.kept
            && result.run.reverted.is_none()
        {
            result.run.reverted = Some(revert_tree(context, recorder, run, &checkpoint, manifest)?);
            result.write(&checkpoint)?;
        }
        if !result.run.kept {
            withdraw_follow_ups(context, run, self.active, run.last_attempt())?;
        }
        if result.verdict != Verdict::Interrupted || self.is_final {
            self.settle_message(context, &result)?;
        }
        ActiveRun::clear(context.layout)?;
        after_each(context, recorder, run, &result);
        Ok(MessageSummary::of_run(run, &result))
    }

    /// `done/` before the tracker: a spec in the tracker is always one that was processed.
    fn settle_message(&self, context: &PipelineContext<'_>, result: &RunResult) -> Result<()> {
        let (file, record) = (self.active.file(), &result.run);
        let text = fs::read(self.run.message()).at("read", self.run.message())?;
        if !record.kept {
            let error = match record.attempts.len() {
                0 => record.reason.clone(),
                n => format!("{} ({})", record.reason, count(n, "attempt")),
            };
            let letter = dead_letter::render(&text, &error, result.verdict);
            return context.inbox.dead_letter(&file, &text, &letter);
        }
        context.inbox.finish(&file, &text)?;
        if let Some(name) = record.spec.as_deref().and_then(|spec| tracked_name(context.layout, spec)) {
            Tracker::append(&context.layout.tracker(), &name)?;
        }
        Ok(())
    }
}

fn after_each(
    context: &PipelineContext<'_>,
    recorder: &mut OutcomeRecorder<'_>,
    run: &RunDir,
    result: &RunResult,
) {
    let variables = [
        ("message_id", run.id().to_string()),
        ("message_name", result.run.name.clone()),
        ("message_dir", run.path().to_string_lossy().into_owned()),
        ("spec_file", result.run.spec.clone().unwrap_or_default()),
        ("DECREE_VERDICT", result.verdict.word().to_owned()),
    ];
    let command = &context.config.hooks.after_each;
    if let Err(why) = hooks::run_hook(context, recorder, "after_each", command, &variables) {
        recorder.warn(&format!("hooks.after_each failed: {why}"));
    }
}

/// The name of a spec in the tracker: only specs directly in `specs/` are tracked.
pub fn tracked_name(layout: &Layout, spec: &str) -> Option<String> {
    let path = layout.root().join(spec);
    let inside = path.canonicalize().ok()?.parent()? == layout.specs().canonicalize().ok()?;
    inside.then(|| path.file_name()?.to_str().map(str::to_owned)).flatten()
}
