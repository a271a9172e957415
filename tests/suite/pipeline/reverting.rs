//! Reverting kept runs: the tree, and the tracker with it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::pipeline_project::{PipelineProject, WORKS, WRECKS, assert_has};
use crate::harness::assert_same;
use crate::killed::has_strace;

/// RUN-28.
#[test]
fn reverting_a_specs_run_puts_the_tree_back_and_takes_the_spec_off_the_tracker() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").spec("02-b", "# B\n").write("specs/processed-spec.md", "# by hand\n");
    let before = project.snapshot();
    project.process().ok();
    project
        .decree(["revert", &project.run_of("02-b")])
        .ok()
        .mentions(&["reverted 1 path", "removed 02-b.spec.md from the tracker"]);
    assert_eq!(project.tracker(), ["# by hand", "01-a.spec.md"]);
    project.decree(["revert", &project.run_of("01-a")]).ok();
    assert_same(&project.snapshot(), &before);
    project.process().ok();
    assert_eq!(
        project.tracker(),
        ["# by hand", "01-a.spec.md", "02-b.spec.md"],
        "what is removed from the tracker is processed again"
    );
}

/// RUN-28.
#[test]
fn a_revert_that_meets_a_changed_tree_leaves_the_tracker_alone() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").process().ok();
    project.write("work.txt", "mine now\n");
    project.decree(["revert", &project.only_run()]).fails(1).mentions(&["work.txt"]);
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
}

/// RUN-28, RUN-30.
#[test]
fn a_spec_whose_run_changed_nothing_comes_off_the_tracker_too() {
    let project = PipelineProject::with("true");
    project.spec("01-a", "# A\n").process().ok();
    project.decree(["revert", &project.only_run()]).ok().mentions(&["changed nothing", "from the tracker"]);
    assert!(project.tracker().is_empty());
}

/// RUN-28.
#[test]
fn an_older_run_of_a_spec_that_was_processed_again_does_not_take_it_off() {
    let project = PipelineProject::with("exit 1");
    project.config("max_retries: 0\n").spec("01-a", "# A\n").process().fails(1);
    let failed = project.only_run();
    project.routine("develop", WORKS).process().ok();
    project.decree(["revert", &failed]).ok().mentions(&["already reverted"]);
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
}

/// RUN-28, REV-07.
#[test]
fn applying_a_reverted_run_puts_its_spec_on_the_tracker_again() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").process().ok();
    let (id, after) = (project.only_run(), project.snapshot());
    project.decree(["revert", &id]).ok();
    project.decree(["apply", &id]).ok().mentions(&["01-a.spec.md is on the tracker again"]);
    assert_same(&project.snapshot(), &after);
    project.decree(["revert", &id]).ok();
    assert!(project.tracker().is_empty());
}

/// RUN-30.
#[test]
fn a_reverted_run_stays_reverted_whatever_happened_since() {
    let project = PipelineProject::with(WRECKS);
    project.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = project.only_run();
    let before = project.snapshot();
    project.decree(["revert", &id]).ok().mentions(&["already reverted"]);
    project.write("notes.txt", "a later edit\n").remove("docs");
    let later = project.snapshot();
    project.decree(["revert", &id]).ok().mentions(&["already reverted"]);
    assert_same(&project.snapshot(), &later);
    project.write("notes.txt", "one\r\ntwo\n").write("docs/guide.md", "# Guide\n");
    assert_same(&project.snapshot(), &before);
}

/// RUN-30, REV-07.
#[test]
fn a_reverted_run_that_was_applied_can_be_reverted_unless_edited_since() {
    let project = PipelineProject::with(WRECKS);
    project.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = project.only_run();
    let before = project.snapshot();
    project.decree(["apply", &id]).ok();
    let salvaged = project.text("notes.txt");
    assert!(salvaged.ends_with("attempt 1\n"), "{salvaged}");
    project.write("notes.txt", "edited since\n");
    project.decree(["revert", &id]).fails(1).mentions(&["notes.txt"]);
    project.write("notes.txt", salvaged).decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &before);
}

/// A chain of three: each adds a line to the same file, and a file of its own.
fn chain_of_three() -> PipelineProject {
    let project = PipelineProject::with(
        "echo $seq >>notes.txt; echo $seq >own-$seq.txt; [ $seq = 2 ] || echo more >.decree/inbox/$chain-$((seq + 1)).md",
    );
    project.spec("01-a", "# A\n");
    project
}

/// RUN-29.
#[test]
fn reverting_a_chain_undoes_its_runs_from_the_last_to_the_first() {
    let project = chain_of_three();
    project.write("specs/processed-spec.md", "");
    let before = project.snapshot();
    project.process().ok();
    let runs = project.runs();
    assert_eq!(runs.len(), 3);
    let chain = runs[0].trim_end_matches("-0");
    project.decree(["revert", chain]).ok().mentions(&[&runs[0], &runs[1], &runs[2]]);
    assert_same(&project.snapshot(), &before);
    assert!(project.tracker().is_empty());
    project.decree(["revert", chain]).ok().mentions(&["already reverted"]);
}

/// RUN-29.
#[test]
fn a_chain_is_reverted_as_a_whole_or_not_at_all() {
    let project = chain_of_three();
    project.process().ok();
    let chain = project.runs()[0].trim_end_matches("-0").to_owned();
    project.write("own-0.txt", "edited since\n");
    let before = project.snapshot();
    project.decree(["revert", &chain]).fails(1).mentions(&["own-0.txt"]);
    assert_same(&project.snapshot(), &before);
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
}

/// RUN-29.
#[test]
fn runs_of_a_chain_that_were_reverted_or_never_began_are_passed_over() {
    let project = PipelineProject::with(
        "echo $seq >>notes.txt; [ $seq = 1 ] && exit 1; [ $seq = 0 ] || exit 0\nfor s in 1 2; do echo more >.decree/inbox/$chain-$s.md; done; printf -- '---\\nroutine: nobody\\n---\\n' >.decree/inbox/$chain-3.md",
    );
    let before = project.snapshot();
    project.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    let id = project.run_of("x");
    project.decree(["revert", id.trim_end_matches("-0")]).ok().mentions(&["already reverted"]);
    assert_same(&project.snapshot(), &before);
}

/// RUN-29.
#[test]
fn a_prefix_that_several_chains_have_is_ambiguous() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").spec("02-b", "# B\n").process().ok();
    let before = project.snapshot();
    project.decree(["revert", "20"]).fails(3).mentions(&[
        "ambiguous",
        &project.runs()[0],
        &project.runs()[1],
    ]);
    assert_same(&project.snapshot(), &before);
}

/// Kills decree with the routine at work.
fn killed_at_work(project: &PipelineProject) {
    let _ = std::fs::remove_file(project.path(".decree/at-work"));
    project.routine("develop", "echo half >>work.txt; touch .decree/at-work; sleep 600");
    let mut child =
        project.command().args(["run", "-m", "killed", "-p", "x"]).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !project.exists(".decree/at-work") {
        assert!(began.elapsed() < Duration::from_secs(60), "the routine never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// RUN-31.
#[test]
fn a_run_that_was_cut_off_is_settled_before_another_is_reverted_or_applied() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n");
    let before = project.snapshot();
    project.process().ok();
    let (kept, after) = (project.only_run(), project.snapshot());
    killed_at_work(&project);
    assert_has(&project.decree(["status"]).ok().err, &["was interrupted"]);
    project.decree(["revert", &kept]).ok().mentions(&[
        "was interrupted",
        "reverted 1 path",
        "from the tracker",
    ]);
    project.remove("specs/processed-spec.md");
    assert_same(&project.snapshot(), &before);
    killed_at_work(&project);
    project.decree(["apply", &kept]).ok().mentions(&["was interrupted"]);
    assert_same(&project.snapshot(), &after);
    assert_eq!(project.inbox(), ["killed", "killed-2"], "what was interrupted waits");
}

/// RUN-28.
#[test]
fn an_apply_that_is_killed_puts_the_spec_on_the_tracker_when_it_is_repeated() {
    if !has_strace() {
        return;
    }
    let mut kills = 0;
    for number in 1.. {
        let project = PipelineProject::with(WORKS);
        project.spec("01-a", "# A\n").process().ok();
        let id = project.only_run();
        project.decree(["revert", &id]).ok();
        let inject = format!("inject=rename:signal=KILL:when={number}");
        let mut killed = Command::new("strace");
        killed.args(["-qq", "-o", "/dev/null", "-e", "trace=rename", "-e", &inject]);
        killed.arg(project.command().get_program()).args(["apply", &id]).current_dir(project.root());
        let ended = killed.stdin(Stdio::null()).output().unwrap();
        project.decree(["apply", &id]).ok();
        assert_eq!(project.tracker(), ["01-a.spec.md"], "killed before rename {number}");
        assert!(project.exists("work.txt"));
        if ended.status.success() {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 2, "killed only {kills} times: the tracker and the result are renamed into place");
}
