//! The tree, in decree's own store: the manifest says what is where, the store has the content.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::compare::{Change, Changes};
use crate::checkpoint::entry::{Node, describe};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::patch::rebuild::Direction;
use crate::checkpoint::quote;
use crate::checkpoint::restore::{RestoreAction, RestoreOutcome, RestoreRequest};
use crate::checkpoint::tree::combined_hash;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::atomic::AtomicFile;
use crate::git::stash::{Covers, Stash, Stashes};
use crate::history::contents_report::left_out;
use crate::history::record::CheckpointRecord;
use crate::history::rollback::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_the_same, save_present,
};
use crate::history::scope::Scope;
use crate::history::{CheckpointKind, CheckpointTarget, HistoryContext};

/// Writes the manifest of a tree whose content is in the store.
pub fn fill(dir: &Path, manifest: &Manifest, record: &mut CheckpointRecord) -> Result<()> {
    manifest.write(&CheckpointDir::new(&record.id, dir).manifest_path())?;
    let (files, bytes) = manifest.tree.count();
    (record.files, record.bytes) = (files as u64, bytes);
    record.tree = manifest.tree.hash().to_string();
    Ok(())
}

/// Reads back all content.
pub fn verify(site: HistoryContext<'_>, saved: &CheckpointDir, record: &CheckpointRecord) -> Result<usize> {
    let manifest = saved.manifest()?;
    record.check(&manifest)?;
    saved.verify(site.workspace, &manifest)
}

/// git's index, where it has to come back together with the tree.
pub struct IndexRestore<'s> {
    stashes: &'s Stashes,
    stash: &'s Stash,
    covers: &'s Covers<'s>,
    /// Where it is not what it was.
    differs: Vec<String>,
}

impl<'s> IndexRestore<'s> {
    /// What was staged, or taken out, since an entry was made.
    pub fn since(stashes: &'s Stashes, stash: &'s Stash, covers: &'s Covers<'s>) -> Result<IndexRestore<'s>> {
        let mut staged = IndexRestore { stashes, stash, covers, differs: Vec::new() };
        staged.differs = staged.find()?;
        Ok(staged)
    }

    fn find(&self) -> Result<Vec<String>> {
        let paths = self.stashes.staged_since(self.stash, self.covers)?;
        Ok(paths.iter().map(|path| quote::for_people(path).into_owned()).collect())
    }

    fn undone(&self) -> impl Iterator<Item = RolledBackPath> {
        self.differs.iter().map(|path| RolledBackPath {
            what: format!("{path} (in git's index)"),
            operation: Operation::Modify,
            summary: "staged as it was".to_owned(),
        })
    }

    /// Puts it back, and looks whether it is.
    fn put_back(&self, id: &str, present: &str) -> Result<()> {
        self.stashes.restore_index(self.stash, self.covers)?;
        match self.find()? {
            differs if differs.is_empty() => Ok(()),
            differs => Err(not_the_same(id, "git's index", differs, present)),
        }
    }
}

/// Puts back what differs, as one transaction; then git's index, if that belongs to it.
pub fn rollback(
    site: HistoryContext<'_>,
    saved: &CheckpointDir,
    record: Option<&CheckpointRecord>,
    scope: &Scope,
    wish: &RollbackOptions,
    staged: Option<&IndexRestore<'_>>,
) -> Result<RollbackReport> {
    let staged = staged.filter(|staged| !staged.differs.is_empty());
    let manifest = saved.manifest()?;
    if let Some(record) = record {
        record.check(&manifest)?;
    }
    let mut changes = site.workspace.compare(&manifest, site.progress)?;
    let before = hash_now(&changes, &manifest, scope);
    let (wanted, held) = hash_then(&manifest, scope);
    changes.list.retain(|change| scope.covers(&change.path));
    changes.out_of_scope.retain(|path| scope.covers(path));
    // Whoever says nothing now said it then; there may have been nothing yet.
    if held == 0 && changes.list.is_empty() && wish.aim.is_some() && !scope.is_everything() {
        return Err(Error::project(format!("nothing is within the scope: {}", scope.patterns().join(", ")))
            .detail(format!("neither {} nor the tree has such a path", saved.id()))
            .hint(format!("`decree checkpoint show {} --files` lists what it holds", saved.id())));
    }
    let kind = record.map_or(CheckpointKind::FileBackup, |record| record.kind);
    let mut done = RollbackReport::new(kind, before.to_string(), wanted.to_string(), held);
    let root = site.layout.root();
    let came_or_went = changes.list.iter().filter(|change| !is_only_listed(change, &manifest, root));
    done.undone = came_or_went.map(undone).collect();
    done.left_out = left_out(&manifest.coverage, scope);
    done.undone.extend(staged.into_iter().flat_map(IndexRestore::undone));
    done.evidence.push(site.layout.shown(&saved.manifest_path()));
    let same = changes.list.is_empty() && changes.out_of_scope.is_empty();
    if wish.dry_run || same && staged.is_none() {
        return Ok(done);
    }
    let present = match kind {
        // Where git can make no entry, as in the middle of a merge, the index is kept as it is.
        CheckpointKind::GitStash => {
            match save_present(site, CheckpointTarget::Stash(Scope::default()), saved.id(), wish) {
                Ok(created) => created.saved,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted { .. }) => return Err(error),
                Err(error) => {
                    let present = save_present(site, CheckpointTarget::default(), saved.id(), wish)?.saved;
                    if let Some(staged) = staged {
                        staged.stashes.save_index(&present.dir().join("index"))?;
                    }
                    done.warnings.push(format!("{} is no stash entry: {error}", present.id()));
                    present
                }
            }
        }
        _ => save_present(site, CheckpointTarget::default(), saved.id(), wish)?.saved,
    };
    if !same {
        let diff = present.dir().join("rollback.diff");
        done.set_aside = restore(site, &present, &diff, saved.id(), &changes)?;
        done.evidence.push(site.layout.shown(&diff));
    }
    drop(changes);
    if let Some(staged) = staged {
        staged.put_back(saved.id(), present.id())?;
    }
    done.after = match wish.verify {
        true => Some(check(site, &manifest, scope, saved.id(), present.id())?.to_string()),
        false => None,
    };
    done.saved = Some(present.id().to_owned());
    Ok(done)
}

/// A directory is listed only if nothing is in it. One that was emptied, or filled, is there before and after.
fn is_only_listed(change: &Change, manifest: &Manifest, root: &Path) -> bool {
    let is_dir = |node: &Option<Node>| node.as_ref().is_some_and(Node::is_dir);
    let there_now = || {
        root.join(OsStr::from_bytes(change.path.as_bytes())).symlink_metadata().is_ok_and(|it| it.is_dir())
    };
    match (&change.before, &change.after) {
        (before, after) if before == after => true,
        (None, after) => is_dir(after) && manifest.tree.has_dir(change.path.as_bytes()),
        (before, None) => is_dir(before) && there_now(),
        _ => false,
    }
}

fn undone(change: &Change) -> RolledBackPath {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    RolledBackPath {
        what: change.path.to_string(),
        operation: Operation::between(before, after),
        summary: format!("{} instead of {}", describe(before), describe(after)),
    }
}

/// Takes the diff back; it is kept beside the checkpoint of the present.
fn restore(
    site: HistoryContext<'_>,
    present: &CheckpointDir,
    diff: &Path,
    id: &str,
    changes: &Changes<'_>,
) -> Result<Vec<(String, PathBuf)>> {
    let mut file = AtomicFile::create(diff)?;
    site.workspace.write_diff(changes, &mut file)?;
    file.commit()?;
    let patch = Patch::read(diff)?;
    let outcome = site.workspace.restore(&RestoreRequest {
        patch: &patch,
        direction: Direction::Backward,
        action: RestoreAction::Rollback,
        subject: id,
        beside: &changes.out_of_scope,
        quarantine_dir: present.quarantine_dir(),
        // The audit entry of a rollback also says what was saved and why, and is written when all of it is verified.
        log: None,
    })?;
    Ok(match outcome {
        RestoreOutcome::Done(done) => {
            done.set_aside.into_iter().map(|(path, to)| (path.to_string(), to)).collect()
        }
        RestoreOutcome::AlreadyThere => Vec::new(),
    })
}

/// The scope has to be what the checkpoint has, and to have its hash.
fn check(
    site: HistoryContext<'_>,
    manifest: &Manifest,
    scope: &Scope,
    id: &str,
    present: &str,
) -> Result<ContentHash> {
    let changes = site.workspace.compare(manifest, site.progress)?;
    let after = hash_now(&changes, manifest, scope);
    if after == hash_then(manifest, scope).0 {
        return Ok(after);
    }
    let differ = changes.list.iter().filter(|change| scope.covers(&change.path));
    Err(not_the_same(id, "the tree", differ.map(|change| change.path.to_string()).collect(), present))
}

fn hash_now(changes: &Changes<'_>, manifest: &Manifest, scope: &Scope) -> ContentHash {
    match scope.is_everything() {
        true => changes.hash_now(&manifest.tree),
        false => {
            combined_hash(changes.entries_now(&manifest.tree).filter(|entry| scope.covers(&entry.path())))
        }
    }
}

/// The hash of what a checkpoint holds within a scope, and how many paths those are.
pub fn hash_then(manifest: &Manifest, scope: &Scope) -> (ContentHash, usize) {
    if scope.is_everything() {
        return (manifest.tree.hash(), manifest.tree.len());
    }
    let mut held = 0;
    let within = manifest.tree.iter().filter(|entry| scope.covers(&entry.path())).inspect(|_| held += 1);
    (combined_hash(within), held)
}
