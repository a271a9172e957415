//! Runs whose work leaves the tree with a rollback, or comes back with one.

use super::pipeline_project::{PipelineProject, assert_has};
use crate::killed::{has_strace, kill_before};
use crate::rollback::contract::assert_valid;

/// Two kept runs on top of a checkpoint; the second one changes what the first one left, too.
fn two_runs() -> (PipelineProject, String) {
    let project = PipelineProject::with(
        "echo \"$spec_file\" >>work.txt; echo \"$spec_file\" >\"$(basename $spec_file).out\"",
    );
    project.spec("01-a", "# A\n").spec("02-b", "# B\n");
    let checkpoint = project.checkpoint();
    project.process().ok();
    assert_eq!(project.tracker().len(), 2);
    (project, checkpoint)
}

fn is_reverted(project: &PipelineProject, id: &str) -> bool {
    project.result(id)["put_back"].is_object()
}

fn saved(words: &str) -> String {
    words.split('`').find_map(|word| word.strip_prefix("decree rollback ")).unwrap().to_owned()
}

/// RBK-32.
#[test]
fn a_dry_run_names_the_specs_that_would_leave_the_tracker() {
    let (project, checkpoint) = two_runs();
    let runs = |more: &[&str]| {
        let args = [&["rollback", &checkpoint, "--format", "json"][..], more].concat();
        let answer: serde_json::Value = serde_json::from_slice(&project.decree(args).ok().out).unwrap();
        assert_valid(&answer, "rollback");
        answer["runs"].clone()
    };
    let dry = runs(&["--dry-run"]);
    assert_eq!(project.tracker().len(), 2, "a dry run changes nothing");
    assert_eq!(dry[0]["spec"], "01-a.spec.md");
    assert_eq!(dry, runs(&[]));
}

/// RBK-32.
#[test]
fn a_rollback_past_kept_runs_reverts_them_and_going_forward_keeps_them_again() {
    for verb in ["rollback", "revert"] {
        let (project, checkpoint) = two_runs();
        let after = project.snapshot();
        let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
        let back = project.decree([verb, &checkpoint]).ok();
        assert_has(
            &back.err,
            &[
                &format!("the work of run {first} is no longer in the tree"),
                &format!("the work of run {second} is no longer in the tree"),
                "removed 01-a.spec.md from the tracker",
            ],
        );
        assert!(
            project.tracker().is_empty() && is_reverted(&project, &first) && is_reverted(&project, &second)
        );
        let status = project.decree(["status"]).ok();
        assert!(!status.text().contains("2 kept"), "{}", status.text());
        project.decree(["revert", &second]).ok().mentions(&["already reverted"]);
        // Forward again.
        let forward = project.decree(["rollback", &saved(&back.err)]).ok();
        assert_has(
            &forward.err,
            &[
                &format!("the work of run {first} is in the tree again"),
                "02-b.spec.md is on the tracker again",
            ],
        );
        crate::harness::assert_same(&project.snapshot(), &after);
        assert_eq!(project.tracker().len(), 2);
        assert!(!is_reverted(&project, &first) && !is_reverted(&project, &second));
        project.decree(["revert", &second]).ok().mentions(&["reverted 2 paths"]);
    }
}

/// RBK-32.
#[test]
fn a_rollback_names_the_runs_in_its_dry_run_and_to_programs() {
    let (project, checkpoint) = two_runs();
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    project
        .decree(["rollback", &checkpoint, "--dry-run"])
        .ok()
        .mentions(&[&format!("the work of run {first} would be no longer in the tree")]);
    assert!(!is_reverted(&project, &first) && project.tracker().len() == 2);
    // A part of a run's work.
    project
        .decree(["rollback", &checkpoint, "--scope", "work.txt"])
        .ok()
        .mentions(&[&format!("a part of the work of run {second} is no longer in the tree: 1 of 2 paths")]);
    assert!(!is_reverted(&project, &first) && project.tracker().len() == 2);
    let answer = project.decree(["rollback", &checkpoint, "--format", "json"]).ok();
    let answer: serde_json::Value = serde_json::from_slice(&answer.out).unwrap();
    assert_eq!(answer["runs"][0]["id"], first.as_str());
    assert_eq!(
        (&answer["runs"][0]["fate"], &answer["runs"][0]["spec"]),
        (&"reverted".into(), &"01-a.spec.md".into())
    );
    assert!(project.tracker().is_empty());
}

/// RBK-32. Work that is older than the checkpoint stays what it is.
#[test]
fn a_rollback_to_a_later_checkpoint_leaves_earlier_runs_alone() {
    let (project, _) = two_runs();
    project.write("work.txt", "mine\n");
    let later = project.checkpoint();
    project.write("work.txt", "other\n");
    let back = project.decree(["rollback", &later]).ok();
    assert!(
        !back.err.contains("no longer in the tree") || back.err.contains("still counts as kept"),
        "{}",
        back.err
    );
    assert_eq!(project.tracker().len(), 2);
}

/// RBK-32.
#[test]
fn a_run_that_another_one_is_applied_over_counts_as_reverted() {
    let project = PipelineProject::with("echo \"$spec_file\" >work.txt");
    project.spec("01-a", "# A\n").spec("02-b", "# B\n");
    project.process().ok();
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    let forced = project.decree(["apply", &first, "--force", "--yes"]).ok();
    assert_has(
        &forced.err,
        &[
            &format!("the work of run {second} is no longer in the tree"),
            "removed 02-b.spec.md from the tracker",
        ],
    );
    assert!(is_reverted(&project, &second) && !is_reverted(&project, &first));
    project
        .decree(["rollback", &saved(&forced.err)])
        .ok()
        .mentions(&[&format!("the work of run {second} is in the tree again")]);
    assert!(!is_reverted(&project, &second));
}

/// RBK-32. The second run is built on the first one, whose only path it changes.
#[test]
fn a_run_stays_kept_when_a_later_one_comes_back_on_top_of_it() {
    let project = PipelineProject::with("echo \"$spec_file\" >work.txt; echo \"$spec_file\" >last.txt");
    project.spec("01-a", "# A\n").spec("02-b", "# B\n");
    project.process().ok();
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    let after = project.snapshot();
    let back = project.decree(["rollback", &second]).ok();
    assert!(is_reverted(&project, &second) && !is_reverted(&project, &first), "{}", back.err);
    let forward = project.decree(["rollback", &saved(&back.err)]).ok();
    assert!(!forward.err.contains(&format!("run {first}")), "{}", forward.err);
    assert_eq!(project.tracker().len(), 2);
    crate::harness::assert_same(&project.snapshot(), &after);
    project.decree(["revert", &second]).ok();
    project.write("last.txt", "mine\n");
    let forced = project.decree(["apply", &second, "--force", "--yes"]).ok();
    assert!(!forced.err.contains(&format!("run {first}")), "{}", forced.err);
    assert_eq!(project.tracker().len(), 2);
}

/// RBK-33. Each rollback saves another present, and none of the later ones is the one that the runs are brought back from.
#[test]
fn runs_leave_and_come_back_as_often_as_the_tree_does() {
    let (project, checkpoint) = two_runs();
    let after = project.snapshot();
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    let present = saved(&project.decree(["rollback", &checkpoint]).ok().err);
    for round in 1..=3 {
        let forward = project.decree(["rollback", &present]).ok();
        assert_has(
            &forward.err,
            &[
                &format!("the work of run {first} is in the tree again; 01-a.spec.md"),
                &format!("the work of run {second} is in the tree again; 02-b.spec.md"),
            ],
        );
        assert!(!is_reverted(&project, &first) && !is_reverted(&project, &second), "round {round}");
        assert_eq!(project.tracker().len(), 2);
        crate::harness::assert_same(&project.snapshot(), &after);
        project.decree(["rollback", &checkpoint]).ok();
        assert!(is_reverted(&project, &first) && project.tracker().is_empty(), "round {round}");
    }
}

/// RBK-33. A run that was reverted on its own comes back with a checkpoint that was made in between.
#[test]
fn a_reverted_run_comes_back_with_a_checkpoint_that_holds_its_work() {
    let (project, _) = two_runs();
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    let between = project.checkpoint();
    project.decree(["revert", &second]).ok();
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
    let dry = project.decree(["rollback", &between, "--dry-run"]).ok();
    dry.mentions(&[&format!("the work of run {second} would be in the tree again")]);
    assert!(is_reverted(&project, &second));
    let forward = project.decree(["rollback", &between]).ok();
    assert_has(&forward.err, &[&format!("the work of run {second} is in the tree again; 02-b.spec.md")]);
    assert!(!forward.err.contains(&first), "{}", forward.err);
    assert!(!is_reverted(&project, &second));
    assert_eq!(project.tracker(), ["01-a.spec.md", "02-b.spec.md"]);
    project.process().ok().mentions(&["0 specs to process"]);
}

/// RBK-33.
#[test]
fn a_scope_brings_a_run_back_in_part_and_the_rest_of_it_as_a_whole() {
    let (project, _) = two_runs();
    let second = project.runs()[1].clone();
    let between = project.checkpoint();
    project.decree(["revert", &second]).ok();
    let part = project.decree(["rollback", &between, "--scope", "work.txt"]).ok();
    let sentence = format!("a part of the work of run {second} is in the tree again: 1 of 2 paths");
    assert_has(&part.err, &[&sentence, "still counts as reverted"]);
    assert!(is_reverted(&project, &second));
    let rest = project.decree(["rollback", &between, "--scope", "*.out"]).ok();
    assert_has(&rest.err, &[&format!("the work of run {second} is in the tree again; 02-b.spec.md")]);
    assert!(!is_reverted(&project, &second) && project.tracker().len() == 2);
}

/// RBK-33. The same bytes are another run's work: going to them brings back the one that left them.
#[test]
fn a_run_stays_reverted_when_another_one_left_the_same_bytes() {
    let project = PipelineProject::with("echo same >work.txt");
    project.spec("01-a", "# A\n");
    let checkpoint = project.checkpoint();
    project.process().ok();
    let first = project.runs()[0].clone();
    project.decree(["revert", &first]).ok();
    project.decree(["run", "-m", "again", "-p", "x"]).ok();
    let second = project.runs()[1].clone();
    let present = saved(&project.decree(["rollback", &checkpoint]).ok().err);
    assert!(is_reverted(&project, &first) && is_reverted(&project, &second));
    let forward = project.decree(["rollback", &present]).ok();
    assert!(!forward.err.contains(&first), "{}", forward.err);
    assert!(is_reverted(&project, &first) && !is_reverted(&project, &second));
    assert!(project.tracker().is_empty());
}

/// RBK-33 and RBK-34. Killed at any move of a file, and finished by the next command, which says what became of what.
#[test]
fn a_rollback_that_is_killed_names_its_runs_and_what_it_set_aside_when_it_is_finished() {
    if !has_strace() {
        return;
    }
    let mut finished = 0;
    for nth in 1..=60 {
        let project = PipelineProject::with("echo work >work.txt; echo work >more.txt");
        project.spec("01-a", "# A\n").write("notes.txt", "open\n");
        let checkpoint = project.checkpoint();
        project.process().ok();
        let run = project.runs()[0].clone();
        let present = project.checkpoint();
        project.config("sensitive:\n  exclude: [notes.txt]\n").write("notes.txt", "hunter2\n");
        project
            .decree(["rollback", &checkpoint, "--dry-run"])
            .ok()
            .mentions(&["would be set aside", "notes.txt"]);
        if !kill_before(&project, &["rollback", &checkpoint], "renameat2", nth) {
            break;
        }
        let next = project.decree(["checkpoint", "create"]).ok();
        let is_finished = next.err.contains("was interrupted; it is finished now");
        assert_eq!(is_finished, !project.exists("work.txt"), "killed before move {nth}: {}", next.err);
        assert_eq!(is_finished, is_reverted(&project, &run), "killed before move {nth}: {}", next.err);
        assert_eq!(is_finished, project.tracker().is_empty(), "killed before move {nth}: {}", next.err);
        if is_finished {
            finished += 1;
            assert_has(&next.err, &["set aside notes.txt: moved to"]);
            assert_has(&next.err, &[&format!("the work of run {run} is no longer in the tree")]);
            let forward = project.decree(["rollback", &present]).ok();
            assert_has(&forward.err, &[&format!("the work of run {run} is in the tree again")]);
            assert!(!is_reverted(&project, &run) && project.tracker().len() == 1);
        }
    }
    assert!(finished >= 2, "finished only {finished} times");
}

/// RBK-32. A spec that is newer than the checkpoint leaves with the rollback.
#[test]
fn a_spec_whose_file_left_too_is_not_said_to_be_processed_again() {
    let project = PipelineProject::with("echo work >work.txt");
    let checkpoint = project.checkpoint();
    project.spec("01-a", "# A\n");
    project.process().ok();
    let back = project.decree(["rollback", &checkpoint]).ok();
    assert_has(&back.err, &["removed 01-a.spec.md from the tracker: its file is not in specs/ now"]);
    assert!(!back.err.contains("runs it again"), "{}", back.err);
    project.process().ok().mentions(&["0 specs to process"]);
}

/// RBK-32. `recover` goes to a checkpoint as `rollback` does.
#[test]
fn recover_records_the_runs_whose_work_it_takes_out_of_the_tree() {
    let (project, checkpoint) = two_runs();
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    project
        .decree(["recover", &checkpoint, "--dry-run"])
        .ok()
        .mentions(&[&format!("the work of run {first} would be no longer in the tree")]);
    assert_eq!(project.tracker().len(), 2);
    let answer = project.decree(["recover", &checkpoint, "--format", "json"]).ok();
    let answer: serde_json::Value = serde_json::from_slice(&answer.out).unwrap();
    assert_valid(&answer, "recover");
    assert_eq!((&answer["runs"][1]["id"], &answer["runs"][1]["fate"]), (&second.into(), &"reverted".into()));
    assert!(project.tracker().is_empty() && is_reverted(&project, &first));
    let present = answer["saved_present_as"].as_str().unwrap().to_owned();
    project.decree(["rollback", &present]).ok();
    assert!(!is_reverted(&project, &first) && project.tracker().len() == 2);
}

/// RBK-33. The run's own checkpoint is from before it, whatever a later run or the user made of its work.
#[test]
fn a_rollback_to_before_a_run_reverts_that_run_too() {
    for edit in ["", "mine\n"] {
        let project = PipelineProject::with("echo \"$spec_file\" >>work.txt");
        project.spec("01-a", "# A\n").spec("02-b", "# B\n").write("work.txt", "0\n");
        project.process().ok();
        let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
        if !edit.is_empty() {
            project.write("work.txt", edit);
        }
        project
            .decree(["rollback", &first, "--dry-run"])
            .ok()
            .mentions(&[&format!("the work of run {first} would be no longer")]);
        let back = project.decree(["rollback", &first]).ok();
        assert_has(&back.err, &[&format!("the work of run {first} is no longer in the tree")]);
        assert!(is_reverted(&project, &first) && is_reverted(&project, &second), "{}", back.err);
        assert_eq!(project.text("work.txt"), "0\n");
        assert!(project.tracker().is_empty());
        project.decree(["rollback", &saved(&back.err)]).ok();
        assert!(!is_reverted(&project, &first) && !is_reverted(&project, &second));
        assert_eq!(project.tracker().len(), 2);
    }
}

/// RBK-33. A run that was applied again is newer than a checkpoint from before that.
#[test]
fn a_run_that_was_applied_again_leaves_with_a_rollback_to_before_that() {
    let project = PipelineProject::with("echo \"$spec_file\" >>work.txt");
    project.spec("01-a", "# A\n").write("work.txt", "0\n");
    project.process().ok();
    let first = project.runs()[0].clone();
    project.decree(["revert", &first]).ok();
    let without = project.checkpoint();
    project.decree(["apply", &first]).ok();
    project.spec("02-b", "# B\n");
    project.process().ok();
    project.decree(["rollback", &without]).ok();
    assert_eq!(project.text("work.txt"), "0\n");
    assert!(project.runs().iter().all(|run| is_reverted(&project, run)));
    assert!(project.tracker().is_empty());
}

/// RBK-33. A message that is retried keeps its id, and is later than runs with higher ids.
#[test]
fn a_retried_run_counts_by_its_time_and_not_by_its_id() {
    let routine = "[ -e ok ] || ! grep -q first \"$spec_file\" || exit 1; cat \"$spec_file\" >>work.txt";
    let project = PipelineProject::with(routine);
    project.write(".decree/config.yml", "max_retries: 0\n").write("work.txt", "0\n");
    project.spec("01-a", "first\n").spec("02-b", "second\n");
    project.process().fails(1);
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    project.write("ok", "").decree(["retry", &first]).ok();
    project.process().ok();
    assert_eq!(project.text("work.txt"), "0\nsecond\nfirst\n");
    let back = project.decree(["rollback", &first]).ok();
    assert!(is_reverted(&project, &first) && !is_reverted(&project, &second), "{}", back.err);
    let forward = project.decree(["rollback", &saved(&back.err)]).ok();
    assert!(!forward.err.contains(&second), "{}", forward.err);
    assert!(!is_reverted(&project, &first) && !is_reverted(&project, &second));
    assert_eq!(project.tracker().len(), 2);
}

/// RBK-33. The same of two runs that leave the same bytes.
#[test]
fn a_retried_run_is_a_later_run_than_one_with_a_higher_id() {
    let project =
        PipelineProject::with("[ -e ok ] || ! grep -q first \"$spec_file\" || exit 1; echo same >work.txt");
    project.write(".decree/config.yml", "max_retries: 0\n");
    project.spec("01-a", "first\n").spec("02-b", "second\n");
    project.process().fails(1);
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    project.write("ok", "").write("work.txt", "mine\n").decree(["retry", &first]).ok();
    project.process().ok();
    let refused = project.decree(["revert", &second]).fails(1);
    assert_has(&refused.err, &["the work of a later run", &format!("run {first} left it as it is")]);
    assert_eq!(project.text("work.txt"), "same\n");
}

/// RBK-33. What `revert CHECKPOINT` says to type brings the runs back.
#[test]
fn applying_what_a_revert_to_a_checkpoint_undid_keeps_its_runs_again() {
    let (project, checkpoint) = two_runs();
    let after = project.snapshot();
    project.decree(["revert", &checkpoint]).ok();
    assert!(project.tracker().is_empty());
    let applied = project.decree(["apply", &checkpoint]).ok();
    assert_has(&applied.err, &["02-b.spec.md is on the tracker again"]);
    assert!(project.runs().iter().all(|run| !is_reverted(&project, run)));
    assert_eq!(project.tracker().len(), 2);
    crate::harness::assert_same(&project.snapshot(), &after);
}

/// RBK-33.
#[test]
fn a_failed_run_that_was_applied_leaves_with_a_rollback() {
    let project = PipelineProject::with("echo work >work.txt; exit 1");
    project.spec("01-a", "# A\n");
    project.process().fails(1);
    let run = project.runs()[0].clone();
    project.decree(["apply", &run]).ok();
    let back = project.decree(["rollback", &run]).ok();
    assert_has(&back.err, &[&format!("the work of run {run} is no longer in the tree")]);
    assert!(is_reverted(&project, &run) && !project.exists("work.txt"));
}

/// RBK-33. Two scopes that together hold all of a run's work.
#[test]
fn a_run_whose_work_leaves_bit_by_bit_is_reverted_with_the_last_bit() {
    let (project, checkpoint) = two_runs();
    let second = project.runs()[1].clone();
    let part = project.decree(["rollback", &checkpoint, "--scope", "work.txt"]).ok();
    assert_has(&part.err, &[&format!("a part of the work of run {second} is no longer in the tree")]);
    let rest = project.decree(["rollback", &checkpoint, "--scope", "*.out"]).ok();
    assert_has(
        &rest.err,
        &[&format!("the work of run {second} is no longer in the tree; removed 02-b.spec.md")],
    );
    assert!(project.runs().iter().all(|run| is_reverted(&project, run)));
    assert!(project.tracker().is_empty());
}

/// RBK-33. The user had edited what the later run left.
#[test]
fn a_run_that_another_one_is_applied_over_counts_as_reverted_in_spite_of_an_edit() {
    let project = PipelineProject::with("echo \"$spec_file\" >work.txt");
    project.spec("01-a", "# A\n").spec("02-b", "# B\n");
    project.process().ok();
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    project.write("work.txt", "mine\n");
    project.decree(["apply", &first, "--force", "--yes"]).ok();
    assert!(is_reverted(&project, &second) && !is_reverted(&project, &first));
}

/// RBK-34. Killed before any call that changes a file, a rollback to a run or to a checkpoint leaves records that are true after the
/// next command.
#[test]
fn the_records_of_runs_are_true_whenever_a_rollback_is_killed() {
    if !has_strace() {
        return;
    }
    let mut kills = 0;
    for (call, step) in [("renameat2", 1), ("rename", 1), ("fsync", 2), ("unlinkat", 1), ("unlink", 1)] {
        for nth in (1..=40).step_by(step) {
            let (project, checkpoint) = two_runs();
            let first = project.runs()[0].clone();
            let to = if nth % 2 == 0 { &first } else { &checkpoint };
            if !kill_before(&project, &["rollback", to], call, nth) {
                break;
            }
            kills += 1;
            project.decree(["checkpoint", "create"]).ok();
            let is_back = !project.exists("work.txt");
            for run in project.runs() {
                assert_eq!(is_reverted(&project, &run), is_back, "{run}, killed before {call} {nth}");
            }
            assert_eq!(project.tracker().is_empty(), is_back, "killed before {call} {nth}");
        }
    }
    assert!(kills >= 10, "killed only {kills} times");
}
