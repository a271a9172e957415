//! Trees of very many small files: 100,000 in one directory, 500,000 against `git add`, and the memory for a million.

use super::kernel::MEMORY;
use super::{Bench, Group, Place, in_turn};
use crate::support::Result;
use crate::support::contender::{Decree, Keeper, Reverter, ShadowGit};
use crate::support::interrupt::progress;
use crate::support::measure::{Runner, median_time, pass_second, peak_memory, settle_disk};
use crate::support::project::Project;
use crate::support::results::{Goal, Row};
use crate::support::small_tree::{FILES_IN_DIRECTORY, SmallTree};
use crate::support::units::Unit::{Bytes, Seconds};
use crate::support::units::grouped;

pub const FLAT: Group = Group {
    rows: &["flat-directory"],
    seconds: |scale| scale.flat as f64 * 0.0012,
    measure: measure_flat,
    is_series: false,
};

pub const HALF_MILLION: Group = Group {
    rows: &["half-million"],
    seconds: |scale| scale.half_million as f64 * 0.001,
    measure: measure_half_million,
    is_series: false,
};

pub const MILLION: Group = Group {
    rows: &["memory-checkpoint", "memory-process"],
    seconds: |scale| scale.million as f64 * 0.0004,
    measure: measure_million,
    is_series: false,
};

fn build(runner: &Runner, count: usize, in_directory: usize) -> Result<SmallTree> {
    progress(&format!("building a tree of {} small files", grouped(count as u64)));
    let tree = SmallTree::build(runner.tree(), count, in_directory)?;
    pass_second()?;
    Ok(tree)
}

fn measure_flat(bench: &Bench) -> Result<()> {
    let scale = bench.scale();
    let Place { _dir, runner } = bench.place("flat")?;
    let tree = build(&runner, scale.flat, scale.flat)?;
    let decree: Box<dyn Reverter> = Box::new(Decree::new(runner.clone(), bench.options.decree.clone()));
    let git: Box<dyn Reverter> = Box::new(ShadowGit::new(runner.clone()));
    let mut pair = [(decree, Vec::new()), (git, Vec::new())];
    for (tool, _) in &mut pair {
        progress(&format!("one directory: first checkpoint: {}", tool.name()));
        tool.forget()?;
        tool.checkpoint()?;
    }
    for round in 0..scale.rounds {
        for (tool, costs) in in_turn(&mut pair, round) {
            progress(&format!("one directory: unchanged, round {}: {}", round + 1, tool.name()));
            settle_disk()?;
            costs.push(tool.checkpoint()?);
        }
    }
    for (tool, _) in &mut pair {
        tree.check_reverts(tool.as_mut())?;
    }
    let [decree, git] = pair.map(|(_, costs)| median_time(&costs));
    let what = format!("{} files in one directory, unchanged", grouped(scale.flat as u64));
    bench.report(Row::new("flat-directory", what, Seconds, decree, Goal::Times(1.0)).peer("shadow git", git));
    Ok(())
}

fn measure_half_million(bench: &Bench) -> Result<()> {
    let scale = bench.scale();
    let Place { _dir, runner } = bench.place("half-million")?;
    let tree = build(&runner, scale.half_million, FILES_IN_DIRECTORY)?;
    let (mut decree, mut git) = contenders(bench, &runner);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..scale.first_rounds(scale.half_million) {
        progress(&format!("small files: first checkpoint, round {}: decree", round + 1));
        decree.forget()?;
        settle_disk()?;
        ours.push(decree.checkpoint()?);
        progress(&format!("small files: first checkpoint, round {}: git add", round + 1));
        git.forget()?;
        settle_disk()?;
        theirs.push(git.add()?);
    }
    tree.check_reverts(&mut decree)?;
    let what = format!("first checkpoint, {} small files", grouped(scale.half_million as u64));
    bench.report(
        Row::new("half-million", what, Seconds, median_time(&ours), Goal::Times(7.0))
            .peer("git add -A", median_time(&theirs)),
    );
    Ok(())
}

fn contenders(bench: &Bench, runner: &Runner) -> (Decree, ShadowGit) {
    (Decree::new(runner.clone(), bench.options.decree.clone()), ShadowGit::new(runner.clone()))
}

fn measure_million(bench: &Bench) -> Result<()> {
    let count = bench.scale().million;
    let Place { _dir, runner } = bench.place("million")?;
    let tree = build(&runner, count, FILES_IN_DIRECTORY)?;
    let (mut decree, _) = contenders(bench, &runner);
    progress("memory: first checkpoint");
    decree.forget()?;
    let first = decree.checkpoint()?;
    progress("memory: process");
    let mut project = Project::create(&runner, &bench.options.decree, "echo changed > changed\n")?;
    project.add_messages(1)?;
    let (message, _) = project.process(&[], 1)?;
    tree.check_reverts(&mut decree)?;
    let what = |command| format!("memory, {} files: {command}", grouped(count as u64));
    bench.report(
        Row::new("memory-checkpoint", what("checkpoint create"), Bytes, peak_memory(&[first]), MEMORY)
            .note(format!("it took {}", Seconds.format(first.elapsed.as_secs_f64()))),
    );
    bench.report(
        Row::new("memory-process", what("process"), Bytes, peak_memory(&[message]), MEMORY)
            .note(format!("it took {}", Seconds.format(message.elapsed.as_secs_f64()))),
    );
    Ok(())
}
