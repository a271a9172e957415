//! The command line of the benchmark.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::Result;
use super::scale::Scale;

pub const USAGE: &str = "\
Measures decree's commands, with their defaults, against a shadow git, restic and `git stash -u`, side by side.

usage: cargo bench --locked --bench cost -- [options]

  --full          the sizes that the goals are stated for; takes hours (see --list)
  --only NAME     only the rows whose name begins like this; `growth-files` and `growth-runs` are the series (repeatable)
  --list          list the names and the estimated times, and measure nothing
  --json FILE     also write the rows as JSON
  --plots DIR     also measure the growth series, and write them as JSON and SVG files
  --rounds N      times to repeat each phase; the median counts (default 5; first checkpoints at most 3)
  --dir PATH      where to build the trees and stores (default: the temporary directory; --full needs 20 GB)
  --keep          leave them there
  --decree PATH   the decree to measure (default: the one cargo just built)
";

pub struct Options {
    pub scale: Scale,
    pub only: Vec<String>,
    pub list: bool,
    pub json: Option<PathBuf>,
    pub plots: Option<PathBuf>,
    pub dir: PathBuf,
    pub keep: bool,
    pub decree: PathBuf,
}

impl Options {
    /// Reads the arguments; `None` means that help was asked for.
    ///
    /// cargo adds `--bench` in `cargo bench` and nothing in `cargo test`, which means only to see that everything works.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Self>> {
        let (mut as_benchmark, mut full, mut rounds) = (false, false, None);
        let mut options = Self {
            scale: Scale::TINY,
            only: Vec::new(),
            list: false,
            json: None,
            plots: None,
            dir: env::temp_dir(),
            keep: false,
            decree: PathBuf::from(env!("CARGO_BIN_EXE_decree")),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let name = argument.to_string_lossy().into_owned();
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--bench" => as_benchmark = true,
                "--help" | "-h" => return Ok(None),
                "--full" => full = true,
                "--list" => options.list = true,
                "--keep" => options.keep = true,
                "--only" => options.only.push(value()?.to_string_lossy().into_owned()),
                "--rounds" => rounds = Some(number(&name, &value()?)?),
                "--json" => options.json = Some(PathBuf::from(value()?)),
                "--plots" => options.plots = Some(PathBuf::from(value()?)),
                "--dir" => options.dir = PathBuf::from(value()?),
                "--decree" => options.decree = PathBuf::from(value()?),
                _ => return Err(format!("unknown argument {name}\n\n{USAGE}").into()),
            }
        }
        if full {
            options.scale = Scale::FULL;
        } else if as_benchmark {
            options.scale = Scale::DEFAULT;
        }
        options.scale.rounds = rounds.unwrap_or(options.scale.rounds);
        // Contenders run with the tree as their current directory.
        options.decree = std::path::absolute(&options.decree)?;
        options.dir = options.dir.canonicalize()?;
        Ok(Some(options))
    }

    /// Whether `--only` selects a row or a series.
    pub fn selects(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }
}

fn number(name: &str, value: &OsStr) -> Result<usize> {
    let number = value.to_str().and_then(|value| value.parse().ok()).filter(|&number| number > 0);
    number.ok_or_else(|| format!("{name} needs a number of at least 1").into())
}
