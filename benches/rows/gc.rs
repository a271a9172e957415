//! `checkpoint gc --dry-run`: what it costs must follow what the runs changed, not the number of runs times the tree.

use super::{Bench, Group, Place};
use crate::support::Result;
use crate::support::interrupt::progress;
use crate::support::measure::{median_time, peak_memory, settle_disk};
use crate::support::project::Project;
use crate::support::results::{Goal, Row};
use crate::support::small_tree::{FILES_IN_DIRECTORY, SmallTree};
use crate::support::units::Unit::{Bytes, Seconds};
use crate::support::units::grouped;

pub const GROUP: Group = Group {
    rows: &["gc"],
    seconds: |scale| scale.gc_runs[1] as f64 * (0.06 + 5e-6 * scale.gc_files as f64),
    measure,
    is_series: false,
};

/// Ten times as many runs would take ten times as long if each cost as much as reading the tree. They change a seventh of it.
const GOAL: Goal = Goal::AtMost(5.0);
/// Every run changes these files.
const ROUTINE: &str = "for n in 0 1 2 3 4 5 6 7 8 9; do echo \"$message_id\" > \"changed-$n\"; done\n";

fn measure(bench: &Bench) -> Result<()> {
    let scale = bench.scale();
    let Place { _dir, runner } = bench.place("gc")?;
    SmallTree::build(runner.tree(), scale.gc_files, FILES_IN_DIRECTORY)?;
    let mut project = Project::create(&runner, &bench.options.decree, ROUTINE)?;
    let (mut done, mut medians, mut memory) = (0, Vec::new(), 0.0);
    for runs in scale.gc_runs {
        progress(&format!("gc: {} runs of {} files", runs, grouped(scale.gc_files as u64)));
        project.add_messages(runs - done)?;
        project.process(&[], runs - done)?;
        done = runs;
        settle_disk()?;
        let mut costs = Vec::new();
        for _ in 0..scale.rounds {
            costs.push(runner.measure(&project.command(&["checkpoint", "gc", "--dry-run"]))?.0);
        }
        medians.push(median_time(&costs));
        memory = peak_memory(&costs);
    }
    let what = format!("gc --dry-run, {} runs of {} files", scale.gc_runs[1], grouped(scale.gc_files as u64));
    bench.report(
        Row::new("gc", what, Seconds, medians[1], GOAL)
            .peer(format!("{} runs", scale.gc_runs[0]), medians[0])
            .note(format!("10 files change per run; peak memory {}", Bytes.format(memory))),
    );
    Ok(())
}
