//! Which routine is chosen for a message.

use super::pipeline_project::{PipelineProject, assert_has, field};

/// Routines that write their own names.
fn project_with_routines(routines: &[(&str, &str)]) -> PipelineProject {
    let project = PipelineProject::new();
    for (name, description) in routines {
        project.routine(name, &format!("# {description}\necho {name} >>who.txt\n"));
    }
    project
}

fn usual() -> PipelineProject {
    project_with_routines(&[
        ("develop", "Implements a change in the code."),
        ("review", "Reviews a branch and writes comments."),
        ("docs", "Writes documentation."),
    ])
}

const BUILTIN: &str = "commands: { router: builtin }\n";

/// The routine that carried out the only run.
fn chosen(project: &PipelineProject) -> String {
    let id = project.only_run();
    let routine = project.result(&id)["routine"].as_str().unwrap().to_owned();
    assert_eq!(project.text("who.txt"), format!("{routine}\n"));
    assert_eq!(field(&project.of_run(&id, "message.md"), "routine"), Some(routine.as_str()));
    routine
}

/// MSG-04.
#[test]
fn a_routine_that_is_named_is_used_and_the_router_is_not_asked() {
    let project = usual();
    project.config("commands: { router: 'bash -c \"touch asked\"' }\n");
    project.run(&["-m", "fix", "-p", "write the documentation", "-v", "routine=develop"]).ok();
    assert_eq!(chosen(&project), "develop");
    assert!(!project.exists("asked"));
}

/// MSG-13.
#[test]
fn the_message_outranks_the_spec_the_spec_the_router_and_the_router_the_default() {
    let spec = "---\nroutine: docs\n---\nReview the branch.\n";
    let input = ["-v", "input_file=specs/01-a.spec.md"];

    let project = usual();
    project.spec("01-a", spec).run(&[&input[..], &["-v", "routine=develop"]].concat()).ok();
    assert_eq!(chosen(&project), "develop", "the message's word");

    let project = usual();
    project.spec("01-a", spec).run(&input).ok();
    assert_eq!(chosen(&project), "docs", "the spec's word");

    let project = usual();
    project.config(BUILTIN).spec("01-a", "Review the branch.\n").run(&input).ok();
    assert_eq!(chosen(&project), "review", "the router's word");

    let project = usual();
    project.config(&format!("{BUILTIN}default_routine: docs\n")).spec("01-a", "Zebra!\n").run(&input).ok();
    assert_eq!(chosen(&project), "docs", "no routine matches");
}

/// MSG-13.
#[test]
fn the_built_in_router_reads_descriptions() {
    for (task, routine) in [
        ("please review my branch", "review"),
        ("document the API: write documentation", "docs"),
        ("zebra", "develop"),
    ] {
        let project = usual();
        project.config(BUILTIN).run(&["-m", "x", "-p", task]).ok();
        assert_eq!(chosen(&project), routine, "{task}");
    }
}

/// MSG-24.
#[test]
fn without_a_router_the_default_routine_is_used_and_the_prompt_names_the_message() {
    for config in ["", "commands: { router: '' }\n", "default_routine: develop\n"] {
        let project = usual();
        project.config(config).run(&["-p", "please review the branch"]).ok();
        assert_eq!(chosen(&project), "develop");
        assert_eq!(project.done(), ["review-branch"]);
    }
    let project = usual();
    project.config("default_routine: docs\n").spec("01-a", "Review the branch.\n").process().ok();
    assert_eq!(chosen(&project), "docs");
}

/// MSG-24.
#[test]
fn a_router_never_chooses_a_routine_whose_needs_are_missing() {
    let review = "# Reviews a branch and writes comments.\n# needs: no-such-program\necho review >>who.txt\n";
    for (router, asked) in [("builtin", false), ("bash router.sh", true)] {
        let project = usual();
        project.routine("review", review).write("router.sh", "cat >asked.txt; echo review");
        project.config(&format!("commands: {{ router: {router} }}\n"));
        let output = project.run(&["-m", "x", "-p", "review the branch"]).ok();
        assert_eq!(chosen(&project), "develop", "{router}");
        if asked {
            assert!(!project.text("asked.txt").contains("review: "), "it is not offered");
            output.mentions(&[
                "the router named 'review', but routine 'review' needs 'no-such-program', which is not on the PATH; using 'develop'",
            ]);
        }
    }
}

/// MSG-24.
#[test]
fn a_message_whose_routine_lacks_a_need_is_a_dead_letter_and_the_others_run() {
    let project = usual();
    project.routine("review", "# needs: no-such-program\necho review >>who.txt\n");
    project.spec("01-a", "---\nroutine: review\n---\n# A\n").spec("02-b", "# B\n");
    let why = "routine 'review' needs 'no-such-program', which is not on the PATH";
    project.process().fails(1).mentions(&[&format!("warning: {why}")]);
    assert_has(&project.dead_letter("01-a"), &["NeedsMissing", why]);
    assert_eq!(
        (project.text("who.txt").as_str(), project.tracker()),
        ("develop\n", vec!["02-b.spec.md".to_owned()])
    );

    // If nothing of a batch can run, nothing of it is touched.
    let project = usual();
    project
        .routine("develop", "# needs: ai\necho develop >>who.txt\n")
        .config("commands: { ai: no-such-ai -p }\n");
    project.spec("01-a", "# A\n").message("m", "x\n");
    let why = "nothing can run here: routine 'develop' needs 'no-such-ai', which is not on the PATH";
    project.process().fails(3).mentions(&[why, "nothing was processed", "decree doctor"]);
    assert_eq!((project.dead().len(), project.inbox().len(), project.runs().len()), (0, 1, 0));
    project.run(&["-p", "y"]).fails(3).mentions(&[why]);
}

/// MSG-14.
#[test]
fn an_external_router_has_the_question_on_standard_input() {
    let project = usual();
    project.write("router.sh", "cat >asked.txt; echo review");
    project.config("commands: { router: bash router.sh }\n");
    project.run(&["-m", "x", "-p", "Paint it blue"]).ok();
    assert_eq!(chosen(&project), "review");
    assert_has(
        &project.text("asked.txt"),
        &["- develop: Implements a change in the code.", "- docs: ", "Paint it blue", "ONLY the name"],
    );
}

/// MSG-14.
#[test]
fn an_external_router_has_the_question_in_place_of_the_word_prompt() {
    let project = usual();
    project.write(
        "router.sh",
        "printf '%s' \"$2\" >asked.txt; [ -z \"$(cat)\" ] && echo \"Let me think.\n\n**docs**.\"",
    );
    project.config("commands: { router: \"bash router.sh --ask {prompt}\" }\n");
    project.run(&["-m", "x", "-p", "Say 'hi' $(touch hacked); \"x\""]).ok();
    assert_eq!(chosen(&project), "docs");
    assert_has(&project.text("asked.txt"), &["Say 'hi' $(touch hacked); \"x\""]);
    assert!(!project.exists("hacked"), "a prompt is one argument, whatever is in it");
}

/// MSG-15.
#[test]
fn a_router_that_has_no_answer_leaves_it_to_the_default() {
    for (router, output) in [
        ("bash -c 'echo docs; exit 2'", "the router did not answer (exit code 2)"),
        ("bash -c 'echo I would use docs or review'", "the router named no routine; using 'develop'"),
        ("bash -c 'echo gardening'", "named no routine"),
        ("true", "named no routine"),
        ("no-such-router-anywhere", "the router did not answer"),
        ("bash -c 'kill -9 $$'", "the router did not answer (killed by SIGKILL)"),
        ("'unclosed", "commands.router is not a command"),
    ] {
        let project = usual();
        project.config(&format!("commands:\n  router: {}\n", serde_json::to_string(router).unwrap()));
        project.run(&["-m", "x", "-p", "write documentation"]).ok().mentions(&[output]);
        assert_eq!(chosen(&project), "develop", "{router}");
    }
}

/// MSG-15.
#[test]
fn a_router_is_not_waited_for_longer_than_an_attempt_may_take() {
    let project = usual();
    project.write("router.sh", "yes docs | head -c 9000000; sleep 600");
    project.config("commands: { router: bash router.sh }\ntimeout: 300ms\n");
    // The routine itself has all the time that a busy machine takes.
    let args = ["-m", "x", "-p", "write documentation", "-v", "timeout=1m"];
    project.run(&args).ok().mentions(&["the router did not answer (timed out)", "using 'develop'"]);
    assert_eq!(chosen(&project), "develop");
}

/// MSG-15.
#[test]
fn a_router_changes_nothing_that_is_recorded_as_the_routines_work() {
    let project = usual();
    project.config("commands: { router: 'bash -c \"echo x >by-router; echo docs\"' }\n");
    project.run(&["-m", "x", "-p", "anything"]).ok();
    let diff = project.of_run(&project.only_run(), "changes.diff");
    assert!(diff.contains("who.txt") && !diff.contains("by-router"), "{diff}");
}

/// MSG-19.
#[test]
fn a_routine_that_does_not_exist_is_a_dead_letter_and_no_attempt() {
    let project = usual();
    project
        .message("a", "---\nroutine: revieww\n---\nx\n")
        .message("b", "---\nroutine: ../../bin/sh\n---\nx\n");
    project.process().fails(1);
    assert_has(&project.dead_letter("a"), &["RoutineNotFound", "revieww", "did you mean 'review'?"]);
    assert_has(&project.dead_letter("b"), &["RoutineNotFound", "is not a routine name"]);
    assert!(!project.exists("who.txt"));
    assert_eq!(project.summary()["messages"][0]["attempts"], serde_json::json!([]));
}

/// MSG-19.
#[test]
fn a_routine_that_bash_does_not_take_is_reported_before_it_did_half_of_its_work() {
    let project = PipelineProject::with("echo started >started.txt\nif true; then\n");
    project.run(&["-m", "x", "-p", "y"]).fails(1);
    assert_has(&project.dead_letter("x"), &["RoutineInvalid", ".decree/routines/develop.sh", "line 3"]);
    assert!(!project.exists("started.txt"));
}

/// MSG-20.
#[test]
fn shared_routines_come_after_the_projects_own_in_their_order() {
    let project = usual();
    project.config("routine_paths: [shared/a, shared/b, shared/none]\n");
    for (path, word) in [("a/docs", "a"), ("a/deploy", "a"), ("b/deploy", "b"), ("b/release", "b")] {
        project.write(format!("shared/{path}.sh"), format!("echo shared-{word} >>who.txt\n"));
    }
    for (routine, who) in [("docs", "docs"), ("deploy", "shared-a"), ("release", "shared-b")] {
        project.write("who.txt", "");
        project.run(&["-m", "x", "-p", "y", "-v", &format!("routine={routine}")]).ok();
        assert_eq!(project.text("who.txt"), format!("{who}\n"));
    }
}
