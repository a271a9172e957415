use std::fs;

use super::{change_everything, project};
use crate::harness::assert_same;

/// RBK-05.
#[test]
fn what_cannot_be_rolled_back_to_is_reported_and_nothing_is_touched() {
    let project = project();
    let id = project.checkpoint();
    change_everything(&project);
    let changed = project.snapshot();
    project.decree(["rollback", "chk_1999"]).fails(3).mentions(&["no run or checkpoint"]);
    project.decree(["rollback"]).fails(2);
    let flip = |file: &str| {
        let path = project.path(format!(".decree/checkpoints/{id}/{file}"));
        let whole = fs::read(&path).unwrap();
        for at in [whole.len() / 3, whole.len() / 2, whole.len() * 2 / 3] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            let output = project.decree(["rollback", &id]);
            assert_eq!(output.code, 4, "{file} at {at}: {}", output.err);
            assert_same(&project.snapshot(), &changed);
        }
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        project.decree(["rollback", &id]).fails(4);
        fs::remove_file(&path).unwrap();
        assert_ne!(project.decree(["rollback", &id]).code, 0);
        assert_same(&project.snapshot(), &changed);
        fs::write(&path, whole).unwrap();
    };
    flip("manifest.json");
    flip("checkpoint.json");
    project.decree(["rollback", &id]).ok();
}

/// RBK-05.
#[test]
fn an_expired_checkpoint_is_not_rolled_back_to() {
    let project = project();
    let output = project.decree(["checkpoint", "create", "--expiry", "1s"]).ok();
    let id = output.line();
    change_everything(&project);
    let changed = project.snapshot();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let checkpoints = project.decree(["checkpoint", "list"]).ok().text();
    for verb in ["rollback", "revert", "recover"] {
        let output = project.decree([verb, &id]).fails(3).mentions(&["expired on", "nothing was touched"]);
        assert!(!output.err.contains("decree revert"), "a hint leads round the expiry: {}", output.err);
        assert_same(&project.snapshot(), &changed);
    }
    assert_eq!(project.decree(["checkpoint", "list"]).ok().text(), checkpoints);
    for bad in ["soon", "-1d", "1x"] {
        project.decree(["checkpoint", "create", "--expiry", bad]).fails(2);
    }
}

/// RBK-03.
#[test]
fn a_scope_has_to_cover_something_and_stay_inside() {
    let project = project();
    let id = project.checkpoint();
    change_everything(&project);
    project
        .decree(["rollback", &id, "--scope", "nowhere"])
        .fails(3)
        .mentions(&["scope 'nowhere' matches nothing"]);
    for outside in ["..", "../x", "/etc"] {
        project
            .decree(["rollback", &id, "--scope", outside])
            .fails(2)
            .mentions(&["leads out of the project"]);
    }
}
