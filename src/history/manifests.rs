//! All manifests of a project: everything that names content of the store.
//!
//! Diffs, results and journals refer to content as well, but never read any from the store that no manifest names: what a
//! run found is in its manifest, and what it left is in its diff.
//!
//! decree writes manifests to a few known places, and a damaged one there is an error. But runs and checkpoints are searched as a
//! whole: an overlooked manifest would cost the content it names. What cannot be judged is reported, and then nothing is dropped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::record::CheckpointRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::manifest::{Manifest, NeededContent, PartsRead};
use crate::checkpoint::store::{NamedContents, Store};
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::TEMPORARY;
use crate::fs::json;
use crate::project::Layout;

const NAME: &str = CheckpointDir::MANIFEST;
/// Files that were moved out of the tree: none of them is decree's, whatever its name.
const SET_ASIDE: &str = CheckpointDir::SET_ASIDE;

/// All of a project's manifests, found and not yet read.
#[derive(Debug, Default)]
pub struct Manifests {
    list: Vec<ManifestFile>,
    doubts: Vec<UnreadableManifest>,
}

#[derive(Debug)]
pub struct ManifestFile {
    /// The directory of the run or checkpoint.
    pub of: PathBuf,
    path: PathBuf,
    bytes: u64,
    /// Whether this is a place where decree writes manifests.
    is_known: bool,
}

/// A file or directory that may name content, and cannot be judged.
#[derive(Debug)]
pub struct UnreadableManifest {
    /// The directory of the run or checkpoint.
    pub of: PathBuf,
    pub error: Error,
}

impl Manifests {
    /// Finds them. Follows no link.
    pub fn find(layout: &Layout) -> Manifests {
        Manifests::find_up_to(layout, usize::MAX)
    }

    /// The same, but ends the search when it has found more than `max`: then these are not all.
    pub fn find_up_to(layout: &Layout, max: usize) -> Manifests {
        let mut found = Manifests::default();
        for (dir, has_records) in [(layout.checkpoints(), true), (layout.runs(), false)] {
            if let Err(error) = found.search(&dir, has_records, max) {
                found.doubts.push(UnreadableManifest { of: dir, error });
            }
        }
        found.list.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    /// All content that the readable manifests name, their own parts included.
    pub fn contents(&self, store: &Store) -> NamedContents {
        let (mut named, mut seen) = (NamedContents::default(), PartsRead::default());
        for file in &self.list {
            // Of an unreadable one, what can be read counts.
            let _ = file.visit(store, &mut seen, &mut |content| named.add(content.hash, content.size));
        }
        named
    }

    /// The size of all manifests, as far as they are not in the store, and their number.
    pub fn size(&self) -> (u64, usize) {
        (self.list.iter().map(|place| place.bytes).sum(), self.list.len())
    }

    /// The manifests, and the unreadable ones, of all runs and checkpoints except `leaving`.
    pub fn without(
        &self,
        leaving: &[&Path],
    ) -> (impl Iterator<Item = &ManifestFile>, impl Iterator<Item = &UnreadableManifest>) {
        let stays = |of: &Path| !leaving.contains(&of);
        let places = self.list.iter().filter(move |place| stays(&place.of));
        (places, self.doubts.iter().filter(move |doubt| stays(&doubt.of)))
    }

    /// The manifests of one run or checkpoint.
    pub fn of(&self, dir: &Path) -> impl Iterator<Item = &ManifestFile> {
        self.list.iter().filter(move |place| place.of == dir)
    }

    fn search(&mut self, dir: &Path, has_records: bool, max: usize) -> Result<()> {
        if dir.is_symlink() {
            return Err(unclear(dir, "it is a link"));
        }
        let Some(entries) = fs::read_dir(dir).if_exists().at("read", dir)? else { return Ok(()) };
        for entry in entries {
            if self.list.len() > max {
                break;
            }
            let entry = entry.at("read", dir)?;
            // A temporary name: not finished yet, or deleted already.
            if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
                continue;
            }
            let (of, before) = (entry.path(), self.list.len());
            let result = match entry.file_type().at("read", &of)? {
                kind if kind.is_symlink() => Err(unclear(&of, "it is a link")),
                kind if kind.is_dir() => self.search_below(&of),
                _ => continue,
            };
            let is_bare = has_records && !self.list[before..].iter().any(|place| place.is_known);
            let result = match result {
                Ok(()) if is_bare && should_have_one(&of) => Err(unclear(&of, "it has no manifest")),
                result => result,
            };
            match result {
                // Another process deleted it during the survey, which takes no lock.
                Err(_) if of.symlink_metadata().is_err() => self.list.truncate(before),
                Err(error) => self.doubts.push(UnreadableManifest { of, error }),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn search_below(&mut self, of: &Path) -> Result<()> {
        let mut todo = vec![of.to_owned()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(&dir).at("read", &dir)? {
                let entry = entry.at("read", &dir)?;
                let path = entry.path();
                let kind = entry.file_type().at("read", &path)?;
                let inner = path.strip_prefix(of).expect("it is below");
                if kind.is_dir() {
                    if !entry.file_name().to_string_lossy().starts_with(SET_ASIDE) {
                        todo.push(path);
                    }
                } else if is_known(&inner.join(NAME)) {
                    // Something else stands where a directory with a manifest would be.
                    if kind.is_symlink() {
                        return Err(unclear(&path, "it is a link"));
                    }
                } else if entry.file_name() == NAME && kind.is_file() {
                    let bytes = entry.metadata().at("read", &path)?.len();
                    let is_known = is_known(inner);
                    self.list.push(ManifestFile { of: of.to_owned(), path, bytes, is_known });
                } else if is_known(inner) {
                    return Err(unclear(&path, "it is not a file"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a checkpoint should have a manifest; some types have none.
fn should_have_one(of: &Path) -> bool {
    match CheckpointRecord::read(of) {
        Ok(record) => record.kind().holds_tree(),
        Err(_) => of.join(CheckpointRecord::FILE).exists(),
    }
}

/// Whether decree writes a manifest at this path of a run or a checkpoint.
fn is_known(inner: &Path) -> bool {
    let parts: Vec<&OsStr> = inner.iter().collect();
    match &parts[..] {
        [name] => *name == NAME,
        [dir, _, name] => *name == NAME && *dir == CheckpointDir::PREVIOUS,
        _ => false,
    }
}

impl ManifestFile {
    /// Calls `each` for every content that it needs, unless it is a file of another program that has the same name. The parts in
    /// `seen`, which other manifests have named, are not read again.
    pub fn visit(
        &self,
        store: &Store,
        seen: &mut PartsRead,
        each: &mut dyn FnMut(NeededContent),
    ) -> Result<()> {
        let tree = match Manifest::visit_contents(&self.path, store, seen, each) {
            // Another process deleted it during the survey, which takes no lock.
            Err(_) if self.of.symlink_metadata().is_err() => return Ok(()),
            Err(_) if !self.is_known && self.is_foreign() => return Ok(()),
            result => result?,
        };
        // A manifest that is intact may still be that of another checkpoint.
        if self.of.join(NAME) == self.path
            && let Ok(record) = CheckpointRecord::read(&self.of)
        {
            record.check_tree(&tree)?;
        }
        Ok(())
    }

    /// Whether it is another kind of manifest, as web pages and extensions have: a routine may have put one here.
    fn is_foreign(&self) -> bool {
        #[derive(Deserialize)]
        struct Looks {
            tree: Option<IgnoredAny>,
            check: Option<IgnoredAny>,
        }
        let Ok(file) = File::open(&self.path) else { return false };
        let looks = json::parse::<Looks>(file, &self.path, |error| unclear(&self.path, "").caused_by(error));
        looks.is_ok_and(|looks| looks.tree.is_none() && looks.check.is_none())
    }
}

fn unclear(path: &Path, why: &str) -> Error {
    Error::integrity(format!("cannot tell which content {} references: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::manifest::ManifestMemo;

    fn layout() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        (dir, layout)
    }

    fn write_default(path: &Path) {
        let dir = path.parent().unwrap();
        let memo = ManifestMemo::new(&dir.join("memo"), dir);
        Manifest::default().write(path, &Store::at(dir), &memo).unwrap();
    }

    fn read(layout: &Layout, place: &ManifestFile) -> Result<()> {
        place.visit(&Store::at(layout.store()), &mut PartsRead::default(), &mut |_| {})
    }

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn manifests_are_found_however_deep_they_are() {
        let (_dir, layout) = layout();
        let runs = layout.runs().join("2025022514320000-0");
        let paths = [
            runs.join(NAME),
            runs.join("previous/1").join(NAME),
            runs.join("previous/2/attempts/1/deep").join(NAME),
            layout.checkpoints().join("chk_1/state").join(NAME),
        ];
        for path in &paths {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write_default(path);
        }
        write(runs.join("set-aside/web").join(NAME), "{]");
        write(layout.checkpoints().join("tmp-chk_2").join(NAME), "half");
        let found = Manifests::find(&layout);
        assert!(found.doubts.is_empty(), "{:?}", found.doubts);
        let mut list: Vec<&PathBuf> = found.list.iter().map(|place| &place.path).collect();
        list.sort();
        let mut expected: Vec<&PathBuf> = paths.iter().collect();
        expected.sort();
        assert_eq!(list, expected);
        assert!(found.list.iter().all(|place| read(&layout, place).is_ok()));
    }

    #[test]
    fn a_damaged_manifest_is_an_error_wherever_it_is_and_that_of_another_program_is_none() {
        let (_dir, layout) = layout();
        let run = layout.runs().join("2025022514320000-0");
        let read = |path: &Path| {
            let found = Manifests::find(&layout);
            read(&layout, found.list.iter().find(|place| place.path == path).unwrap())
        };
        let [own, deep] = [run.join(NAME), run.join("out/web").join(NAME)];
        write(deep.clone(), r#"{"name":"app","version":3}"#);
        assert!(read(&deep).is_ok());
        write(own.clone(), r#"{"name":"app","version":3}"#);
        assert!(read(&own).is_err());
        fs::create_dir_all(deep.parent().unwrap()).unwrap();
        write_default(&deep);
        let text = fs::read_to_string(&deep).unwrap();
        for damaged in [&text[..text.len() / 2], &text.replace("version\":1", "version\":9"), ""] {
            write(deep.clone(), damaged);
            assert!(read(&deep).is_err(), "{damaged}");
        }
    }

    #[test]
    fn what_cannot_be_judged_is_a_doubt() {
        let doubts = |make: &dyn Fn(&Layout, &Path)| {
            let (dir, layout) = layout();
            make(&layout, dir.path());
            Manifests::find(&layout).doubts.len()
        };
        let link = |to: &Path, at: PathBuf| {
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(to, at).unwrap();
        };
        assert_eq!(doubts(&|layout, dir| link(dir, layout.runs())), 1);
        assert_eq!(doubts(&|layout, dir| link(dir, layout.runs().join("2025022514320000-0"))), 1);
        assert_eq!(doubts(&|layout, dir| link(dir, layout.runs().join("x/previous/1"))), 1);
        assert_eq!(doubts(&|layout, dir| link(dir, layout.runs().join("x").join(NAME))), 1);
        assert_eq!(doubts(&|layout, _| write(layout.checkpoints().join("chk_1/checkpoint.json"), "{}")), 1);
        assert_eq!(doubts(&|layout, _| write(layout.runs().join("x/message.md"), "x")), 0);
        assert_eq!(doubts(&|layout, dir| link(dir, layout.runs().join("x/attempts/1/link"))), 0);
    }
}
