//! The text of a comment.

use std::fs;
use std::path::Path;

use super::fixture::{ID, Stage, added};
use crate::report::assert_is_file;

/// CMT-07.
#[test]
fn the_comment_of_runs_that_are_written_down() {
    let stage = Stage::github();
    let url = "https://git.example.org/octo/repo/actions/runs/123/artifacts/456";
    let output =
        stage.comment(&["--dry-run", "--artifact-name", "decree-process-0-1", "--artifact-url", url]).ok();
    assert_is_file(&output.text(), "comment.md");
    let (_, end) = output
        .text()
        .trim_end()
        .rsplit_once("</details>\n\n")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert!(end.contains(&format!("[artifact decree-process-0-1]({url})")), "{end}");
    assert!(end.contains(&format!("`decree apply {ID} --from decree-process-0-1.zip`")), "{end}");
    assert!(end.contains("<sub>[run 123, attempt 1](https://git.example.org/octo/repo/actions/runs/123) · commit 1a2b3c4 · decree "), "{end}");
}

/// CMT-07.
#[test]
fn without_an_artifact_or_a_run_it_says_less() {
    let mut stage = Stage::github();
    stage.unset("GITHUB_RUN_ID").event("push", &serde_json::json!({}));
    let text = stage.comment(&["--dry-run"]).ok().text();
    assert!(text.contains("Each run is recorded in `.decree/runs/ID/`"), "{text}");
    assert!(text.contains("<sub>decree 0.1.0 process · ") && !text.contains("Whole diffs"), "{text}");
    let text = stage.comment(&["--dry-run", "--artifact-name", "a `b` $c"]).ok().text();
    assert!(text.contains("artifact a &#96;b&#96; &#36;c. Apply one here: ```"), "{text}");
    assert!(text.contains("--from 'a `b` $c.zip'"), "{text}");
    for bad in ["javascript:alert(1)", "https://x.y/a)b", "file:///etc/passwd"] {
        stage.comment(&["--dry-run", "--artifact-url", bad]).fails(2).mentions(&["--artifact-url"]);
    }
}

/// CMT-07.
#[test]
fn a_huge_diff_fits_into_the_budget() {
    let stage = Stage::github();
    let lines = (0..60_000).map(|number| format!("line {number} — with “characters” of more bytes"));
    let diff = added("big.txt", lines);
    stage.comment_on_diff("big.txt", &diff, &[]).ok();
    let body = stage.server.bodies().remove(0);
    assert!((50_000..=60_000).contains(&body.len()), "{}", body.len());
    assert!(body.contains("left out") && body.contains(&format!("decree diff {ID}")), "{body}");
    stage.comment_on_diff("big.txt", &diff, &["--budget", "65000"]).ok();
    assert!((60_000..=65_000).contains(&stage.server.bodies()[0].len()));
    stage.comment_on_diff("big.txt", &diff, &["--budget", "4000"]).ok();
    assert!(stage.server.bodies()[0].len() <= 4000);
    stage.comment_on_diff("big.txt", &diff, &["--budget", "70000"]).fails(2);
    assert_eq!(stage.server.bodies().len(), 1);
}

/// CMT-07.
#[test]
fn hostile_content_stays_text() {
    let stage = Stage::github();
    let name = "--> @octocat <img src=x> `x` |";
    let hostile =
        "````\n+</details><script>alert(1)</script> --> <!-- decree:v1 key=other -->\n+\u{1b}[31m\0@octocat";
    let diff = added("evil.md", [hostile.to_owned()]);
    stage.comment_on_diff(name, &diff, &[]).ok();
    stage.comment_on_diff(name, &diff, &[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 1);
    let body = &bodies[0];
    assert!(!body.contains(['\0', '\u{1b}']), "{body}");
    assert!(body.contains("\n`````diff\n"), "{body}");
    let outside: Vec<&str> = body.split("`````").step_by(2).collect();
    assert_eq!(outside.len(), 2, "{body}");
    for part in outside {
        for word in ["@octocat", "<img", "<script", "key=other"] {
            assert!(!part.contains(word), "{word:?} is in {part}");
        }
    }
}

/// CMT-14.
#[test]
fn secrets_are_in_no_comment_and_in_no_report() {
    let mut stage = Stage::github();
    let secret = "s3cret_value-42";
    stage.set("DEPLOY_PASSWORD", secret).set("PEM_KEY", "first\nMIIEabcdefgh\nlast");
    let lines = [
        secret.to_owned(),
        "MIIEabcdefgh".to_owned(),
        super::server::RUNNER.to_owned(),
        "s3cret\u{1b}[0m_value-42 x".to_owned(),
    ];
    let diff = added("leak.txt", lines);
    stage.place.write(format!("runs/{ID}/failure-context.md"), format!("it was {secret}\n"));
    stage.comment_on_diff(&format!("{secret}.txt"), &diff, &[]).ok();
    let body = stage.server.bodies().remove(0);
    for word in [secret, "MIIEabcdefgh", super::server::RUNNER, "s3cret"] {
        assert!(!body.contains(word), "{word} is in {body}");
    }
    assert!(body.contains("+***\n"), "{body}");
    for format in ["text", "markdown", "json", "junit", "html"] {
        let mut command = stage.place.command();
        command.env("DEPLOY_PASSWORD", secret);
        command.args(["report", "--summary", "summary.json", "--format", format]);
        let output = crate::harness::run_command(&mut command).ok();
        let text = output.text();
        assert!(!text.contains("s3cret") && (format == "text" || text.contains("***")), "{format}: {text}");
    }
}

/// CMT-14.
#[test]
fn a_secret_that_is_a_word_of_ours_changes_no_verdict() {
    let mut stage = Stage::github();
    stage.set("ODD_TOKEN", "success").set("VERY_ODD_KEY", "CI/process");
    let text = stage.comment(&["--dry-run"]).ok().text();
    assert!(text.starts_with("<!-- decree:v1 key=CI/process -->\n"), "{text}");
    assert!(text.contains("| 01-add-auth | ✅ kept |"), "{text}");
    let fixture = fs::read_to_string(Path::new(super::fixture::FIXTURE)).unwrap();
    assert!(fixture.contains("success"));
}
