//! Checkpoints of a source tree: the first, one of the unchanged tree, the diff and the revert of 200 changed files.

use std::path::Path;

use super::{Bench, Group, Place, in_turn, messages};
use crate::support::Result;
use crate::support::contender::{Decree, DiskSize, Keeper, Reverter, ShadowGit};
use crate::support::edit::{Change, Listing};
use crate::support::interrupt::progress;
use crate::support::measure::{Cost, Runner, median_time, peak_memory, settle_disk};
use crate::support::restic::Restic;
use crate::support::results::{Goal, Row};
use crate::support::stash::GitStash;
use crate::support::tree::Tree;
use crate::support::units::Unit::{Bytes, Seconds};
use crate::support::units::grouped;

pub const GROUP: Group = Group {
    rows: &[
        "first",
        "unchanged",
        "store",
        "store-apparent",
        "diff",
        "revert",
        "memory",
        "message",
        "message-bytes",
        "message-allocated",
        "message-kept",
        "message-reverted",
    ],
    seconds: |scale| scale.kernel as f64 * (0.004 + 0.0004 * scale.rounds as f64),
    measure,
    is_series: false,
};

/// decree needs no more memory than this, whatever the size of the tree.
pub const MEMORY: Goal = Goal::Below(200.0 * 1024.0 * 1024.0);

/// All that was measured of one contender.
#[derive(Default)]
struct Measured {
    first: Vec<Cost>,
    unchanged: Vec<Cost>,
    diff: Vec<Cost>,
    revert: Vec<Cost>,
    store: DiskSize,
}

struct Entrant {
    tool: Box<dyn Reverter>,
    measured: Measured,
}

/// A contender that makes only checkpoints: the first, and a later one.
struct Others {
    restic: Option<Once>,
    stash: Option<Once>,
}

struct Once {
    first: Cost,
    later: Cost,
    store: DiskSize,
}

fn measure(bench: &Bench) -> Result<()> {
    let scale = bench.scale();
    let Place { _dir, runner } = bench.place("kernel")?;
    progress(&format!("source tree: building {} files", grouped(scale.kernel as u64)));
    let tree = Tree::build(runner.tree(), scale.kernel)?;
    messages::write_specs(tree.root(), scale.rounds)?;
    tree.warm_cache()?;
    let decree: Box<dyn Reverter> = Box::new(Decree::new(runner.clone(), bench.options.decree.clone()));
    let git: Box<dyn Reverter> = Box::new(ShadowGit::new(runner.clone()));
    let mut pair = [decree, git].map(|tool| Entrant { tool, measured: Measured::default() });

    measure_checkpoints(bench, &mut pair)?;
    if ["diff", "revert", "memory"].iter().any(|row| bench.selects(row)) {
        for round in 0..scale.rounds {
            measure_change(&mut pair, &tree, &runner, round)?;
        }
    }
    if GROUP.rows.iter().any(|row| row.starts_with("message") && bench.selects(row)) {
        messages::measure(bench, &runner, pair[1].tool.as_mut())?;
    }
    let others = if bench.selects("first") || bench.selects("unchanged") || bench.selects("store") {
        measure_others(&runner, &tree)?
    } else {
        Others { restic: None, stash: None }
    };
    report(bench, &pair, &others, &tree);
    Ok(())
}

fn measure_checkpoints(bench: &Bench, pair: &mut [Entrant; 2]) -> Result<()> {
    let scale = bench.scale();
    let rounds = if bench.selects("first") { scale.first_rounds(scale.kernel) } else { 1 };
    for round in 0..rounds {
        for Entrant { tool, measured } in in_turn(pair, round) {
            progress(&format!("source tree: first checkpoint, round {}: {}", round + 1, tool.name()));
            tool.forget()?;
            settle_disk()?;
            measured.first.push(tool.checkpoint()?);
        }
    }
    settle_disk()?;
    for Entrant { tool, measured } in pair.iter_mut() {
        measured.store = tool.store_size()?;
    }
    for round in 0..scale.rounds {
        for Entrant { tool, measured } in in_turn(pair, round) {
            progress(&format!("source tree: unchanged, round {}: {}", round + 1, tool.name()));
            settle_disk()?;
            measured.unchanged.push(tool.checkpoint()?);
        }
    }
    Ok(())
}

/// Diff and revert of the same change, made again for each of the two.
fn measure_change(pair: &mut [Entrant; 2], tree: &Tree, runner: &Runner, round: usize) -> Result<()> {
    let change = Change::plan(tree, round)?;
    let before = Listing::of(tree.root())?;
    for Entrant { tool, measured } in in_turn(pair, round) {
        let name = tool.name();
        progress(&format!("source tree: {} files changed, round {}: {name}", change.len(), round + 1));
        // The other one's revert has touched files: this one must not pay for that.
        tool.checkpoint()?;
        change.make()?;

        let diff = runner.scratch().join("changes.diff");
        settle_disk()?;
        measured.diff.push(tool.diff(&diff)?);
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

/// restic and `git stash`, once each. The stash comes last: it writes the whole tree anew.
fn measure_others(runner: &Runner, tree: &Tree) -> Result<Others> {
    let before = Listing::of(tree.root())?;
    let mut restic = Restic::find(runner.clone());
    if restic.is_none() {
        progress("restic is not installed, and left out");
    }
    let restic = restic.as_mut().map(|restic| measure_once(restic, |_| Ok(()))).transpose()?;
    let change = Change::plan(tree, 0)?;
    let stash = measure_once(&mut GitStash::new(runner.clone()), |stash| {
        before.check_same(&Listing::of(tree.root())?).map_err(|error| format!("git stash: {error}"))?;
        stash.commit()?;
        Ok(change.make()?)
    })?;
    Ok(Others { restic, stash: Some(stash) })
}

fn measure_once<K: Keeper>(tool: &mut K, between: impl Fn(&K) -> Result<()>) -> Result<Once> {
    progress(&format!("source tree: first and later checkpoint: {}", tool.name()));
    tool.forget()?;
    settle_disk()?;
    let first = tool.checkpoint()?;
    let store = tool.store_size()?;
    between(tool)?;
    settle_disk()?;
    Ok(Once { first, later: tool.checkpoint()?, store })
}

fn report(bench: &Bench, pair: &[Entrant; 2], others: &Others, tree: &Tree) {
    let [decree, git] = pair.each_ref().map(|entrant| &entrant.measured);
    let row = |name, what: &str, unit, goal, figure: &dyn Fn(&Measured) -> f64| {
        Row::new(name, what, unit, figure(decree), goal).peer("shadow git", figure(git))
    };
    let with_others = |row: Row, figure: &dyn Fn(&Once) -> f64| {
        row.other("restic", others.restic.as_ref().map(figure))
            .other("git stash -u", others.stash.as_ref().map(figure))
    };
    let size = format!("{} files, {:.1} MB", grouped(tree.len() as u64), tree.bytes() as f64 / 1e6);
    let first = row("first", "first checkpoint", Seconds, Goal::Times(8.0), &|it| median_time(&it.first));
    bench.report(with_others(first, &|it| it.first.elapsed.as_secs_f64()).note(size));
    let unchanged = row("unchanged", "checkpoint, unchanged", Seconds, Goal::Times(1.0), &|it| {
        median_time(&it.unchanged)
    });
    let unchanged = unchanged.note("git stash: with 200 files changed, as it stores nothing otherwise");
    bench.report(with_others(unchanged, &|it| it.later.elapsed.as_secs_f64()));
    let store = row("store", "store, allocated", Bytes, Goal::Times(1.0), &|it| it.store.allocated as f64);
    bench.report(with_others(store, &|it| it.store.allocated as f64).note("decree: all of .decree/"));
    let store =
        row("store-apparent", "store, apparent", Bytes, Goal::Times(1.0), &|it| it.store.apparent as f64);
    bench.report(with_others(store, &|it| it.store.apparent as f64));
    if !decree.diff.is_empty() {
        let diff = |it: &Measured| median_time(&it.diff);
        bench.report(row("diff", "200 files changed: diff", Seconds, Goal::Times(1.0), &diff));
        let revert = |it: &Measured| median_time(&it.revert);
        bench.report(row("revert", "their revert, verified", Seconds, Goal::Times(1.0), &revert));
        let memory = |it: &Measured| {
            let phases = [&it.first, &it.unchanged, &it.diff, &it.revert];
            phases.map(|costs| peak_memory(costs)).into_iter().fold(0.0, f64::max)
        };
        bench.report(row("memory", "peak memory of all these", Bytes, MEMORY, &memory));
    }
}
