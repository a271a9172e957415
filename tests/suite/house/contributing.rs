//! What CONTRIBUTING.md and the templates name is there: files move, and instructions that lead nowhere are worse than none.

use std::fs;
use std::path::Path;

const DOCUMENTS: [&str; 3] = ["CONTRIBUTING.md", "SECURITY.md", ".github/PULL_REQUEST_TEMPLATE.md"];
const ROOTS: [&str; 6] = [".ci/", ".github/", "docs/", "src/", "templates/", "tests/"];

/// The paths in backticks that do not exist. `NAME` stands for a name that the reader chooses.
fn missing(document: &str) -> Vec<&str> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let quoted = document.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    let paths =
        quoted.filter(|word| ROOTS.iter().any(|root| word.starts_with(root)) && !word.contains("NAME"));
    paths.filter(|path| !root.join(path).exists()).collect()
}

#[test]
fn the_files_that_contributors_are_sent_to_exist() {
    for document in DOCUMENTS {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
        assert_eq!(missing(&text), Vec::<&str>::new(), "{document}");
    }
}

#[test]
fn a_planted_path_that_does_not_exist_is_reported() {
    assert_eq!(
        missing("`src/lib.rs`, `src/planted.rs`, `src/cli/NAME.rs`, `cargo test`"),
        ["src/planted.rs"]
    );
}
