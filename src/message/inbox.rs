//! The queue: `.decree/inbox/`, with `done/` for finished messages and `dead/` for dead letters.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::front_matter::Document;
use super::id::{ChainId, MessageId};
use crate::error::{IoContext, Result};
use crate::fs::quarantine::{move_to_free_name, take_free_name};
use crate::fs::{atomic, untrusted};
use crate::project::Layout;

/// When a message is worked on: by the chain, or the time of the file, and the number.
pub(super) type Order = (String, u32);

#[derive(Clone, Debug)]
pub struct Inbox {
    dir: PathBuf,
    done: PathBuf,
    dead: PathBuf,
}

/// A message in the inbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingMessage {
    /// The file name in the inbox.
    pub file: OsString,
    /// The id in the file's name or front matter, if any.
    pub id: Option<MessageId>,
}

impl Inbox {
    pub fn of(layout: &Layout) -> Self {
        Inbox { dir: layout.inbox(), done: layout.done(), dead: layout.dead() }
    }

    /// The waiting messages, oldest first.
    pub fn pending(&self) -> Result<Vec<PendingMessage>> {
        let mut pending = Vec::new();
        for file in message_files(&self.dir)? {
            let path = self.dir.join(&file);
            let Ok(metadata) = path.symlink_metadata() else { continue };
            let id = id_of(&path);
            pending.push((order_of(id.as_ref(), &metadata), PendingMessage { file, id }));
        }
        pending.sort();
        Ok(pending.into_iter().map(|(_, message)| message).collect())
    }

    /// The file names of the waiting messages, without reading them.
    pub fn files(&self) -> Result<Vec<OsString>> {
        message_files(&self.dir)
    }

    /// The waiting messages but for these, which are not read.
    pub fn pending_except(&self, files: &HashSet<OsString>) -> Result<Vec<PendingMessage>> {
        let mut names = untrusted::names_in(&self.dir).at("read", &self.dir)?;
        names.retain(|name| is_message_name(name) && !files.contains(name));
        let files =
            names.into_iter().filter(|name| self.path(name).symlink_metadata().is_ok_and(|it| it.is_file()));
        Ok(files.map(|file| PendingMessage { id: id_of(&self.path(&file)), file }).collect())
    }

    /// The file names of the dead letters.
    pub fn dead(&self) -> Result<Vec<OsString>> {
        message_files(&self.dead)
    }

    /// The path of a waiting message.
    pub fn path(&self, file: &OsStr) -> PathBuf {
        self.dir.join(file)
    }

    /// The path of a dead letter.
    pub fn dead_path(&self, file: &OsStr) -> PathBuf {
        self.dead.join(file)
    }

    /// The chains of all messages, waiting, done or dead, whose files were written in this second or later. An older file cannot
    /// have an id that was given out since.
    pub fn chains_since(&self, second: i64) -> Result<BTreeSet<ChainId>> {
        let mut chains = BTreeSet::new();
        for dir in [&self.dir, &self.done, &self.dead] {
            let paths = message_files(dir)?.into_iter().map(|file| dir.join(file));
            // A file system's clock may be a little behind.
            let is_recent =
                |path: &PathBuf| path.symlink_metadata().is_ok_and(|file| file.mtime() >= second - 1);
            chains.extend(paths.filter(is_recent).filter_map(|path| Some(id_of(&path)?.chain)));
        }
        Ok(chains)
    }

    /// The messages of a chain that were carried out, and their letters in `done/`.
    pub fn done_letters(&self, chain: &ChainId) -> Result<BTreeMap<MessageId, PathBuf>> {
        let paths = message_files(&self.done)?.into_iter().map(|file| self.done.join(file));
        let letters = paths.filter_map(|path| Some((id_of(&path)?, path)));
        Ok(letters.filter(|(id, _)| id.chain == *chain).collect())
    }

    /// Whether `other` is this file's name, or one that it gets where this name is taken: `a.md` and `a-2.md`.
    pub fn is_name_for(file: &OsStr, other: &OsStr) -> bool {
        let stem = |name: &OsStr| Path::new(name).file_stem().unwrap_or(name).as_encoded_bytes().to_vec();
        let (stem, other) = (stem(file), stem(other));
        let number = other.strip_prefix(stem.as_slice()).map(|rest| rest.strip_prefix(b"-").unwrap_or(rest));
        number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
    }

    /// Whether a message of this name waits, is done, or is a dead letter.
    pub fn contains(&self, name: &str) -> bool {
        let file = format!("{name}.md");
        [&self.dir, &self.done, &self.dead].iter().any(|dir| dir.join(&file).symlink_metadata().is_ok())
    }

    /// Adds a message to the inbox.
    pub fn add(&self, file: &OsStr, text: &str) -> Result<()> {
        fs::create_dir_all(&self.dir).at("create", &self.dir)?;
        atomic::write(&self.path(file), text.as_bytes())
    }

    /// Moves a message that was carried out to `done/`.
    pub fn finish(&self, file: &OsStr, text: &[u8]) -> Result<()> {
        self.settle(&self.done, file, text, text)
    }

    /// Moves a message that could not be carried out to `dead/`. `original` is what was read from the inbox, `text` is the dead
    /// letter with its reason.
    pub fn dead_letter(&self, file: &OsStr, original: &[u8], text: &[u8]) -> Result<()> {
        self.settle(&self.dead, file, original, text)
    }

    /// Moves a message that cannot be read to `dead/`, unchanged.
    pub fn dead_letter_unread(&self, file: &OsStr) -> Result<()> {
        move_to_free_name(&self.path(file), |number| numbered(&self.dead, file, number))?;
        fs::create_dir_all(&self.dead).at("create", &self.dead)?;
        atomic::sync_dir(&self.dead)
    }

    /// Moves a dead letter back to the inbox. Returns its file name there.
    pub fn requeue(&self, file: &OsStr) -> Result<OsString> {
        let from = self.dead.join(file);
        let moved = move_to_free_name(&from, |number| numbered(&self.dir, file, number))?;
        let target = moved.ok_or(io::ErrorKind::NotFound).at("move", &from)?;
        atomic::sync_dir(&self.dir)?;
        Ok(target.file_name().unwrap_or(file).to_owned())
    }

    /// Moves a waiting message out of the queue into the directory `to`.
    pub fn withdraw(&self, file: &OsStr, to: &Path) -> Result<()> {
        move_to_free_name(&self.path(file), |number| numbered(to, file, number)).map(drop)
    }

    /// Moves a dead letter out of the queue, to the path `to`.
    pub fn withdraw_dead(&self, file: &OsStr, to: &Path) -> Result<()> {
        let (dir, name) = (to.parent().unwrap_or(to), to.file_name().unwrap_or(file));
        move_to_free_name(&self.dead.join(file), |number| numbered(dir, name, number)).map(drop)
    }

    /// Writes the target first and removes the source then, so that a kill in between loses no message. Repeating it is
    /// harmless.
    fn settle(&self, dir: &Path, file: &OsStr, original: &[u8], text: &[u8]) -> Result<()> {
        fs::create_dir_all(dir).at("create", dir)?;
        let id = std::str::from_utf8(text).ok().and_then(|text| Document::parse(text).ok()?.get_text("id"));
        let names = |number| numbered(dir, file, number);
        let mut taken = (1..).map(names).take_while(|path| path.symlink_metadata().is_ok());
        // A process that was killed may have written it already.
        match taken.find(|path| id.is_some() && id_text(path) == id) {
            Some(path) => atomic::write(&path, text)?,
            None => drop(take_free_name(names, |path| atomic::write_new(path, text))?),
        }
        let from = self.path(file);
        // Another process may have written a new message under this name; that one stays in the queue.
        let is_same = |now: Vec<u8>| now == original || (id.is_some() && id_text(&from) == id);
        if fs::read(&from).is_ok_and(is_same) {
            fs::remove_file(&from).at("remove", &from)?;
        }
        atomic::sync_dir(&self.dir)
    }
}

/// The messages in a directory: regular `.md` files that are not hidden. A hidden one is still being written.
fn message_files(dir: &Path) -> Result<Vec<OsString>> {
    let mut names = untrusted::names_in(dir).at("read", dir)?;
    let is_file = |name: &OsString| dir.join(name).symlink_metadata().is_ok_and(|found| found.is_file());
    names.retain(|name| is_message_name(name) && is_file(name));
    Ok(names)
}

/// Whether a regular file of this name is a message.
pub(super) fn is_message_name(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.ends_with(b".md") && !atomic::is_unfinished(name) && !bytes.starts_with(b".")
}

/// By the second in which its chain began, or else in which the file was modified.
pub(super) fn order_of(id: Option<&MessageId>, file: &fs::Metadata) -> Order {
    match id {
        Some(id) => (id.chain.to_string(), id.seq),
        None => (time_key(file.mtime()), 0),
    }
}

/// `a.md` in `dir` for the number 1, then `a-2.md`, `a-3.md`, …
fn numbered(dir: &Path, file: &OsStr, number: u64) -> PathBuf {
    if number == 1 {
        return dir.join(file);
    }
    let mut name = Path::new(file).file_stem().unwrap_or(file).to_owned();
    name.push(format!("-{number}.md"));
    dir.join(name)
}

fn id_text(path: &Path) -> Option<String> {
    Document::parse(&super::read_text(path).ok()?).ok()?.get_text("id")
}

/// The id in a file's name or front matter, before normalisation.
pub(super) fn id_of(path: &Path) -> Option<MessageId> {
    let text = super::read_text(path).ok()?;
    let document = Document::parse(&text).unwrap_or_default();
    super::normalise::stated_id(path.file_name()?, &document)
}

/// A time as `YYYYMMDDHHmmss00`, comparable with the id of a chain.
fn time_key(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y%m%d%H%M%S00").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> (tempfile::TempDir, Inbox) {
        let dir = tempfile::tempdir().unwrap();
        let inbox = Inbox::of(&Layout::new(dir.path().to_owned()));
        (dir, inbox)
    }

    #[test]
    fn the_oldest_message_is_first_and_a_chain_is_in_order() {
        let (_dir, inbox) = inbox();
        for file in ["2025022514320000-2.md", "2025022514320000-10.md", "2024022514320000-0.md", "new.md"] {
            inbox.add(OsStr::new(file), "x\n").unwrap();
        }
        let order: Vec<_> = inbox.pending().unwrap().into_iter().map(|pending| pending.file).collect();
        let expected = ["2024022514320000-0.md", "2025022514320000-2.md", "2025022514320000-10.md", "new.md"];
        assert_eq!(order, expected);
    }

    #[test]
    fn other_files_are_left_alone() {
        let (dir, inbox) = inbox();
        inbox.add(OsStr::new("a.md"), "x\n").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", inbox.path(OsStr::new("link.md"))).unwrap();
        fs::create_dir(inbox.path(OsStr::new("dir.md"))).unwrap();
        for name in ["notes.txt", ".half-written.md", "tmp-4711-a.md"] {
            fs::write(dir.path().join(".decree/inbox").join(name), "x").unwrap();
        }
        assert_eq!(inbox.files().unwrap(), ["a.md"]);
    }

    #[test]
    fn settling_is_idempotent_and_another_message_keeps_its_file() {
        let (_dir, inbox) = inbox();
        let text = "---\nid: 2025022514320000-0\n---\n";
        let file = OsStr::new("a.md");
        for _ in 0..2 {
            inbox.add(file, text).unwrap();
            inbox.dead_letter(file, text.as_bytes(), text.as_bytes()).unwrap();
        }
        assert_eq!(inbox.dead().unwrap(), ["a.md"]);
        inbox.add(file, "other\n").unwrap();
        inbox.dead_letter(file, b"other\n", b"other\n").unwrap();
        assert_eq!(inbox.dead().unwrap(), ["a-2.md", "a.md"]);
        assert!(inbox.files().unwrap().is_empty());
        inbox.add(file, "a new one\n").unwrap();
        inbox.finish(file, text.as_bytes()).unwrap();
        assert_eq!(inbox.files().unwrap(), ["a.md"], "a new message under the same name stays");
    }

    #[test]
    fn no_move_out_of_the_inbox_replaces_a_file() {
        let (dir, inbox) = inbox();
        let (file, to) = (OsStr::new("a.md"), dir.path().join("run"));
        let read = |name: &str| fs::read_to_string(to.join(name)).unwrap();
        for text in ["first", "second"] {
            inbox.add(file, text).unwrap();
            inbox.withdraw(file, &to).unwrap();
            inbox.add(file, text).unwrap();
            inbox.dead_letter_unread(file).unwrap();
            inbox.withdraw_dead(file, &to.join("dead-letter.md")).unwrap();
        }
        assert_eq!([read("a.md"), read("a-2.md")], ["first", "second"]);
        assert_eq!([read("dead-letter.md"), read("dead-letter-2.md")], ["first", "second"]);
    }
}
