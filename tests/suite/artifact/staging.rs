use std::fs;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{SECRET, files, staged, worked};
use crate::harness::{skip, temp_dir};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// ART-01.
#[test]
fn an_artifact_holds_reports_and_runs() {
    let (project, _) = worked();
    let id = project.runs()[0].clone();
    project
        .write(format!(".decree/runs/{id}/set-aside/.env"), "x")
        .write(format!(".decree/runs/{id}/previous/1/x"), "x");
    let (_dir, target) = staged(&project);
    let found = files(&target);
    for name in ["junit.xml", "report.html", "report.md", "summary.json"] {
        assert!(found.contains(&name.to_owned()), "{name} in {found:?}");
    }
    for run in project.runs() {
        for name in [
            "changes.diff",
            "manifest.json",
            "message.md",
            "result.json",
            "routine.log",
            "attempts/1/changes.diff",
        ] {
            let name = format!("runs/{run}/{name}");
            assert!(found.contains(&name), "{name} in {found:?}");
            assert_eq!(fs::read(target.join(&name)).unwrap(), project.read(format!(".decree/{name}")));
        }
    }
    assert!(!found.iter().any(|name| name.contains("set-aside") || name.contains("previous")), "{found:?}");
    assert!(!found.contains(&"left-out.txt".to_owned()));
}

/// SEE-60. Diffs, results and manifests have attributes in base64.
#[test]
fn a_secret_in_an_extended_attribute_is_in_no_staged_file() {
    let project = PipelineProject::with(
        "echo work >>work.txt; [ \"${spec_file##*/}\" = 01-x.spec.md ] || exit 0\n\
         echo plain >x.txt; setfattr -n user.k -v \"before $SAMPLE_API_KEY after\" x.txt",
    );
    let probe = project.write("probe", "").path("probe");
    let why = "the file system of the tests keeps no attributes of users";
    if !skip::works(Command::new("setfattr").args(["-n", "user.x", "-v", "1"]).arg(&probe), why) {
        return;
    }
    project.spec("01-x", "Do\n").spec("02-x", "Do\n");
    project.decree_with_env(&["process"], &[("SAMPLE_API_KEY", SECRET)]).ok();
    let value = STANDARD.encode(format!("before {SECRET} after"));
    let (first, second) = (project.runs()[0].clone(), project.runs()[1].clone());
    let text = project.text(&format!(".decree/runs/{first}/changes.diff"));
    assert_has(&text, &[&format!("user.k:{value}")]);
    let dir = temp_dir();
    let target = dir.path().join("artifact");
    let variables = [("SAMPLE_API_KEY", SECRET)];
    let output = project.decree_with_env(&["stage", target.to_str().unwrap()], &variables).ok();
    let found = files(&target);
    for name in &found {
        let text = String::from_utf8_lossy(&fs::read(target.join(name)).unwrap()).into_owned();
        assert!(!text.contains(&value) && !text.contains(SECRET), "{name}");
    }
    let left_out = fs::read_to_string(target.join("left-out.txt")).unwrap();
    for name in [
        format!("runs/{first}/changes.diff"),
        format!("runs/{first}/result.json"),
        format!("runs/{first}/attempts/1/changes.diff"),
        format!("runs/{second}/manifest.json"),
    ] {
        assert_has(&left_out, &[&format!("{name}: it holds a secret")]);
        assert_has(&output.err, &[&name]);
    }
    for name in [format!("runs/{first}/manifest.json"), format!("runs/{second}/changes.diff")] {
        assert!(found.contains(&name), "{name} in {found:?}");
    }
}

/// ART-02.
#[test]
fn a_secret_that_is_a_word_of_ours_spoils_no_report() {
    let project = PipelineProject::with("echo work >work.txt");
    project.spec("01-x", "Do\n");
    project.process().ok();
    for word in ["messages", "success", "verdict", "testsuite"] {
        let dir = temp_dir();
        let target = dir.path().join("artifact");
        project.decree_with_env(&["stage", target.to_str().unwrap()], &[("CACHE_KEY", word)]).ok();
        let text = |name: &str| fs::read_to_string(target.join(name)).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text("summary.json")).unwrap();
        assert_eq!(summary["messages"][0]["verdict"], "success", "{word}");
        assert!(text("junit.xml").contains("<testsuite"), "{word}");
    }
}

/// ART-02.
#[test]
fn a_secret_is_in_no_staged_file() {
    let project = PipelineProject::with(
        r#"
echo "I was told $SAMPLE_API_KEY"
case ${spec_file:-} in
*01*) echo "key=$SAMPLE_API_KEY" >settings.ini ;;
*02*) printf '\0 some bytes before %s and after' "$SAMPLE_API_KEY" >data.bin ;;
*03*) printf '{"token": "%s"}' "$SAMPLE_API_KEY" >"$message_dir/own.json"; echo fine >fine.txt ;;
*04*) echo "$SAMPLE_API_KEY" >"name-$SAMPLE_API_KEY"; echo "again $SAMPLE_API_KEY"; exit 1 ;;
*05*) echo nothing to hide >open.txt ;;
esac
"#,
    );
    project.config("max_retries: 0\n");
    for number in 1..=5 {
        project.spec(&format!("{number:02}-x"), "Do\n");
    }
    let environment = [("SAMPLE_API_KEY", SECRET), ("GITHUB_ACTIONS", "true")];
    project.decree_with_env(&["process"], &environment).fails(1);
    let dir = temp_dir();
    let target = dir.path().join("artifact");
    let output = project.decree_with_env(&["stage", target.to_str().unwrap()], &environment).ok();
    let found = files(&target);
    for name in &found {
        assert!(!name.contains(SECRET), "{name}");
        let bytes = fs::read(target.join(name)).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "{name}");
        let unpacked = base64_blocks(&String::from_utf8_lossy(&bytes));
        assert!(
            !unpacked.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()),
            "{name}, in base64"
        );
    }
    let left_out = fs::read_to_string(target.join("left-out.txt")).unwrap();
    let runs = project.runs();
    for (run, file) in [(0, "changes.diff"), (1, "changes.diff"), (2, "own.json"), (3, "changes.diff")] {
        let name = format!("runs/{}/{file}", runs[run]);
        assert_has(&left_out, &[&format!("{name}: it holds a secret")]);
        assert!(!found.contains(&name), "{name}");
    }
    for run in [2, 4] {
        assert!(found.contains(&format!("runs/{}/changes.diff", runs[run])), "{found:?}");
    }
    assert!(found.contains(&format!("runs/{}/routine.log", runs[0])));
    assert_has(
        &output.err,
        &[
            "::warning title=",
            "left out of the artifact",
            "changes.diff%3A it holds".replace("%3A", ":").as_str(),
        ],
    );
}

fn base64_blocks(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    let lines = text.lines().filter_map(|line| line.strip_prefix("# "));
    lines.filter_map(|line| base64::engine::general_purpose::STANDARD.decode(line).ok()).flatten().collect()
}

/// ART-03.
#[test]
fn what_an_artifact_cannot_hold_is_left_out_and_named() {
    let project = PipelineProject::with(
        r#"
cd "$message_dir"
ln -s /etc/passwd link; ln -s /etc directory; mkfifo pipe
echo x >'a:b'; echo x >$'new\nline'; echo x >$'\xff'
truncate -s 40M large; mkdir sub; echo x >sub/small
deep=.; for n in $(seq 30); do deep=$deep/d; done; mkdir -p $deep; echo x >$deep/x
"#,
    );
    project.spec("01-x", "Do\n");
    project.process().ok();
    let (_dir, target) = staged(&project);
    let (found, left_out) = (files(&target), fs::read_to_string(target.join("left-out.txt")).unwrap());
    let id = project.only_run();
    for name in ["link", "directory", "pipe", "a:b", "new\\nline", "large"] {
        assert_has(&left_out, &[&format!("runs/{id}/{name}: ")]);
    }
    assert_has(&left_out, &["its name is not UTF-8", "nested too deeply"]);
    assert!(found.contains(&format!("runs/{id}/sub/small")), "{found:?}");
    assert!(
        !found.iter().any(|name| name.contains("link") || name.contains("pipe") || name.contains(':')),
        "{found:?}"
    );
    assert_eq!(left_out.lines().count(), 8, "{left_out}");
}

/// ART-07.
#[test]
fn nothing_is_staged_into_what_is_there_already() {
    let (project, _) = worked();
    project.write("there/x", "x");
    let before = project.snapshot();
    project.decree(["stage", "there"]).fails(1).mentions(&["there is not empty", "hint"]);
    crate::harness::assert_same(&project.snapshot(), &before);
    PipelineProject::new().decree(["stage", "new"]).fails(3).mentions(&["summary.json", "decree process"]);
    let elsewhere = temp_dir();
    let summary = project.path(".decree/summary.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_decree"));
    command.args(["stage", "out", "--summary"]).arg(summary).current_dir(elsewhere.path());
    crate::harness::run_command(&mut command).ok();
    assert!(elsewhere.path().join("out/summary.json").exists());
}
