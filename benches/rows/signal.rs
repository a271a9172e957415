//! SIGTERM to `decree process` while its routine runs: how long until the tree is reverted and decree has exited.
//!
//! Each round has a tree of its own, as each job of a CI has, and none is deleted before the last round: for some minutes ext4 is slow to
//! create files where many were deleted, so a second round in the same tree would measure what the first one left.

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
    let what = format!("{} files changed", grouped(scale.signal_files as u64));
    let places: Vec<Place> = (0..scale.rounds).map(|_| bench.place("signal")).collect::<Result<_>>()?;
    let mut seconds = Vec::new();
    for (place, round) in places.iter().zip(1..) {
        progress(&format!("signal: {what}, round {round}"));
        let tree = SmallTree::build(place.runner.tree(), scale.signal_files, FILES_IN_DIRECTORY)?;
        let mut project = Project::create(&place.runner, &bench.options.decree, ROUTINE)?;
        project.add_messages(1)?;
        let before = Listing::of(tree.root())?;
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
    let what = format!("SIGTERM after {what}, until exit");
    bench.report(Row::new("signal", what, Seconds, median(seconds), Goal::Below(7.5)));
    Ok(())
}
