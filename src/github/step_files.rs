//! The files through which a workflow step sets outputs and adds to the run's summary page.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoContext, Result};
use crate::fs::random_hex;

/// GitHub drops a step summary that is larger than this.
const LARGEST_SUMMARY: u64 = 1 << 20;
/// Room that is left for other programs that write to the same summary.
const SPARE: u64 = 16 << 10;

/// The step's output and summary files. Outside of GitHub Actions there are none, and writes do nothing.
#[derive(Clone, Debug, Default)]
pub struct StepFiles {
    outputs: Option<PathBuf>,
    summary: Option<PathBuf>,
}

/// Whether this runs in GitHub Actions or on a compatible runner.
pub fn in_actions() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// The path of a directory within the checked-out repository, as annotations need it; empty if it is outside.
pub fn in_workspace(directory: &Path) -> PathBuf {
    let workspace = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from).unwrap_or_default();
    let inner =
        workspace.canonicalize().ok().and_then(|root| Some(directory.strip_prefix(root).ok()?.to_owned()));
    inner.unwrap_or_default()
}

impl StepFiles {
    pub fn from_environment() -> StepFiles {
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        StepFiles { outputs: path("GITHUB_OUTPUT"), summary: path("GITHUB_STEP_SUMMARY") }
    }

    /// Sets outputs for later steps. The delimiter is random, so that no value can end itself and set another output.
    pub fn set_outputs(&self, outputs: &[(&str, String)]) -> Result<()> {
        let Some(path) = &self.outputs else { return Ok(()) };
        let mut text = String::new();
        for (name, value) in outputs {
            let delimiter = format!("decree_{}", random_hex());
            if value.contains(&delimiter) {
                return Err(Error::failed(format!("the output '{name}' contains its own delimiter")));
            }
            text.push_str(&format!("{name}<<{delimiter}\n{value}\n{delimiter}\n"));
        }
        append(path, &text)
    }

    /// How many bytes the summary can still take; 0 outside of GitHub Actions.
    pub fn summary_room(&self) -> usize {
        let Some(path) = &self.summary else { return 0 };
        let used = fs::metadata(path).map_or(0, |metadata| metadata.len());
        usize::try_from(LARGEST_SUMMARY.saturating_sub(used + SPARE)).unwrap_or(0)
    }

    /// Appends to the summary if the whole text fits: GitHub drops a summary that is too large. Returns whether it did.
    pub fn add_to_summary(&self, text: &str) -> Result<bool> {
        match &self.summary {
            Some(path) if text.len() < self.summary_room() => {
                append(path, &format!("{text}\n")).map(|()| true)
            }
            _ => Ok(false),
        }
    }
}

/// Appends, because other programs of the same step may have written to the file.
fn append(path: &Path, text: &str) -> Result<()> {
    let open = || -> std::io::Result<File> { OpenOptions::new().append(true).create(true).open(path) };
    open().and_then(|mut file| file.write_all(text.as_bytes())).at("write to", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(dir: &Path) -> StepFiles {
        StepFiles { outputs: Some(dir.join("outputs")), summary: Some(dir.join("summary")) }
    }

    #[test]
    fn a_value_of_several_lines_cannot_set_another_output() {
        let dir = tempfile::tempdir().unwrap();
        let value = "a\nverdict<<x\nsuccess\nx\n";
        step(dir.path()).set_outputs(&[("reason", value.to_owned()), ("n", "1".to_owned())]).unwrap();
        let text = fs::read_to_string(dir.path().join("outputs")).unwrap();
        let word = text.lines().next().unwrap().strip_prefix("reason<<").unwrap().to_owned();
        assert!(word.len() > 20 && text.starts_with(&format!("reason<<{word}\n{value}\n{word}\nn<<")));
    }

    #[test]
    fn text_that_does_not_fit_is_not_added() {
        let dir = tempfile::tempdir().unwrap();
        let step = step(dir.path());
        assert!(step.add_to_summary("first").unwrap());
        assert!(!step.add_to_summary(&"x".repeat(1 << 20)).unwrap());
        let room = step.summary_room();
        assert!(step.add_to_summary(&"x".repeat(room - 1)).unwrap());
        assert!(!step.add_to_summary("y").unwrap());
        assert!(fs::metadata(dir.path().join("summary")).unwrap().len() < 1 << 20);
    }
}
