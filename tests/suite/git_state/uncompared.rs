//! Where git's state cannot even be compared with the checkpoint: an index or a HEAD that cannot be read, a store that lost content.

use std::fs;

use serde_json::Value;

use super::{COMMIT, commit, make_busy, repo, script, view};
use crate::harness::{assert_same, skip};
use crate::publish::Repo;
use crate::publish::pushing::Remote;
use crate::revert::{as_nobody, hand_over};

/// Fills every pack of the store with zeros, in place.
const SPOIL_STORE: &str =
    "for pack in .decree/store/*.pack; do chmod u+w $pack; head -c 100000 /dev/zero >$pack; done";

/// Processes another spec, whose routine succeeds, and pushes it: nothing of the failed work is on the branch.
#[track_caller]
fn publishes_without(repo: &Repo, failed: &str) {
    let remote = Remote::of(repo);
    repo.routine("develop", "echo fine >fine.txt").spec("02-b", "# B\n");
    repo.process_with(&["--spec", "02-*"]).ok();
    repo.publish(&["--push"]).ok();
    assert_eq!(repo.subjects()[0], "02-b: B");
    assert!(!remote.has(failed), "the commit of the failed run was pushed");
}

/// GIT-85.
#[test]
fn a_directory_in_the_place_of_the_index_keeps_no_commit_on_the_branch() {
    for wreck in ["rm .git/index; mkdir .git/index", "rm .git/index; mkdir -p .git/index/more"] {
        let work =
            format!("echo work >>notes.txt; {COMMIT} git rev-parse HEAD >.git/failed; {wreck}; exit 7");
        let repo = repo(&work);
        make_busy(&repo);
        let (before, tree) = (view(&repo), repo.snapshot());
        let output = repo.process().fails(1);
        assert_eq!(view(&repo), before, "{wreck}\n{}", output.err);
        assert_same(&repo.snapshot(), &tree);
        let id = repo.only_run();
        output.mentions(&["git: main is back at", &format!("refs/decree/runs/{id}")]);
        assert!(repo.run_has(&id, "set-aside/.git/index"), "what was in the way is kept");
        // The files of a guarded command are rolled back, too.
        repo.decree(["guard", "--", "bash", "-c", &script(&work)])
            .fails(7)
            .mentions(&["git: main is back at"]);
        assert_eq!(view(&repo), before, "{wreck}");
        assert_same(&repo.snapshot(), &tree);
        repo.git(["reset", "-q", "--hard"]).ok();
        publishes_without(&repo, repo.text(".git/failed").trim());
    }
}

/// GIT-85.
#[test]
fn an_index_without_permissions_keeps_no_commit_on_the_branch() {
    if !skip::as_root() {
        return;
    }
    let work = format!("echo work >>notes.txt; {COMMIT} chmod 000 .git/index; exit 7");
    let repo = repo(&work);
    hand_over(repo.root());
    let head = || fs::read(repo.path(".git/refs/heads/main")).unwrap();
    let (before, index) = (head(), fs::read(repo.path(".git/index")).unwrap());
    as_nobody(&repo, &["process"]).fails(1).mentions(&["git: main is back at"]);
    assert_eq!((head(), fs::read(repo.path(".git/index")).unwrap()), (before.clone(), index.clone()));
    let guard = script(&work);
    as_nobody(&repo, &["guard", "--", "bash", "-c", &guard]).fails(7).mentions(&["git: main is back at"]);
    assert_eq!((head(), fs::read(repo.path(".git/index")).unwrap()), (before.clone(), index));
    as_nobody(&repo, &["guard", "--", "true"]).ok();
    // A command that succeeds has broken the repository, too.
    let line = "echo work >>notes.txt; chmod 000 .git/index";
    as_nobody(&repo, &["guard", "--", "bash", "-c", line]).fails(1).mentions(&[".git lost its index"]);
    as_nobody(&repo, &["guard", "--", "true"]).ok();
    // Without an index that can be read there would be no way back.
    repo.chmod(".git/index", 0o000);
    as_nobody(&repo, &["process"]).fails(4).mentions(&[".git/index"]);
    assert_eq!(head(), before);
}

/// GIT-85. Files go back whatever is in git's directory.
#[test]
fn a_guard_rolls_files_back_if_git_cannot_be_read() {
    for wreck in ["rm .git/HEAD; mkdir .git/HEAD", "rm -f .git/packed-refs; mkdir .git/packed-refs"] {
        let repo = repo("");
        let (first, tree) = (commit(&repo, "HEAD"), repo.snapshot());
        let line = script(&format!("echo work >>notes.txt; {COMMIT} {wreck}; exit 7"));
        let output = repo.decree(["guard", "--", "bash", "-c", &line]);
        assert!([4, 7].contains(&output.code), "{wreck}: {}", output.err);
        assert_same(&repo.snapshot(), &tree);
        if output.code == 4 {
            // git's state follows once the cause is gone.
            repo.decree(["guard", "--", "true"]).fails(4).mentions(&["packed-refs"]);
            fs::remove_dir(repo.path(".git/packed-refs")).unwrap();
            repo.decree(["guard", "--", "true"]).ok().mentions(&["git: main is back at"]);
        }
        assert_eq!(commit(&repo, "HEAD"), first, "{wreck}\n{}", output.err);
    }
}

/// GIT-86. The run is settled, and only the list of other refs is lost.
#[test]
fn a_store_without_the_list_of_refs_keeps_no_commit_on_the_branch() {
    let work = format!(
        "git commit -q --allow-empty -m failed; git rev-parse HEAD >.git/failed; {SPOIL_STORE}; exit 7"
    );
    let repo = repo(&work);
    let first = commit(&repo, "HEAD");
    let output = repo.process().fails(4);
    assert_eq!(commit(&repo, "HEAD"), first, "{}", output.err);
    output.mentions(&["git: main is back at", "git's own state is not restored: other refs", ".pack"]);
    let failed = repo.text(".git/failed").trim().to_owned();
    assert_eq!(commit(&repo, &format!("refs/decree/runs/{}", repo.only_run())), failed);
    repo.decree(["recover"]);
    publishes_without(&repo, &failed);
}

/// GIT-86. The files need the store, so the run is settled by `recover`.
#[test]
fn recover_takes_head_back_without_the_store() {
    let work =
        format!("echo work >>notes.txt; {COMMIT} git rev-parse HEAD >.git/failed; {SPOIL_STORE}; exit 7");
    let repo = repo(&work);
    let first = commit(&repo, "HEAD");
    repo.process().fails(4).mentions(&["decree recover"]);
    let output = repo.decree(["recover", "--format", "json"]).fails(4);
    let answer: Value = serde_json::from_slice(&output.out).unwrap();
    assert_eq!(commit(&repo, "HEAD"), first, "{}", output.err);
    let named = answer["not_restored"].to_string();
    assert!(named.contains(".git/index") && named.contains("other refs"), "{answer}");
    // Nothing is staged: the index is that of HEAD, and the one that was found is kept.
    assert_eq!(repo.says(["diff", "--cached", "--name-only"]), "");
    assert!(repo.run_has(&repo.only_run(), "git/index"));
    repo.git(["checkout", "-q", "--", "."]).ok();
    let failed = repo.text(".git/failed").trim().to_owned();
    publishes_without(&repo, &failed);
    // A person may bring it back; decree does not publish it.
    repo.git(["merge", "-q", "--no-ff", "-m", "merged", &failed]).ok();
    repo.publish(&["--push"]).fails(1).mentions(&[&failed, "nothing was done"]);
}

/// GIT-86. The same for a guarded command.
#[test]
fn recover_takes_head_back_after_a_guard_without_the_store() {
    let repo = repo("");
    let first = commit(&repo, "HEAD");
    let line = script(&format!("echo work >>notes.txt; {COMMIT} {SPOIL_STORE}; exit 7"));
    repo.decree(["guard", "--", "bash", "-c", &line]).fails(4).mentions(&["decree recover"]);
    let failed = commit(&repo, "HEAD");
    repo.publish(&[]).fails(1);
    let output = repo.decree(["recover", "--format", "json"]).fails(4);
    let answer: Value = serde_json::from_slice(&output.out).unwrap();
    let named = answer["not_restored"].to_string();
    assert!(named.contains(".git/index") && named.contains("other refs"), "{answer}");
    assert_eq!(commit(&repo, "HEAD"), first, "{}", output.err);
    repo.git(["reset", "-q", "--hard"]).ok();
    publishes_without(&repo, &failed);
}

/// GIT-85. Packed refs are held, and come back.
#[test]
fn a_directory_in_the_place_of_packed_refs_breaks_no_repository() {
    for end in ["exit 0", "exit 7"] {
        let repo = repo(&format!("echo work >>notes.txt; {COMMIT} {UNREADABLE}; {end}"));
        repo.git(["pack-refs", "--all"]).ok();
        let (before, tree) = (view(&repo), repo.snapshot());
        repo.process().fails(1).mentions(&["git: main is back at", ".git/packed-refs"]);
        assert_eq!(view(&repo), before);
        assert_same(&repo.snapshot(), &tree);
    }
}

/// Commits, and leaves a repository whose refs cannot be read.
const UNREADABLE: &str = "rm -f .git/packed-refs; mkdir .git/packed-refs";

/// GIT-87.
#[test]
fn refs_that_cannot_be_read_hold_everything_up_until_they_can() {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT} {UNREADABLE}; exit 7"));
    let (first, tree) = (commit(&repo, "HEAD"), repo.snapshot());
    repo.process().fails(4).mentions(&["git's own state is not restored"]);
    assert_same(&repo.snapshot(), &tree);
    let id = repo.only_run();
    for args in [&["process"][..], &["guard", "--", "true"], &["publish"]] {
        repo.decree(args).fails(4).mentions(&["git's own state is not restored", ".git/packed-refs"]);
    }
    let output = repo.decree(["recover", "--format", "json"]).fails(4);
    let answer: Value = serde_json::from_slice(&output.out).unwrap();
    assert!(answer["not_restored"][0].as_str().unwrap().contains(".git/packed-refs"), "{answer}");
    fs::remove_dir(repo.path(".git/packed-refs")).unwrap();
    let failed = commit(&repo, "HEAD");
    assert_ne!(failed, first);
    repo.routine("develop", "echo fine >fine.txt");
    repo.process().ok().mentions(&["git: main is back at", &first[..10]]);
    assert_eq!(commit(&repo, "HEAD"), first);
    assert_eq!(commit(&repo, &format!("refs/decree/runs/{id}")), failed);
    repo.publish(&[]).ok();
    // A person may bring it back; decree does not publish it.
    repo.git(["merge", "-q", "--no-ff", "-m", "merged", &failed]).ok();
    repo.publish(&[]).fails(1).mentions(&[&failed, "nothing was done"]);
}

/// GIT-87. `recover --keep` leaves HEAD where it is, and publishes nothing of it.
#[test]
fn a_commit_that_is_kept_unread_is_not_published() {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT} {UNREADABLE}; exit 7"));
    repo.process().fails(4);
    fs::remove_dir(repo.path(".git/packed-refs")).unwrap();
    // Another cause keeps it from being taken back.
    repo.write(".git/index.lock", "");
    let failed = commit(&repo, "HEAD");
    repo.decree(["recover", "--keep"]).ok().mentions(&["git's own state stays as it is"]);
    repo.remove(".git/index.lock");
    assert_eq!(commit(&repo, "HEAD"), failed);
    repo.git(["reset", "-q", "--hard"]).ok();
    repo.routine("develop", "echo fine >fine.txt");
    repo.process().ok();
    repo.publish(&[]).fails(1).mentions(&[&failed, "nothing was done"]);
}

/// GIT-24. A HEAD, an index or packed refs that are a directory are a broken repository, too.
#[test]
fn a_run_that_left_a_directory_in_the_place_of_head_the_index_or_packed_refs_is_not_kept() {
    for name in ["HEAD", "index", "packed-refs"] {
        let work = format!("echo work >>notes.txt; rm -f .git/{name}; mkdir .git/{name}");
        let repo = repo(&work);
        repo.git(["pack-refs", "--all"]).ok();
        let (before, tree) = (view(&repo), repo.snapshot());
        repo.process().fails(1);
        assert_eq!(repo.result(&repo.only_run())["status"], "policy");
        assert_eq!(view(&repo), before);
        repo.decree(["guard", "--", "bash", "-c", &work]).fails(1).mentions(&[&format!("lost its {name}")]);
        assert_eq!(view(&repo), before);
        assert_same(&repo.snapshot(), &tree);
    }
}

/// GIT-91.
#[test]
fn status_names_a_restore_that_is_still_to_be_done() {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT} : >.git/index.lock; exit 7"));
    repo.process().fails(4);
    let id = repo.only_run();
    let output =
        repo.decree(["status"]).ok().mentions(&["git's own state is not restored", "index.lock exists"]);
    let row = output.text().lines().find(|line| line.starts_with("git ")).map(str::to_owned);
    assert!(row.is_some_and(|row| row.contains(&id)), "{}", output.text());
    let status = |key: &str| -> Value {
        let answer = repo.decree(["status", "--format", "json"]).ok();
        serde_json::from_slice::<Value>(&answer.out).unwrap()[key].clone()
    };
    assert!(status("git_pending")[0].as_str().unwrap().contains("index.lock exists"));
    repo.remove(".git/index.lock");
    repo.decree(["recover"]).ok();
    assert_eq!(status("git_pending"), Value::Array(Vec::new()));
    assert!(!repo.decree(["status"]).ok().text().contains("git "));
}
