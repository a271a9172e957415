//! `manifest.json` as it is parsed, before its hashes are checked.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::Deserialize;

use super::stored::StoredManifest;
use super::text::{Files, rules_from_json};
use super::{Manifest, VERSION, VERSION_STORED};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::git_record::GitRecord;
use crate::error::{Error, IoContext, Result};
use crate::fs::json;

/// The file, parsed. One of version 1 has the entries and all values, one of version 2 has them in the store.
#[derive(Deserialize)]
pub struct ManifestJson {
    pub version: u32,
    files: Option<Files>,
    pub tree: String,
    rules: Option<BTreeMap<String, String>>,
    coverage: Option<Coverage>,
    #[serde(default)]
    git: Option<GitRecord>,
    #[serde(default)]
    nested_git: Vec<GitRecord>,
    #[serde(default)]
    attributes: bool,
    #[serde(default)]
    pub stored: Option<StoredManifest>,
    pub check: String,
}

impl ManifestJson {
    pub fn read(path: &Path) -> Result<ManifestJson> {
        let file = File::open(path).if_exists().at("read", path)?.ok_or_else(|| {
            Error::integrity(format!("{} is missing", path.display()))
                .detail("without it nothing can be verified, so nothing was touched")
        })?;
        let raw: ManifestJson = json::parse(file, path, |error| Error::damaged(path, error))?;
        if [VERSION, VERSION_STORED].contains(&raw.version) {
            return Ok(raw);
        }
        let versions = format!("{VERSION} or {VERSION_STORED}");
        Err(Error::damaged(path, format!("its version is {}, not {versions}", raw.version))
            .hint("it was written by another version of decree; use that one"))
    }

    /// A manifest that has its entries.
    pub fn into_manifest(self) -> Result<Manifest, String> {
        let missing = |key: &str| format!("it has no {key}");
        Ok(Manifest {
            tree: self.files.ok_or_else(|| missing("files"))?.0,
            rules: rules_from_json(self.rules.ok_or_else(|| missing("rules"))?)?,
            coverage: self.coverage.ok_or_else(|| missing("coverage"))?,
            git: self.git,
            nested_git: self.nested_git,
            has_attributes: self.attributes,
        })
    }

    /// Where the entries are in the store.
    pub fn into_stored(self, path: &Path) -> Result<StoredManifest> {
        let version = self.version;
        let stored = self.stored.filter(|stored| stored.is_of(&self.tree, &self.check));
        stored.ok_or_else(|| {
            Error::damaged(
                path,
                format!("its version is {}, but it does not say where its entries are", version),
            )
        })
    }
}
