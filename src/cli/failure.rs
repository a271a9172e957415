//! How a failure is answered to programs: with `--format json|yaml` it is an object on standard output, as a success is.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory, ValueEnum};
use serde_json::{Value, json};

use super::{Cli, ContractFormat};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::ui::{Color, Ui};

/// What a command prints to standard output if it fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureAnswer {
    /// The format that was asked for. Text has no object for a failure: people read standard error.
    format: ContractFormat,
    /// The field of the command's own contract that says that nothing was done.
    contract: Option<&'static str>,
}

impl FailureAnswer {
    pub(super) fn new(format: impl Into<ContractFormat>) -> FailureAnswer {
        FailureAnswer { format: format.into(), contract: None }
    }

    pub(super) fn with_contract(self, field: &'static str) -> FailureAnswer {
        FailureAnswer { contract: Some(field), ..self }
    }

    /// For a command line that cannot be parsed: as far as its words say what was asked for.
    fn of_words(words: &[OsString]) -> FailureAnswer {
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
        let own = own_words(&words);
        let after = own
            .iter()
            .zip(own.iter().skip(1))
            .filter(|(word, _)| **word == "--format")
            .map(|(_, value)| *value);
        let format = own.iter().filter_map(|word| word.strip_prefix("--format=")).chain(after).next();
        let is_value = |at: usize| at > 0 && ["-C", "--color"].contains(&own[at - 1]);
        let plain = own.iter().enumerate().filter(|(at, word)| !word.starts_with('-') && !is_value(*at));
        let mut plain = plain.map(|(_, word)| *word);
        let contract = match (plain.next(), plain.next()) {
            (Some("checkpoint"), Some("create")) => Some("checkpoint_created"),
            (Some("rollback" | "guard"), _) => Some("rolled_back"),
            _ => None,
        };
        let format = format.and_then(|format| ContractFormat::from_str(format, false).ok());
        FailureAnswer { format: format.unwrap_or_default(), contract }
    }

    /// Prints the object, unless the command's own answer contains the error.
    pub fn print(self, ui: &Ui, error: &Error) -> Result<()> {
        if self.format == ContractFormat::Text || error.is_answered() {
            return Ok(());
        }
        ui.print(&self.render(error))
    }

    /// Has a repeated signal that ends decree at once print the object, unless the command has printed something before.
    pub fn print_at_exit(self) {
        if self.format != ContractFormat::Text {
            interrupt::set_last_answer(Some(Box::new(move |error| self.render(error))));
        }
    }

    fn render(self, error: &Error) -> String {
        let mut answer = json!({});
        if let Some(field) = self.contract {
            answer[field] = Value::Bool(false);
        }
        answer["error"] = error.to_json();
        self.format.render(&answer)
    }
}

/// The words that are decree's own: not what follows `--`, or without that the first word of a guarded command.
fn own_words<'w>(words: &'w [&'w str]) -> &'w [&'w str] {
    if let Some(end) = words.iter().position(|word| *word == "--") {
        return &words[..end];
    }
    let cli = Cli::command();
    let guard = cli.find_subcommand("guard").into_iter().flat_map(|guard| guard.get_arguments());
    let options = cli.get_arguments().chain(guard).filter(|option| option.get_action().takes_values());
    let long = |option: &Arg| option.get_long().map(|name| format!("--{name}"));
    let short = |option: &Arg| option.get_short().map(|name| format!("-{name}"));
    let names: Vec<String> = options.flat_map(|option| [long(option), short(option)]).flatten().collect();
    let is_value = |at: usize| at > 0 && names.iter().any(|name| name == words[at - 1]);
    let mut plain = (0..words.len()).filter(|at| !words[*at].starts_with('-') && !is_value(*at));
    match plain.next() {
        Some(at) if words[at] == "guard" => &words[..plain.next().unwrap_or(words.len())],
        _ => words,
    }
}

/// Prints what is wrong with a command line, for people and for a program that asked for a format, and returns the exit code. If the
/// output is gone, that still says what happened.
pub fn refuse_usage(error: &clap::Error) -> u8 {
    let _ = error.print();
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let usage = usage_error(error);
    let _ = FailureAnswer::of_words(&words).print(&Ui::new(Color::Never, true), &usage);
    usage.kind().exit_code()
}

/// A command line that cannot be parsed, as an error of decree's: the first paragraph is the message, a tip is the hint.
fn usage_error(error: &clap::Error) -> Error {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Error::usage("a command is missing").hint("`decree --help` lists them");
    }
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let first = paragraphs.next().unwrap_or_default();
    let mut usage = Error::usage(first.strip_prefix("error: ").unwrap_or(&first));
    for part in paragraphs {
        match part.strip_prefix("tip: ") {
            Some(tip) => usage = usage.hint(tip),
            None if part.starts_with("Usage:") => usage = usage.detail(part),
            None => {}
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_a_guarded_command_is_not_decrees() {
        let answer = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            FailureAnswer::of_words(&words).format
        };
        for line in [
            "guard --format json --bad true",
            "guard --bad --format=json true",
            "-C . guard --scope src --format json --bad true",
            "guard --reason x --bad --format json -- true",
            "rollback x --bad --format json",
        ] {
            assert_eq!(answer(line), ContractFormat::Json, "{line}");
        }
        for line in [
            "guard --bad true --format json",
            "guard --bad -- true --format json",
            "guard --bad true --format=json",
        ] {
            assert_eq!(answer(line), ContractFormat::Text, "{line}");
        }
    }
}
