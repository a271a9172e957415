//! `apply --dry-run`, `--force` and `--yes`, for a run, a chain and an artifact.

use std::fs;

use crate::harness::{Project, TreeSnapshot, assert_same, snapshot};
use crate::pipeline::pipeline_project::PipelineProject;

/// Two runs of one chain were kept and reverted: the second works on what the first left.
fn chain() -> (PipelineProject, String) {
    let project = PipelineProject::with(
        r#"
if [ "$seq" = 0 ]; then
  printf 'one\r\nfirst\n' >notes.txt; printf '\0new' >new.bin; rm docs/guide.md
  printf -- '---\nchain: %s\nseq: 1\n---\nmore\n' "$chain" >.decree/inbox/more.md
else
  printf 'one\r\nsecond\n' >notes.txt; echo added >added.txt
fi
"#,
    );
    project.spec("01-x", "# X\n");
    project.process().ok();
    let runs = project.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    let chain = runs[0].split_once('-').unwrap().0.to_owned();
    (project, chain)
}

/// Everything, with decree's own files.
fn everything(project: &Project) -> TreeSnapshot {
    let mut all = project.snapshot();
    let own = snapshot(&project.path(".decree"));
    all.extend(own.into_iter().map(|(path, entry)| ([b".decree/", &path[..]].concat(), entry)));
    all.retain(|path, _| !path.starts_with(b".decree/tmp") && path != b".decree/lock");
    all
}

/// REV-11.
#[test]
fn a_dry_run_says_what_would_be_done_for_each_run_and_touches_nothing() {
    let (project, chain) = chain();
    let after = project.snapshot();
    project.decree(["revert", &chain]).ok();
    let before = everything(&project);
    let output = project.decree(["apply", &chain, "--dry-run"]).ok();
    let text = output.text();
    let expected = format!(
        "{chain}-0:\n  delete     docs/guide.md\n  create     new.bin\n  modify     notes.txt\n\
         {chain}-1:\n  create     added.txt\n  modify     notes.txt\n"
    );
    assert_eq!(text, expected);
    output.mentions(&["nothing was done: this is a dry run"]);
    assert_same(&everything(&project), &before);
    // The second run alone does not fit the tree as it is.
    let output = project.decree(["apply", &format!("{chain}-1"), "--dry-run"]).fails(1);
    assert!(output.text().contains("  conflict   notes.txt: expected "), "{}", output.text());
    output.mentions(&["it would not be applied: 1 conflict", "nothing was done"]);
    assert_same(&everything(&project), &before);
    project.decree(["apply", &chain]).ok().mentions(&["applied 4 paths", "applied 2 paths"]);
    assert_same(&project.snapshot(), &after);
    let output = project.decree(["apply", &format!("{chain}-1"), "--dry-run"]).ok();
    assert_eq!(output.text(), format!("{chain}-1: already applied\n"));
}

/// REV-11.
#[test]
fn a_dry_run_from_an_artifact_imports_nothing() {
    let (project, chain) = chain();
    let dir = crate::harness::temp_dir();
    let artifact = dir.path().join("artifact");
    project.decree(["stage", artifact.to_str().unwrap()]).ok();
    let there = PipelineProject::new();
    let before = everything(&there);
    let from = artifact.to_str().unwrap();
    let output = there.decree(["apply", "--all", "--from", from, "--dry-run"]).ok();
    let text = output.text();
    assert!(text.contains(&format!("{chain}-0:\n  delete     docs/guide.md\n")), "{text}");
    assert!(
        text.contains(&format!("{chain}-1:\n  create     added.txt\n  modify     notes.txt\n")),
        "{text}"
    );
    assert_same(&everything(&there), &before);
    there.write("docs/guide.md", "mine\n");
    let output = there.decree(["apply", &chain, "--from", from, "--dry-run"]).fails(1);
    assert!(output.text().contains("  conflict   docs/guide.md"), "{}", output.text());
    there.decree(["apply", &chain, "--from", from]).fails(1).mentions(&["docs/guide.md", "--force"]);
    assert_eq!(there.read("docs/guide.md"), b"mine\n");
    let output = there.decree(["apply", &chain, "--from", from, "--force"]).ok();
    output.mentions(&["overwriting docs/guide.md", "the tree before that is saved"]);
    assert!(!there.exists("docs/guide.md"));
    assert_eq!(there.read("notes.txt"), b"one\r\nsecond\n");
}

/// REV-12.
#[test]
fn force_makes_every_path_what_the_run_left_and_saves_what_was_there() {
    let (project, chain) = chain();
    let after = project.snapshot();
    project.decree(["revert", &chain]).ok();
    project
        .write("notes.txt", "mine\n")
        .write("new.bin", "mine too\n")
        .write("other.txt", "not part of it\n");
    let mine = project.snapshot();
    let run = format!("{chain}-0");
    project
        .decree(["apply", &run])
        .fails(1)
        .mentions(&["2 of 4 paths changed since", "`--force` overwrites"]);
    assert_same(&project.snapshot(), &mine);
    let dry = project.decree(["apply", &run, "--force", "--dry-run"]).ok().text();
    for line in ["  delete     docs/guide.md\n", "  overwrite  new.bin: ", "  overwrite  notes.txt: "] {
        assert!(dry.contains(line), "{dry}");
    }
    assert_same(&project.snapshot(), &mine);
    let output = project.decree(["apply", &chain, "--force"]).ok();
    output.mentions(&["overwriting notes.txt", "overwriting new.bin", "applied 4 paths", "applied 2 paths"]);
    let mut expected = after.clone();
    expected.insert(b"other.txt".to_vec(), mine[&b"other.txt"[..]].clone());
    assert_same(&project.snapshot(), &expected);
    assert_eq!(project.tracker(), ["01-x.spec.md"]);
    let saved = project.decree(["checkpoint", "list"]).ok().text();
    let saved = saved.lines().find(|line| line.contains("was applied with --force")).expect(&saved);
    let saved = saved.split_whitespace().find(|word| word.starts_with("chk_")).unwrap();
    project.decree(["rollback", saved]).ok();
    // A rollback of the tree does not touch the tracker.
    let (mut now, mut mine) = (project.snapshot(), mine);
    now.remove(&b"specs/processed-spec.md"[..]);
    mine.remove(&b"specs/processed-spec.md"[..]);
    assert_same(&now, &mine);
}

/// REV-12: what is needed for a path is missing, so nothing is done.
#[test]
fn force_does_not_replace_a_directory_that_holds_something_else() {
    let (project, chain) = chain();
    project.decree(["revert", &chain]).ok();
    project.write("new.bin/inside", "mine\n");
    let mine = project.snapshot();
    project.decree(["apply", &chain, "--force"]).fails(1).mentions(&["new.bin"]);
    assert_same(&project.snapshot(), &mine);
    assert_eq!(
        fs::read_dir(project.path(".decree/tmp")).map_or(0, Iterator::count),
        0,
        "nothing is left behind"
    );
}

/// REV-12. What is ignored by now is saved all the same. A likely secret is in no checkpoint: it is not overwritten.
#[test]
fn force_does_not_overwrite_what_cannot_be_saved() {
    let project = PipelineProject::with("echo run >made.txt");
    project.run(&["-m", "x", "-p", "y"]).ok();
    let id = project.only_run();
    project.decree(["revert", &id]).ok();
    project.write(".gitignore", "made.txt\n").write("made.txt", "precious\n");
    let forced = project.decree(["apply", &id, "--force", "--yes"]).ok();
    assert_eq!(project.read("made.txt"), b"run\n");
    let saved = forced.err.split('`').find_map(|word| word.strip_prefix("decree rollback ")).unwrap();
    project.decree(["rollback", saved]).ok();
    assert_eq!(project.read("made.txt"), b"precious\n");
    project.config("sensitive:\n  exclude: [made.txt]\n");
    for args in [&["apply", &id, "--force", "--dry-run"][..], &["apply", &id, "--force", "--yes"]] {
        let refused = project.decree(args).fails(1);
        assert!(format!("{}{}", refused.text(), refused.err).contains("likely secret"), "{}", refused.err);
        assert_eq!(project.read("made.txt"), b"precious\n");
    }
}

/// REV-32.
#[test]
fn a_chain_that_is_in_the_tree_is_already_applied() {
    let (project, chain) = chain();
    let before = everything(&project);
    project
        .decree(["apply", &chain])
        .ok()
        .mentions(&[&format!("{chain}-0: already applied"), &format!("{chain}-1: already applied")]);
    let dry = project.decree(["apply", &chain, "--dry-run"]).ok();
    assert_eq!(dry.text().matches("already applied").count(), 2, "{}", dry.text());
    assert_same(&everything(&project), &before);
}

/// REV-32. The last run was reverted and applied again, so it is not true that nothing was touched.
#[test]
fn a_chain_that_cannot_be_reverted_as_a_whole_says_what_was_done() {
    let (project, chain) = chain();
    project.write("new.bin", "mine\n");
    let before = project.snapshot();
    let refused = project.decree(["revert", &chain]).fails(1);
    assert!(!refused.err.contains("nothing was touched"), "{}", refused.err);
    refused.mentions(&["new.bin", &format!("{chain}-1 was reverted and is applied again")]);
    assert_same(&project.snapshot(), &before);
}
