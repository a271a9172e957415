//! Runs that leave the same bytes, and runs whose work a later one took back: reverting or applying one never undoes the other's work.

use super::pipeline_project::{PipelineProject, assert_has};
use crate::harness::assert_same;

/// Two runs that leave the same bytes, both reverted: the first of a spec, the second of a message.
fn two_reverted_runs() -> (PipelineProject, String, String) {
    let project = PipelineProject::with("echo one >out");
    project.spec("01-a", "# A\n").process().ok();
    let first = project.only_run();
    project.decree(["revert", &first]).ok();
    project.run(&["-m", "again", "-p", "x"]).ok();
    let second = project.runs()[1].clone();
    project.decree(["revert", &second]).ok();
    assert!(!project.exists("out"));
    (project, first, second)
}

fn is_reverted(project: &PipelineProject, id: &str) -> bool {
    project.result(id)["put_back"].is_object()
}

/// REV-60. What is there is the work of one of them, and the other one is not applied by it.
#[test]
fn a_run_is_not_applied_where_another_one_was_applied_with_the_same_bytes() {
    let (project, first, second) = two_reverted_runs();
    project.decree(["apply", &first]).ok();
    let after = project.snapshot();
    for more in [&[][..], &["--dry-run"]] {
        let refused = project.decree([&["apply", &second], more].concat()).fails(1);
        let (why, hint) = (format!("out: run {first} left it as it is"), format!("`decree revert {first}`"));
        assert_has(&refused.err, &["1 of 1 path is the work of another run", &why, &hint]);
        assert!(is_reverted(&project, &second));
    }
    project.decree(["revert", &second]).ok().mentions(&["already reverted"]);
    assert_same(&project.snapshot(), &after);
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
    project.decree(["revert", &first]).ok().mentions(&["reverted 1 path"]);
    project.decree(["apply", &second]).ok().mentions(&["applied 1 path"]);
    project.decree(["revert", &second]).ok().mentions(&["reverted 1 path"]);
    assert!(!project.exists("out") && project.tracker().is_empty());
}

/// REV-60. With `--force` the bytes are the work of the run that is applied, whichever of them ran first.
#[test]
fn a_run_that_is_applied_with_force_takes_the_same_bytes_over() {
    let (project, first, second) = two_reverted_runs();
    for (there, forced) in [(&first, &second), (&second, &first)] {
        project.decree(["apply", there]).ok();
        let dry = project.decree(["apply", forced, "--force", "--dry-run"]).ok().text();
        assert!(!dry.contains("already applied") && dry.contains("the work of another run"), "{dry}");
        let output = project.decree(["apply", forced, "--force", "--yes"]).ok();
        assert_has(&output.err, &[&format!("what run {there} left is the work of another run now")]);
        assert_eq!(output.err.contains("removed 01-a.spec.md from the tracker"), *there == first);
        assert!(is_reverted(&project, there) && !is_reverted(&project, forced));
        project.decree(["revert", there]).ok().mentions(&["already reverted"]);
        assert_eq!(project.text("out"), "one\n");
        project.decree(["revert", forced]).ok().mentions(&["reverted 1 path"]);
        assert!(!project.exists("out") && project.tracker().is_empty());
    }
}

/// REV-60. Some of the paths are the same, another one is overwritten.
#[test]
fn a_run_that_is_applied_with_force_takes_equal_and_different_paths_over() {
    let project = PipelineProject::with("echo same >same.txt; echo $message_id >other.txt");
    project.run(&["-m", "a", "-p", "x"]).ok();
    let first = project.only_run();
    project.decree(["revert", &first]).ok();
    project.run(&["-m", "b", "-p", "x"]).ok();
    let second = project.runs()[1].clone();
    project.decree(["apply", &first, "--force", "--yes"]).ok().mentions(&[&format!("run {second}")]);
    assert!(is_reverted(&project, &second) && !is_reverted(&project, &first));
    project.decree(["revert", &first]).ok().mentions(&["reverted 2 paths"]);
    assert!(!project.exists("same.txt") && !project.exists("other.txt"));
}

/// REV-60. The rollback brings the run back that the bytes belonged to.
#[test]
fn a_rollback_to_before_a_forced_apply_gives_the_same_bytes_back_to_the_other_run() {
    let (project, first, second) = two_reverted_runs();
    for (there, forced) in [(&first, &second), (&second, &first)] {
        project.decree(["apply", there]).ok();
        let output = project.decree(["apply", forced, "--force", "--yes"]).ok();
        let saved = output.err.split('`').find_map(|word| word.strip_prefix("decree rollback ")).unwrap();
        project.decree(["rollback", saved]).ok();
        assert!(is_reverted(&project, forced) && !is_reverted(&project, there));
        project.decree(["revert", there]).ok().mentions(&["reverted 1 path"]);
        assert!(!project.exists("out"));
    }
}

/// REV-60. The first run is in the tree by its record only: a person deleted its work before the second run.
#[test]
fn a_reverted_run_is_applied_again_although_an_earlier_one_left_the_same_bytes_once() {
    let project = PipelineProject::with("echo one >out");
    project.run(&["-m", "a", "-p", "x"]).ok();
    project.remove("out");
    project.run(&["-m", "b", "-p", "x"]).ok();
    let second = project.runs()[1].clone();
    project.decree(["apply", &second]).ok().mentions(&["already applied"]);
    project.decree(["revert", &second]).ok();
    project.decree(["apply", &second]).ok().mentions(&["applied 1 path"]);
    project.decree(["revert", &second]).ok().mentions(&["reverted 1 path"]);
}

/// REV-61.
#[test]
fn a_run_whose_work_a_later_run_took_back_is_not_already_reverted() {
    let project = PipelineProject::with("echo one >out; echo one >more");
    project.write("out", "zero\n");
    project.spec("01-a", "# A\n").process().ok();
    let first = project.only_run();
    project.routine("develop", "echo zero >out; rm more").run(&["-m", "back", "-p", "x"]).ok();
    let (second, after) = (project.runs()[1].clone(), project.snapshot());
    let refused = project.decree(["revert", &first]).fails(1);
    assert_has(
        &refused.err,
        &[
            "2 of 2 paths are the work of a later run",
            &format!("out: run {second} left it as it is"),
            "nothing was touched",
            &format!("`decree revert {second}`"),
        ],
    );
    assert!(!is_reverted(&project, &first));
    assert_same(&project.snapshot(), &after);
    project.decree(["revert", &second]).ok();
    assert_eq!(project.text("out"), "one\n");
    project.decree(["revert", &first]).ok().mentions(&["reverted 2 paths", "from the tracker"]);
    assert_eq!(project.text("out"), "zero\n");
}

/// REV-61. A person may have done what the revert would do, to one of the runs or to both.
#[test]
fn a_chain_whose_last_run_takes_the_first_one_back_is_reverted_as_a_whole() {
    for by_hand in ["", "one\n", "zero\n"] {
        let project = PipelineProject::with(
            "[ $seq = 1 ] && { echo zero >out; exit; }; echo one >out; echo more >.decree/inbox/$chain-1.md",
        );
        project.write("out", "zero\n");
        project.spec("01-a", "# A\n").process().ok();
        let runs = project.runs();
        let chain = runs[0].trim_end_matches("-0");
        project
            .decree(["revert", &runs[0]])
            .fails(1)
            .mentions(&[&runs[1], &format!("`decree revert {chain}` reverts the whole chain")]);
        if !by_hand.is_empty() {
            project.write("out", by_hand);
        }
        project.decree(["revert", chain]).ok();
        assert_eq!(project.text("out"), "zero\n", "{by_hand:?}");
        assert!(runs.iter().all(|run| is_reverted(&project, run)) && project.tracker().is_empty());
    }
}

/// REV-61.
#[test]
fn a_run_that_was_undone_by_hand_is_already_reverted() {
    let project = PipelineProject::with("echo one >out");
    project.write("out", "zero\n");
    project.spec("01-a", "# A\n").process().ok();
    project.write("out", "zero\n");
    project.decree(["revert", &project.only_run()]).ok().mentions(&["already reverted", "from the tracker"]);
    assert!(is_reverted(&project, &project.only_run()));
}
