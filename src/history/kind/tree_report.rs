//! What answers say of a checkpoint of the tree: what it holds and does not hold, and which paths a rollback to it touches.

use std::collections::BTreeMap;
use std::path::Path;

use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::compare::Change;
use crate::checkpoint::coverage::{Coverage, WayBack};
use crate::checkpoint::entry::Node;
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::patch::write::ChangeCount;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::root::{PathKind, Root};
use crate::checkpoint::tree::{Entry, combined_hash};
use crate::history::HistoryContext;
use crate::history::change_summary;
use crate::history::contents_report::{ContentsReport, FileList, not_needed};
use crate::history::git_change::shown_commit;
use crate::history::rollback_report::{Operation, RollbackReport, RolledBackPath};
use crate::history::scope::Scope;
use crate::history::set_aside::set_aside_files;
use crate::history::unmatched::{self, UnmatchedWord};
use crate::humanize;

/// The sentence about a HEAD that is not where it was at the checkpoint. A rollback does not move it, because those commits may be a
/// person's, unless it `is_restored` after a guarded command that was cut off.
pub(super) fn moved_head(root: &Path, before: &GitRecord, is_restored: bool) -> Option<String> {
    let (now, _) = GitRecord::read(root, before.work_tree.as_ref()).ok()??;
    if now.commit == before.commit {
        return None;
    }
    let (then, now) = (shown_commit(before.commit.as_deref()), shown_commit(now.commit.as_deref()));
    let place = before.work_tree.as_ref().map_or_else(String::new, |place| format!(" in {place}"));
    let what = if is_restored { "the rollback takes it back, too" } else { "a rollback moves no branch" };
    Some(format!("git's HEAD{place} was at {then} at the checkpoint and is at {now}; {what}"))
}

/// The warning about what an earlier restore set aside: no checkpoint holds it, so no rollback brings it back.
pub(super) fn still_set_aside(context: HistoryContext<'_>, dir: &CheckpointDir) -> Option<String> {
    const MAX_NAMED: usize = 10;
    let files = set_aside_files(dir);
    let shown = files.iter().take(MAX_NAMED).map(|file| context.layout.shown(&dir.dir().join(file)));
    let mut shown: Vec<String> = shown.collect();
    let more = files.len().saturating_sub(MAX_NAMED);
    shown.extend((more > 0).then(|| format!("{more} more")));
    (!files.is_empty())
        .then(|| format!("what was set aside after this checkpoint stays where it is: {}", shown.join(", ")))
}

/// Whether a directory is in the list of changes, but neither came nor went. Only empty directories are listed, so one that was filled
/// or emptied looks like a change.
pub(super) fn is_only_listed(change: &Change, manifest: &Manifest, root: &Root) -> bool {
    change.attributes.is_none() && is_on_both_sides(change, manifest, root)
}

/// Whether the nodes of a change are the same, or a directory that has an entry on one side alone.
fn is_on_both_sides(change: &Change, manifest: &Manifest, root: &Root) -> bool {
    let is_dir = |node: &Option<Node>| node.as_ref().is_some_and(Node::is_dir);
    let there_now =
        || root.find(&change.path).is_ok_and(|found| found.is_some_and(|it| it.kind == PathKind::Dir));
    match (&change.before, &change.after) {
        (before, after) if before == after => true,
        (None, after) => is_dir(after) && manifest.tree.has_dir(change.path.as_bytes()),
        (before, None) => is_dir(before) && there_now(),
        _ => false,
    }
}

/// A path as answers to programs spell it.
pub(super) fn in_manifest(path: &TreePath) -> String {
    quote::in_json(path.as_bytes()).into_owned()
}

pub(super) fn rolled_back_path(
    change: &Change,
    count: Option<&ChangeCount>,
    manifest: &Manifest,
    root: &Root,
) -> RolledBackPath {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let name = in_manifest(&change.path);
    match &change.attributes {
        Some(attributes) if is_on_both_sides(change, manifest, root) => {
            let names = |attributes: &Attributes| match &attributes.names()[..] {
                [] => "no attributes".to_owned(),
                names => names.join(", "),
            };
            let summary = format!("{} instead of {}", names(&attributes.before), names(&attributes.after));
            RolledBackPath { name, operation: Operation::Modify, summary }
        }
        _ => RolledBackPath {
            name,
            operation: Operation::between(before, after),
            summary: change_summary::summary(before, after, count),
        },
    }
}

/// Adds to the summaries how many lines differ, which only a diff knows.
pub(super) fn add_line_counts<'c>(
    report: &mut RollbackReport,
    counts: impl IntoIterator<Item = (&'c Change, &'c ChangeCount)>,
    manifest: &Manifest,
    root: &Root,
) {
    let known: BTreeMap<String, (&Change, &ChangeCount)> =
        counts.into_iter().map(|(change, count)| (in_manifest(&change.path), (change, count))).collect();
    for rolled_back in &mut report.changes {
        if let Some((change, count)) = known.get(&rolled_back.name) {
            *rolled_back = rolled_back_path(change, Some(count), manifest, root);
        }
    }
}

/// What the checkpoint holds within the scope.
pub fn describe(root: &Root, manifest: &Manifest, scope: &Scope) -> ContentsReport {
    let add = |(files, bytes), size| (files + 1, bytes + size);
    let sizes = files_within(manifest, scope).filter_map(|entry| Some(entry.node.content()?.1));
    let (files, bytes): (usize, u64) = sizes.fold((0, 0), add);
    let (hash, held) = hash_then(manifest, scope);
    let mut left_out = left_out(&manifest.coverage, scope);
    let mut assumptions = Vec::new();
    for UnmatchedWord { word, is_there } in unmatched::unmatched(root, manifest, scope) {
        if !is_there {
            assumptions.push(format!("nothing is at {word} yet"));
        } else if !left_out.contains(&word) {
            left_out.push(word);
        }
    }
    let mut ignored: Vec<String> = manifest.coverage.ignored_dirs.iter().map(TreePath::to_string).collect();
    let single = manifest.coverage.ignored_files as usize;
    ignored.extend((single > 0).then(|| humanize::count(single, "single file")));
    if !ignored.is_empty() {
        assumptions.push(format!("ignored files do not have to be restored: {}", ignored.join(", ")));
    }
    assumptions.extend(not_needed(&left_out));
    let links = manifest.coverage.hard_links.iter().filter(|path| scope.covers(path)).count();
    if links > 0 {
        let files = humanize::count(links, "file");
        assumptions
            .push(format!("{files} with other names can become separate files: hard links are not held"));
    }
    let live = manifest.coverage.live_databases.iter().filter(|database| scope.covers(&database.path));
    let uncertain: Vec<String> = live
        .map(|database| {
            format!("{} can be restored from its files, although {}", database.path, database.why())
        })
        .collect();
    assumptions.extend(uncertain.iter().cloned());
    ContentsReport {
        files: FileList::InManifest(files),
        state_keys: Vec::new(),
        hash: hash.to_string(),
        summary: format!("{}, {}", humanize::count(files, "file"), humanize::bytes(bytes)),
        held: held.saturating_sub(uncertain.len()),
        uncertain: uncertain.len(),
        left_out,
        assumptions,
        coverage: serde_json::to_value(&manifest.coverage).expect("a coverage is plain data"),
        warnings: warnings(root, manifest, scope, WayBack::OnRequest),
    }
}

/// The names of the files that the checkpoint holds within the scope.
pub fn file_names(manifest: &Manifest, scope: &Scope) -> Vec<String> {
    files_within(manifest, scope).map(|entry| in_manifest(&entry.path())).collect()
}

fn files_within<'m>(manifest: &'m Manifest, scope: &'m Scope) -> impl Iterator<Item = Entry<'m>> {
    let is_within = |entry: &Entry<'_>| scope.is_everything() || scope.covers(&entry.path());
    manifest.tree.iter().filter(|entry| !entry.node.is_dir()).filter(is_within)
}

/// Secrets and special files within the scope: the checkpoint does not hold them.
pub(super) fn left_out(coverage: &Coverage, scope: &Scope) -> Vec<String> {
    let lists = [&coverage.sensitive, &coverage.special];
    let within = lists.into_iter().flatten().filter(|path| scope.covers(path));
    within.map(|path| path.to_string()).collect()
}

/// What the user has to know before anything happens to the tree.
pub fn warnings(root: &Root, manifest: &Manifest, scope: &Scope, way_back: WayBack) -> Vec<String> {
    let mut warnings = manifest.coverage.warnings(way_back);
    let words = unmatched::unmatched(root, manifest, scope).into_iter();
    warnings.extend(words.map(|UnmatchedWord { word, is_there }| {
        if is_there {
            format!("'{word}' is not in the checkpoint: it is ignored or left out")
        } else {
            format!("'{word}' matches nothing now: a rollback only removes what is created there")
        }
    }));
    warnings
}

/// The hash of what a checkpoint holds within a scope, and how many paths those are.
pub(super) fn hash_then(manifest: &Manifest, scope: &Scope) -> (ContentHash, usize) {
    if scope.is_everything() {
        return (manifest.tree.hash(), manifest.tree.len());
    }
    let mut held = 0;
    let within = manifest.tree.iter().filter(|entry| scope.covers(&entry.path())).inspect(|_| held += 1);
    (combined_hash(within), held)
}
