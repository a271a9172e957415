//! Time and disk against the number of runs, in a small tree of which each run changes one file.
//!
//! The peer is a shadow git that makes two checkpoints for each of as many changes, and never collects garbage.

use std::fs;

use serde_json::{Value, json};

use super::runs::ROUTINE;
use super::{Bench, Group, Series};
use crate::support::Result;
use crate::support::contender::{Keeper, ShadowGit};
use crate::support::interrupt::progress;
use crate::support::measure::{Runner, median_time, settle_disk};
use crate::support::plot::{Line, Plot};
use crate::support::project::Project;
use crate::support::small_tree::{FILES_IN_DIRECTORY, SmallTree};
use crate::support::units::Unit::{self, Bytes, Count, Seconds};
use crate::support::units::grouped;

pub const GROUP: Group = Group {
    rows: &["growth-runs"],
    seconds: |scale| scale.run_counts.last().map_or(0.0, |runs| *runs as f64 * 0.08),
    measure,
    is_series: true,
};

const FILES: usize = 100;
/// At most so many messages are timed after each count.
const MOST_TIMED: usize = 50;

#[derive(Default)]
struct Point {
    runs: usize,
    message: f64,
    git: f64,
    status: f64,
    disk: f64,
    git_disk: f64,
    packs: usize,
}

/// A shadow git that has made two checkpoints for each of so many changes.
struct Peer {
    git: ShadowGit,
    runner: Runner,
    changes: usize,
}

fn measure(bench: &Bench) -> Result<()> {
    let (ours, theirs) = (bench.place("runs")?, bench.place("shadow")?);
    for place in [&ours, &theirs] {
        SmallTree::build(place.runner.tree(), FILES, FILES_IN_DIRECTORY)?;
    }
    let mut project = Project::create(&ours.runner, &bench.options.decree, ROUTINE)?;
    let mut peer =
        Peer { git: ShadowGit::new(theirs.runner.clone()), runner: theirs.runner.clone(), changes: 0 };
    peer.git.forget()?;
    let (mut done, mut points) = (0, Vec::new());
    let counts = bench.scale().run_counts;
    for (number, &runs) in counts.iter().enumerate() {
        progress(&format!("growth: {} runs", grouped(runs as u64)));
        project.add_messages(runs - done)?;
        project.process(&[], runs - done)?;
        peer.change_until(runs)?;
        let next = counts.get(number + 1).copied().unwrap_or(runs * 10);
        let timed = ((next - runs) / 2).clamp(2, MOST_TIMED);
        points.push(measure_point(&mut project, &ours.runner, &mut peer, runs, timed)?);
        done = runs + timed;
    }
    let plots = plots(&points);
    let points = points.iter().map(Point::to_json).collect();
    bench.report_series(Series { name: "growth-runs", points, plots });
    Ok(())
}

fn measure_point(
    project: &mut Project,
    runner: &Runner,
    peer: &mut Peer,
    runs: usize,
    timed: usize,
) -> Result<Point> {
    settle_disk()?;
    let mut point = Point { runs, packs: project.packs()?, ..Default::default() };
    point.disk = project.disk()?.allocated as f64;
    point.git_disk = peer.git.store_size()?.allocated as f64;
    let status = || Ok(runner.measure(&project.command(&["status"]))?.0);
    point.status = median_time(&(0..5).map(|_| status()).collect::<Result<Vec<_>>>()?);
    project.add_messages(timed)?;
    project.process(&[], timed)?;
    point.message = Project::time_per_message(&project.ticks()?);
    let mut costs = Vec::new();
    for _ in 0..timed.min(9) {
        let mut cost = peer.git.checkpoint()?;
        peer.change()?;
        cost += peer.git.checkpoint()?;
        costs.push(cost);
    }
    point.git = median_time(&costs);
    Ok(point)
}

impl Peer {
    /// Makes as many changes as are missing, each between two checkpoints.
    fn change_until(&mut self, changes: usize) -> Result<()> {
        while self.changes < changes {
            self.git.checkpoint()?;
            self.change()?;
            self.git.checkpoint()?;
        }
        Ok(())
    }

    fn change(&mut self) -> Result<()> {
        self.changes += 1;
        Ok(fs::write(self.runner.tree().join("changed"), format!("change {}\n", self.changes))?)
    }
}

impl Point {
    fn to_json(&self) -> Value {
        json!({
            "runs": self.runs,
            "message_seconds": self.message,
            "shadow_git_two_checkpoints_seconds": self.git,
            "status_seconds": self.status,
            "decree_disk_bytes": self.disk,
            "shadow_git_disk_bytes": self.git_disk,
            "packs": self.packs,
        })
    }
}

fn plots(points: &[Point]) -> Vec<Plot> {
    let line = |name: &str, figure: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        points: points.iter().map(|point| (point.runs as f64, figure(point))).collect(),
    };
    let plot = |file, title: &str, unit: Unit, lines| Plot {
        file,
        title: title.to_owned(),
        x_label: "runs in the project (100 files, 1 changed by each run)",
        unit,
        lines,
    };
    vec![
        plot(
            "runs-time",
            "Time by the number of earlier runs",
            Seconds,
            vec![
                line("decree: a message", |point| point.message),
                line("shadow git: two checkpoints", |point| point.git),
                line("decree status", |point| point.status),
            ],
        ),
        plot(
            "runs-disk",
            "Disk per run: all that is stored, divided by the number of runs",
            Bytes,
            vec![
                line("decree", |point| point.disk / point.runs as f64),
                line("shadow git", |point| point.git_disk / point.runs as f64),
            ],
        ),
        plot(
            "runs-packs",
            "Packs in decree's store",
            Count,
            vec![line("decree", |point| point.packs as f64)],
        ),
    ]
}
