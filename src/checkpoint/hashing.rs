//! Reading what a walk found: hashing it, and storing it if it is new.
//!
//! Threads take runs of neighbouring files, so that what lies together in the tree lies together
//! in the store. A file that changes while it is read is read again. Large files are streamed:
//! memory does not grow with them.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::hash::ContentHash;
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
/// How many neighbouring files a thread takes at a time.
const RUN: usize = 64;
/// How often a file that keeps changing is read again.
const TRIES: u32 = 6;

/// Hashes every file whose hash is not known yet. With a deposit, stores what the store lacks.
///
/// Files that vanished meanwhile leave the walk. `forced` reads files whose mode forbids it, if this user owns them.
pub fn hash_missing(
    root: &Root,
    walk: &mut Walk,
    deposit: Option<&PackWriter<'_>>,
    forced: bool,
    progress: &dyn Progress,
) -> Result<()> {
    let runs = runs(walk);
    if runs.is_empty() {
        return Ok(());
    }
    progress.begin("reading", runs.iter().map(|run| run.files as u64).sum());
    let runs: Vec<Mutex<Run<'_>>> = runs.into_iter().map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let threads = rayon::current_num_threads().min(runs.len());
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut worker = Worker::new(root, deposit, forced)?;
                    while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let mut run = run.lock().expect("each run is taken once");
                        for Piece { dir, names, items, news } in &mut run.pieces {
                            for (item, news) in news_of(items).zip(news.iter_mut()) {
                                if !is_unread(news) {
                                    continue;
                                }
                                interrupt::check()?;
                                let file = Unread { dir, name: item.name.of(names) };
                                match worker.process(&file)? {
                                    Ok(read) => *news = read,
                                    Err(failure) => {
                                        failures.lock().expect("pushing does not panic").push(failure);
                                    }
                                }
                            }
                        }
                        progress.advance(run.files as u64);
                    }
                    worker.finish()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker returns its errors")).collect()
    });
    progress.end();
    results.into_iter().collect::<Result<()>>()?;
    let failures = failures.into_inner().expect("all workers are done");
    if !failures.is_empty() {
        return Err(unreadable(failures));
    }
    walk.dirs.iter_mut().for_each(WalkedDir::drop_unread);
    Ok(())
}

fn is_unread(news: &UncachedEntry) -> bool {
    matches!(news, UncachedEntry::Unread)
}

/// Files that one thread reads.
#[derive(Default)]
struct Run<'w> {
    pieces: Vec<Piece<'w>>,
    files: usize,
}

/// Some of a directory's items, and the news among them.
struct Piece<'w> {
    dir: &'w [u8],
    names: &'w [u8],
    items: &'w [Item],
    news: &'w mut [UncachedEntry],
}

fn news_of(items: &[Item]) -> impl Iterator<Item = &Item> {
    items.iter().filter(|item| matches!(item.kind, ItemKind::Uncached(_)))
}

/// Cuts what has to be read into runs.
fn runs(walk: &mut Walk) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut run = Run::default();
    for WalkedDir { path, names, items, news, .. } in &mut walk.dirs {
        let mut rest = &mut news[..];
        for items in items.chunks(RUN) {
            let news = rest.split_off_mut(..news_of(items).count()).expect("each item has its news");
            let files = news.iter().filter(|news| is_unread(news)).count();
            if files > 0 {
                run.files += files;
                run.pieces.push(Piece { dir: path, names, items, news });
            }
            if run.files >= RUN {
                runs.push(std::mem::take(&mut run));
            }
        }
    }
    if run.files > 0 {
        runs.push(run);
    }
    runs
}

/// A file to be read.
struct Unread<'w> {
    dir: &'w [u8],
    name: &'w [u8],
}

struct Worker<'w> {
    root: &'w Root,
    deposit: Option<&'w PackWriter<'w>>,
    filler: Option<FrameWriter<'w, 'w>>,
    forced: bool,
    /// The directory of the file before: most files are in the same one.
    dir: Option<(&'w [u8], Dir)>,
    buffer: Vec<u8>,
}

/// A path that cannot be read.
type Failure = (TreePath, io::Error);

/// What reading a file came to.
enum Outcome {
    Read(ContentHash, Stat),
    Vanished,
    Changed,
}

impl<'w> Worker<'w> {
    fn new(root: &'w Root, deposit: Option<&'w PackWriter<'_>>, forced: bool) -> Result<Self> {
        Ok(Worker {
            root,
            deposit,
            filler: deposit.map(PackWriter::filler).transpose()?,
            forced,
            dir: None,
            buffer: Vec::new(),
        })
    }

    fn process(&mut self, file: &Unread<'w>) -> Result<Result<UncachedEntry, Failure>> {
        let mut tries = 0;
        let error = loop {
            match self.read(file)? {
                Ok(Outcome::Read(hash, stat)) => return Ok(Ok(UncachedEntry::File(stat, hash))),
                Ok(Outcome::Vanished) => return Ok(Ok(UncachedEntry::Unread)),
                Ok(Outcome::Changed) if tries < TRIES => {
                    std::thread::sleep(Duration::from_millis(1 << tries));
                    tries += 1;
                }
                Ok(Outcome::Changed) => break io::Error::other("it keeps changing while it is read"),
                Err(error) => break error,
            }
        };
        Ok(Err((TreePath::joined(file.dir, file.name), error)))
    }

    /// The outer error is the store's and ends everything; the inner one is this file's.
    fn read(&mut self, file: &Unread<'w>) -> Result<io::Result<Outcome>> {
        let (hash, before, mut file) = match self.open_and_hash(file) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(Ok(Outcome::Changed)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(Outcome::Vanished)),
            // An error of our own is not this file's: somebody asked us to stop.
            Err(error) => return error.downcast::<Error>().map_or_else(|error| Ok(Err(error)), Err),
        };
        let stored = self.store(&hash, &mut file, before.size)?;
        Ok(Ok(if stored { Outcome::Read(hash, before) } else { Outcome::Changed }))
    }

    /// `None` if the file changed meanwhile.
    fn open_and_hash(&mut self, file: &Unread<'w>) -> io::Result<Option<(ContentHash, Stat, File)>> {
        let mut file = self.open(file)?;
        let before = Stat::of(&rustix::fs::fstat(&file)?);
        if PathKind::of(before.mode) != PathKind::File {
            return Err(io::Error::other("it is no longer a regular file"));
        }
        let hash = match self.hash(&mut file, &before) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        };
        let unchanged = Stat::of(&rustix::fs::fstat(&file)?) == before;
        Ok(unchanged.then_some((hash, before, file)))
    }

    fn open(&mut self, file: &Unread<'w>) -> io::Result<File> {
        let dir = match self.dir.take() {
            Some((path, dir)) if std::ptr::eq(path, file.dir) => dir,
            _ => self.root.dir(file.dir)?,
        };
        let opened = dir.open(file.name);
        self.dir = Some((file.dir, dir));
        match opened {
            Err(error) if self.forced && error.kind() == io::ErrorKind::PermissionDenied => {
                self.root.open_file_forced(&TreePath::joined(file.dir, file.name))
            }
            result => result,
        }
    }

    /// A small file's content stays in the buffer.
    fn hash(&mut self, file: &mut File, stat: &Stat) -> io::Result<ContentHash> {
        if stat.size > SMALL {
            self.buffer.resize(SMALL as usize, 0);
            return ContentHash::of_reader(&mut Interruptible(file), &mut self.buffer).map(|(hash, _)| hash);
        }
        let size = stat.size as usize;
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        // A file that is longer by now fails the comparison of its sizes.
        file.read_exact(&mut self.buffer[..size])?;
        Ok(ContentHash::of(&self.buffer[..size]))
    }

    /// Returns false if a large file is no longer what it was when it was hashed.
    fn store(&mut self, hash: &ContentHash, file: &mut File, size: u64) -> Result<bool> {
        let (Some(deposit), Some(filler)) = (self.deposit, &mut self.filler) else {
            return Ok(true);
        };
        let Some(claim) = deposit.claim(hash)? else {
            return Ok(true);
        };
        if size <= SMALL {
            filler.add(claim, &self.buffer[..size as usize])?;
            return Ok(true);
        }
        let rewound = file
            .rewind()
            .map_err(|error| Error::integrity("cannot read a large file a second time").caused_by(error));
        rewound?;
        Ok(filler.add_stream(claim, &mut Interruptible(file))? == *hash)
    }

    fn finish(mut self) -> Result<()> {
        self.filler.as_mut().map_or(Ok(()), FrameWriter::flush)
    }
}

fn unreadable(mut failures: Vec<Failure>) -> Error {
    failures.sort_by(|a, b| a.0.cmp(&b.0));
    let lines = failures.iter().map(|(path, error)| format!("{path}: {error}")).collect();
    let count = crate::humanize::count(failures.len(), "file");
    Error::integrity(format!("the checkpoint is not complete: {count} cannot be read"))
        .details(lines, 20)
        .hint("make them readable, or leave them out with a line in .decreeignore")
}
