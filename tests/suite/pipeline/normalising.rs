//! Front matter that is complete, incomplete or wrong, and what is written back.

use super::pipeline_project::{PipelineProject, WORKS, assert_has, field};

/// Takes the one message there is, and returns it as it is in `done/`.
fn taken(project: &PipelineProject, name: &str) -> String {
    project.process().ok();
    project.text(&format!(".decree/inbox/done/{name}.md"))
}

/// MSG-06.
#[test]
fn a_bare_text_gets_every_field() {
    let project = PipelineProject::with(WORKS);
    project.message("tidy-up", "Tidy up, please.\n");
    let text = taken(&project, "tidy-up");
    let id = project.only_run();
    assert_eq!(field(&text, "id"), Some(id.as_str()));
    assert_eq!(field(&text, "chain"), id.strip_suffix("-0"));
    assert_eq!(field(&text, "seq"), Some("0"));
    assert_eq!(field(&text, "type"), Some("task"));
    assert_eq!(field(&text, "routine"), Some("develop"));
    assert!(text.ends_with("---\nTidy up, please.\n"), "{text}");
}

/// MSG-06.
#[test]
fn a_file_name_gives_chain_and_place_unless_the_front_matter_says_otherwise() {
    for (name, text, id) in [
        ("2025022514320000-3", "x\n", "2025022514320000-3"),
        ("2025022514320000-3", "---\nseq: 5\n---\nx\n", "2025022514320000-5"),
        ("2025022514320000-3", "---\nchain: 2024010101010101\n---\nx\n", "2024010101010101-3"),
        ("any", "---\nchain: '2024010101010101'\nseq: 1\n---\n", "2024010101010101-1"),
        ("2025022514320000-3", "---\nid: 2024010101010101-2\n---\n", "2024010101010101-2"),
        ("any", "---\nid: 2024010101010101-2\nseq: 7\n---\n", "2024010101010101-2"),
    ] {
        let project = PipelineProject::with(WORKS);
        project.message(name, text);
        project.process().ok();
        assert_eq!(project.runs(), [id], "{name}: {text}");
        let message = project.of_run(id, "message.md");
        assert_eq!(field(&message, "id"), Some(id), "{message}");
        assert_eq!(field(&message, "seq"), id.rsplit('-').next(), "{message}");
    }
}

/// MSG-06.
#[test]
fn what_names_a_spec_is_of_type_spec_and_what_names_another_file_a_task() {
    let project = PipelineProject::with(WORKS);
    project.spec("01-a", "# A\n").write("notes.md", "x\n");
    project
        .message("a", "---\ninput_file: specs/01-a.spec.md\n---\n")
        .message("b", "---\ninput_file: notes.md\n---\n");
    project.process().ok();
    let done = |name: &str| project.text(&format!(".decree/inbox/done/{name}.md"));
    assert_eq!(field(&done("a"), "type"), Some("spec"));
    assert_eq!(field(&done("b"), "type"), Some("task"));
    assert_eq!(project.tracker(), ["01-a.spec.md"], "however the spec came to be processed");
}

/// MSG-07.
#[test]
fn a_message_that_lacks_nothing_is_not_written_again() {
    let whole = "---\nid: 2025022514320000-0   # mine\nchain: 2025022514320000\nseq: 0\ntype: task\nroutine: \"develop\"\nlabels: [a, 'b']\n---\nDo it.";
    let project = PipelineProject::with("cat .decree/inbox/whole.md >seen.txt");
    project.message("whole", whole);
    assert_eq!(taken(&project, "whole"), whole);
    assert_eq!(project.text("seen.txt"), whole);
    assert_eq!(project.of_run("2025022514320000-0", "message.md"), whole);
}

/// MSG-07.
#[test]
fn fields_that_decree_does_not_know_and_the_body_stay() {
    let body = "# Title\r\n\n---\nkey: value\n---\n\ttrailing  \nlast line without end";
    let project = PipelineProject::with(WORKS);
    project
        .message("odd", &format!("---\nversion: 1.10\nwho: {{name: Ann, ids: [1, 2]}}\nempty:\n---\n{body}"));
    let text = taken(&project, "odd");
    assert_has(&text, &["version: '1.10'", "name: Ann", "- 1\n", "empty: null"]);
    assert!(text.ends_with(&format!("---\n{body}")), "{text}");
}

/// MSG-07.
#[test]
fn filled_in_numbers_are_written_as_numbers() {
    let project = PipelineProject::with(WORKS);
    project.message("plain", "x\n");
    let text = taken(&project, "plain");
    let id = project.only_run();
    assert_has(&text, &["\nseq: 0\n", &format!("\nchain: {}\n", id.trim_end_matches("-0"))]);
}

/// MSG-18.
#[test]
fn what_makes_no_sense_is_a_dead_letter_that_says_why_and_the_next_is_taken() {
    let bad: [(&str, &[u8], &str); 7] = [
        ("a-seq", b"---\nseq: many\n---\nbody a\n", "seq 'many' is not a whole number"),
        ("b-chain", b"---\nchain: ../../etc\n---\nbody\n", "chain '../../etc' is not 16 digits"),
        ("c-type", b"---\ntype: poem\n---\nbody\n", "type is 'poem'"),
        (
            "d-open",
            b"---\nroutine: develop\nno end\n",
            "d-open.md:1: the front matter that begins here is not closed",
        ),
        ("e-yaml", b"---\nroutine: [\n---\nbody\n", "not valid YAML"),
        ("f-bytes", b"caf\xe9\n", "it is not UTF-8"),
        ("g-spec", b"---\ntype: spec\n---\n", "input_file names no spec"),
    ];
    let project = PipelineProject::with(WORKS);
    for (name, bytes, _) in bad {
        project.write(format!(".decree/inbox/{name}.md"), bytes);
    }
    project.message("z-good", "fine\n");
    project.process().fails(1);
    assert_eq!(project.dead().len(), bad.len(), "{:?}", project.dead());
    for (name, bytes, why) in bad {
        let (letter, text) =
            (project.read(format!(".decree/inbox/dead/{name}.md")), project.dead_letter(name));
        assert_has(&text, &["error: ", "BadMessage", why]);
        let body = bytes.rsplit(|byte| *byte == b'-').next().unwrap();
        assert!(letter.ends_with(body), "what was written is still there: {text}");
    }
    assert_eq!(project.done(), ["z-good"]);
    assert_eq!(project.summary()["put_back"], bad.len());
}

/// MSG-18.
#[test]
fn a_repaired_dead_letter_that_is_requeued_loses_its_error() {
    let project = PipelineProject::with(WORKS);
    project.message("repair", "---\nseq: many\ncolour: red\n---\nbody\n");
    project.process().fails(1);
    let repaired = project.text(".decree/inbox/dead/repair.md").replace("seq: many\n", "");
    project.remove(".decree/inbox/dead/repair.md");
    project.message("repair", &repaired);
    let text = taken(&project, "repair");
    assert!(!text.contains("error:") && !text.contains("verdict:"), "{text}");
    assert_eq!(field(&text, "colour"), Some("red"));
}

/// MSG-07.
#[test]
fn a_field_called_error_is_a_field_like_any_other() {
    let project = PipelineProject::with("error=\"${error:-}\"\necho \"$error\" >seen.txt\n");
    project.run(&["-m", "x", "-p", "y", "-v", "error=E0308"]).ok();
    assert_eq!(project.text("seen.txt"), "E0308\n");
    assert_eq!(field(&project.text(".decree/inbox/done/x.md"), "error"), Some("E0308"));
}
