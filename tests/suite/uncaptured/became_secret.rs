//! Files that become likely secrets while a run works, and copies of likely secrets under other names.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

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
    let plan = project.decree(["apply", &id, "--dry-run"]).ok();
    assert_has(
        &plan.err,
        &["web.pem became a likely secret", "only/web.key", "withheld", "would not be applied"],
    );
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

/// Replaces what is at a path by the user's own text, and gives it the time that the run's file had.
fn edit(project: &PipelineProject, path: &str, text: &str) {
    let written = std::fs::metadata(project.path(path)).unwrap().modified().unwrap();
    let file = std::fs::OpenOptions::new().write(true).truncate(true).open(project.path(path)).unwrap();
    std::io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
    file.set_modified(written).unwrap();
}

/// REV-40. Neither its size nor its time has to differ.
#[test]
fn a_likely_secret_of_a_run_that_the_user_edits_is_a_conflict() {
    let copies = "cp .env env-copy.txt; cp .env old.txt\n";
    for path in ["web.pem", "only/web.key", "env-copy.txt", "old.txt"] {
        let project = with_certificates(&format!("{BECOMES_KEY}{copies}"));
        project.write("old.txt", "before\n");
        let before = project.snapshot();
        project.process().ok();
        let id = project.only_run();
        assert_eq!(holding(&project, "hunter2-key"), [""; 0], "the key is on decree's disk");
        let theirs = project.read(path);
        let mine = String::from_utf8(theirs.clone()).unwrap().replace("hunter", "HUNTER");
        edit(&project, path, &mine);
        let edited = project.snapshot();
        let output = project.decree(["revert", &id]).fails(1);
        output.mentions(&[
            path,
            "changed since",
            "no longer the file that was recorded",
            "nothing was touched",
        ]);
        assert_same(&project.snapshot(), &edited);
        assert!(!project.exists(format!(".decree/runs/{id}/set-aside")), "{path} was set aside");
        // The way out: the user moves the file away.
        let kept = temp_dir();
        std::fs::rename(project.path(path), kept.path().join("mine")).unwrap();
        project.decree(["revert", &id]).ok();
        assert_same(&project.snapshot(), &before);
    }
}

/// REV-40. In another checkout the secret never was, so what is there is the user's.
#[test]
fn a_withheld_path_that_was_never_applied_is_a_conflict_once_it_is_edited() {
    let here = with_certificates(BECOMES_KEY);
    here.process().ok();
    let (id, outside) = (here.only_run(), temp_dir());
    let artifact = outside.path().join("artifact");
    here.decree(["stage", artifact.to_str().unwrap()]).ok();
    let there = with_certificates("true");
    let before = there.snapshot();
    there.decree(["apply", &id, "--from", artifact.to_str().unwrap()]).ok();
    let applied = there.snapshot();
    let again = there.decree(["apply", &id, "--from", artifact.to_str().unwrap(), "--dry-run"]).ok();
    again.mentions(&["web.pem became a likely secret", "would not be applied"]);
    there.write("web.pem", "my own certificate\n");
    let edited = there.snapshot();
    there.decree(["revert", &id]).fails(1).mentions(&["web.pem", "nothing was touched"]);
    assert_same(&there.snapshot(), &edited);
    there.write("web.pem", CERTIFICATE);
    assert_same(&there.snapshot(), &applied);
    there.decree(["revert", &id]).ok();
    assert_same(&there.snapshot(), &before);
}

/// Makes a result as an earlier decree wrote it: without `secret_files`, and with the hashes that docs/format.md has.
fn forget_secret_files(path: &Path) {
    let (mut text, mut in_string) = (String::new(), false);
    for character in std::fs::read_to_string(path).unwrap().chars() {
        in_string ^= character == '"';
        if in_string || !character.is_whitespace() {
            text.push(character);
        }
    }
    let start = text.find(",\"secret_files\":").expect("the run's secrets are recorded");
    let end = start + text[start..].find('}').unwrap() + 1;
    assert!(text[start..end].contains("web.pem") && text[start..end].contains("only/web.key"), "{text}");
    text.replace_range(start..end, "");
    let hash =
        |text: &[u8]| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (changes, rest) = text.split_once("\"check\":\"").unwrap();
    let check = hash(format!("{changes}\"check\":null}}").as_bytes());
    let extra = rest.split_once(',').unwrap().1.rsplit_once(",\"record_check\":").unwrap().0;
    let record: BTreeMap<String, Value> = serde_json::from_str(&format!("{{{extra}}}")).unwrap();
    let record_check = hash(&serde_json::to_vec(&(&check, &record)).unwrap());
    let sealed = format!("{changes}\"check\":\"{check}\",{extra},\"record_check\":\"{record_check}\"}}");
    std::fs::write(path, sealed).unwrap();
}

/// REV-40. The record of an earlier decree does not say which file the run left.
#[test]
fn a_withheld_path_of_a_record_without_an_identity_is_a_conflict() {
    let project = with_certificates(BECOMES_KEY);
    let before = project.snapshot();
    project.process().ok();
    let id = project.only_run();
    forget_secret_files(&project.path(format!(".decree/runs/{id}/result.json")));
    let after = project.snapshot();
    project.decree(["revert", &id]).fails(1).mentions(&["web.pem", "does not say which file"]);
    assert_same(&project.snapshot(), &after);
    project.remove("web.pem").remove("only/web.key");
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &before);
}

/// REV-40. A chain that cannot be reverted as a whole: what had moved away is named with its place.
#[test]
fn a_secret_that_was_set_aside_before_a_chain_failed_is_named() {
    let project = project(
        "case $seq in 0) echo a >first.txt; echo more >.decree/inbox/$chain-1.md;; *) cp .env copy.txt; echo b >second.txt;; esac",
    );
    project.process().ok();
    let runs = project.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    project.write("first.txt", "mine\n");
    let chain = runs[0].split('-').next().unwrap();
    let output = project.decree(["revert", chain]).fails(1);
    output.mentions(&[
        &format!("{} was reverted and is applied again", runs[1]),
        "copy.txt",
        "set-aside/copy.txt",
    ]);
    assert_eq!(project.text("first.txt"), "mine\n");
}
