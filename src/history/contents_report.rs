//! What a new checkpoint holds of what was meant, for whoever asks. Every value is worked out, none is assumed.

use serde_json::{Value, json};

use super::create::{CheckpointPayload, CreatedCheckpoint};
use super::kind::CheckpointTarget;
use super::kind::database::{DatabaseState, DatabaseTarget};
use super::kind::tree::hash_then;
use super::record::CheckpointRecord;
use super::scope::Scope;
use crate::checkpoint::checkpoint_dir::path_texts;
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::manifest::Manifest;
use crate::humanize::{self, count};
use crate::project::Layout;

/// What a checkpoint holds within its scope.
pub struct ContentsReport {
    /// Paths.
    pub files: Vec<String>,
    /// Names of parts that are no paths.
    pub state_keys: Vec<String>,
    /// Of all of it.
    pub hash: String,
    /// In words.
    pub summary: String,
    /// How many things it holds.
    pub held: usize,
    /// What was meant and is not held.
    pub left_out: Vec<String>,
    /// What has to be true for this to be enough.
    pub assumptions: Vec<String>,
    /// What it does not hold, in full.
    pub coverage: Value,
}

impl CreatedCheckpoint {
    /// What of this is within the aim.
    pub fn holding(&self, layout: &Layout, aim: &CheckpointTarget) -> ContentsReport {
        let mut holding = self.held(layout, aim);
        holding.assumptions.extend(not_needed(&self.tracked_only));
        holding.left_out.extend(self.tracked_only.iter().cloned());
        holding
    }

    fn held(&self, layout: &Layout, aim: &CheckpointTarget) -> ContentsReport {
        match (&self.contents, aim) {
            (CheckpointPayload::Databases, _) => of_databases(&self.record),
            (
                CheckpointPayload::Tree(manifest),
                CheckpointTarget::Tree(scope) | CheckpointTarget::Stash(scope),
            ) => of_tree(layout, manifest, scope),
            (CheckpointPayload::Tree(manifest), _) => of_tree(layout, manifest, &Scope::default()),
            (CheckpointPayload::State(state), _) => ContentsReport {
                files: state.files.keys().cloned().collect(),
                state_keys: aim.words(),
                hash: state.hash().to_string(),
                summary: format!(
                    "{}, {}; {}",
                    count(state.files.len(), "file"),
                    humanize::bytes(state.bytes()),
                    count(state.environment.len(), "variable")
                ),
                held: state.files.len() + state.environment.len(),
                left_out: state.left_out.clone(),
                assumptions: not_needed(&state.left_out),
                coverage: json!({ "left_out": state.left_out }),
            },
        }
    }

    /// What people have to know before something happens to what is not protected.
    pub fn warnings(&self, layout: &Layout, aim: &CheckpointTarget) -> Vec<String> {
        let mut warnings = self.left_out();
        let tracked = self.tracked_only.iter();
        warnings
            .extend(tracked.map(|path| format!("only git's entry has {path}: it is tracked, and ignored")));
        if let (
            CheckpointPayload::Tree(manifest),
            CheckpointTarget::Tree(scope) | CheckpointTarget::Stash(scope),
        ) = (&self.contents, aim)
        {
            warnings.extend(bare(layout, manifest, scope).into_iter().map(|Bare { pattern, is_there }| {
                match is_there {
                    true => {
                        format!("nothing at '{pattern}' is in the checkpoint: it is ignored, or left out")
                    }
                    false => {
                        format!("nothing is at '{pattern}' now: a rollback only removes what appears there")
                    }
                }
            }));
        }
        warnings
    }

    fn left_out(&self) -> Vec<String> {
        match &self.contents {
            CheckpointPayload::Databases => unchecked(&self.record)
                .map(|what| format!("{what} could not be checked: it relies on functions of its application"))
                .collect(),
            CheckpointPayload::Tree(manifest) => manifest.coverage.warnings(),
            CheckpointPayload::State(state) => {
                state.left_out.iter().map(|name| format!("not in the checkpoint: {name}")).collect()
            }
        }
    }
}

/// Tables that SQLite alone cannot check.
fn unchecked(record: &CheckpointRecord) -> impl Iterator<Item = String> {
    record.databases.iter().flat_map(|database| {
        let tables: &[String] = match &database.held {
            DatabaseState::Sqlite(copy) => &copy.unchecked,
            _ => &[],
        };
        tables.iter().map(|table| format!("the table {table} of {}", database.target().name()))
    })
}

fn of_databases(record: &CheckpointRecord) -> ContentsReport {
    let (mut files, mut names) = (Vec::new(), Vec::new());
    for database in &record.databases {
        match database.target() {
            DatabaseTarget::Sqlite(path) => files.push(path),
            DatabaseTarget::Named(name) => names.push(name),
        }
    }
    let held = record.databases.len();
    let assumptions = unchecked(record).map(|what| format!("{what} is sound")).collect();
    ContentsReport {
        files,
        state_keys: names,
        hash: record.tree.clone(),
        summary: format!("{}, {}", count(held, "database"), humanize::bytes(record.bytes)),
        held,
        left_out: Vec::new(),
        assumptions,
        coverage: json!({}),
    }
}

/// A part of a scope of which the checkpoint holds nothing.
struct Bare {
    /// As it was typed, but for where it begins.
    pattern: String,
    /// Whether there is something all the same.
    is_there: bool,
}

fn bare(layout: &Layout, manifest: &Manifest, scope: &Scope) -> Vec<Bare> {
    let mut list = Vec::new();
    for pattern in scope.patterns() {
        let alone = Scope::stored(vec![pattern.clone()]);
        if !manifest.tree.iter().any(|entry| alone.covers(&entry.path())) {
            let pattern = pattern.trim_start_matches('/').to_owned();
            let is_there = layout.root().join(&pattern).symlink_metadata().is_ok();
            list.push(Bare { pattern, is_there });
        }
    }
    list
}

fn of_tree(layout: &Layout, manifest: &Manifest, scope: &Scope) -> ContentsReport {
    let within: Vec<_> = manifest
        .tree
        .iter()
        .filter(|entry| !entry.node.is_dir())
        .map(|entry| (entry.path(), entry.node.content().map_or(0, |(_, size)| size)))
        .filter(|(path, _)| scope.covers(path))
        .collect();
    let bytes: u64 = within.iter().map(|(_, size)| size).sum();
    let (hash, held) = hash_then(manifest, scope);
    let mut left_out = left_out(&manifest.coverage, scope);
    let mut assumptions = Vec::new();
    for Bare { pattern, is_there } in bare(layout, manifest, scope) {
        match is_there {
            // Already named, if it is a secret.
            true if left_out.contains(&pattern) => {}
            true => left_out.push(pattern),
            false => assumptions.push(format!("nothing is at {pattern} yet")),
        }
    }
    let ignored = path_texts(&manifest.coverage.ignored_dirs);
    if !ignored.is_empty() || manifest.coverage.ignored_files > 0 {
        let files = humanize::grouped(manifest.coverage.ignored_files);
        assumptions
            .push(format!("what is ignored is not needed back: {files} files; {}", ignored.join(", ")));
    }
    assumptions.extend(not_needed(&left_out));
    ContentsReport {
        files: within.iter().map(|(path, _)| path.to_string()).collect(),
        state_keys: Vec::new(),
        hash: hash.to_string(),
        summary: format!("{} files, {}", humanize::grouped(within.len() as u64), humanize::bytes(bytes)),
        held,
        left_out,
        assumptions,
        coverage: serde_json::to_value(&manifest.coverage).expect("a coverage is plain data"),
    }
}

/// What the scope has and the checkpoint does not.
pub(super) fn left_out(coverage: &Coverage, scope: &Scope) -> Vec<String> {
    let lists = [&coverage.sensitive, &coverage.special];
    let within = lists.into_iter().flatten().filter(|path| scope.covers(&path.0));
    within.map(|path| path.0.to_string()).collect()
}

/// How much of what was meant can be brought back, in hundredths: less than one as soon as anything cannot, or nobody looked.
pub fn confidence(held: usize, missing: usize, verified: bool) -> f64 {
    let share = match held + missing {
        0 => 1.0,
        all => held as f64 / all as f64,
    };
    let most = if missing > 0 { 0.95 } else { 1.0 };
    let most = if verified { most } else { most * 0.9 };
    (share * most * 100.0).floor() / 100.0
}

fn not_needed(left_out: &[String]) -> Vec<String> {
    left_out.iter().map(|name| format!("{name} is not needed back: it is left out")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_drops_as_soon_as_something_is_missing() {
        assert_eq!(confidence(100, 0, true), 1.0);
        assert_eq!(confidence(0, 0, true), 1.0);
        assert!(confidence(1_000_000, 1, true) < 0.96);
        assert!(confidence(10, 10, true) < 0.5);
        assert!(confidence(100, 0, false) < 1.0);
    }
}
