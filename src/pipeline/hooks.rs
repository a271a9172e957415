//! Commands of the user's own around the work.

use std::time::Duration;

use super::events::Event;
use super::queue::Pipeline;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::Exec;

/// How long a hook may take once decree was asked to stop.
const WHEN_STOPPING: Duration = Duration::from_secs(1);

impl Pipeline<'_> {
    /// A failing one stops everything.
    pub(super) fn hook_before_all(&mut self) -> Result<()> {
        let command = &self.config.hooks.before_all;
        self.hook("before_all", command, &[]).map_err(|why| {
            Error::failed(format!("hooks.before_all failed: {why}"))
                .detail("nothing was processed")
                .hint("run the command by hand, or take it out of .decree/config.yml")
        })?;
        interrupt::check()
    }

    /// A failing one is told, no more: the work is done.
    pub(super) fn hook_after_all(&mut self) {
        let command = &self.config.hooks.after_all;
        let facts = [
            ("DECREE_KEPT", self.summary.kept.to_string()),
            ("DECREE_PUT_BACK", self.summary.put_back.to_string()),
            ("DECREE_SKIPPED", self.summary.skipped.to_string()),
        ];
        // The work is over: a signal that ended it must not keep the hook from running.
        let _shield = interrupt::shield();
        if let Err(why) = self.hook("after_all", command, &facts) {
            self.warn(&format!("hooks.after_all failed: {why}"));
        }
    }

    /// Whoever asked decree to stop will not wait long for hooks.
    fn hook_time(&self) -> Option<Duration> {
        match interrupt::requested() {
            Some(_) => Some(WHEN_STOPPING),
            None => (!self.config.timeout.is_zero()).then_some(self.config.timeout),
        }
    }

    /// Runs a hook; says why it failed.
    pub(super) fn hook(&mut self, name: &str, command: &str, facts: &[(&str, String)]) -> Result<(), String> {
        if command.is_empty() {
            return Ok(());
        }
        let mut environment = self.environment.clone();
        environment.extend(facts.iter().map(|(key, value)| (key.into(), value.into())));
        environment.insert("DECREE_HOOK".into(), name.into());
        let exec = Exec::new("bash")
            .args(["-c", command])
            .directory(self.layout.root())
            .environment(environment)
            .timeout(self.hook_time());
        let (redactor, reporter) = (&mut self.redactor, &mut *self.reporter);
        reporter.event(&Event::HookBegins(&format!("hooks.{name}")));
        let mut clean = Vec::new();
        let ended = exec.run(&mut |bytes: &[u8]| {
            clean.clear();
            redactor.push(bytes, &mut clean);
            reporter.event(&Event::Output(&clean));
            Ok(())
        });
        clean.clear();
        redactor.flush(&mut clean);
        reporter.event(&Event::Output(&clean));
        reporter.event(&Event::HookEnds);
        match ended {
            Ok(ended) if ended.is_success() => Ok(()),
            Ok(ended) => Err(format!("`{command}`: {}", ended.end)),
            Err(error) => Err(error.to_string()),
        }
    }
}
