//! Which routine runs a message, and what a message without a name is called.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use super::context::{ActiveBatch, RunOverrides};
use crate::error::Result;
use crate::humanize::duration;
use crate::interrupt;
use crate::message::{ChainId, Document, Message, MessageError, MessageName, Rejection, is_spec};
use crate::process::{Exec, ExecEnd};
use crate::project::{Config, Layout, Router, RoutineName};
use crate::routine::{Routine, RoutineKind, Routines, router};

/// The time that bash gets to parse a script.
const SYNTAX_CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Output beyond this is not read.
const MAX_ANSWER: usize = 64 * 1024;

/// The routine that the message names, else the spec, else the command line, else the router, else the config.
pub(super) fn choose_routine(
    batch: &mut ActiveBatch<'_>,
    message: &Message,
    spec: &Document,
) -> Result<Routine, MessageError> {
    let known = known_routine(batch.context.config, &batch.context.overrides, &[&message.document, spec]);
    let name = match known {
        Some(name) => name,
        None => {
            let text = format!("{}\n{}\n{}", message.name(), message.document.body, spec.body);
            routine_by_text(batch, &text)?
        }
    };
    let routine = find_routine(&batch.context.routines, batch.context.config, &name)?;
    match syntax_error(batch.context.layout, batch.context.environment.clone(), routine)? {
        Some(why) => Err(Rejection { code: "RoutineInvalid", why }.into()),
        None => Ok(routine.clone()),
    }
}

/// The name of the routine if that is known without a router: the first that a document names, else that of the command line,
/// else the default if there is no router.
pub fn known_routine(config: &Config, overrides: &RunOverrides, documents: &[&Document]) -> Option<String> {
    let named_in = |document: &&Document| document.get_text("routine").filter(|name| !name.is_empty());
    let by_option = || overrides.routine.as_ref().map(ToString::to_string);
    let by_default = || (config.router() == Router::None).then(|| config.default_routine.clone());
    documents.iter().find_map(named_in).or_else(by_option).or_else(by_default)
}

/// The routine of this name, if it can run here.
pub(super) fn find_routine<'r>(
    routines: &'r Routines,
    config: &Config,
    name: &str,
) -> Result<&'r Routine, Rejection> {
    let not_found = |why| Rejection { code: "RoutineNotFound", why };
    let parsed = RoutineName::parse(name)
        .map_err(|why| not_found(format!("'{name}' is not a routine name: {why}")))?;
    let routine = routines.find(&parsed).map_err(|error| {
        let more = error.detail_lines().iter().map(String::as_str).chain(error.hint_text());
        not_found(more.fold(error.to_string(), |why, line| format!("{why}; {line}")))
    })?;
    match routine.missing_need(&config.commands.ai) {
        Some(why) => Err(Rejection { code: "NeedsMissing", why }),
        None => Ok(routine),
    }
}

/// bash parses a script while it runs it: a syntax error at the end would show only after everything before it ran.
pub(super) fn syntax_error(
    layout: &Layout,
    environment: BTreeMap<OsString, OsString>,
    routine: &Routine,
) -> Result<Option<String>> {
    if routine.kind != RoutineKind::Shell {
        return Ok(None);
    }
    let mut output = Vec::new();
    let ended = Exec::new("bash")
        .args(["-n".into(), routine.path.clone().into_os_string()])
        .directory(layout.root())
        .environment(environment)
        .timeout(Some(SYNTAX_CHECK_TIMEOUT))
        .run(&mut |bytes: &[u8]| {
            let room = MAX_ANSWER.saturating_sub(output.len());
            output.extend_from_slice(&bytes[..bytes.len().min(room)]);
            Ok(())
        })?;
    interrupt::check()?;
    Ok((!ended.is_success()).then(|| {
        let output = String::from_utf8_lossy(&output);
        let first = output.lines().next().unwrap_or("bash cannot parse it").to_owned();
        first.replace(&*routine.path.to_string_lossy(), &layout.shown(&routine.path))
    }))
}

/// The routine that the router chooses among those that can run here, or the default.
fn routine_by_text(batch: &mut ActiveBatch<'_>, text: &str) -> Result<String> {
    let (default, config) = (batch.context.config.default_routine.clone(), batch.context.config);
    let candidates = batch.context.routines.runnable(&config.commands.ai);
    let chosen = match config.router() {
        Router::None => None,
        Router::Builtin => router::rank(text, &candidates),
        Router::Command(command) => {
            let answer = ask_router(batch, command, &router::prompt_for_routine(&candidates, text))?;
            let answer = answer.unwrap_or_default();
            let named = router::parse_routine_reply(&answer, &candidates);
            // Of a router that timed out, that was said when it did.
            if named.is_none() && !batch.router_timed_out {
                let why = unmet_answer(&answer, &batch.context.routines, &config.commands.ai);
                let why = why.unwrap_or_else(|| "the router named no routine".to_owned());
                batch.warn(&format!("{why}; using '{default}'"));
            }
            named
        }
    };
    Ok(chosen.map_or(default, |name| name.to_string()))
}

/// That the answer names a routine whose needs are missing, if it does.
fn unmet_answer(answer: &str, routines: &Routines, ai: &str) -> Option<String> {
    let name = router::parse_routine_reply(answer, routines)?;
    let missing = routines.find(&name).ok()?.missing_need(ai)?;
    Some(format!("the router named '{name}', but {missing}"))
}

/// A name for a message that was given none: that of its spec, else what the router answers, else words of the message.
pub(super) fn name_for(
    batch: &mut ActiveBatch<'_>,
    document: &Document,
    chain: &ChainId,
) -> Result<MessageName> {
    let (spec, body) = (document.get_text("input_file").filter(|path| is_spec(path)), &document.body);
    let of_spec = spec.and_then(|spec| MessageName::from_spec_file(&spec));
    let name = match (of_spec, batch.context.config.router()) {
        (Some(name), _) => Some(name),
        (None, _) if body.trim().is_empty() => None,
        (None, Router::None | Router::Builtin) => MessageName::from_prompt(body),
        (None, Router::Command(command)) => ask_router(batch, command, &router::prompt_for_name(body))?
            .and_then(|answer| router::parse_name_reply(&answer)),
    };
    Ok(name.unwrap_or_else(|| MessageName::fallback(chain)))
}

/// Asks the configured command; `None`, with a warning, if it fails. One that has timed out is not asked again.
fn ask_router(batch: &mut ActiveBatch<'_>, command: &str, prompt: &str) -> Result<Option<String>> {
    if batch.router_timed_out {
        return Ok(None);
    }
    let Some(mut words) = shell_words::split(command).ok().filter(|words| !words.is_empty()) else {
        batch.warn(&format!("commands.router is not a command: {command}"));
        return Ok(None);
    };
    let is_argument = words.iter().any(|word| word.contains("{prompt}"));
    for word in &mut words {
        *word = word.replace("{prompt}", prompt);
    }
    // A limit of zero is none.
    let (own, limit) = (batch.context.config.commands.router_timeout, batch.context.timeout());
    let limit = [own, limit].into_iter().filter(|limit| !limit.is_zero()).min();
    let mut exec = Exec::new(&words[0])
        .args(&words[1..])
        .directory(batch.context.layout.root())
        .environment(batch.context.environment.clone())
        .timeout(limit);
    exec.capture = Some(MAX_ANSWER);
    if !is_argument {
        exec.input = prompt.into();
    }
    let answered = exec.run(&mut |_: &[u8]| Ok(()));
    interrupt::check()?;
    let why = match answered {
        Ok(ended) if ended.is_success() => {
            return Ok(Some(String::from_utf8_lossy(&ended.stdout).into_owned()));
        }
        Ok(ended) if ended.end == ExecEnd::TimedOut => {
            batch.router_timed_out = true;
            let default = &batch.context.config.default_routine;
            let after = if limit == Some(own) {
                format!("within {} (commands.router_timeout)", duration(own))
            } else {
                format!("({})", ended.end)
            };
            format!(
                "{after}; it is not asked again by this command, using '{default}' where no routine is named"
            )
        }
        Ok(ended) => format!("({})", ended.end),
        Err(error) => format!("({error})"),
    };
    batch.warn(&format!("the router did not answer {why}"));
    Ok(None)
}
