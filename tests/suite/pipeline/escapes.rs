//! Terminal escapes in a routine's output: in the log's bytes, and nowhere that reads them as text.

use super::pipeline_project::PipelineProject;

const COLORFUL: &str = r#"
printf '\033[1;31mred\033[0m and \033]0;title\007plain\n'
printf '10%%\r50%%\r100%%\n'
printf 'windows\r\n'
printf 'latin \351 end\n'
printf 'link \033]8;;http://x\033\\text\033]8;;\033\\ end\n'
"#;

/// RUN-40.
#[test]
fn a_log_without_colours_has_no_escapes() {
    let project = PipelineProject::with(COLORFUL);
    project.run(&["-p", "x"]).ok();
    let id = project.only_run();
    let expected = "red and plain\n10%\n50%\n100%\nwindows\nlatin \u{fffd} end\nlink text end\n";
    // Neither in a pipe nor where colours are not wanted.
    assert_eq!(project.decree(["log", &id]).ok().text(), expected);
    assert_eq!(project.decree(["log", &id, "--color", "never"]).ok().text(), expected);
    assert_eq!(project.decree(["log", &id, "--attempt", "1"]).ok().text(), expected);
    // With colours, the log is as it was written.
    let raw = project.read(format!(".decree/runs/{id}/routine.log"));
    assert!(raw.contains(&0x1b));
    assert_eq!(project.decree(["log", &id, "--color", "always"]).ok().out, raw);
}

/// RUN-40.
#[test]
fn what_the_next_attempt_is_told_has_no_escapes() {
    let project = PipelineProject::with(&format!(
        "{COLORFUL}\ntouch \"$(printf 'evil\\033[31mname')\"\nif [ -f \"$message_dir/failure-context.md\" ]; then cp \"$message_dir/failure-context.md\" told.txt; exit 0; fi\nexit 1\n"
    ));
    project.config("max_retries: 1\n");
    project.run(&["-p", "x"]).ok();
    let told = project.read("told.txt");
    let text = String::from_utf8_lossy(&told);
    assert!(text.contains("red and plain") && text.contains("\\033[31mname"), "{text}");
    assert!(!told.iter().any(|byte| *byte < 0x20 && *byte != b'\n'), "{text:?}");
}

/// RUN-40.
#[test]
fn the_prompt_of_the_default_routine_has_no_escapes() {
    let project = PipelineProject::new();
    project.remove(".decree").decree(["init"]).ok();
    let config = project.text(".decree/config.yml");
    let config = config
        .lines()
        .map(|line| if line.trim_start().starts_with("ai:") { "  ai: bash ./ai.sh" } else { line })
        .collect::<Vec<_>>()
        .join("\n");
    project.config(&config);
    // However the prompt arrives, all of it is kept.
    project.write(
        "ai.sh",
        format!("{{ printf '%s\\n' \"$@\"; cat; }} >\"prompt-$DECREE_ATTEMPT.txt\"\n{COLORFUL}\n[ \"$DECREE_ATTEMPT\" -gt 1 ]\n"),
    );
    project.run(&["-p", "do the thing", "-v", "routine=develop"]).ok();
    let prompt = project.read("prompt-2.txt");
    let text = String::from_utf8_lossy(&prompt);
    assert!(text.contains("red and plain") && text.contains("link text end"), "{text}");
    assert!(!prompt.contains(&0x1b) && !prompt.contains(&7), "{text:?}");
}

/// RUN-42. A title or a device string that never ends must not take the reason of a failure with it.
#[test]
fn an_escape_that_never_ends_swallows_nothing_after_its_line() {
    for opening in ["\\033]0;never ended", "\\033Pnever ended", "\\033_never ended", "\\033[31"] {
        let project = PipelineProject::with(&format!(
            "printf 'before\\n{opening}\\nERROR: the real reason\\n50%%\\rlast words\\n'\nexit 1\n"
        ));
        project.config("max_retries: 1\n").run(&["-m", "x", "-p", "y"]).fails(1);
        let id = project.only_run();
        for file in ["attempts/1/log-tail.txt", "failure-context.md"] {
            let text = project.of_run(&id, file);
            assert!(text.contains("\nERROR: the real reason\nlast words\n"), "{opening}: {file}: {text:?}");
            assert!(text.contains("before\n") && !text.contains('\u{1b}'), "{opening}: {file}: {text:?}");
        }
        let result = project.result(&id);
        assert_eq!(result["attempts"][0]["headline"], "last words", "{opening}");
        // The same filter as for people, but for lines that overwrite themselves.
        let shown = project.decree(["log", &id, "--color", "never"]).ok().text().replace("50%\n", "");
        assert_eq!(shown, project.of_run(&id, "attempts/2/log-tail.txt"), "{opening}");
    }
}
