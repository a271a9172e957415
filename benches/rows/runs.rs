//! What a message, and `status`, cost after many runs; and a message in a store of many packs.

use std::ffi::OsString;
use std::fs;

use super::{Bench, Group, Place, in_turn};
use crate::support::Result;
use crate::support::contender::{Decree, Keeper};
use crate::support::interrupt::progress;
use crate::support::measure::{Runner, median_time, settle_disk};
use crate::support::project::Project;
use crate::support::results::{FLAT, Goal, Row};
use crate::support::small_tree::{FILES_IN_DIRECTORY, SmallTree};
use crate::support::units::Unit::Seconds;
use crate::support::units::grouped;

pub const RUNS: Group = Group {
    rows: &["runs", "status"],
    seconds: |scale| scale.runs as f64 * 0.06,
    measure: measure_runs,
    is_series: false,
};

pub const PACKS: Group = Group {
    rows: &["packs"],
    seconds: |scale| scale.packs as f64 * 0.06 + scale.window as f64 * 0.12,
    measure: measure_packs,
    is_series: false,
};

const FILES: usize = 100;
/// Ticks, and changes a file, so that every run adds a pack.
pub const ROUTINE: &str = "echo \"$EPOCHREALTIME\" >> \"$clock\"\necho \"$message_id\" > changed\n";

fn measure_runs(bench: &Bench) -> Result<()> {
    let scale = bench.scale();
    let Place { _dir, runner } = bench.place("runs")?;
    SmallTree::build(runner.tree(), FILES, FILES_IN_DIRECTORY)?;
    commit_tree(&runner)?;
    let mut project = Project::create(&runner, &bench.options.decree, ROUTINE)?;
    progress(&format!("{} runs in one project", grouped(scale.runs as u64)));
    project.add_messages(scale.runs)?;
    settle_disk()?;
    project.process(&[], scale.runs)?;
    let ticks = project.ticks()?;
    let first = Project::time_per_message(&ticks[..=scale.window]);
    let last = Project::time_per_message(&ticks[ticks.len() - scale.window - 1..]);
    let what = format!("per message, the last {} of {} runs", scale.window, grouped(scale.runs as u64));
    bench.report(
        Row::new("runs", what, Seconds, last, FLAT).peer(format!("the first {}", scale.window), first).note(
            format!("packs in the store after {} runs: {}", grouped(scale.runs as u64), project.packs()?),
        ),
    );
    measure_status(bench, &runner, &project)
}

/// `status` against `git log -1` in the tree's own repository.
fn measure_status(bench: &Bench, runner: &Runner, project: &Project) -> Result<()> {
    let git: Vec<OsString> = ["git", "log", "-1"].map(Into::into).to_vec();
    let mut pair = [(project.command(&["status"]), Vec::new()), (git, Vec::new())];
    let (_, answer) = runner.measure(&project.command(&["status", "--format", "json"]))?;
    let answer: serde_json::Value = serde_json::from_slice(&answer)?;
    if answer["runs"]["count"] != bench.scale().runs {
        return Err(format!("`status` counts {} runs", answer["runs"]["count"]).into());
    }
    for round in 0..bench.scale().rounds * 5 {
        for (command, costs) in in_turn(&mut pair, round) {
            costs.push(runner.measure(command)?.0);
        }
    }
    let [status, log] = pair.map(|(_, costs)| median_time(&costs));
    let what = format!("status, {} runs", grouped(bench.scale().runs as u64));
    bench.report(Row::new("status", what, Seconds, status, Goal::AtMost(3.0)).peer("git log -1", log));
    Ok(())
}

fn commit_tree(runner: &Runner) -> Result<()> {
    let identity = ["-c", "user.name=Benchmark", "-c", "user.email=benchmark@localhost"];
    for arguments in [&["init", "--quiet"][..], &["add", "-A"], &["commit", "--quiet", "-m", "Everything"]] {
        let command = [&["git"], &identity[..], arguments].concat();
        runner.prepare(&command.into_iter().map(OsString::from).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// A store does not get so many packs by itself, because decree merges small ones. An older version may have left them.
fn measure_packs(bench: &Bench) -> Result<()> {
    let scale = bench.scale();
    let fresh = bench.place("fresh")?;
    let full = bench.place("packs")?;
    let mut medians = Vec::new();
    let mut note = String::new();
    for (place, packs) in [(&fresh, 0), (&full, scale.packs)] {
        SmallTree::build(place.runner.tree(), FILES, FILES_IN_DIRECTORY)?;
        let mut project = Project::create(&place.runner, &bench.options.decree, ROUTINE)?;
        if packs > 0 {
            add_packs(bench, &project, packs)?;
        }
        settle_disk()?;
        project.add_messages(1)?;
        let (first, _) = project.process(&[], 1)?;
        let left = project.packs()?;
        project.add_messages(scale.window + 1)?;
        project.process(&[], scale.window + 1)?;
        medians.push(Project::time_per_message(&project.ticks()?));
        let first = Seconds.format(first.elapsed.as_secs_f64());
        note = format!(
            "the first message there took {first}, the start of decree included, and left {left} packs"
        );
    }
    let what = format!("per message, store given {} packs", grouped(scale.packs as u64));
    bench.report(
        Row::new("packs", what, Seconds, medians[1], FLAT).peer("fresh store", medians[0]).note(note),
    );
    Ok(())
}

/// Gives a project's store packs from checkpoints in another project.
fn add_packs(bench: &Bench, project: &Project, packs: usize) -> Result<()> {
    progress(&format!("making {} packs", grouped(packs as u64)));
    let donor = bench.place("donor")?;
    fs::create_dir_all(donor.runner.tree())?;
    let mut decree = Decree::new(donor.runner.clone(), bench.options.decree.clone());
    let (from, to) = (donor.runner.tree().join(".decree/store"), project.directory().join("store"));
    fs::create_dir_all(&to)?;
    decree.forget()?;
    for number in 0..packs {
        fs::write(donor.runner.tree().join("file"), format!("pack {number}\n"))?;
        decree.checkpoint()?;
        for entry in fs::read_dir(&from)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "pack") {
                fs::rename(&path, to.join(path.file_name().expect("a pack has a name")))?;
            }
        }
        fs::remove_dir_all(&from)?;
    }
    let found = project.packs()?;
    if found != packs {
        return Err(format!("the store has {found} packs instead of {packs}").into());
    }
    Ok(())
}
