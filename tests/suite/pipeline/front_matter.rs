//! Mistakes in the front matter of specs and messages: a wrong type, an unknown key.

use super::pipeline_project::{PipelineProject, WORKS, assert_has, field};
use crate::harness::assert_same;

/// MSG-22.
#[test]
fn a_value_of_the_wrong_type_in_a_spec_makes_it_a_dead_letter_and_the_next_one_runs() {
    for (front_matter, why) in [
        ("verify: ['false']", "'verify' must be text, a command, not a list"),
        ("verify: {run: 'false'}", "'verify' must be text, a command, not a mapping"),
        ("verify: false", "'verify' must be text, a command, not 'false'; put it in quotes"),
        ("routine: [develop]", "'routine' must be text, the name of a routine, not a list"),
        ("routine: 7", "'routine' must be text, the name of a routine, not '7'; put it in quotes"),
        ("timeout: [1s]", "'timeout' must be a time such as '90s'"),
        ("timeout: true", "'timeout' must be a time such as '90s'"),
    ] {
        let project = PipelineProject::with(WORKS);
        project
            .spec("01-bad", &format!("---\n# a comment\n{front_matter}\n---\n# A\n"))
            .spec("02-good", "# B\n");
        project.process().fails(1);
        let letter = project.dead_letter("01-bad");
        assert_has(&letter, &["BadSpec", &format!("specs/01-bad.spec.md:3: {why}")]);
        assert_eq!(project.text("work.txt"), "done specs/02-good.spec.md\n", "{front_matter}");
        assert_eq!(project.tracker(), ["02-good.spec.md"], "{front_matter}");
        assert_eq!(project.verdicts(), ["01-bad: failed-reverted", "02-good: success"]);
    }
}

/// MSG-22.
#[test]
fn a_value_of_the_wrong_type_in_a_message_makes_it_a_dead_letter_that_is_kept_whole() {
    for (front_matter, why) in [
        ("seq: 999999999999999999999", "'seq' must be a whole number up to 4294967295"),
        ("seq: [1]", "'seq' must be a whole number, not a list"),
        ("id: [x]", "'id' must be text"),
        ("chain: {a: b}", "'chain' must be the 16 digits of a chain, not a mapping"),
        ("type: [spec]", "'type' must be text, 'spec' or 'task', not a list"),
        ("input_file: [a]", "'input_file' must be text, a path, not a list"),
        ("routine: [develop]", "'routine' must be text"),
        ("timeout: {s: 1}", "'timeout' must be a time"),
    ] {
        let project = PipelineProject::with(WORKS);
        let before = project.snapshot();
        project.message("bad", &format!("---\ncolour: red\n{front_matter}\n---\nthe body\n"));
        project.process().fails(1).mentions(&[&format!("bad.md:3: {why}")]);
        let letter = project.dead_letter("bad");
        assert_has(&letter, &["BadMessage", &format!("bad.md:3: {why}"), "colour: red", "the body"]);
        assert_same(&project.snapshot(), &before);
        assert!(project.runs().is_empty());
    }
}

/// MSG-22.
#[test]
fn a_number_is_a_time_limit_and_an_empty_value_is_a_missing_one() {
    let project = PipelineProject::with(WORKS);
    project.config("verify: 'echo verified >verified.txt'\n");
    project.spec("01-a", "---\ntimeout: 0\nverify:\nroutine: ~\n---\n# A\n").process().ok();
    assert_eq!(
        project.text("verified.txt"),
        "verified\n",
        "an empty verify does not switch off the config's"
    );
}

/// MSG-22.
#[test]
fn a_parameter_that_is_a_list_is_rejected_and_not_dropped() {
    let project = PipelineProject::with("branch=\"${branch:-main}\"\necho \"$branch\" >branch.txt\n");
    project.spec("01-a", "---\nbranch: [a, b]\n---\n# A\n").message("m", "---\nbranch: {a: b}\n---\nx\n");
    project.process().fails(1);
    assert_has(
        &project.dead_letter("01-a"),
        &["specs/01-a.spec.md:2: 'branch' must be a single value", "not a list"],
    );
    assert_has(&project.dead_letter("m"), &["m.md:2: 'branch' must be a single value", "not a mapping"]);
    assert!(!project.exists("branch.txt"));
}

/// MSG-23.
#[test]
fn a_mistyped_key_of_a_spec_is_an_error_and_the_spec_is_not_run() {
    for (key, meant) in [
        ("verfy", "verify"),
        ("verfiy", "verify"),
        ("Verify", "verify"),
        ("rutine", "routine"),
        ("routines", "routine"),
        ("timeuot", "timeout"),
        ("time_out", "timeout"),
    ] {
        let project = PipelineProject::with(WORKS);
        project.spec("01-a", &format!("---\n{key}: 'false'\n---\n# A\n")).spec("02-b", "# B\n");
        project.process().fails(1);
        let why = format!("specs/01-a.spec.md:2: unknown key '{key}'; did you mean '{meant}'?");
        assert_has(&project.dead_letter("01-a"), &["BadSpec", &why]);
        assert_eq!(project.text("work.txt"), "done specs/02-b.spec.md\n");
        assert_eq!(project.tracker(), ["02-b.spec.md"]);
    }
}

/// MSG-23.
#[test]
fn a_key_of_a_spec_that_nothing_reads_is_a_warning_and_one_of_the_routine_is_not() {
    let project = PipelineProject::with("branch=\"${branch:-main}\"\necho \"$branch\" >branch.txt\n");
    project.spec("01-a", "---\nbranch: release\npriority: high\n---\n# A\n");
    let output = project.process().ok().mentions(&[
        "specs/01-a.spec.md:3: unknown key 'priority' (neither decree nor the routine 'develop' reads it)",
    ]);
    assert!(!output.err.contains("'branch'"), "{}", output.err);
    assert_eq!(project.text("branch.txt"), "release\n", "a spec can set a parameter of its routine");
    let warnings = &project.result(&project.run_of("01-a"))["warnings"];
    assert!(warnings[0].as_str().unwrap().contains("unknown key 'priority'"), "{warnings}");
}

/// MSG-23.
#[test]
fn a_message_outranks_its_spec_when_both_set_a_parameter() {
    let project = PipelineProject::with("branch=\"${branch:-main}\"\necho \"$branch\" >branch.txt\n");
    project.spec("01-a", "---\nbranch: of-spec\n---\n# A\n");
    project.run(&["-v", "input_file=specs/01-a.spec.md", "-v", "branch=of-message"]).ok();
    assert_eq!(project.text("branch.txt"), "of-message\n");
}

/// MSG-23.
#[test]
fn an_unknown_key_of_a_message_is_only_a_warning() {
    let project = PipelineProject::with(WORKS);
    project.run(&["-m", "x", "-p", "y", "-v", "timeuot=1h", "-v", "colour=red"]).ok().mentions(&[
        "unknown key 'timeuot'; did you mean 'timeout'? (neither decree nor the routine 'develop' reads it)",
        "unknown key 'colour' (neither decree nor the routine 'develop' reads it)",
    ]);
    let done = project.text(".decree/inbox/done/x.md");
    assert_eq!((field(&done, "timeuot"), field(&done, "colour")), (Some("1h"), Some("red")));
}

/// MSG-40. A message cannot set its own verification, and it is not dropped without a word either.
#[test]
fn verify_in_a_message_is_an_error_that_says_where_it_belongs() {
    let project = PipelineProject::with(WORKS);
    let before = project.snapshot();
    project.message("task", "---\nverify: 'false'\n---\nthe body\n");
    let why = "task.md:2: 'verify' is not a key of messages";
    project.process().fails(1).mentions(&[why, "a spec's front matter", "verify in .decree/config.yml"]);
    assert_has(&project.dead_letter("task"), &["BadMessage", why, "verify: 'false'", "the body"]);
    assert_same(&project.snapshot(), &before);
    let hint = ["'verify' is not a key of messages", "verify in .decree/config.yml"];
    project.run(&["-p", "x", "-v", "verify=false"]).fails(2).mentions(&hint);
    assert!(project.inbox().is_empty() && project.runs().is_empty());
    assert_eq!(project.dead(), ["task"]);
    assert_same(&project.snapshot(), &before);
    // A routine may have a parameter of that name.
    project.routine("own", "verify=\"${verify:-none}\"\necho \"$verify\" >own.txt\n");
    project.run(&["-p", "x", "-v", "routine=own", "-v", "verify=mine"]).ok();
    assert_eq!(project.text("own.txt"), "mine\n");
}

/// MSG-75. A blank line at the top is invisible, and must not switch a verification off.
#[test]
fn blank_lines_before_the_front_matter_are_skipped() {
    for blank in ["\n", " \t\n\n", "\r\n", "\u{feff}\n"] {
        let project = PipelineProject::with(WORKS);
        project.config("max_retries: 0\n");
        project.spec("01-a", &format!("{blank}---\nverify: 'false'\n---\n# A\n"));
        project.process().fails(1);
        assert_eq!(project.verdicts(), ["01-a: failed-reverted"], "{blank:?}");
        assert!(!project.exists("work.txt"), "{blank:?}");
    }
    let project = PipelineProject::with(WORKS);
    project.routine("other", "cat \"$message_file\" >seen.txt\n");
    project.message("task", "\n\n---\nroutine: other\n---\nthe body\n").process().ok();
    let seen = project.text("seen.txt");
    assert!(field(&seen, "routine") == Some("other") && seen.ends_with("---\nthe body\n"), "{seen}");
}

/// MSG-75.
#[test]
fn a_mistake_after_blank_lines_has_the_line_of_the_file() {
    for (text, why) in [
        ("\n\n---\nverify: [x]\n---\n# A\n", "specs/01-a.spec.md:4: 'verify' must be text"),
        ("\n---\na: 1\nverfy: x\n---\n# A\n", "specs/01-a.spec.md:4: unknown key 'verfy'"),
        ("\n---\nverify: x\nverify: y\n---\n# A\n", "specs/01-a.spec.md:4: 'verify' is defined twice"),
        ("\n---\nverify: [x\n---\n# A\n", "specs/01-a.spec.md:3: not valid YAML"),
    ] {
        let project = PipelineProject::with(WORKS);
        project.spec("01-a", text).process().fails(1);
        assert_has(&project.dead_letter("01-a"), &["BadSpec", why]);
    }
}

/// MSG-75.
#[test]
fn a_thematic_break_after_blank_lines_is_body() {
    for text in [
        "\n---\n\nSome prose.\n\n---\nmore\n",
        "\n---\n# Title\n\ntext\n",
        "\n---\n- a list\n---\nmore\n",
        "\n---\nDo it: [then\n---\nmore\n",
        "\n---\n---\nmore\n",
        "\n---\nverify: never closed\n",
    ] {
        let project = PipelineProject::with("cat \"$message_file\" >seen.txt\n");
        project.message("task", text).process().ok();
        assert!(project.text("seen.txt").ends_with(&format!("---\n{text}")), "{}", project.text("seen.txt"));
        let project = PipelineProject::with(WORKS);
        project.spec("01-a", text).process().ok();
    }
}

/// MSG-90.
#[test]
fn an_opening_line_that_is_nearly_right_is_an_error() {
    for (text, line) in [
        (" ---\nverify: 'false'\n---\n# A\n", 1),
        ("----\n verify: 'false'\n----\n# A\n", 1),
        ("\n--\n\nroutine: other\n--\n# A\n", 2),
    ] {
        let project = PipelineProject::with(WORKS);
        project.spec("01-a", text).process().fails(1);
        let why = format!("specs/01-a.spec.md:{line}: this line is not '---'");
        assert_has(&project.dead_letter("01-a"), &["BadSpec", &why, "has no effect"]);
    }
    for text in ["----\nNote: prose\n", "----\n\n# A\nverify: x\n", "# A\n----\nverify: x\n"] {
        let project = PipelineProject::with(WORKS);
        project.spec("01-a", text).process().ok();
    }
}

/// MSG-76.
#[test]
fn a_seq_without_a_chain_is_rejected_and_not_dropped() {
    for seq in ["999", "'999'", "4294967295", "1"] {
        let project = PipelineProject::with(WORKS);
        project.message("a", &format!("---\ncolour: red\nseq: {seq}\n---\nbody\n"));
        let why = format!("a.md:3: 'seq' is {}, but no chain is named", seq.trim_matches('\''));
        project.process().fails(1).mentions(&[&why]);
        assert_has(&project.dead_letter("a"), &["BadMessage", &why, "colour: red", "body"]);
        assert!(project.runs().is_empty());
    }
    for (name, front_matter) in
        [("a", "seq: 0"), ("a", "seq: '0'"), ("a", "seq:"), ("2024010101010101-1", "seq: 2")]
    {
        let project = PipelineProject::with(WORKS);
        project.message(name, &format!("---\n{front_matter}\n---\nx\n")).process().ok();
    }
}

/// MSG-76.
#[test]
fn an_id_that_makes_no_sense_is_named_with_file_and_line() {
    for (front_matter, why) in [
        ("seq: -1", "a.md:3: seq '-1' is not a whole number"),
        ("chain: 12", "a.md:3: chain '12' is not 16 digits"),
        ("id: x-1", "a.md:3: id 'x-1' is not <chain>-<seq>"),
        ("type: poem", "a.md:3: type is 'poem'"),
        ("type: spec", "a.md:3: type is spec, but input_file names no spec"),
    ] {
        let project = PipelineProject::with(WORKS);
        project.message("a", &format!("---\n# comment\n{front_matter}\n---\nx\n"));
        project.process_with(&["--dry-run"]).fails(1);
        project.process().fails(1).mentions(&[why]);
        assert_has(&project.dead_letter("a"), &["BadMessage", why]);
    }
}

/// MSG-41.
#[test]
fn a_number_that_is_too_large_for_a_seq_is_named_as_it_is_written() {
    let huge = "99999999999999999999";
    let chain = "chain: '2030010101010100'";
    for (file, text, code) in [
        (format!("2030010101010100-{huge}"), "x\n".to_owned(), "MaxDepthExceeded"),
        ("other".to_owned(), format!("---\nid: 2030010101010100-{huge}\n---\nx\n"), "MaxDepthExceeded"),
        ("other".to_owned(), format!("---\n{chain}\nseq: '{huge}'\n---\nx\n"), "BadMessage"),
        ("other".to_owned(), format!("---\n{chain}\nseq: {huge}\n---\nx\n"), "BadMessage"),
    ] {
        let project = PipelineProject::with(WORKS);
        project.message(&file, &text);
        let output = project.process().fails(1).mentions(&[huge]);
        let letter = project.dead_letter(&file);
        assert_has(&letter, &[code, huge]);
        assert!(!letter.contains("seq: 4294967295") && !output.err.contains("seq 4294967295"), "{letter}");
        assert!(project.runs().is_empty());
        project.decree(["status"]).ok();
    }
}
