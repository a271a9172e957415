//! Routines that hide their changes, or make the tree unreadable.

use super::{VANDALISM, dead, only_run, process, project, result, summary, tree};
use crate::harness::assert_same;
use crate::revert::{as_nobody, hand_over};

#[test]
fn work_hidden_by_an_ignore_file_is_found_and_set_aside() {
    for (rules, hidden) in [
        ("echo /hidden >> .gitignore", "hidden"),
        ("echo '*' > .decreeignore", "hidden"),
        ("echo '*' > src/.gitignore; echo mine > src/hidden", "src/hidden"),
    ] {
        let project = project(&format!("echo mine > hidden; {rules}; echo x > src/main.rs; exit 1\n"));
        let before = project.snapshot();
        process(&project).fails(1);
        assert_same(&project.snapshot(), &before);
        assert_eq!(project.read(format!("{}/set-aside/{hidden}", only_run(&project))), b"mine\n", "{rules}");
    }
    let project = project("echo mine > hidden; echo /hidden >> .gitignore\n");
    process(&project).ok();
    assert_eq!(project.read("hidden"), b"mine\n", "what succeeds is kept");
    assert_eq!(result(&project)["beside"][0], "hidden");
}

#[test]
fn a_sensitive_file_that_was_changed_is_named() {
    for end in [0, 1] {
        let project =
            project(&format!("echo KEY=stolen > .env; rm id_rsa; echo x >> src/lib.rs; exit {end}\n"));
        project.write(".env", "KEY=secret\n").write("id_rsa", "key\n");
        let output = process(&project).fails(end);
        for words in [".env was changed", "id_rsa was deleted"] {
            assert!(output.err.contains(words), "{}", output.err);
        }
        let now = if end == 0 { "KEY=stolen\n" } else { "KEY=secret\n" };
        assert_eq!(project.read(".env"), now.as_bytes());
        assert_eq!(project.exists("id_rsa"), end == 1);
        let answer = summary(&project)["messages"][0]["warnings"].to_string();
        assert!(answer.contains(".env was changed"), "{answer}");
        let lines = project.read("src/lib.rs").iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, if end == 0 { 4 } else { 3 });
    }
}

#[test]
fn a_new_sensitive_file_does_not_stay_after_a_failure() {
    let project = project("echo KEY=x > .env.local; exit 1\n");
    let before = project.snapshot();
    process(&project).fails(1);
    assert_same(&project.snapshot(), &before);
    assert_eq!(project.read(format!("{}/set-aside/.env.local", only_run(&project))), b"KEY=x\n");
}

#[test]
fn an_ordinary_users_routine_cannot_close_directories_to_them() {
    if !crate::harness::skip::as_root() {
        return;
    }
    for closing in [
        "chmod 000 src",
        "chmod 000 src/main.rs src",
        "chmod -R a-rwx src bin; chmod 555 .",
        "mkdir -p new/deep; echo x > new/deep/x; chmod 000 new/deep/x new/deep new",
    ] {
        let project = project(&format!("{VANDALISM}{closing}; exit 1\n"));
        let before = project.snapshot();
        hand_over(project.root());
        as_nobody(&project, &["process"]).fails(1);
        assert_same(&project.snapshot(), &before);
        assert!(dead(&project)["01-work.md"].contains("exit 1"), "{closing}");
    }
}

#[test]
fn a_routine_that_deletes_everything_is_reverted() {
    for script in [
        "rm -rf ./* ./.[!.]*; exit 1",
        "find . -mindepth 1 -delete; exit 1",
        "d=$PWD; cd /; rm -rf \"$d\"/*; exit 1",
    ] {
        let project = project(script);
        let before = project.snapshot();
        process(&project).fails(1);
        assert_same(&project.snapshot(), &before);
        assert_eq!(dead(&project).len(), 1, "{script}");
        assert_eq!(project.read(".decree/config.yml"), b"max_retries: 0\n");
    }
}

#[test]
fn the_specs_themselves_come_back() {
    for script in [
        "rm -rf specs",
        "rm -rf specs; echo x > specs",
        "mv specs away; ln -s away specs",
        "echo worse > specs/01-work.spec.md",
    ] {
        let project = project(&format!("{script}; exit 1\n"));
        project.write("specs/processed-spec.md", "00-old.spec.md\n");
        let before = project.snapshot();
        process(&project).fails(1);
        assert_same(&project.snapshot(), &before);
    }
}

#[test]
fn a_verification_is_held_to_the_same_rules() {
    let project = project("echo work > work\n");
    project.write(".decree/config.yml", "max_retries: 0\nverify: 'rm -rf .decree notes.txt; exit 1'\n");
    let before = tree(&project);
    process(&project).fails(1).mentions(&["verify"]);
    assert_same(&tree(&project), &before);
    assert!(dead(&project)["01-work.md"].contains("verify"));
    assert!(project.exists(".decree/routines/develop.sh"));
}
