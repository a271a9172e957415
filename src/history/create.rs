//! Making a checkpoint: first what it holds, then its record; its directory gets its name when everything in it is written.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Site;
use super::kind::state::State;
use super::kind::{Aim, state, tree};
use super::record::{CheckpointRecord, VERSION, in_text};
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::saved::Saved;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::random_hex;

/// What whoever makes a checkpoint says of it.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Why.
    pub reason: Option<String>,
    /// Of what, and how.
    pub aim: Aim,
    /// For how long.
    pub lifetime: Option<Duration>,
}

impl About {
    /// The whole tree, and why.
    pub fn because(reason: impl Into<String>) -> About {
        About { reason: Some(reason.into()), ..About::default() }
    }
}

/// A new checkpoint.
pub struct Created {
    /// What is written down of it.
    pub record: CheckpointRecord,
    /// Where it is.
    pub saved: Saved,
    /// What is in it.
    pub contents: Contents,
}

/// What a checkpoint holds.
pub enum Contents {
    /// The tree.
    Tree(Manifest),
    /// decree's own.
    State(State),
}

/// What is saved and has no name yet.
struct Unfinished<'c> {
    id: &'c str,
    dir: &'c Path,
    now: jiff::Timestamp,
}

/// Makes a checkpoint. Who calls this holds the project's lock.
pub fn create(site: Site<'_>, about: About) -> Result<Created> {
    // What takes long and fails most often comes first: nothing is left of it.
    let contents = match &about.aim {
        Aim::Tree(_) => Contents::Tree(site.workspace.capture(site.progress)?),
        Aim::State(keys) => Contents::State(State::read(site.layout, keys)?),
    };
    let now = jiff::Timestamp::now();
    let id = format!("chk_{}_{}", now.strftime("%Y%m%d_%H%M%S"), &random_hex()[..6]);
    let checkpoints = site.layout.checkpoints();
    fs::create_dir_all(&checkpoints).at("create", &checkpoints)?;
    let unfinished = checkpoints.join(format!("{TEMPORARY}{id}"));
    let dir = checkpoints.join(&id);
    let record = fill(&Unfinished { id: &id, dir: &unfinished, now }, &about, &contents).and_then(|record| {
        fs::rename(&unfinished, &dir).at("write", &dir)?;
        atomic::sync_dir(&checkpoints)?;
        Ok(record)
    });
    if record.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    Ok(Created { record: record?, saved: Saved::new(id, dir), contents })
}

/// Writes a checkpoint's files.
fn fill(new: &Unfinished<'_>, about: &About, contents: &Contents) -> Result<CheckpointRecord> {
    let expiry = about.lifetime.map(|lifetime| {
        let expiry = new.now.checked_add(lifetime);
        expiry.map_err(|error| Error::failed("that expiry is too far away").caused_by(error))
    });
    let mut record = CheckpointRecord {
        version: VERSION,
        id: new.id.to_owned(),
        kind: about.aim.kind(),
        created_at: in_text(new.now),
        reason: about.reason.clone(),
        files: 0,
        bytes: 0,
        tree: String::new(),
        scope: about.aim.words(),
        expiry: expiry.transpose()?.map(in_text),
        state: None,
        check: None,
    };
    fs::create_dir(new.dir).at("create", new.dir)?;
    match contents {
        Contents::Tree(manifest) => tree::fill(new.dir, manifest, &mut record)?,
        Contents::State(state) => state::fill(new.dir, state, &mut record)?,
    }
    record.write(new.dir)
}
