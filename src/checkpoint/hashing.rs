//! Reading the files that a walk found: hashing them, and storing those that are new.
//!
//! Each thread takes batches of neighbouring files, so that files of one directory end up close together
//! in the store. A file that changes while it is read is read again. Large files are streamed:
//! memory does not grow with them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::attributes::Attributes;
use super::hash::ContentHash;
use super::live_database::database_of;
use super::path::TreePath;
use super::progress::Progress;
use super::root::{Dir, PathKind, Root};
use super::stat_cache::Stat;
use super::store::{FrameWriter, PackWriter};
use super::walk::{Item, ItemKind, UncachedEntry, Walk, WalkedDir};
use crate::error::{Error, Result};
use crate::interrupt::{self, Interruptible};

/// Up to this size a file is read at once, and hashed and stored from memory.
const SMALL: u64 = 1024 * 1024;
/// How many neighbouring files a thread takes at a time, at least.
const MIN_BATCH: usize = 64;
/// How many batches there are, about, of very many files: each takes memory.
const MAX_BATCHES: usize = 2048;
/// How often a file that keeps changing is read again.
const MAX_RETRIES: u32 = 6;

/// Where contents are stored, and which of them are not.
#[derive(Clone, Copy)]
pub struct ContentSink<'w> {
    pub writer: &'w PackWriter<'w>,
    pub withheld: &'w HashSet<ContentHash>,
}

/// Hashes every file whose hash is not known yet. With a sink, stores what the store lacks.
///
/// Files that vanished since the walk are removed from it. `forced` reads files whose mode forbids it, if this user owns them.
pub fn hash_missing(
    root: &Root,
    walk: &mut Walk,
    sink: Option<ContentSink<'_>>,
    forced: bool,
    progress: &dyn Progress,
) -> Result<()> {
    let with_attributes = walk.with_attributes;
    let batches = batches(walk);
    if batches.is_empty() {
        return Ok(());
    }
    progress.begin("reading", batches.iter().map(|batch| batch.files as u64).sum());
    let batches: Vec<Mutex<Batch<'_>>> = batches.into_iter().map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let threads = rayon::current_num_threads().min(batches.len());
    let results: Vec<Result<Vec<Failure>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut reader = FileReader::new(root, sink, forced, with_attributes)?;
                    while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let mut batch = batch.lock().expect("each batch is taken once");
                        reader.process(&mut batch)?;
                        progress.advance(batch.files as u64);
                    }
                    reader.finish()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker returns its errors")).collect()
    });
    progress.end();
    let failures: Vec<Failure> =
        results.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    if !failures.is_empty() {
        return Err(unreadable(failures));
    }
    walk.dirs.iter_mut().for_each(WalkedDir::drop_unread);
    Ok(())
}

fn is_unread(entry: &UncachedEntry) -> bool {
    matches!(entry, UncachedEntry::Unread)
}

/// Files that one thread reads.
#[derive(Default)]
struct Batch<'w> {
    slices: Vec<DirSlice<'w>>,
    files: usize,
}

/// Neighbouring items of a directory, and the uncached entries among them.
struct DirSlice<'w> {
    dir: &'w [u8],
    names: &'w [u8],
    items: &'w [Item],
    uncached: &'w mut [UncachedEntry],
}

fn uncached_items(items: &[Item]) -> impl Iterator<Item = &Item> {
    items.iter().filter(|item| matches!(item.kind, ItemKind::Uncached(_)))
}

/// Divides what has to be read into batches.
fn batches(walk: &mut Walk) -> Vec<Batch<'_>> {
    let unread: usize =
        walk.dirs.iter().map(|dir| dir.uncached.iter().filter(|entry| is_unread(entry)).count()).sum();
    let size = MIN_BATCH.max(unread / MAX_BATCHES);
    let mut batches = Vec::new();
    let mut batch = Batch::default();
    let dirs = walk.dirs.iter_mut().filter(|dir| !dir.uncached.is_empty());
    for WalkedDir { path, names, items, uncached, .. } in dirs {
        let mut rest = &mut uncached[..];
        for items in items.chunks(size) {
            let uncached =
                rest.split_off_mut(..uncached_items(items).count()).expect("there is one for each item");
            let files = uncached.iter().filter(|entry| is_unread(entry)).count();
            if files > 0 {
                batch.files += files;
                batch.slices.push(DirSlice { dir: path, names, items, uncached });
            }
            if batch.files >= size {
                batches.push(std::mem::take(&mut batch));
            }
        }
    }
    if batch.files > 0 {
        batches.push(batch);
    }
    batches
}

/// Reads files on behalf of one thread.
struct FileReader<'w> {
    root: &'w Root,
    frames: Option<FrameWriter<'w, 'w>>,
    /// Contents that are not to be stored.
    withheld: Option<&'w HashSet<ContentHash>>,
    forced: bool,
    with_attributes: bool,
    /// Those of the previous file: if they are the same, the value is shared.
    last_attributes: Attributes,
    /// The directory of the previous file: most files are in the same one.
    dir: Option<(&'w [u8], Dir)>,
    buffer: Vec<u8>,
    failures: Vec<Failure>,
}

/// A path that cannot be read.
type Failure = (TreePath, io::Error);

/// A file that was read, still open.
struct OpenedFile {
    hash: ContentHash,
    stat: Stat,
    attributes: Attributes,
    file: File,
}

/// The result of reading a file once.
enum ReadOutcome {
    Read(Stat, ContentHash, Attributes),
    Vanished,
    Changed,
    Unreadable(io::Error),
}

impl<'w> FileReader<'w> {
    fn new(
        root: &'w Root,
        sink: Option<ContentSink<'w>>,
        forced: bool,
        with_attributes: bool,
    ) -> Result<Self> {
        let frames = sink.map(|sink| sink.writer.frame_writer()).transpose()?;
        Ok(FileReader {
            root,
            frames,
            withheld: sink.map(|sink| sink.withheld),
            forced,
            with_attributes,
            last_attributes: Attributes::default(),
            dir: None,
            buffer: Vec::new(),
            failures: Vec::new(),
        })
    }

    fn process(&mut self, batch: &mut Batch<'w>) -> Result<()> {
        for DirSlice { dir, names, items, uncached } in &mut batch.slices {
            for (item, entry) in uncached_items(items).zip(uncached.iter_mut()) {
                if !is_unread(entry) {
                    continue;
                }
                interrupt::check()?;
                let name = item.name.of(names);
                let error = match self.read_with_retries(dir, name)? {
                    ReadOutcome::Read(stat, hash, attributes) => {
                        let attributes = attributes.shared_with(&self.last_attributes);
                        self.last_attributes = attributes.clone();
                        *entry = UncachedEntry::file(stat, hash, attributes);
                        continue;
                    }
                    ReadOutcome::Vanished => continue,
                    ReadOutcome::Changed => io::Error::other("it keeps changing while it is read"),
                    ReadOutcome::Unreadable(error) => error,
                };
                self.failures.push((TreePath::joined(dir, name), error));
            }
        }
        Ok(())
    }

    fn read_with_retries(&mut self, dir: &'w [u8], name: &[u8]) -> Result<ReadOutcome> {
        for retry in 0..MAX_RETRIES {
            match self.read(dir, name)? {
                ReadOutcome::Changed => std::thread::sleep(Duration::from_millis(1 << retry)),
                outcome => return Ok(outcome),
            }
        }
        let outcome = self.read(dir, name)?;
        let is_journal = || database_of(&TreePath::joined(dir, name)).is_some();
        if matches!(outcome, ReadOutcome::Changed) && self.frames.is_none() && is_journal() {
            return Ok(self.read_as_found(dir, name));
        }
        Ok(outcome)
    }

    /// Reads the journal of a database whatever happens to it meanwhile: for a comparison it is enough that it is not what it was.
    fn read_as_found(&mut self, dir: &'w [u8], name: &[u8]) -> ReadOutcome {
        let mut read = || -> io::Result<ReadOutcome> {
            let mut file = self.open(dir, name)?;
            let stat = Stat::of(&rustix::fs::fstat(&file)?);
            self.buffer.resize(SMALL as usize, 0);
            let (hash, _) = ContentHash::of_reader(&mut Interruptible(&mut file), &mut self.buffer)?;
            Ok(ReadOutcome::Read(stat, hash, Attributes::default()))
        };
        read().unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => ReadOutcome::Vanished,
            _ => ReadOutcome::Unreadable(error),
        })
    }

    /// An error is about the store, and ends the capture.
    fn read(&mut self, dir: &'w [u8], name: &[u8]) -> Result<ReadOutcome> {
        let OpenedFile { hash, stat, attributes, mut file } = match self.open_and_hash(dir, name) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(ReadOutcome::Changed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReadOutcome::Vanished),
            // One of decree's own errors is not about this file: the user interrupted the command.
            Err(error) => {
                return error.downcast().map_or_else(|error| Ok(ReadOutcome::Unreadable(error)), Err);
            }
        };
        let stored = self.store(&hash, &mut file, stat.size)?;
        Ok(if stored { ReadOutcome::Read(stat, hash, attributes) } else { ReadOutcome::Changed })
    }

    /// `None` if the file changed while it was read.
    fn open_and_hash(&mut self, dir: &'w [u8], name: &[u8]) -> io::Result<Option<OpenedFile>> {
        let mut file = self.open(dir, name)?;
        let mut attributes = Attributes::default();
        let mut before = rustix::fs::fstat(&file)?;
        if self.with_attributes {
            attributes = Attributes::read(&file, (before.st_uid, before.st_gid), self.root.owner())?;
            // Reading those of a file that is not readable changes its times, whatever is kept of them.
            if !attributes.is_none() || before.st_mode & 0o400 == 0 {
                before = rustix::fs::fstat(&file)?;
            }
        }
        let before = Stat::of(&before);
        if PathKind::of(before.mode) != PathKind::File {
            return Err(io::Error::other("it is no longer a regular file"));
        }
        let hash = match self.hash(&mut file, &before) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        };
        let unchanged = Stat::of(&rustix::fs::fstat(&file)?) == before;
        Ok(unchanged.then_some(OpenedFile { hash, stat: before, attributes, file }))
    }

    fn open(&mut self, path: &'w [u8], name: &[u8]) -> io::Result<File> {
        let dir = match self.dir.take() {
            Some((known, dir)) if std::ptr::eq(known, path) => dir,
            _ => self.root.dir(path)?,
        };
        let opened = dir.open(name);
        self.dir = Some((path, dir));
        match opened {
            Err(error) if self.forced && error.kind() == io::ErrorKind::PermissionDenied => {
                self.root.open_file_forced(&TreePath::joined(path, name))
            }
            result => result,
        }
    }

    /// Hashes a file, and leaves the content of a small one in the buffer.
    fn hash(&mut self, file: &mut File, stat: &Stat) -> io::Result<ContentHash> {
        if stat.size > SMALL {
            self.buffer.resize(SMALL as usize, 0);
            return ContentHash::of_reader(&mut Interruptible(file), &mut self.buffer).map(|(hash, _)| hash);
        }
        let size = stat.size as usize;
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        // A file that has grown since is noticed when its size is compared.
        file.read_exact(&mut self.buffer[..size])?;
        Ok(ContentHash::of(&self.buffer[..size]))
    }

    /// Returns false if a large file is no longer what was hashed.
    fn store(&mut self, hash: &ContentHash, file: &mut File, size: u64) -> Result<bool> {
        let is_withheld = self.withheld.is_some_and(|withheld| withheld.contains(hash));
        let Some(frames) = self.frames.as_mut().filter(|_| !is_withheld) else { return Ok(true) };
        let Some(claim) = frames.writer.claim(hash)? else { return Ok(true) };
        if size <= SMALL {
            frames.add(claim, &self.buffer[..size as usize])?;
            return Ok(true);
        }
        file.rewind()
            .map_err(|error| Error::integrity("cannot read a large file a second time").caused_by(error))?;
        Ok(frames.add_stream(claim, &mut Interruptible(file))? == *hash)
    }

    fn finish(mut self) -> Result<Vec<Failure>> {
        self.frames.as_mut().map_or(Ok(()), FrameWriter::flush)?;
        Ok(self.failures)
    }
}

fn unreadable(mut failures: Vec<Failure>) -> Error {
    failures.sort_by(|a, b| a.0.cmp(&b.0));
    let lines = failures.iter().map(|(path, error)| format!("{path}: {error}")).collect();
    let count = crate::humanize::count(failures.len(), "file");
    let is_database = failures.iter().any(|(path, _)| database_of(path).is_some());
    Error::integrity(format!("the checkpoint is not complete: {count} cannot be read"))
        .details(lines, 20)
        .hint(if is_database {
            "stop the program that writes to the database, or exclude its files with lines in .decreeignore and save it with `--type database_savepoint`"
        } else {
            "make them readable, or exclude them with a line in .decreeignore"
        })
}
