//! No two public types share a name: a search for a name finds one thing.

use std::collections::BTreeMap;

use super::{Source, identifier};

/// Names that more than one file declares as a type visible outside of it.
fn shared_names(source: &Source) -> Vec<String> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, code) in source.code() {
        for name in code.lines().filter_map(public_type) {
            files.entry(name.to_owned()).or_default().push(path.to_owned());
        }
    }
    files.retain(|_, paths| paths.len() > 1);
    files.into_iter().map(|(name, paths)| format!("{name}: {}", paths.join(", "))).collect()
}

fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(restricted) => restricted.split_once(')')?.1,
        None => rest,
    };
    let (keyword, rest) = rest.trim_start().split_once(' ')?;
    ["struct", "enum", "trait", "type", "union"].contains(&keyword).then(|| identifier(rest))
}

#[test]
fn no_two_public_types_share_a_name() {
    assert_eq!(shared_names(&Source::read()), Vec::<String>::new());
}

#[test]
fn a_planted_second_manifest_is_reported() {
    let planted = Source::read().with("report/planted.rs", "pub(super) struct Manifest<'m>(&'m str);\n");
    assert_eq!(shared_names(&planted), ["Manifest: checkpoint/manifest.rs, report/planted.rs"]);
}
