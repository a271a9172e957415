//! A file fits a reader's head: at most 450 lines. Clippy holds the limit of 60 lines per function.

use super::Source;

const LONGEST: usize = 450;

fn long_files(source: &Source) -> Vec<String> {
    let long = source.0.iter().filter(|(_, text)| text.lines().count() > LONGEST);
    long.map(|(path, _)| path.clone()).collect()
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    assert_eq!(long_files(&Source::read()), Vec::<String>::new());
}

#[test]
fn a_planted_long_file_is_reported() {
    let planted = Source::read().with("planted.rs", &"fn f() {}\n".repeat(LONGEST + 1));
    assert_eq!(long_files(&planted), ["planted.rs"]);
}
