//! Which routine carries a message out, and what a message is called.

use std::time::Duration;

use super::queue::Pipeline;
use crate::error::Result;
use crate::interrupt;
use crate::message::{Document, Message, MessageName, Rejection};
use crate::process::Exec;
use crate::project::RoutineName;
use crate::routine::{Routine, RoutineKind, router};

/// A router that takes longer is not answering; neither is one that takes longer than an attempt may.
const PATIENCE: Duration = Duration::from_secs(120);
/// More than this is no answer.
const LONGEST_ANSWER: usize = 64 * 1024;

impl Pipeline<'_> {
    /// The message's own word, else the spec's, else the command line's, else the router's, else the default.
    pub(super) fn routine_for(
        &mut self,
        message: &Message,
        spec: &Document,
    ) -> Result<Result<Routine, Rejection>> {
        let said = |document: &Document| document.get_text("routine").filter(|name| !name.is_empty());
        let name = match said(&message.document).or_else(|| said(spec)) {
            Some(name) => name,
            None => match &self.settings.routine {
                Some(routine) => routine.to_string(),
                None => self.ask_for_routine(&text_of(message, spec))?,
            },
        };
        let Some(name) = RoutineName::parse(&name).ok() else {
            let why = format!("'{name}' cannot be the name of a routine");
            return Ok(Err(Rejection { code: "RoutineNotFound", why }));
        };
        let routine = match self.routines.find(&name) {
            Ok(routine) => routine.clone(),
            Err(error) => {
                let mut why = error.to_string();
                for line in error.detail_lines().iter().map(String::as_str).chain(error.hint_text()) {
                    why.push_str("; ");
                    why.push_str(line);
                }
                return Ok(Err(Rejection { code: "RoutineNotFound", why }));
            }
        };
        Ok(match self.syntax_error(&routine)? {
            Some(why) => Err(Rejection { code: "RoutineInvalid", why }),
            None => Ok(routine),
        })
    }

    /// bash reads a script as it goes; a mistake at its end would cost everything before it.
    fn syntax_error(&self, routine: &Routine) -> Result<Option<String>> {
        if routine.kind != RoutineKind::Shell {
            return Ok(None);
        }
        let mut said = Vec::new();
        let ended = Exec::new("bash")
            .args(["-n".into(), routine.path.clone().into_os_string()])
            .directory(self.layout.root())
            .environment(self.environment.clone())
            .timeout(Some(Duration::from_secs(30)))
            .run(&mut |bytes: &[u8]| {
                let room = LONGEST_ANSWER.saturating_sub(said.len());
                said.extend_from_slice(&bytes[..bytes.len().min(room)]);
                Ok(())
            })?;
        interrupt::check()?;
        Ok((!ended.is_success()).then(|| {
            let said = String::from_utf8_lossy(&said);
            let first = said.lines().next().unwrap_or("bash does not take it").to_owned();
            first.replace(&*routine.path.to_string_lossy(), &self.layout.shown(&routine.path))
        }))
    }

    fn ask_for_routine(&mut self, text: &str) -> Result<String> {
        let default = self.config.default_routine.clone();
        if self.config.commands.router.is_empty() {
            return Ok(router::rank(text, &self.routines).map_or(default, |name| name.to_string()));
        }
        let answer = self.ask_router(&router::prompt_for_routine(&self.routines, text))?;
        match answer.and_then(|answer| router::parse_routine_reply(&answer, &self.routines)) {
            Some(name) => Ok(name.to_string()),
            None => {
                self.warn(&format!("the router named no routine; '{default}' is used"));
                Ok(default)
            }
        }
    }

    /// A name for a message that was given none: the router's word for it, or words of its own.
    pub fn name_for(&mut self, body: &str) -> Result<Option<MessageName>> {
        if body.trim().is_empty() {
            return Ok(None);
        }
        if self.config.commands.router.is_empty() {
            return Ok(MessageName::from_prompt(body));
        }
        let answer = self.ask_router(&router::prompt_for_name(body))?;
        Ok(answer.and_then(|answer| router::parse_name_reply(&answer)))
    }

    fn patience(&self) -> Duration {
        match self.settings.timeout.unwrap_or(self.config.timeout) {
            Duration::ZERO => PATIENCE,
            timeout => timeout.min(PATIENCE),
        }
    }

    /// Asks the configured command; `None` if it does not answer well.
    fn ask_router(&mut self, prompt: &str) -> Result<Option<String>> {
        let command = &self.config.commands.router;
        let Some(mut words) = shell_words::split(command).ok().filter(|words| !words.is_empty()) else {
            self.warn(&format!("commands.router is not a command: {command}"));
            return Ok(None);
        };
        let in_place = words.iter().any(|word| word.contains("{prompt}"));
        for word in &mut words {
            *word = word.replace("{prompt}", prompt);
        }
        let mut exec = Exec::new(&words[0])
            .args(&words[1..])
            .directory(self.layout.root())
            .environment(self.environment.clone())
            .timeout(Some(self.patience()))
            .capture_stdout(LONGEST_ANSWER);
        if !in_place {
            exec = exec.input(prompt);
        }
        let answered = exec.run(&mut |_: &[u8]| Ok(()));
        interrupt::check()?;
        let trouble = match answered {
            Ok(ended) if ended.is_success() => {
                return Ok(Some(String::from_utf8_lossy(&ended.stdout).into_owned()));
            }
            Ok(ended) => ended.end.to_string(),
            Err(error) => error.to_string(),
        };
        self.warn(&format!("the router did not answer ({trouble})"));
        Ok(None)
    }
}

/// What a message is about: its own words, and the spec's.
fn text_of(message: &Message, spec: &Document) -> String {
    format!("{}\n{}\n{}", message.name(), message.document.body, spec.body)
}
