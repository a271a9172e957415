//! Objects that were overwritten in place: their second names are the same files. Files among the refs that are no refs.

use super::{COMMIT, commit, repo, script, view};
use crate::harness::assert_same;
use crate::publish::Repo;

const ALL: &str = "for o in $(find .git/objects -type f); do chmod u+w $o; echo junk >$o; done";
/// Blobs alone: git does not read them to tell whether everything is there.
const BLOB: &str = "o=$(git rev-parse HEAD:notes.txt); o=.git/objects/${o:0:2}/${o:2}; chmod u+w $o";

fn packed(text: &str) -> Repo {
    let repo = repo(text);
    repo.git(["gc", "-q", "--prune=now"]).ok();
    repo
}

/// GIT-89.
#[test]
fn a_command_that_overwrites_objects_has_failed_whatever_its_exit_code() {
    let truncated = format!("{BLOB}; : >$o");
    let same_size = format!("{BLOB}; head -c $(stat -c %s $o) /dev/urandom >$o");
    for wreck in [ALL, &truncated, &same_size] {
        for end in ["exit 0", "exit 7"] {
            let work = format!("echo work >>docs/guide.md; {wreck}; {end}");
            let repo = repo(&work);
            let tree = repo.snapshot();
            let output = repo.process().fails(4).mentions(&["NOT restored: .git/objects", "overwritten"]);
            assert_same(&repo.snapshot(), &tree);
            if end == "exit 0" {
                assert_eq!(repo.result(&repo.only_run())["status"], "policy", "{wreck}: {}", output.err);
            }
        }
        let repo = repo("");
        let tree = repo.snapshot();
        let line = script(&format!("echo work >>docs/guide.md; {wreck}"));
        repo.decree(["guard", "--", "bash", "-c", &line]).fails(4).mentions(&["overwritten", ".git/objects"]);
        assert_same(&repo.snapshot(), &tree);
    }
}

/// GIT-89.
#[test]
fn a_pack_that_was_overwritten_is_named() {
    let pack = "p=$(echo .git/objects/pack/*.pack); chmod u+w $p";
    for wreck in ["echo junk >$p", "head -c $(stat -c %s $p) /dev/zero >$p.new; cat $p.new >$p; rm $p.new"] {
        let repo = packed(&format!("{pack}; {wreck}"));
        repo.process().fails(4).mentions(&["NOT restored: .git/objects", "overwritten"]);
    }
}

/// GIT-89. A file that took the place of an object leaves the second name whole.
#[test]
fn an_object_that_was_replaced_is_restored() {
    for end in ["exit 0", "exit 7"] {
        let repo = repo(&format!("{BLOB}; echo junk >.git/junk; mv -f .git/junk $o; {end}"));
        let before = view(&repo);
        repo.process().fails(1).mentions(&["git objects"]);
        assert_eq!(view(&repo), before);
        repo.git(["fsck", "--strict", "--no-dangling"]).ok();
    }
}

/// GIT-89. What git itself does to objects is no damage: it touches, packs, loosens and writes them again.
#[test]
fn objects_that_git_touches_packs_or_writes_again_are_whole() {
    let rewrite = "git config core.looseCompression 0; o=$(git rev-parse HEAD:notes.txt)\n\
                   git cat-file blob $o >.git/blob; rm -f .git/objects/${o:0:2}/${o:2}; git hash-object -w --no-filters .git/blob";
    for work in [
        "find .git/objects -type f | xargs touch",
        "git add -A; git hash-object -w docs/guide.md notes.txt",
        "git repack -q -a -d; git prune-packed",
        "git gc -q --prune=now",
        "git repack -q -A -d; git unpack-objects -q <$(echo .git/objects/pack/*.pack)",
        rewrite,
    ] {
        for make in [repo, packed] {
            let repo = make(&format!("{work} >/dev/null; echo work >>docs/guide.md; {COMMIT}"));
            let first = commit(&repo, "HEAD");
            let output = repo.process().ok();
            assert!(!output.err.contains("overwritten"), "{work}: {}", output.err);
            assert_ne!(commit(&repo, "HEAD"), first);
            repo.routine("develop", &script(&format!("{work} >/dev/null; exit 7"))).spec("02-b", "# B\n");
            let output = repo.process_with(&["--spec", "02-*"]).fails(1);
            assert!(!output.err.contains("NOT restored"), "{work}: {}", output.err);
            repo.git(["fsck", "--strict", "--no-dangling"]).ok();
        }
    }
}

/// GIT-90.
#[test]
fn a_file_among_the_refs_that_is_no_ref_is_set_aside_and_named() {
    let work =
        "echo work >>notes.txt; git tag made; mkdir -p .git/refs/heads/a; echo junk >.git/refs/heads/a/zzz\n";
    let repo = repo(&format!("{work} {COMMIT} exit 7"));
    let (first, tree) = (commit(&repo, "HEAD"), repo.snapshot());
    let output = repo.process().fails(1);
    assert_eq!(commit(&repo, "HEAD"), first, "{}", output.err);
    assert!(!output.err.contains("is not restored"), "{}", output.err);
    output.mentions(&["git: main is back at", ".git/refs/heads/a/zzz", "refs/tags/made (created)"]);
    assert_eq!(repo.of_run(&repo.only_run(), "set-aside/.git/refs/heads/a/zzz"), "junk\n");
    repo.decree(["guard", "--", "bash", "-c", &script(&format!("{work} {COMMIT} exit 7"))]).fails(7);
    assert_eq!(commit(&repo, "HEAD"), first);
    assert_same(&repo.snapshot(), &tree);
    repo.git(["for-each-ref"]).ok();
    repo.git(["rev-list", "--all"]).ok();
}
