//! Every criterion in `specs/` is named by a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Something like `CHK-07`, anywhere in a text.
fn ids(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .filter(|word| {
            let bytes = word.as_bytes();
            bytes.len() == 6
                && bytes[..3].iter().all(u8::is_ascii_uppercase)
                && bytes[3] == b'-'
                && bytes[4..].iter().all(u8::is_ascii_digit)
        })
        .map(str::to_owned)
        .collect()
}

pub fn files(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

/// Id → how often a criterion with that id is stated.
fn stated() -> BTreeMap<String, usize> {
    let mut specs = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("specs"), ".spec.md", &mut specs);
    assert!(!specs.is_empty(), "there are specs");
    let mut stated = BTreeMap::new();
    for path in specs {
        for line in fs::read_to_string(path).unwrap().lines() {
            if let Some(rest) = line.strip_prefix("- **") {
                let id = rest.split("**").next().unwrap_or_default();
                assert_eq!(ids(id).len(), 1, "a criterion without an id: {line}");
                *stated.entry(id.to_owned()).or_default() += 1;
            }
        }
    }
    stated
}

/// The ids that stand in a comment right above a test, or inside one.
fn tested() -> BTreeSet<String> {
    let mut sources = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    files(&root.join("tests"), ".rs", &mut sources);
    files(&root.join("src"), ".rs", &mut sources);
    sources
        .iter()
        .filter(|path| !path.ends_with("criteria.rs"))
        .flat_map(|path| ids(&fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn every_criterion_is_stated_once_and_named_by_a_test() {
    let tested = tested();
    let stated = stated();
    let twice: Vec<_> = stated.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "stated more than once: {twice:?}");
    let untested: Vec<_> = stated.keys().filter(|id| !tested.contains(*id)).collect();
    assert!(untested.is_empty(), "no test names {untested:?}");
}

#[test]
fn every_id_that_a_test_names_is_a_criterion() {
    let prefixes: BTreeSet<String> = stated().keys().map(|id| id[..3].to_owned()).collect();
    let unknown: Vec<_> =
        tested().into_iter().filter(|id| prefixes.contains(&id[..3]) && !stated().contains_key(id)).collect();
    assert!(unknown.is_empty(), "tests name criteria that do not exist: {unknown:?}");
}
