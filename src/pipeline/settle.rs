//! The end of a run, in an order that can be repeated: result, tree, queue, tracker, and only then is it not running any more.

use std::fs;

use super::active_run::ActiveRun;
use super::events::Event;
use super::prepare::dead_letter;
use super::queue::Pipeline;
use super::result::RunResult;
use super::run_dir::RunDir;
use super::summary::MessageSummary;
use super::verdict::Verdict;
use crate::checkpoint::manifest::Manifest;
use crate::error::{IoContext, Result};
use crate::message::Document;
use crate::project::Layout;
use crate::spec::Tracker;

impl Pipeline<'_> {
    /// Writes the verdict down and does what follows from it. Whoever is killed in here leaves something that can be
    /// settled again from the start. `for_good` buries a message that otherwise would wait for another try. Returns what there is
    /// to tell.
    pub(super) fn settle(
        &mut self,
        running: &ActiveRun,
        run: &RunDir,
        manifest: Option<&Manifest>,
        mut result: RunResult,
        for_good: bool,
    ) -> Result<MessageSummary> {
        let path = run.saved().result_path();
        result.story.mark = running.mark_text().to_owned();
        if result.story.kept {
            // What is called kept has to be there after a power cut, too.
            self.workspace.root().sync().at("sync", self.layout.root())?;
        }
        result.write(&path)?;
        if let Some(manifest) = manifest.filter(|_| !result.story.kept && result.story.put_back.is_none()) {
            let put_back = self.put_back(run, &run.saved(), manifest)?;
            self.reporter.event(&Event::Reverted(&put_back));
            result.story.put_back = Some(put_back);
            result.write(&path)?;
        }
        if !result.story.kept {
            let dir = run.last_attempt().map_or(run.path().to_owned(), |number| run.attempt_dir(number));
            self.withdraw_follow_ups(run, running, &dir)?;
        }
        let waits_on = result.story.status == Verdict::Interrupted && !for_good;
        if !waits_on {
            self.settle_message(running, run, &result)?;
        }
        ActiveRun::clear(self.layout)?;
        self.after_each(run, &result);
        Ok(MessageSummary::of_run(run.id(), run.shown(), &result))
    }

    /// `done/` before the tracker: a spec that is called processed was processed.
    fn settle_message(&mut self, running: &ActiveRun, run: &RunDir, result: &RunResult) -> Result<()> {
        let file = running.file();
        let text = fs::read(run.message()).at("read", run.message())?;
        if !result.story.kept {
            let error = match result.story.attempts.len() {
                0 => result.story.reason.clone(),
                n => format!("{} ({})", result.story.reason, crate::humanize::count(n, "attempt")),
            };
            return self.inbox.dead_letter(&file, &text, &dead_letter(&text, &error, result.story.status));
        }
        self.inbox.finish(&file, &text)?;
        if let Some(name) = result.story.spec.as_deref().and_then(|spec| tracked_name(self.layout, spec)) {
            Tracker::append(&self.layout.tracker(), &name)?;
        }
        Ok(())
    }

    fn after_each(&mut self, run: &RunDir, result: &RunResult) {
        let story = &result.story;
        let facts = [
            ("message_id", run.id().to_string()),
            ("message_name", story.name.clone()),
            ("message_dir", run.path().to_string_lossy().into_owned()),
            ("spec_file", story.spec.clone().unwrap_or_default()),
            ("DECREE_VERDICT", story.status.word().to_owned()),
        ];
        if let Err(why) = self.hook("after_each", &self.config.hooks.after_each, &facts) {
            self.warn(&format!("hooks.after_each failed: {why}"));
        }
    }
}

/// The name of a spec in the tracker: only what is directly in `specs/` is tracked.
pub fn tracked_name(layout: &Layout, spec: &str) -> Option<String> {
    let path = layout.root().join(spec);
    let inside = path.canonicalize().ok()?.parent()? == layout.specs().canonicalize().ok()?;
    inside.then(|| path.file_name()?.to_str().map(str::to_owned)).flatten()
}

/// The message of a run that is settled from what is on disk.
pub(super) fn message_of(run: &RunDir) -> Document {
    let text = crate::message::read_text(&run.message()).unwrap_or_default();
    Document::parse(&text).unwrap_or_default()
}
