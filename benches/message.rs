//! What a message costs besides its routine: decree's own time for `process`, on a large tree that it knows already.
//!
//! ```text
//! cargo bench --locked --bench message -- --kernel-size
//! ```
//!
//! Each round adds a spec and processes it, once with a routine that changes a few files and is kept, once with one that fails
//! and is reverted. The routine's own time is subtracted. The peer is what a shadow git takes for the same bookkeeping:
//! `add -A` and `write-tree` before and after, and the diff between.
#![allow(clippy::disallowed_methods)] // nothing here has to survive a crash

#[allow(dead_code)] // shared with the other benchmark, which uses the rest
mod support;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use support::Result;
use support::contender::{Keeper, Reverter, ShadowGit};
use support::measure::{self, Cost, Runner, settle_disk};
use support::options::{Options, USAGE};
use support::report;
use support::tree::Tree;

/// Changes three files: one new, one rewritten, one removed; fails if its spec says so.
const ROUTINE: &str = "\
set -eu
echo \"$message_id\" > bench-new
echo \"$message_id\" > bench-changed
rm -f bench-removed
case \"$spec_file\" in *fails*) exit 1 ;; esac
";

fn main() -> ExitCode {
    let outcome = measure::run_as_wrapper().unwrap_or_else(run);
    outcome.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "error: {error}");
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    let Some(options) = Options::parse(env::args_os().skip(1))? else {
        io::stdout().write_all(USAGE.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut scratch = tempfile::Builder::new().prefix("decree-bench-").tempdir_in(&options.dir)?;
    scratch.disable_cleanup(options.keep);
    let tree = Tree::build(&scratch.path().join("tree"), options.files)?;
    fs::create_dir(scratch.path().join("home"))?;
    let runner = Runner::new(tree.root(), scratch.path());
    prepare(tree.root())?;
    tree.warm_cache()?;

    let mut git = ShadowGit::new(runner.clone());
    git.forget()?;
    git.checkpoint()?;
    process(&runner, &options, "00-first")?;
    let (mut kept, mut reverted, mut shadow) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        settle_disk()?;
        kept.push(process(&runner, &options, &format!("{round:02}-works"))?);
        settle_disk()?;
        reverted.push(process(&runner, &options, &format!("{round:02}-fails"))?);
        settle_disk()?;
        let mut cost = git.checkpoint()?;
        fs::write(tree.root().join("bench-new"), format!("round {round}\n"))?;
        cost += git.diff(&scratch.path().join("shadow.diff"))?;
        shadow.push(cost);
    }

    let mut out = io::stdout().lock();
    writeln!(
        out,
        "\ndecree's own time for a message, {} files; medians of {} rounds\n",
        tree.len(),
        options.rounds
    )?;
    for (what, costs) in [
        ("kept", &kept),
        ("reverted, verified", &reverted),
        ("shadow git: two checkpoints and a diff", &shadow),
    ] {
        let peak = costs.iter().map(|cost| cost.peak_memory).max().unwrap_or(0);
        writeln!(
            out,
            "{what:<40} {:>7.3} s   {:>6.1} MiB",
            median(costs).as_secs_f64(),
            peak as f64 / 1048576.0
        )?;
    }
    write!(out, "\n{}", report::machine(scratch.path()))?;
    Ok(ExitCode::SUCCESS)
}

fn prepare(root: &Path) -> Result<()> {
    for dir in [".decree/routines", "specs"] {
        fs::create_dir_all(root.join(dir))?;
    }
    fs::write(root.join(".decree/config.yml"), "max_retries: 0\n")?;
    fs::write(root.join(".decree/routines/develop.sh"), ROUTINE)?;
    fs::write(root.join("bench-changed"), "before\n")?;
    fs::write(root.join("bench-removed"), "before\n")?;
    Ok(())
}

/// Processes one new spec; what it took, without the routine.
fn process(runner: &Runner, options: &Options, spec: &str) -> Result<Cost> {
    let root = runner.tree();
    fs::write(root.join(format!("specs/{spec}.spec.md")), "# Bench\n")?;
    fs::write(root.join("bench-removed"), "before\n")?;
    let script = format!(
        "'{}' -q -C '{}' process --spec '{spec}' >/dev/null || true",
        options.decree.display(),
        root.display()
    );
    let (mut cost, _) = runner.measure(&["bash".into(), "-c".into(), script.into()])?;
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(root.join(".decree/summary.json"))?)?;
    let attempt = &summary["messages"][0]["attempts"][0];
    let verdict = summary["messages"][0]["verdict"].as_str().unwrap_or_default().to_owned();
    if verdict != (if spec.ends_with("fails") { "failed-reverted" } else { "success" }) {
        return Err(format!("{spec} ended as {verdict}").into());
    }
    let routine = Duration::from_millis(attempt["duration_ms"].as_u64().ok_or("no duration")?);
    cost.elapsed = cost.elapsed.saturating_sub(routine);
    Ok(cost)
}

fn median(costs: &[Cost]) -> Duration {
    let mut times: Vec<Duration> = costs.iter().map(|cost| cost.elapsed).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
