use super::{archive, staged, worked};
use crate::harness::assert_same;
use crate::pipeline::pipeline_project::PipelineProject;

/// ART-04.
#[test]
fn a_run_is_applied_in_another_checkout_and_is_a_run_there() {
    for zipped in [false, true] {
        let (here, there) = worked();
        let (dir, target) = staged(&here);
        let mut from = target.clone();
        if zipped {
            from = dir.path().join("artifact.zip");
            archive(&target, &from);
        }
        let from = from.to_str().unwrap();
        // What is taken off the tracker leaves it empty, not absent.
        there.write("specs/processed-spec.md", "");
        let before = there.snapshot();
        let (first, second) = (here.runs()[0].clone(), here.runs()[1].clone());
        there.decree(["apply", &first, "--from", from]).ok().mentions(&["applied 6 paths", "on the tracker"]);
        assert_eq!(there.tracker(), ["01-change.spec.md"]);
        there.decree(["apply", &second[..], "--from", from]).ok();
        assert_same(&there.snapshot(), &here.snapshot());
        assert_eq!(there.tracker(), here.tracker());
        // Once more says so, and does nothing.
        there.decree(["apply", &second, "--from", from]).ok().mentions(&["already applied"]);
        let diffs = [&here, &there].map(|project| project.decree(["diff", &first]).ok().out);
        assert_eq!(diffs[0], diffs[1]);
        there.decree(["log", &first]).ok();
        assert_eq!(there.process().ok().text(), "nothing to do\n");
        there.decree(["revert", &second]).ok();
        there.decree(["revert", &first]).ok();
        assert_same(&there.snapshot(), &before);
        assert_eq!(there.tracker(), [""; 0]);
    }
}

/// ART-05.
#[test]
fn runs_are_listed_and_applied_as_a_chain_or_all_together() {
    let (here, there) = worked();
    let (_dir, target) = staged(&here);
    let from = target.to_str().unwrap();
    let output = there.decree(["apply", "--from", from]).ok();
    assert_eq!(output.text().lines().collect::<Vec<_>>(), here.runs());
    there.decree(["apply", "1999", "--from", from]).fails(3).mentions(&["no run '1999'", &here.runs()[0]]);
    there.decree(["apply", "20", "--from", from]).fails(3).mentions(&["ambiguous"]);
    // The second alone does not fit onto a tree without the first.
    let before = there.snapshot();
    there.decree(["apply", &here.runs()[1], "--from", from]).fails(1);
    assert_same(&there.snapshot(), &before);
    let chain = here.runs()[0].split('-').next().unwrap().to_owned();
    there.decree(["apply", &chain, "--from", from]).ok();
    there.decree(["apply", "--all", "--from", from]).ok().mentions(&["already applied", "applied 1 path"]);
    assert_same(&there.snapshot(), &here.snapshot());
}

/// ART-05.
#[test]
fn the_runs_applied_before_one_that_does_not_apply_are_reported() {
    let (here, there) = worked();
    let (_dir, target) = staged(&here);
    std::fs::write(target.join(format!("runs/{}/changes.diff", here.runs()[1])), "# decree-diff 1\nforged\n")
        .unwrap();
    let output = there.decree(["apply", "--all", "--from", target.to_str().unwrap()]);
    assert_ne!(output.code, 0);
    output.mentions(&["still applied: 1 run before it"]);
    assert_eq!(there.tracker(), ["01-change.spec.md"]);
}

/// ART-04.
#[test]
fn of_reverted_runs_only_the_named_one_is_applied() {
    let here = crate::pipeline::pipeline_project::PipelineProject::with("echo half >half.txt; exit 1");
    here.config("max_retries: 0\n").spec("01-x", "Do\n");
    here.process().fails(1);
    let (_dir, target) = staged(&here);
    let there = crate::pipeline::pipeline_project::PipelineProject::new();
    there.decree(["apply", "--all", "--from", target.to_str().unwrap()]).ok().mentions(&["nothing to apply"]);
    assert!(!there.exists("half.txt"));
    there.decree(["apply", &here.only_run(), "--from", target.to_str().unwrap()]).ok();
    assert_eq!(there.read("half.txt"), b"half\n");
    assert!(!there.exists("specs/processed-spec.md"));
}

/// REV-30. What the run left cannot be rebuilt over another file: only the run's own project has what it found.
#[test]
fn a_forced_dry_run_says_what_the_forced_apply_then_does() {
    let text: String = (0..200).map(|line| format!("line {line}\n")).collect();
    let (here, there) = (PipelineProject::with("echo more >>long.txt"), PipelineProject::new());
    here.write("long.txt", &text);
    here.run(&["-m", "x", "-p", "y"]).ok();
    let (id, (_dir, target)) = (here.only_run(), staged(&here));
    there.write("long.txt", "mine\n");
    let before = there.snapshot();
    let from = target.to_str().unwrap();
    let dry = there.decree(["apply", &id, "--from", from, "--force", "--dry-run"]).fails(1);
    assert!(dry.text().contains("long.txt: cannot be rebuilt"), "{}", dry.text());
    let refused = there.decree(["apply", &id, "--from", from, "--force", "--yes"]).fails(1);
    refused.mentions(&["long.txt: cannot be rebuilt", "nothing was touched"]);
    assert_same(&there.snapshot(), &before);
    // Nothing of it is in this project: no run, no checkpoint.
    assert!(there.runs().is_empty(), "{:?}", there.runs());
    let log = there.decree(["log"]).ok();
    assert!(!log.text().contains(&id), "{}", log.text());
    // With what the run found there, it is applied over what differs.
    there.write("long.txt", &text).checkpoint();
    there.write("long.txt", "mine\n");
    there.decree(["apply", &id, "--from", from, "--force", "--dry-run"]).ok();
    there.decree(["apply", &id, "--from", from, "--force", "--yes"]).ok();
    assert_eq!(there.read("long.txt"), format!("{text}more\n").into_bytes());
}
