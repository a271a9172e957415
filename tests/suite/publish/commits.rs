//! Which commits are created, and their messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::Repo;
use crate::pipeline::pipeline_project::WORKS;

/// Adds the spec's name to a file that all specs change.
const ADDS: &str = r#"echo "$spec_file" >>list.txt"#;

/// PUB-01.
#[test]
fn one_commit_per_spec_with_trailers() {
    let repo = Repo::with(ADDS, &[("01-a", "# Add *a*\n"), ("02-b", "Text.\n\n## Add b ##\n")]);
    repo.process().ok();
    let output = repo.publish(&[]).ok().mentions(&["2 commits on main"]);
    assert_eq!(repo.subjects(), ["01-a: Add *a*", "02-b: Add b"]);
    assert_eq!(output.text().lines().count(), 2);
    let runs = repo.runs();
    assert_eq!(
        repo.trailers("HEAD~1"),
        [format!("Decree-Run: {}", runs[0]), "Decree-Spec: specs/01-a.spec.md".to_owned()]
    );
    assert_eq!(
        repo.trailers("HEAD"),
        [format!("Decree-Run: {}", runs[1]), "Decree-Spec: specs/02-b.spec.md".to_owned()]
    );
    let body = repo.says(["log", "-1", "--format=%b"]);
    assert!(body.contains("routine develop, 1 attempt, 1 file, +1 −0"), "{body}");
    assert_eq!(repo.says(["log", "-1", "--format=%an <%ae>"]), "Some One <one@example.com>");
    repo.is_clean();
}

/// PUB-02.
#[test]
fn two_specs_that_change_the_same_file_have_each_their_own_content() {
    let repo = Repo::with(ADDS, &[("01-a", "# A\n"), ("02-b", "# B\n"), ("03-c", "# C\n")]);
    repo.process().ok();
    repo.publish(&[]).ok();
    let line = |name: &str| format!("specs/{name}.spec.md\n");
    let expected = [line("01-a"), line("01-a") + &line("02-b"), line("01-a") + &line("02-b") + &line("03-c")];
    for (commit, expected) in ["HEAD~2", "HEAD~1", "HEAD"].iter().zip(&expected) {
        assert_eq!(repo.blob(commit, "list.txt"), expected.as_bytes(), "{commit}");
    }
    repo.is_clean();
}

/// PUB-03.
#[test]
fn every_commit_has_the_tracker_as_of_its_spec() {
    let repo = Repo::with(ADDS, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.write("specs/processed-spec.md", "# done\r\n00-x.spec.md\r\n");
    repo.commit_all("tracker");
    repo.process().ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.blob("HEAD~1", "specs/processed-spec.md"), b"# done\r\n00-x.spec.md\r\n01-a.spec.md\r\n");
    assert_eq!(repo.blob("HEAD", "specs/processed-spec.md"), repo.read("specs/processed-spec.md"));
    repo.is_clean();
}

/// PUB-03. A spec that had nothing to change is done all the same.
#[test]
fn a_spec_without_a_change_is_a_commit_of_its_line_in_the_tracker() {
    let repo = Repo::with("true", &[("01-a", "# A\n")]);
    repo.process().ok();
    let answer = repo.publish_json(&[]);
    assert_eq!(answer["commits"][0]["files"], serde_json::json!(["specs/processed-spec.md"]));
    repo.is_clean();
}

/// PUB-04.
#[test]
fn follow_ups_are_in_the_commit_of_their_chain() {
    let script = r#"
echo "$message_id" >>list.txt
[ "$seq" != 0 ] || printf 'Then do this.\n' >".decree/inbox/$chain-1.md"
"#;
    let repo = Repo::with(script, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.process().ok();
    let answer = repo.publish_json(&[]);
    let runs = repo.runs();
    assert_eq!(runs.len(), 4);
    assert_eq!(repo.subjects(), ["01-a: A", "02-b: B"]);
    assert_eq!(answer["commits"][1]["runs"], serde_json::json!(runs[2..]));
    assert_eq!(
        repo.trailers("HEAD~1")[..2],
        [format!("Decree-Run: {}", runs[0]), format!("Decree-Run: {}", runs[1])]
    );
    assert_eq!(repo.blob("HEAD~1", "list.txt"), format!("{}\n{}\n", runs[0], runs[1]).as_bytes());
    repo.is_clean();
}

/// PUB-04. A message without a spec is a commit, too.
#[test]
fn a_run_without_a_spec_is_a_commit() {
    let repo = Repo::with(WORKS, &[]);
    repo.run(&["-p", "Fix the auth errors please"]).ok();
    repo.publish(&["--message-prefix", "chore: "]).ok();
    assert_eq!(repo.subjects(), ["chore: fix-auth-errors: Fix the auth errors please"]);
    assert_eq!(repo.trailers("HEAD"), [format!("Decree-Run: {}", repo.only_run())]);
    repo.is_clean();
}

/// PUB-05.
#[test]
fn a_reverted_run_is_not_published() {
    let script = r#"
echo "$spec_file" >>list.txt
case $spec_file in *02*) exit 1;; esac
"#;
    let repo =
        Repo::with(script, &[("01-a", "# A\n"), ("02-b", "# B\n"), ("03-c", "# C\n"), ("04-d", "# D\n")]);
    repo.config("max_retries: 0\n");
    repo.process().fails(1);
    repo.decree(["revert", &repo.run_of("04-d")]).ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.subjects(), ["01-a: A", "03-c: C"]);
    assert_eq!(repo.blob("HEAD", "list.txt"), b"specs/01-a.spec.md\nspecs/03-c.spec.md\n");
    repo.is_clean();
}

/// PUB-06.
#[test]
fn publishing_twice_is_harmless_and_nothing_to_commit_is_no_error() {
    let repo = Repo::with(ADDS, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.process_with(&["--limit", "1"]).ok();
    repo.publish(&[]).ok();
    let first = repo.state();
    repo.publish(&[]).ok().mentions(&["nothing to commit", "1 run already committed"]);
    assert_eq!(repo.state(), first);
    repo.process().ok();
    repo.publish(&[]).ok();
    repo.publish(&[]).ok();
    assert_eq!(repo.subjects(), ["01-a: A", "02-b: B"]);
    assert!(repo.process().ok().text().contains("nothing to do"));
    let answer = repo.publish_json(&[]);
    assert_eq!(answer["commits"], serde_json::json!([]));
    assert_eq!(answer["pushed"], false);
    repo.is_clean();
}

/// PUB-07.
#[test]
fn a_dry_run_only_prints() {
    let repo = Repo::with(ADDS, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.process().ok();
    let before = repo.state();
    let objects = || repo.says(["count-objects", "-v"]);
    let had = objects();
    let output =
        repo.publish(&["--dry-run"]).ok().mentions(&["2 commits would be created", "nothing was done"]);
    let text = output.text();
    for part in ["01-a: A", "Decree-Run: ", "Decree-Spec: specs/02-b.spec.md", "  list.txt\n"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!((repo.state(), objects()), (before, had));
    let answer = repo.publish_json(&["--dry-run"]);
    assert!(answer["commits"][0]["sha"].is_null());
    repo.publish(&[]).ok();
    repo.is_clean();
}

/// PUB-07.
#[test]
fn json_says_what_was_done() {
    let repo = Repo::with(ADDS, &[("01-a", "# A\n")]);
    repo.process().ok();
    let answer = repo.publish_json(&[]);
    assert_eq!(
        answer,
        serde_json::json!({
            "commits": [{
                "sha": repo.says(["rev-parse", "HEAD"]),
                "subject": "01-a: A",
                "runs": [repo.only_run()],
                "spec": "specs/01-a.spec.md",
                "files": ["list.txt", "specs/processed-spec.md"],
            }],
            "own_commits": [],
            "branch": "main",
            "pushed": false,
            "pull_request": null,
        })
    );
}

/// PUB-08.
#[test]
fn foreign_text_forges_no_trailers_and_no_long_subjects() {
    let heading = format!("# \u{1b}[31mDecree-Run: 2026010100000000-0\u{202e} {}\n", "word ".repeat(40));
    let repo = Repo::with(ADDS, &[("01-a", &heading), ("02-Decree-Run: x", "# B\n")]);
    repo.process().ok();
    repo.publish(&[]).ok();
    let runs = repo.runs();
    for (commit, run) in [("HEAD~1", &runs[0]), ("HEAD", &runs[1])] {
        let trailers = repo.trailers(commit);
        let named: Vec<&String> = trailers.iter().filter(|line| line.starts_with("Decree-Run")).collect();
        assert_eq!(named, [&format!("Decree-Run: {run}")]);
        let message = repo.says(["log", "-1", "--format=%B", commit]);
        assert!(!message.contains(['\u{1b}', '\u{202e}']), "{message:?}");
        assert!(message.lines().next().unwrap().chars().count() <= 72, "{message}");
    }
    repo.is_clean();
}

/// PUB-08.
#[test]
fn no_part_of_a_secret_is_in_a_subject_that_was_cut() {
    let secret = format!("sk-{}", "0123456789".repeat(6));
    let heading = format!("# Use {secret}\n");
    let repo = Repo::with(ADDS, &[("01-a", &heading)]);
    repo.process().ok();
    let output = repo.publish_with(&[], &[("SAMPLE_API_KEY", &secret)]).ok();
    assert_eq!(repo.subjects(), ["01-a: Use ***"]);
    assert!(!output.text().contains("012345"), "{}", output.text());
}

/// PUB-31. A program that stands in for gpg.
#[test]
fn commits_are_signed_if_git_is_configured_to() {
    let repo = Repo::with(ADDS, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    let program = repo.path(".git/sign");
    let script = "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '[GNUPG:] BEGIN_SIGNING' >&2\n\
                  printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nsigned\\n-----END PGP SIGNATURE-----\\n'\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    repo.git(["config", "gpg.program", program.to_str().unwrap()]).ok();
    repo.git(["config", "commit.gpgSign", "yes"]).ok();
    repo.process().ok();
    repo.publish(&[]).ok();
    for commit in ["HEAD", "HEAD~1"] {
        assert!(repo.says(["cat-file", "commit", commit]).contains("BEGIN PGP SIGNATURE"));
    }
    repo.is_clean();
}

/// PUB-34.
#[test]
fn what_a_routine_committed_itself_is_not_committed_again() {
    let script = r#"
echo "$spec_file" >>list.txt; mkdir -p made; echo new >"made/$seq.txt"
git -c user.name=agent -c user.email=agent@localhost add list.txt made
git -c user.name=agent -c user.email=agent@localhost commit -q -m "by the routine itself"
"#;
    let repo = Repo::with(script, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    repo.process().ok();
    repo.publish(&[]).ok().mentions(&["committed already"]);
    let subjects = repo.subjects();
    assert_eq!(subjects[..2], ["by the routine itself", "by the routine itself"]);
    assert_eq!(subjects[2..], ["01-a: A", "02-b: B"]);
    assert_eq!(repo.says(["diff", "--name-only", "HEAD~2", "HEAD"]), "specs/processed-spec.md");
    assert_eq!(repo.trailers("HEAD")[0], format!("Decree-Run: {}", repo.runs()[1]));
    repo.is_clean();
    repo.publish(&[]).ok().mentions(&["nothing to commit"]);
}
