//! The loop that `run`, `process` and `daemon` share.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use super::budget::BudgetMeter;
use super::events::{Event, Reporter};
use super::prepare::Taken;
use super::summary::{MessageSummary, Summary};
use super::verdict::Verdict;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, ErrorKind, Result};
use crate::humanize::count;
use crate::interrupt;
use crate::message::{ChainId, Document, Inbox, MessageId, MessageName};
use crate::process::environment::child_environment;
use crate::process::redact::Redactor;
use crate::project::{Config, Layout, Lock, Project, RoutineName};
use crate::routine::Routines;
use crate::sanitize::one_line;
use crate::spec::{Spec, Specs, Tracker};

/// What the command line says over the config.
#[derive(Clone, Debug, Default)]
pub struct RunOverrides {
    /// For every attempt, whatever config and front matter say.
    pub timeout: Option<Duration>,
    /// Likewise.
    pub max_retries: Option<u32>,
    /// For what names none, and no router is asked.
    pub routine: Option<RoutineName>,
}

/// Which specs to process.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only specs whose file name or path matches one of these.
    pub globs: Vec<String>,
    /// At most so many.
    pub limit: Option<usize>,
    /// Stop at the first that fails.
    pub fail_fast: bool,
}

/// Everything that carrying out messages takes.
pub struct Pipeline<'p> {
    pub(super) layout: &'p Layout,
    pub(super) config: &'p Config,
    pub(super) workspace: &'p Workspace,
    pub(super) lock: &'p Lock,
    pub(super) settings: RunOverrides,
    pub(super) routines: Routines,
    pub(super) inbox: Inbox,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) redactor: Redactor,
    pub(super) meter: BudgetMeter,
    pub(super) reporter: &'p mut dyn Reporter,
    pub(super) summary: Summary,
    began: Instant,
    /// Specs that this command has dealt with, one way or the other.
    handled: BTreeSet<String>,
}

impl<'p> Pipeline<'p> {
    /// For one command.
    pub fn new(
        project: &'p Project,
        workspace: &'p Workspace,
        lock: &'p Lock,
        settings: RunOverrides,
        command: &str,
        reporter: &'p mut dyn Reporter,
    ) -> Result<Self> {
        let (layout, config) = (&project.layout, &project.config);
        let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        Ok(Pipeline {
            layout,
            config,
            workspace,
            lock,
            settings,
            routines: Routines::of(project)?,
            inbox: Inbox::of(layout),
            environment: child_environment(variables.clone(), &config.pass_env),
            redactor: Redactor::from_environment(&variables),
            meter: BudgetMeter::new(config.budget.clone()),
            reporter,
            summary: Summary::new(command),
            began: Instant::now(),
            handled: BTreeSet::new(),
        })
    }

    /// Takes over what was settled before the work began, so that it is told and not done again.
    pub fn adopt_recovered(&mut self, settled: &[MessageSummary]) {
        for message in settled {
            self.handled.extend(message.spec.clone());
            let mut message = message.clone();
            message.redact(&self.redactor);
            self.summary.add(message);
        }
    }

    /// Carries out one new message and what follows from it.
    pub fn run_message(mut self, name: MessageName, document: Document) -> Result<Summary> {
        let done = self.with_hooks(|pipeline| {
            let file = OsString::from(format!("{name}.md"));
            pipeline.inbox.add(&file, &document.render())?;
            pipeline.reporter.event(&Event::Begin { messages: 1, specs: 0 });
            pipeline.work_chain(&file).map(drop)
        });
        self.end(done)
    }

    /// Carries out what waits in the inbox, then every spec that is selected.
    pub fn process(mut self, selection: &Selection) -> Result<Summary> {
        let done = self.with_hooks(|pipeline| pipeline.process_all(selection));
        self.end(done)
    }

    fn process_all(&mut self, selection: &Selection) -> Result<()> {
        let plan = planned(self.layout, selection)?;
        self.reporter.event(&Event::Begin { messages: plan.messages.len(), specs: plan.specs.len() });
        for problem in &plan.problems {
            self.warn(problem);
        }
        for file in &plan.messages {
            if self.inbox.path(file).exists() && !self.stops(selection) {
                self.work_chain(file)?;
            }
        }
        for spec in plan.specs.iter().take(selection.limit.unwrap_or(usize::MAX)) {
            interrupt::check()?;
            // Something that waited may have been about it.
            if self.handled.contains(&spec.shown()) {
                continue;
            }
            self.handled.insert(spec.shown());
            if self.stops(selection) {
                self.skip(spec, Verdict::Skipped, "an earlier one failed");
            } else if let Some(why) = self.meter.used_up() {
                self.skip(spec, Verdict::Budget, &why);
            } else {
                let file = self.enqueue(spec)?;
                self.work_chain(&file)?;
            }
        }
        self.tell_new_specs(selection, &plan)
    }

    /// Specs that routines wrote wait for the next `process`: a routine cannot keep decree busy for ever.
    fn tell_new_specs(&mut self, selection: &Selection, plan: &Plan) -> Result<()> {
        let known = |spec: &Spec| plan.specs.contains(spec) || self.handled.contains(&spec.shown());
        let new = planned(self.layout, selection)?.specs.iter().filter(|spec| !known(spec)).count();
        if new > 0 {
            self.note(&format!(
                "{} appeared meanwhile; the next `decree process` takes them",
                count(new, "spec")
            ));
        }
        Ok(())
    }

    fn stops(&self, selection: &Selection) -> bool {
        selection.fail_fast && self.summary.put_back > 0
    }

    /// Puts a message for a spec into the inbox. The dead letter of an earlier try makes way.
    fn enqueue(&mut self, spec: &Spec) -> Result<OsString> {
        self.withdraw_dead_letters(&spec.shown())?;
        let (chain, _) = ChainId::begin(&self.layout.runs())?;
        let name = MessageName::from_spec_file(&spec.file_name)
            .unwrap_or_else(|| MessageName::fallback(&chain))
            .unique(|name| self.inbox.contains(name));
        let mut document = Document::default();
        document.set("id", MessageId::root(chain).to_string());
        document.set("type", "spec");
        document.set("input_file", spec.shown());
        let file = OsString::from(format!("{name}.md"));
        self.inbox.add(&file, &document.render())?;
        Ok(file)
    }

    fn withdraw_dead_letters(&self, spec: &str) -> Result<()> {
        for file in self.inbox.dead()? {
            let text = crate::message::read_text(&self.inbox.dead_path(&file)).unwrap_or_default();
            let Ok(document) = Document::parse(&text) else { continue };
            if document.get_text("input_file").as_deref() == Some(spec)
                && let Some(id) = document.get_text("id").and_then(|id| MessageId::parse(&id))
            {
                let run = super::RunDir::of(self.layout, &id);
                self.inbox.withdraw_dead(&file, run.path())?;
            }
        }
        Ok(())
    }

    /// One message, and depth first what its routine asks for.
    fn work_chain(&mut self, file: &OsStr) -> Result<()> {
        let Taken::Decided(id) = self.take(file)? else {
            return Ok(());
        };
        while let Some(next) = self.next_in_chain(id.chain())? {
            if matches!(self.take(&next)?, Taken::Left) {
                break;
            }
        }
        Ok(())
    }

    fn next_in_chain(&self, chain: &ChainId) -> Result<Option<OsString>> {
        let pending = self.inbox.pending()?;
        Ok(pending
            .into_iter()
            .find(|pending| pending.id.as_ref().is_some_and(|id| id.chain() == chain))
            .map(|pending| pending.file))
    }

    /// Work between the hooks for all of it.
    fn with_hooks(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.hook_before_all()?;
        let done = work(self);
        self.hook_after_all();
        done
    }

    /// Writes down what was done, whatever the end was.
    fn end(mut self, done: Result<()>) -> Result<Summary> {
        if let Err(error) = &done
            && let ErrorKind::Interrupted { signal } = error.kind()
        {
            self.summary.interrupted = Some(signal);
        }
        self.summary.duration_ms = self.began.elapsed().as_millis() as u64;
        let written = self.summary.write(&self.layout.summary());
        self.reporter.event(&Event::End(&self.summary));
        done.and(written)?;
        Ok(self.summary)
    }

    /// A message is decided.
    pub(super) fn record_outcome(&mut self, mut message: MessageSummary) {
        message.reason = one_line(&message.reason);
        if let Some(spec) = &message.spec {
            self.handled.insert(spec.clone());
        }
        message.redact(&self.redactor);
        self.reporter.event(&Event::MessageEnds(&message));
        self.summary.add(message);
    }

    fn skip(&mut self, spec: &Spec, verdict: Verdict, why: &str) {
        let name = MessageName::from_spec_file(&spec.file_name);
        self.record_outcome(MessageSummary {
            spec: Some(spec.shown()),
            reason: why.to_owned(),
            ..MessageSummary::without_run(
                name.map_or(spec.file_name.clone(), |name| name.to_string()),
                verdict,
            )
        });
    }

    pub(super) fn warn(&mut self, text: &str) {
        self.reporter.event(&Event::Warning(&one_line(&self.redactor.redact(text))));
    }
}

/// What a `process` would do.
#[derive(Debug, Default)]
pub struct Plan {
    /// Messages that wait, the oldest first.
    pub messages: Vec<OsString>,
    /// Specs that are not processed, in order.
    pub specs: Vec<Spec>,
    /// What is there and cannot be one.
    pub problems: Vec<String>,
}

/// Finds out what is to be done.
pub fn planned(layout: &Layout, selection: &Selection) -> Result<Plan> {
    let tracker = Tracker::read(&layout.tracker())?;
    let found = Specs::discover(&layout.specs())?;
    let selected = |shown: &str| selection.globs.is_empty() || matches_any(&selection.globs, shown);
    let known = found.specs.iter().any(|spec| selected(&spec.shown()));
    if !selection.globs.is_empty() && !known {
        let names = found.specs.iter().map(|spec| spec.file_name.clone()).collect();
        return Err(Error::project(format!("no spec matches '{}'", selection.globs.join("', '")))
            .details(names, 10)
            .hint(
                "a pattern is matched against the file name and the path, `*` and `?` stand for anything",
            ));
    }
    let inbox = Inbox::of(layout);
    let mut messages = Vec::new();
    let mut waiting = BTreeSet::new();
    for pending in inbox.pending()? {
        let text = crate::message::read_text(&inbox.path(&pending.file)).unwrap_or_default();
        let input = Document::parse(&text).ok().and_then(|document| document.get_text("input_file"));
        let spec = input.filter(|path| crate::message::is_spec(path));
        // A selection is about specs: what belongs to another spec, or to none, waits.
        if selection.globs.is_empty() || spec.as_deref().is_some_and(selected) {
            messages.push(pending.file);
        }
        waiting.extend(spec);
    }
    let specs = found
        .specs
        .into_iter()
        .filter(|spec| !tracker.contains(&spec.file_name))
        .filter(|spec| selected(&spec.shown()) && !waiting.contains(&spec.shown()))
        .collect();
    let problems = found.problems.iter().map(ToString::to_string).collect();
    Ok(Plan { messages, specs, problems })
}

/// Whether a spec's file name, its name or its path matches one of the patterns.
fn matches_any(globs: &[String], shown: &str) -> bool {
    let name = shown.rsplit('/').next().unwrap_or(shown);
    let bare = name.trim_end_matches(".spec.md");
    let glob = |pattern: &str, text: &str| {
        crate::checkpoint::ignore::matches_glob(pattern.as_bytes(), text.as_bytes())
    };
    globs.iter().any(|pattern| [shown, name, bare].iter().any(|text| glob(pattern, text)))
}
