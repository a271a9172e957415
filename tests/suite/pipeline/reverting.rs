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

/// RUN-32. What a revert undid may be made again by another run, to the byte. It is that run's work then.
#[test]
fn reverting_a_reverted_run_again_leaves_the_same_work_of_a_later_run_alone() {
    let project = PipelineProject::with("echo same >work.txt; chmod 640 work.txt");
    project.spec("01-a", "# A\n").process().ok();
    let first = project.only_run();
    project.decree(["revert", &first]).ok().mentions(&["reverted 1 path", "from the tracker"]);
    project.process().ok();
    let (second, done) = (project.runs()[1].clone(), project.snapshot());
    for _ in 0..2 {
        project.decree(["revert", &first]).ok().mentions(&[&format!("{first}: already reverted")]);
        assert_same(&project.snapshot(), &done);
        assert_eq!(project.tracker(), ["01-a.spec.md"]);
    }
    let log = project.decree(["log"]).ok().text();
    let state = |id: &str| log.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(state(&first).contains("  reverted  "), "{log}");
    assert!(state(&second).contains("  success  "), "{log}");
    project.decree(["revert", &second]).ok().mentions(&["reverted 1 path", "from the tracker"]);
    assert!(!project.exists("work.txt") && project.tracker().is_empty());
}

/// RUN-32. The same, if the first run's work was removed by hand: its record does not say that it is reverted.
#[test]
fn a_run_is_neither_reverted_nor_applied_over_the_same_work_of_a_later_run() {
    let project = PipelineProject::with("echo same >work.txt");
    project.spec("01-a", "# A\n").process().ok();
    let first = project.only_run();
    project.spec("02-b", "# B\n").remove("work.txt");
    project.process().ok();
    let (second, done) = (project.run_of("02-b"), project.snapshot());
    for verb in ["revert", "apply"] {
        let why = format!("work.txt: run {second} left it as it is");
        let hint = format!("decree revert {second}");
        project.decree([verb, &first]).fails(1).mentions(&[&why, "nothing was touched", &hint]);
        assert_same(&project.snapshot(), &done);
        assert_eq!(project.tracker(), ["01-a.spec.md", "02-b.spec.md"]);
    }
    project.decree(["revert", &second]).ok();
    project.decree(["apply", &first]).ok();
    assert_eq!(project.text("work.txt"), "same\n");
    project.decree(["revert", &first]).ok().mentions(&["reverted 1 path"]);
    assert!(!project.exists("work.txt"));
}

/// RUN-32.
#[test]
fn a_reverted_run_is_reverted_wherever_it_is_shown() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").process().ok();
    let id = project.only_run();
    project.decree(["revert", &id]).ok();
    assert_has(&project.decree(["status"]).ok().text(), &[&format!("latest {id}  reverted")]);
    assert_has(&project.decree(["log"]).ok().text(), &[&format!("{id}  reverted")]);
    let report = |format: &str| project.decree(["report", "--format", format]).ok().text();
    assert_has(&report("text"), &["0 kept", "1 reverted", "01-a it was kept, and reverted later"]);
    let json: serde_json::Value = serde_json::from_str(&report("json")).unwrap();
    assert_eq!((&json["kept"], &json["put_back"]), (&0.into(), &1.into()));
    assert_eq!(json["messages"][0]["kept"], false);
    assert_has(&report("markdown"), &["0 of 1 spec kept, 1 reverted"]);
    assert_has(&report("junit"), &["failures=\"1\"", "reverted later"]);
    project.decree(["apply", &id]).ok();
    assert_has(&project.decree(["log"]).ok().text(), &[&format!("{id}  success")]);
    assert_has(&report("text"), &["1 kept", "0 reverted"]);
}

/// RUN-32. A kill between the restore and the record of it must not make the run revertable again.
#[test]
fn a_revert_that_is_killed_is_recorded_by_the_next_command() {
    if !has_strace() {
        return;
    }
    let mut kills = 0;
    for number in 1.. {
        let project = PipelineProject::with("echo same >work.txt");
        project.spec("01-a", "# A\n").process().ok();
        let id = project.only_run();
        let inject = format!("inject=rename,unlink,unlinkat,rmdir,fsync,syncfs:signal=KILL:when={number}");
        let mut killed = Command::new("strace");
        killed.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
        killed.args(["trace=rename,unlink,unlinkat,rmdir,fsync,syncfs", "-e", &inject]);
        killed.arg(project.command().get_program()).args(["revert", &id]).current_dir(project.root());
        let ended = killed.stdin(Stdio::null()).output().unwrap();
        // The next command that takes the lock; the one after it would see the same bytes again.
        project.checkpoint();
        let is_reverted = !project.exists("work.txt");
        assert_eq!(project.result(&id)["put_back"].is_object(), is_reverted, "killed before call {number}");
        assert_eq!(project.tracker().is_empty(), is_reverted, "killed before call {number}");
        project.write("work.txt", "same\n").decree(["revert", &id]).ok();
        assert_eq!(project.exists("work.txt"), is_reverted, "killed before call {number}");
        if ended.status.success() {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 5, "killed only {kills} times");
}

/// REV-09. Without its records nothing says what a run changed.
#[test]
fn a_run_whose_records_are_missing_is_not_said_to_have_changed_nothing() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").process().ok();
    let (id, after) = (project.only_run(), project.snapshot());
    let result = format!(".decree/runs/{id}/result.json");
    project.remove(&result);
    project.decree(["revert", &id]).fails(4).mentions(&[
        &result,
        "is missing",
        "nothing was touched",
        &format!("`decree rollback {id}`"),
    ]);
    for file in ["manifest.json", "changes.diff"] {
        project.remove(format!(".decree/runs/{id}/{file}"));
    }
    for left in ["attempts", "routine.log", "message.md"] {
        project.decree(["revert", &id]).fails(4).mentions(&["result.json is missing", "backup"]);
        project.remove(format!(".decree/runs/{id}/{left}"));
    }
    project.decree(["revert", &id]).fails(4).mentions(&["result.json is missing"]);
    assert_same(&project.snapshot(), &after);
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
}

/// REV-09. What the hint names has to help.
#[test]
fn a_run_whose_diff_is_missing_is_not_said_to_have_none_yet() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").process().ok();
    let id = project.only_run();
    project.remove(format!(".decree/runs/{id}/changes.diff"));
    let output = project.decree(["revert", &id]).fails(4);
    assert!(!output.err.contains("shows the run"), "{}", output.err);
    let output = project.decree(["diff", &id]).fails(4).mentions(&["changes of run", "are missing"]);
    assert!(!output.err.contains("yet"), "{}", output.err);
}

/// RUN-33.
#[test]
fn a_routine_that_deletes_its_own_spec_and_succeeds_has_processed_it() {
    for script in ["echo x >done.txt; rm \"$spec_file\"", "echo x >done.txt; rm -r specs"] {
        let project = PipelineProject::with(script);
        project.spec("01-a", "# A\n").process().ok();
        assert_eq!(project.tracker(), ["01-a.spec.md"], "{script}");
        project.spec("01-a", "# A again\n").remove("done.txt");
        assert_has(&project.process().ok().text(), &["nothing to do"]);
        assert!(!project.exists("done.txt"), "it ran again");
        project.remove("specs/01-a.spec.md").write("done.txt", "x\n");
        project.decree(["revert", &project.only_run()]).ok();
        assert_eq!(project.text("specs/01-a.spec.md"), "# A\n");
        assert!(project.tracker().is_empty());
        project
            .decree(["apply", &project.only_run()])
            .ok()
            .mentions(&["01-a.spec.md is on the tracker again"]);
        assert!(!project.exists("specs/01-a.spec.md"));
    }
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
