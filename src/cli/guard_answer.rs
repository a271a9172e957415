//! The answer of `guard` for programs, as the schemas in docs/schemas have it.

use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use super::checkpoint::restore_command;
use super::context::absolute_command_line;
use super::rollback_answer::{AskedRollback, contract, warnings};
use crate::checkpoint::quote::in_json;
use crate::error::{Error, Result};
use crate::history::uncaptured::SecretChange;
use crate::history::{GitChange, Guard, GuardOutcome, RollbackReport};
use crate::project::Layout;

/// What is known before the command runs.
pub struct GuardAnswer {
    command: String,
    checkpoint: Value,
    pub warnings: Vec<String>,
}

impl GuardAnswer {
    pub fn of(layout: &Layout, guard: &Guard<'_>) -> GuardAnswer {
        let record = guard.record();
        let checkpoint = json!({
            "id": record.id,
            "type": record.kind().word(),
            "created_at": record.created_at,
            "reason": record.reason,
            "scope": { "files": guard.file_names(), "state_keys": [] },
            "restore_command": restore_command(record, |it| absolute_command_line(layout, layout.root(), it)),
            "expiry": record.expiry,
        });
        GuardAnswer { command: guard.shown().to_owned(), checkpoint, warnings: guard.warnings.clone() }
    }

    /// The whole answer. `result` is the exit code, or why there is none; `not_started` is why a command could not be started.
    pub fn render(
        self,
        layout: &Layout,
        outcome: &GuardOutcome,
        rollback: Option<&RollbackReport>,
        result: &Result<u8>,
        not_started: Option<&Error>,
    ) -> Value {
        let id = outcome.checkpoint.id();
        let asked = AskedRollback { scope: &[], directory: layout.root(), dry_run: false };
        let is_kept = rollback.is_none() && result.is_ok();
        let git = outcome.git.iter().flat_map(GitChange::restored_lines).filter(|_| rollback.is_some());
        let all_warnings: Vec<String> =
            self.warnings.into_iter().chain(rollback.into_iter().flat_map(warnings)).chain(git).collect();
        let mut answer = json!({
            "kept": is_kept,
            "rolled_back": rollback.is_some_and(RollbackReport::is_complete),
            "project": in_json(layout.root().as_os_str().as_bytes()),
            "command": self.command,
            "exit_code": result.as_ref().map_or_else(|error| error.kind().exit_code(), |code| *code),
            "cause": (!is_kept).then_some(&outcome.cause),
            "checkpoint": self.checkpoint,
            "rollback": rollback.map(|report| contract(layout, id, report, asked)),
            "secrets": outcome.uncaptured.report.secrets.iter().map(secret).collect::<Vec<_>>(),
            "warnings": all_warnings,
        });
        if let Some(error) = result.as_ref().err().or(not_started) {
            answer["error"] = error.to_json();
        }
        answer
    }
}

/// What became of a likely secret, which no checkpoint holds.
fn secret(change: &SecretChange) -> Value {
    json!({
        "path": change.path,
        "change": change.change.word(),
        "restored": change.restored,
        "set_aside": change.set_aside,
        "why": change.why,
    })
}
