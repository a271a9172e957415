//! Whether a change is one that a routine may make: `policy` in the config.

use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::ignore::PatternList;
use crate::checkpoint::quote;
use crate::humanize::count;
use crate::project::Policy;

/// The most violations that are listed; the rest are counted.
const MAX_LISTED: usize = 10;

/// How a change violates the policy; empty if it does not.
///
/// Paths are matched by ignore patterns: `*.lock` anywhere, `/docs/` at the top, a directory with everything below it. `deny`
/// overrides `allow`; an empty `allow` allows everything.
pub fn violations(policy: &Policy, record: &ChangeRecord) -> Vec<String> {
    let list = |patterns: &[String]| PatternList::parse(patterns.join("\n").as_bytes());
    let (allow, deny) = (list(&policy.allow), list(&policy.deny));
    let mut found = Vec::new();
    // Ignored and excluded files are not in the diff, but the routine created them.
    for path in record.changes.keys().chain(&record.out_of_scope) {
        let bytes = quote::from_json(path).unwrap_or(path.as_bytes().into());
        if deny.covers(&bytes) {
            found.push(format!("{path} is denied"));
        } else if record.changes.contains_key(path) && !policy.allow.is_empty() && !allow.covers(&bytes) {
            found.push(format!("{path} is not allowed"));
        }
    }
    let more = found.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        found.truncate(MAX_LISTED);
        found.push(count(more, "more path"));
    }
    let files = record.changes.len() as u64;
    if policy.max_files > 0 && files > policy.max_files {
        found.push(format!("{files} paths changed; max_files is {}", policy.max_files));
    }
    let bytes: u64 = record
        .changes
        .values()
        .filter_map(|change| change.after.as_ref()?.content())
        .map(|(_, size)| size)
        .sum();
    if policy.max_bytes > 0 && bytes > policy.max_bytes {
        found.push(format!("{bytes} bytes in changed files; max_bytes is {}", policy.max_bytes));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_an_ignore_file_and_a_directory_stands_for_everything_in_it() {
        for (patterns, path, matches) in [
            (".github", ".github/workflows/ci.yml", true),
            ("/docs/", "docs/a.md", true),
            ("/docs/", "src/docs/a.md", false),
            ("docs/**", "docs/deep/a.md", true),
            ("*.lock", "a/b/Cargo.lock", true),
            ("*.lock\n!Cargo.lock", "a/b/Cargo.lock", false),
            ("", "a", false),
        ] {
            let covers = PatternList::parse(patterns.as_bytes()).covers(path.as_bytes());
            assert_eq!(covers, matches, "{patterns:?} {path}");
        }
    }
}
