//! `decree run`

use super::locked_project::{LimitArgs, LockedProject};
use super::{Context, Format};
use crate::doctor::{self, NeededRoutines};
use crate::error::{Error, IoContext, Result};
use crate::humanize::count;
use crate::message::{Document, Inbox, MessageId, MessageName, display_name, misplaced_key};
use crate::pipeline::{RunOverrides, known_routine};
use crate::project::{Layout, Project, RoutineName};
use crate::routine::Routines;
use std::io::{self, IsTerminal, Read};

/// Fields that decree sets itself.
const DERIVED: [&str; 3] = ["id", "chain", "seq"];
/// The most text that is read from standard input.
const MAX_INPUT: u64 = 16 * 1024 * 1024;

/// Run one message, and its follow-up messages
///
/// The message is a text (with -p, or on standard input) and fields (-v) that choose the routine, name a spec, or set
/// parameters of the routine. It never asks for input.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree run -p 'fix the type errors in src/auth.rs'\n  decree run -m pr-review -p 'Review the branch' -v routine=pr-review -v target_branch=main\n  decree run -v input_file=specs/01-add-auth.spec.md\n  echo 'update the changelog' | decree run"
)]
pub struct RunArgs {
    /// The message's name [default: derived from the text]
    #[arg(short = 'm', long = "name", value_name = "NAME", allow_hyphen_values = true)]
    name: Option<String>,

    /// The text of the message: what to do
    #[arg(short = 'p', long = "prompt", value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,

    /// A field of the message: routine, input_file, or a parameter of the routine (repeatable)
    #[arg(short = 'v', long = "var", value_name = "KEY=VALUE", value_parser = parse_field)]
    fields: Vec<(String, String)>,

    #[command(flatten)]
    limits: LimitArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if key.is_empty() || !key.chars().all(plain) || key.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("'{key}' is not a field name: use letters, digits, '_' and '-'"));
    }
    if DERIVED.contains(&key) {
        return Err(format!("decree sets {key} itself"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

pub fn run(context: &Context, args: RunArgs) -> Result<u8> {
    let body = args.prompt.clone().map_or_else(read_piped, Ok)?;
    if args.name.is_none() && args.fields.is_empty() && body.trim().is_empty() {
        let mut error = Error::usage("nothing to run: there is no text, name or field");
        let project = Project::find_despite_config(&context.directory);
        if let Ok(Some(text)) = project.and_then(|(project, _)| waiting(&project.layout, "message")) {
            error = error.detail(text);
        }
        return Err(error
            .hint("pass a text with -p or on standard input, or a spec with -v input_file=specs/….spec.md"));
    }
    let given = args.name.as_deref().map(parse_name).transpose()?;
    let mut document = Document::default();
    for (key, value) in &args.fields {
        document.set(key, value);
    }
    document.body = body;
    if !document.body.is_empty() && !document.body.ends_with('\n') {
        document.body.push('\n');
    }
    let mut project = LockedProject::open(context, "run")?;
    check_input(&project, &document)?;
    check_keys(&project, &document)?;
    doctor::preflight(&project.project, &NeededRoutines::of_message(&project.project, &document))?;
    let summary = project.work(args.limits.overrides(), |pipeline| pipeline.run_message(given, document));
    let code = project.report(summary, args.format)?;
    if let Some(text) = waiting(&project.project.layout, "other message")? {
        context.ui.note(&text);
    }
    Ok(code)
}

/// `run` leaves other messages alone, such as those that `retry` put back, so it says that they wait.
fn waiting(layout: &Layout, noun: &str) -> Result<Option<String>> {
    let waiting = Inbox::of(layout).pending()?;
    Ok(match waiting.as_slice() {
        [] => None,
        [one] => {
            let name = display_name(&one.file, "");
            Some(format!("1 {noun} waits in the inbox ({name}); `decree process` runs it"))
        }
        several => {
            Some(format!("{} wait in the inbox; `decree process` runs them", count(several.len(), noun)))
        }
    })
}

/// Reports a missing input file before anything is created for the message.
fn check_input(locked: &LockedProject<'_>, document: &Document) -> Result<()> {
    let Some(input) = document.get_text("input_file") else {
        return Ok(());
    };
    let root = locked.project.layout.root();
    if root.join(&input).is_file() {
        return Ok(());
    }
    Err(Error::project(format!("input_file: there is no file {input} in {}", root.display()))
        .hint("the path is relative to the project"))
}

/// Reports a field that only specs have, unless the routine, as far as it is known, has a parameter of that name.
fn check_keys(locked: &LockedProject<'_>, document: &Document) -> Result<()> {
    let mut misplaced = document.fields.iter().filter_map(|(name, _)| Some((name, misplaced_key(name)?)));
    let Some((name, why)) = misplaced.next().filter(|_| document.get("input_file").is_none()) else {
        return Ok(());
    };
    let routine = known_routine(&locked.project.config, &RunOverrides::default(), &[document]);
    let routine = routine.and_then(|routine| RoutineName::parse(&routine).ok());
    let routines = Routines::of(&locked.project)?;
    match routine.and_then(|routine| routines.find(&routine).ok()) {
        Some(routine) if !routine.parameters.iter().any(|it| it.name == *name) => Err(Error::usage(why)),
        _ => Ok(()),
    }
}

fn parse_name(given: &str) -> Result<MessageName> {
    // A file named like an id would be read as the message with that id.
    let name = MessageName::kebab(given).filter(|name| MessageId::parse(name.as_str()).is_none());
    name.ok_or_else(|| Error::usage(format!("'{given}' cannot be a message's name: use letters and digits")))
}

/// The text on standard input, up to a limit; none if that is a terminal.
fn read_piped() -> Result<String> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(String::new());
    }
    let mut text = String::new();
    let read = stdin.lock().take(MAX_INPUT + 1).read_to_string(&mut text);
    match read {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(Error::project("the text on standard input is not UTF-8"));
        }
        result => result.at("read", "standard input")?,
    };
    if text.len() as u64 > MAX_INPUT {
        return Err(Error::project("the text on standard input is longer than 16 MiB"));
    }
    Ok(text)
}
