//! `decree audit`: shows and verifies the audit trail.

use serde_json::json;

use super::{Context, ContractFormat};
use crate::error::{Error, Result};
use crate::history::audit::{AuditRecord, AuditTrail};
use crate::ui;

/// Show what was reverted, restored or deleted: by whom, when and why
///
/// Every line of .decree/audit.jsonl contains the hash of the line before it, so that no line can be changed or removed
/// unnoticed; each call verifies this. `decree audit verify` prints the hash of the last line: stored elsewhere, it also proves
/// that no line is missing at the end.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree audit\n  decree audit --format json\n  decree audit verify\n  decree audit verify --head 4f2a…"
)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,

    /// Output format
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(super) format: ContractFormat,
}

#[derive(Debug, clap::Subcommand)]
enum AuditCommand {
    /// Verify the trail and print the hash of its last line
    Verify {
        /// A hash that the trail has to contain, or its first 8 or more digits
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
    },
}

pub fn audit(context: &Context, args: &AuditArgs) -> Result<()> {
    let path = context.project_to_inspect()?.layout.audit();
    let trail = AuditTrail::read(&path)?;
    for line in &trail.cut_off {
        context.ui.warn(&format!("line {line} of the audit trail is incomplete: its write was interrupted"));
    }
    match (&args.command, args.format) {
        (Some(AuditCommand::Verify { head }), format) => verify(context, &trail, head.as_deref(), format),
        (None, ContractFormat::Text) => {
            if trail.records.is_empty() {
                context.ui.note("nothing was reverted, restored or deleted yet");
            }
            let rows: Vec<Vec<String>> = trail.records.iter().map(row).collect();
            context.ui.print(&ui::table(&rows))
        }
        (None, format) => context.ui.print(&format.render(&json!({ "records": trail.records }))),
    }
}

fn verify(context: &Context, trail: &AuditTrail, head: Option<&str>, format: ContractFormat) -> Result<()> {
    if let Some(hash) = head {
        let hash = hash.strip_prefix("sha256:").unwrap_or(hash);
        if hash.len() < 8 || !hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(Error::usage(format!("'{}' is not the hash of an audit entry", hash.escape_debug()))
                .detail("give at least 8 hexadecimal digits, in lower case"));
        }
        if !trail.hashes.iter().any(|known| known.starts_with(hash)) {
            return Err(Error::integrity(format!("no line of the audit trail has the hash {hash}"))
                .detail("the trail was truncated or replaced"));
        }
    }
    match format {
        ContractFormat::Text => {
            let head = trail.head().unwrap_or("none");
            let entries = crate::humanize::count(trail.records.len(), "entry");
            context.ui.print(&format!("intact: {entries}, last hash {head}\n"))
        }
        format => {
            let answer = json!({ "whole": true, "records": trail.records.len(), "head": trail.head() });
            context.ui.print(&format.render(&answer))
        }
    }
}

fn row(record: &AuditRecord) -> Vec<String> {
    let action = serde_json::to_value(record.entry.action).expect("a word is plain data");
    vec![
        record.at.clone(),
        record.who.clone(),
        action.as_str().unwrap_or_default().to_owned(),
        record.entry.subject.clone(),
        crate::humanize::count(record.entry.paths as usize, "path"),
        crate::sanitize::one_line(record.entry.reason.as_deref().unwrap_or_default()),
    ]
}
