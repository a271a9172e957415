//! SIGTERM to `decree process` while its routine runs: how long until the tree is reverted and decree has exited.

use std::time::Instant;

use super::{Bench, Group, Place};
use crate::support::Result;
use crate::support::edit::Listing;
use crate::support::interrupt::progress;
use crate::support::measure::{median, settle_disk};
use crate::support::project::Project;
use crate::support::results::{Goal, Row};
use crate::support::small_tree::{FILES_IN_DIRECTORY, SmallTree};
use crate::support::units::Unit::Seconds;
use crate::support::units::grouped;

pub const GROUP: Group = Group {
    rows: &["signal"],
    seconds: |scale| (scale.rounds * scale.signal_files) as f64 * 0.0006,
    measure,
    is_series: false,
};

/// Appends a line to every file, then ticks and works on without end.
const ROUTINE: &str = "\
find part* -type f -print0 | while IFS= read -r -d '' file; do echo '/* changed */' >> \"$file\"; done
echo \"$EPOCHREALTIME\" >> \"$clock\"
exec sleep 1000000
";

fn measure(bench: &Bench) -> Result<()> {
    let scale = bench.scale();
    let Place { _dir, runner } = bench.place("signal")?;
    let tree = SmallTree::build(runner.tree(), scale.signal_files, FILES_IN_DIRECTORY)?;
    let mut project = Project::create(&runner, &bench.options.decree, ROUTINE)?;
    project.add_messages(1)?;
    let before = Listing::of(tree.root())?;
    let mut seconds = Vec::new();
    for round in 0..scale.rounds {
        progress(&format!("signal: {} files changed, round {}", grouped(tree.len() as u64), round + 1));
        settle_disk()?;
        let mut decree = project.start(1)?;
        let start = Instant::now();
        Project::stop(&mut decree)?;
        seconds.push(start.elapsed().as_secs_f64());
        before.check_same(&Listing::of(tree.root())?)?;
        tree.check_content(tree.len())?;
        if project.waiting()? != 1 {
            return Err("the message of the interrupted run does not wait any more".into());
        }
    }
    let what = format!("SIGTERM after {} files changed, until exit", grouped(tree.len() as u64));
    bench.report(Row::new("signal", what, Seconds, median(seconds), Goal::Below(7.5)));
    Ok(())
}
