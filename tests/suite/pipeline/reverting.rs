//! Taking back what was kept: the tree, and the tracker with it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::workshop::{PipelineProject, WORKS, WRECKS, assert_has};
use crate::harness::assert_same;

/// RUN-28.
#[test]
fn reverting_a_specs_run_puts_the_tree_back_and_takes_the_spec_off_the_tracker() {
    let shop = PipelineProject::with(WORKS);
    shop.spec("01-a", "# A\n").spec("02-b", "# B\n").write("specs/processed-spec.md", "# by hand\n");
    let before = shop.snapshot();
    shop.process().ok();
    shop.decree(["revert", &shop.run_of("02-b")])
        .ok()
        .mentions(&["reverted 1 path", "02-b.spec.md is off the tracker"]);
    assert_eq!(shop.tracker(), ["# by hand", "01-a.spec.md"]);
    shop.decree(["revert", &shop.run_of("01-a")]).ok();
    assert_same(&shop.snapshot(), &before);
    shop.process().ok();
    assert_eq!(
        shop.tracker(),
        ["# by hand", "01-a.spec.md", "02-b.spec.md"],
        "what is off the tracker is processed again"
    );
}

/// RUN-28.
#[test]
fn a_revert_that_meets_a_changed_tree_leaves_the_tracker_alone() {
    let shop = PipelineProject::with(WORKS);
    shop.spec("01-a", "# A\n").process().ok();
    shop.write("work.txt", "mine now\n");
    shop.decree(["revert", &shop.only_run()]).fails(1).mentions(&["work.txt"]);
    assert_eq!(shop.tracker(), ["01-a.spec.md"]);
}

/// RUN-28, RUN-30.
#[test]
fn a_spec_whose_run_changed_nothing_comes_off_the_tracker_too() {
    let shop = PipelineProject::with("true");
    shop.spec("01-a", "# A\n").process().ok();
    shop.decree(["revert", &shop.only_run()]).ok().mentions(&["changed nothing", "off the tracker"]);
    assert!(shop.tracker().is_empty());
}

/// RUN-28.
#[test]
fn an_older_run_of_a_spec_that_was_processed_again_does_not_take_it_off() {
    let shop = PipelineProject::with("exit 1");
    shop.config("max_retries: 0\n").spec("01-a", "# A\n").process().fails(1);
    let failed = shop.only_run();
    shop.routine("develop", WORKS).process().ok();
    shop.decree(["revert", &failed]).ok().mentions(&["already reverted"]);
    assert_eq!(shop.tracker(), ["01-a.spec.md"]);
}

/// RUN-28, REV-07.
#[test]
fn applying_a_reverted_run_puts_its_spec_on_the_tracker_again() {
    let shop = PipelineProject::with(WORKS);
    shop.spec("01-a", "# A\n").process().ok();
    let (id, after) = (shop.only_run(), shop.snapshot());
    shop.decree(["revert", &id]).ok();
    shop.decree(["apply", &id]).ok().mentions(&["01-a.spec.md is on the tracker again"]);
    assert_same(&shop.snapshot(), &after);
    shop.decree(["revert", &id]).ok();
    assert!(shop.tracker().is_empty());
}

/// RUN-30.
#[test]
fn a_reverted_run_stays_reverted_whatever_happened_since() {
    let shop = PipelineProject::with(WRECKS);
    shop.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = shop.only_run();
    let before = shop.snapshot();
    shop.decree(["revert", &id]).ok().mentions(&["already reverted"]);
    shop.write("notes.txt", "somebody went on\n").remove("docs");
    let later = shop.snapshot();
    shop.decree(["revert", &id]).ok().mentions(&["already reverted"]);
    assert_same(&shop.snapshot(), &later);
    shop.write("notes.txt", "one\r\ntwo\n").write("docs/guide.md", "# Guide\n");
    assert_same(&shop.snapshot(), &before);
}

/// RUN-30, REV-07.
#[test]
fn a_reverted_run_that_was_applied_can_be_reverted_unless_edited_since() {
    let shop = PipelineProject::with(WRECKS);
    shop.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = shop.only_run();
    let before = shop.snapshot();
    shop.decree(["apply", &id]).ok();
    let salvaged = shop.text("notes.txt");
    assert!(salvaged.ends_with("attempt 1\n"), "{salvaged}");
    shop.write("notes.txt", "edited since\n");
    shop.decree(["revert", &id]).fails(1).mentions(&["notes.txt"]);
    shop.write("notes.txt", salvaged).decree(["revert", &id]).ok();
    assert_same(&shop.snapshot(), &before);
}

/// A chain of three: each adds a line to the same file, and a file of its own.
fn chain_of_three() -> PipelineProject {
    let shop = PipelineProject::with(
        "echo $seq >>notes.txt; echo $seq >own-$seq.txt; [ $seq = 2 ] || echo more >.decree/inbox/$chain-$((seq + 1)).md",
    );
    shop.spec("01-a", "# A\n");
    shop
}

/// RUN-29.
#[test]
fn reverting_a_chain_undoes_its_runs_from_the_last_to_the_first() {
    let shop = chain_of_three();
    shop.write("specs/processed-spec.md", "");
    let before = shop.snapshot();
    shop.process().ok();
    let runs = shop.runs();
    assert_eq!(runs.len(), 3);
    let chain = runs[0].trim_end_matches("-0");
    shop.decree(["revert", chain]).ok().mentions(&[&runs[0], &runs[1], &runs[2]]);
    assert_same(&shop.snapshot(), &before);
    assert!(shop.tracker().is_empty());
    shop.decree(["revert", chain]).ok().mentions(&["already reverted"]);
}

/// RUN-29.
#[test]
fn a_chain_is_reverted_as_a_whole_or_not_at_all() {
    let shop = chain_of_three();
    shop.process().ok();
    let chain = shop.runs()[0].trim_end_matches("-0").to_owned();
    shop.write("own-0.txt", "edited since\n");
    let before = shop.snapshot();
    shop.decree(["revert", &chain]).fails(1).mentions(&["own-0.txt"]);
    assert_same(&shop.snapshot(), &before);
    assert_eq!(shop.tracker(), ["01-a.spec.md"]);
}

/// RUN-29.
#[test]
fn runs_of_a_chain_that_were_reverted_or_never_began_are_passed_over() {
    let shop = PipelineProject::with(
        "echo $seq >>notes.txt; [ $seq = 1 ] && exit 1; [ $seq = 0 ] || exit 0\nfor s in 1 2; do echo more >.decree/inbox/$chain-$s.md; done; printf -- '---\\nroutine: nobody\\n---\\n' >.decree/inbox/$chain-3.md",
    );
    let before = shop.snapshot();
    shop.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = shop.run_of("x");
    shop.decree(["revert", id.trim_end_matches("-0")]).ok().mentions(&["already reverted"]);
    assert_same(&shop.snapshot(), &before);
}

/// RUN-29.
#[test]
fn a_prefix_that_several_chains_have_is_ambiguous() {
    let shop = PipelineProject::with(WORKS);
    shop.spec("01-a", "# A\n").spec("02-b", "# B\n").process().ok();
    let before = shop.snapshot();
    shop.decree(["revert", "20"]).fails(3).mentions(&["ambiguous", &shop.runs()[0], &shop.runs()[1]]);
    assert_same(&shop.snapshot(), &before);
}

/// Kills decree with the routine at work.
fn killed_at_work(shop: &PipelineProject) {
    let _ = std::fs::remove_file(shop.path(".decree/at-work"));
    shop.routine("develop", "echo half >>work.txt; touch .decree/at-work; sleep 600");
    let mut child =
        shop.command().args(["run", "-m", "killed", "-p", "x"]).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !shop.exists(".decree/at-work") {
        assert!(began.elapsed() < Duration::from_secs(60), "the routine never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// RUN-31.
#[test]
fn a_run_that_was_cut_off_is_settled_before_another_is_reverted_or_applied() {
    let shop = PipelineProject::with(WORKS);
    shop.spec("01-a", "# A\n");
    let before = shop.snapshot();
    shop.process().ok();
    let (kept, after) = (shop.only_run(), shop.snapshot());
    killed_at_work(&shop);
    assert_has(&shop.decree(["status"]).ok().err, &["was cut off"]);
    shop.decree(["revert", &kept]).ok().mentions(&["had been cut off", "reverted 1 path", "off the tracker"]);
    shop.remove("specs/processed-spec.md");
    assert_same(&shop.snapshot(), &before);
    killed_at_work(&shop);
    shop.decree(["apply", &kept]).ok().mentions(&["had been cut off"]);
    assert_same(&shop.snapshot(), &after);
    assert_eq!(shop.inbox(), ["killed", "killed-2"], "what was cut off waits");
}
