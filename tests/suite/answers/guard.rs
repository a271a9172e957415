//! `guard --format json|yaml`.

use super::{json, texts};
use crate::harness::assert_same;
use crate::rollback::contract::{assert_valid, run_as_printed};
use crate::rollback::project;

/// ANS-04.
#[test]
fn a_guard_answers_what_became_of_the_work() {
    let project = project();
    let args = [
        "guard",
        "--reason",
        "to be safe",
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        "echo said; echo x >new.txt",
    ];
    let output = project.decree(args).ok().mentions(&["said\n"]);
    let answer = json(&output.out);
    assert_valid(&answer, "guard");
    assert_eq!((&answer["kept"], &answer["rolled_back"]), (&true.into(), &false.into()));
    assert_eq!((&answer["exit_code"], &answer["cause"]), (&0.into(), &serde_json::Value::Null));
    assert!(answer["rollback"].is_null() && answer["command"].as_str().unwrap().contains("echo said"));
    let id = answer["checkpoint"]["id"].as_str().unwrap();
    assert_eq!(answer["checkpoint"]["reason"], "to be safe");
    let created = json(&project.decree(["checkpoint", "create", "--format", "json"]).ok().out);
    let mut files = created["checkpoint"]["scope"].clone();
    files["files"].as_array_mut().unwrap().retain(|file| file != "new.txt");
    assert_eq!(answer["checkpoint"]["scope"], files);
    // The command that undoes it is in the answer.
    let back = answer["checkpoint"]["restore_command"].as_str().unwrap();
    assert!(back.contains(id));
    run_as_printed(&project, back).ok();
    assert!(!project.exists("new.txt"));
}

/// ANS-04.
#[test]
fn a_guard_that_rolls_back_answers_like_a_rollback() {
    let project = project();
    let before = project.snapshot();
    let script = "echo said; echo x >new.txt; rm src/gone.rs";
    for (verify, script, code, cause) in [
        (None, format!("{script}; exit 7"), 7, "failed with 7"),
        (Some("exit 3"), script.to_owned(), 3, "succeeded, but `exit 3` failed with 3"),
    ] {
        let verify = verify.map_or_else(Vec::new, |verify| vec!["--verify", verify]);
        let args = [&["guard", "--format", "yaml"], &verify[..], &["--", "bash", "-c", &script]].concat();
        let output = project.decree(args).fails(code).mentions(&["said\n"]);
        assert_same(&project.snapshot(), &before);
        let answer: serde_json::Value = yaml_serde::from_slice(&output.out).unwrap();
        assert_valid(&answer, "guard");
        assert_valid(&answer["rollback"], "rollback");
        assert_eq!((&answer["kept"], &answer["rolled_back"]), (&false.into(), &true.into()));
        assert_eq!(answer["exit_code"], code);
        assert!(answer["cause"].as_str().unwrap().ends_with(cause), "{}", answer["cause"]);
        let rollback = &answer["rollback"];
        assert_eq!(rollback["restored_to"]["checkpoint_id"], answer["checkpoint"]["id"]);
        let files: Vec<_> =
            rollback["changes_reverted"].as_array().unwrap().iter().map(|it| &it["file"]).collect();
        assert_eq!(files, ["new.txt", "src/gone.rs"]);
        assert_eq!(rollback["verification"]["match"], true);
        // The work of the command can be had again.
        let again = texts(&rollback["next_actions"])[0].to_owned();
        run_as_printed(&project, &again).ok();
        assert!(project.exists("new.txt") && !project.exists("src/gone.rs"));
        run_as_printed(&project, answer["checkpoint"]["restore_command"].as_str().unwrap()).ok();
    }
}

/// ANS-04. No checkpoint holds them, and the rollback by its contract does not name them.
#[test]
fn a_guard_answers_what_became_of_likely_secrets() {
    let project = project();
    project.write(".env", "KEY=1\n").write("id_rsa", "key\n").write(".gitignore", "*.p12\n");
    let script = "rm .env; echo other >id_rsa; echo new >made.p12";
    for (end, is_restored) in [("exit 7", true), ("exit 0", false)] {
        let output =
            project.decree(["guard", "--format", "json", "--", "bash", "-c", &format!("{script}; {end}")]);
        let answer = json(&output.out);
        assert_valid(&answer, "guard");
        let secret = |change: &serde_json::Value| {
            let text = |key: &str| change[key].as_str().unwrap().to_owned();
            (text("path"), text("change"), change["restored"].as_bool().unwrap())
        };
        let found: Vec<_> = answer["secrets"].as_array().unwrap().iter().map(secret).collect();
        let expected = |path: &str, change: &str, restored| (path.to_owned(), change.to_owned(), restored);
        assert_eq!(
            found,
            [
                expected(".env", "deleted", is_restored),
                expected("id_rsa", "changed", is_restored),
                expected("made.p12", "made", false)
            ],
            "{answer:#}"
        );
        assert_eq!(project.exists(".env"), is_restored);
        let assumptions = answer["rollback"]["assumptions"].to_string();
        assert!(!assumptions.contains("needs no rollback"), "{assumptions}");
        project.remove("made.p12");
    }
}

/// ANS-04.
#[test]
fn a_command_that_cannot_run_is_in_the_answer() {
    let project = project();
    let args = ["guard", "--format", "json", "--", "no-such-program-anywhere"];
    let answer = json(&project.decree(args).fails(127).out);
    assert_valid(&answer, "guard");
    assert_eq!((&answer["exit_code"], &answer["kept"]), (&127.into(), &false.into()));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("cannot run `no-such-program-anywhere`"), "{answer:#}");
}
