//! Runs whose directory is gone, or lacks what a revert needs: nothing is guessed, and the error says what helps.

use super::pipeline_project::{PipelineProject, WORKS, assert_has};
use crate::harness::{CommandOutput, assert_same};

/// A chain of three runs, each with a file of its own.
fn chain_of_three() -> (PipelineProject, String) {
    let project = PipelineProject::with(
        "echo $seq >f$seq; [ $seq = 2 ] || printf -- '---\\nchain: %s\\nseq: %s\\n---\\nmore\\n' $chain $((seq + 1)) >.decree/inbox/more-$seq.md",
    );
    project.spec("01-a", "# A\n").process().ok();
    let runs = project.runs();
    assert_eq!(runs.len(), 3, "{runs:?}");
    let chain = runs[0].trim_end_matches("-0").to_owned();
    (project, chain)
}

/// REV-62.
#[test]
fn a_chain_that_lacks_the_directory_of_a_run_is_neither_reverted_nor_applied() {
    for lost in 0..3 {
        let (project, chain) = chain_of_three();
        let lost = format!("{chain}-{lost}");
        project.remove(format!(".decree/runs/{lost}"));
        let after = project.snapshot();
        for args in [&["revert", &chain][..], &["apply", &chain], &["apply", &chain, "--dry-run"]] {
            let refused = project.decree(args).fails(4);
            assert_has(
                &refused.err,
                &[
                    "1 run of the chain is missing",
                    &format!("{lost}: .decree/inbox/done/"),
                    "nothing was touched",
                    "by their own ids",
                ],
            );
        }
        assert_same(&project.snapshot(), &after);
        assert_eq!(project.tracker(), ["01-a.spec.md"]);
        for seq in (0..3).rev().filter(|seq| !lost.ends_with(&format!("-{seq}"))) {
            project.decree(["revert", &format!("{chain}-{seq}")]).ok().mentions(&["reverted 1 path"]);
        }
    }
}

/// REV-62.
#[test]
fn a_chain_without_any_directory_of_its_runs_is_not_unknown() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").process().ok();
    let run = project.only_run();
    project.remove(format!(".decree/runs/{run}"));
    let chain = run.trim_end_matches("-0");
    project.decree(["revert", chain]).fails(4).mentions(&[&run, "from a backup"]);
    project.decree(["revert", "2020010101010100"]).fails(3).mentions(&["no run or checkpoint"]);
}

fn hint(output: &CommandOutput) -> &str {
    output.err.split_once("hint: ").unwrap_or_else(|| panic!("no hint: {}", output.err)).1
}

/// REV-63.
#[test]
fn a_revert_without_the_diff_or_the_manifest_says_what_helps() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").process().ok();
    let (id, after) = (project.only_run(), project.snapshot());
    project.remove(format!(".decree/runs/{id}/changes.diff"));
    let refused = project.decree(["revert", &id]).fails(4).mentions(&["changes.diff"]);
    assert_has(hint(&refused), &[&format!("`decree rollback {id}`")]);
    project.decree(["rollback", &id, "--dry-run"]).ok();
    project.write(format!(".decree/runs/{id}/manifest.json"), "{}");
    for _ in 0..2 {
        let refused = project.decree(["revert", &id]).fails(4).mentions(&["manifest.json"]);
        assert_has(hint(&refused), &["backup", "`decree checkpoint list`"]);
        let _ = std::fs::remove_file(project.path(format!(".decree/runs/{id}/manifest.json")));
    }
    assert_same(&project.snapshot(), &after);
}

/// REV-63. The message is done, so the run has changed what its records said.
#[test]
fn a_run_whose_directory_was_emptied_has_lost_its_records() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").process().ok();
    let (id, after) = (project.only_run(), project.snapshot());
    for name in project.names(&format!(".decree/runs/{id}")) {
        project.remove(format!(".decree/runs/{id}/{name}"));
    }
    for args in [
        &["diff", &id][..],
        &["diff", &id, "--stat"],
        &["apply", &id],
        &["apply", &id, "--dry-run"],
        &["apply", &id, "--force"],
    ] {
        let refused = project.decree(args).fails(4);
        assert_has(&refused.err, &["the records of run", "are missing"]);
        assert_has(hint(&refused), &["backup"]);
        assert!(!refused.err.contains("yet") && !hint(&refused).contains("decree diff"), "{}", refused.err);
    }
    assert_same(&project.snapshot(), &after);
}
