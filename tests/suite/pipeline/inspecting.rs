//! `status`, `log` and `diff` of earlier runs.

use serde_json::Value;

use super::pipeline_project::{PipelineProject, WORKS, assert_has};
use crate::harness::{assert_same, wait_for};

/// One kept, one dead after two attempts, one pending.
fn project_with_history() -> PipelineProject {
    let project = PipelineProject::with(
        "echo \"attempt $DECREE_ATTEMPT of ${spec_file##*/}\"; echo \"$DECREE_ATTEMPT\" >>trail.txt; case $spec_file in *bad*) exit 4;; esac",
    );
    project.config("max_retries: 1\n").spec("01-a", "# A\n").spec("02-bad", "# B\n").spec("03-c", "# C\n");
    project.process_with(&["--limit", "2"]).fails(1);
    project.message("waiting", "x\n");
    project
}

/// RUN-27.
#[test]
fn status_reports_what_is_done_what_waits_and_what_failed() {
    let project = project_with_history();
    let (good, bad) = (project.run_of("01-a"), project.run_of("02-bad"));
    let text = project.decree(["status"]).ok().text();
    assert_has(
        &text,
        &[
            "1 processed · 2 pending: 02-bad, 03-c",
            "1 message\n",
            "02-bad (exit 4 (2 attempts))",
            &format!("decree retry {bad}"),
            &format!("2 · latest {bad}  failed-reverted"),
        ],
    );
    let json: Value =
        serde_json::from_slice(&project.decree(["status", "--format", "json"]).ok().out).unwrap();
    assert_eq!(json["specs"], serde_json::json!({ "processed": 1, "pending": ["02-bad", "03-c"] }));
    assert_eq!(json["inbox"], serde_json::json!(["waiting.md"]));
    assert_eq!(
        json["dead"],
        serde_json::json!([{ "name": "02-bad", "id": bad, "error": "exit 4 (2 attempts)" }])
    );
    assert_eq!(json["runs"], serde_json::json!({ "count": 2, "latest": bad }));
    assert_eq!(json["unfinished"], Value::Null);
    assert_ne!(good, bad);
}

/// RUN-27.
#[test]
fn status_names_five_dead_letters_and_counts_the_rest() {
    let project = PipelineProject::new();
    for number in 1..=7 {
        project.write(format!(".decree/inbox/dead/letter-{number}.md"), "---\nerror: e\n---\n");
    }
    let text = project.decree(["status"]).ok().text();
    assert_has(&text, &["7 · letter-1 (e)", "letter-5 (e)", "and 2 more  ", "decree status --format json"]);
    assert!(!text.contains("letter-6"), "{text}");
}

/// RUN-27.
#[test]
fn status_of_a_fresh_project_is_all_zeros() {
    let text = PipelineProject::new().decree(["status"]).ok().text();
    assert_has(&text, &["0 processed · 0 pending", "0 messages", "dead   0", "runs   0"]);
}

/// RUN-27.
#[test]
fn log_shows_what_the_last_or_any_attempt_said() {
    let project = project_with_history();
    let id = project.run_of("02-bad");
    assert_eq!(project.decree(["log", &id]).ok().text(), "attempt 2 of 02-bad.spec.md\n");
    assert_eq!(project.decree(["log", &id, "--attempt", "1"]).ok().text(), "attempt 1 of 02-bad.spec.md\n");
    let chain = id.trim_end_matches("-0");
    assert_eq!(project.decree(["log", chain]).ok().text(), "attempt 2 of 02-bad.spec.md\n");
    project.decree(["log", &id, "--attempt", "7"]).fails(3).mentions(&["attempt 7", "has no log"]);
    project.decree(["log", "1999"]).fails(3).mentions(&["no run or checkpoint has the id '1999'"]);
}

/// RUN-27.
#[test]
fn diff_shows_the_last_or_any_attempt() {
    let project = project_with_history();
    let (good, bad) = (project.run_of("01-a"), project.run_of("02-bad"));
    assert_eq!(project.decree(["diff", &good]).ok().text(), project.of_run(&good, "changes.diff"));
    assert_has(&project.decree(["diff", &bad, "--attempt", "1"]).ok().text(), &["+++ b/trail.txt", "\n+1\n"]);
    assert_has(&project.decree(["diff", &bad, "--attempt", "2"]).ok().text(), &["\n+2\n"]);
    assert_has(
        &project.decree(["diff", &bad, "--attempt", "1", "--stat"]).ok().text(),
        &["trail.txt  +1  −0", "1 path, +1 −0"],
    );
    project.decree(["diff", &bad, "--attempt", "3"]).fails(3).mentions(&["has no attempt 3"]);
}

/// RUN-27.
#[test]
fn looking_changes_nothing_and_needs_no_lock() {
    let project = project_with_history();
    let id = project.run_of("01-a");
    project.routine("develop", "for what in status \"log $id\" \"diff $id\"; do \"$decree\" $what >/dev/null || exit 1; done; touch looked");
    let binary = env!("CARGO_BIN_EXE_decree");
    let routine =
        project.text(".decree/routines/develop.sh").replace("\"$decree\"", binary).replace("$id", &id);
    project.routine("develop", &routine);
    project.run(&["-m", "look", "-p", "x"]).ok();
    assert!(project.exists("looked"));
}

/// RUN-27.
#[test]
fn a_message_that_was_rejected_leaves_no_run_and_that_is_reported() {
    let project = PipelineProject::with("true");
    project.spec("01-a", "---\nroutine: nobody\n---\n").process().fails(1);
    let letter = project.dead_letter("01-a");
    let id = letter.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    for command in ["log", "diff", "revert"] {
        project.decree([command, id]).fails(3).mentions(&["no run or checkpoint has the id"]);
    }
    assert!(project.decree(["status"]).ok().text().contains("RoutineNotFound"));
}

/// SEE-16. A broken config does not lock the way to look or to go back, also not to the config that worked.
#[test]
fn a_broken_config_does_not_lock_commands_that_look_or_go_back() {
    let broken: [(&str, &[u8], &str); 4] = [
        ("syntax", b"max_retries: [1\nverify: x\n", "config.yml"),
        ("unknown key", b"# a comment\nmax_retires: 1\n", "config.yml:2: unknown key 'max_retires'"),
        ("not UTF-8", b"verify: \xff\n", "config.yml"),
        ("wrong value", b"max_retries: many\n", "config.yml:1"),
    ];
    for (what, bytes, words) in broken {
        let project = PipelineProject::with(WORKS);
        project.config("max_retries: 0\n").spec("01-a", "# A\n");
        let state = project.decree(["checkpoint", "create", "--type", "state_snapshot"]).ok().line();
        let (tree, before) = (project.checkpoint(), project.snapshot());
        project.process().ok();
        let (id, after) = (project.only_run(), project.snapshot());
        project.write(".decree/config.yml", bytes);
        for args in [
            &["status"][..],
            &["log"],
            &["log", &id],
            &["diff", &id],
            &["diff", &tree],
            &["report"],
            &["audit"],
            &["checkpoint", "list"],
            &["checkpoint", "show", &tree],
            &["checkpoint", "verify", &tree],
            &["revert", &id],
            &["apply", &id],
        ] {
            project.decree(args).ok().mentions(&["warning:", words, "defaults"]);
        }
        assert_same(&project.snapshot(), &after);
        for args in [
            &["process"][..],
            &["process", "--dry-run"],
            &["run", "-p", "x"],
            &["checkpoint", "create"],
            &["guard", "--", "true"],
        ] {
            project.decree(args).fails(3).mentions(&["error:", words]);
        }
        project.decree(["rollback", &tree]).ok().mentions(&[words, "rolled back"]);
        let mut restored = project.snapshot();
        restored.remove(&b"specs/processed-spec.md"[..]);
        assert_same(&restored, &before);
        project.decree(["rollback", &state]).ok().mentions(&[words]);
        assert_eq!(project.text(".decree/config.yml"), "max_retries: 0\n", "{what}");
        assert!(project.decree(["status"]).ok().err.is_empty(), "{what}");
    }
}

/// SEE-16. What the config says of likely secrets counts as long as it can be found: a rollback must not remove or store one.
#[test]
fn a_broken_config_still_says_what_a_likely_secret_is() {
    for broken in ["max_retires: 1\n", "verify: [x\n"] {
        let project = PipelineProject::new();
        let sensitive = "sensitive:\n  exclude:\n    - vault.txt\n";
        let id = project.config(sensitive).checkpoint();
        project.write("vault.txt", "top secret\n").write("notes.txt", "edited\n");
        project.config(&format!("{broken}{sensitive}"));
        project.decree(["diff", &id]).ok();
        let diff = project.decree(["diff", &id]).ok().text();
        assert!(diff.contains("edited") && !diff.contains("secret"), "{broken}: {diff}");
    }
}

/// SEE-16. Nothing can be read of a file without permission.
#[test]
fn a_config_that_cannot_be_read_does_not_lock_commands_that_look() {
    let project = PipelineProject::with(WORKS);
    let id = project.checkpoint();
    // A directory in its place is unreadable for root, too.
    project.mkdir(".decree/config.yml");
    project.decree(["diff", &id]).ok().mentions(&["config.yml", "defaults"]);
    project.decree(["rollback", &id]).ok().mentions(&["config.yml"]);
    assert_ne!(project.process().code, 0);
}

/// RUN-35.
#[test]
fn status_during_a_run_says_what_runs_and_for_how_long() {
    let project = PipelineProject::with(
        "[ \"$DECREE_ATTEMPT\" = 2 ] || exit 1\necho now >.decree/tmp/at-work\nfor _ in {1..3000}; do [ -e .decree/tmp/go ] && break; sleep 0.01; done\necho x >work.txt\n",
    );
    project.mkdir(".decree/tmp");
    project.spec("01-slow", "# A\n").spec("02-next", "# B\n");
    let mut child = project.command().args(["process", "-q", "--limit", "1"]).spawn().unwrap();
    wait_for(&project.path(".decree/tmp/at-work"));
    let id = project.only_run();

    let output = project.decree(["status"]).ok();
    let line = output.line();
    assert!(line.starts_with("running  01-slow · attempt 2 of 4 · "), "{line}");
    assert!(line.contains("s of 1h 00m") && line.ends_with(&format!("decree log {id}")), "{line}");
    for word in ["interrupted", "unfinished", "recovers"] {
        assert!(
            !output.text().contains(word) && !output.err.contains(word),
            "{}{}",
            output.text(),
            output.err
        );
    }
    let json: Value =
        serde_json::from_slice(&project.decree(["status", "--format", "json"]).ok().out).unwrap();
    let running = &json["running"];
    assert_eq!((&running["id"], &running["attempt"], &running["of"]), (&id.into(), &2.into(), &4.into()));
    assert!(running["elapsed_ms"].is_u64() && running["timeout_ms"] == 3_600_000, "{running}");
    assert_eq!(json["unfinished"], Value::Null);

    project.write(".decree/tmp/go", "");
    assert!(child.wait().unwrap().success());
    let json: Value =
        serde_json::from_slice(&project.decree(["status", "--format", "json"]).ok().out).unwrap();
    assert_eq!((&json["running"], &json["unfinished"]), (&Value::Null, &Value::Null));
}

/// RUN-35.
#[test]
fn status_of_a_killed_run_says_that_it_is_unfinished() {
    let project = PipelineProject::with("echo now >.decree/tmp/at-work\nsleep 600\n");
    project.mkdir(".decree/tmp");
    project.spec("01-slow", "# A\n");
    let mut child = project.command().args(["process", "-q"]).spawn().unwrap();
    wait_for(&project.path(".decree/tmp/at-work"));
    child.kill().unwrap();
    child.wait().unwrap();
    let id = project.only_run();
    let output = project.decree(["status"]).ok();
    assert!(output.text().contains(&format!("unfinished  run {id}")), "{}", output.text());
    assert!(!output.text().contains("running"), "{}", output.text());
}

/// SEE-30. A link to nothing, a directory or a pipe in the place of the config must not switch off its verification and policy.
#[test]
fn a_config_that_is_no_file_stops_work_and_warns_commands_that_look() {
    let path = ".decree/config.yml";
    let fifo = |project: &PipelineProject| {
        let made = std::process::Command::new("mkfifo").arg(project.path(path)).status().unwrap();
        assert!(made.success());
    };
    type Make<'m> = &'m dyn Fn(&PipelineProject);
    let makers: [(Make<'_>, &str); 4] = [
        (&|project| _ = project.link(path, "nowhere.yml"), "a link to nothing"),
        (&|project| _ = project.link(path, "config.yml"), "config.yml"),
        (&|project| _ = project.mkdir(path), "a directory"),
        (&fifo, "not a regular file"),
    ];
    for (make, words) in makers {
        let project = PipelineProject::with("echo x >>work.txt\n");
        project.config("max_retries: 0\nverify: 'false'\n").spec("01-a", "# A\n");
        let id = project.checkpoint();
        project.remove(path);
        make(&project);
        let before = project.snapshot();
        for args in [
            &["process"][..],
            &["process", "--dry-run"],
            &["run", "-p", "x"],
            &["checkpoint", "create"],
            &["guard", "--", "true"],
            &["doctor"],
        ] {
            project.decree(args).fails(3).mentions(&["error:", "config.yml", words]);
        }
        assert_same(&project.snapshot(), &before);
        for args in [&["status"][..], &["log"], &["diff", &id], &["rollback", &id]] {
            project.decree(args).ok().mentions(&["warning:", "config.yml", words, "defaults"]);
        }
    }
}

/// SEE-30. `init` writes a config; where it is gone from such a project, work goes on with the defaults, and that is said.
#[test]
fn a_config_that_was_deleted_is_missed() {
    let project = PipelineProject::new();
    project.decree(["init", "--ai", "none"]).ok();
    project.routine("develop", WORKS).spec("01-a", "# A\n").spec("02-b", "# B\n");
    let output = project.process_with(&["--limit", "1"]).ok();
    assert!(!output.err.contains("config.yml"), "{}", output.err);
    project.remove(".decree/config.yml");
    project.process().ok().mentions(&[
        "warning: there is no .decree/config.yml: every setting has its default, without verify and policy",
        "`decree init` writes one",
    ]);
    // A directory that `init` never saw needs no config.
    let plain = PipelineProject::with(WORKS);
    plain.spec("01-a", "# A\n");
    let output = plain.process().ok();
    assert!(!output.err.contains("config.yml"), "{}", output.err);
}

/// SEE-31.
#[test]
fn the_list_of_runs_says_which_one_is_running() {
    let project = PipelineProject::with(
        "echo now >.decree/tmp/at-work\nfor _ in {1..6000}; do [ -e .decree/tmp/go ] && break; sleep 0.01; done\necho x >work.txt\n",
    );
    project.mkdir(".decree/tmp");
    project.spec("01-slow", "# A\n");
    let mut child = project.command().args(["process", "-q"]).spawn().unwrap();
    wait_for(&project.path(".decree/tmp/at-work"));
    let id = project.only_run();
    let list = project.decree(["log"]).ok().text();
    assert!(list.starts_with(&format!("{id}  running")) && list.contains("01-slow"), "{list}");
    assert!(!list.contains("no verdict"), "{list}");
    project.write(".decree/tmp/go", "");
    assert!(child.wait().unwrap().success());
    let list = project.decree(["log"]).ok().text();
    assert!(list.starts_with(&format!("{id}  success")), "{list}");
}

/// SEE-31. A result that is written and not carried out says nothing of the tree.
#[test]
fn a_run_that_was_killed_while_it_was_settled_has_no_verdict_yet() {
    let project =
        PipelineProject::with("cp .decree/running.json .decree/tmp/copy\necho x >work.txt; exit 1\n");
    project.config("max_retries: 0\n").mkdir(".decree/tmp");
    project.spec("01-a", "# A\n").process().fails(1);
    let id = project.only_run();
    let running = project.text(".decree/tmp/copy");
    project.write(".decree/running.json", running);
    let list = project.decree(["log"]).ok().mentions(&["was interrupted"]).text();
    assert!(list.starts_with(&format!("{id}  unfinished")), "{list}");
    let status = project.decree(["status"]).ok().text();
    assert!(status.contains(&format!("unfinished  run {id}")), "{status}");
    assert!(!status.contains("failed-reverted") && !status.contains("applied"), "{status}");
}
