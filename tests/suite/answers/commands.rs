//! The commands, assumptions and counts in answers are concrete and true.

use std::process::Command;

use super::{json, texts};
use crate::harness::{CommandOutput, assert_same, run_command, temp_dir};
use crate::kinds::scene;
use crate::rollback::contract::assert_valid;
use crate::rollback::{change_everything, project};

/// Runs a line in a directory that has nothing to do with the project.
fn elsewhere(line: &str) -> CommandOutput {
    let place = temp_dir();
    let decree = std::path::Path::new(env!("CARGO_BIN_EXE_decree")).parent().unwrap();
    let path = format!("{}:{}", decree.display(), std::env::var("PATH").unwrap());
    run_command(Command::new("bash").args(["-c", line]).current_dir(place.path()).env("PATH", path))
}

/// CPC-06.
#[test]
fn the_commands_of_an_answer_run_from_any_directory() {
    for scene in scene::scenes() {
        let before = scene.looks();
        let created = scene.create("json", &[]);
        (scene.spoil)(&scene.project);
        let dry =
            texts(&created["next_safe_actions"]).into_iter().find(|it| it.contains("--dry-run")).unwrap();
        assert!(elsewhere(dry).ok().text().contains("re"), "{dry} lists what differs");
        elsewhere(created["checkpoint"]["restore_command"].as_str().unwrap()).ok();
        scene.assert_looks(&before, "after the restore command, run elsewhere");
    }
}

/// CPC-06.
#[test]
fn the_restore_command_outlives_the_directory_it_was_made_in() {
    let project = project();
    let before = project.snapshot();
    let src = project.path("src");
    let created = json(
        &project.decree(["-C", src.to_str().unwrap(), "checkpoint", "create", "--format", "json"]).ok().out,
    );
    project.remove("src");
    elsewhere(created["checkpoint"]["restore_command"].as_str().unwrap()).ok();
    assert_same(&project.snapshot(), &before);
}

/// CPC-06.
#[test]
fn a_project_with_any_name_has_a_restore_command() {
    use std::os::unix::ffi::OsStrExt;
    let place = temp_dir();
    for name in [&b"a 'b' $c"[..], b"caf\xe9 \n"] {
        let root = place.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(root.join(".decree")).unwrap();
        std::fs::write(root.join("file"), "one\n").unwrap();
        let decree = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_decree"));
            command.current_dir(&root);
            command
        };
        let created =
            json(&run_command(decree().args(["checkpoint", "create", "--format", "json"])).ok().out);
        std::fs::write(root.join("file"), "two\n").unwrap();
        elsewhere(created["checkpoint"]["restore_command"].as_str().unwrap()).ok();
        assert_eq!(std::fs::read(root.join("file")).unwrap(), b"one\n");
    }
}

/// CPC-10.
#[test]
fn a_stash_says_that_it_needs_git() {
    let scene = scene::git_stash();
    let created = scene.create("json", &[]);
    let assumptions = texts(&created["assumptions"]).join("\n");
    let commit = scene::git(&scene.project, &["rev-parse", "stash@{0}"]);
    assert!(assumptions.contains("git is available"), "{assumptions}");
    assert!(assumptions.contains(&commit[..12]), "{assumptions}");
    let head = scene::git(&scene.project, &["rev-parse", "HEAD"]);
    assert!(assumptions.contains(&format!("HEAD stays at {}", &head[..12])), "{assumptions}");
    assert_eq!(created["confidence"], 1.0);
}

/// CPC-10.
#[test]
fn what_can_safely_be_done_next_is_said_with_numbers_and_ids() {
    let project = project();
    let created =
        json(&project.decree(["checkpoint", "create", "--scope", "src", "--format", "json"]).ok().out);
    let next = texts(&created["next_safe_actions"]);
    assert_eq!(next[0], "edit: change, delete or replace any of the 3 files within src");
    let id = created["checkpoint"]["id"].as_str().unwrap();
    assert!(next[1..].iter().all(|line| line.starts_with("decree -C ") && line.contains(id)), "{next:?}");
    for word in ["guard", "diff", "rollback"] {
        assert_eq!(next[1..].iter().any(|line| line.contains(word)), word != "guard", "{next:?}");
    }
    let whole = json(&project.decree(["checkpoint", "create", "--format", "json"]).ok().out);
    assert_eq!(
        texts(&whole["next_safe_actions"])[0],
        "edit: change, delete or replace any of the 8 files of the tree"
    );
}

/// RBK-12.
#[test]
fn a_rollback_says_what_it_did_to_each_path_and_how_many() {
    let project = project();
    project.write("src/main.rs", "fn main() {\n    old();\n}\n");
    let id = project.checkpoint();
    change_everything(&project);
    project.write("src/main.rs", "fn main() {\n    new();\n    more();\n}\n");
    let check = |answer: &serde_json::Value| {
        let summary = |file: &str| {
            let changes = answer["changes_reverted"].as_array().unwrap();
            changes.iter().find(|it| it["file"] == file).unwrap()["summary"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            summary("src/main.rs"),
            "2 lines added and 1 removed since; the checkpoint has a file of 25 B, mode 644"
        );
        assert_eq!(summary("src/gone.rs"), "deleted since; the checkpoint has a file of 5 B, mode 644");
        assert_eq!(
            summary("src/new/orphan.rs"),
            "created since: a file of 7 B, mode 644; not in the checkpoint"
        );
        assert_eq!(
            summary("image.bin"),
            "binary content changed since; the checkpoint has a file of 3 B, mode 644"
        );
        assert_eq!(
            summary("tool.sh"),
            "mode changed to 700 since; the checkpoint has a file of 10 B, mode 755"
        );
        assert_eq!(summary("link"), "link changed since; the checkpoint has a link");
        assert_eq!(
            answer["counts"],
            serde_json::json!({ "reverted": 5, "recreated": 3, "removed": 3 }),
            "{answer:#}"
        );
    };
    let dry = json(&project.decree(["rollback", &id, "--dry-run", "--format", "json"]).ok().out);
    assert_valid(&dry, "rollback");
    check(&dry);
    let back = json(&project.decree(["rollback", &id, "--format", "json"]).ok().out);
    assert_valid(&back, "rollback");
    check(&back);
    assert!(texts(&back["warnings"]).contains(&"Orphaned directory detected: made (removed)"), "{back:#}");
    let next = texts(&back["next_actions"]);
    let present = back["saved_present_as"].as_str().unwrap();
    assert!(next[0].ends_with(&format!("rollback {present}")), "{next:?}");
    assert!(next.iter().any(|line| line.ends_with(&format!("diff {present}"))), "{next:?}");
    assert!(next.iter().any(|line| line.ends_with("checkpoint create")), "{next:?}");
    change_everything(&project);
    project.decree(["rollback", &id]).ok().mentions(&["reverted, ", "recreated, ", "removed; "]);
}

/// CPC-11.
#[test]
fn an_expiry_is_a_time_too() {
    let project = project();
    let expiry = |text: &str| {
        let args = ["checkpoint", "create", "--expiry", text, "--format", "json"];
        json(&project.decree(args).ok().out)["checkpoint"]["expiry"].as_str().unwrap().to_owned()
    };
    assert_eq!(expiry("2999-12-01"), "2999-12-01T00:00:00Z");
    assert_eq!(expiry("2999-12-01T10:00:00Z"), "2999-12-01T10:00:00Z");
    assert_eq!(expiry("2999-12-01T10:00"), "2999-12-01T10:00:00Z");
    assert_eq!(expiry("2999-12-01T10:00:00+02:00"), "2999-12-01T08:00:00Z");
    assert_eq!(expiry("2999-12-01 10:00:00-05:30"), "2999-12-01T15:30:00Z");
    for (wrong, why) in [
        ("2001-12-01", "is in the past"),
        ("2001-12-01T10:00:00Z", "is in the past"),
        ("2999-13-01", "2026-12-01"),
        ("2999-12-01T25:00", "2026-12-01"),
    ] {
        project.decree(["checkpoint", "create", "--expiry", wrong]).fails(2).mentions(&[why]);
        project.decree(["guard", "--expiry", wrong, "--", "true"]).fails(2).mentions(&[why]);
    }
    let soon = jiff_in(2);
    let id = project.decree(["guard", "--expiry", &soon, "--", "true"]).ok().err;
    let id = id.split(['`', ' ']).find(|word| word.starts_with("chk_")).unwrap().to_owned();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    project.decree(["rollback", &id]).fails(3).mentions(&["expired on", soon.as_str()]);
}

/// The time in so many seconds, as `date` writes it.
fn jiff_in(seconds: u32) -> String {
    let mut date = Command::new("date");
    date.args(["-u", "-d", &format!("+{seconds} seconds"), "+%Y-%m-%dT%H:%M:%SZ"]);
    run_command(&mut date).ok().line()
}

/// CPC-12.
#[test]
fn commands_in_answers_name_the_store_that_they_need() {
    let project = project();
    let place = crate::harness::temp_dir();
    let store = place.path().join("it's a store");
    let with_store = |args: &[&str]| {
        let output = run_command(project.command().args(args).env("DECREE_STORE", &store));
        json(&output.out)
    };
    let before = project.snapshot();
    let created = with_store(&["checkpoint", "create", "--format", "json"]);
    assert_valid(&created, "checkpoint");
    let guarded = with_store(&["guard", "--format", "json", "--", "sh", "-c", "rm -r src"]);
    assert_valid(&guarded, "guard");
    elsewhere(guarded["checkpoint"]["restore_command"].as_str().unwrap()).ok();
    assert_same(&project.snapshot(), &before);
    change_everything(&project);
    let id = created["checkpoint"]["id"].as_str().unwrap();
    let back = with_store(&["rollback", id, "--format", "json"]);
    let lists = [&created["next_safe_actions"], &created["evidence_anchors"], &back["evidence_anchors"]];
    for line in lists.iter().flat_map(|list| texts(list)).filter(|line| line.contains("decree -C")) {
        elsewhere(line.strip_prefix("tool:bash:").unwrap_or(line)).ok();
    }
    elsewhere(texts(&back["next_actions"])[0]).ok();
    elsewhere(created["checkpoint"]["restore_command"].as_str().unwrap()).ok();
    assert_same(&project.snapshot(), &before);
}

/// CPC-10.
#[test]
fn nothing_that_is_not_held_is_called_safe_to_change() {
    let project = project();
    project.write(".env", "A=1\n").write(".gitignore", "target/\n").write("target/x", "x\n");
    let first = |scopes: &[&str]| {
        let mut args = vec!["checkpoint", "create", "--format", "json", "--allow-missing"];
        scopes.iter().for_each(|scope| args.extend(["--scope", scope]));
        texts(&json(&project.decree(args).ok().out)["next_safe_actions"])[0].to_owned()
    };
    assert_eq!(first(&[".env"]), "edit: nothing: the checkpoint does not hold .env");
    assert_eq!(first(&["target"]), "edit: nothing: the checkpoint does not hold target");
    assert_eq!(first(&[".env", "notes.txt"]), "edit: change, delete or replace the 1 file within notes.txt");
    assert_eq!(
        first(&["build"]),
        "edit: create files within build, where none are now: a rollback removes them"
    );
}
