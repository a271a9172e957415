//! The user's commands around the work: `hooks` in the config.

use std::time::Duration;

use super::active_run::ActiveRun;
use super::attempt::Tee;
use super::context::ActiveBatch;
use super::events::Event;
use super::prepare::Prepared;
use super::result::RunResult;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::{Exec, STRICT_BASH};

/// The time that a hook gets once a signal asked decree to stop.
const TIME_WHEN_STOPPING: Duration = Duration::from_secs(1);

/// Runs `before_all`. If it fails, nothing is processed.
pub(super) fn before_all(batch: &mut ActiveBatch<'_>) -> Result<()> {
    let command = &batch.context.config.hooks.before_all;
    run_hook(batch, "before_all", command, &[]).map_err(|why| {
        Error::failed(why)
            .detail("nothing was processed")
            .hint("run the command by hand, or remove it from .decree/config.yml")
    })?;
    interrupt::check()
}

/// Runs `after_all`. The work is done, so a failure is only a warning.
pub(super) fn after_all(batch: &mut ActiveBatch<'_>) {
    let variables = [
        ("DECREE_KEPT", batch.summary.kept.to_string()),
        ("DECREE_PUT_BACK", batch.summary.reverted.to_string()),
        ("DECREE_SKIPPED", batch.summary.skipped.to_string()),
    ];
    // The signal that ended the work must not keep the hook from running.
    let _shield = interrupt::shield();
    let command = &batch.context.config.hooks.after_all;
    if let Err(why) = run_hook(batch, "after_all", command, &variables) {
        batch.warn(&why);
    }
}

/// Runs `before_each`. The error says why it failed; the message is then skipped.
pub(super) fn before_each(batch: &mut ActiveBatch<'_>, job: &Prepared) -> Result<(), String> {
    let variables = [
        ("message_id", job.message.id.to_string()),
        ("message_name", job.message.name()),
        ("routine", job.routine.name.to_string()),
        ("spec_file", job.message.spec().unwrap_or_default().to_owned()),
    ];
    let command = &batch.context.config.hooks.before_each;
    run_hook(batch, "before_each", command, &variables)
}

/// Runs `after_each`. The message is settled, so a failure is only a warning.
pub(super) fn after_each(batch: &mut ActiveBatch<'_>, run: &ActiveRun, result: &RunResult) {
    let variables = [
        ("message_id", run.dir.id().to_string()),
        ("message_name", result.run.name.clone()),
        ("message_dir", run.dir.path().to_string_lossy().into_owned()),
        ("spec_file", result.run.spec.clone().unwrap_or_default()),
        ("DECREE_VERDICT", result.verdict.word().to_owned()),
    ];
    let command = &batch.context.config.hooks.after_each;
    if let Err(why) = run_hook(batch, "after_each", command, &variables) {
        batch.warn(&why);
    }
}

/// Runs a hook; the error says why it failed.
fn run_hook(
    batch: &mut ActiveBatch<'_>,
    name: &str,
    command: &str,
    variables: &[(&str, String)],
) -> Result<(), String> {
    if command.is_empty() {
        return Ok(());
    }
    let mut environment = batch.context.environment.clone();
    environment.extend(variables.iter().map(|(key, value)| (key.into(), value.into())));
    environment.insert("DECREE_HOOK".into(), name.into());
    let limit = batch.context.config.timeout;
    let limit = if interrupt::requested().is_some() { TIME_WHEN_STOPPING } else { limit };
    let exec = Exec::new("bash")
        .args(STRICT_BASH)
        .args([command])
        .directory(batch.context.layout.root())
        .environment(environment)
        .timeout((!limit.is_zero()).then_some(limit));
    batch.event(&Event::HookBegins(&format!("hooks.{name}")));
    let mut tee = Tee::new(batch, None);
    let ended = exec.run(&mut |bytes: &[u8]| tee.take(bytes));
    tee.finish();
    batch.event(&Event::HookEnds);
    match ended {
        Ok(ended) if ended.is_success() => Ok(()),
        Ok(ended) => Err(format!("hooks.{name} failed: `{command}`: {}", ended.end)),
        Err(error) => Err(format!("hooks.{name} failed: {error}")),
    }
}
