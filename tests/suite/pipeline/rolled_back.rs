//! Runs whose work leaves the tree with a rollback, or comes back with one.

use super::pipeline_project::{PipelineProject, assert_has};

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
