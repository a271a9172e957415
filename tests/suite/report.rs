//! `decree report`: on runs that are written down in `tests/report/fixture`, compared byte for byte; and on a project that
//! was just processed by a hostile routine.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::browser::{self, Browser};
use crate::harness::{CommandOutput, Project, temp_dir};
use crate::pipeline::pipeline_project::{PipelineProject, WORKS};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/fixture/summary.json");

fn report(project: &Project, arguments: &[&str]) -> CommandOutput {
    project.decree(["report"].iter().chain(arguments)).ok()
}

/// Compares with a file below `tests/report/`; writes it instead if `UPDATE_SNAPSHOTS` is set.
#[track_caller]
pub fn assert_is_file(found: &str, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    assert!(found == expected, "this is not {name} (UPDATE_SNAPSHOTS=1 accepts it):\n{found}");
}

/// REP-01, REP-02, REP-05.
#[test]
fn the_reports_of_runs_that_are_written_down() {
    let place = Project::bare();
    for (format, name) in [("text", "report.txt"), ("markdown", "report.md"), ("junit", "report.xml")] {
        let output = report(&place, &["--summary", FIXTURE, "--format", format]);
        assert_is_file(&output.text(), name);
    }
    let json = report(&place, &["--summary", FIXTURE, "--format", "json"]);
    assert_eq!(json.text(), fs::read_to_string(FIXTURE).unwrap());
}

/// REP-05.
#[test]
fn junit_has_a_case_for_each_spec() {
    let text = fs::read_to_string(Path::new(FIXTURE).with_file_name("../report.xml")).unwrap();
    let document = roxmltree::Document::parse(&text).unwrap();
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
    let count = |tag: &str| suite.descendants().filter(|node| node.has_tag_name(tag)).count().to_string();
    for (tag, attribute) in [("testcase", "tests"), ("failure", "failures"), ("skipped", "skipped")] {
        assert_eq!(suite.attribute(attribute), Some(count(tag).as_str()), "{tag}");
    }
    assert!(suite.descendants().any(|node| node.attribute("name") == Some("04-later | <b> `x`")));
}

/// A project whose routine prints, writes and names what could break a report.
fn hostile() -> Project {
    let project = Project::new();
    project.write(".decree/config.yml", "max_retries: 1\n");
    project.write("specs/01-good.spec.md", "# Good\n");
    project.write("specs/02-bad.spec.md", "# Bad\n");
    let routine = r#"# Develop
printf '</script><img src=x onerror="document.title=1"><!-- ]]> ``` @octocat \000\377\033[31mred\033[0m\n'
name=$'a\n<b>|`x`<!--'
printf 'one\n```\n</script><script>window.pwned = 1</script><!--\n\000' | tr -d '\000' > "$name"
printf '\377\376 not UTF-8\n' > "$(printf 'latin-\351')"
case "$spec_file" in *02*) exit 1;; esac
"#;
    project.write(".decree/routines/develop.sh", routine);
    project.decree(["process"]).fails(1);
    project
}

/// REP-01.
#[test]
fn without_a_format_it_says_the_closing_words_again() {
    let project = Project::new();
    project.write("specs/01-x.spec.md", "# X\n");
    project.write(".decree/routines/develop.sh", "# Develop\necho x > x\n");
    let output = project.decree(["process"]).ok();
    assert_eq!(report(&project, &[]).text(), output.text());
    report(&project, &["--format", "json", "--output", "sum.json"]);
    assert_eq!(project.read("sum.json"), project.read(".decree/summary.json"));
}

/// REP-08.
#[test]
fn with_nothing_to_report_it_says_what_to_do() {
    let project = Project::new();
    project.decree(["report"]).fails(3).mentions(&["nothing has been processed", "decree process"]);
    project.decree(["report", "--summary", "none.json"]).fails(3).mentions(&["none.json"]);
    project.write("bad.json", "{}");
    project.decree(["report", "--summary", "bad.json"]).fails(3).mentions(&["not a summary"]);
    project.write("new.json", r#"{"version": 99}"#);
    project.decree(["report", "--summary", "new.json"]).fails(3).mentions(&["version 99", "newer"]);
}

/// REP-08.
#[test]
fn an_output_that_is_no_file_is_not_replaced() {
    let project = Project::bare();
    project.mkdir("dir").link("link", "real").write("real", "old");
    let to = |output: &str| project.decree(["report", "--summary", FIXTURE, "--output", output]);
    to("dir").fails(1).mentions(&["is a directory"]);
    let device = to("/dev/stdout").ok();
    assert!(device.text().contains("✓ 3 kept"), "{}", device.text());
    to("link").ok();
    assert!(String::from_utf8(project.read("real")).unwrap().contains("✓ 3 kept"));
}

/// REP-08.
#[test]
fn a_partial_artifact_is_reported_as_far_as_it_goes() {
    let project = hostile();
    project.remove(".decree/runs");
    for format in ["text", "markdown", "json", "junit", "html"] {
        let text = report(&project, &["--format", format]).text();
        assert!(text.contains("02-bad"), "{format}: {text}");
    }
}

/// REP-03, REP-04, REP-05, REP-07.
#[test]
fn whatever_a_routine_does_the_reports_are_well_formed() {
    let project = hostile();
    let markdown = report(&project, &["--format", "markdown"]).text();
    assert!(markdown.len() <= 60_000);
    assert!(markdown.starts_with("### decree: 1 of 2 specs kept, 1 reverted\n"), "{markdown}");
    assert!(markdown.contains("\n````diff\n") && markdown.contains("\n````text\n"), "{markdown}");
    assert!(!markdown.contains(['\0', '\u{1b}']), "{markdown}");
    let junit = report(&project, &["--format", "junit"]).text();
    let document = roxmltree::Document::parse(&junit).unwrap_or_else(|error| panic!("{error}\n{junit}"));
    let failure = document.descendants().find(|node| node.has_tag_name("failure")).unwrap();
    assert!(failure.text().unwrap().contains("<!-- ]]> ``` @octocat"), "{junit}");
    let html = report(&project, &["--format", "html"]).text();
    let calm = report(&project, &["--summary", FIXTURE, "--format", "html"]).text();
    for mark in ["<script", "</script", "<img", "<!--"] {
        assert_eq!(html.matches(mark).count(), calm.matches(mark).count(), "{mark}");
    }
}

/// What the page is once its script has run; `None`, and a recorded skip, if there is no browser to run it.
#[track_caller]
fn in_a_browser(page: &Path, hash: &str) -> Option<String> {
    let browser = browser::found()?;
    let home = temp_dir();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args([
            "--disable-dev-shm-usage",
            "--window-size=1200,900",
            "--virtual-time-budget=3000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", home.path().display()))
        .arg(format!("file://{}{hash}", page.display()))
        .output()
        .unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

/// REP-06, REP-07.
#[test]
fn a_browser_shows_the_page_and_runs_nothing_that_a_routine_wrote() {
    let project = hostile();
    report(&project, &["--format", "html", "--output", "report.html"]);
    let Some(page) = in_a_browser(&project.path("report.html"), "") else {
        return;
    };
    assert!(page.contains("<title>decree: 1 of 2 specs kept, 1 reverted</title>"), "{page}");
    let (_, shown) = page.split_once("<main").unwrap();
    let (shown, _) = shown.split_once("</main>").unwrap();
    for part in ["02-bad", "attempt 2", "(clean slate)", "Failure context", "<span class=\"c1\">red</span>"] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert!(!shown.contains("<img"), "{shown}");
}

/// REP-06.
#[test]
fn a_browser_shows_the_diff_of_the_run_in_the_address() {
    let place = Project::bare();
    report(&place, &["--summary", FIXTURE, "--format", "html", "--output", "report.html"]);
    let Some(page) = in_a_browser(&place.path("report.html"), "#2026111613574500-0") else {
        return;
    };
    for part in [
        "<h2><span class=\"good\">✓ </span>01-add-auth</h2>",
        "binary: nothing → 4 B",
        "+pub struct Token(String);",
    ] {
        assert!(page.contains(part), "{part:?} is not in {page}");
    }
}

/// REP-06.
#[test]
fn in_a_browser_specs_are_listed_diffs_fold_and_search_filters() {
    let place = Project::bare();
    report(&place, &["--summary", FIXTURE, "--format", "html", "--output", "report.html"]);
    let Some(mut page) = Browser::open(&place.path("report.html")) else {
        return;
    };
    let shown = "[...document.querySelectorAll('#specs li')].filter(item => item.offsetHeight > 0).map(item => item.querySelector('.name').textContent)";
    let all = page.value(shown);
    assert!(all.as_array().unwrap().len() > 2 && all[0] == "01-add-auth", "{all}");

    page.click("#specs li:first-child button");
    page.until("document.querySelector('#detail h2').textContent.includes('01-add-auth')");
    let height = "document.querySelector('#file-0 .rows').offsetHeight";
    page.until(&format!("{height} > 0"));
    page.click("#file-0 h3 button");
    page.until(&format!("{height} === 0"));
    assert_eq!(page.value("document.querySelector('#file-0 h3 button').ariaExpanded"), "false");
    page.click("#file-0 h3 button");
    page.until(&format!("{height} > 0"));

    page.click("#query");
    page.type_text("struct Token");
    page.until("!document.getElementById('hits').hidden");
    assert_eq!(page.value(shown), serde_json::json!(["01-add-auth"]));
    assert_eq!(page.value("document.querySelector('#hit-list mark').textContent"), "struct Token");
    page.click("#hit-list button");
    page.until("document.querySelector('.hit').textContent.includes('struct Token')");
    page.value("(document.getElementById('query').value = '', document.getElementById('query').dispatchEvent(new Event('input')))");
    page.until(&format!("{shown}.length === {}", all.as_array().unwrap().len()));
}

/// REP-07.
#[test]
fn in_a_browser_a_script_in_a_diff_is_text() {
    let project = hostile();
    report(&project, &["--format", "html", "--output", "report.html"]);
    let Some(mut page) = Browser::open(&project.path("report.html")) else {
        return;
    };
    let specs = page.value("document.querySelectorAll('#specs li').length").as_u64().unwrap();
    for spec in 1..=specs {
        page.click(&format!("#specs li:nth-child({spec}) button"));
        page.value("document.getElementById('tab-change').click()");
        page.until("document.querySelector('#panel-change').textContent.length > 0");
    }
    assert_eq!(page.value("typeof window.pwned"), "undefined");
    assert_eq!(
        page.value("document.querySelectorAll('main script, main img, main iframe, main a').length"),
        0
    );
    assert_eq!(page.value("document.scripts.length"), 2);
}

/// REP-09.
#[test]
fn a_spec_with_follow_ups_is_one_spec() {
    let script = "echo \"$seq\" >>work.txt\n[ \"$seq\" -ge 2 ] || echo more >\".decree/inbox/$chain-$((seq + 1)).md\"\n";
    let project = PipelineProject::with(script);
    project.spec("01-a", "# A\n").process().ok();
    assert_eq!(project.text("work.txt"), "0\n1\n2\n");
    let headline = "1 of 1 spec and 2 of 2 messages kept";
    let markdown = project.decree(["report", "--format", "markdown"]).ok().text();
    assert!(markdown.starts_with(&format!("### decree: {headline}\n")), "{markdown}");
    let html = project.decree(["report", "--format", "html"]).ok().text();
    assert!(html.contains(&format!("<title>decree: {headline}</title>")));
    let comment = project.decree(["comment", "--dry-run"]).ok().text();
    assert!(comment.contains(&format!("### decree: {headline}\n")), "{comment}");
}

/// REP-09.
#[test]
fn a_limit_is_reported_everywhere() {
    let project = PipelineProject::with(WORKS);
    for number in 1..=5 {
        project.spec(&format!("0{number}-a"), "# A\n");
    }
    let output = project.process_with(&["--limit", "2"]).ok().mentions(&["· 2 of 5 specs to process"]);
    assert!(
        output.text().contains("✓ 2 kept") && output.text().contains("3 specs left by --limit"),
        "{}",
        output.text()
    );
    assert_eq!(project.summary()["specs_left"], 3);
    let markdown = project.decree(["report", "--format", "markdown"]).ok().text();
    assert!(markdown.starts_with("### decree: 2 of 2 specs kept, 3 specs left by --limit\n"), "{markdown}");

    project.process().ok().mentions(&["· 3 specs to process"]);
    assert_eq!(project.summary().get("specs_left"), None);
}

/// SEE-38. What never ran was not reverted.
#[test]
fn a_message_that_never_ran_is_not_counted_as_reverted() {
    let project = PipelineProject::with("echo x >>work.txt; case $spec_file in *03*) exit 1;; esac");
    project.config("max_retries: 0\n").spec("01-a", "# A\n").spec("03-c", "# C\n");
    project.spec("02-b", "---\nroutine: no-such-routine-with-a-name-that-is-very-long-indeed\n---\n# B\n");
    project.process().fails(1);
    let headline = "1 of 3 specs kept, 1 reverted, 1 dead letter";
    let markdown = project.decree(["report", "--format", "markdown"]).ok().text();
    assert!(markdown.starts_with(&format!("### decree: {headline}\n")), "{markdown}");
    let html = project.decree(["report", "--format", "html"]).ok().text();
    assert!(html.contains(&format!("<title>decree: {headline}</title>")));
    // Its reason is too long for a row of `status`, which shows that it is cut.
    let status = project.decree(["status"]).ok().text();
    let cut = status.lines().find(|line| line.contains("02-b (RoutineNotFound: ")).unwrap();
    assert!(cut.contains("…)"), "{status}");
}
