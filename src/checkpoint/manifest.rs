//! `manifest.json`: the tree at a point in time, the ignore rules in force, and what was left out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rayon::prelude::*;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::coverage::Coverage;
use super::entry::{AttributedNode, Node};
use super::git_record::GitRecord;
use super::hash::ContentHash;
use super::ignore::{FrozenRules, IgnoreFile, RuleSource};
use super::path::{RepositoryPath, TreePath};
use super::quote;
use super::tree::{Entry, Part, Tree, TreeBuilder};
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::fs::json;
use crate::git::state::GitDirs;

pub const VERSION: u32 = 1;
/// How many entries a thread encodes at a time.
const PART: usize = 4096;
/// How many parts are in memory at a time.
const BATCH: usize = 8;

/// A checkpoint without the content of its files, which is in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub tree: Tree,
    pub rules: FrozenRules,
    pub coverage: Coverage,
    /// git's own state; `None` if the project is in no repository.
    pub git: Option<GitRecord>,
    /// The same for the repositories in the tree: nested ones, submodules, linked work trees.
    pub nested_git: Vec<GitRecord>,
    /// Whether the owners and attributes of all entries are recorded. Older versions did not: then nothing is known of them.
    pub has_attributes: bool,
}

impl Manifest {
    /// Writes the file, one entry per line.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut file = AtomicFile::create(path)?;
        self.write_json(&mut file).at("write", path)?;
        file.commit()
    }

    fn write_json(&self, out: &mut (impl Write + Send)) -> io::Result<()> {
        write!(out, "{{\"version\":{VERSION},\"files\":{{")?;
        let (hash, written) = rayon::join(|| self.tree.hash(), || self.write_entries(out));
        written?;
        let (rules, coverage, check) = self.rules_coverage_check(hash);
        write!(out, "}},\n\"tree\":\"{hash}\",\n\"rules\":{rules},\n\"coverage\":{coverage},\n")?;
        for (key, json) in self.git_json() {
            writeln!(out, "\"{key}\":{json},")?;
        }
        if self.has_attributes {
            writeln!(out, "\"attributes\":true,")?;
        }
        writeln!(out, "\"check\":\"{check}\"}}")
    }

    /// The JSON of the rules and of the coverage, and the hash of everything in a manifest with this tree.
    fn rules_coverage_check(&self, tree: ContentHash) -> (String, String, ContentHash) {
        let rules = serde_json::to_string(&rules_to_json(&self.rules)).expect("plain data serializes");
        let coverage = serde_json::to_string(&self.coverage).expect("plain data serializes");
        let git: String = self.git_json().map(|(_, json)| json + "\n").collect();
        let attributes = if self.has_attributes { "attributes\n" } else { "" };
        let check = format!("{VERSION}\n{tree}\n{rules}\n{coverage}\n{git}{attributes}");
        let check = ContentHash::of(check.as_bytes());
        (rules, coverage, check)
    }

    /// The keys for git's own state, with their JSON.
    fn git_json(&self) -> impl Iterator<Item = (&'static str, String)> {
        let own = self.git.as_ref().map(serde_json::to_string);
        let nested = (!self.nested_git.is_empty()).then(|| serde_json::to_string(&self.nested_git));
        let keys = own.map(|json| ("git", json)).into_iter().chain(nested.map(|json| ("nested_git", json)));
        keys.map(|(key, json)| (key, json.expect("plain data serializes")))
    }

    /// git's own state in the project's repository and in those in the tree.
    pub fn git_records(&self) -> impl Iterator<Item = &GitRecord> {
        self.git.iter().chain(&self.nested_git)
    }

    /// The repositories in the tree at `root` whose state could not be read.
    pub fn unread_repositories(&self, root: &Path) -> Vec<String> {
        let is_recorded =
            |place: &TreePath| self.nested_git.iter().any(|git| git.work_tree.as_ref() == Some(place));
        let nested = self.coverage.repositories.iter().filter_map(RepositoryPath::work_tree);
        let unread = nested.filter(|place| !is_recorded(place));
        unread.filter(|place| GitDirs::is_top(&place.below(root))).map(|place| place.to_string()).collect()
    }

    /// The content in the store that git's own state needs.
    pub fn git_contents(&self) -> impl Iterator<Item = ContentHash> {
        self.git_records().flat_map(GitRecord::contents)
    }

    /// Encodes the entries in batches, each in parallel, which bounds the memory used.
    fn write_entries(&self, out: &mut (impl Write + Send)) -> io::Result<()> {
        let mut separator: &[u8] = b"\n";
        for batch in self.tree.parts(PART).chunks(BATCH) {
            let encoded: Vec<_> = batch.par_iter().map(entries_to_json).collect::<io::Result<_>>()?;
            for part in encoded {
                out.write_all(separator)?;
                out.write_all(&part)?;
                separator = b",\n";
            }
        }
        Ok(())
    }

    /// Reads the file. A manifest whose hashes do not match is damaged.
    pub fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).if_exists().at("read", path)?.ok_or_else(|| {
            Error::integrity(format!("{} is missing", path.display()))
                .detail("without it nothing can be verified, so nothing was touched")
        })?;
        let raw: ManifestJson = json::parse(file, path, |error| Error::damaged(path, error))?;
        if raw.version != VERSION {
            return Err(Error::damaged(path, format!("its version is {}, not {VERSION}", raw.version))
                .hint("it was written by another version of decree; use that one"));
        }
        let manifest = Manifest {
            tree: raw.files.0,
            rules: rules_from_json(raw.rules).map_err(|why| Error::damaged(path, why))?,
            coverage: raw.coverage,
            git: raw.git,
            nested_git: raw.nested_git,
            has_attributes: raw.attributes,
        };
        let tree = manifest.tree.hash();
        let (_, _, check) = manifest.rules_coverage_check(tree);
        if raw.tree != tree.to_string() || raw.check != check.to_string() {
            return Err(Error::damaged(path, "its hashes do not match"));
        }
        Ok(manifest)
    }
}

/// Encodes entries, one per line, separated by commas.
fn entries_to_json(entries: &Part<'_>) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(PART * 160);
    let mut path = Vec::new();
    for entry in entries.iter() {
        if !out.is_empty() {
            out.extend_from_slice(b",\n");
        }
        path.clear();
        entry.write_path(&mut path);
        serde_json::to_writer(&mut out, &quote::in_json(&path))?;
        match entry.node {
            Node::File { hash, size, mode } => {
                write!(out, r#":{{"sha256":"{hash}","size":{size},"mode":"{mode}""#)?;
            }
            Node::Symlink { hash, size } => {
                write!(out, r#":{{"type":"symlink","sha256":"{hash}","size":{size},"mode":"777""#)?;
            }
            Node::Dir { mode } => write!(out, r#":{{"type":"dir","mode":"{mode}""#)?,
        }
        if !entry.attributes.is_none() {
            write!(out, r#","attributes":"{}""#, entry.attributes)?;
        }
        out.push(b'}');
    }
    Ok(out)
}

#[derive(Deserialize)]
struct ManifestJson {
    version: u32,
    files: Files,
    tree: String,
    rules: BTreeMap<String, String>,
    coverage: Coverage,
    #[serde(default)]
    git: Option<GitRecord>,
    #[serde(default)]
    nested_git: Vec<GitRecord>,
    #[serde(default)]
    attributes: bool,
    check: String,
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

fn rules_from_json(raw: BTreeMap<String, String>) -> Result<FrozenRules, String> {
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
struct Files(Tree);

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
