//! The one table that a run prints, and what the reader must know to judge it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use super::results::Row;

/// The table, aligned, and the notes below it.
pub fn table(rows: &[Row]) -> String {
    let header = ["row", "what", "decree", "peer", "", "ratio", "goal", "met?", "others"];
    let mut lines = vec![header.map(String::from)];
    lines.extend(rows.iter().map(cells));
    let mut text = align(&lines);
    for (row, note) in rows.iter().filter_map(|row| Some((row, row.note.as_ref()?))) {
        let _ = write!(text, "\n{}: {note}", row.name);
    }
    text
}

fn cells(row: &Row) -> [String; 9] {
    let (peer, figure) = match &row.peer {
        Some((name, figure)) => (name.clone(), row.unit.format(*figure)),
        None => Default::default(),
    };
    let others: Vec<String> =
        row.others.iter().map(|(name, figure)| format!("{name} {}", row.unit.format(*figure))).collect();
    [
        row.name.to_owned(),
        row.what.clone(),
        row.unit.format(row.decree),
        figure,
        peer,
        row.ratio_text(),
        row.goal_text(),
        row.is_met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        others.join(", "),
    ]
}

/// Words to the left, numbers to the right.
fn align<const N: usize>(lines: &[[String; N]]) -> String {
    const NUMBERS: [usize; 3] = [2, 3, 5];
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            let _ = if NUMBERS.contains(&column) {
                write!(text, "{cell:>width$}  ")
            } else {
                write!(text, "{cell:<width$}  ")
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The machine and the tools.
pub struct Machine(Vec<(&'static str, String)>);

impl Machine {
    /// This machine, with the file system of the directory.
    pub fn describe(directory: &Path, decree: &Path) -> Self {
        let cores = thread::available_parallelism().map_or("?".into(), |cores| cores.to_string());
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split_whitespace().take(3).collect();
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let version = |program: &str, option| first_line(Command::new(program).arg(option));
        Self(vec![
            ("processor", cpu.map_or("?", |(_, name)| name.trim()).to_owned()),
            ("cores", cores),
            ("kernel", first_line(Command::new("uname").arg("-srm"))),
            ("load", load.join(" ")),
            ("disk", first_line(Command::new("findmnt").args(["-no", "FSTYPE", "-T"]).arg(directory))),
            ("decree", first_line(Command::new(decree).arg("--version"))),
            ("git", version("git", "--version")),
            ("restic", version("restic", "version")),
        ])
    }

    pub fn to_text(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
    }

    /// What matters most, for below a plot.
    pub fn caption(&self) -> String {
        let value = |name| self.0.iter().find(|(found, _)| *found == name).map_or("?", |(_, value)| value);
        format!("{} cores, {}, {}", value("cores"), value("processor"), value("disk"))
    }

    pub fn to_json(&self) -> Value {
        self.0.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
    }
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or("-").to_owned()
}
