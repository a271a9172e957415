//! Files that become likely secrets while a run works, and copies of likely secrets under other names.

use std::path::Path;

use super::{WORD, holding, project, reported, set_aside};
use crate::harness::{TreeEntry, assert_same, snapshot, temp_dir};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nhunter2-key\n-----END PRIVATE KEY-----\n";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

/// Makes a private key of a certificate, in a directory with other files and alone in one.
const BECOMES_KEY: &str = "for file in web.pem only/web.key; do\n\
     printf -- '-----BEGIN PRIVATE KEY-----\\nhunter''2-key\\n-----END PRIVATE KEY-----\\n' >$file; done\n\
     echo work >>notes.txt\n";

fn with_certificates(routine: &str) -> PipelineProject {
    let project = project(routine);
    // A rule would hide `*.pem`.
    project.write(".gitignore", ".env\n/secrets/\n").write("web.pem", CERTIFICATE);
    project.write("specs/processed-spec.md", "");
    project.write("only/web.key", CERTIFICATE).chmod("only/web.key", 0o640);
    project
}

/// No file below a directory has the text.
fn assert_nowhere(dir: &Path, word: &str) {
    for (path, entry) in snapshot(dir) {
        let TreeEntry::File { bytes, .. } = entry else { continue };
        let path = String::from_utf8_lossy(&path).into_owned();
        assert!(!String::from_utf8_lossy(&bytes).contains(word), "{path} has {word}");
    }
}

/// UNC-30.
#[test]
fn a_file_that_becomes_a_private_key_is_in_no_diff_artifact_report_or_comment() {
    let project = with_certificates(BECOMES_KEY);
    let before = project.snapshot();
    let output = project.process().ok();
    let id = project.only_run();
    let withheld = "web.pem was changed; it is a likely secret now, so its new content is withheld";
    assert_has(&output.err, &[withheld, "only/web.key was changed"]);
    assert_eq!(project.text("web.pem"), KEY);
    assert_eq!(holding(&project, "hunter2-key"), [""; 0], "the key is on decree's disk");
    let result = project.result(&id);
    assert!(reported(&result).contains(&"web.pem changed false".to_owned()), "{result}");
    let outside = temp_dir();
    let artifact = outside.path().join("artifact");
    project.decree(["stage", artifact.to_str().unwrap()]).ok();
    assert_nowhere(&artifact, "hunter2-key");
    for format in ["markdown", "html", "text", "junit", "json"] {
        let report = project.decree(["report", "--format", format]).ok().text();
        assert!(!report.contains("hunter2-key"), "{format}");
        if !["junit", "text"].contains(&format) {
            assert_has(&report, &["withheld"]);
        }
    }
    let diff = project.decree(["diff", &id]).ok().mentions(&["web.pem became a likely secret"]);
    assert!(!diff.text().contains("hunter2-key"));

    let revert = project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &before);
    assert_has(&revert.err, &["web.pem"]);
    assert_eq!(set_aside(&project, "web.pem"), KEY.as_bytes(), "the key is not lost");
    assert_eq!(set_aside(&project, "only/web.key"), KEY.as_bytes());
    // Applied again, the rest of the run's work is back, and the certificate stays.
    let apply = project.decree(["apply", &id]).ok();
    assert_has(&apply.err, &["web.pem", "withheld"]);
    assert_eq!(project.text("web.pem"), CERTIFICATE);
    assert!(project.text("notes.txt").contains("work"));
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &before);
}

/// UNC-30.
#[test]
fn a_certificate_that_became_a_private_key_comes_back_when_the_run_fails() {
    let project = with_certificates(&format!("{BECOMES_KEY} exit 1"));
    let before = project.snapshot();
    let output = project.process().fails(1);
    assert_same(&project.snapshot(), &before);
    let moved = "web.pem was changed; it became a likely secret: the version of the checkpoint is restored, the other is now .decree/runs/";
    assert_has(&output.err, &[moved]);
    assert_eq!(set_aside(&project, "web.pem"), KEY.as_bytes());
    assert_eq!(holding(&project, "hunter2-key"), [""; 0], "the key is on decree's disk");
    assert!(reported(&project.result(&project.only_run())).contains(&"web.pem changed true".to_owned()));
}

/// UNC-30.
#[test]
fn a_rollback_and_a_guard_restore_a_certificate_that_became_a_private_key() {
    let project = with_certificates("true");
    let before = project.snapshot();
    let script = format!("{BECOMES_KEY} exit 3");
    project.decree(["guard", "--", "bash", "-c", &script]).fails(3);
    assert_same(&project.snapshot(), &before);
    assert_eq!(holding(&project, "hunter2-key"), [""; 0], "the key is on decree's disk");
    for command in ["rollback", "revert"] {
        let checkpoint = project.checkpoint();
        project.write("web.pem", KEY).write("only/web.key", KEY);
        let output = project.decree([command, &checkpoint]).ok();
        assert_same(&project.snapshot(), &before);
        assert_has(&output.err, &["web.pem"]);
        assert_eq!(holding(&project, "hunter2-key"), [""; 0], "{command}: the key is on decree's disk");
    }
}

/// UNC-31.
#[test]
fn a_copy_of_a_likely_secret_is_one_whatever_its_name() {
    let copies =
        "cp .env env-copy.txt; mkdir new; mv id_rsa new/key.txt; cp .env old.txt; echo work >>notes.txt\n";
    for (end, kept) in [("exit 0", true), ("exit 1", false)] {
        let project = project(&format!("{copies} {end}"));
        project.write("old.txt", "before\n");
        let before = project.snapshot();
        let output = project.process().fails(i32::from(!kept));
        let result = project.result(&project.only_run());
        let all = reported(&result);
        for path in ["env-copy.txt made", "new/key.txt made", "old.txt changed"] {
            assert!(all.iter().any(|line| line.starts_with(path)), "{path}: {all:?}");
        }
        assert_has(&output.err, &["env-copy.txt was made; it is"]);
        assert_eq!(holding(&project, WORD), [""; 0], "a secret is on decree's disk");
        assert!(!project.of_run(&project.only_run(), "changes.diff").contains("env-copy"));
        if !kept {
            assert_same(&project.snapshot(), &before);
            assert_eq!(set_aside(&project, "env-copy.txt"), project.read(".env"));
        }
    }
}

/// UNC-31.
#[test]
fn content_that_the_checkpoint_holds_elsewhere_is_no_secret() {
    let project = project("cp .env.example config.sample; cp .env.example new.txt");
    project.write(".env.example", "KEY=change-me-please\n").write(".env", "KEY=change-me-please\n");
    project.process().ok();
    assert_has(&project.of_run(&project.only_run(), "changes.diff"), &["config.sample", "new.txt"]);
}

/// UNC-31. Nor is a copy in what is saved of the present.
#[test]
fn a_copy_of_a_likely_secret_is_not_in_the_saved_present() {
    let project = project("true");
    project.write("old.txt", "before\n");
    let before = project.snapshot();
    let script = "cp .env copy.txt; cp .env old.txt; echo other >other.txt; exit 3";
    let output = project.decree(["guard", "--", "bash", "-c", script]).fails(3);
    assert_same(&project.snapshot(), &before);
    let saved = output.err.split('`').find_map(|word| word.strip_prefix("decree rollback ")).unwrap();
    let files = project.decree(["checkpoint", "show", saved, "--files"]).ok().text();
    assert!(files.contains("other.txt"), "{files}");
    assert!(files.lines().all(|line| line != "copy.txt" && line != "old.txt"), "{files}");
    assert!(!project.decree(["diff", saved]).ok().text().contains(WORD));
    assert_eq!(holding(&project, WORD), [""; 0], "a secret is on decree's disk");
    assert_has(&output.err, &["restores it, except for what was set aside"]);
    let aside = project.path(format!(".decree/checkpoints/{saved}/set-aside/copy.txt"));
    assert_eq!(std::fs::read(aside).unwrap(), project.read(".env"));
}

/// REV-31. What a run made moves away, so nothing is missing.
#[test]
fn a_run_that_made_a_likely_secret_is_reverted_as_a_whole() {
    let project = project("echo TOKEN=abcdefghijkl >.env.local; echo work >>notes.txt");
    project.process().ok();
    project.decree(["revert", &project.only_run()]).ok().mentions(&["set aside .env.local"]);
    assert!(!project.exists(".env.local"));
    assert_eq!(set_aside(&project, ".env.local"), b"TOKEN=abcdefghijkl\n");
}

/// UNC-31.
#[test]
fn a_later_runs_work_in_the_place_of_a_copy_is_not_moved_away() {
    let project = project(
        "case $spec_file in *01*) cp .env new.txt;; *) echo later >new.txt;; esac; echo x >\"$(basename $spec_file).out\"",
    );
    project.spec("02-later", "More.\n");
    project.process().ok();
    let first = project.runs()[0].clone();
    project.decree(["revert", &first]).fails(1).mentions(&["new.txt", "the work of a later run"]);
    assert_eq!(project.text("new.txt"), "later\n");
}
