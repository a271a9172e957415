//! Answers and messages of `rollback`, `guard` and `checkpoint` agree with what is on disk.

use std::process::Command;

use serde_json::Value;

use super::contract::{assert_valid, run_as_printed};
use super::{change_everything, project};
use crate::harness::{assert_same, run_command};

fn json(out: &[u8]) -> Value {
    serde_json::from_slice(out).unwrap()
}

/// CPC-05.
#[test]
fn a_scope_of_which_nothing_is_held_is_reported_before_anything_happens() {
    let project = project();
    project.write(".gitignore", "target/\n").write("target/x", "x\n");
    let args = ["checkpoint", "create", "--allow-missing", "--format", "json", "--scope"];
    let create = |scope: &str| project.decree([&args[..], &[scope]].concat()).ok();
    let nothing = create("build").mentions(&["warning:", "'build' matches nothing now"]);
    assert!(json(&nothing.out)["assumptions"].to_string().contains("build"));
    let ignored = create("target").mentions(&["warning:", "'target' is not in the checkpoint"]);
    assert!(json(&ignored.out)["confidence"].as_f64().unwrap() < 0.5);
    // What was nothing then is nothing again.
    let restore = json(&nothing.out)["checkpoint"]["restore_command"].as_str().unwrap().to_owned();
    run_as_printed(&project, &restore).ok();
    project.write("build/made", "made\n");
    run_as_printed(&project, &restore).ok();
    assert!(!project.exists("build"));
    project
        .decree(["guard", "--allow-missing", "--scope", "build", "--", "false"])
        .fails(1)
        .mentions(&["'build' matches nothing"]);
}

/// RBK-08.
#[test]
fn a_directory_that_was_emptied_or_filled_is_no_orphan() {
    let project = project();
    let before = project.snapshot();
    let id = project.checkpoint();
    project.remove("docs/guide.md").write("empty/new", "new\n");
    let back = json(&project.decree(["rollback", &id, "--format", "json"]).ok().out);
    let files: Vec<&str> =
        back["changes_reverted"].as_array().unwrap().iter().map(|it| it["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["docs/guide.md", "empty/new"]);
    assert_eq!(back["warnings"].as_array().unwrap().len(), 1, "{}", back["warnings"]);
    assert_same(&project.snapshot(), &before);
}

/// RBK-09.
#[test]
fn what_was_never_held_lowers_the_confidence_of_a_rollback() {
    let project = project();
    project.write(".env", "A=1\n");
    let id = project.checkpoint();
    change_everything(&project);
    project.write(".env", "A=2\n");
    let back = json(&project.decree(["rollback", &id, "--format", "json"]).ok().out);
    assert_valid(&back, "rollback");
    assert!(back["confidence"].as_f64().unwrap() < 0.96 && back["assumptions"].to_string().contains(".env"));
    project.write("src/lib.rs", "changed\n");
    let quick = json(&project.decree(["rollback", &id, "--no-verify", "--format", "json"]).ok().out);
    assert_valid(&quick, "rollback");
    assert_eq!((&quick["rolled_back"], &quick["verification"]["match"]), (&true.into(), &false.into()));
    assert!(
        quick["verification"]["post_state_hash"].is_null() && quick["confidence"].as_f64().unwrap() < 0.9
    );
}

/// CPC-06.
#[test]
fn every_command_in_an_answer_runs_from_where_the_caller_stands() {
    let project = project();
    let place = crate::harness::temp_dir();
    std::os::unix::fs::symlink(project.root(), place.path().join("a b")).unwrap();
    let decree = std::path::Path::new(env!("CARGO_BIN_EXE_decree")).parent().unwrap();
    let bash = |line: &str| {
        let path = format!("{}:{}", decree.display(), std::env::var("PATH").unwrap());
        run_command(Command::new("bash").args(["-c", line]).current_dir(place.path()).env("PATH", path))
    };
    let created = json(&bash("decree -C 'a b' checkpoint create --format json").ok().out);
    project.write("src/lib.rs", "changed\n");
    let id = created["checkpoint"]["id"].as_str().unwrap();
    let back = json(&bash(&format!("decree -C 'a b' rollback {id} --format json")).ok().out);
    let lists = [
        &created["next_safe_actions"],
        &created["evidence_anchors"],
        &back["evidence_anchors"],
        &back["next_actions"],
    ];
    for line in lists.iter().flat_map(|list| list.as_array().unwrap()) {
        let line = line.as_str().unwrap();
        if let Some(file) = line.strip_prefix("file:") {
            let root = std::path::Path::new(created["project"].as_str().unwrap());
            assert!(root.join(file).exists(), "{line}");
        } else if line.contains("decree ") {
            bash(line.strip_prefix("tool:bash:").unwrap_or(line)).ok();
        }
    }
}

/// CPC-07.
#[test]
fn yaml_is_read_the_same_by_every_reader() {
    let project = project();
    let yaml =
        project.decree(["checkpoint", "create", "--expiry", "7d", "--reason", "no", "--format", "yaml"]).ok();
    let text = yaml.text();
    // Without quotes some would read times and truths.
    assert!(text.contains("  reason: \"no\"\n") && text.contains("  created_at: \"20"), "{text}");
    assert!(text.starts_with("checkpoint_created: true\n"), "{text}");
}

/// GRD-08.
#[test]
fn a_guard_says_what_failed_and_keeps_secrets_to_itself() {
    let project = project();
    let output =
        project.decree(["guard", "--verify", "test -e nope", "--", "sh", "-c", "echo x >new.txt"]).fails(1);
    assert!(
        output.err.contains("`sh -c 'echo x >new.txt'` succeeded, but `test -e nope` failed with 1"),
        "{}",
        output.err
    );
    assert!(output.err.contains("remove    new.txt"), "{}", output.err);
    let mut command = project.command();
    command.args([
        "guard",
        "--verify",
        "echo $DECREE_CHECKPOINT; false",
        "--",
        "sh",
        "-c",
        "echo hush-hush-1 >new.txt",
    ]);
    let answer = crate::harness::run_command(command.env("MY_TOKEN", "hush-hush-1"));
    assert!(answer.text().starts_with("chk_"), "{}", answer.text());
    for file in project.names(".decree/checkpoints") {
        let record =
            String::from_utf8(project.read(format!(".decree/checkpoints/{file}/checkpoint.json"))).unwrap();
        assert!(!record.contains("hush"), "{record}");
    }
    let trail = String::from_utf8(project.read(".decree/audit.jsonl")).unwrap();
    assert!(!trail.contains("hush") && trail.contains("***"), "{trail}");
    project.decree(["guard", "echo hi; exit 3"]).fails(127).mentions(&["hint:", "sh -c"]);
}

/// CPC-08.
#[test]
fn what_people_type_is_taken_as_they_mean_it_or_refused_with_a_word() {
    let project = project();
    let create = |expiry: &str| project.decree(["checkpoint", "create", "--expiry", expiry]);
    for wrong in ["24", "0", "0h", "1y", "NEVER"] {
        create(wrong).fails(2);
    }
    create("999999999d").fails(2).mentions(&["too long"]);
    let id = create("2w").ok().mentions(&["expires on"]).line();
    project.decree(["rollback", &id, "--export"]).fails(2).mentions(&["only a state_snapshot"]);
    project.decree(["checkpoint", "create", "--reason", "two\nlines \x1b[31mred"]).ok();
    for command in [&["checkpoint", "list"][..], &["checkpoint", "show", &id], &["audit"]] {
        assert!(!project.decree(command).ok().text().contains('\x1b'));
    }
    assert_eq!(project.decree(["checkpoint", "list"]).ok().text().lines().count(), 2);
    change_everything(&project);
    project.decree(["rollback", &id]).ok();
    let head = project.decree(["audit", "verify", "--format", "json"]);
    let head = json(&head.ok().out)["head"].as_str().unwrap().to_owned();
    project.decree(["audit", "verify", "--head", &head[..8]]).ok();
    project.decree(["audit", "verify", "--head", &head[..7]]).fails(2);
    project.decree(["audit", "verify", "--head", "00000000"]).fails(4);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(project.checkpoint());
    }
    let list = json(&project.decree(["checkpoint", "list", "--format", "json"]).ok().out);
    let listed: Vec<&str> =
        list["checkpoints"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(listed[listed.len() - 5..], ids, "oldest first, also within a second");
    assert!(list["checkpoints"].as_array().unwrap().iter().all(|it| it["type"] == "file_backup"));
}

/// RBK-10.
#[test]
fn a_name_that_looks_like_a_pattern_is_that_name() {
    let project = project();
    project
        .write("f[1].txt", "a\n")
        .write("f1.txt", "a\n")
        .write("app/[id]/page", "a\n")
        .write("d ", "a\n")
        .write("d", "a\n");
    let id = project.checkpoint();
    for file in ["f[1].txt", "f1.txt", "app/[id]/page", "d ", "d"] {
        project.write(file, "b\n");
    }
    project.remove("app");
    project
        .decree(["rollback", &id, "--scope", "f[1].txt", "--scope", "app/[id]/page", "--scope", "d "])
        .ok();
    let read = |file: &str| project.read(file);
    assert_eq!((read("f[1].txt"), read("f1.txt")), (b"a\n".to_vec(), b"b\n".to_vec()));
    assert_eq!(
        (read("d "), read("d"), read("app/[id]/page")),
        (b"a\n".to_vec(), b"b\n".to_vec(), b"a\n".to_vec())
    );
    let dry = project.decree(["rollback", &id, "--dry-run", "--scope", "f1.txt", "--format", "json"]).ok();
    let next = json(&dry.out)["next_actions"][0].as_str().unwrap().to_owned();
    assert!(
        next.starts_with("decree -C /") && next.ends_with(&format!(" rollback {id} --scope f1.txt")),
        "{next}"
    );
}

/// ANS-06.
#[test]
fn a_broken_config_is_in_the_warnings_of_an_answer() {
    let project = project();
    let id = project.checkpoint();
    project.write(".decree/config.yml", "max_retries: many\n");
    for (args, schema) in [(vec!["rollback", &id], "rollback"), (vec!["recover"], "recover")] {
        let answer = json(&project.decree([&args[..], &["--format", "json"]].concat()).ok().out);
        assert_valid(&answer, schema);
        let warnings = answer["warnings"].to_string();
        assert!(warnings.contains("settings that cannot be read have their defaults"), "{answer:#}");
    }
}
