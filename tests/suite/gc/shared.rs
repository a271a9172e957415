//! A store that several projects share: none of them knows everything that is needed.

use std::os::unix::fs::symlink;

use super::{bytes_below, expire};
use crate::harness::{CommandOutput, Project, run_command};
use crate::revert::binary::noise;

fn decree_with(project: &Project, store: &str, args: &[&str]) -> CommandOutput {
    run_command(project.command().env("DECREE_STORE", store).args(args))
}

/// GCC-10.
#[test]
fn content_elsewhere_stays_and_only_what_has_expired_goes() {
    let elsewhere = crate::harness::temp_dir();
    let store = elsewhere.path().to_str().unwrap();
    let (one, other) = (Project::new(), Project::new());
    one.write("a", noise(10_000, 1));
    other.write("b", noise(10_000, 2));
    let id = decree_with(&one, store, &["checkpoint", "create"]).ok().line();
    let others = decree_with(&other, store, &["checkpoint", "create"]).ok().line();
    expire(&one, &id);
    let before = bytes_below(elsewhere.path());
    let output = decree_with(&one, store, &["checkpoint", "gc", "--dry-run"]).ok();
    assert!(output.text().contains("1 expired checkpoint would be deleted"), "{}", output.text());
    let output =
        decree_with(&one, store, &["checkpoint", "gc"]).ok().mentions(&["no content is dropped", store]);
    assert!(output.text().contains("1 expired checkpoint deleted"), "{}", output.text());
    assert_eq!(bytes_below(elsewhere.path()), before);
    assert!(!one.exists(format!(".decree/checkpoints/{id}")));
    decree_with(&other, store, &["checkpoint", "verify", &others]).ok();
}

/// GCC-10.
#[test]
fn a_project_whose_own_store_others_use_drops_nothing_either() {
    let (own, guest) = (Project::new(), Project::new());
    own.write("a", noise(10_000, 1));
    let id = own.checkpoint();
    guest.write("b", noise(10_000, 2));
    let store = own.path(".decree/store");
    let guests = decree_with(&guest, store.to_str().unwrap(), &["checkpoint", "create"]).ok().line();
    expire(&own, &id);
    own.decree(["checkpoint", "gc"]).ok().mentions(&["no content is dropped", ".decree/store/shared"]);
    decree_with(&guest, store.to_str().unwrap(), &["checkpoint", "verify", &guests]).ok();
    // When the guest is gone, its word can go as well.
    own.remove(".decree/store/shared");
    own.decree(["checkpoint", "gc"]).ok();
    assert_eq!(super::packs(&own), 0);
}

/// GCC-10.
#[test]
fn a_store_behind_a_link_is_not_the_projects_own() {
    let elsewhere = crate::harness::temp_dir();
    let project = Project::new();
    symlink(elsewhere.path(), project.path(".decree/store")).unwrap();
    project.write("a", noise(10_000, 1));
    let id = project.checkpoint();
    expire(&project, &id);
    let before = bytes_below(elsewhere.path());
    project.decree(["checkpoint", "gc"]).ok().mentions(&["no content is dropped"]);
    assert_eq!(bytes_below(elsewhere.path()), before);
}
