//! `decree doctor`: checks that routines can run.

use serde_json::json;

use super::{Context, Format};
use crate::doctor::{Finding, Health, examine};
use crate::error::Result;
use crate::project::Project;
use crate::report::text::Paint;

/// Check that everything a routine needs is installed and configured
///
/// Checks bash, the routines and the commands they need, the program of `verify`, the config, permissions, disk space, every pending
/// spec and every waiting message. Exit code 0: routines can run; 1: something is missing, or a spec or a message cannot run, and the output says how
/// to fix it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree doctor\n  decree doctor --format json | jq .ready")]
pub struct DoctorArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

pub fn doctor(context: &Context, args: &DoctorArgs) -> Result<u8> {
    // What is wrong with the config is among the findings.
    let project = Project::find(&context.directory)?;
    let findings = examine(&project)?;
    let missing = findings.iter().any(|finding| finding.health == Health::Missing);
    let text = match args.format {
        Format::Json => format!("{:#}\n", json!({ "ready": !missing, "findings": findings })),
        Format::Text => {
            let paint = Paint(context.ui.color_out);
            let lines: String = findings.iter().map(|finding| line(finding, paint)).collect();
            let is_work = |finding: &Finding| ["specs", "messages", "verify"].contains(&finding.subject);
            let blocks = |finding: &&Finding| finding.health == Health::Missing && !is_work(finding);
            let end = match missing {
                false => "routines can run here",
                true if findings.iter().find(blocks).is_some() => "routines cannot run until this is fixed",
                true => "routines can run here; what is marked ✗ cannot until it is fixed",
            };
            format!("{lines}{end}\n")
        }
    };
    context.ui.print(&text)?;
    Ok(u8::from(missing))
}

fn line(finding: &Finding, paint: Paint) -> String {
    let mark = match finding.health {
        Health::Good => paint.good("✓"),
        Health::Poor => paint.strong("!"),
        Health::Missing => paint.bad("✗"),
    };
    let mut line = format!("{mark} {:<12} {}\n", finding.subject, finding.found);
    if !finding.remedy.is_empty() {
        line.push_str(&format!("  {:<12} {}\n", "", paint.dim(&format!("→ {}", finding.remedy))));
    }
    line
}
