//! How a failure is answered to programs: with `--format json|yaml` it is an object on standard output, as a success is.

use serde_json::{Value, json};

use super::ContractFormat;
use crate::error::{Error, Result};
use crate::ui::Ui;

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

    /// Prints the object, unless the command's own answer contains the error.
    pub fn print(self, ui: &Ui, error: &Error) -> Result<()> {
        if self.format == ContractFormat::Text || error.is_answered() {
            return Ok(());
        }
        let mut answer = json!({});
        if let Some(field) = self.contract {
            answer[field] = Value::Bool(false);
        }
        answer["error"] = error.to_json();
        ui.print(&self.format.render(&answer))
    }
}
