//! `decree init`

use std::fs;
use std::path::Path;

use super::Context;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::project::{Layout, refuse_home};

/// Make this directory a decree project
///
/// Writes .decree/ (settings, and a .gitignore for the runtime data) and specs/. Never overwrites
/// anything that is there already.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree init\n  decree -C path/to/repository init")]
pub struct InitArgs {}

const CONFIG: &str = "\
# Files that are left out of checkpoints beyond the built-in names, and exceptions (ignore patterns).
sensitive:
  exclude: []
  allow: []
";

/// Committed: the settings, routines and cron entries. Everything else is made while decree works.
const GITIGNORE: &str = "\
*
!.gitignore
!config.yml
!routines/
!routines/**
!cron/
!cron/**
";

pub fn init(context: &Context, _: &InitArgs) -> Result<()> {
    let root = context.directory.canonicalize().at("open", &context.directory)?;
    refuse_home(&root)?;
    let layout = Layout::new(root);
    let mut wrote = Vec::new();
    for dir in [layout.decree(), layout.specs()] {
        if !dir.is_dir() {
            fs::create_dir_all(&dir).at("create", &dir)?;
            wrote.push(format!("{}/", relative(&layout, &dir)));
        }
    }
    for (path, text) in [(layout.config(), CONFIG), (layout.gitignore(), GITIGNORE)] {
        if !path.exists() {
            atomic::write(&path, text.as_bytes())?;
            wrote.push(relative(&layout, &path));
        }
    }
    let ui = &context.ui;
    match wrote.is_empty() {
        true => ui.note("everything is there already; nothing was written"),
        false => ui.note(&format!("wrote {}", wrote.join(", "))),
    }
    ui.note("next: `decree checkpoint create` saves the tree as it is");
    Ok(())
}

fn relative(layout: &Layout, path: &Path) -> String {
    path.strip_prefix(layout.root()).unwrap_or(path).display().to_string()
}
