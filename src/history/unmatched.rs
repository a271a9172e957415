//! Words of `--scope` that match nothing: an error that names what may be meant, because a checkpoint or a rollback of nothing protects
//! nothing.

use std::collections::BTreeSet;

use super::scope::Scope;
use crate::checkpoint::compare::Changes;
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::{BadPath, TreePath};
use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::suggest::closest;

/// How many paths a hint names.
const MAX_SUGGESTED: usize = 3;

/// A word of a scope that matches nothing that a checkpoint can hold.
pub struct UnmatchedWord {
    /// As the user typed it, relative to the project.
    pub word: String,
    /// Whether something matches, which is ignored or left out.
    pub is_there: bool,
}

/// The words that match nothing in the checkpoint.
pub fn unmatched(root: &Root, manifest: &Manifest, scope: &Scope) -> Vec<UnmatchedWord> {
    find(root, manifest, scope, None)
}

/// Refuses a scope for a new checkpoint if a word of it matches nothing, unless the caller allows that.
pub fn check_new(root: &Root, manifest: &Manifest, scope: &Scope) -> Result<()> {
    if scope.allow_missing {
        return Ok(());
    }
    let missing: Vec<String> = missing(unmatched(root, manifest, scope));
    let Some(first) = missing.first() else { return Ok(()) };
    let option = "`--allow-missing` accepts a path that is created later";
    let hint = match suggestion(first, manifest, None) {
        Some(suggestion) => format!("{suggestion}; {option}"),
        None => option.to_owned(),
    };
    Err(no_match(&missing, "in the tree").detail("no checkpoint was made").hint(hint))
}

/// Refuses the words of a rollback if one matches nothing, neither in the checkpoint `id` nor in the tree, or if no checkpoint holds
/// what they match. Returns the words that no checkpoint holds, if others are held.
pub fn check_rollback(
    root: &Root,
    manifest: &Manifest,
    scope: &Scope,
    changes: &Changes<'_>,
    id: &str,
) -> Result<Vec<String>> {
    let words = find(root, manifest, scope, Some(changes));
    let left_out: Vec<String> =
        words.iter().filter(|word| word.is_there).map(|word| word.word.clone()).collect();
    let all_left_out = left_out.len() == scope.patterns().len();
    let missing = missing(words);
    if let Some(first) = missing.first() {
        let list = format!("`decree checkpoint show {id} --files` lists what it holds");
        let hint = suggestion(first, manifest, Some(changes)).unwrap_or(list);
        return Err(no_match(&missing, &format!("in {id} or in the tree"))
            .detail("nothing was touched")
            .hint(hint));
    }
    if all_left_out && let Some(first) = left_out.first() {
        return Err(Error::project(format!("'{first}' is ignored or left out: {id} does not hold it"))
            .detail("nothing was touched")
            .hint(format!("`decree checkpoint show {id}` shows what it does not hold")));
    }
    Ok(left_out)
}

fn missing(words: Vec<UnmatchedWord>) -> Vec<String> {
    words.into_iter().filter(|word| !word.is_there).map(|word| word.word).collect()
}

fn no_match(words: &[String], place: &str) -> Error {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    Error::project(match quoted.as_slice() {
        [one] => format!("scope {one} matches nothing {place}"),
        all => format!("scopes {} match nothing {place}", all.join(", ")),
    })
}

fn find(
    root: &Root,
    manifest: &Manifest,
    scope: &Scope,
    changes: Option<&Changes<'_>>,
) -> Vec<UnmatchedWord> {
    let mut list = Vec::new();
    for pattern in scope.patterns() {
        let alone = Scope::from_record(vec![pattern.clone()]);
        let since = changes.is_some_and(|it| it.list.iter().any(|change| alone.covers(&change.path)));
        if since || manifest.tree.iter().any(|entry| alone.covers(&entry.path())) {
            continue;
        }
        let word = shown(pattern);
        let is_there = match TreePath::new(word.as_bytes()) {
            Ok(path) => root.find(&path).is_ok_and(|found| found.is_some()),
            // git's and decree's own data is in no checkpoint.
            Err(why) => why == BadPath::Reserved,
        };
        let is_out = changes.is_some_and(|it| it.out_of_scope.iter().any(|path| alone.covers(path)));
        let is_there = is_there || is_out || is_left_out(&manifest.coverage, &alone);
        list.push(UnmatchedWord { word, is_there });
    }
    list
}

fn is_left_out(coverage: &Coverage, scope: &Scope) -> bool {
    let lists = [&coverage.sensitive, &coverage.special, &coverage.ignored_dirs];
    lists.into_iter().flatten().any(|path| scope.covers(path))
}

/// A pattern as the user typed it: without the anchor and the escapes of a path.
fn shown(pattern: &str) -> String {
    let text = pattern.strip_prefix('/').unwrap_or(pattern);
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            // A pattern, not a path.
            '*' | '?' | '[' => return text.to_owned(),
            c => out.push(c),
        }
    }
    out
}

/// A hint with the paths that may be meant.
fn suggestion(word: &str, manifest: &Manifest, changes: Option<&Changes<'_>>) -> Option<String> {
    let mut known = BTreeSet::new();
    let mut add = |path: TreePath| {
        known.extend(path.ancestors().map(|dir| dir.to_string()));
        known.insert(path.to_string());
    };
    manifest.tree.iter().for_each(|entry| add(entry.path()));
    changes.iter().flat_map(|it| &it.list).for_each(|change| add(change.path.clone()));
    let near: Vec<String> = near(word, &known).iter().map(|path| format!("'{path}'")).collect();
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

/// The known paths that a word may mean: one that is spelled like it, else those whose last part is, or is spelled like, its own.
fn near<'k>(word: &str, known: &'k BTreeSet<String>) -> Vec<&'k str> {
    if let Some(path) = closest(word, known.iter().map(String::as_str)) {
        return vec![path];
    }
    let name = |path: &'k str| path.rsplit('/').next().unwrap_or(path);
    let last = word.rsplit('/').next().unwrap_or(word);
    let names: BTreeSet<&str> = known.iter().map(|path| name(path)).collect();
    let Some(meant) = names.get(last).copied().or_else(|| closest(last, names)) else { return Vec::new() };
    known.iter().map(String::as_str).filter(|path| name(path) == meant).take(MAX_SUGGESTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_suggested_by_their_spelling_or_their_last_part() {
        let known: BTreeSet<String> = ["src", "src/main.rs", "lib/main.rs", "docs/guide.md"]
            .iter()
            .map(|path| (*path).to_owned())
            .collect();
        assert_eq!(near("scr", &known), ["src"]);
        assert_eq!(near("src/mian.rs", &known), ["src/main.rs"]);
        assert_eq!(near("main.rs", &known), ["lib/main.rs", "src/main.rs"]);
        assert_eq!(near("elsewhere/giude.md", &known), ["docs/guide.md"]);
        assert!(near("frobnicate", &known).is_empty() && near("*.zz", &known).is_empty());
    }

    #[test]
    fn a_word_is_shown_as_it_was_typed() {
        assert_eq!(
            (shown("/src/a"), shown("*.rs"), shown("/f\\[1\\]"), shown("/d\\ ")),
            ("src/a".into(), "*.rs".into(), "f[1]".into(), "d ".into())
        );
    }
}
