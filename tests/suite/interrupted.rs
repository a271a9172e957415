//! One Ctrl-C at any moment of a command that changes the tree: it does nothing and says so, or it does all of it and reports that.

use std::process::{Command, Stdio};

use crate::harness::{CommandOutput, TreeSnapshot, assert_same, run_command, temp_dir};
use crate::killed::has_strace;
use crate::pipeline::pipeline_project::PipelineProject;
use crate::publish::Repo;

/// What the signal comes with: what ends a step on the way. Only calls of the main thread count, so it comes once.
const CALLS: [&str; 4] = ["rename", "renameat2", "unlink", "syncfs"];
const SIGINT: i32 = 130;
/// Only true if nothing is different.
const UNCHANGED: &str = "the tree is as it was";

/// Runs decree with a SIGINT at a call; returns also whether it came to that call.
fn interrupt_at(base: &Command, args: &[&str], call: &str, number: u32) -> (CommandOutput, bool) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new("strace");
    command.args(["-qq", "-o"]).arg(log.path());
    command.args(["-e", &format!("trace=?{call}")]);
    command.args(["-e", &format!("inject=?{call}:signal=INT:when={number}")]);
    command.arg(base.get_program()).args(args).stdin(Stdio::null());
    command.current_dir(base.get_current_dir().unwrap()).env_clear();
    command.envs(base.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = run_command(&mut command);
    let came = std::fs::read_to_string(log.path()).unwrap().contains("SIGINT");
    (output, came)
}

/// Interrupts a command at each of its calls, from the same state each time. Returns how often it was given up, and how often done.
fn at_each_call(
    base: impl Fn() -> Command,
    args: &[&str],
    calls: &[&str],
    mut given_up: impl FnMut(&CommandOutput),
    mut done: impl FnMut(&CommandOutput),
) -> (u32, u32) {
    let mut counts = (0, 0);
    for call in calls {
        for number in 1.. {
            let (output, came) = interrupt_at(&base(), args, call, number);
            let what = format!("{call} {number} of {args:?}: {}\n{}", output.code, output.err);
            assert!(!output.err.contains("cannot be rebuilt"), "nothing is wrong with the files: {what}");
            match output.code {
                0 => {
                    counts.1 += u32::from(came);
                    done(&output);
                }
                SIGINT => {
                    assert!(output.err.contains("interrupted"), "{what}");
                    counts.0 += 1;
                    given_up(&output);
                }
                _ => panic!("{what}"),
            }
            if !came {
                break;
            }
        }
    }
    counts
}

/// A chain of three: each adds a line to the same file, and a file of its own.
fn chain_of_three() -> (PipelineProject, String) {
    let project = PipelineProject::with(
        "echo $seq >>notes.txt; echo $seq >own-$seq.txt; [ $seq = 2 ] || echo more >.decree/inbox/$chain-$((seq + 1)).md",
    );
    project.spec("01-a", "# A\n").write("specs/processed-spec.md", "");
    project.process().ok();
    let chain = project.runs()[0].trim_end_matches("-0").to_owned();
    (project, chain)
}

/// How many runs count as reverted.
fn reverted(project: &PipelineProject) -> usize {
    project.runs().iter().filter(|id| project.result(id)["put_back"].is_object()).count()
}

#[track_caller]
fn assert_words(output: &CommandOutput, words: &[&str]) {
    for word in words {
        assert!(output.err.contains(word), "{word:?} is not in: {}", output.err);
    }
}

/// REV-50.
#[test]
fn a_chain_whose_revert_is_interrupted_is_reverted_as_a_whole_or_not_at_all() {
    if !has_strace() {
        return;
    }
    let (project, chain) = chain_of_three();
    let after = project.snapshot();
    let mut midway = 0;
    let given_up = |output: &CommandOutput| {
        assert_same(&project.snapshot(), &after);
        assert_eq!(reverted(&project), 0, "{}", output.err);
        assert_eq!(project.tracker(), ["01-a.spec.md"]);
        assert_words(output, &[UNCHANGED]);
        midway += u32::from(output.err.contains(&format!("{chain}-2 was reverted and is applied again")));
    };
    let done = |output: &CommandOutput| {
        assert!(!project.exists("own-0.txt") && project.read("notes.txt") == b"one\r\ntwo\n");
        assert_eq!(reverted(&project), 3, "{}", output.err);
        assert!(project.tracker().is_empty());
        project.decree(["apply", &chain]).ok();
        assert_same(&project.snapshot(), &after);
    };
    let (given_up, done) = at_each_call(|| project.command(), &["revert", &chain], &CALLS, given_up, done);
    assert!(given_up > 5 && done > 2 && midway > 3, "{given_up} {done} {midway}");
}

/// REV-50. No directory can be made from some moment on, so neither the rest of the chain can be reverted nor the other runs applied again.
#[test]
fn every_run_of_a_chain_that_stays_reverted_is_named() {
    if !has_strace() {
        return;
    }
    let mut most = 0;
    for number in 1.. {
        let (project, chain) = chain_of_three();
        let after = project.snapshot();
        let inject = format!("inject=?mkdir,?mkdirat:error=EACCES:when={number}+");
        let mut command = Command::new("strace");
        command.args(["-qq", "-o", "/dev/null", "-e", "trace=?mkdir,?mkdirat", "-e", &inject]);
        command.arg(project.command().get_program()).args(["revert", &chain]).current_dir(project.root());
        let output = run_command(command.stdin(Stdio::null()));
        if output.code == 0 {
            break;
        }
        // The directory of a restore says that it is done, so the next command records that first.
        let is_pending = output.err.contains("finishes or undoes the revert of");
        let pending =
            project.runs().into_iter().find(|id| output.err.contains(&format!("the revert of {id}")));
        for id in project.runs().into_iter().filter(|id| Some(id) != pending.as_ref()) {
            let is_reverted = project.result(&id)["put_back"].is_object();
            let own = format!("own-{}.txt", id.rsplit('-').next().unwrap());
            assert_eq!(project.exists(own), !is_reverted, "{number}: {}", output.err);
            let is_named = output.err.contains(&format!("{id} stays reverted"));
            assert_eq!(is_named, is_reverted, "{number}: {id}: {}", output.err);
        }
        let stay = reverted(&project);
        assert_eq!(output.code == 4, stay > 0, "{number}: {}", output.err);
        most = most.max(stay);
        assert_eq!(is_pending, pending.is_some());
        project.checkpoint();
        for id in project.runs() {
            if project.result(&id)["put_back"].is_object() {
                project.decree(["apply", &id]).ok();
            }
        }
        assert_same(&project.snapshot(), &after);
    }
    assert_eq!(most, 2, "two of them stay reverted if the first cannot be");
}

/// REV-51.
#[test]
fn an_apply_that_is_interrupted_says_which_runs_are_applied() {
    if !has_strace() {
        return;
    }
    let (project, chain) = chain_of_three();
    let after = project.snapshot();
    let artifact = temp_dir();
    let staged = artifact.path().join("staged");
    project.decree(["stage", staged.to_str().unwrap()]).ok();
    project.decree(["revert", &chain]).ok();
    let before = project.snapshot();
    let all_from = ["apply", "--all", "--from", staged.to_str().unwrap()];
    for args in [&["apply", &chain][..], &all_from] {
        let mut midway = 0;
        let given_up = |output: &CommandOutput| {
            let applied = 3 - reverted(&project);
            assert_eq!(output.err.contains(UNCHANGED), applied == 0, "{}", output.err);
            if applied == 0 {
                assert_same(&project.snapshot(), &before);
            } else {
                assert!(project.exists(format!("own-{}.txt", applied - 1)), "{}", output.err);
                assert!(!project.exists(format!("own-{applied}.txt")), "{}", output.err);
                assert_words(output, &[&format!("still applied: {applied} run")]);
                midway += 1;
                project.decree(["revert", &chain]).ok();
                assert_same(&project.snapshot(), &before);
            }
        };
        let done = |_: &CommandOutput| {
            assert_same(&project.snapshot(), &after);
            assert_eq!(reverted(&project), 0);
            project.decree(["revert", &chain]).ok();
        };
        let (given_up, done) = at_each_call(|| project.command(), args, &CALLS, given_up, done);
        assert!(given_up > 3 && done > 2 && midway > 2, "{args:?}: {given_up} {done} {midway}");
    }
}

/// A checkpoint, and a kept run since.
fn kept_since_checkpoint() -> (PipelineProject, String, TreeSnapshot, TreeSnapshot) {
    let project = PipelineProject::with("echo work >>notes.txt; echo new >new.txt; rm docs/guide.md");
    project.spec("01-a", "# A\n").write("specs/processed-spec.md", "");
    let (id, before) = (project.checkpoint(), project.snapshot());
    project.process().ok();
    let after = project.snapshot();
    (project, id, before, after)
}

/// The checkpoint of the present that the output names.
#[track_caller]
fn saved_present(output: &CommandOutput) -> String {
    let (_, rest) = output.err.split_once("is saved: `decree rollback ").expect(&output.err);
    rest.split_once('`').unwrap().0.to_owned()
}

/// RBK-40.
#[test]
fn going_back_to_a_checkpoint_is_given_up_before_anything_changes_or_finished_and_reported() {
    if !has_strace() {
        return;
    }
    let (project, id, before, after) = kept_since_checkpoint();
    let run = project.only_run();
    for args in [&["rollback", &id][..], &["revert", &id], &["recover", &id]] {
        let given_up = |output: &CommandOutput| {
            assert_same(&project.snapshot(), &after);
            assert_eq!((reverted(&project), project.tracker()), (0, vec!["01-a.spec.md".to_owned()]));
            assert_words(output, &[UNCHANGED]);
        };
        let done = |output: &CommandOutput| {
            assert!(project.tracker().is_empty() && reverted(&project) == 1, "{}", output.err);
            assert_words(output, &[&run]);
            if args[0] == "rollback" {
                assert_words(output, &["rolled back", "verified against"]);
            }
            project.write("specs/processed-spec.md", "");
            assert_same(&project.snapshot(), &before);
            project.decree(["rollback", &saved_present(output)]).ok();
            project.write("specs/processed-spec.md", "01-a.spec.md\n");
            assert_same(&project.snapshot(), &after);
        };
        let (given_up, done) = at_each_call(|| project.command(), args, &CALLS, given_up, done);
        assert!(given_up > 0 && done > 3, "{args:?}: {given_up} {done}");
    }
}

/// RBK-41.
#[test]
fn a_forced_apply_is_given_up_before_anything_changes_or_finished_and_reported() {
    if !has_strace() {
        return;
    }
    let project = PipelineProject::with("echo work >notes.txt");
    project.spec("01-a", "# A\n").process().ok();
    let run = project.only_run();
    project.decree(["revert", &run]).ok();
    project.write("notes.txt", "an hour of work\n");
    let before = project.snapshot();
    let given_up = |output: &CommandOutput| {
        assert_same(&project.snapshot(), &before);
        assert_eq!(reverted(&project), 1);
        assert_words(output, &[UNCHANGED]);
    };
    let done = |output: &CommandOutput| {
        assert_eq!((project.read("notes.txt"), reverted(&project)), (b"work\n".to_vec(), 0));
        project.decree(["rollback", &saved_present(output)]).ok();
        assert_same(&project.snapshot(), &before);
    };
    let args = ["apply", &run, "--force", "--yes"];
    let (given_up, done) = at_each_call(|| project.command(), &args, &CALLS, given_up, done);
    assert!(given_up > 3 && done > 2, "{given_up} {done}");
}

/// RBK-40. The index of git goes back with the files.
#[test]
fn an_interrupted_rollback_to_a_stash_has_restored_the_files_and_the_index_or_neither() {
    if !has_strace() {
        return;
    }
    // The signal comes with the saving of the present, and when the files or the index are replaced.
    for (is_only_staged, call) in [(false, "syncfs"), (true, "rename")] {
        let repo = Repo::with("true", &[]);
        repo.write("src.txt", "one\n");
        repo.commit_all("first");
        let state = || (repo.read("src.txt"), repo.git(["ls-files", "-s"]).ok().text());
        let before = state();
        let id = repo.decree(["checkpoint", "create", "--type", "git_stash"]).ok().line();
        repo.write("src.txt", "two\n");
        repo.git(["add", "src.txt"]).ok();
        if is_only_staged {
            repo.write("src.txt", "one\n");
        }
        let after = state();
        assert_ne!(before.1, after.1);
        let given_up = |output: &CommandOutput| {
            assert_eq!(state(), after, "{}", output.err);
            assert_words(output, &[UNCHANGED]);
        };
        let done = |output: &CommandOutput| {
            assert_eq!(state(), before, "{}", output.err);
            repo.decree(["rollback", &saved_present(output)]).ok();
            assert_eq!(state(), after, "{}", output.err);
        };
        let (given_up, done) = at_each_call(|| repo.command(), &["rollback", &id], &[call], given_up, done);
        assert!(given_up + done > 0, "{call}");
    }
}

/// REV-52.
#[test]
fn the_commits_of_a_run_go_back_with_its_files_despite_an_interrupt() {
    if !has_strace() {
        return;
    }
    let routine = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@localhost\n\
         echo work >>src.txt; git add -A && git commit -q -m 'by the routine'";
    let mut interrupted = 0;
    for (call, numbers) in [("syncfs", 1..=1), ("fsync", 1..=20), ("unlinkat", 1..=20)] {
        for number in numbers {
            let repo = Repo::with(routine, &[("01-a", "# A\n")]);
            let head = || repo.git(["rev-parse", "HEAD"]).ok().line();
            let before = head();
            repo.process().ok();
            let (run, committed) = (repo.only_run(), head());
            let (output, came) = interrupt_at(&repo.command(), &["revert", &run], call, number);
            if output.code == SIGINT {
                assert!(repo.exists("src.txt") && head() == committed, "{}", output.err);
                assert_words(&output, &[UNCHANGED]);
            } else {
                assert_eq!(output.code, 0, "{}", output.err);
                assert!(!repo.exists("src.txt") && head() == before, "{}", output.err);
            }
            if !came {
                break;
            }
            interrupted += 1;
        }
    }
    assert!(interrupted > 3, "{interrupted}");
}
