//! decree's entries among the user's own in `git stash list`.

use std::collections::BTreeSet;

use serde_json::json;

use super::Repo;

#[test]
fn exactly_the_entry_that_is_meant_is_dropped() {
    let repo = Repo::new();
    repo.write("a", "theirs 1\n");
    repo.git(["stash", "push", "-q", "-m", "older"]).ok();
    repo.write("a", "ours\n");
    let stash = repo.stash();
    repo.git(["stash", "push", "-q", "-m", "newer"]).ok();
    assert_eq!(repo.operate("is_listed", json!({ "stash": stash })).unwrap(), json!(true));
    assert_eq!(repo.operate("drop", json!({ "stash": stash })).unwrap(), json!(true));
    assert_eq!(repo.says(["stash", "list"]), "stash@{0}: On main: newer\nstash@{1}: On main: older");
    assert_eq!(repo.operate("is_listed", json!({ "stash": stash })).unwrap(), json!(false));
    assert_eq!(repo.operate("drop", json!({ "stash": stash })).unwrap(), json!(false));
}

#[test]
fn the_last_entry_leaves_no_list_behind() {
    let repo = Repo::new();
    let stash = repo.stash();
    assert_eq!(repo.operate("drop", json!({ "stash": stash })).unwrap(), json!(true));
    assert_eq!(repo.says(["stash", "list"]), "");
    assert_ne!(repo.git(["rev-parse", "-q", "--verify", "refs/stash"]).code, 0);
    assert_eq!(repo.operate("is_listed", json!({ "stash": stash })).unwrap(), json!(false));
    // With its hash it can still be listed again.
    repo.operate("check", json!({ "stash": stash })).unwrap();
    repo.git(["stash", "store", "-m", "again", &stash.commit]).ok();
    assert_eq!(repo.operate("is_listed", json!({ "stash": stash })).unwrap(), json!(true));
}

#[test]
fn entries_made_by_others_at_the_same_time_stay() {
    let repo = Repo::new();
    let index = repo.says(["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "index"]);
    let ours: Vec<_> = (0..6).map(|n| repo.stash_with(json!({ "message": format!("ours {n}") }))).collect();
    let (stored, dropped) = std::thread::scope(|scope| {
        let storing = scope.spawn(|| {
            let mut stored = BTreeSet::new();
            // Each can get in between once, so that there is an end to it.
            for number in 0..40 {
                let text = format!("theirs {number}");
                let entry = ["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-p", &index, "-m", &text];
                let commit = repo.says(entry);
                if repo.git(["stash", "store", "-m", &text, &commit]).code == 0 {
                    stored.insert(format!("{commit} {text}"));
                }
            }
            stored
        });
        let dropped: Vec<_> =
            ours.iter().map(|stash| repo.operate("drop", json!({ "stash": stash }))).collect();
        (storing.join().unwrap(), dropped)
    });
    for dropped in dropped {
        assert_eq!(dropped.unwrap(), json!(true));
    }
    assert!(stored.len() > 10, "{}", stored.len());
    let listed = repo.says(["log", "-g", "--format=%H %gs", "refs/stash"]);
    assert_eq!(listed.lines().count(), stored.len());
    assert_eq!(listed.lines().map(str::to_owned).collect::<BTreeSet<_>>(), stored);
}
