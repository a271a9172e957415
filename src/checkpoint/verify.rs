//! Whether the store has what a checkpoint names.
//!
//! A checkpoint is verified as a whole on request: every content is read, decompressed and hashed. A new one is verified by the packs
//! that have its content: those that were written for it are read back, and the others were read back earlier and are what they were.
//! That takes a fraction of the time, and hardly grows with the store.

use std::io;

use rayon::prelude::*;

use super::checkpoint_dir::CheckpointDir;
use super::hash::ContentHash;
use super::manifest::Manifest;
use super::store::{PackVerification, Store};
use super::tree::Part;
use crate::error::{Error, IoContext, Result};
use crate::humanize::count;

/// How many entries a thread verifies at a time.
const AT_ONCE: usize = 64;
/// A new checkpoint of at most so many bytes and entries is always verified as a whole, as that takes some milliseconds.
const MAX_SMALL: (u64, usize) = (4 << 20, 4096);

/// How it is known that everything that a checkpoint holds can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// It was read back just now.
    ReadBack,
    /// What was stored for it was read back just now; the rest was read back earlier, and its files have not changed since.
    Recorded,
    /// It is not known.
    Unverified,
}

impl Verification {
    /// The word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Verification::ReadBack => "read_back",
            Verification::Recorded => "recorded",
            Verification::Unverified => "none",
        }
    }
}

impl CheckpointDir {
    /// Reads every content that the checkpoint names out of the store, and returns the number of entries.
    pub fn verify(&self, store: &Store, manifest: &Manifest) -> Result<usize> {
        let read = |hash: &ContentHash| {
            let mut reader = store.reader(hash)?;
            io::copy(&mut reader, &mut io::sink()).at("read", store.dir()).map(drop)
        };
        self.check_contents(manifest, read)
    }

    /// Verifies a checkpoint that was just made: what was stored for it is read back.
    pub fn verify_new(&self, store: &Store, manifest: &Manifest) -> Result<Verification> {
        let is_small = manifest.tree.count().1 <= MAX_SMALL.0 && manifest.tree.len() <= MAX_SMALL.1;
        let packs = if is_small { PackVerification::ReadBack } else { store.verify_packs()? };
        if is_small || store.has_damaged_contents() {
            let written = self.manifest(store);
            if written.is_err() {
                Manifest::probe(&self.manifest_path(), store);
            }
            self.verify(store, manifest).and(written)?;
            return Ok(Verification::ReadBack);
        }
        let stored = store.snapshot()?;
        let find = |hash: &ContentHash| {
            if stored.contains(hash) { Ok(()) } else { Err(store.missing_content_error(hash)) }
        };
        self.check_contents(manifest, find)?;
        Ok(match packs {
            PackVerification::ReadBack => Verification::ReadBack,
            PackVerification::Recorded => Verification::Recorded,
        })
    }

    /// Calls `check` for every content that the manifest names. Returns the number of entries, or an error that names those that failed.
    fn check_contents(
        &self,
        manifest: &Manifest,
        check: impl Fn(&ContentHash) -> Result<()> + Sync,
    ) -> Result<usize> {
        let mut failed: Vec<(String, Option<String>)> = manifest
            .tree
            .parts(AT_ONCE)
            .into_par_iter()
            .flat_map_iter(Part::iter)
            .filter_map(|entry| {
                let (hash, _) = entry.node.content()?;
                let error = check(&hash).err()?;
                Some((format!("{}: {error}", entry.path()), error.hint_text().map(str::to_owned)))
            })
            .collect();
        let of_tree = failed.len();
        failed.extend(manifest.git_contents().filter_map(|hash| {
            let error = check(&hash).err()?;
            Some((format!("git's own state: {error}"), error.hint_text().map(str::to_owned)))
        }));
        let entries = manifest.tree.len();
        if failed.is_empty() {
            return Ok(entries);
        }
        let all = count(entries, "entry");
        let and_git = if failed.len() > of_tree { ", and git's own state" } else { "" };
        let (lines, hints): (Vec<String>, Vec<Option<String>>) = failed.into_iter().unzip();
        let what = format!("checkpoint {} does not verify: {of_tree} of {all}{and_git}", self.id());
        let error = Error::integrity(what).details(lines, 20);
        // Most failures, if not all, come from one damaged pack: its hint is enough.
        Err(match hints.into_iter().flatten().next() {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }
}
