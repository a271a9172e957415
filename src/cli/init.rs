//! `decree init`: creates a project.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Context;
use crate::doctor;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::process::find_program;
use crate::project::{Layout, refuse_home};

/// Create a decree project in this directory
///
/// Writes .decree/ (config, routines, and a .gitignore for runtime data), specs/ and an empty list of processed specs. Never
/// overwrites an existing file.
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
    /// The command, to which the prompt is appended. Its flags allow edits without confirmation, because no user is there.
    fn command(self) -> &'static str {
        match self {
            Ai::Claude => "claude --permission-mode acceptEdits -p",
            Ai::Codex => "codex exec --full-auto",
            Ai::Gemini => "gemini --approval-mode auto_edit -p",
            Ai::Copilot => "copilot --allow-all-tools -p",
            Ai::Opencode => "opencode run",
            Ai::None => "",
        }
    }
}

const CONFIG: &str = include_str!("../../templates/config.yml");
/// Only settings, routines and cron entries are committed; everything else in .decree/ is runtime data.
const GITIGNORE: &str = include_str!("../../templates/gitignore");
const ROUTINES: [(&str, &str); 2] = [
    ("develop.sh", include_str!("../../templates/develop.sh")),
    ("rust-develop.sh", include_str!("../../templates/rust-develop.sh")),
];
const NOTEBOOKS: [(&str, &str); 2] = [
    ("develop.ipynb", include_str!("../../templates/develop.ipynb")),
    ("rust-develop.ipynb", include_str!("../../templates/rust-develop.ipynb")),
];

pub fn init(context: &Context, args: &InitArgs) -> Result<()> {
    let root = context.directory.canonicalize().at("open", &context.directory)?;
    refuse_home(&root)?;
    let layout = Layout::new(root);
    let written = write_all(&layout, args)?;
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

fn write_all(layout: &Layout, args: &InitArgs) -> Result<Vec<String>> {
    let mut written = Vec::new();
    for dir in [layout.decree(), layout.routines(), layout.specs()] {
        if !dir.is_dir() {
            fs::create_dir_all(&dir).at("create", &dir)?;
            written.push(format!("{}/", layout.shown(&dir)));
        }
    }
    let config = CONFIG
        .replace("@AI@", args.ai.command())
        .replace("@NOTEBOOK@", if args.notebook { "true" } else { "false" });
    let mut files = vec![
        (layout.config(), config.as_str(), 0o644),
        (layout.gitignore(), GITIGNORE, 0o644),
        (layout.tracker(), "", 0o644),
    ];
    files.extend(ROUTINES.map(|(name, text)| (layout.routines().join(name), text, 0o755)));
    if args.notebook {
        files.extend(NOTEBOOKS.map(|(name, text)| (layout.routines().join(name), text, 0o644)));
    }
    for (path, text, mode) in files {
        if write_new(&path, text, mode)? {
            written.push(layout.shown(&path));
        }
    }
    Ok(written)
}

/// Writes a file unless the path exists, even as a dangling link.
pub fn write_new(path: &Path, text: &str, mode: u32) -> Result<bool> {
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    atomic::write(path, text.as_bytes())?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("write", path)?;
    Ok(true)
}
