//! Checks that everything a routine needs is installed and configured, with a remedy for each problem.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::fs::atomic;
use crate::message::{Document, read_text};
use crate::pipeline::{Selection, plan};
use crate::process::find_program;
use crate::project::{Layout, Project, RoutineName};
use crate::routine::{Routine, RoutineKind, Routines, papermill};
use crate::spec::Spec;

/// Below this, a checkpoint of an ordinary tree may not fit.
const LITTLE_SPACE: u64 = 1 << 30;
/// Below this, nothing fits.
const NO_SPACE: u64 = 16 << 20;

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
    let mut findings = vec![
        Finding::good("config", project.layout.shown(&project.layout.config())),
        bash(),
        installed_routines(project, &routines),
    ];
    findings.extend(routines.problems.iter().map(|problem| {
        Finding::bad("routines", Health::Poor, problem.to_string(), "it is ignored; fix or remove it")
    }));
    findings.extend(needs_of_all(project, &routines));
    if project.config.notebook_support {
        findings.push(python(project));
    }
    findings.push(writable(&project.layout));
    findings.push(space(&project.layout));
    Ok(findings)
}

/// The fast checks before the first message, so that a missing tool costs a second and no attempts. `names` are the routines
/// that are known to be needed.
pub fn preflight(project: &Project, names: &[String]) -> Result<()> {
    let routines = Routines::of(project)?;
    let needed: Vec<&Routine> = names
        .iter()
        .filter_map(|name| RoutineName::parse(name).ok())
        .filter_map(|name| routines.find(&name).ok())
        .collect();
    let mut findings = vec![bash(), writable(&project.layout), space(&project.layout)];
    findings.extend(needed.iter().flat_map(|routine| needs(project, routine)));
    // Which routine a message needs may be unknown yet, but a variable that names nothing is wrong for each of them.
    let is_wrong = project.config.notebook_support && papermill::missing_venv(&project.layout).is_some();
    if is_wrong || needed.iter().any(|routine| routine.kind == RoutineKind::Notebook) {
        findings.push(python(project));
    }
    let missing: Vec<&Finding> =
        findings.iter().filter(|finding| finding.health == Health::Missing).collect();
    let Some(first) = missing.first() else {
        return Ok(());
    };
    Err(Error::project(format!("no routine can run here: {}", first.found))
        .details(missing.iter().skip(1).map(|finding| finding.found.clone()).collect(), 10)
        .detail("nothing was processed")
        .hint(format!("{}; `decree doctor` shows everything", first.remedy)))
}

/// The same checks for the routines that the selected specs name; `default`, or the config's default, for specs that name none.
pub fn preflight_specs(
    project: &Project,
    selection: &Selection,
    default: Option<&RoutineName>,
) -> Result<()> {
    let default = || default.map_or_else(|| project.config.default_routine.clone(), ToString::to_string);
    let named = |spec: &Spec| {
        let text = read_text(&project.layout.root().join(spec.shown())).ok()?;
        Some(Document::parse(&text).ok()?.get_text("routine").unwrap_or_else(default))
    };
    let needed: BTreeSet<String> = plan(&project.layout, selection)?.specs.iter().filter_map(named).collect();
    preflight(project, &Vec::from_iter(needed))
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
        let remedy = "`decree init` writes two";
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
fn needs(project: &Project, routine: &Routine) -> impl Iterator<Item = Finding> {
    let name = &routine.name;
    routine.needs.iter().map(move |need| {
        let (subject, command) = match need.as_str() {
            "ai" => ("ai", project.config.commands.ai.split_whitespace().next().unwrap_or("")),
            command => ("needs", command),
        };
        if command.is_empty() {
            let found = format!("routine '{name}' needs an AI command, and commands.ai is empty");
            let remedy = "set commands.ai in .decree/config.yml, for example to: claude -p";
            return Finding::bad("ai", Health::Missing, found, remedy);
        }
        if find_program(command).is_none() {
            let found = format!("routine '{name}' needs '{command}', which is not on the PATH");
            return Finding::bad(subject, Health::Missing, found, install_hint(command));
        }
        Finding::good(subject, format!("{command} (for '{name}')"))
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
    if let Some(venv) = papermill::missing_venv(&project.layout) {
        let found = format!("DECREE_VENV names {}, which does not exist", venv.display());
        return Finding::bad("python", Health::Missing, found, papermill::venv_hint(&venv));
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

fn writable(layout: &Layout) -> Finding {
    let probe = layout.decree().join(format!("{}doctor", atomic::TEMPORARY));
    let result = atomic::create_new(&probe).and_then(|_| std::fs::remove_file(&probe));
    match result {
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
