//! The step of a workflow that decree runs in: what it hands on to later steps, and what it shows on the run's page.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoContext, Result};
use crate::fs::random_hex;

/// A summary that is larger than this is dropped as a whole.
const LARGEST_SUMMARY: u64 = 1 << 20;
/// Room that is left to whoever else writes to the same step's summary.
const SPARE: u64 = 16 << 10;

/// Where a step writes to. Outside of GitHub Actions there is none of it.
#[derive(Clone, Debug, Default)]
pub struct StepFiles {
    outputs: Option<PathBuf>,
    summary: Option<PathBuf>,
}

/// Whether this runs in GitHub Actions, or in something that behaves like it.
pub fn in_actions() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Where a directory is in the repository that was checked out; nowhere else has a meaning to GitHub.
pub fn in_workspace(directory: &Path) -> PathBuf {
    let workspace = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from).unwrap_or_default();
    let inner =
        workspace.canonicalize().ok().and_then(|root| Some(directory.strip_prefix(root).ok()?.to_owned()));
    inner.unwrap_or_default()
}

impl StepFiles {
    /// As the runner says.
    pub fn from_environment() -> StepFiles {
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        StepFiles { outputs: path("GITHUB_OUTPUT"), summary: path("GITHUB_STEP_SUMMARY") }
    }

    /// Hands values on. Nothing in a value can end it: the word that does is random, and not in it.
    pub fn set_outputs(&self, outputs: &[(&str, String)]) -> Result<()> {
        let Some(path) = &self.outputs else { return Ok(()) };
        let mut text = String::new();
        for (name, value) in outputs {
            let word = format!("decree_{}", random_hex());
            if value.contains(&word) {
                return Err(Error::failed(format!("the output '{name}' holds its own delimiter")));
            }
            text.push_str(&format!("{name}<<{word}\n{value}\n{word}\n"));
        }
        append(path, &text)
    }

    /// How much of the summary is left, in bytes; none if there is no summary here.
    pub fn summary_room(&self) -> usize {
        let Some(path) = &self.summary else { return 0 };
        let used = fs::metadata(path).map_or(0, |metadata| metadata.len());
        usize::try_from(LARGEST_SUMMARY.saturating_sub(used + SPARE)).unwrap_or(0)
    }

    /// Adds to the summary, if there is room for all of it: too much would take with it what is there already.
    /// Tells whether it did.
    pub fn add_to_summary(&self, text: &str) -> Result<bool> {
        match &self.summary {
            Some(path) if text.len() < self.summary_room() => {
                append(path, &format!("{text}\n")).map(|()| true)
            }
            _ => Ok(false),
        }
    }
}

/// The runner made the file; other programs of the step may have written to it.
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
    fn what_does_not_fit_does_not_spoil_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let step = step(dir.path());
        assert!(step.add_to_summary("first").unwrap());
        assert!(!step.add_to_summary(&"x".repeat(1 << 20)).unwrap());
        let room = step.summary_room();
        assert!(step.add_to_summary(&"x".repeat(room - 1)).unwrap());
        assert!(!step.add_to_summary("y").unwrap());
        assert!(fs::metadata(dir.path().join("summary")).unwrap().len() < 1 << 20);
    }

    #[test]
    fn elsewhere_there_is_nothing_to_write_to() {
        let step = StepFiles::default();
        step.set_outputs(&[("a", "b".to_owned())]).unwrap();
        assert!(!step.add_to_summary("text").unwrap());
    }
}
