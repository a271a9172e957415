//! `decree init`: creates a project.

use super::Context;
use crate::doctor;
use crate::error::{IoContext, Result};
use crate::process::find_program;
use crate::project::{Layout, refuse_home, templates};

/// Create a decree project in this directory
///
/// Writes .decree/ (config, routines, and a .gitignore for runtime data), specs/ and an empty list of processed specs. A routine
/// for Rust is written only where there is a Cargo.toml. Never overwrites an existing file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree init\n  decree init --ai codex\n  decree init --ai none --notebook\n  decree -C path/to/repository init"
)]
pub struct InitArgs {
    /// The AI coding tool that the routines call
    #[arg(long, value_enum, default_value_t, value_name = "TOOL")]
    ai: Ai,

    /// Also write the routines as notebooks, and enable notebooks (needs Python)
    #[arg(long)]
    notebook: bool,
}

/// AI coding tools that can work unattended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Ai {
    #[default]
    Claude,
    Codex,
    Gemini,
    Copilot,
    Opencode,
    /// Set commands.ai in the config yourself
    None,
}

impl Ai {
    /// The command, which reads the prompt from standard input. Its flags allow edits without confirmation, because no user is there.
    fn command(self) -> &'static str {
        match self {
            Ai::Claude => "claude --permission-mode acceptEdits -p",
            Ai::Codex => "codex exec --sandbox workspace-write --skip-git-repo-check -",
            Ai::Gemini => "gemini --approval-mode auto_edit --skip-trust",
            Ai::Copilot => "copilot --allow-all-tools --no-ask-user",
            Ai::Opencode => "opencode run",
            Ai::None => "",
        }
    }
}

pub fn init(context: &Context, args: &InitArgs) -> Result<()> {
    let root = context.directory.canonicalize().at("open", &context.directory)?;
    refuse_home(&root)?;
    let layout = Layout::new(root);
    let written = templates::write_project(&layout, args.ai.command(), args.notebook)?;
    let ui = &context.ui;
    if written.is_empty() {
        ui.note("all files exist already; nothing was written");
    } else {
        ui.note(&format!("wrote {}", written.join(", ")));
    }
    if let Some(command) = args.ai.command().split_whitespace().next()
        && find_program(command).is_none()
    {
        ui.note(&format!("'{command}' is not on the PATH: {}", doctor::install_hint(command)));
    }
    ui.note("next: write specs/01-….spec.md, then `decree doctor` and `decree process`");
    Ok(())
}
