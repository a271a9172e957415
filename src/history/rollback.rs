//! The tree, or a part of it, put back to a checkpoint. What is there is saved first, so that this can be undone as well.
//!
//! 1. The checkpoint has to be whole and not expired.
//! 2. What differs within the scope becomes a diff; nothing else is ever touched.
//! 3. The present is saved as a checkpoint.
//! 4. The diff is taken back, all or nothing, and every path is read again.
//! 5. The scope is compared with the checkpoint once more, and has to have its hash.

use std::path::PathBuf;

use super::audit::{self, Action, Deed};
use super::lookup::Found;
use super::record::{self, About, CheckpointRecord};
use super::scope::Scope;
use crate::checkpoint::compare::{Change, Changes};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::patch::rebuild::Direction;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::progress::Progress;
use crate::checkpoint::restore::{Goal, Outcome};
use crate::checkpoint::tree::combined_hash;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::fs::atomic::AtomicFile;
use crate::project::Layout;

/// What somebody wants back.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Which part of the tree.
    pub scope: Scope,
    /// Why.
    pub reason: Option<String>,
    /// Only tell what would be done.
    pub dry_run: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct RolledBack {
    /// When the checkpoint was made, if it says so: that of a run does not.
    pub created_at: Option<String>,
    /// What differed, and does not any more.
    pub changes: Vec<Change>,
    /// New things out of scope that were moved away, and where to.
    pub set_aside: Vec<(TreePath, PathBuf)>,
    /// The checkpoint that holds what was there before; none if nothing differed, or nothing was done.
    pub saved: Option<String>,
    /// Of the scope, before.
    pub before: ContentHash,
    /// Of the scope, now.
    pub after: ContentHash,
    /// Of the scope, in the checkpoint.
    pub wanted: ContentHash,
    /// How many paths the checkpoint holds within the scope.
    pub held: usize,
}

/// Puts the tree back to what `found` holds. Who calls this holds the project's lock.
pub fn rollback(
    workspace: &Workspace,
    layout: &Layout,
    found: &Found,
    wish: &Wish,
    progress: &dyn Progress,
) -> Result<RolledBack> {
    let saved = found.saved();
    let manifest = saved.manifest()?;
    let record = match found {
        Found::Checkpoint(saved) => Some(CheckpointRecord::read(saved.dir())?),
        Found::Run(_) => None,
    };
    if let Some(record) = &record {
        record.check(&manifest)?;
        if record.is_expired() {
            let when = record.expiry.as_deref().unwrap_or_default();
            return Err(Error::project(format!("checkpoint {} has expired on {when}", record.id))
                .detail("nothing was touched")
                .hint(format!("if you want it all the same: `decree revert {}`", record.id)));
        }
    }
    // Whoever says nothing means what the checkpoint was made for.
    let own = record.as_ref().map(|record| Scope::stored(record.scope.clone()));
    let scope = &own.filter(|_| wish.scope.is_everything()).unwrap_or_else(|| wish.scope.clone());
    let mut changes = workspace.compare(&manifest, progress)?;
    let before = hash_now(&changes, &manifest, scope);
    let (wanted, held) = hash_then(&manifest, scope);
    changes.list.retain(|change| scope.covers(&change.path));
    changes.beside.retain(|path| scope.covers(path));
    if held == 0 && changes.list.is_empty() && !scope.is_everything() {
        return Err(Error::project(format!("nothing is within the scope: {}", scope.patterns().join(", ")))
            .detail(format!("neither {} nor the tree has such a path", saved.id()))
            .hint(format!("`decree checkpoint show {} --files` lists what it holds", saved.id())));
    }
    let mut done = RolledBack {
        created_at: record.map(|record| record.created_at),
        changes: changes.list.clone(),
        set_aside: Vec::new(),
        saved: None,
        before,
        after: before,
        wanted,
        held,
    };
    if wish.dry_run || changes.list.is_empty() && changes.beside.is_empty() {
        return Ok(done);
    }
    let present = save_present(workspace, layout, saved.id(), progress)?;
    done.set_aside = restore(workspace, layout, &present, saved.id(), &changes)?;
    drop(changes);
    done.after = verify(workspace, &manifest, scope, saved.id(), &present, progress)?;
    done.saved = Some(present);
    audit::record_done(
        &layout.audit(),
        Deed {
            reason: wish.reason.clone(),
            before: Some(format!("sha256:{}", done.before)),
            after: Some(format!("sha256:{}", done.after)),
            saved: done.saved.clone(),
            ..Deed::new(Action::Rollback, saved.id(), done.changes.len() as u64)
        },
    )?;
    Ok(done)
}

fn save_present(workspace: &Workspace, layout: &Layout, id: &str, progress: &dyn Progress) -> Result<String> {
    let about = About::because(format!("before the rollback to {id}"));
    Ok(record::create(workspace, &layout.checkpoints(), about, progress)?.0.id)
}

/// Takes the diff back; it is kept beside the checkpoint of the present.
fn restore(
    workspace: &Workspace,
    layout: &Layout,
    present: &str,
    id: &str,
    changes: &Changes<'_>,
) -> Result<Vec<(TreePath, PathBuf)>> {
    let dir = layout.checkpoints().join(present);
    let path = dir.join("rollback.diff");
    let mut file = AtomicFile::create(&path)?;
    workspace.write_diff(changes, &mut file)?;
    file.commit()?;
    let patch = Patch::read(&path)?;
    let outcome = workspace.restore(&Goal {
        patch: &patch,
        direction: Direction::Back,
        what: format!("rollback {id}"),
        beside: &changes.beside,
        aside_dir: dir.join("set-aside"),
    })?;
    Ok(match outcome {
        Outcome::Done(done) => done.set_aside,
        Outcome::AlreadyThere => Vec::new(),
    })
}

/// The scope has to be what the checkpoint has, and to have its hash.
fn verify(
    workspace: &Workspace,
    manifest: &Manifest,
    scope: &Scope,
    id: &str,
    present: &str,
    progress: &dyn Progress,
) -> Result<ContentHash> {
    let changes = workspace.compare(manifest, progress)?;
    let after = hash_now(&changes, manifest, scope);
    if after == hash_then(manifest, scope).0 {
        return Ok(after);
    }
    let differ = changes.list.iter().filter(|change| scope.covers(&change.path));
    Err(Error::integrity(format!("the tree is not what {id} has, after it was put back"))
        .details(differ.map(|change| change.path.to_string()).collect(), 20)
        .detail("something else may be writing here")
        .hint(format!("what was there before is in {present}: `decree rollback {present}`")))
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
