//! A manifest in the store: its entries in parts that other manifests share, and its values.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::memo::{Found, ManifestMemo, StoredEntries};
use super::parts::{PartRef, PartWriter, SharedBytes, expand, read_each, read_part};
use super::text::{self, ManifestValues, rules_from_json};
use super::{Manifest, VERSION_STORED};
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::store::Store;
use crate::checkpoint::tree::{Tree, TreeBuilder};
use crate::error::{Error, Result};

/// How often the list of parts may be listed: more than enough for any number of files.
const MAX_DEPTH: u32 = 8;

/// Where a manifest is in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredManifest {
    /// The number of entries.
    entries: usize,
    /// How often the list of the parts was itself stored in parts.
    depth: u32,
    parts: Vec<PartRef>,
    rules: PartRef,
    coverage: PartRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    git: Option<PartRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nested_git: Option<PartRef>,
    attributes: bool,
    /// The hash of all fields above, of the tree's hash and of the manifest's.
    check: Option<ContentHash>,
    /// In memory only.
    #[serde(skip)]
    hashes: Option<ManifestHashes>,
    #[serde(skip)]
    bytes: SharedBytes,
}

/// The hash of a manifest's tree, and of all of it.
#[derive(Clone, Debug)]
struct ManifestHashes {
    tree: String,
    check: String,
}

/// A content in the store that a manifest needs.
#[derive(Clone, Copy, Debug)]
pub struct NeededContent {
    pub hash: ContentHash,
    /// `None` if the manifest does not have it.
    pub size: Option<u64>,
    /// Whether it is the content of a file or a link, the first time that a manifest names it.
    pub is_entry: bool,
}

impl NeededContent {
    pub(super) fn of_entry(hash: ContentHash, size: u64) -> Self {
        NeededContent { hash, size: Some(size), is_entry: true }
    }

    pub(super) fn of_git(hash: ContentHash) -> Self {
        NeededContent { hash, size: None, is_entry: false }
    }

    fn of_part(part: PartRef) -> Self {
        NeededContent { hash: part.hash, size: Some(part.size), is_entry: false }
    }
}

/// The parts that were read already.
#[derive(Debug, Default)]
pub struct PartsRead(HashSet<ContentHash>);

impl StoredManifest {
    /// Stores what the store lacks of a manifest. When this returns, it is durable.
    pub fn store(manifest: &Manifest, store: &Store, memo: &ManifestMemo) -> Result<StoredManifest> {
        let known = memo.find(&manifest.tree, store)?;
        let writer = store.pack_writer();
        let mut parts = PartWriter::new(&writer)?;
        let values = ManifestValues::of(manifest);
        let entries = match &known {
            Found::Same(entries) => {
                manifest.tree.set_known_hash(entries.tree);
                parts.bytes.all += entries.parts.iter().map(|part| part.size).sum::<u64>();
                entries.clone()
            }
            Found::Other(_) | Found::TooSmall => store_entries(&manifest.tree, &mut parts)?,
        };
        let StoredEntries { tree, list, depth, .. } = entries.clone();
        let mut add = |text: &String| parts.add_text(text);
        let mut stored = StoredManifest {
            entries: manifest.tree.len(),
            depth,
            parts: list,
            rules: add(&values.rules)?,
            coverage: add(&values.coverage)?,
            git: values.git.as_ref().map(&mut add).transpose()?,
            nested_git: values.nested_git.as_ref().map(&mut add).transpose()?,
            attributes: manifest.has_attributes,
            check: None,
            hashes: None,
            bytes: SharedBytes::default(),
        };
        parts.flush()?;
        stored.bytes = parts.bytes;
        drop(parts);
        writer.finish()?;
        if let Found::Other(fingerprint) = known {
            memo.remember(fingerprint, entries);
        }
        let hashes = ManifestHashes { tree: tree.to_string(), check: values.check(tree).to_string() };
        stored.check = Some(stored.compute_check(&hashes.tree, &hashes.check));
        stored.hashes = Some(hashes);
        Ok(stored)
    }

    /// Whether the store had less than half of it before.
    pub fn is_mostly_new(&self) -> bool {
        self.bytes.new * 2 > self.bytes.all
    }

    /// Writes a manifest that names the parts and not the entries.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Written<'w> {
            version: u32,
            stored: &'w StoredManifest,
            tree: &'w str,
            check: &'w str,
        }
        let hashes = self.hashes.as_ref().expect("they are known since it was stored");
        let written =
            Written { version: VERSION_STORED, stored: self, tree: &hashes.tree, check: &hashes.check };
        serde_json::to_writer_pretty(&mut *out, &written)?;
        writeln!(out)
    }

    /// Whether it belongs to the manifest with these hashes, and was not edited.
    pub fn is_of(&self, tree: &str, check: &str) -> bool {
        self.check == Some(self.compute_check(tree, check)) && self.depth <= MAX_DEPTH
    }

    fn compute_check(&self, tree: &str, check: &str) -> ContentHash {
        let unchecked = StoredManifest { check: None, ..self.clone() };
        let text = serde_json::to_string(&(unchecked, tree, check)).expect("plain data serializes");
        ContentHash::of(text.as_bytes())
    }

    /// Reads the manifest. The caller compares its hashes.
    pub fn read(&self, store: &Store) -> Result<Manifest> {
        let mut tree = TreeBuilder::default();
        read_each(&self.leaves(store)?, store, text::decode, |part| {
            let is_sorted = part.iter().all(|entry| tree.push(entry));
            if is_sorted { Ok(()) } else { Err(Error::integrity("the paths of a manifest are not sorted")) }
        })?;
        let rules: BTreeMap<String, String> = parse(self.rules, store)?;
        Ok(Manifest {
            tree: tree.finish(),
            rules: rules_from_json(rules).map_err(Error::integrity)?,
            coverage: parse(self.coverage, store)?,
            git: self.git.map(|part| parse(part, store)).transpose()?,
            nested_git: self.nested_git.map_or(Ok(Vec::new()), |part| parse(part, store))?,
            has_attributes: self.attributes,
        })
    }

    /// Tries to read every part, so that the store knows all that are damaged: reading the manifest ends with the first of them.
    pub fn probe(&self, store: &Store) {
        let mut parts = self.parts.clone();
        for depth in 0..=self.depth {
            for part in &parts {
                let _ = read_part(*part, store);
            }
            if depth < self.depth {
                let Ok(listed) = expand(&parts, store, self.entries) else { return };
                parts = listed;
            }
        }
    }

    /// The parts that have the entries.
    fn leaves(&self, store: &Store) -> Result<Vec<PartRef>> {
        let mut parts = self.parts.clone();
        for _ in 0..self.depth {
            parts = expand(&parts, store, self.entries)?;
        }
        Ok(parts)
    }

    /// Calls `each` for every content that it needs, its own parts included. Nothing is read of the parts in `seen`.
    pub fn visit(
        &self,
        store: &Store,
        seen: &mut PartsRead,
        each: &mut dyn FnMut(NeededContent),
    ) -> Result<()> {
        // They count as read when all that they name was: what an unread part names would be taken for content that nothing needs.
        let mut read = Vec::new();
        let mut parts = seen.unread(&self.parts);
        for _ in 0..self.depth {
            let listed = expand(&parts, store, self.entries)?;
            read.append(&mut parts);
            parts = seen.unread(&listed);
        }
        let contents = |text: &[u8]| text::decode(text).map(|tree| contents_of(&tree));
        read_each(&parts, store, contents, |contents| {
            contents.into_iter().for_each(|(hash, size)| each(NeededContent::of_entry(hash, size)));
            Ok(())
        })?;
        read.append(&mut parts);
        read.iter().for_each(|part| each(NeededContent::of_part(*part)));
        seen.0.extend(read.iter().map(|part| part.hash));
        let git: Vec<PartRef> = self.git.into_iter().chain(self.nested_git).collect();
        for part in [&[self.rules, self.coverage], &git[..]].concat() {
            each(NeededContent::of_part(part));
        }
        let own = self.git.map(|part| parse::<GitRecord>(part, store)).transpose()?;
        let nested = self.nested_git.map(|part| parse::<Vec<GitRecord>>(part, store)).transpose()?;
        let records = own.into_iter().chain(nested.into_iter().flatten());
        records.for_each(|git| git.contents().for_each(|hash| each(NeededContent::of_git(hash))));
        Ok(())
    }
}

/// Stores what the store lacks of a tree's entries.
fn store_entries(tree: &Tree, parts: &mut PartWriter<'_, '_>) -> Result<StoredEntries> {
    let (hash, encoded) = rayon::join(|| tree.hash(), || text::encode(tree, |lines| parts.add(lines)));
    encoded?;
    let (list, depth) = parts.finish_list()?;
    Ok(StoredEntries { tree: hash, list, depth, parts: parts.all.clone() })
}

impl PartsRead {
    /// The parts that were not read yet.
    fn unread(&self, parts: &[PartRef]) -> Vec<PartRef> {
        parts.iter().filter(|part| !self.0.contains(&part.hash)).copied().collect()
    }
}

fn contents_of(tree: &Tree) -> Vec<(ContentHash, u64)> {
    tree.iter().filter_map(|entry| entry.node.content()).collect()
}

fn parse<T: DeserializeOwned>(part: PartRef, store: &Store) -> Result<T> {
    let text = read_part(part, store)?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::integrity(format!("part {} is malformed", part.hash)).caused_by(error))
}
