//! Every type of checkpoint: saved, changed, rolled back, compared.

mod database;
pub mod scene;
mod stash;
mod state;

use std::fs;
use std::path::{Path, PathBuf};

use crate::rollback::contract::assert_valid;
use scene::{Scene, parsed, scenes};

/// TYP-01.
#[test]
fn what_each_type_answers_is_what_the_contract_says() {
    for format in ["json", "yaml"] {
        for scene in scenes() {
            let answer = scene.create(format, &["--reason", "to be safe", "--expiry", "24h"]);
            assert_valid(&answer, "checkpoint");
            assert_eq!(answer["checkpoint"]["type"], scene.kind);
            assert_eq!(answer["confidence"], 1.0, "{}: {answer:#}", scene.kind);
            for anchor in answer["evidence_anchors"].as_array().unwrap() {
                match anchor.as_str().unwrap().split_once(':').unwrap() {
                    ("file", file) => assert!(scene.project.exists(file), "{file}"),
                    (_, command) => drop(scene.bash(command.strip_prefix("bash:").unwrap()).ok()),
                }
            }
            let id = answer["checkpoint"]["id"].as_str().unwrap();
            (scene.spoil)(&scene.project);
            let back = parsed(format, &scene.project.decree(["rollback", id, "--format", format]).ok().out);
            assert_valid(&back, "rollback");
            assert_eq!(back["restored_to"]["checkpoint_type"], scene.kind);
            assert_eq!(back["verification"]["checkpoint_hash"], answer["pre_mutation_state"]["hash"]);
            assert_eq!(back["verification"]["post_state_hash"], answer["pre_mutation_state"]["hash"]);
            assert_ne!(back["verification"]["pre_state_hash"], answer["pre_mutation_state"]["hash"]);
            assert_eq!((&back["rolled_back"], &back["confidence"]), (&true.into(), &1.0.into()));
            for anchor in back["evidence_anchors"].as_array().unwrap() {
                match anchor.as_str().unwrap().split_once(':').unwrap() {
                    ("file", file) => assert!(scene.project.exists(file), "{file}"),
                    (_, command) => drop(scene.bash(command.strip_prefix("bash:").unwrap()).ok()),
                }
            }
        }
    }
}

/// TYP-09.
#[test]
fn what_another_program_restores_is_named_as_an_assumption() {
    for scene in scenes() {
        let trusted = match scene.kind {
            "git_stash" => "git restores and compares the index",
            "database_savepoint" => "the commands of store in the config",
            _ => continue,
        };
        let id = scene.checkpoint();
        (scene.spoil)(&scene.project);
        let back = scene.project.decree(["rollback", &id, "--format", "json"]).ok();
        let back = parsed("json", &back.out);
        assert!(back["assumptions"].to_string().contains(trusted), "{back:#}");
    }
}

/// TYP-02.
#[test]
fn each_type_brings_everything_back_as_it_was_and_the_present_too() {
    for scene in scenes() {
        let before = scene.looks();
        let id = scene.checkpoint();
        (scene.spoil)(&scene.project);
        let spoiled = scene.looks();
        assert_ne!(before, spoiled);
        let dry = scene.project.decree(["rollback", &id, "--dry-run"]).ok();
        dry.mentions(&["would be rolled back"]);
        scene.assert_looks(&spoiled, "after a dry run");
        let back = scene.project.decree(["rollback", &id, "--format", "json"]).ok();
        scene.assert_looks(&before, "after a rollback");
        let saved = parsed("json", &back.out)["saved_present_as"].as_str().unwrap().to_owned();
        scene.project.decree(["rollback", &saved]).ok();
        scene.assert_looks(&spoiled, "after a rollback of the rollback");
        scene.project.decree(["rollback", &id, "--no-verify"]).ok();
        scene.assert_looks(&before, "in the end");
        scene.project.decree(["rollback", &id]).ok().mentions(&["matches chk_"]);
    }
}

/// TYP-03.
#[test]
fn the_restore_command_of_each_type_runs_as_it_is_printed() {
    for scene in scenes() {
        let before = scene.looks();
        let answer = scene.create("json", &[]);
        (scene.spoil)(&scene.project);
        scene.bash(answer["checkpoint"]["restore_command"].as_str().unwrap()).ok();
        scene.assert_looks(&before, "after the restore command");
    }
}

/// TYP-04.
#[test]
fn a_part_of_each_type_is_reverted_and_nothing_else() {
    for scene in scenes() {
        let before = scene.looks();
        let id = scene.checkpoint();
        (scene.spoil)(&scene.project);
        let spoiled = scene.looks();
        let (word, within) = scene.part;
        let back = scene.project.decree(["rollback", &id, "--scope", word, "--format", "json"]).ok();
        assert_valid(&parsed("json", &back.out), "rollback");
        let mut expected = before.clone();
        expected.retain(|key, _| within(key));
        expected.extend(spoiled.into_iter().filter(|(key, _)| !within(key)));
        scene.assert_looks(&expected, "after a rollback of a part");
        assert_ne!(scene.project.decree(["rollback", &id, "--scope", "nowhere/at-all"]).code, 0);
        scene.assert_looks(&expected, "after a part that is none");
    }
}

/// TYP-05.
#[test]
fn one_flipped_byte_in_any_file_of_a_checkpoint_is_reported_and_nothing_is_touched() {
    for scene in scenes() {
        let id = scene.checkpoint();
        (scene.spoil)(&scene.project);
        let spoiled = scene.looks();
        let files = files_below(&scene.project.path(format!(".decree/checkpoints/{id}")));
        assert!(files.len() >= 2, "{files:?}");
        for path in files {
            let whole = fs::read(&path).unwrap();
            for at in [whole.len() / 4, whole.len() / 2, whole.len() - 2] {
                let mut bytes = whole.clone();
                bytes[at] ^= 1;
                fs::write(&path, bytes).unwrap();
                refused(&scene, &id, &format!("{} at {at}", path.display()));
            }
            for length in [0, whole.len() / 2] {
                fs::write(&path, &whole[..length]).unwrap();
                refused(&scene, &id, &format!("{} cut to {length}", path.display()));
            }
            fs::remove_file(&path).unwrap();
            refused(&scene, &id, &format!("{} gone", path.display()));
            fs::write(&path, whole).unwrap();
            scene.assert_looks(&spoiled, "after what was refused");
        }
        scene.project.decree(["checkpoint", "verify", &id]).ok();
        scene.project.decree(["rollback", &id]).ok();
    }
}

#[track_caller]
fn refused(scene: &Scene, id: &str, what: &str) {
    for command in [&["checkpoint", "verify"][..], &["rollback"]] {
        let output = scene.project.decree([command, &[id]].concat());
        assert_eq!(output.code, 4, "{} {command:?} {what}: {}", scene.kind, output.err);
    }
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// TYP-06.
#[test]
fn an_expired_checkpoint_of_any_type_is_not_rolled_back_to() {
    let scenes = scenes();
    let ids: Vec<String> = scenes
        .iter()
        .map(|scene| {
            let answer = scene.create("json", &["--expiry", "1s"]);
            answer["checkpoint"]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    for (scene, id) in scenes.iter().zip(ids) {
        (scene.spoil)(&scene.project);
        let spoiled = scene.looks();
        scene.project.decree(["rollback", &id]).fails(3).mentions(&["expired on", "nothing was touched"]);
        scene.assert_looks(&spoiled, "after what was refused");
    }
}

/// TYP-07.
#[test]
fn what_holds_nothing_of_the_tree_is_not_taken_for_a_tree() {
    for scene in scenes() {
        let id = scene.checkpoint();
        let has_tree = ["file_backup", "git_stash"].contains(&scene.kind);
        for command in ["diff", "revert"] {
            let output = scene.project.decree([command, &id]);
            if has_tree {
                drop(output.ok())
            } else {
                drop(output.fails(3).mentions(&["does not hold the tree", "decree rollback"]))
            }
        }
        let shown = scene.project.decree(["checkpoint", "show", &id, "--files"]).ok();
        assert!(shown.text().contains(scene.kind), "{}", shown.text());
        let listed = scene.project.decree(["checkpoint", "list"]).ok();
        assert!(listed.text().contains(scene.kind), "{}", listed.text());
        scene.project.decree(["checkpoint", "delete", "--yes", &id]).ok();
        scene.project.decree(["checkpoint", "verify", "--all"]).ok();
    }
}

/// TYP-08.
#[test]
fn an_expired_checkpoint_of_any_type_is_collected_and_no_other_is_affected() {
    let made: Vec<(Scene, String, String)> = scenes()
        .into_iter()
        .map(|scene| {
            let kept = scene.checkpoint();
            let answer = scene.create("json", &["--expiry", "1s"]);
            let expired = answer["checkpoint"]["id"].as_str().unwrap().to_owned();
            (scene, kept, expired)
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    for (scene, kept, expired) in made {
        let before = scene.looks();
        let dry = scene.project.decree(["checkpoint", "gc", "--dry-run"]).ok();
        assert!(dry.text().contains(&expired) && dry.text().contains(scene.kind), "{}", dry.text());
        scene.project.decree(["checkpoint", "gc"]).ok();
        assert_eq!(scene.project.names(".decree/checkpoints"), [kept.as_str()]);
        scene.project.decree(["checkpoint", "verify", "--all"]).ok();
        (scene.spoil)(&scene.project);
        scene.project.decree(["rollback", &kept]).ok();
        scene.assert_looks(&before, "after collecting");
        if scene.kind == "git_stash" {
            let list = scene::git(&scene.project, &["stash", "list"]);
            assert!(list.contains(&kept) && !list.contains(&expired), "{list}");
        }
    }
}
