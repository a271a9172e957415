//! Routines that make it hard to restore a likely secret.

use std::fs;

use super::{WORD, project, reported};
use crate::harness::{assert_same, skip, temp_dir};
use crate::revert::{as_nobody, hand_over};

/// UNC-09.
#[test]
fn a_likely_secret_that_became_something_else_comes_back() {
    for script in [
        "rm .env; mkdir .env; echo x >.env/file",
        "rm .env; ln -s /etc/passwd .env",
        "rm .env; mkfifo .env",
        "chmod 000 .env",
        "echo more >>.env; chmod 000 .env",
        "rm -rf secrets; echo file >secrets",
        "chmod 000 secrets tls; rm id_rsa",
        "rm id_rsa; ln .env id_rsa",
        ": >.env; head -c 3000000 /dev/zero >>.env",
    ] {
        let project = project(&format!("{script}\nexit 1"));
        let before = project.snapshot();
        let passwd = fs::read("/etc/passwd").unwrap();
        let output = project.process().fails(1);
        assert_same(&project.snapshot(), &before);
        assert!(output.err.contains("restored from memory"), "{script}: {}", output.err);
        assert_eq!(fs::read("/etc/passwd").unwrap(), passwd);
    }
}

/// UNC-09.
#[test]
fn a_link_in_place_of_a_directory_is_not_followed() {
    let outside = temp_dir();
    fs::write(outside.path().join(".env"), "outside\n").unwrap();
    let link = outside.path().display().to_string();
    for dir in ["secrets", "conf"] {
        let project = project(&format!("rm -rf {dir}; ln -s {link} {dir}; exit 1"));
        project.write("conf/.env", format!("CONF={WORD}\n"));
        let before = project.snapshot();
        project.process().fails(1);
        assert_same(&project.snapshot(), &before);
        assert_eq!(fs::read(outside.path().join(".env")).unwrap(), b"outside\n");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}

/// An ignored link is a likely secret by its name, and comes back as a link.
#[test]
fn an_ignored_link_with_the_name_of_a_secret_comes_back() {
    let project = project("rm config/.env; echo x >config/.env; exit 1");
    project.mkdir("config").link("config/.env", "../.env");
    let before = project.snapshot();
    project.process().fails(1);
    assert_same(&project.snapshot(), &before);
}

#[test]
fn two_thousand_likely_secrets_come_back_and_few_lines_name_them() {
    let project = project("rm -rf many; exit 1");
    for number in 0..2000 {
        project.write(format!("many/{number}/.env"), format!("{number}\n"));
    }
    let before = project.snapshot();
    let output = project.process().fails(1);
    assert_same(&project.snapshot(), &before);
    assert!(output.err.contains("1,980 likely secrets more were"), "{}", output.err);
    assert!(output.err.lines().count() < 150, "{}", output.err);
    assert_eq!(reported(&project.result(&project.only_run())).len(), 2000);
}

/// Names come from the routine, too: they must not speak to the terminal or to GitHub.
#[test]
fn a_likely_secret_whose_name_has_line_breaks_is_named_on_one_line() {
    let name = "a\n::error::injected\n/.env";
    for (script, end, code) in [
        (format!("rm $'{name}'"), "exit 1", 1),
        (format!("echo other >$'{name}'"), "exit 1", 1),
        (format!("rm $'{name}'"), "exit 0", 0),
        (format!("mkdir -p $'b{name}'; rmdir $'b{name}'; echo x >$'b{name}'"), "exit 1", 1),
    ] {
        let script = script.replace('\n', "\\n");
        let project = project(&format!("{script}; {end}"));
        let guarded = format!("{script}; {end}");
        for args in [&["process"][..], &["guard", "--", "bash", "-c", &guarded]] {
            project.write(name, "KEY=1\n");
            let output = project.decree_with_env(args, &[("GITHUB_ACTIONS", "true")]);
            assert_eq!(output.code, code, "{}", output.err);
            assert!(output.err.contains("\\n::error::injected\\n/.env"), "{script}: {}", output.err);
            let injected = |text: &str| text.lines().any(|line| line.starts_with("::error::injected"));
            assert!(!injected(&output.err) && !injected(&output.text()), "{script}: {}", output.err);
        }
    }
}

/// UNC-10.
#[test]
fn an_ordinary_user_gets_likely_secrets_back_in_read_only_directories() {
    if !skip::as_root() {
        return;
    }
    for script in [
        "chmod 755 ro; rm ro/.env; chmod 555 ro",
        "chmod 600 ro/.env; echo x >>ro/.env; chmod 400 ro/.env",
        "chmod 000 ro/.env",
        "chmod 755 ro; rm -rf ro",
        "chmod 000 ro",
    ] {
        let project = project(&format!("{script}\nexit 1"));
        project.write("ro/.env", "RO=1\n").chmod("ro/.env", 0o400).chmod("ro", 0o555);
        hand_over(project.root());
        let before = project.snapshot();
        as_nobody(&project, &["process"]).fails(1);
        assert_same(&project.snapshot(), &before);
    }
}

/// UNC-10.
#[test]
fn a_likely_secret_that_cannot_be_read_is_named_and_its_loss_is_an_error() {
    if !skip::as_root() {
        return;
    }
    let project = project("rm -f closed.p12; exit 1");
    project.write("closed.p12", "x").chmod("closed.p12", 0o000);
    hand_over(project.root());
    let output = as_nobody(&project, &["process"]).fails(4);
    for words in ["cannot be restored after a failure: closed.p12 (", "NOT restored: closed.p12 ("] {
        assert!(output.err.contains(words), "{words}: {}", output.err);
    }
}
