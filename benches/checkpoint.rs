//! decree's checkpoints against a shadow git, measured side by side in one run.
//!
//! ```text
//! cargo bench --locked --bench checkpoint -- --kernel-size
//! ```
//!
//! On a synthetic source tree, both make a first checkpoint, make one of the unchanged tree, write the diff
//! of 200 changed files, and revert them. They take turns, so that whatever else the machine does falls
//! on both. Every diff is counted and every revert is checked, outside of the time that is taken: a wrong
//! result fails the run. A slow one never does; the table only says whether a goal was met.
#![allow(clippy::disallowed_methods)] // nothing here has to survive a crash

mod support;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use support::Result;
use support::contender::{Decree, Keeper, Reverter, ShadowGit};
use support::edit::{Change, Listing};
use support::measure::{self, Runner, settle_disk};
use support::options::{Options, USAGE};
use support::report::{self, Measured};
use support::restic::Restic;
use support::tree::Tree;

/// First checkpoints take by far the longest, and vary the least.
const MOST_FIRST_ROUNDS: usize = 3;

fn main() -> ExitCode {
    let outcome = measure::run_as_wrapper().unwrap_or_else(run);
    outcome.unwrap_or_else(|error| {
        progress(&format!("error: {error}"));
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    let Some(options) = Options::parse(env::args_os().skip(1))? else {
        io::stdout().write_all(USAGE.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut scratch = tempfile::Builder::new().prefix("decree-bench-").tempdir_in(&options.dir)?;
    if options.keep {
        scratch.disable_cleanup(true);
        progress(&format!("keeping everything in {}", scratch.path().display()));
    }
    bench(&options, scratch.path())?;
    Ok(ExitCode::SUCCESS)
}

fn bench(options: &Options, scratch: &Path) -> Result<()> {
    progress(&format!("building a tree of {} files", options.files));
    let tree = Tree::build(&scratch.join("tree"), options.files)?;
    fs::create_dir(scratch.join("home"))?;
    let runner = Runner::new(tree.root(), scratch);

    let mut pair = [
        Entrant::new("decree", Decree::new(runner.clone(), options.decree.clone())),
        Entrant::new("shadow git", ShadowGit::new(runner.clone())),
    ];
    let mut restic = Restic::find(runner.clone()).map(|restic| (restic, Measured::default()));

    let outcome = measure_pair(&mut pair, &tree, &runner, options.rounds)
        .and_then(|()| restic.as_mut().map_or(Ok(()), |(restic, measured)| measure_restic(restic, measured)));

    // What was measured before an error is worth reading too.
    let [decree, git] = &pair;
    let restic = restic.as_ref().map(|(_, measured)| measured);
    let mut out = io::stdout().lock();
    writeln!(out, "\n{}", report::table(&decree.measured, &git.measured, restic))?;
    writeln!(out, "The ratio is the shadow git's number divided by decree's: more is better.")?;
    writeln!(out, "Times are medians, memory is the largest of all rounds.\n")?;
    write!(out, "{}", report::machine(scratch))?;
    writeln!(out, "tree      {} files, {:.1} MB", tree.len(), tree.bytes() as f64 / 1e6)?;
    writeln!(out, "rounds    {}", options.rounds)?;
    outcome
}

/// One of the two that go through every phase.
struct Entrant {
    name: &'static str,
    tool: Box<dyn Reverter>,
    measured: Measured,
}

impl Entrant {
    fn new(name: &'static str, tool: impl Reverter + 'static) -> Self {
        Self { name, tool: Box::new(tool), measured: Measured::default() }
    }
}

fn measure_pair(pair: &mut [Entrant; 2], tree: &Tree, runner: &Runner, rounds: usize) -> Result<()> {
    tree.warm_cache()?;
    for round in 0..rounds.min(MOST_FIRST_ROUNDS) {
        for entrant in in_turn(pair, round) {
            progress(&format!("first checkpoint, round {}: {}", round + 1, entrant.name));
            entrant.tool.forget()?;
            settle_disk()?;
            entrant.measured.first.push(entrant.tool.checkpoint()?);
        }
    }
    settle_disk()?;
    for entrant in pair.iter_mut() {
        entrant.measured.store = Some(entrant.tool.store_size()?);
        entrant.measured.total = Some(entrant.tool.total_size()?);
    }
    for round in 0..rounds {
        for entrant in in_turn(pair, round) {
            progress(&format!("unchanged tree, round {}: {}", round + 1, entrant.name));
            settle_disk()?;
            entrant.measured.unchanged.push(entrant.tool.checkpoint()?);
        }
    }
    for round in 0..rounds {
        measure_change(pair, tree, runner, round)?;
    }
    Ok(())
}

/// Diff and revert of the same change, made again for each of the two.
fn measure_change(pair: &mut [Entrant; 2], tree: &Tree, runner: &Runner, round: usize) -> Result<()> {
    let change = Change::plan(tree, round)?;
    let before = Listing::of(tree.root())?;
    for Entrant { name, tool, measured } in in_turn(pair, round) {
        progress(&format!("{} files changed, round {}: {name}", change.len(), round + 1));
        // The other one's revert has touched files: this one must not pay for that.
        tool.checkpoint()?;
        change.make()?;

        let diff = runner.scratch().join("changes.diff");
        settle_disk()?;
        measured.diff.push(tool.diff(&diff)?);
        measured.diff_bytes = Some(fs::metadata(&diff)?.len());
        check_diff(runner, &diff, change.len()).map_err(|error| format!("{name}: {error}"))?;

        settle_disk()?;
        measured.revert.push(tool.revert()?);
        let reverted = change.check_reverted().and_then(|()| before.check_same(&Listing::of(tree.root())?));
        reverted.map_err(|error| format!("{name} did not revert: {error}"))?;
    }
    Ok(())
}

/// git itself must be able to read the diff, and find in it every file that was changed.
fn check_diff(runner: &Runner, diff: &Path, expected: usize) -> Result<()> {
    let command = ["git".into(), "apply".into(), "--numstat".into(), diff.into()];
    let (_, files) = runner.measure(&command)?;
    let found = files.iter().filter(|&&byte| byte == b'\n').count();
    if found != expected {
        return Err(format!("the diff has {found} files instead of {expected}").into());
    }
    Ok(())
}

fn measure_restic(restic: &mut Restic, measured: &mut Measured) -> Result<()> {
    progress("restic: first checkpoint and unchanged tree");
    restic.forget()?;
    settle_disk()?;
    measured.first.push(restic.checkpoint()?);
    settle_disk()?;
    let size = restic.store_size()?;
    (measured.store, measured.total) = (Some(size), Some(size));
    measured.unchanged.push(restic.checkpoint()?);
    Ok(())
}

/// Both, with the other one first in every second round.
fn in_turn(pair: &mut [Entrant; 2], round: usize) -> impl Iterator<Item = &mut Entrant> {
    let [one, other] = pair;
    let order = if round.is_multiple_of(2) { [one, other] } else { [other, one] };
    order.into_iter()
}

/// Reports progress on standard error; only results go to standard output.
fn progress(message: &str) {
    // A closed standard error does not stop the measurement.
    let _ = writeln!(io::stderr(), "{message}");
}
