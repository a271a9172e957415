//! `state_snapshot`: decree's own state.

use std::fs;
use std::process::Stdio;

use super::scene::parsed;
use crate::harness::wait_until;
use crate::killed::{count_calls, has_strace, kill_before};
use crate::pipeline::pipeline_project::PipelineProject;
use crate::rollback::contract::{assert_valid, run_as_printed};

/// SNP-01.
#[test]
fn values_of_the_environment_come_back_to_the_shell_that_asks() {
    let project = PipelineProject::new();
    let decree = env!("CARGO_BIN_EXE_decree");
    let script = format!(
        r#"set -e
        decree() {{ {decree} "$@"; }}
        export MODE="it's
two lines" LEVEL=3; unset GONE
        restore=$(decree checkpoint create --type state_snapshot --scope inbox --scope env:MODE --scope env:LEVEL --scope env:GONE --allow-missing \
            --format json | python3 -c 'import json, sys; print(json.load(sys.stdin)["checkpoint"]["restore_command"])')
        export MODE=other GONE=here
        mkdir -p .decree/inbox; echo spoiled > .decree/inbox/1.md
        eval "$restore"
        printf '%s|%s|%s' "$MODE" "$LEVEL" "${{GONE-unset}}""#
    );
    let output = crate::harness::run_command(
        std::process::Command::new("bash").args(["-c", &script]).current_dir(project.root()),
    )
    .ok();
    assert_eq!(output.text(), "it's\ntwo lines|3|unset");
    assert!(!project.exists(".decree/inbox/1.md"));
}

/// SNP-02.
#[test]
fn what_cannot_be_reverted_by_decree_is_reported() {
    let project = PipelineProject::new();
    project.config("max_retries: 1\n");
    let variables = [("MODE", "a"), ("API_TOKEN", "hush-hush-hush")];
    let args = ["checkpoint", "create", "--type", "state_snapshot", "--format", "json"];
    let scope = ["--scope", "config", "--scope", "env:MODE", "--scope", "env:API_TOKEN"];
    let output = project.decree_with_env(&[&args[..], &scope].concat(), &variables).ok();
    let answer = parsed("json", &output.mentions(&["not in the checkpoint: env:API_TOKEN"]).out);
    assert!(answer["confidence"].as_f64().unwrap() < 0.96);
    let id = answer["checkpoint"]["id"].as_str().unwrap();
    let text = fs::read_to_string(project.path(format!(".decree/checkpoints/{id}/state.json"))).unwrap();
    assert!(!text.contains("hush"), "a secret is not kept");
    project.config("max_retries: 9\n");
    let back = project.decree_with_env(&["rollback", id, "--format", "json"], &[("MODE", "b")]).fails(4);
    let back = parsed("json", &back.out);
    assert!(back["warnings"][0].as_str().unwrap().contains("env:MODE"), "{back:#}");
    assert_eq!((&back["rolled_back"], &back["verification"]["match"]), (&false.into(), &false.into()));
    assert!(back["confidence"].as_f64().unwrap() < 1.0);
    assert!(project.text(".decree/config.yml").contains("max_retries: 1"), "the files are restored");
    project
        .decree(["checkpoint", "create", "--type", "state_snapshot", "--scope", "inbix"])
        .fails(2)
        .mentions(&["inbox"]);
    project.decree(["rollback", id, "--scope", "dead"]).fails(3).mentions(&["does not hold dead"]);
}

/// SNP-07.
#[test]
fn a_rollback_that_cannot_set_variables_does_not_say_that_it_did() {
    let project = PipelineProject::new();
    for scope in [&["--scope", "env:FOO"][..], &["--scope", "inbox", "--scope", "env:FOO"]] {
        project.write(".decree/inbox/1.md", "one\n");
        let args = ["checkpoint", "create", "--type", "state_snapshot", "--format", "json"];
        let created = project.decree_with_env(&[&args[..], scope].concat(), &[("FOO", "one")]).ok();
        let created = parsed("json", &created.out);
        let id = created["checkpoint"]["id"].as_str().unwrap();
        project.write(".decree/inbox/1.md", "two\n");
        let roll_back =
            |foo: &str| project.decree_with_env(&["rollback", id, "--format", "json"], &[("FOO", foo)]);
        let back = parsed("json", &roll_back("two").fails(4).out);
        assert_valid(&back, "rollback");
        assert_eq!((&back["rolled_back"], &back["error"]["kind"]), (&false.into(), &"integrity".into()));
        let verification = &back["verification"];
        assert_eq!(verification["checkpoint_hash"], created["pre_mutation_state"]["hash"]);
        assert_eq!(verification["match"], false);
        assert_ne!(verification["post_state_hash"], verification["checkpoint_hash"]);
        let restore = created["checkpoint"]["restore_command"].as_str().unwrap();
        assert_eq!(back["next_actions"][0], restore);
        assert!(back["warnings"][0].as_str().unwrap().contains(restore), "{back:#}");
        let changes = back["changes_reverted"].to_string();
        assert!(!changes.contains("env:"), "{changes}");
        let text = if scope.len() > 2 { "one\n" } else { "two\n" };
        assert_eq!(project.text(".decree/inbox/1.md"), text);
        project
            .decree_with_env(&["rollback", id], &[("FOO", "two")])
            .fails(4)
            .mentions(&["env:FOO", "eval \"$("]);
        let back = parsed("json", &roll_back("one").ok().out);
        assert_valid(&back, "rollback");
        assert_eq!((&back["rolled_back"], &back["verification"]["match"]), (&true.into(), &true.into()));
    }
}

/// SNP-07.
#[test]
fn the_way_back_after_an_export_restores_the_variables_too() {
    let project = PipelineProject::new();
    let create = ["checkpoint", "create", "--type", "state_snapshot", "--scope", "env:FOO"];
    let id = project.decree_with_env(&create, &[("FOO", "one")]).ok().line();
    let output = project.decree_with_env(&["rollback", &id, "--export"], &[("FOO", "two")]).ok();
    assert_eq!(output.text(), "export FOO=one\n");
    let line = output.err.lines().find(|line| line.contains("the previous state is saved")).unwrap();
    let back = line.split('`').nth(1).unwrap();
    let shown = run_as_printed(&project, &format!("export FOO=one; {back}; echo \"$FOO\"")).ok();
    assert_eq!(shown.line(), "two");
}

/// SNP-08.
#[test]
fn a_variable_that_is_not_set_is_refused_like_a_path_that_is_not_there() {
    let project = PipelineProject::new();
    let args = ["checkpoint", "create", "--type", "state_snapshot", "--scope", "env:HOEM"];
    project.decree(args).fails(3).mentions(&["env:HOEM", "env:HOME", "--allow-missing"]);
    assert!(!project.exists(".decree/checkpoints") || project.names(".decree/checkpoints").is_empty());
    let more = ["--allow-missing", "--format", "json"];
    let output = project.decree([&args[..], &more].concat()).ok().mentions(&["'env:HOEM' is not set now"]);
    let answer = parsed("json", &output.out);
    assert_eq!(answer["assumptions"], serde_json::json!(["env:HOEM is not set yet"]));
}

/// SNP-03.
#[test]
fn a_rollback_that_is_cut_off_is_finished_by_the_next_command() {
    let project = PipelineProject::new();
    for number in 0..200 {
        project.write(format!(".decree/inbox/done/{number}.md"), format!("{number}\n"));
    }
    let created =
        project.decree(["checkpoint", "create", "--type", "state_snapshot", "--scope", "done"]).ok();
    let id = created.line();
    let mut cut_off = 0;
    for round in 0..12 {
        for number in 0..200 {
            project.write(format!(".decree/inbox/done/{number}.md"), "spoiled\n");
        }
        project.write(".decree/inbox/done/orphan.md", "new\n");
        let mut child = project.command();
        let mut child = child.args(["rollback", &id]).stderr(Stdio::null()).spawn().unwrap();
        let pending = project.path(".decree/rolling-back.json");
        let mut ended = false;
        wait_until("it has begun", || {
            ended = child.try_wait().unwrap().is_some();
            ended || pending.exists()
        });
        std::thread::sleep(std::time::Duration::from_millis(round));
        let _ = child.kill();
        child.wait().unwrap();
        cut_off += usize::from(pending.exists());
        let output = project.decree(["checkpoint", "create"]).ok();
        assert!(!pending.exists(), "{}", output.err);
        for number in 0..200 {
            assert_eq!(project.text(&format!(".decree/inbox/done/{number}.md")), format!("{number}\n"));
        }
        assert!(!project.exists(".decree/inbox/done/orphan.md"));
    }
    assert!(cut_off > 0, "never in the middle");
    project.decree(["audit", "verify"]).ok();
}

#[test]
fn a_rollback_killed_before_any_system_call_is_in_the_audit_trail_once() {
    if !has_strace() {
        return;
    }
    let project = PipelineProject::new();
    project.write(".decree/inbox/done/1.md", "1\n").write(".decree/inbox/done/2.md", "2\n");
    let created =
        project.decree(["checkpoint", "create", "--type", "state_snapshot", "--scope", "done"]).ok();
    let id = created.line();
    let args = ["rollback", id.as_str()];
    let spoil = || {
        project.write(".decree/inbox/done/1.md", "spoiled\n").remove(".decree/inbox/done/2.md");
        project.write(".decree/inbox/done/orphan.md", "new\n");
    };
    let audit_lines = || {
        let trail = parsed("json", &project.decree(["audit", "--format", "json"]).ok().out);
        trail["records"].as_array().unwrap().iter().filter(|record| record["subject"] == id.as_str()).count()
    };
    spoil();
    let mut killed = 0;
    for (call, count) in count_calls(&project, &args) {
        for nth in 1..=count {
            spoil();
            let before = audit_lines();
            killed += u32::from(kill_before(&project, &args, &call, nth));
            project.decree(["checkpoint", "create", "--quiet"]).ok();
            project.decree(args).ok();
            assert_eq!(project.text(".decree/inbox/done/1.md"), "1\n");
            assert_eq!(project.text(".decree/inbox/done/2.md"), "2\n");
            assert!(!project.exists(".decree/inbox/done/orphan.md"));
            assert_eq!(audit_lines(), before + 1, "{nth}. {call}");
        }
    }
    assert!(killed > 15, "killed only {killed} times");
    project.decree(["audit", "verify"]).ok();
}

/// SNP-04.
#[test]
fn what_is_no_file_is_not_followed_and_not_lost() {
    let project = PipelineProject::new();
    project.config("max_retries: 1\n");
    project.write("outside.md", "outside\n").link(".decree/inbox/link.md", "../../outside.md");
    let output = project.decree(["checkpoint", "create", "--type", "state_snapshot"]).ok();
    let id = output.line();
    assert!(output.err.contains("not in the checkpoint: .decree/inbox/link.md"), "{}", output.err);
    project.write("elsewhere.yml", "max_retries: 5\n").remove(".decree/config.yml");
    project.link(".decree/config.yml", "../elsewhere.yml");
    project.decree(["rollback", &id]).ok().mentions(&["set aside .decree/config.yml"]);
    assert!(fs::symlink_metadata(project.path(".decree/config.yml")).unwrap().is_file());
    assert_eq!(project.text("elsewhere.yml"), "max_retries: 5\n");
    assert_eq!(project.text("outside.md"), "outside\n");
    assert!(fs::symlink_metadata(project.path(".decree/inbox/link.md")).unwrap().is_symlink());
}

/// SNP-05.
#[test]
fn what_is_written_during_a_rollback_is_not_lost() {
    let project = PipelineProject::new();
    for number in 0..300 {
        project.write(format!(".decree/inbox/{number}.md"), format!("{number}\n"));
    }
    let id = project.decree(["checkpoint", "create", "--type", "state_snapshot"]).ok().line();
    for round in 0..6 {
        for number in 0..300 {
            project.write(format!(".decree/inbox/{number}.md"), format!("changed {round}\n"));
        }
        project.write(".decree/inbox/orphan.md", "orphan\n");
        let mut child = project.command().args(["rollback", &id]).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it has begun", || {
            project.path(".decree/rolling-back.json").exists() || child.try_wait().unwrap().is_some()
        });
        let kill = round % 2 == 0;
        if kill {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        for file in ["299", "orphan", "late"] {
            project.write(format!(".decree/inbox/{file}.md"), format!("precious {round} {file}\n"));
        }
        child.wait().unwrap();
        project.decree(["checkpoint", "create"]).ok();
        let all = std::process::Command::new("grep")
            .args(["-rl", &format!("precious {round}"), ".decree"])
            .current_dir(project.root())
            .output()
            .unwrap();
        let found = String::from_utf8(all.stdout).unwrap();
        assert!(found.lines().count() >= 3, "round {round}: {found}");
    }
}

/// SNP-06.
#[test]
fn what_was_put_in_the_place_of_messages_is_set_aside_under_names_of_their_own() {
    let project = PipelineProject::new();
    let outside = crate::harness::temp_dir();
    fs::write(outside.path().join("a.md"), "not ours\n").unwrap();
    project
        .write(".decree/inbox/a.md", "1\n")
        .write(".decree/inbox/done/a.md", "2\n")
        .write(".decree/inbox/dead/a.md", "3\n");
    let id = project.decree(["checkpoint", "create", "--type", "state_snapshot"]).ok().line();
    project
        .remove(".decree/inbox/a.md")
        .mkdir(".decree/inbox/a.md/full")
        .write(".decree/inbox/a.md/full/x", "x\n");
    project.remove(".decree/inbox/done/a.md").mkdir(".decree/inbox/done/a.md/full");
    project.remove(".decree/inbox/dead").link(".decree/inbox/dead", outside.path().to_str().unwrap());
    project.decree(["rollback", &id]).ok().mentions(&["set aside"]);
    for (file, text) in [("a.md", "1\n"), ("done/a.md", "2\n"), ("dead/a.md", "3\n")] {
        assert_eq!(project.text(&format!(".decree/inbox/{file}")), text);
    }
    assert_eq!(fs::read_to_string(outside.path().join("a.md")).unwrap(), "not ours\n");
    let found = std::process::Command::new("find")
        .args([".decree/checkpoints", "-name", "x"])
        .current_dir(project.root())
        .output()
        .unwrap();
    assert!(!found.stdout.is_empty(), "what was in the directory is kept");
}
