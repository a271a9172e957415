//! What decree costs: its commands, with their defaults, against a shadow git, restic and `git stash -u`, in one run.
//!
//! ```text
//! cargo bench --locked --bench cost -- --full --json target/cost.json --plots docs/plots
//! ```
//!
//! Contenders take turns, so that whatever else the machine does falls on all of them. What a command did is checked outside
//! of the time that is taken: a wrong result fails the run. A slow one never does; the table only says whether a goal was met.
#![allow(clippy::disallowed_methods)] // nothing here has to survive a crash

mod rows;
mod support;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use rows::{Bench, GROUPS, Group, Series};
use serde_json::{Value, json};
use support::Result;
use support::interrupt::{self, progress};
use support::measure;
use support::options::{Options, USAGE};
use support::report::{self, Machine};
use support::results::Row;

fn main() -> ExitCode {
    let outcome = measure::run_as_wrapper().unwrap_or_else(run);
    outcome.unwrap_or_else(|error| {
        progress(&format!("error: {error}"));
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    let Some(mut options) = Options::parse(env::args_os().skip(1))? else {
        io::stdout().write_all(USAGE.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    if options.list {
        list(&options)?;
        return Ok(ExitCode::SUCCESS);
    }
    interrupt::install()?;
    let mut scratch = tempfile::Builder::new().prefix("decree-bench-").tempdir_in(&options.dir)?;
    if options.keep {
        scratch.disable_cleanup(true);
        progress(&format!("keeping everything in {}", scratch.path().display()));
    }
    if options.scale.name == "tiny" {
        // That is the test of the benchmark, so everything takes part.
        options.plots.get_or_insert(scratch.path().join("plots"));
        options.json.get_or_insert(scratch.path().join("rows.json"));
    }
    let machine = Machine::describe(scratch.path(), &options.decree);
    let bench = Bench::new(&options, scratch.path());
    let outcome = measure_groups(&bench);
    // What was measured before an error is worth reading too.
    write_results(&options, &machine, &bench.rows(), &bench.take_series())?;
    if interrupt::is_requested() {
        progress("removing what was built");
    }
    outcome.map(|()| ExitCode::SUCCESS)
}

fn selected(options: &Options) -> impl Iterator<Item = &'static Group> {
    GROUPS.iter().filter(|group| group.is_selected(options))
}

/// About how many minutes a group takes.
fn minutes(group: &Group, options: &Options) -> f64 {
    (group.seconds)(&options.scale) / 60.0
}

fn list(options: &Options) -> Result<()> {
    let mut out = io::stdout().lock();
    for group in GROUPS.iter().filter(|group| group.rows.iter().any(|row| options.selects(row))) {
        let only = if group.is_series { " (with --plots)" } else { "" };
        writeln!(out, "{:>5.1} min  {}{only}", minutes(group, options), group.rows.join(" "))?;
    }
    Ok(())
}

fn measure_groups(bench: &Bench) -> Result<()> {
    let total: f64 = selected(bench.options).map(|group| minutes(group, bench.options)).sum();
    let count = selected(bench.options).count();
    if count == 0 {
        return Err("--only names no row; --list has the names, and the series also need --plots".into());
    }
    progress(&format!("size {}, {count} groups, about {total:.0} minutes in all", bench.scale().name));
    let mut failed = Vec::new();
    for (number, group) in selected(bench.options).enumerate() {
        let (rows, minutes) = (group.rows.join(", "), minutes(group, bench.options));
        progress(&format!("group {} of {count}, about {minutes:.0} minutes: {rows}", number + 1));
        let measured = (group.measure)(bench);
        interrupt::check()?;
        // The other groups have projects of their own, and may have taken an hour.
        if let Err(error) = measured {
            progress(&format!("error: {error}"));
            failed.push(format!("{}: {error}", group.rows[0]));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("wrong results:\n{}", failed.join("\n")).into()) }
}

fn write_results(options: &Options, machine: &Machine, rows: &[Row], series: &[Series]) -> Result<()> {
    let mut out = io::stdout().lock();
    if !rows.is_empty() {
        writeln!(out, "\n{}", report::table(rows))?;
        writeln!(out, "Times are medians, memory is the largest of all rounds.\n")?;
    }
    let scale = &options.scale;
    writeln!(out, "{}{:<10} {}, {} rounds", machine.to_text(), "size", scale.name, scale.rounds)?;
    let header = json!({ "machine": machine.to_json(), "size": scale.name, "rounds": scale.rounds });
    if let Some(file) = &options.json {
        write_json(file, &header, "rows", rows.iter().map(Row::to_json).collect())?;
    }
    if let Some(directory) = &options.plots {
        fs::create_dir_all(directory)?;
        for Series { name, points, plots } in series {
            write_json(&directory.join(format!("{name}.json")), &header, "points", points.clone())?;
            for plot in plots {
                let svg = plot.to_svg(&machine.caption());
                fs::write(directory.join(format!("{}.svg", plot.file)), svg)?;
            }
        }
    }
    Ok(())
}

/// Writes what was measured, and where.
fn write_json(file: &Path, header: &Value, key: &str, content: Value) -> Result<()> {
    let mut document = header.clone();
    document[key] = content;
    Ok(fs::write(file, format!("{document:#}\n"))?)
}
