//! The one table that a run prints, and what the reader must know to judge it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use super::contender::DiskSize;
use super::measure::Cost;

/// decree may use this much memory, whatever the size of the tree.
const MEMORY_GOAL: f64 = 200.0 * MIB;
const MIB: f64 = 1024.0 * 1024.0;

/// All that was measured of one contender. A phase that was not run is empty.
#[derive(Debug, Default)]
pub struct Measured {
    pub first: Vec<Cost>,
    pub unchanged: Vec<Cost>,
    pub diff: Vec<Cost>,
    pub revert: Vec<Cost>,
    pub store: Option<DiskSize>,
    pub total: Option<DiskSize>,
    pub diff_bytes: Option<u64>,
}

#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Mebibytes,
}

#[derive(Clone, Copy)]
enum Goal {
    None,
    /// The shadow git's number divided by decree's.
    Ratio(f64),
    /// A bound on decree's number alone.
    Below(f64),
}

/// One line of the table: what to take of every contender, and what is asked of decree.
struct Row {
    what: &'static str,
    unit: Unit,
    goal: Goal,
    value: fn(&Measured) -> Option<f64>,
}

const fn row(what: &'static str, unit: Unit, goal: Goal, value: fn(&Measured) -> Option<f64>) -> Row {
    Row { what, unit, goal, value }
}

const ROWS: &[Row] = &[
    row("first checkpoint", Unit::Seconds, Goal::Ratio(8.0), |m| median(&m.first)),
    row("checkpoint, tree unchanged", Unit::Seconds, Goal::Ratio(1.0), |m| median(&m.unchanged)),
    row("compare and write the diff", Unit::Seconds, Goal::Ratio(1.0), |m| median(&m.diff)),
    row("revert, verified", Unit::Seconds, Goal::Ratio(1.0), |m| median(&m.revert)),
    row("store, allocated", Unit::Mebibytes, Goal::Ratio(1.0), |m| allocated(m.store)),
    row("store, apparent", Unit::Mebibytes, Goal::Ratio(1.0), |m| apparent(m.store)),
    row("store and manifests, allocated", Unit::Mebibytes, Goal::Ratio(1.0), |m| allocated(m.total)),
    row("store and manifests, apparent", Unit::Mebibytes, Goal::Ratio(1.0), |m| apparent(m.total)),
    row("diff written", Unit::Mebibytes, Goal::None, |m| m.diff_bytes.map(|bytes| bytes as f64)),
    row("peak memory, first", Unit::Mebibytes, Goal::Below(MEMORY_GOAL), |m| peak(&m.first)),
    row("peak memory, unchanged", Unit::Mebibytes, Goal::Below(MEMORY_GOAL), |m| peak(&m.unchanged)),
    row("peak memory, diff", Unit::Mebibytes, Goal::Below(MEMORY_GOAL), |m| peak(&m.diff)),
    row("peak memory, revert", Unit::Mebibytes, Goal::Below(MEMORY_GOAL), |m| peak(&m.revert)),
];

/// The table, aligned, with a column for restic only where it took part.
pub fn table(decree: &Measured, git: &Measured, restic: Option<&Measured>) -> String {
    let mut header = vec!["what", "decree", "shadow git", "ratio", "goal", "met?"];
    header.extend(restic.map(|_| "restic"));
    let mut lines = vec![header.into_iter().map(String::from).collect()];
    lines.extend(ROWS.iter().map(|row| row.cells(decree, git, restic)));
    align(&lines)
}

impl Row {
    fn cells(&self, decree: &Measured, git: &Measured, restic: Option<&Measured>) -> Vec<String> {
        let ours = (self.value)(decree);
        let theirs = (self.value)(git);
        let ratio = ours.zip(theirs).map(|(ours, theirs)| theirs / ours);
        let (goal, met) = match self.goal {
            Goal::None => (String::new(), None),
            Goal::Ratio(least) => (format!(">= {least:.0}x"), ratio.map(|ratio| ratio >= least)),
            Goal::Below(most) => (format!("< {}", self.unit.format(most)), ours.map(|ours| ours < most)),
        };
        let format = |value: Option<f64>| value.map_or("-".into(), |value| self.unit.format(value));
        let mut cells = vec![
            self.what.to_owned(),
            format(ours),
            format(theirs),
            ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x")),
            goal,
            met.map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        ];
        cells.extend(restic.map(|restic| format((self.value)(restic))));
        cells
    }
}

impl Unit {
    fn format(self, value: f64) -> String {
        match self {
            Self::Seconds => format!("{value:.3} s"),
            Self::Mebibytes => format!("{:.1} MiB", value / MIB),
        }
    }
}

fn median(costs: &[Cost]) -> Option<f64> {
    let mut seconds: Vec<f64> = costs.iter().map(|cost| cost.elapsed.as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

fn peak(costs: &[Cost]) -> Option<f64> {
    costs.iter().map(|cost| cost.peak_memory).max().map(|bytes| bytes as f64)
}

fn allocated(size: Option<DiskSize>) -> Option<f64> {
    size.map(|size| size.allocated as f64)
}

fn apparent(size: Option<DiskSize>) -> Option<f64> {
    size.map(|size| size.apparent as f64)
}

/// Names to the left, numbers to the right.
fn align(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        for (column, cell) in line.iter().enumerate() {
            let width = width(column);
            match column {
                0 => _ = write!(text, "{cell:<width$}"),
                _ => _ = write!(text, "  {cell:>width$}"),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The machine and the tools, a line each.
pub fn machine(directory: &Path) -> String {
    let cores = thread::available_parallelism().map_or("?".into(), |cores| cores.to_string());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    let file_system = first_line(Command::new("findmnt").args(["-no", "FSTYPE", "-T"]).arg(directory));
    let git = first_line(Command::new("git").arg("--version"));
    format!(
        "cores     {cores}\nkernel    {}\nload      {}\ndisk      {file_system}\ngit       {}\n",
        first_line(Command::new("uname").arg("-srm")),
        load.join(" "),
        git.trim_start_matches("git version "),
    )
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or("?").to_owned()
}
