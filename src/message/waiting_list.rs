//! The names of the messages that wait when a run begins, for the decree after one that is killed. There may be tens of thousands, so
//! `waiting.json` has them once, and each run only how they differ since.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::second_names::SecondNames;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::quote;
use crate::fs::{FileStamp, atomic, untrusted};
use crate::project::Layout;

const VERSION: u32 = 1;
/// So many names may differ from the list before it is written again; fewer names are not listed.
const MAX_DIFFERENT: usize = 256;

#[derive(Serialize, Deserialize)]
struct ListFile {
    version: u32,
    files: Vec<String>,
}

/// The names, as a process knows them that works on the messages.
#[derive(Default)]
pub struct WaitingList {
    listed: Arc<HashSet<OsString>>,
    hash: Option<ContentHash>,
    /// What the kernel said of the file when it was written.
    stamp: Option<FileStamp>,
    added: BTreeSet<OsString>,
    gone: BTreeSet<OsString>,
}

/// The names, as `running.json` has them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WaitingNames {
    /// All of them; or, with `inbox_list`, those that the list has not.
    #[serde(default)]
    inbox: Vec<String>,
    /// The SHA-256 of `waiting.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inbox_list: Option<String>,
    /// Those that the list has, and that waited no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inbox_gone: Vec<String>,
    /// The names in the list, for the process that wrote it: a routine may delete the file.
    #[serde(skip)]
    listed: Option<Arc<HashSet<OsString>>>,
}

impl WaitingList {
    /// Notes that a message waits, or does not any more.
    pub(super) fn note(&mut self, file: &OsStr, waits: bool) {
        let (differs, same) =
            if waits { (&mut self.added, &mut self.gone) } else { (&mut self.gone, &mut self.added) };
        same.remove(file);
        if self.listed.contains(file) != waits {
            differs.insert(file.to_owned());
        }
    }

    /// Writes the list again if it differs too much, or another one is there. If it cannot be written, as something else has its name,
    /// `running.json` has all names.
    pub(super) fn write(&mut self, layout: &Layout) {
        let differ = self.added.len() + self.gone.len();
        let path = layout.waiting_list();
        let stamp = || path.symlink_metadata().ok().map(|found| FileStamp::of(&found));
        let is_there = self.hash.is_none() || self.stamp == stamp();
        if differ <= MAX_DIFFERENT && is_there {
            return;
        }
        let listed = Arc::make_mut(&mut self.listed);
        listed.extend(std::mem::take(&mut self.added));
        for file in std::mem::take(&mut self.gone) {
            listed.remove(&file);
        }
        let mut files: Vec<String> = self.listed.iter().map(text).collect();
        files.sort();
        let list = serde_json::to_vec(&ListFile { version: VERSION, files }).expect("plain data");
        if atomic::write(&path, &list).is_err() {
            *self = WaitingList { added: self.listed.iter().cloned().collect(), ..WaitingList::default() };
            return;
        }
        self.hash = Some(ContentHash::of(&list));
        self.stamp = stamp();
    }

    /// What `running.json` says of them.
    pub fn names(&self) -> WaitingNames {
        WaitingNames {
            inbox: self.added.iter().map(text).collect(),
            inbox_list: self.hash.map(|hash| hash.to_string()),
            inbox_gone: self.gone.iter().map(text).collect(),
            listed: self.hash.map(|_| Arc::clone(&self.listed)),
        }
    }
}

impl WaitingNames {
    /// Whether only a decree that knows of `waiting.json` understands them.
    pub fn needs_list(&self) -> bool {
        self.inbox_list.is_some()
    }

    /// All of them. If the list is another one, or gone, those that still have a second name.
    pub fn read(&self, layout: &Layout) -> HashSet<OsString> {
        let listed = match (&self.listed, &self.inbox_list) {
            (Some(listed), _) => HashSet::clone(listed),
            (None, None) => HashSet::new(),
            (None, Some(hash)) => {
                read_list(layout, hash).unwrap_or_else(|| SecondNames::of(layout).all().into_iter().collect())
            }
        };
        let (added, gone) =
            (self.inbox.iter().map(name), self.inbox_gone.iter().map(name).collect::<HashSet<_>>());
        listed.into_iter().filter(|file| !gone.contains(file)).chain(added).collect()
    }

    /// Whether the names may not be all, as the list is another one, or gone.
    pub fn lack_list(&self, layout: &Layout) -> bool {
        self.inbox_list.as_ref().is_some_and(|hash| read_list(layout, hash).is_none())
    }
}

fn read_list(layout: &Layout, hash: &str) -> Option<HashSet<OsString>> {
    let bytes = untrusted::read(&layout.waiting_list()).ok()?;
    if ContentHash::of(&bytes).to_string() != hash {
        return None;
    }
    let list: ListFile =
        serde_json::from_slice(&bytes).ok().filter(|list: &ListFile| list.version == VERSION)?;
    Some(list.files.iter().map(name).collect())
}

fn text(name: &OsString) -> String {
    quote::in_json(name.as_bytes()).into_owned()
}

fn name(text: &String) -> OsString {
    OsString::from_vec(quote::from_json(text).unwrap_or(text.as_bytes().into()).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn layout() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        fs::create_dir_all(layout.waiting()).unwrap();
        (dir, layout)
    }

    /// What the next process reads.
    fn reread(list: &WaitingList) -> WaitingNames {
        serde_json::from_str(&serde_json::to_string(&list.names()).unwrap()).unwrap()
    }

    fn file(n: usize) -> OsString {
        OsString::from_vec(format!("{n}-\u{fe}\".md").into_bytes().into_iter().chain([0xff]).collect())
    }

    #[test]
    fn the_names_are_those_that_wait_however_many_there_are() {
        let (_dir, layout) = layout();
        let mut list = WaitingList::default();
        for n in 0..1000 {
            list.note(&file(n), true);
            if n % 3 == 0 {
                list.note(&file(n / 2), false);
            }
            if n % 100 == 7 {
                list.write(&layout);
                let waits = |k: &usize| !(0..=n).any(|m| m % 3 == 0 && m / 2 == *k);
                let expected: HashSet<OsString> = (0..=n).filter(waits).map(file).collect();
                let names = list.names();
                assert_eq!(names.read(&layout), expected, "{n}");
                let text = serde_json::to_string(&names).unwrap();
                assert_eq!(reread(&list).read(&layout), expected, "{n}");
                assert!(text.len() < 20_000, "{}", text.len());
            }
        }
        assert!(list.names().needs_list() && !list.names().lack_list(&layout));
    }

    #[test]
    fn a_list_that_was_changed_is_not_believed_and_is_written_again() {
        let (_dir, layout) = layout();
        let mut list = WaitingList::default();
        (0..300).for_each(|n| list.note(&file(n), true));
        list.write(&layout);
        for damage in [&b"{}"[..], b""] {
            fs::write(layout.waiting_list(), damage).unwrap();
            let names = reread(&list);
            assert!(names.lack_list(&layout) && names.read(&layout).is_empty());
            // The process that wrote it needs no file.
            assert_eq!(list.names().read(&layout).len(), 300);
            list.write(&layout);
            assert_eq!(reread(&list).read(&layout).len(), 300);
        }
    }

    #[test]
    fn names_that_cannot_be_listed_are_in_the_record_of_the_run() {
        let (_dir, layout) = layout();
        let mut list = WaitingList::default();
        (0..300).for_each(|n| list.note(&file(n), true));
        list.write(&layout);
        fs::remove_file(layout.waiting_list()).unwrap();
        fs::create_dir(layout.waiting_list()).unwrap();
        list.note(&file(0), false);
        list.write(&layout);
        assert!(!reread(&list).needs_list());
        assert_eq!(reread(&list).read(&layout).len(), 299);
        fs::remove_dir(layout.waiting_list()).unwrap();
        list.write(&layout);
        assert!(reread(&list).needs_list());
        assert_eq!(reread(&list).read(&layout).len(), 299);
    }
}
