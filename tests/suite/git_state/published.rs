//! What is pushed, and what is not.

use std::fs;

use super::{COMMIT, commit, repo, script};
use crate::publish::Repo;
use crate::publish::pushing::Remote;

/// GIT-15.
#[test]
fn the_commit_of_a_failed_spec_is_not_pushed_with_another_one() {
    let repo =
        repo(&format!("echo $spec_file >>list.txt; case $spec_file in *01-*) {COMMIT} exit 7 ;; esac"));
    repo.spec("02-b", "# B\n");
    repo.commit_all("second spec");
    let remote = Remote::of(&repo);
    repo.process().fails(1);
    repo.publish(&["--push"]).ok();
    assert_eq!(repo.subjects(), ["second spec", "02-b: B"]);
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    assert_eq!(repo.blob("HEAD", "list.txt"), b"specs/02-b.spec.md\n");
    repo.is_clean();
}

/// GIT-15.
#[test]
fn a_branch_that_contains_a_reverted_runs_commit_is_not_published() {
    let repo = repo(&format!("echo work >>list.txt; {COMMIT} exit 7"));
    let remote = Remote::of(&repo);
    let pushed = remote.tip("main");
    repo.process().fails(1);
    let id = repo.only_run();
    let failed = commit(&repo, &format!("refs/decree/runs/{id}"));
    repo.git(["merge", "-q", "--no-ff", "-m", "merged", &failed]).ok();
    repo.routine("develop", "echo fine >fine.txt").spec("02-b", "# B\n");
    repo.process_with(&["--spec", "02-*"]).ok();
    let before = repo.state();
    for args in [&["--push"][..], &[], &["--branch", "other"]] {
        repo.publish(args).fails(1).mentions(&[&failed, &id, "reverted", "nothing was done"]);
    }
    assert_eq!((repo.state(), remote.tip("main")), (before, pushed));
    // A person who pushes it decides for it.
    repo.git(["push", "-q", "origin", "main"]).ok();
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
}

/// GIT-15. A clean slate is a revert, too.
#[test]
fn the_commit_of_a_failed_attempt_is_not_published_with_its_kept_run() {
    let repo = repo(&format!("echo $DECREE_ATTEMPT >>list.txt; {COMMIT} [ $DECREE_ATTEMPT = 2 ]"));
    repo.config("max_retries: 1\n");
    let remote = Remote::of(&repo);
    repo.process().ok();
    repo.publish(&["--push"]).ok();
    assert_eq!(repo.blob("HEAD", "list.txt"), b"2\n");
    assert_eq!(repo.subjects(), ["by the routine", "01-a: A"]);
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
}

/// GIT-16.
#[test]
fn runs_that_committed_and_runs_that_did_not_are_published_together() {
    let text = format!(
        "echo $spec_file >>list.txt; echo x >\"$(basename $spec_file).txt\"\n\
         case $spec_file in *01-*|*03-*) {COMMIT} ;; *04-*) git add list.txt; git commit -qm half ;; esac"
    );
    let repo = repo(&text);
    for (name, heading) in [("02-b", "# B\n"), ("03-c", "# C\n"), ("04-d", "# D\n"), ("05-e", "# E\n")] {
        repo.spec(name, heading);
    }
    repo.commit_all("specs");
    let remote = Remote::of(&repo);
    repo.process().ok();
    let own = commit(&repo, "HEAD");
    let output = repo.publish(&["--push"]).ok();
    output.mentions(&["committed by itself", &own[..10], "half", "pushed main to origin"]);
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    assert_eq!(repo.blob("HEAD", "list.txt"), repo.read("list.txt"));
    let list = |commit: &str| repo.says(["show", "--format=", "--name-only", commit]);
    assert_eq!(list(":/04-d"), "04-d.spec.md.txt\nspecs/processed-spec.md");
    assert_eq!(list(":/03-c"), "specs/processed-spec.md");
    assert_eq!(list(":/05-e"), "05-e.spec.md.txt\nlist.txt\nspecs/processed-spec.md");
    // The third run committed what the first two had left, with their lines of the tracker.
    let subjects = repo.subjects();
    assert_eq!(subjects[4..], ["03-c: C", "04-d: D", "05-e: E"], "{subjects:?}");
    repo.is_clean();
    repo.publish(&["--push"]).ok().mentions(&["nothing to commit"]);
}

/// GIT-16. Nothing is left to commit, and there is something to push.
#[test]
fn what_a_run_committed_is_pushed_even_if_nothing_else_is_to_commit() {
    let repo = repo(&format!("echo work >>list.txt; {COMMIT}"));
    let remote = Remote::of(&repo);
    repo.run(&["-p", "do it"]).ok();
    let own = commit(&repo, "HEAD");
    let answer = repo.publish_json(&["--push"]);
    assert_eq!((&answer["pushed"], &answer["own_commits"][0]["sha"]), (&true.into(), &own.clone().into()));
    assert_eq!(answer["commits"], serde_json::json!([]));
    assert_eq!(remote.tip("main"), own);
}

/// GIT-16. A secret in what a routine committed is found like in any other change.
#[test]
fn a_secret_in_a_routines_own_commit_is_not_pushed() {
    let repo = repo("");
    repo.routine("develop", &script(&format!("echo hush-hush-hush >>list.txt; {COMMIT}")));
    let remote = Remote::of(&repo);
    let pushed = remote.tip("main");
    repo.process().ok();
    let output = repo.publish_with(&["--push"], &[("MY_TOKEN", "hush-hush-hush")]);
    output.fails(1).mentions(&["a secret of the environment", "list.txt"]);
    assert_eq!(remote.tip("main"), pushed);
}

const SECRET: (&str, &str) = ("MY_TOKEN", "hush-hush-hush");
const SECRET_KEY: (&str, &str) = ("API_KEY", "hush-hush-hush");

/// Publishes with a secret in the environment; the push has to be refused, and the commit has to be named.
#[track_caller]
pub(super) fn is_refused(repo: &Repo, remote: &Remote, commit: &str, words: &[&str]) {
    let (before, pushed) = (repo.state(), remote.tip("main"));
    for args in [&["--push"][..], &["--push", "--dry-run"], &["--push", "--branch", "other"], &[]] {
        let output = repo.publish_with(args, &[SECRET]).fails(1).mentions(words);
        let output = output.mentions(&[commit, "nothing was done"]);
        assert!(!output.err.contains(SECRET.1), "{}", output.err);
    }
    assert_eq!((repo.state(), remote.tip("main"), remote.tip("other")), (before, pushed, String::new()));
}

/// GIT-20. The net change has nothing of it; the commits have.
#[test]
fn a_secret_that_one_commit_adds_and_the_next_removes_is_not_pushed() {
    let cases = [
        ("echo key=hush-hush-hush >leak", "leak", "leak"),
        ("echo x >leak-hush-hush-hush", "leak-hush-hush-hush", "leak-***"),
        ("ln -s hush-hush-hush leak", "leak", "leak"),
    ];
    for (make, file, shown) in cases {
        let repo = repo(&format!("echo work >>list.txt; {make}; {COMMIT} git rm -q {file}; {COMMIT}"));
        let remote = Remote::of(&repo);
        repo.process().ok();
        let leak = commit(&repo, "HEAD~1");
        is_refused(&repo, &remote, &leak[..10], &["a secret of the environment", shown]);
        // Without the secret it is work like any other.
        repo.publish(&["--push"]).ok();
        assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    }
}

/// GIT-20. A remote-tracking ref that the routine wrote does not prove that a remote has the commit.
#[test]
fn a_tracking_ref_that_a_routine_wrote_does_not_hide_a_secret() {
    let repo = repo(&format!(
        "echo work >>list.txt; echo hush-hush-hush >leak; {COMMIT} \
         git update-ref refs/remotes/origin/tmp HEAD; git rm -q leak; {COMMIT}"
    ));
    let remote = Remote::of(&repo);
    repo.process().ok();
    let leak = commit(&repo, "HEAD~1");
    is_refused(&repo, &remote, &leak[..10], &["a secret of the environment", "leak"]);
}

/// GIT-20. What is no file: the message, the author, and what a replacement hides.
#[test]
fn a_secret_in_a_message_or_a_name_is_not_pushed() {
    let commit_all = "echo work >>list.txt; git add -A";
    let cases = [
        format!("{commit_all}; git commit -qm 'use hush-hush-hush'"),
        format!("{commit_all}; git commit -qm 'subject' -m 'body hush-hush-hush'"),
        format!("{commit_all}; GIT_AUTHOR_NAME=hush-hush-hush git commit -qm x"),
        format!("{commit_all}; GIT_COMMITTER_EMAIL=hush-hush-hush@example.com git commit -qm x"),
        format!(
            "{commit_all}; git commit -qm hush-hush-hush; \
             git replace HEAD $(git commit-tree -p HEAD~1 -m clean 'HEAD^{{tree}}')"
        ),
    ];
    for case in cases {
        let repo = repo(&case);
        let remote = Remote::of(&repo);
        repo.process().ok();
        let leak = repo.says(["--no-replace-objects", "rev-parse", "HEAD"]);
        is_refused(
            &repo,
            &remote,
            &leak[..10],
            &["a secret of the environment", "message, author or committer"],
        );
    }
}

/// GIT-20. A commit of an earlier batch, which no remote has, and of a merge.
#[test]
fn a_secret_in_an_earlier_batch_and_in_a_merge_is_not_pushed() {
    let repo = repo(&format!(
        "git checkout -q -b topic; echo hush-hush-hush >leak; {COMMIT} git rm -q leak; echo t >topic.txt; {COMMIT}\n\
         git checkout -q main; echo work >>list.txt; {COMMIT} git merge -q --no-ff -m merged topic"
    ));
    let remote = Remote::of(&repo);
    repo.process().ok();
    let leak = commit(&repo, "topic~1");
    repo.routine("develop", "echo more >>list.txt").spec("02-b", "# B\n");
    repo.process_with(&["--spec", "02-*"]).ok();
    let pushed = remote.tip("main");
    let output = repo.publish_with(&["--push"], &[SECRET]).fails(1);
    output.mentions(&["a secret of the environment", &leak[..10], "leak"]);
    assert_eq!(remote.tip("main"), pushed);
}

/// GIT-44. What git is made to overlook is searched, or not sent.
#[test]
fn a_commit_that_a_routine_hides_from_git_is_not_pushed() {
    let leak =
        format!("echo key=hush-hush-hush >leak; {COMMIT} git rm -q leak; echo work >work.txt; {COMMIT}");
    let ids = "first=$(git rev-parse HEAD~2) last=$(git rev-parse HEAD)";
    for hide in [
        "mkdir -p .git/info; echo $last $first >.git/info/grafts",
        "git replace --graft $last $first",
        "echo $last >.git/shallow",
    ] {
        let repo = repo(&format!("{leak} {ids}; {hide}"));
        let remote = Remote::of(&repo);
        repo.process().ok();
        let reflog = fs::read_to_string(repo.path(".git/logs/HEAD")).unwrap();
        let leak = reflog.lines().rev().nth(1).unwrap().split(' ').nth(1).unwrap();
        if hide.contains("shallow") {
            let pushed = remote.tip("main");
            assert_ne!(repo.publish_with(&["--push"], &[SECRET]).code, 0);
            assert_eq!(remote.tip("main"), pushed);
        } else {
            is_refused(&repo, &remote, &leak[..10], &["a secret of the environment", "leak"]);
        }
        assert!(!remote.has(leak), "{hide}");
    }
}

/// SEE-51. A word such as the name of a program is the password of many test databases.
#[test]
fn a_plain_word_of_the_environment_is_named_and_not_refused() {
    for act in ["true", COMMIT] {
        let repo = repo(&format!("echo 'image: postgres' >compose.yml; {act}"));
        let remote = Remote::of(&repo);
        repo.process().ok();
        // A longer value, and one with other characters than letters, is as secret as any other.
        for value in ["image: postgres", "compose.yml"] {
            let output = repo.publish_with(&["--push"], &[("POSTGRES_PASSWORD", value)]).fails(1);
            output.mentions(&["a secret of the environment"]);
        }
        let variables = [("POSTGRES_PASSWORD", "postgres"), ("DATABASE_URL", "postgres://x:postgres@db/x")];
        let output = repo.publish_with(&["--push"], &variables).ok();
        output.mentions(&["compose.yml", "a plain word, or known to a remote already", "not refused"]);
        assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
        assert_eq!(repo.blob("HEAD", "compose.yml"), b"image: postgres\n");
        // Logs mask it all the same.
        let id = repo.only_run();
        let log = repo.decree_with_env(&["report", "--format", "markdown"], &variables).ok().text();
        assert!(log.contains("image: ***") && !log.contains("postgres"), "{id}: {log}");
    }
}

/// SEE-51. What the remote has is not kept from it. What only this repository has is.
#[test]
fn a_value_that_a_remote_has_already_is_named_and_not_refused() {
    for act in ["true", COMMIT] {
        let repo = repo(&format!("cp known.txt again.txt; {act}"));
        repo.write("known.txt", "key=hush-hush-hush\nand more\n");
        repo.commit_all("known");
        let remote = Remote::of(&repo);
        repo.write("mine.txt", "key=other-other-other\n");
        repo.commit_all("not pushed yet");
        repo.process().ok();
        let pushed = remote.tip("main");
        let other = ("MY_TOKEN", "other-other-other");
        let output = repo.publish_with(&["--push"], &[SECRET_KEY, other]).fails(1);
        let output = output.mentions(&["a secret of the environment", "mine.txt"]);
        assert!(!output.err.contains("again.txt"), "{}", output.err);
        assert_eq!(remote.tip("main"), pushed);
        let output = repo.publish_with(&["--push"], &[SECRET_KEY]).ok();
        let output = output.mentions(&["again.txt", "known to a remote already", "not refused"]);
        assert!(!output.err.contains("hush-hush-hush"), "{}", output.err);
        assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    }
}

/// SEE-61. How the user likes to read the output of `git grep` does not matter.
#[test]
fn a_known_value_is_recognized_whatever_the_settings_of_git_are() {
    let repo = repo(&format!("cp known.txt again.txt; {COMMIT}"));
    repo.write("known.txt", "one\nkey=hush-hush-hush\n");
    repo.commit_all("known");
    let remote = Remote::of(&repo);
    repo.process().ok();
    let settings = ["grep.lineNumber", "grep.column", "grep.fullName", "color.ui", "color.grep"];
    for setting in settings {
        repo.git(["config", setting, if setting.starts_with("color") { "always" } else { "true" }]).ok();
        let output = repo.publish_with(&["--push", "--dry-run"], &[SECRET_KEY]).ok();
        output.mentions(&["again.txt", "known to a remote already"]);
        repo.git(["config", "--unset", setting]).ok();
    }
    for setting in settings {
        repo.git(["config", setting, if setting.starts_with("color") { "always" } else { "true" }]).ok();
    }
    repo.publish_with(&["--push"], &[SECRET_KEY]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
}

/// SEE-61. A value with a line break at its end, one of several lines, one within another, and two that overlap.
#[test]
fn a_known_value_is_recognized_whatever_its_form_is() {
    let repo = repo(&format!("cp known.txt again.txt; echo 'image: postgres' >compose.yml; {COMMIT}"));
    repo.write("known.txt", "key=Known-Value-99-more\nline-one-of-it\nline-two\nend\n");
    repo.commit_all("known");
    let remote = Remote::of(&repo);
    repo.process().ok();
    let known: [&[(&str, &str)]; 6] = [
        &[("API_KEY", "Known-Value-99\n")],
        &[("API_KEY", "line-one-of-it\nline-two\nend")],
        &[("API_KEY", "line-one-of-it\nline-two\nend\n")],
        &[("A_TOKEN", "Known-Value-99"), ("B_TOKEN", "Known-Value"), ("C_TOKEN", "Value-99")],
        &[("A_TOKEN", "Known-Value-99"), ("B_TOKEN", "Value-99-more")],
        &[("APP_PASSWORD", "postgres\n")],
    ];
    for variables in known {
        let output = repo.publish_with(&["--push", "--dry-run"], variables).ok();
        output.mentions(&["not refused"]);
    }
    // The remote has a part of it, or parts that any text has.
    for value in
        ["key=Known-Value-99-more\nimage: postgres", "key=Known-Value-99-more\nab1", "one\nend\nmore\nend"]
    {
        repo.write("more.txt", value);
        repo.commit_all("more");
        let pushed = remote.tip("main");
        let output = repo.publish_with(&["--push"], &[("API_KEY", value)]).fails(1);
        output.mentions(&["a secret of the environment", "more.txt"]);
        assert_eq!(remote.tip("main"), pushed);
    }
    repo.publish_with(&["--push"], known[3]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
}

/// SEE-51. A remote-tracking ref that the routine wrote does not make a value known.
#[test]
fn a_value_that_only_a_routine_says_a_remote_has_is_refused() {
    let repo = repo(&format!(
        "echo hush-hush-hush >leak; {COMMIT} git update-ref refs/remotes/origin/tmp HEAD; cp leak more; {COMMIT}"
    ));
    let remote = Remote::of(&repo);
    repo.process().ok();
    is_refused(&repo, &remote, &commit(&repo, "HEAD")[..10], &["a secret of the environment", "more"]);
}

/// GIT-21.
#[test]
fn a_likely_secret_that_a_run_committed_is_not_pushed() {
    let repo = repo(&format!("echo work >>list.txt; {COMMIT}"));
    let remote = Remote::of(&repo);
    repo.write(".env", "PASSWORD=x\n").write("keys/server.key", "-----BEGIN PRIVATE KEY-----\n");
    repo.write("keys/public.pem", "-----BEGIN CERTIFICATE-----\n");
    repo.process().ok();
    let leak = commit(&repo, "HEAD");
    is_refused(&repo, &remote, &leak[..10], &["likely secret", ".env", "keys/server.key"]);
    let output = repo.publish(&["--push"]);
    assert!(!output.err.contains("public.pem"), "{}", output.err);
    // The config decides what is one.
    repo.config("max_retries: 0\nsensitive:\n  allow: [.env, '*.key']\n");
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
}

/// GIT-21. It is in the commits, although it is in neither end.
#[test]
fn a_likely_secret_of_an_earlier_attempt_is_not_pushed() {
    let repo = repo(
        "echo $DECREE_ATTEMPT >>list.txt; [ $DECREE_ATTEMPT = 1 ] || git rm -q --cached .env\n\
         git add list.txt; [ $DECREE_ATTEMPT = 2 ] || git add -A; git commit -qm x; [ $DECREE_ATTEMPT = 2 ]",
    );
    repo.config("max_retries: 2\n");
    let remote = Remote::of(&repo);
    repo.write(".env", "PASSWORD=x\n");
    repo.process().ok();
    let leak = commit(&repo, "HEAD~1");
    is_refused(&repo, &remote, &leak[..10], &["likely secret", ".env"]);
}

/// GIT-21. What was tracked before the run is the user's decision.
#[test]
fn a_likely_secret_that_was_tracked_before_is_published() {
    let repo = repo(&format!("echo work >>list.txt; echo MORE=1 >>.env; {COMMIT}"));
    let remote = Remote::of(&repo);
    repo.write(".env", "MODE=test\n");
    repo.commit_all("settings");
    repo.process().ok();
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    assert_eq!(repo.blob("HEAD", ".env"), b"MODE=test\nMORE=1\n");
}
