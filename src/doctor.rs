//! Checks that everything a routine needs is installed and configured, with a remedy for each problem.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Access, access};

use crate::checkpoint::quote::{for_people, in_json};
use crate::error::{Error, Result};
use crate::history::{GuardRecord, PendingGitRestore};
use crate::humanize::count;
use crate::message::{Document, Inbox, read_text};
use crate::pipeline::{ActiveRun, RunOverrides, Selection, WorkCheck, check_message, known_routine, plan};
use crate::process::find_program;
use crate::project::{Layout, Lock, Project, RoutineName};
use crate::routine::{Routine, RoutineKind, Routines, papermill};
use crate::sanitize::one_line;
use crate::spec::Spec;

/// Below this, a checkpoint of an ordinary tree may not fit.
const LITTLE_SPACE: u64 = 1 << 30;
/// Below this, nothing fits.
const NO_SPACE: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    Good,
    /// A problem, but routines can run.
    Poor,
    /// A problem because of which no routine can run.
    Missing,
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct Finding {
    pub subject: &'static str,
    pub health: Health,
    pub found: String,
    /// How to fix the problem; empty if there is none.
    pub remedy: String,
}

impl Finding {
    fn good(subject: &'static str, found: impl Into<String>) -> Self {
        Finding { subject, health: Health::Good, found: found.into(), remedy: String::new() }
    }

    fn bad(
        subject: &'static str,
        health: Health,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Finding { subject, health, found: found.into(), remedy: remedy.into() }
    }
}

/// Runs every check and returns the findings in display order.
pub fn examine(project: &Project) -> Result<Vec<Finding>> {
    let routines = Routines::of(project)?;
    let mut findings = vec![config(project), bash(), installed_routines(project, &routines)];
    findings.extend(routines.problems.iter().map(|problem| {
        Finding::bad("routines", Health::Poor, problem.to_string(), "it is ignored; fix or remove it")
    }));
    findings.extend(needs_of_all(project, &routines));
    if project.config.notebook_support {
        findings.push(python(project));
    }
    findings.extend(verify_of_config(project, &routines));
    findings.extend(unfinished(&project.layout));
    findings.push(writable(&project.layout));
    findings.push(space(&project.layout));
    findings.extend(pending_work(project, &routines)?);
    Ok(findings)
}

/// What is known of a pending spec without running it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SpecCheck {
    pub spec: String,
    /// Why it cannot be processed.
    pub error: Option<String>,
    pub warnings: Vec<String>,
}

/// Reads specs and judges whether they can be processed here.
pub fn check_specs(
    project: &Project,
    routines: &Routines,
    overrides: &RunOverrides,
    specs: &[Spec],
) -> Vec<SpecCheck> {
    let work = WorkCheck::new(&project.layout, &project.config, routines, overrides);
    let check = |spec: &Spec| {
        let spec = spec.shown();
        match work.spec(&spec) {
            Ok(warnings) => SpecCheck { spec, error: None, warnings },
            Err(rejection) => SpecCheck { spec, error: Some(rejection.to_string()), warnings: Vec::new() },
        }
    };
    specs.iter().map(check).collect()
}

/// What is known of a waiting message without running it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct MessageCheck {
    /// Its file name, as in JSON.
    pub message: String,
    /// Why it cannot be processed.
    pub error: Option<String>,
    pub warnings: Vec<String>,
}

/// Reads waiting messages and judges whether they can be processed here.
pub fn check_messages(
    project: &Project,
    routines: &Routines,
    overrides: &RunOverrides,
    files: &[OsString],
) -> Vec<MessageCheck> {
    let work = WorkCheck::new(&project.layout, &project.config, routines, overrides);
    let check = |file: &OsString| {
        let message = in_json(file.as_bytes()).into_owned();
        match check_message(&work, file) {
            Ok(warnings) => MessageCheck { message, error: None, warnings },
            Err(rejection) => {
                MessageCheck { message, error: Some(rejection.to_string()), warnings: Vec::new() }
            }
        }
    };
    files.iter().map(check).collect()
}

/// The specs and messages that `process` would take: those that cannot run, those with warnings, and how many specs can.
fn pending_work(project: &Project, routines: &Routines) -> Result<Vec<Finding>> {
    let plan = plan(&project.layout, &Selection::default())?;
    let checks = check_specs(project, routines, &RunOverrides::default(), &plan.specs);
    let mut findings: Vec<Finding> = plan
        .problems
        .iter()
        .map(|problem| Finding::bad("specs", Health::Poor, problem, "it is ignored; fix or remove it"))
        .collect();
    let good = checks.iter().filter(|check| check.error.is_none()).count();
    if good > 0 || checks.is_empty() {
        findings.push(Finding::good("specs", format!("{} pending that can run", count(good, "spec"))));
    }
    // Specs that fail for the same reason share one finding.
    let mut by_error: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for check in &checks {
        if let Some(error) = &check.error {
            by_error.entry(error).or_default().push(&check.spec);
        }
        let warn = |warning| Finding::bad("specs", Health::Poor, warning, "fix or remove it");
        findings.extend(check.warnings.iter().map(warn));
    }
    for (error, specs) in by_error {
        let more = if specs.len() > 1 { format!(" and {} more", specs.len() - 1) } else { String::new() };
        let found = format!("{}{more}: {}", for_people(specs[0].as_bytes()), one_line(error));
        findings.push(Finding::bad("specs", Health::Missing, found, "`decree process` would fail on it"));
    }
    for check in check_messages(project, routines, &RunOverrides::default(), &plan.messages) {
        let warn = |warning| Finding::bad("messages", Health::Poor, warning, "fix or remove it");
        findings.extend(check.warnings.iter().map(warn));
        if let Some(error) = &check.error {
            let found = format!("{}: {}", one_line(&check.message), one_line(error));
            findings.push(Finding::bad(
                "messages",
                Health::Missing,
                found,
                "`decree process` would fail on it",
            ));
        }
    }
    Ok(findings)
}

/// The routines that a batch is known to need.
#[derive(Clone, Debug, Default)]
pub struct NeededRoutines {
    names: BTreeSet<String>,
    /// Whether a router will choose more.
    and_more: bool,
}

impl NeededRoutines {
    /// The routine of one message.
    pub fn of_message(project: &Project, document: &Document) -> Self {
        let mut needed = NeededRoutines::default();
        needed.add(known_routine(&project.config, &RunOverrides::default(), &[document]));
        needed
    }

    /// The routines of the specs and messages that `process` takes.
    pub fn of_batch(project: &Project, selection: &Selection, overrides: &RunOverrides) -> Result<Self> {
        let plan = plan(&project.layout, selection)?;
        let inbox = Inbox::of(&project.layout);
        let messages = plan.messages.iter().map(|file| inbox.path(file));
        let limit = selection.limit.unwrap_or(usize::MAX);
        let specs = plan.specs.iter().take(limit).map(|spec| project.layout.root().join(spec.shown()));
        let mut needed = NeededRoutines::default();
        // What cannot be read becomes a dead letter.
        let read = |path: &Path| Document::parse(&read_text(path).ok()?).ok();
        for document in messages.chain(specs).filter_map(|path| read(&path)) {
            needed.add(known_routine(&project.config, overrides, &[&document]));
        }
        Ok(needed)
    }

    fn add(&mut self, name: Option<String>) {
        match name {
            Some(name) => drop(self.names.insert(name)),
            None => self.and_more = true,
        }
    }
}

/// The fast checks before the first message, so that a missing tool costs a second and no attempts. If no routine of the batch
/// can run here, that is an error. If only some cannot, their messages become dead letters; this returns a warning for each.
pub fn preflight(project: &Project, needed: &NeededRoutines) -> Result<Vec<String>> {
    let routines = Routines::of(project)?;
    let missing = |finding: &Finding| finding.health == Health::Missing;
    let surroundings = [bash(), writable(&project.layout), space(&project.layout)];
    let mut blocking: Vec<Finding> = surroundings.into_iter().filter(missing).collect();
    // Which routine a message needs may be unknown yet, but a variable that names nothing is wrong for each of them.
    if project.config.notebook_support && papermill::is_venv_missing(&project.layout) {
        blocking.push(python(project));
    }
    let found: Vec<&Routine> =
        needed.names.iter().filter_map(|name| routines.find(&RoutineName::parse(name).ok()?).ok()).collect();
    let mut warnings = Vec::new();
    let mut unusable = 0;
    for routine in &found {
        // Without papermill in the user's own environment, the message is a dead letter that says how to install it.
        let has_venv = papermill::unusable_venv(&project.layout).is_none();
        let python = (routine.kind == RoutineKind::Notebook && has_venv).then(|| python(project));
        let problems: Vec<Finding> = needs(project, routine).chain(python).filter(missing).collect();
        unusable += usize::from(!problems.is_empty());
        warnings.extend(problems);
    }
    if !found.is_empty() && unusable == found.len() && !needed.and_more {
        blocking.append(&mut warnings);
    }
    let Some(first) = blocking.first() else {
        return Ok(warnings
            .into_iter()
            .map(|finding| format!("{}; {}", finding.found, finding.remedy))
            .collect());
    };
    Err(Error::project(format!("nothing can run here: {}", first.found))
        .details(blocking.iter().skip(1).map(|finding| finding.found.clone()).collect(), 10)
        .detail("nothing was processed")
        .hint(format!("{}; `decree doctor` shows everything", first.remedy)))
}

fn config(project: &Project) -> Finding {
    let shown = project.layout.shown(&project.layout.config());
    if project.misses_config() {
        let found = format!("there is no {shown}: every setting has its default");
        return Finding::bad("config", Health::Poor, found, "`decree init` writes one");
    }
    if project.layout.config().exists() {
        Finding::good("config", shown)
    } else {
        Finding::good("config", "none: every setting has its default")
    }
}

fn bash() -> Finding {
    match find_program("bash") {
        Some(path) => Finding::good("bash", path.display().to_string()),
        None => Finding::bad("bash", Health::Missing, "bash is not on the PATH", "install bash"),
    }
}

fn installed_routines(project: &Project, routines: &Routines) -> Finding {
    let default = &project.config.default_routine;
    let names = routines.names().map(RoutineName::as_str).collect::<Vec<_>>().join(", ");
    let has_default = RoutineName::parse(default).is_ok_and(|name| routines.find(&name).is_ok());
    if names.is_empty() {
        let remedy = "`decree init` writes one";
        return Finding::bad("routines", Health::Missing, "there are none in .decree/routines", remedy);
    }
    if has_default {
        return Finding::good("routines", names);
    }
    Finding::bad(
        "routines",
        Health::Poor,
        format!("{names}; the default routine '{default}' is missing"),
        "create it, or set default_routine in .decree/config.yml",
    )
}

/// Checks the needs of all routines. A missing need blocks only if it is the default routine's.
fn needs_of_all(project: &Project, routines: &Routines) -> Vec<Finding> {
    let default = RoutineName::parse(&project.config.default_routine).ok();
    let default = default.as_ref().and_then(|name| routines.find(name).ok());
    let mut findings = Vec::new();
    for routine in routines.iter() {
        let blocks = default.is_none_or(|default| default.name == routine.name);
        for mut finding in needs(project, routine) {
            if finding.health == Health::Missing && !blocks {
                finding.health = Health::Poor;
            }
            findings.push(finding);
        }
    }
    findings
}

/// Checks the commands that a routine declares in `needs`.
fn needs<'p>(project: &'p Project, routine: &'p Routine) -> impl Iterator<Item = Finding> {
    routine.needs_here(&project.config.commands.ai).map(move |need| {
        let subject = if need.is_ai { "ai" } else { "needs" };
        if need.is_met() {
            return Finding::good(subject, format!("{} (for '{}')", need.command, routine.name));
        }
        let remedy = match need.command {
            "" => "set commands.ai in .decree/config.yml, for example to: claude -p".to_owned(),
            command => install_hint(command),
        };
        Finding::bad(subject, Health::Missing, routine.describe_missing(&need), remedy)
    })
}

pub fn install_hint(command: &str) -> String {
    let package = match command {
        "claude" => "npm install -g @anthropic-ai/claude-code",
        "codex" => "npm install -g @openai/codex",
        "gemini" => "npm install -g @google/gemini-cli",
        "copilot" => "npm install -g @github/copilot",
        "opencode" => "npm install -g opencode-ai",
        _ => return format!("install {command}, or put it on the PATH"),
    };
    format!("install it with `{package}`, or set another command in commands.ai")
}

fn python(project: &Project) -> Finding {
    if let Some(venv) = papermill::unusable_venv(&project.layout) {
        return Finding::bad("python", Health::Missing, venv.found, venv.remedy);
    }
    let venv = project.layout.shown(&project.layout.venv());
    if papermill::find(&project.layout).is_some() {
        return Finding::good("python", format!("papermill in {venv}"));
    }
    match find_program("python3") {
        Some(python) => {
            Finding::good("python", format!("{}; {venv} is created on first use", python.display()))
        }
        None => Finding::bad(
            "python",
            Health::Missing,
            "notebooks need python3, which is not on the PATH",
            "install python3 with venv, or set DECREE_VENV to an environment that has papermill",
        ),
    }
}

/// The verification that specs without their own have, if there is one.
fn verify_of_config(project: &Project, routines: &Routines) -> Option<Finding> {
    let command = project.config.verify.as_str();
    let overrides = RunOverrides::default();
    let work = WorkCheck::new(&project.layout, &project.config, routines, &overrides);
    let found = match work.missing_verification(command) {
        None if command.is_empty() => return None,
        None => return Some(Finding::good("verify", one_line(command))),
        Some(found) => one_line(&found),
    };
    let remedy = "install it, or set another verify in .decree/config.yml";
    Some(Finding::bad("verify", Health::Missing, found, remedy))
}

/// What an earlier decree left unfinished: a guarded command or a restore of git's state has to be settled first, a run is recovered
/// by the next `process`.
fn unfinished(layout: &Layout) -> Vec<Finding> {
    const SUBJECT: &str = "unfinished";
    let mut findings = Vec::new();
    if !Lock::is_free(&layout.lock()) {
        return findings;
    }
    let blocks = |error: Error| {
        let remedy = error.hint_text().unwrap_or_default().to_owned();
        Finding::bad(SUBJECT, Health::Missing, one_line(&error.to_string()), remedy)
    };
    if let Some(guard) = GuardRecord::find(layout) {
        findings.push(blocks(guard.refusal("decree process")));
    }
    findings.extend(PendingGitRestore::refuse(layout).err().map(blocks));
    match ActiveRun::read(layout) {
        Ok(None) => {}
        Ok(Some(run)) => {
            let found = format!("run {} was interrupted", run.dir.id());
            findings.push(Finding::bad(SUBJECT, Health::Poor, found, run.way_out()));
        }
        Err(error) => findings.push(blocks(error)),
    }
    findings
}

fn writable(layout: &Layout) -> Finding {
    // Asked without writing anything: a dry run leaves no trace.
    match access(layout.decree(), Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::good("permissions", ".decree is writable"),
        Err(error) => Finding::bad(
            "permissions",
            Health::Missing,
            format!("{} is not writable: {error}", layout.shown(&layout.decree())),
            "give this user permission to write there",
        ),
    }
}

fn space(layout: &Layout) -> Finding {
    let Ok(disk) = rustix::fs::statvfs(layout.decree()) else {
        return Finding::good("disk", "unknown");
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{} free", crate::humanize::bytes(free));
    match free {
        0..NO_SPACE => {
            Finding::bad("disk", Health::Missing, format!("the disk is full: {found}"), "free some space")
        }
        NO_SPACE..LITTLE_SPACE => {
            Finding::bad("disk", Health::Poor, found, "a checkpoint of a large tree may not fit")
        }
        _ => Finding::good("disk", found),
    }
}
