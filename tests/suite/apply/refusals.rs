//! What `apply` says where it is refused: a hint at `--force` only where `--force` helps, and each path once.

use crate::harness::{Project, assert_same};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// The lines of a text that name a path first.
fn lines_about<'t>(text: &'t str, path: &str) -> Vec<&'t str> {
    let about = |line: &&str| line.split_whitespace().any(|word| word.trim_end_matches(':') == path);
    text.lines().filter(about).collect()
}

/// Asserts that neither `apply` nor `apply --force` touches anything, and what they say about the path in the way.
fn refused_in_spite_of_force(project: &Project, apply: &[&str], path: &str, hint: &str) {
    let before = project.snapshot();
    let refused = project.decree(apply).fails(1);
    assert!(!refused.err.contains("`--force` overwrites"), "{}", refused.err);
    assert_has(refused.err.split_once("hint: ").expect(&refused.err).1, &["--force", hint]);
    let forced = project.decree([apply, &["--force", "--yes"]].concat()).fails(1);
    assert_eq!(lines_about(&forced.err, path).len(), 1, "{}", forced.err);
    assert!(!forced.err.contains("other.txt"), "{}", forced.err);
    assert_has(&forced.err, &["nothing was touched"]);
    assert_has(forced.err.split_once("hint: ").expect(&forced.err).1, &[hint]);
    for more in [&["--dry-run"][..], &["--dry-run", "--force"]] {
        let dry = project.decree([apply, more].concat()).fails(1).text();
        let lines = lines_about(&dry, path);
        assert_eq!(lines.len(), 1, "{dry}");
        assert!(lines[0].starts_with("  conflict   "), "{dry}");
    }
    assert_same(&project.snapshot(), &before);
}

/// REV-64.
#[test]
fn a_refusal_hints_at_force_only_where_force_helps() {
    let routine = "mkdir -p sub; echo run | tee made.pem sub/f new.bin >other.txt";
    type Edit = fn(&Project);
    let cases: [(&str, &str, Edit); 4] = [
        ("new.bin", "move", |p| {
            p.write("new.bin/inside", "mine\n");
        }),
        ("sub/f", "move", |p| {
            p.write("sub", "mine\n");
        }),
        ("sub/f", "move", |p| {
            p.link("sub", "docs");
        }),
        ("made.pem", "move", |p| {
            p.write("made.pem", "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n");
        }),
    ];
    for (path, hint, edit) in cases {
        let project = PipelineProject::with(routine);
        project.run(&["-m", "x", "-p", "y"]).ok();
        let id = project.only_run();
        project.decree(["revert", &id]).ok();
        edit(&project);
        project.write("other.txt", "differs\n");
        refused_in_spite_of_force(&project, &["apply", &id], path, hint);
    }
}

/// REV-64.
#[test]
fn a_refusal_names_what_force_cannot_rebuild_from_an_artifact() {
    let project = PipelineProject::with("echo three >>notes.txt; echo run >other.txt");
    project.spec("01-a", "# A\n").process().ok();
    let dir = crate::harness::temp_dir();
    let from = dir.path().join("artifact");
    let from = from.to_str().unwrap();
    project.decree(["stage", from]).ok();
    let there = PipelineProject::new();
    there.write("notes.txt", "mine\n").write("other.txt", "differs\n");
    refused_in_spite_of_force(&there, &["apply", "--all", "--from", from], "notes.txt", "before the run");
}

/// REV-65.
#[test]
fn a_spec_of_an_imported_run_is_not_on_the_tracker_again() {
    let project = PipelineProject::with("echo run >made.txt");
    project.spec("01-a", "# A\n").process().ok();
    let dir = crate::harness::temp_dir();
    let from = dir.path().join("artifact");
    let from = from.to_str().unwrap();
    project.decree(["stage", from]).ok();
    let there = PipelineProject::new();
    there.mkdir("specs");
    there.decree(["apply", "--all", "--from", from]).ok().mentions(&["01-a.spec.md is on the tracker now"]);
    there.decree(["revert", &there.only_run()]).ok();
    there.decree(["apply", &there.only_run()]).ok().mentions(&["01-a.spec.md is on the tracker again"]);
}
