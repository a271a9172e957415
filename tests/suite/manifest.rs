//! The content of a manifest.

use serde_json::Value;

use crate::harness::Project;

fn manifest(project: &Project, id: &str) -> Value {
    let text = std::fs::read(project.record(id, "manifest.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// CHK-01.
#[test]
fn every_visible_file_is_named_with_its_hash_size_and_mode_in_order() {
    let project = Project::new();
    project.write("b/c", "abc").write("a", "").write("b-d", "x\n").chmod("b/c", 0o640);
    project.write(".gitignore", "hidden\n").write("hidden", "x");
    let id = project.checkpoint();
    let manifest = manifest(&project, &id);
    assert_eq!(manifest["version"], 1);
    let file = &manifest["files"]["b/c"];
    assert_eq!(file["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!((&file["size"], &file["mode"]), (&3.into(), &"640".into()));
    assert_eq!(manifest["files"]["hidden"], Value::Null);

    let text = std::fs::read_to_string(project.record(&id, "manifest.json")).unwrap();
    let names: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix('"')?.split('"').next()).collect();
    assert_eq!(names[..4], [".gitignore", "a", "b-d", "b/c"]);
}

/// CHK-02.
#[test]
fn links_and_directories_that_need_saying_are_entries_of_their_types() {
    let project = Project::new();
    project.link("link", "nowhere").mkdir("empty").mkdir("full").write("full/x", "x");
    project.mkdir("odd").write("odd/x", "x").chmod("odd", 0o700);
    let id = project.checkpoint();
    let files = &manifest(&project, &id)["files"];
    assert_eq!(files["link"]["type"], "symlink");
    assert_eq!(files["link"]["size"], "nowhere".len());
    assert_eq!((&files["empty"]["type"], &files["empty"]["mode"]), (&"dir".into(), &"755".into()));
    assert_eq!((&files["odd"]["type"], &files["odd"]["mode"]), (&"dir".into(), &"700".into()));
    assert_eq!(files["full"], Value::Null);
}

/// CHK-03.
#[test]
fn names_that_json_cannot_hold_are_quoted_as_git_quotes_them() {
    let project = Project::new();
    project.write(b"caf\xe9\n", "x").write("\"quoted\"", "x").write("plain ünïcode\t", "x");
    let id = project.checkpoint();
    let files = &manifest(&project, &id)["files"];
    for name in [r#""caf\351\n""#, r#""\"quoted\"""#, "plain ünïcode\t"] {
        assert!(files[name].is_object(), "{name} is not in {files}");
    }
}

/// DIF-06.
#[test]
fn no_changes_are_no_bytes() {
    let project = Project::new();
    project.write("a", "a\n");
    let id = project.checkpoint();
    assert!(project.decree(["diff", &id]).ok().out.is_empty());
}

/// STO-04.
#[test]
fn whole_checkpoints_verify_and_say_how_much_was_read_back() {
    let project = Project::new();
    project.write("a", "a\n").write("b", "b\n").link("l", "a");
    let (one, two) = (project.checkpoint(), project.checkpoint());
    let output = project.decree(["checkpoint", "verify", "--all"]).ok();
    for id in [one, two] {
        assert!(output.text().contains(&format!("{id}  intact, 3 entries verified")), "{}", output.text());
    }
}
