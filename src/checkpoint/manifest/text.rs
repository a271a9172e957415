//! The text of a whole manifest: one JSON object, one entry per line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use rayon::prelude::*;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::lines::decode_plain;
use super::{Manifest, VERSION};
use crate::checkpoint::entry::{AttributedNode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::ignore::{FrozenRules, IgnoreFile, RuleSource};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::tree::{Entry, Part, Tree, TreeBuilder};

/// How many entries a thread encodes at a time.
const PART: usize = 4096;
/// How many parts are in memory at a time.
const BATCH: usize = 8;
/// What every entry ends with, except for the last one of a manifest.
const SEPARATOR: &[u8] = b",\n";

/// Encodes all entries in batches, each in parallel, which bounds the memory used. Every entry ends with a comma and a newline.
pub fn encode<E>(tree: &Tree, mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    for batch in tree.parts(PART).chunks(BATCH) {
        let encoded: Vec<_> = batch.par_iter().map(entries_to_json).collect();
        for part in encoded {
            each(&part)?;
        }
    }
    Ok(())
}

/// Writes all entries, separated by commas.
pub fn write_entries(tree: &Tree, out: &mut impl Write) -> io::Result<()> {
    let mut separator: &[u8] = b"\n";
    encode(tree, |part| {
        out.write_all(separator)?;
        separator = SEPARATOR;
        out.write_all(&part[..part.len() - SEPARATOR.len()])
    })
}

/// Decodes entries that [`encode`] encoded; `None` if they are malformed.
pub fn decode(entries: &[u8]) -> Option<Tree> {
    decode_plain(entries).or_else(|| decode_json(entries))
}

/// The same, by a JSON parser.
pub fn decode_json(entries: &[u8]) -> Option<Tree> {
    let entries = entries.strip_suffix(SEPARATOR)?;
    let text = [b"{", entries, b"}"].concat();
    serde_json::from_slice::<Files>(&text).ok().map(|files| files.0)
}

/// Encodes entries, one per line.
fn entries_to_json(entries: &Part<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(PART * 160);
    let mut path = Vec::new();
    for entry in entries.iter() {
        path.clear();
        entry.write_path(&mut path);
        entry_to_json(&entry, &path, &mut out).expect("writing to memory does not fail");
    }
    out
}

fn entry_to_json(entry: &Entry<'_>, path: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &quote::in_json(path))?;
    let mut content = |start: &[u8], hash: ContentHash, size: u64| {
        out.extend_from_slice(start);
        out.extend_from_slice(&hash.hex());
        write!(out, r#"","size":{size},"mode":""#)
    };
    match entry.node {
        Node::File { hash, size, mode } => {
            content(br#":{"sha256":""#, hash, size)?;
            write!(out, r#"{mode}""#)?;
        }
        Node::Symlink { hash, size } => {
            content(br#":{"type":"symlink","sha256":""#, hash, size)?;
            out.extend_from_slice(br#"777""#);
        }
        Node::Dir { mode } => write!(out, r#":{{"type":"dir","mode":"{mode}""#)?,
    }
    if !entry.attributes.is_none() {
        write!(out, r#","attributes":"{}""#, entry.attributes)?;
    }
    out.push(b'}');
    out.extend_from_slice(SEPARATOR);
    Ok(())
}

/// Everything but the entries, as JSON.
pub struct ManifestValues {
    pub rules: String,
    pub coverage: String,
    pub git: Option<String>,
    pub nested_git: Option<String>,
    pub has_attributes: bool,
}

impl ManifestValues {
    pub fn of(manifest: &Manifest) -> ManifestValues {
        let plain = "plain data serializes";
        let nested = &manifest.nested_git;
        ManifestValues {
            rules: serde_json::to_string(&rules_to_json(&manifest.rules)).expect(plain),
            coverage: serde_json::to_string(&manifest.coverage).expect(plain),
            git: manifest.git.as_ref().map(|git| serde_json::to_string(git).expect(plain)),
            nested_git: (!nested.is_empty()).then(|| serde_json::to_string(nested).expect(plain)),
            has_attributes: manifest.has_attributes,
        }
    }

    /// The keys, in the order of the file.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let always = [("rules", &self.rules), ("coverage", &self.coverage)];
        always.into_iter().chain(self.git_named())
    }

    fn git_named(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let git = self.git.as_ref().map(|json| ("git", json));
        git.into_iter().chain(self.nested_git.as_ref().map(|json| ("nested_git", json)))
    }

    /// The hash of everything in a manifest with this tree.
    pub fn check(&self, tree: ContentHash) -> ContentHash {
        let ManifestValues { rules, coverage, .. } = self;
        let git: String = self.git_named().map(|(_, json)| format!("{json}\n")).collect();
        let attributes = if self.has_attributes { "attributes\n" } else { "" };
        let check = format!("{VERSION}\n{tree}\n{rules}\n{coverage}\n{git}{attributes}");
        ContentHash::of(check.as_bytes())
    }
}

/// The ignore files as JSON: paths and texts, quoted where necessary.
fn rules_to_json(rules: &FrozenRules) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| quote::in_json(bytes).into_owned();
    rules
        .files
        .iter()
        .map(|file| {
            let mut path = file.dir.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(file.source.file_name().as_bytes());
            (text(&path), text(&file.text))
        })
        .collect()
}

pub fn rules_from_json(raw: BTreeMap<String, String>) -> Result<FrozenRules, String> {
    let mut files = Vec::new();
    for (path, text) in raw {
        let tree_path = TreePath::from_json(&path)?;
        let source = RuleSource::ALL
            .into_iter()
            .find(|source| source.file_name().as_bytes() == tree_path.name())
            .ok_or_else(|| format!("{tree_path} is not an ignore file"))?;
        let bytes = tree_path.as_bytes();
        let dir_len = bytes.len().saturating_sub(source.file_name().len() + 1);
        let text =
            quote::from_json(&text).ok_or_else(|| format!("the text of {tree_path} has invalid quoting"))?;
        files.push(IgnoreFile { dir: bytes[..dir_len].into(), source, text: (&*text).into() });
    }
    Ok(FrozenRules::new(files))
}

/// The `files` object, decoded entry by entry into a tree: a generic JSON value would take many times the memory.
pub struct Files(pub Tree);

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FilesVisitor;
        impl<'de> Visitor<'de> for FilesVisitor {
            type Value = Files;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of paths")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Files, A::Error> {
                use serde::de::Error as _;
                let mut tree = TreeBuilder::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    let path = TreePath::from_json(&key).map_err(A::Error::custom)?;
                    let AttributedNode(node, attributes) = map.next_value()?;
                    if !tree.push(Entry::at(&path, node, &attributes)) {
                        return Err(A::Error::custom("the paths are not sorted"));
                    }
                }
                Ok(Files(tree.finish()))
            }
        }
        deserializer.deserialize_map(FilesVisitor)
    }
}
