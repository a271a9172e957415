//! A run that was cut off: by `kill -9`, by a power cut, or by an error of decree's own.
//!
//! Everything follows from `running.json` and the run's directory. No manifest: nothing had happened. A result: the run was
//! decided, and is settled as decided. A manifest and no result: an attempt was under way; the whole present state is saved
//! as a checkpoint (a person may have edited since), its diff is that attempt's, and the tree is put back.

use super::active_run::ActiveRun;
use super::events::Event;
use super::queue::Pipeline;
use super::result::{RunRecord, RunResult};
use super::run_dir::{PUBLISHED, RunDir};
use super::settle::message_of;
use super::summary::MessageSummary;
use super::verdict::Verdict;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, IoContext, Result};
use crate::interrupt;
use crate::message::{MessageId, display_name};
use crate::process::marked;
use crate::project::Layout;

/// A run that waits to be settled.
#[derive(Clone, Debug)]
pub struct UnfinishedRun {
    /// Which one.
    pub id: MessageId,
    /// UTC.
    pub started_at: String,
    /// Whether an attempt was under way, so that the tree has to be put back.
    pub in_attempt: bool,
}

impl UnfinishedRun {
    /// Looks for one.
    pub fn find(layout: &Layout) -> Result<Option<UnfinishedRun>> {
        let Some(running) = ActiveRun::read(layout)? else {
            return Ok(None);
        };
        let id = running.id()?;
        let run = RunDir::of(layout, &id);
        let decided = verdict_of(&running, &run).is_some();
        let in_attempt = !decided && run.saved().manifest_path().exists();
        Ok(Some(UnfinishedRun { id, started_at: running.started_at, in_attempt }))
    }
}

/// The verdict, if decree wrote one in this very run: a routine may have a `result.json` of its own.
fn verdict_of(running: &ActiveRun, run: &RunDir) -> Option<RunResult> {
    let result = RunResult::read(&run.saved().result_path()).ok()??;
    (result.story.mark == running.mark_text()).then_some(result)
}

/// What a routine wrote under the name of the verdict must not be taken for it later.
fn set_foreign_result_aside(run: &RunDir) -> Result<()> {
    let path = run.saved().result_path();
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(_) => {
            let to = run.path().join("routine-result.json");
            std::fs::rename(&path, &to).at("move", &path)
        }
    }
}

impl Pipeline<'_> {
    /// Settles the run that an earlier decree left, if it left one. Returns what was decided by that.
    pub fn recover(mut self) -> Result<Vec<MessageSummary>> {
        self.settle_cut_off()?;
        Ok(self.summary.messages)
    }

    fn settle_cut_off(&mut self) -> Result<()> {
        let Some(running) = ActiveRun::read(self.layout)? else {
            return Ok(());
        };
        let ended = running.mark().map_or(0, |mark| marked::end(&mark));
        if ended > 0 {
            let count = crate::humanize::count(ended, "process");
            self.warn(&format!("{count} of run {} were still at work; they were ended", running.id()?));
        }
        let _shield = interrupt::shield();
        let run = RunDir::of(self.layout, &running.id()?);
        if let Some(result) = verdict_of(&running, &run) {
            self.note(&format!("run {} had been decided and is settled now", run.id()));
            let manifest = match run.saved().manifest_path().exists() {
                true => Some(run.saved().manifest()?),
                false => None,
            };
            let for_good = result.story.attempts.is_empty() && manifest.is_none();
            let waits_on = result.story.status == Verdict::Interrupted && !for_good;
            let summary = self.settle(&running, &run, manifest.as_ref(), result, for_good)?;
            // What waits on is told when it is decided.
            if !waits_on {
                self.record_outcome(summary);
            }
            return Ok(());
        }
        if !run.saved().manifest_path().exists() {
            self.note(&format!(
                "run {} had not begun when it was cut off; its message waits in the inbox",
                run.id()
            ));
            return ActiveRun::clear(self.layout);
        }
        let manifest = run.saved().manifest()?;
        set_foreign_result_aside(&run)?;
        self.undo(&running, &run, &manifest)
    }

    /// Saves everything as it is, then puts the tree back.
    fn undo(&mut self, running: &ActiveRun, run: &RunDir, manifest: &Manifest) -> Result<()> {
        let number = run.last_attempt().unwrap_or(1);
        let attempt = run.attempt(number);
        let changed = {
            let changes = self.workspace.compare(manifest, self.reporter.progress())?;
            !changes.list.is_empty() || !changes.out_of_scope.is_empty()
        };
        if changed {
            let saved = self.save_present(&format!("as run {} was cut off", run.id()))?;
            self.warn(&format!(
                "run {} had been cut off; the tree is put back, and what was there is saved: `decree revert {saved}` brings it back",
                run.id(),
            ));
        }
        // A diff that is there is from before: if nothing is changed any more, a recovery was cut off after it.
        if changed || !attempt.has_change_record() {
            std::fs::create_dir_all(attempt.dir()).map_err(|error| {
                Error::failed(format!("cannot create {}", attempt.dir().display())).caused_by(error)
            })?;
            attempt.record_changes(self.workspace, manifest, true, self.reporter.progress())?;
        }
        run.publish(number, &PUBLISHED)?;
        let document = message_of(run);
        let story = RunRecord {
            status: Verdict::Interrupted,
            reason: "decree was killed".to_owned(),
            routine: document.get_text("routine"),
            spec: document.get_text("input_file").filter(|path| crate::message::is_spec(path)),
            ..RunRecord::begins(display_name(&running.file(), &document.body), running.started_at.clone())
        };
        let seal = attempt.result()?;
        self.settle(running, run, Some(manifest), RunResult { seal, story }, false).map(drop)
    }

    /// An error of decree's own in the middle of a run: the tree is put back at once, if it can be.
    pub(super) fn rescue(&mut self, running: &ActiveRun, manifest: &Manifest, error: Error) -> Error {
        let _shield = interrupt::shield();
        let run = match running.id() {
            Ok(id) => RunDir::of(self.layout, &id),
            Err(_) => return error,
        };
        match self.undo(running, &run, manifest) {
            Ok(()) => error.detail("the tree was put back; the message waits in the inbox"),
            Err(worse) => error
                .detail(format!("and the tree could not be put back: {worse}"))
                .hint("remove the cause, then run the same command again: it goes on from here"),
        }
    }

    pub(super) fn note(&mut self, text: &str) {
        self.reporter.event(&Event::Note(text));
    }
}
