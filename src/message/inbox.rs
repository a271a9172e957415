//! The queue: `.decree/inbox/`, with `done/` and `dead/`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::front_matter::Document;
use super::id::MessageId;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::project::Layout;

/// The queue of a project.
#[derive(Clone, Debug)]
pub struct Inbox {
    dir: PathBuf,
    done: PathBuf,
    dead: PathBuf,
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMessage {
    /// Its name in the inbox.
    pub file: OsString,
    /// When it came: the second its chain began, or that of the file.
    age: String,
    /// Its id, as far as the file's name or front matter tells.
    pub id: Option<MessageId>,
}

impl Inbox {
    /// Of a project.
    pub fn of(layout: &Layout) -> Self {
        Inbox { dir: layout.inbox(), done: layout.done(), dead: layout.dead() }
    }

    /// What waits, the oldest first.
    pub fn pending(&self) -> Result<Vec<PendingMessage>> {
        let mut pending = Vec::new();
        for file in names(&self.dir)? {
            let path = self.dir.join(&file);
            let Ok(metadata) = path.symlink_metadata() else { continue };
            let id = id_of(&path);
            let age = match &id {
                Some(id) => id.chain().to_string(),
                None => stamp(metadata.mtime()),
            };
            pending.push(PendingMessage { file, age, id });
        }
        pending.sort_by(|a, b| {
            let seq = |pending: &PendingMessage| pending.id.as_ref().map_or(0, MessageId::seq);
            (&a.age, seq(a), &a.file).cmp(&(&b.age, seq(b), &b.file))
        });
        Ok(pending)
    }

    /// The files that wait, without a look into them.
    pub fn files(&self) -> Result<Vec<OsString>> {
        names(&self.dir)
    }

    /// The dead letters, by name.
    pub fn dead(&self) -> Result<Vec<OsString>> {
        names(&self.dead)
    }

    /// Where a waiting message is.
    pub fn path(&self, file: &OsStr) -> PathBuf {
        self.dir.join(file)
    }

    /// Where a dead letter is.
    pub fn dead_path(&self, file: &OsStr) -> PathBuf {
        self.dead.join(file)
    }

    /// Whether a message of this name waits, is done, or is dead.
    pub fn knows(&self, name: &str) -> bool {
        let file = format!("{name}.md");
        [&self.dir, &self.done, &self.dead].iter().any(|dir| dir.join(&file).symlink_metadata().is_ok())
    }

    /// Puts a message in.
    pub fn add(&self, file: &OsStr, text: &str) -> Result<()> {
        fs::create_dir_all(&self.dir).at("create", &self.dir)?;
        atomic::write(&self.path(file), text.as_bytes())
    }

    /// A message was carried out.
    pub fn finish(&self, file: &OsStr, text: &[u8]) -> Result<()> {
        self.settle(&self.done, file, text, text)
    }

    /// A message that was `taken` could not be carried out; `text` says why.
    pub fn dead_letter(&self, file: &OsStr, taken: &[u8], text: &[u8]) -> Result<()> {
        self.settle(&self.dead, file, taken, text)
    }

    /// A message cannot even be read; it is kept as it is.
    pub fn bury_unread(&self, file: &OsStr) -> Result<()> {
        fs::create_dir_all(&self.dead).at("create", &self.dead)?;
        let from = self.path(file);
        fs::rename(&from, self.dead.join(free(&self.dead, file, None))).at("move", &from)?;
        atomic::sync_dir(&self.dead)
    }

    /// A dead letter gets another chance. Returns its name in the inbox.
    pub fn requeue(&self, file: &OsStr) -> Result<OsString> {
        let from = self.dead.join(file);
        let target = free(&self.dir, file, None);
        fs::rename(&from, self.dir.join(&target)).at("move", &from)?;
        atomic::sync_dir(&self.dir)?;
        Ok(target)
    }

    /// Moves a file out of the queue, to a place that keeps it.
    pub fn withdraw(&self, file: &OsStr, to: &Path) -> Result<()> {
        fs::create_dir_all(to).at("create", to)?;
        let from = self.path(file);
        fs::rename(&from, to.join(file)).at("move", &from)
    }

    /// Moves a dead letter out of the queue, to a place that keeps it.
    pub fn withdraw_dead(&self, file: &OsStr, to: &Path) -> Result<()> {
        fs::create_dir_all(to).at("create", to)?;
        let from = self.dead.join(file);
        fs::rename(&from, to.join("dead-letter.md")).at("move", &from)
    }

    /// Writes first, removes then: a message is never nowhere. Doing it again does no harm.
    fn settle(&self, dir: &Path, file: &OsStr, taken: &[u8], text: &[u8]) -> Result<()> {
        fs::create_dir_all(dir).at("create", dir)?;
        let id = std::str::from_utf8(text).ok().and_then(|text| Document::parse(text).ok()?.get_text("id"));
        atomic::write(&dir.join(free(dir, file, id.as_deref())), text)?;
        let from = self.path(file);
        // Somebody may have put another message there meanwhile; that one waits.
        let is_it = |now: Vec<u8>| now == taken || (id.is_some() && id_text(&from) == id);
        if fs::read(&from).is_ok_and(is_it) {
            fs::remove_file(&from).at("remove", &from)?;
        }
        atomic::sync_dir(&self.dir)
    }
}

/// The messages in a directory: regular files that end in `.md` and are not hidden, whatever else is there. What is written
/// under a hidden name is not finished.
fn names(dir: &Path) -> Result<Vec<OsString>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result.at("read", dir)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.at("read", dir)?;
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        if bytes.ends_with(b".md")
            && !atomic::is_unfinished(&name)
            && !bytes.starts_with(b".")
            && entry.file_type().is_ok_and(|kind| kind.is_file())
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A name that is free in `dir`, or taken by the same message: `a.md`, `a-2.md`, …
fn free(dir: &Path, file: &OsStr, id: Option<&str>) -> OsString {
    let is_free = |name: &OsStr| {
        let path = dir.join(name);
        path.symlink_metadata().is_err() || (id.is_some() && id_text(&path).as_deref() == id)
    };
    let stem = Path::new(file).file_stem().unwrap_or(file);
    let numbered = (2..).map(|number| {
        let mut name = stem.to_owned();
        name.push(format!("-{number}.md"));
        name
    });
    std::iter::once(file.to_owned())
        .chain(numbered)
        .find(|name| is_free(name))
        .expect("there is always another number")
}

fn id_text(path: &Path) -> Option<String> {
    Document::parse(&super::read_text(path).ok()?).ok()?.get_text("id")
}

/// What a file says of its id without being normalised.
fn id_of(path: &Path) -> Option<MessageId> {
    let text = super::read_text(path).ok()?;
    let document = Document::parse(&text).unwrap_or_default();
    super::normalise::stated_id(path.file_name()?, &document)
}

/// `YYYYMMDDHHmmss00`, to be compared with a chain's id.
fn stamp(seconds: i64) -> String {
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
    fn what_is_no_message_is_left_alone() {
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
    fn settling_twice_is_settling_once_and_another_message_keeps_its_file() {
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
        assert_eq!(inbox.files().unwrap(), ["a.md"], "what came meanwhile waits");
    }
}
