//! Checking that a stash entry is complete.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Repo;

fn loose(repo: &Repo, hash: &str) -> PathBuf {
    repo.path(format!(".git/objects/{}/{}", &hash[..2], &hash[2..]))
}

fn overwrite(file: &Path, bytes: &[u8]) {
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(file, bytes).unwrap();
}

#[test]
fn one_flipped_byte_and_one_missing_object_are_found_wherever_they_are() {
    let repo = Repo::new();
    repo.write("a", "staged\n");
    repo.git(["add", "a"]).ok();
    repo.write("a", "edited\n").write("b", "edited too\n").write("deep/u", "untracked\n");
    let stash = repo.stash();
    let check = || repo.operate("check", json!({ "stash": stash }));
    check().unwrap();
    let own = repo.says(["rev-list", "--objects", "--no-object-names", "stash", "--not", "HEAD"]);
    assert_eq!(own.lines().count(), 3 + 2 + 2 + 4, "{own}");
    let another = fs::read(loose(&repo, &repo.says(["hash-object", "-w", "--stdin"]))).unwrap();
    for hash in own.lines() {
        let file = loose(&repo, hash);
        let bytes = fs::read(&file).unwrap();
        let mut flipped = bytes.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        let of_kind = match repo.says(["cat-file", "-t", hash]).as_str() {
            "commit" => fs::read(loose(&repo, &stash.base)).unwrap(),
            "tree" => fs::read(loose(&repo, &repo.says(["rev-parse", "HEAD^{tree}"]))).unwrap(),
            _ => another.clone(),
        };
        // A bit, and a sound object that is another one.
        for wrong in [flipped, of_kind] {
            overwrite(&file, &wrong);
            let failure = check().unwrap_err();
            assert!(failure.integrity, "{hash}: {}", failure.text);
        }
        fs::remove_file(&file).unwrap();
        assert!(check().unwrap_err().integrity, "{hash}");
        fs::write(&file, bytes).unwrap();
    }
    check().unwrap();
    // Packed it is the same.
    repo.git(["gc", "-q"]).ok();
    check().unwrap();
}

#[test]
fn the_history_of_the_base_is_not_looked_at() {
    let repo = Repo::new();
    let first = repo.says(["rev-parse", "HEAD"]);
    repo.write("a", "second\n");
    repo.commit_all("second");
    repo.write("a", "edited\n");
    let stash = repo.stash();
    fs::remove_file(loose(&repo, &repo.says(["rev-parse", &format!("{first}:a")]))).unwrap();
    fs::remove_file(loose(&repo, &repo.says(["rev-parse", &format!("{first}^{{tree}}")]))).unwrap();
    repo.operate("check", json!({ "stash": stash })).unwrap();
    // What the base itself has is needed.
    fs::remove_file(loose(&repo, &repo.says(["rev-parse", "HEAD:b"]))).unwrap();
    assert!(repo.operate("check", json!({ "stash": stash })).unwrap_err().integrity);
}

#[test]
fn another_commit_is_not_the_entry() {
    let repo = Repo::new();
    let mut stash = repo.stash();
    for wrong in [repo.says(["rev-parse", "HEAD"]), "1".repeat(40), "HEAD".to_owned()] {
        let real = std::mem::replace(&mut stash.commit, wrong);
        assert!(repo.operate("check", json!({ "stash": stash })).unwrap_err().integrity);
        stash.commit = real;
    }
    stash.index_tree = "2".repeat(40);
    assert!(repo.operate("check", json!({ "stash": stash })).unwrap_err().integrity);
}
