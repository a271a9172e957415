//! `result.json`: what changed since a checkpoint, in numbers and hashes, and what the owner of the directory adds to it.
//!
//! [`ResultFile`] is the only reader and writer of that file. It checks every hash in it, and it returns `None` for a file that
//! does not exist and for nothing else: a damaged file is an error.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attributes::AttributeChange;
use super::compare::{Change, Changes};
use super::coverage::Coverage;
use super::entry::Node;
use super::hash::Hasher;
use super::manifest::Manifest;
use super::patch::write::ChangeCount;
use super::path::TreePath;
use super::quote;
use super::secret_stamp::{SecretFiles, SecretStamp};
use crate::error::{Error, IoContext, Result};
use crate::fs::{json, untrusted};

/// The version of `result.json`.
const VERSION: u32 = 1;

/// What changed since a checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeRecord {
    version: u32,
    /// The checkpoint or run that it belongs to.
    pub id: String,
    /// The combined hash of the tree, before and after.
    pub tree: BeforeAfter,
    /// Lines added in all text files.
    pub added: u64,
    /// Lines removed in all text files.
    pub removed: u64,
    /// Every path in the diff.
    pub changes: BTreeMap<String, PathChange>,
    /// New files and directories that are not in the diff; a revert moves them into `set-aside/`.
    #[serde(rename = "beside")]
    pub out_of_scope: Vec<String>,
    /// What the checkpoint does not hold.
    pub coverage: Coverage,
    /// Databases that changed and are not in the diff, because other programs had them open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub live_databases: Vec<TreePath>,
    /// Paths that became likely secrets: the diff has what they were, and not what they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
    /// Which files the likely secrets of `out_of_scope` were: a revert moves these, and no other.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    secret_files: BTreeMap<String, SecretStamp>,
    /// The hash of all fields above.
    check: Option<String>,
    /// Every likely secret that was in the tree when this was recorded. In memory only.
    #[serde(skip)]
    pub secrets: Vec<TreePath>,
}

/// The combined hash of a tree at two moments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeforeAfter {
    pub before: String,
    pub after: String,
}

/// One path in the diff.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathChange {
    pub before: Option<Node>,
    pub after: Option<Node>,
    pub added: u64,
    pub removed: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// Absent if they are the same on both sides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Box<AttributeChange>>,
}

impl ChangeRecord {
    pub(super) fn new(
        id: &str,
        manifest: &Manifest,
        changes: &Changes<'_>,
        counts: &[ChangeCount],
        secret_files: BTreeMap<String, SecretStamp>,
    ) -> Self {
        let lines = |pick: fn(&ChangeCount) -> u64| counts.iter().map(pick).sum();
        let mut record = ChangeRecord {
            version: VERSION,
            id: id.to_owned(),
            tree: BeforeAfter {
                before: manifest.tree.hash().to_string(),
                after: changes.hash_now(&manifest.tree).to_string(),
            },
            added: lines(|count| count.lines.added),
            removed: lines(|count| count.lines.removed),
            changes: changes
                .list
                .iter()
                .zip(counts)
                .map(|(change, count)| path_change(change, count))
                .collect(),
            out_of_scope: changes
                .out_of_scope
                .iter()
                .map(|path| quote::in_json(path.as_bytes()).into_owned())
                .collect(),
            coverage: manifest.coverage.clone(),
            live_databases: changes.live_databases.iter().map(|database| database.path.clone()).collect(),
            withheld: changes.withheld().map(|path| quote::in_json(path.as_bytes()).into_owned()).collect(),
            secret_files,
            check: None,
            secrets: changes.secrets.clone(),
        };
        record.check = Some(record.compute_check());
        record
    }

    /// Whether the tree is unchanged, including what is out of scope.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.out_of_scope.is_empty()
    }

    /// The hash of everything but the hash itself. The text is streamed: a large change would take much memory.
    fn compute_check(&mut self) -> String {
        let check = self.check.take();
        let hash = hash_of(self);
        self.check = check;
        hash
    }

    /// The new paths that are not in the diff.
    pub(super) fn out_of_scope_paths(&self) -> Vec<TreePath> {
        self.out_of_scope.iter().filter_map(|text| tree_path(text)).collect()
    }

    /// Which files the likely secrets were that are not in the diff. An earlier decree did not record that: of those paths, the ones
    /// that became likely secrets are known.
    pub fn secret_files(&self) -> SecretFiles {
        let withheld = self.withheld_paths().map(|path| (path, None));
        let recorded = self.secret_files.iter();
        let recorded = recorded.filter_map(|(text, stamp)| Some((tree_path(text)?, Some(stamp.clone()))));
        withheld.chain(recorded).collect()
    }

    /// The paths that became likely secrets.
    pub fn withheld_paths(&self) -> impl Iterator<Item = TreePath> {
        self.withheld.iter().filter_map(|text| tree_path(text))
    }
}

fn tree_path(text: &str) -> Option<TreePath> {
    TreePath::out_of_scope(&quote::from_json(text)?)
}

fn path_change(change: &Change, count: &ChangeCount) -> (String, PathChange) {
    let result = PathChange {
        before: change.before,
        after: change.after,
        added: count.lines.added,
        removed: count.lines.removed,
        binary: count.binary,
        attributes: change.attributes.clone(),
    };
    (quote::in_json(change.path.as_bytes()).into_owned(), result)
}

/// A `result.json` whose hashes are right.
pub struct ResultFile {
    /// A run that never came to an attempt has none.
    pub changes: Option<ChangeRecord>,
    /// Every other key: what the owner of the directory wrote.
    extra: BTreeMap<String, Value>,
}

/// The file as it is written. Every key is optional, so that a missing one is distinguished from a file without a change record.
#[derive(Deserialize)]
struct ResultJson {
    version: Option<u32>,
    id: Option<String>,
    tree: Option<BeforeAfter>,
    added: Option<u64>,
    removed: Option<u64>,
    changes: Option<BTreeMap<String, PathChange>>,
    #[serde(default, rename = "beside")]
    out_of_scope: Vec<String>,
    coverage: Option<Coverage>,
    #[serde(default)]
    live_databases: Vec<TreePath>,
    #[serde(default)]
    withheld: Vec<String>,
    #[serde(default)]
    secret_files: BTreeMap<String, SecretStamp>,
    check: Option<String>,
    /// The hash of `check` and `extra`.
    record_check: Option<String>,
    #[serde(flatten)]
    extra: BTreeMap<String, Value>,
}

impl ResultFile {
    /// Reads the file; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<ResultFile>> {
        let Some(file) = untrusted::open(path).if_exists().at("read", path)? else { return Ok(None) };
        let mut found: ResultJson =
            json::parse(file, path, |error| Error::damaged(path, "it is not valid").caused_by(error))?;
        if found.record_check != Some(hash_of(&(&found.check, &found.extra))) {
            return Err(Error::damaged(path, "its hash is missing or wrong: it was edited"));
        }
        let extra = std::mem::take(&mut found.extra);
        let changes = found.into_changes(path)?;
        if changes.is_none() && extra.is_empty() {
            return Err(Error::damaged(path, "it is empty"));
        }
        Ok(Some(ResultFile { changes, extra }))
    }

    /// Writes `changes` and, beside them, the keys of `extra`.
    pub fn write(path: &Path, changes: Option<&ChangeRecord>, extra: &impl Serialize) -> Result<()> {
        #[derive(Serialize)]
        struct Written<'w, T> {
            #[serde(flatten)]
            changes: Option<&'w ChangeRecord>,
            #[serde(flatten)]
            extra: &'w T,
            record_check: String,
        }
        // The hash is of what a reader parses: a number may not survive being written and read to the last bit.
        let text = serde_json::to_vec(extra).expect("a result is plain data");
        let parsed: BTreeMap<String, Value> = serde_json::from_slice(&text).expect("it was just written");
        let record_check = hash_of(&(changes.and_then(|changes| changes.check.as_ref()), parsed));
        json::write_pretty(path, &Written { changes, extra, record_check })
    }

    /// What the owner of the directory wrote beside the change record; `None` if it wrote nothing.
    pub fn extra<T: DeserializeOwned>(&mut self, path: &Path) -> Result<Option<T>> {
        if self.extra.is_empty() {
            return Ok(None);
        }
        let extra = std::mem::take(&mut self.extra).into_iter().collect();
        serde_json::from_value(Value::Object(extra))
            .map(Some)
            .map_err(|error| Error::damaged(path, "it is not valid").caused_by(error))
    }
}

impl ResultJson {
    fn into_changes(self, path: &Path) -> Result<Option<ChangeRecord>> {
        let parts = (self.version, self.id, self.tree, self.added, self.removed, self.changes, self.coverage);
        let mut record = match parts {
            (None, None, None, None, None, None, None) if self.check.is_none() => return Ok(None),
            (
                Some(version),
                Some(id),
                Some(tree),
                Some(added),
                Some(removed),
                Some(changes),
                Some(coverage),
            ) => {
                let ResultJson { out_of_scope, live_databases, withheld, secret_files, check, .. } = self;
                ChangeRecord {
                    version,
                    id,
                    tree,
                    added,
                    removed,
                    changes,
                    out_of_scope,
                    coverage,
                    live_databases,
                    withheld,
                    secret_files,
                    check,
                    secrets: Vec::new(),
                }
            }
            _ => return Err(Error::damaged(path, "a part of it is missing")),
        };
        let check = Some(record.compute_check());
        if record.version == VERSION && record.check == check {
            return Ok(Some(record));
        }
        Err(Error::damaged(path, "it has an unsupported version, or was edited"))
    }
}

fn hash_of(value: &impl Serialize) -> String {
    let mut text = BufWriter::new(Hasher::new());
    serde_json::to_writer(&mut text, value).expect("a result is plain data");
    let hasher = text.into_inner().map_err(|_| ()).expect("a hash takes everything");
    hasher.finish().0.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Extra {
        status: String,
        usd: f64,
    }

    #[test]
    fn every_edit_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        assert!(ResultFile::read(&path).unwrap().is_none());
        let extra = Extra { status: "success".to_owned(), usd: 0.1 + 0.2 };
        ResultFile::write(&path, None, &extra).unwrap();
        let mut found = ResultFile::read(&path).unwrap().expect("it was written");
        assert!(found.changes.is_none());
        assert_eq!(found.extra::<Extra>(&path).unwrap().expect("it was written").status, "success");
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("success", "skipped"),
            ("0.3", "0.4"),
            ("status", "statue"),
            ("record_check", "record"),
            ("{", "{\"id\":\"x\","),
        ] {
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = ResultFile::read(&path).err().expect("it was edited");
            assert_eq!(error.kind().exit_code(), 4, "{from}");
        }
    }
}
