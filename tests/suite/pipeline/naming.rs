//! What `decree run` makes of its arguments: a message, its name, its body, its fields.

use super::pipeline_project::{PipelineProject, WORKS, assert_has, field};

/// MSG-01, RUN-12.
#[test]
fn running_a_spec_makes_a_spec_message_named_after_it_with_all_artifacts() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-add-auth", "# Add auth\n");
    project.run(&["-v", "input_file=specs/01-add-auth.spec.md"]).ok();
    assert_eq!(project.done(), ["01-add-auth"]);
    let id = project.only_run();
    assert!(id.ends_with("-0") && id.len() == 18, "{id}");
    let message = project.of_run(&id, "message.md");
    assert_eq!(field(&message, "type"), Some("spec"));
    assert_eq!(field(&message, "input_file"), Some("specs/01-add-auth.spec.md"));
    assert!(message.ends_with("---\n"), "a spec's message has no body: {message}");
    for file in ["manifest.json", "changes.diff", "routine.log", "result.json"] {
        assert!(project.run_has(&id, file), "{file}");
    }
    for file in ["changes.diff", "routine.log", "result.json"] {
        assert!(project.run_has(&id, &format!("attempts/1/{file}")), "attempts/1/{file}");
    }
    assert_eq!(project.tracker(), ["01-add-auth.spec.md"]);
    let result = project.result(&id);
    assert_eq!(
        (&result["status"], &result["spec"]),
        (&"success".into(), &"specs/01-add-auth.spec.md".into())
    );
    assert_eq!((&result["added"], &result["removed"]), (&1.into(), &0.into()));
}

/// MSG-02.
#[test]
fn a_name_and_a_prompt_make_a_task_of_that_name_with_the_prompt_as_its_body() {
    let project = PipelineProject::with(WORKS);
    project.run(&["-m", "fix-types", "-p", "fix the auth types"]).ok();
    assert_eq!(project.done(), ["fix-types"]);
    let message = project.of_run(&project.only_run(), "message.md");
    assert_eq!(field(&message, "type"), Some("task"));
    assert!(message.ends_with("---\nfix the auth types\n"), "{message}");
    assert!(project.tracker().is_empty(), "only specs are tracked");
}

/// MSG-03.
#[test]
fn without_a_name_the_prompts_own_words_give_one() {
    let project = PipelineProject::with(WORKS);
    project.run(&["-p", "fix the auth type errors"]).ok();
    assert_eq!(project.done(), ["fix-auth-type-errors"]);
}

/// MSG-03, MSG-14.
#[test]
fn without_a_name_the_router_derives_one_that_does_not_collide() {
    let project = PipelineProject::with(WORKS);
    project.write("router.sh", "cat >>asked.txt; echo 'Name: **Fix Auth**'");
    project.config("commands: { router: 'bash router.sh' }\n");
    for expected in ["fix-auth", "fix-auth-2"] {
        project.run(&["-p", "make it right", "-v", "routine=develop"]).ok();
        assert!(project.done().contains(&expected.to_owned()), "{:?}", project.done());
    }
    assert_has(&project.text("asked.txt"), &["kebab-case", "make it right"]);
}

/// MSG-09.
#[test]
fn a_name_that_is_taken_in_inbox_done_or_dead_gets_a_number() {
    let project = PipelineProject::with(WORKS);
    project.write(".decree/inbox/done/job.md", "done\n").write(".decree/inbox/dead/job-2.md", "dead\n");
    project.message("job-3", "waiting\n");
    project.run(&["-m", "job", "-p", "x"]).ok();
    assert_eq!(project.done(), ["job", "job-4"]);
    assert_eq!((project.inbox(), project.dead()), (vec!["job-3".to_owned()], vec!["job-2".to_owned()]));
    assert_eq!(project.text(".decree/inbox/done/job.md"), "done\n", "nothing is written over");
}

/// MSG-08.
#[test]
fn any_name_becomes_kebab_case_of_at_most_fifty_characters() {
    let project = PipelineProject::with(WORKS);
    project.run(&["-m", "Fix: The *Auth* Types!", "-p", "x"]).ok();
    project.run(&["-m", "../../etc/Passwd", "-p", "x"]).ok();
    project.run(&["-m", &"long ".repeat(20), "-p", "x"]).ok();
    let done = project.done();
    assert!(
        done.contains(&"fix-the-auth-types".to_owned()) && done.contains(&"etc-passwd".to_owned()),
        "{done:?}"
    );
    let long = done.iter().find(|name| name.starts_with("long")).unwrap();
    assert!(long.len() <= 50 && long.ends_with("-long"), "{long}");
    project.run(&["-m", "???", "-p", "x"]).fails(2).mentions(&["'???' cannot be a message's name"]);
    assert_eq!((project.done().len(), project.runs().len()), (3, 3), "nothing is left of what was refused");
}

/// MSG-10.
#[test]
fn nothing_to_name_it_by_names_it_after_its_chain() {
    let project = PipelineProject::with(WORKS);
    project.run(&["-v", "routine=develop"]).ok();
    let chain = project.only_run().trim_end_matches("-0").to_owned();
    assert_eq!(project.done(), [format!("run-{chain}")]);
}

/// MSG-10, MSG-15.
#[test]
fn a_router_that_fails_names_nothing() {
    let project = PipelineProject::with(WORKS);
    project.config("commands: { router: 'bash -c \"echo no; exit 7\"' }\n");
    project.run(&["-p", "anything at all"]).ok().mentions(&["the router did not answer", "exit code 7"]);
    assert!(project.done()[0].starts_with("run-20"), "{:?}", project.done());
}

/// MSG-11.
#[test]
fn what_is_piped_in_is_the_body() {
    let project = PipelineProject::with("cat \"$message_file\" >seen.txt");
    project.decree_fed(&["run"], "update the changelog\n\n---\nnot front matter\n").ok();
    assert_eq!(project.done(), ["update-changelog"]);
    assert!(project.text("seen.txt").ends_with("---\nupdate the changelog\n\n---\nnot front matter\n"));
}

/// MSG-11.
#[test]
fn a_piped_text_that_looks_like_front_matter_stays_body() {
    let project = PipelineProject::with(WORKS);
    project.decree_fed(&["run", "-m", "odd"], "---\nroutine: evil\n---\ntext\n").ok();
    let message = project.of_run(&project.only_run(), "message.md");
    assert_eq!(field(&message, "routine"), Some("develop"));
    assert!(message.ends_with("---\n---\nroutine: evil\n---\ntext\n"), "{message}");
}

/// MSG-12.
#[test]
fn nothing_at_all_is_wrong_usage_and_makes_nothing() {
    let project = PipelineProject::with(WORKS);
    project.run(&[]).fails(2).mentions(&["nothing to run", "-p"]);
    project.decree_fed(&["run"], " \n").fails(2);
    assert!(project.runs().is_empty() && project.inbox().is_empty() && project.done().is_empty());
}

/// MSG-05.
#[test]
fn every_pair_is_a_field_of_the_message() {
    let project = PipelineProject::with(WORKS);
    project
        .run(&["-p", "review", "-v", "routine=develop", "-v", "target_branch=main", "-v", "text=a: b = 'c'"])
        .ok();
    let message = project.of_run(&project.only_run(), "message.md");
    assert_eq!(field(&message, "target_branch"), Some("main"));
    assert_has(&message, &["a: b = ''c''"]);
    for (pair, words) in [
        ("novalue", "KEY=VALUE"),
        ("=x", "is not a field name"),
        ("id=5", "decree sets"),
        ("seq=1", "decree sets"),
    ] {
        project.run(&["-p", "x", "-v", pair]).fails(2).mentions(&[words]);
    }
    assert_eq!(project.runs().len(), 1);
}

/// MSG-05.
#[test]
fn an_input_file_that_is_not_there_is_reported_before_anything_is_made() {
    let project = PipelineProject::with(WORKS);
    project
        .run(&["-v", "input_file=specs/99-none.spec.md"])
        .fails(3)
        .mentions(&["specs/99-none.spec.md", "relative to the project"]);
    assert!(project.runs().is_empty() && project.inbox().is_empty());
}
