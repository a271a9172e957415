//! What a message costs besides its routine, on a large tree that decree knows already.
//!
//! Each round processes a spec whose routine does nothing, one whose routine changes three files and is kept, and one that
//! fails and is reverted. The routine's own time is subtracted. All specs are there from the start, so that the first finds
//! an unchanged tree. The peer is a shadow git's bookkeeping for the same: a checkpoint before and one after.

use std::fs;
use std::path::Path;

use super::Bench;
use crate::support::Result;
use crate::support::contender::{DiskSize, Reverter};
use crate::support::interrupt::progress;
use crate::support::measure::{Cost, Runner, median, median_time, settle_disk};
use crate::support::project::Project;
use crate::support::results::{Goal, Row};
use crate::support::units::Unit::{Bytes, Seconds};

/// Does nothing, or changes three files: one new, one rewritten, one removed; fails if its spec says so.
const ROUTINE: &str = "\
case \"$spec_file\" in *nothing*) exit 0 ;; esac
echo \"$message_id\" > bench-new
echo \"$message_id\" > bench-changed
rm -f bench-removed
case \"$spec_file\" in *fails*) exit 1 ;; esac
";

/// What the routine does, by the spec's name, and the verdict.
const KINDS: [(&str, &str); 3] =
    [("nothing", "no-change"), ("changes", "success"), ("fails", "failed-reverted")];

/// Writes the specs of all rounds, and the files that the routine changes.
pub fn write_specs(root: &Path, rounds: usize) -> Result<()> {
    fs::create_dir_all(root.join("specs"))?;
    for round in 0..=rounds {
        for (kind, _) in KINDS {
            fs::write(root.join(format!("specs/{round:02}-{kind}.spec.md")), "# Bench\n")?;
        }
    }
    for file in ["bench-changed", "bench-removed"] {
        fs::write(root.join(file), "before\n")?;
    }
    Ok(())
}

#[derive(Default)]
struct Measured {
    /// Of each kind.
    costs: [Vec<Cost>; 3],
    added: Vec<DiskSize>,
    /// A shadow git's two checkpoints, and with the diff between.
    checkpoints: Vec<Cost>,
    with_diff: Vec<Cost>,
}

pub fn measure(bench: &Bench, runner: &Runner, git: &mut dyn Reverter) -> Result<()> {
    let project = Project::create(runner, &bench.options.decree, ROUTINE)?;
    let mut measured = Measured::default();
    // The first one finds files that a revert has written anew.
    git.checkpoint()?;
    process(&project, runner.tree(), 0, 0)?;
    for round in 1..=bench.scale().rounds {
        progress(&format!("source tree: messages that change nothing, round {round}"));
        settle_disk()?;
        let mut two = git.checkpoint()?;
        two += git.checkpoint()?;
        measured.checkpoints.push(two);
        let before = project.disk()?;
        settle_disk()?;
        measured.costs[0].push(process(&project, runner.tree(), round, 0)?);
        measured.added.push(project.disk()?.since(before));
    }
    for round in 1..=bench.scale().rounds {
        progress(&format!("source tree: messages that change 3 files, round {round}"));
        for kind in 1..KINDS.len() {
            settle_disk()?;
            measured.costs[kind].push(process(&project, runner.tree(), round, kind)?);
        }
        git.checkpoint()?;
        settle_disk()?;
        let mut both = git.checkpoint()?;
        fs::write(runner.tree().join("bench-new"), format!("round {round}\n"))?;
        both += git.diff(&runner.scratch().join("shadow.diff"))?;
        measured.with_diff.push(both);
    }
    report(bench, &measured);
    Ok(())
}

/// Processes one spec; what it took, without the routine.
fn process(project: &Project, root: &Path, round: usize, kind: usize) -> Result<Cost> {
    let (name, verdict) = KINDS[kind];
    let spec = format!("{round:02}-{name}");
    if kind > 0 {
        fs::write(root.join("bench-removed"), "before\n")?;
    }
    let (mut cost, summary) = project.process_any(&["--spec", &spec])?;
    let found = summary["messages"][0]["verdict"].as_str().unwrap_or_default();
    if found != verdict {
        return Err(format!("{spec} ended as '{found}' instead of '{verdict}'").into());
    }
    let is_there = root.join("bench-removed").exists();
    if kind > 0 && is_there != (verdict == "failed-reverted") {
        return Err(format!("{spec} left the tree in the wrong state").into());
    }
    cost.elapsed = cost.elapsed.saturating_sub(Project::routine_time(&summary)?);
    Ok(cost)
}

fn report(bench: &Bench, measured: &Measured) {
    let [nothing, kept, reverted] = measured.costs.each_ref().map(|costs| median_time(costs));
    let row = |name, what, figure, goal| Row::new(name, what, Seconds, figure, goal);
    let two = median_time(&measured.checkpoints);
    bench.report(
        row("message", "message, nothing changed", nothing, Goal::Times(2.0))
            .peer("2 shadow-git checkpoints", two),
    );
    let added =
        |figure: fn(&DiskSize) -> u64| median(measured.added.iter().map(|it| figure(it) as f64).collect());
    let limit = Goal::Below(64.0 * 1024.0);
    let bytes = |name, what, figure, goal| Row::new(name, what, Bytes, figure, goal);
    bench.report(bytes("message-bytes", "  added to .decree/", added(|it| it.apparent), limit));
    bench.report(bytes(
        "message-allocated",
        "  the same, in disk blocks",
        added(|it| it.allocated),
        Goal::None,
    ));
    let both = median_time(&measured.with_diff);
    let peer = "2 checkpoints and a diff";
    bench.report(row("message-kept", "message, 3 files changed", kept, Goal::None).peer(peer, both));
    bench.report(
        row("message-reverted", "the same, failed and reverted", reverted, Goal::None).peer(peer, both),
    );
}
