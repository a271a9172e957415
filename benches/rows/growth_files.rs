//! Time, memory and disk against the size of the tree: small files, in directories of 100.
//!
//! `git stash` stores nothing of an unchanged tree, so its later checkpoint is of a committed tree in which one file in a
//! hundred is edited; that of the others is of the unchanged tree. It comes last, because it writes the tree anew.

use serde_json::{Value, json};

use super::{Bench, Group, Place, Series, in_turn};
use crate::support::Result;
use crate::support::contender::{Decree, DiskSize, Keeper, ShadowGit};
use crate::support::interrupt::progress;
use crate::support::measure::{Cost, median_time, pass_second, peak_memory, settle_disk};
use crate::support::plot::{Line, Plot};
use crate::support::restic::Restic;
use crate::support::small_tree::{FILES_IN_DIRECTORY, SmallTree};
use crate::support::stash::GitStash;
use crate::support::units::Unit::{Bytes, Seconds};
use crate::support::units::grouped;

pub const GROUP: Group = Group {
    rows: &["growth-files"],
    seconds: |scale| {
        let time = |&size: &usize| size as f64 * (0.0015 + 0.0006 * scale.first_rounds(size) as f64);
        scale.tree_sizes.iter().map(time).sum()
    },
    measure,
    is_series: true,
};

/// How many files are read again after a stash.
const FILES_TO_CHECK: usize = 10_000;

/// One contender at one size.
struct Entrant {
    tool: Box<dyn Keeper>,
    first: Vec<Cost>,
    later: Vec<Cost>,
    disk: DiskSize,
}

impl Entrant {
    fn new(tool: impl Keeper + 'static) -> Self {
        Self { tool: Box::new(tool), first: Vec::new(), later: Vec::new(), disk: DiskSize::default() }
    }
}

/// A point of the series.
struct Point {
    name: &'static str,
    files: usize,
    first: f64,
    later: f64,
    memory: f64,
    disk: f64,
}

fn measure(bench: &Bench) -> Result<()> {
    let mut points = Vec::new();
    let outcome = bench.scale().tree_sizes.iter().try_for_each(|&size| {
        points.extend(measure_size(bench, size)?);
        Ok(())
    });
    // The points before an error are worth seeing too.
    bench.report_series(Series {
        name: "growth-files",
        points: points.iter().map(Point::to_json).collect(),
        plots: vec![
            plot("files-first", "First checkpoint", Seconds, &points, |point| point.first),
            plot(
                "files-unchanged",
                "Checkpoint of the unchanged tree (git stash: 1 % changed)",
                Seconds,
                &points,
                |point| point.later,
            ),
            plot("files-memory", "Peak memory of a checkpoint", Bytes, &points, |point| point.memory),
            plot("files-disk", "Store after the first checkpoint, on disk", Bytes, &points, |point| {
                point.disk
            }),
        ],
    });
    outcome
}

fn measure_size(bench: &Bench, size: usize) -> Result<Vec<Point>> {
    let scale = bench.scale();
    let Place { _dir, runner } = bench.place("growth")?;
    progress(&format!("growth: building a tree of {} small files", grouped(size as u64)));
    let tree = SmallTree::build(runner.tree(), size, FILES_IN_DIRECTORY)?;
    pass_second()?;
    let decree = Decree::new(runner.clone(), bench.options.decree.clone());
    let mut entrants = vec![Entrant::new(decree), Entrant::new(ShadowGit::new(runner.clone()))];
    entrants.extend(Restic::find(runner.clone()).map(Entrant::new));
    for round in 0..scale.first_rounds(size) {
        for entrant in in_turn(&mut entrants, round) {
            progress(&format!("growth: {} files, first, {}", grouped(size as u64), entrant.tool.name()));
            entrant.tool.forget()?;
            settle_disk()?;
            entrant.first.push(entrant.tool.checkpoint()?);
        }
    }
    settle_disk()?;
    for entrant in &mut entrants {
        entrant.disk = entrant.tool.store_size()?;
    }
    for round in 0..scale.first_rounds(size).max(scale.rounds.min(3)) {
        for entrant in in_turn(&mut entrants, round) {
            progress(&format!("growth: {} files, unchanged, {}", grouped(size as u64), entrant.tool.name()));
            settle_disk()?;
            entrant.later.push(entrant.tool.checkpoint()?);
        }
    }
    for entrant in &mut entrants {
        if let Some(tool) = entrant.tool.as_reverter() {
            tree.check_reverts(tool)?;
        }
    }
    entrants.push(measure_stash(GitStash::new(runner.clone()), &tree)?);
    Ok(entrants.iter().map(|entrant| Point::of(entrant, size)).collect())
}

fn measure_stash(mut stash: GitStash, tree: &SmallTree) -> Result<Entrant> {
    progress(&format!("growth: {} files, git stash", grouped(tree.len() as u64)));
    stash.forget()?;
    settle_disk()?;
    let first = stash.checkpoint()?;
    let disk = stash.store_size()?;
    tree.check_content(FILES_TO_CHECK).map_err(|error| format!("git stash: {error}"))?;
    stash.commit()?;
    tree.edit_one_percent()?;
    settle_disk()?;
    let later = stash.checkpoint()?;
    Ok(Entrant { tool: Box::new(stash), first: vec![first], later: vec![later], disk })
}

impl Point {
    fn of(entrant: &Entrant, files: usize) -> Self {
        Self {
            name: entrant.tool.name(),
            files,
            first: median_time(&entrant.first),
            later: median_time(&entrant.later),
            memory: peak_memory(&entrant.first).max(peak_memory(&entrant.later)),
            disk: entrant.disk.allocated as f64,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "contender": self.name,
            "files": self.files,
            "first_seconds": self.first,
            "unchanged_seconds": self.later,
            "peak_memory_bytes": self.memory,
            "disk_bytes": self.disk,
        })
    }
}

fn plot(
    file: &'static str,
    title: &str,
    unit: crate::support::units::Unit,
    points: &[Point],
    figure: fn(&Point) -> f64,
) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    for point in points {
        let place = (point.files as f64, figure(point));
        match lines.iter_mut().find(|line| line.name == point.name) {
            Some(line) => line.points.push(place),
            None => lines.push(Line { name: point.name.to_owned(), points: vec![place] }),
        }
    }
    Plot { file, title: title.to_owned(), x_label: "files of about 1 KB", unit, lines }
}
