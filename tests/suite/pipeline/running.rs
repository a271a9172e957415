//! `decree run` on the command line, and what it leaves for others.

use std::time::Instant;

use super::pipeline_project::PipelineProject;

/// RUN-37.
#[test]
fn a_prompt_may_begin_with_a_hyphen() {
    let project = PipelineProject::with("cat \"$message_file\" >asked.txt");
    for prompt in ["- fix it\n- and that", "--version prints nothing", "-p", "-"] {
        project.run(&["-p", prompt]).ok();
        let asked = project.text("asked.txt");
        assert!(asked.ends_with(&format!("{prompt}\n")), "{asked}");
    }
    project.run(&["--prompt", "- x", "-m", "- a list", "-v", "note=- y", "--format", "json"]).ok();
    project.run(&["--prompt=- x"]).ok();
    // An option without its value is still wrong usage.
    project.run(&["-p"]).fails(2);
    let id = project.decree(["checkpoint", "create", "--reason", "- before"]).ok().line();
    project.write("notes.txt", "changed\n");
    project.decree(["rollback", &id, "--reason", "- it failed"]).ok();
    assert!(project.decree(["audit"]).ok().text().contains("- it failed"));
    project.decree(["checkpoint", "delete", "--yes", &id, "--reason", "- old"]).ok();
    project.decree(["guard", "--reason", "- before", "--", "true"]).ok();
    assert!(project.decree(["checkpoint", "list"]).ok().text().contains("- before"));
}

/// RUN-38.
#[test]
fn messages_that_wait_are_mentioned_by_run() {
    let project = PipelineProject::with("echo ran >>ran.txt; [ ! -e fail ]");
    project.config("max_retries: 0\n").write("fail", "");
    project.run(&["-p", "first thing"]).fails(1);
    let output = project.decree(["retry", "--all"]).ok();
    output.mentions(&["waits in the inbox", "decree process"]);
    project.remove("fail");
    let waits = "1 message waits in the inbox (first-thing); `decree process` runs it";
    project.run(&[]).fails(2).mentions(&["nothing to run", waits]);
    let output = project.run(&["-p", "second thing"]).ok();
    output.mentions(&["1 other message waits in the inbox (first-thing); `decree process` runs it"]);
    assert_eq!(project.inbox(), ["first-thing"], "it is not run");
    project.message("b", "x\n").message("c", "x\n");
    project
        .run(&["-p", "third thing", "--format", "json"])
        .ok()
        .mentions(&["3 other messages wait in the inbox", "`decree process` runs them"]);
    project.process().ok();
    let output = project.run(&["-p", "fourth thing"]).ok();
    assert!(!output.err.contains("in the inbox"), "{}", output.err);
}

/// RUN-43.
#[test]
fn a_router_that_timed_out_is_not_asked_again_by_the_same_command() {
    let project = PipelineProject::with("echo x >>work.txt");
    project.write("router.sh", "echo asked >>asked.txt; sleep 600");
    project.config("commands: { router: bash router.sh, router_timeout: 500ms }\n");
    let asked = || project.text("asked.txt").lines().count();
    let check = |err: &str| {
        assert_eq!(err.matches("the router did not answer").count(), 1, "{err}");
        assert_eq!(err.matches("using 'develop'").count(), 1, "{err}");
        assert!(err.contains("it is not asked again"), "{err}");
        assert!(!err.contains("named no routine"), "it named none because it was not heard: {err}");
    };
    // Once for its name; its routine is the default.
    check(&project.run(&["-p", "do it"]).ok().err);
    assert_eq!(asked(), 1);
    project.spec("01-a", "# A\n").spec("02-b", "# B\n").spec("03-c", "# C\n");
    check(&project.process().ok().err);
    assert_eq!((asked(), project.tracker().len()), (2, 3), "the next command asks again, once");
}

/// RUN-39.
#[test]
fn a_router_that_hangs_costs_its_own_time_limit() {
    let project = PipelineProject::with("true");
    project.write("router.sh", "sleep 600");
    project.config("commands: { router: bash router.sh, router_timeout: 500ms }\n");
    let began = Instant::now();
    let output = project.run(&["-m", "x", "-p", "do it"]).ok();
    output.mentions(&["the router did not answer within 0.5s (commands.router_timeout)", "using 'develop'"]);
    assert!(began.elapsed().as_secs() < 14, "{:?}", began.elapsed());
    project.config("commands: { router: bash router.sh, router_timeout: soon }\n");
    project.run(&["-m", "x", "-p", "do it"]).fails(3).mentions(&["router_timeout"]);
    let fresh = PipelineProject::with("true");
    fresh.remove(".decree").decree(["init"]).ok();
    assert!(fresh.text(".decree/config.yml").contains("router_timeout: 15s"), "what holds without a word");
}
