//! Whether a change is one that a routine may make: `policy` in the config.

use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::ignore::PatternList;
use crate::checkpoint::quote;
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
        found.push(format!("{more} more paths"));
    }
    let files = record.changes.len() as u64;
    if policy.max_files > 0 && files > policy.max_files {
        found.push(format!("{files} paths changed, {} are allowed", policy.max_files));
    }
    let bytes: u64 = record
        .changes
        .values()
        .filter_map(|change| change.after.as_ref()?.content())
        .map(|(_, size)| size)
        .sum();
    if policy.max_bytes > 0 && bytes > policy.max_bytes {
        found.push(format!("{bytes} bytes in changed files, {} are allowed", policy.max_bytes));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(patterns: &str, path: &str) -> bool {
        PatternList::parse(patterns.as_bytes()).covers(path.as_bytes())
    }

    #[test]
    fn a_directory_stands_for_everything_in_it() {
        assert!(matching(".github", ".github/workflows/ci.yml"));
        assert!(matching("/docs/", "docs/a.md"));
        assert!(!matching("/docs/", "src/docs/a.md"));
        assert!(matching("docs/**", "docs/deep/a.md"));
    }

    #[test]
    fn a_plain_name_matches_at_any_depth_and_a_later_pattern_takes_it_back() {
        assert!(matching("*.lock", "a/b/Cargo.lock"));
        assert!(!matching("*.lock\n!Cargo.lock", "a/b/Cargo.lock"));
        assert!(!matching("", "a"));
    }
}
