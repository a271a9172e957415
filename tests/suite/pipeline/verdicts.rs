//! What counts as success: verification, policy, whether anything changed, and time.

use std::time::Instant;

use super::pipeline_project::{PipelineProject, WORKS, assert_has};
use crate::harness::assert_same;

/// The status and the reason of the only run.
fn verdict(project: &PipelineProject) -> (String, String) {
    let result = project.result(&project.only_run());
    (result["status"].as_str().unwrap().to_owned(), result["reason"].as_str().unwrap().to_owned())
}

/// RUN-14.
#[test]
fn what_does_not_verify_is_a_failed_attempt_and_the_next_one_can_read_why() {
    let project = PipelineProject::with(
        "echo \"$DECREE_ATTEMPT\" >answer.txt; [ $DECREE_ATTEMPT = 1 ] || cat \"$message_dir/attempts/1/routine.log\"",
    );
    project
        .config("verify: 'grep -q 2 answer.txt || { echo expected 2; exit 9; }'\n")
        .run(&["-m", "x", "-p", "y"])
        .ok();
    let id = project.only_run();
    let result = project.result(&id);
    assert_eq!(result["attempts"][0]["ending"]["how"], "verify");
    assert_eq!(result["attempts"][0]["exit_code"], 9);
    assert_eq!(result["attempts"][0]["headline"], "expected 2");
    assert_has(&project.of_run(&id, "attempts/2/routine.log"), &["[decree] verify: grep", "expected 2"]);
    assert_eq!(project.text("answer.txt"), "2\n");
}

/// RUN-14.
#[test]
fn the_specs_verification_outranks_the_configs() {
    let project = PipelineProject::with(WORKS);
    project.config("verify: 'false'\nmax_retries: 0\n");
    project
        .spec("01-own", "---\nverify: grep -q 01-own work.txt\n---\n")
        .spec("02-none", "---\nverify: ''\n---\n")
        .spec("03-config", "# x\n");
    project.process().fails(1);
    assert_eq!(project.verdicts(), ["01-own: success", "02-none: success", "03-config: failed-reverted"]);
    assert_has(&project.dead_letter("03-config"), &["verify: `false` exited 1"]);
}

/// RUN-14.
#[test]
fn a_routine_that_fails_is_not_verified_and_what_verification_writes_is_in_the_diff() {
    let project = PipelineProject::with("exit 1");
    project.config("verify: touch verified\nmax_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    assert!(!project.of_run(&project.only_run(), "changes.diff").contains("verified"));
    let project = PipelineProject::with("true");
    project.config("verify: touch verified\n").run(&["-m", "x", "-p", "y"]).ok();
    assert_has(&project.of_run(&project.only_run(), "changes.diff"), &["verified"]);
}

/// RUN-44.
#[test]
fn a_verification_of_several_commands_fails_with_the_first_of_them() {
    let project = PipelineProject::with(WORKS);
    project
        .config("max_retries: 0\n")
        .spec("01-pipe", "---\nverify: 'false | tee log.txt'\n---\n")
        .spec("02-lines", "---\nverify: |\n  exit_with() { return $1; }\n  exit_with 6\n  true\n---\n")
        .spec("03-list", "---\nverify: 'false; true'\n---\n")
        .spec("04-or", "---\nverify: 'false || true'\n---\n");
    project.process().fails(1);
    let verdicts = [
        "01-pipe: failed-reverted",
        "02-lines: failed-reverted",
        "03-list: failed-reverted",
        "04-or: success",
    ];
    assert_eq!(project.verdicts(), verdicts);
    assert_has(&project.dead_letter("02-lines"), &["exited 6"]);
    let before = project.snapshot();
    let guard = ["guard", "--verify", "false | tee log.txt", "--", "touch", "made"];
    project.decree(guard).fails(1).mentions(&["rolled back"]);
    assert_same(&project.snapshot(), &before);
}

/// RUN-15.
#[test]
fn a_change_outside_the_policy_is_a_failed_attempt_that_names_the_paths() {
    for (policy, reasons) in [
        ("deny: [docs/]", &["policy: docs/guide.md is denied"][..]),
        ("deny: ['*.lock', '!ok.lock']", &["a/b.lock is denied"]),
        ("allow: [docs, '*.lock']", &["new.txt is not allowed"]),
        ("allow: ['*'], deny: [new.txt]", &["new.txt is denied"]),
        ("max_files: 3", &["4 paths changed; max_files is 3"]),
        ("max_bytes: 1kB", &["bytes in changed files; max_bytes is 1000"]),
        (
            "allow: [a/], max_files: 1",
            &["docs/guide.md is not allowed", "new.txt is not allowed", "4 paths changed"],
        ),
    ] {
        let project = PipelineProject::with(
            "echo x >>docs/guide.md; mkdir a; touch a/b.lock a/ok.lock; head -c 2000 /dev/zero >new.txt",
        );
        let before = project.snapshot();
        project
            .config(&format!("policy: {{ {policy} }}\nmax_retries: 0\n"))
            .run(&["-m", "x", "-p", "y"])
            .fails(1);
        let (status, reason) = verdict(&project);
        assert_eq!(status, "policy", "{policy}");
        assert_has(&reason, reasons);
        assert!(!reason.contains("ok.lock is denied"), "{reason}");
        assert_same(&project.snapshot(), &before);
        assert_has(&project.dead_letter("x"), &["verdict: policy"]);
    }
}

/// RUN-15.
#[test]
fn a_long_list_of_violations_is_cut_and_counted() {
    for (paths, end) in [(11, "; 1 more path"), (12, "; 2 more paths")] {
        let project = PipelineProject::with(&format!("for i in $(seq {paths}); do touch $i.txt; done"));
        project.config("policy: { deny: ['*.txt'] }\nmax_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
        let reason = verdict(&project).1;
        assert!(reason.ends_with(end), "{reason}");
    }
}

/// RUN-15.
#[test]
fn a_change_within_the_policy_is_kept() {
    let project = PipelineProject::with("echo x >>docs/guide.md; rm image.bin");
    project
        .config("policy: { allow: [docs, '*.bin'], deny: [.github], max_files: 2, max_bytes: 100 }\n")
        .run(&["-m", "x", "-p", "y"])
        .ok();
    assert_eq!(verdict(&project).0, "success");
}

/// RUN-15.
#[test]
fn an_attempt_that_broke_the_policy_can_be_made_good_by_the_next() {
    let project = PipelineProject::with(
        "if [ $DECREE_ATTEMPT = 1 ]; then touch secret.key.txt; else rm secret.key.txt; touch fine; fi",
    );
    project.config("policy: { deny: ['*.key.txt'] }\n").run(&["-m", "x", "-p", "y"]).ok();
    assert!(project.exists("fine") && !project.exists("secret.key.txt"));
}

/// RUN-16.
#[test]
fn a_run_without_changes_is_kept_with_its_own_verdict() {
    let project = PipelineProject::with("echo 'nothing to do here'");
    project.spec("01-a", "# A\n");
    let output = project.process().ok();
    assert_eq!(project.verdicts(), ["01-a: no-change"]);
    assert_has(&output.err, &["✓ no change"]);
    assert_eq!(project.of_run(&project.only_run(), "changes.diff"), "");
    assert_eq!(project.tracker(), ["01-a.spec.md"]);
}

/// RUN-16.
#[test]
fn changing_nothing_is_a_failed_attempt_where_that_is_asked_for() {
    let project = PipelineProject::with("[ $DECREE_ATTEMPT = 1 ] || echo work >work.txt");
    project.config("on_no_change: retry\n").run(&["-m", "x", "-p", "y"]).ok();
    let result = project.result(&project.only_run());
    assert_eq!(
        (&result["attempts"][0]["reason"], &result["status"]),
        (&"nothing changed".into(), &"success".into())
    );

    let project = PipelineProject::with("true");
    project.config("on_no_change: retry\nmax_retries: 1\n").run(&["-m", "x", "-p", "y"]).fails(1);
    assert_eq!(verdict(&project), ("no-change".to_owned(), "nothing changed".to_owned()));
    assert_eq!(
        (project.dead(), project.result(&project.only_run())["kept"].clone()),
        (vec!["x".to_owned()], false.into())
    );
}

/// RUN-26.
#[test]
fn a_routine_that_takes_too_long_is_ended_with_all_it_started_and_reverted() {
    let project = PipelineProject::with("touch half; sleep 600 & echo $! >\"$message_dir/pid\"; sleep 600");
    let before = project.snapshot();
    let began = Instant::now();
    project.config("timeout: 1s\nmax_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    assert!(began.elapsed().as_secs() < 60);
    assert_eq!(verdict(&project), ("timed-out".to_owned(), "timed out after 1.0s".to_owned()));
    assert_same(&project.snapshot(), &before);
    let pid = project.of_run(&project.only_run(), "pid");
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(), "its child is gone");
}

/// RUN-26.
#[test]
fn the_flag_outranks_the_message_the_message_the_spec_and_the_spec_the_config() {
    let slow = "sleep 600";
    let timed_out = |project: &PipelineProject, args: &[&str]| {
        let output = project.decree(args.iter().copied()).fails(1);
        assert_has(&output.text(), &["timed out after 0.2s"]);
    };
    let project = PipelineProject::with(slow);
    project.config("timeout: 1h\nmax_retries: 0\n").spec("01-a", "---\ntimeout: 200ms\n---\n");
    timed_out(&project, &["process"]);
    let project = PipelineProject::with(slow);
    project.config("timeout: 1h\nmax_retries: 0\n").spec("01-a", "---\ntimeout: 1h\n---\n");
    timed_out(&project, &["run", "-v", "input_file=specs/01-a.spec.md", "-v", "timeout=200ms"]);
    timed_out(&project, &["process", "--timeout", "200ms"]);
}

/// RUN-26, RUN-14.
#[test]
fn verification_has_what_is_left_of_the_time() {
    let project = PipelineProject::with("true");
    project
        .config("timeout: 300ms\nmax_retries: 0\nverify: sleep 600\n")
        .run(&["-m", "x", "-p", "y"])
        .fails(1);
    assert_eq!(verdict(&project).0, "timed-out");
}

/// RUN-12.
#[test]
fn a_routine_that_a_signal_ended_is_reported() {
    let project = PipelineProject::with("kill -KILL $$");
    project.config("max_retries: 0\n").run(&["-m", "x", "-p", "y"]).fails(1);
    assert_eq!(verdict(&project), ("failed-reverted".to_owned(), "signal 9".to_owned()));
    assert_eq!(project.result(&project.only_run())["attempts"][0]["exit_code"], serde_json::Value::Null);
}

/// RUN-34.
#[test]
fn an_agent_that_changes_nothing_has_not_carried_out_a_spec() {
    let declines = "read -ra ai <<<\"$DECREE_AI\"\necho 'I cannot do that.'\n";
    let (by_header, not_an_agent) = ("# agent: yes\necho no\n", "# agent: no\n: \"$DECREE_AI\"\necho no\n");
    for (script, config, kept) in [
        (declines, "", false),
        (by_header, "", false),
        ("# needs: ai\n:\n", "commands: { ai: bash }\n", false),
        (declines, "on_no_change: auto\n", false),
        (declines, "on_no_change: accept\n", true),
        (not_an_agent, "", true),
        ("echo checked", "", true),
    ] {
        let project = PipelineProject::with(script);
        project.config(&format!("max_retries: 1\n{config}")).spec("01-a", "# A\n");
        let before = project.snapshot();
        assert_eq!(project.process().code, i32::from(!kept), "{script} {config}");
        let result = project.result(&project.run_of("01-a"));
        assert_eq!((&result["status"], &result["kept"]), (&"no-change".into(), &kept.into()), "{script}");
        assert_eq!(result["attempts"].as_array().unwrap().len(), if kept { 1 } else { 2 });
        assert_eq!(project.tracker().len(), usize::from(kept), "a spec that was declined is not processed");
        if !kept {
            assert_same(&project.snapshot(), &before);
            assert_has(
                &project.dead_letter("01-a"),
                &["error: nothing changed (2 attempts)", "verdict: no-change"],
            );
        }
    }
}

/// RUN-34.
#[test]
fn an_agent_that_changes_nothing_may_have_carried_out_a_task() {
    let project = PipelineProject::with(": \"$DECREE_AI\"\necho 'The answer is 42.'\n");
    project.run(&["-m", "x", "-p", "what is the answer?"]).ok();
    assert_eq!(project.verdicts(), ["x: no-change"]);
}

/// SEE-36.
#[test]
fn a_verification_that_says_nothing_has_no_last_words() {
    let project = PipelineProject::with("echo the routine is content; echo x >work.txt");
    project.config("verify: 'test -e nothing'\nmax_retries: 0\n");
    let output = project.run(&["-m", "x", "-p", "y"]).fails(1);
    let result = project.result(&project.only_run());
    assert_eq!(result["attempts"][0]["headline"], "");
    assert!(!output.text().contains("[decree]"), "{}", output.text());
    // Of a policy's failure the routine's words are the last.
    project.config("verify: 'true'\nmax_retries: 0\npolicy: {deny: [work.txt]}\n");
    project.run(&["-m", "z", "-p", "y"]).fails(1);
    let result = project.result(&project.run_of("z"));
    assert_eq!(result["attempts"][0]["headline"], "the routine is content");
}
