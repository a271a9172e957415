//! The name of a file on disk is spelled once: the module that owns the file has the constant, and others use it.

use std::collections::BTreeMap;

use super::Source;

/// Endings of the files that decree reads and writes.
const ENDINGS: [&str; 9] = [".json", ".jsonl", ".diff", ".md", ".log", ".ipynb", ".yml", ".pack", ".lock"];
/// Directories whose names are words of no other kind.
const DIRECTORIES: [&str; 2] = [".decree", "set-aside"];

/// Names of files and directories that more than one string literal spells.
fn repeated_names(source: &Source) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, code) in source.code() {
        for name in code.split('"').filter(|text| is_disk_name(text)) {
            places.entry(name.to_owned()).or_default().push(path.to_owned());
        }
    }
    places.retain(|_, paths| paths.len() > 1);
    places.into_iter().map(|(name, paths)| format!("{name}: {}", paths.join(", "))).collect()
}

fn is_disk_name(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    DIRECTORIES.contains(&text)
        || is_plain && ENDINGS.iter().any(|ending| text.ends_with(ending) && text != *ending)
}

#[test]
fn every_file_name_on_disk_is_spelled_once() {
    assert_eq!(repeated_names(&Source::read()), Vec::<String>::new());
}

#[test]
fn a_planted_second_spelling_of_a_file_name_is_reported() {
    let planted = "fn f(dir: &Path) -> PathBuf {\n    dir.join(\"changes.diff\")\n}\n";
    let repeated = repeated_names(&Source::read().with("report/planted.rs", planted));
    assert_eq!(repeated, ["changes.diff: checkpoint/checkpoint_dir.rs, report/planted.rs"]);
}
