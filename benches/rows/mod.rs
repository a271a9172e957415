//! What is measured: a group is a project and the rows that are measured in it.

mod gc;
mod growth_files;
mod growth_runs;
mod kernel;
mod large;
mod messages;
mod queue;
mod runs;
mod signal;
mod sparse;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::support::Result;
use super::support::interrupt::progress;
use super::support::measure::Runner;
use super::support::options::Options;
use super::support::plot::Plot;
use super::support::results::Row;
use super::support::scale::Scale;

/// Rows that share a project.
pub struct Group {
    pub rows: &'static [&'static str],
    /// How many seconds it takes, about, on two cores.
    pub seconds: fn(&Scale) -> f64,
    pub measure: fn(&Bench) -> Result<()>,
    /// Whether it is measured only for plots.
    pub is_series: bool,
}

/// In the order in which they are measured: what takes longest comes last.
pub const GROUPS: &[Group] = &[
    kernel::GROUP,
    large::FLAT,
    queue::GROUP,
    runs::RUNS,
    runs::PACKS,
    gc::GROUP,
    signal::GROUP,
    sparse::GROUP,
    large::HALF_MILLION,
    large::MILLION,
    growth_runs::GROUP,
    growth_files::GROUP,
];

impl Group {
    pub fn is_selected(&self, options: &Options) -> bool {
        (!self.is_series || options.plots.is_some()) && self.rows.iter().any(|row| options.selects(row))
    }
}

/// One run of the benchmark.
pub struct Bench<'o> {
    pub options: &'o Options,
    scratch: PathBuf,
    rows: RefCell<Vec<Row>>,
    series: RefCell<Vec<Series>>,
}

/// The points of a growth series, and their plots.
pub struct Series {
    pub name: &'static str,
    pub points: Value,
    pub plots: Vec<Plot>,
}

impl<'o> Bench<'o> {
    pub fn new(options: &'o Options, scratch: &Path) -> Self {
        let (rows, series) = Default::default();
        Self { options, scratch: scratch.to_owned(), rows, series }
    }

    pub fn scale(&self) -> &'o Scale {
        &self.options.scale
    }

    pub fn selects(&self, row: &str) -> bool {
        self.options.selects(row)
    }

    /// A place for a group's project, which goes when it is dropped.
    pub fn place(&self, name: &str) -> Result<Place> {
        let mut dir = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(&self.scratch)?;
        dir.disable_cleanup(self.options.keep);
        let runner = Runner::new(&dir.path().join("tree"), dir.path())?;
        Ok(Place { _dir: dir, runner })
    }

    /// Adds a row to the table, unless only others are selected.
    pub fn report(&self, row: Row) {
        if self.selects(row.name) {
            let met = row.is_met().map_or("no goal", |met| if met { "goal met" } else { "goal NOT met" });
            let figures = [row.unit.format(row.decree), row.ratio_text(), met.to_owned()];
            let figures: Vec<_> = figures.into_iter().filter(|figure| !figure.is_empty()).collect();
            progress(&format!("  {}: {}", row.name, figures.join("; ")));
            self.rows.borrow_mut().push(row);
        }
    }

    pub fn report_series(&self, series: Series) {
        self.series.borrow_mut().push(series);
    }

    /// The rows that were measured, in the order of the groups.
    pub fn rows(&self) -> Vec<Row> {
        let names: Vec<&str> = GROUPS.iter().flat_map(|group| group.rows).copied().collect();
        let mut rows = self.rows.borrow().clone();
        rows.sort_by_key(|row| names.iter().position(|name| *name == row.name));
        rows
    }

    pub fn take_series(&self) -> Vec<Series> {
        self.series.take()
    }
}

/// A directory for one project and what belongs to it.
pub struct Place {
    _dir: TempDir,
    pub runner: Runner,
}

/// Two contenders or more, with another one first in every round.
pub fn in_turn<T>(contenders: &mut [T], round: usize) -> impl Iterator<Item = &mut T> {
    let (later, first) = contenders.split_at_mut(round % contenders.len());
    first.iter_mut().chain(later)
}
