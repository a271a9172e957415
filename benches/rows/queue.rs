//! The time per message while many messages wait.
//!
//! decree is stopped once enough messages are processed; the time per message is that between two of them, so the start of
//! decree is not in it.

use super::{Bench, Group, Place, in_turn};
use crate::support::Result;
use crate::support::interrupt::progress;
use crate::support::measure::{median, settle_disk};
use crate::support::project::Project;
use crate::support::results::{FLAT, Row};
use crate::support::small_tree::{FILES_IN_DIRECTORY, SmallTree};
use crate::support::units::Unit::Seconds;
use crate::support::units::grouped;

pub const GROUP: Group = Group {
    rows: &["waiting"],
    seconds: |scale| (scale.rounds * scale.timed) as f64 * (0.08 + 4e-6 * scale.waiting[1] as f64),
    measure,
    is_series: false,
};

const FILES: usize = 100;
/// The clock ticks at the start of the routine.
const ROUTINE: &str = "echo \"$EPOCHREALTIME\" >> \"$clock\"\n";

struct Queue {
    project: Project,
    waiting: usize,
    seconds: Vec<f64>,
    _place: Place,
}

fn measure(bench: &Bench) -> Result<()> {
    let scale = bench.scale();
    let mut queues = Vec::new();
    for waiting in scale.waiting {
        let place = bench.place("queue")?;
        SmallTree::build(place.runner.tree(), FILES, FILES_IN_DIRECTORY)?;
        let project = Project::create(&place.runner, &bench.options.decree, ROUTINE)?;
        queues.push(Queue { project, waiting, seconds: Vec::new(), _place: place });
    }
    for round in 0..scale.rounds {
        for queue in in_turn(&mut queues, round) {
            progress(&format!("{} messages wait, round {}", grouped(queue.waiting as u64), round + 1));
            queue.measure(scale.timed)?;
        }
    }
    let [few, many] = [&queues[0], &queues[1]].map(|queue| median(queue.seconds.clone()));
    let what = format!("per message, {} waiting", grouped(scale.waiting[1] as u64));
    let peer = format!("{} waiting", grouped(scale.waiting[0] as u64));
    bench.report(Row::new("waiting", what, Seconds, many, FLAT).peer(peer, few));
    Ok(())
}

impl Queue {
    /// Processes some of the messages.
    fn measure(&mut self, timed: usize) -> Result<()> {
        let missing = self.waiting - self.project.waiting()?;
        self.project.add_messages(missing)?;
        settle_disk()?;
        let mut decree = self.project.start(timed)?;
        Project::stop(&mut decree)?;
        let ticks = self.project.ticks()?;
        // The first messages find nothing in any cache.
        let warm = timed / 6;
        self.seconds.push((ticks[timed - 1] - ticks[warm]) / (timed - 1 - warm) as f64);
        // The run that was interrupted waits again.
        let processed = self.waiting - self.project.waiting()?;
        if processed == ticks.len() || processed + 1 == ticks.len() {
            return Ok(());
        }
        Err(format!("{processed} messages are gone, and {} routines ran", ticks.len()).into())
    }
}
