//! What every command starts from: where to print, which directory, and how to lock the project.

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::checkpoint::progress::Progress;
use crate::checkpoint::restore::RecoveredRestore;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::github::StepFiles;
use crate::history::{self, GuardRecord, HistoryContext, PendingGitRestore};
use crate::humanize::count;
use crate::pipeline::{ActiveRun, RunLog};
use crate::project::{Layout, Lock, Project};
use crate::ui::Ui;

pub struct Context {
    pub ui: Ui,
    pub directory: PathBuf,
    pub verbose: bool,
    /// What was warned of before the command's own work began, for its answer to a program.
    warned: RefCell<Vec<String>>,
}

impl Context {
    pub fn new(ui: Ui, directory: PathBuf, verbose: bool) -> Context {
        Context { ui, directory, verbose, warned: RefCell::default() }
    }

    /// Warns of something that an answer to a program has to contain, too.
    pub fn warn(&self, text: &str) {
        self.ui.warn(text);
        self.warned.borrow_mut().push(text.to_owned());
    }

    /// These warnings.
    pub fn warned(&self) -> Vec<String> {
        self.warned.borrow().clone()
    }

    /// A decree command line for hints that works in the directory where the user ran this command.
    pub fn command_line(&self, arguments: &str) -> String {
        match self.directory.to_str() {
            Some(directory) if directory != "." => {
                format!("decree -C {} {arguments}", shell_words::quote(directory))
            }
            _ => format!("decree {arguments}"),
        }
    }

    /// The project, for a command that starts work or creates something: a broken config is an error, and a deleted one a warning.
    pub fn project(&self) -> Result<Project> {
        let project = Project::find(&self.directory).inspect_err(|_| self.warn_behind_config())?;
        if project.misses_config() {
            let config = project.layout.shown(&project.layout.config());
            self.warn(&format!(
                "there is no {config}: every setting has its default, without verify and policy; `decree init` writes one"
            ));
        }
        Ok(project)
    }

    /// A command that stops at a broken config would not mention unfinished work otherwise.
    fn warn_behind_config(&self) {
        if let Ok((project, Some(_))) = Project::find_despite_config(&self.directory) {
            self.warn_unfinished(&project);
        }
    }

    /// The project, for a command that only shows something or goes back: a broken config is a warning, because the way back may lead
    /// to the config that worked. Settings that cannot be read have their defaults.
    pub fn project_despite_config(&self) -> Result<Project> {
        let (project, mistake) = Project::find_despite_config(&self.directory)?;
        if let Some(mistake) = mistake {
            self.warn(&format!(
                "{mistake}; settings that cannot be read have their defaults, `sensitive` too"
            ));
        }
        Ok(project)
    }

    /// The same for a command that only shows something: it also warns about unfinished work.
    pub fn project_to_inspect(&self) -> Result<Project> {
        let project = self.project_despite_config()?;
        self.warn_unfinished(&project);
        Ok(project)
    }

    /// The summary that an option names, else the project's last one.
    pub fn summary(&self, named: Option<&Path>) -> Result<PathBuf> {
        let own = || Ok(Project::find_despite_config(&self.directory)?.0.layout.summary());
        named.map_or_else(own, |path| Ok(self.directory.join(path)))
    }

    /// Sets outputs for later steps of a workflow. The work is done, so a failure is only a warning.
    pub fn set_outputs(&self, outputs: &[(&str, String)]) {
        if let Err(error) = StepFiles::from_environment().set_outputs(outputs) {
            self.ui.warn(&format!("cannot set the step's outputs: {error}"));
        }
    }

    /// Locks the project for a command that changes it, completes what a killed decree left half done, and warns about
    /// each.
    pub fn lock(&self, project: &Project, workspace: &Workspace, command: &str) -> Result<Lock> {
        let log = RunLog::new(&project.layout, workspace.store());
        let lock = project.lock(command)?;
        if let Some(text) = history::uncaptured::restore_active_record(&project.layout)? {
            self.warn(&text);
        }
        self.end_left_processes(&project.layout);
        let recovered = project.finish_restores(workspace, &log, &lock)?;
        for RecoveredRestore { name, finished, set_aside, intruders, log_failure } in recovered {
            let outcome = if finished { "finished" } else { "undone" };
            self.warn(&format!("`{name}` was interrupted; it is {outcome} now"));
            for (path, to) in &set_aside {
                self.warn(&format!("set aside {path}: moved to {}", to.display()));
            }
            for (path, to) in &intruders {
                self.warn(&format!("{path} was in the way; moved to {}", to.display()));
            }
            log_failure.map_or(Ok(()), Err)?;
        }
        log.take_moved_runs().iter().for_each(|run| self.warn(&run.sentence(false)));
        for text in history::uncaptured::restore_left_objects(&project.layout)? {
            self.warn(&text);
        }
        if let Some(id) = history::recover_rollback(&project.layout)? {
            self.warn(&format!("`rollback {id}` was interrupted; it is finished now"));
        }
        self.warn_of_guard(&project.layout);
        Ok(lock)
    }

    /// Ends what a run or a guarded command left running whose decree was killed. Nothing is restored before: they might destroy it again.
    fn end_left_processes(&self, layout: &Layout) {
        let guard = GuardRecord::find(layout).map_or(0, |guard| guard.end_processes());
        let run = ActiveRun::read(layout).ok().flatten();
        let of_run = run.as_ref().map_or(0, ActiveRun::end_processes);
        let name = run.map_or_else(String::new, |run| format!("run {}", run.dir.id()));
        for (ended, whose) in [(guard, "the guarded command"), (of_run, &*name)] {
            if ended > 0 {
                let processes = count(ended, "process");
                self.warn(&format!("ended {processes} that {whose} had left running"));
            }
        }
    }

    /// Warns of a guarded command whose decree was killed, until the user has decided what becomes of the tree.
    fn warn_of_guard(&self, layout: &Layout) {
        let Some(guard) = GuardRecord::find(layout) else { return };
        self.warn(&guard.warning());
        if guard.has_lost_checkpoint(layout) {
            let checkpoint = guard.checkpoint().unwrap_or_default();
            self.warn(&format!("{checkpoint} is gone: the tree stays as it is"));
            GuardRecord::forget(layout);
        }
    }

    /// Warns about unfinished work without touching it, for commands that only read.
    pub fn warn_unfinished(&self, project: &Project) {
        if project.has_unfinished_restore() {
            self.ui.warn(
                "a revert, apply or rollback was interrupted; the next command that changes the project finishes or undoes it",
            );
        }
        if let Ok(Some((what, lines))) = PendingGitRestore::unrestored(&project.layout) {
            let next = "the next command that changes the project tries again";
            self.ui.warn(&format!("git's own state is not restored since {what} failed; {next}"));
            lines.iter().for_each(|line| self.ui.warn(line));
        }
        if let Some(guard) = GuardRecord::find(&project.layout)
            && Lock::is_free(&project.layout.lock())
        {
            self.ui.warn(&guard.warning());
        }
        if let Ok(Some(run)) = ActiveRun::read(&project.layout)
            && Lock::is_free(&project.layout.lock())
        {
            self.ui.warn(&format!("run {} was interrupted; {}", run.dir.id(), run.way_out()));
        }
    }

    /// Warns about unreadable packs, because any command that reads the store may be the first to find one.
    pub fn warn_damaged_packs(&self, workspace: &Workspace) {
        for pack in workspace.store().damaged_packs().unwrap_or_default() {
            self.ui.warn(&format!(
                "the store is damaged: {} cannot be read; content that is still in the tree is stored again, and `decree checkpoint verify --all` lists the affected checkpoints",
                pack.display()
            ));
        }
    }

    /// Asks on a terminal before an unfinished run is reverted: the user may have edited the tree since.
    pub fn confirm_revert(&self, run: &ActiveRun) -> Result<()> {
        let question = format!(
            "run {}, started {}, was interrupted. Save the tree as a checkpoint and revert it to the state before the run?",
            run.dir.id(),
            run.started_at()
        );
        if self.ui.confirm(&question)? {
            return Ok(());
        }
        Err(Error::failed(format!("run {} is not reverted", run.dir.id()))
            .detail("nothing was changed; the next command asks again")
            .hint(format!(
                "`git diff` can show what the run changed; `decree diff {}` can only after the revert",
                run.dir.id()
            )))
    }
}

/// A decree command line for answers to programs. It runs from any directory, also when the one it was made in is gone, and with any
/// environment: a store that is not the project's own is named.
pub fn absolute_command_line(layout: &Layout, directory: &Path, arguments: &str) -> String {
    let store = layout.named_store().map(|store| format!("DECREE_STORE={} ", shell_quoted(&store)));
    format!("{}decree -C {} {arguments}", store.unwrap_or_default(), shell_quoted(directory))
}

/// A path as a word of bash. Bytes that are not UTF-8 are written as escapes.
pub fn shell_quoted(path: &Path) -> String {
    if let Some(text) = path.to_str() {
        return shell_words::quote(text).into_owned();
    }
    let mut word = String::from("$'");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'\'' | b'\\' => word.extend(['\\', char::from(byte)]),
            b' '..=b'~' => word.push(char::from(byte)),
            byte => word.push_str(&format!("\\{byte:03o}")),
        }
    }
    word + "'"
}

/// Borrows what the history needs from a project.
pub fn history_context<'p>(
    project: &'p Project,
    workspace: &'p Workspace,
    progress: &'p dyn Progress,
) -> HistoryContext<'p> {
    HistoryContext { layout: &project.layout, config: &project.config, workspace, progress, runs: None }
}
