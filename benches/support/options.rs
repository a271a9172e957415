//! The command line of the benchmark.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::Result;
use super::tree::KERNEL_FILES;

pub const USAGE: &str = "\
Measures decree's checkpoints against a shadow git, side by side, on a synthetic source tree.

usage: cargo bench --locked --bench checkpoint -- [options]

  --files N       files in the tree (default 20000)
  --kernel-size   a tree the size of the Linux kernel: 79000 files, 1.3 GB
  --rounds N      times to repeat each phase; the median counts (default 5; first checkpoints at most 3)
  --dir PATH      where to put the tree and the stores (default: the temporary directory)
  --keep          leave them there
  --decree PATH   the decree to measure (default: the one cargo just built)
";

const FILES: usize = 20_000;
/// `cargo test --all-targets` runs benchmarks too, and means only to see that they work.
const FILES_IN_A_TEST: usize = 400;
const FEWEST_FILES: usize = 100;

#[derive(Debug)]
pub struct Options {
    pub files: usize,
    pub rounds: usize,
    pub dir: PathBuf,
    pub keep: bool,
    pub decree: PathBuf,
}

impl Options {
    /// Reads the arguments; `None` means that help was asked for.
    ///
    /// cargo adds `--bench` in `cargo bench` and nothing in `cargo test`.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Self>> {
        let mut files = None;
        let mut rounds = None;
        let mut as_benchmark = false;
        let mut options = Self {
            files: 0,
            rounds: 0,
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
                "--kernel-size" => files = Some(KERNEL_FILES),
                "--keep" => options.keep = true,
                "--files" => files = Some(number(&name, &value()?, FEWEST_FILES)?),
                "--rounds" => rounds = Some(number(&name, &value()?, 1)?),
                "--dir" => options.dir = PathBuf::from(value()?),
                "--decree" => options.decree = PathBuf::from(value()?),
                _ => return Err(format!("unknown argument {name}\n\n{USAGE}").into()),
            }
        }
        let (default_files, default_rounds) = if as_benchmark { (FILES, 5) } else { (FILES_IN_A_TEST, 1) };
        options.files = files.unwrap_or(default_files);
        options.rounds = rounds.unwrap_or(default_rounds);
        // Contenders run with the tree as their current directory.
        options.decree = std::path::absolute(&options.decree)?;
        options.dir = options.dir.canonicalize()?;
        Ok(Some(options))
    }
}

fn number(name: &str, value: &OsStr, least: usize) -> Result<usize> {
    value
        .to_str()
        .and_then(|value| value.parse().ok())
        .filter(|&number| number >= least)
        .ok_or_else(|| format!("{name} needs a number of at least {least}").into())
}
