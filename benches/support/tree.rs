//! The synthetic project: as many files, directories and bytes as asked for, the same on every run.
//!
//! Its proportions are those of the Linux kernel: 79,000 files in 5,000 directories, 240 `.gitignore`
//! files and 1.3 GB. Every directory with a `.gitignore` also has a file that it ignores, which no
//! contender may store and no revert may touch.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use super::phrases::stems;
use super::random::Random;
use super::text::{self, Kind};
use super::{Result, interrupt};

/// The size of the tree that the goals are stated for.
pub const KERNEL_FILES: usize = 79_000;
const KERNEL_DIRECTORIES: usize = 5_000;
const KERNEL_IGNORE_FILES: usize = 240;
const KERNEL_SYMLINKS: usize = 60;

/// With these two, 79,000 files are 1.3 GB.
const MEDIAN_SIZE: f64 = 6_000.0;
const SIGMA: f64 = 1.42;
const SMALLEST: f64 = 64.0;
const LARGEST: f64 = 16.0 * 1024.0 * 1024.0;

const IGNORE_RULES: &str = "# built\n*.o\n*.mod.c\n!keep.o\n/generated/\n";
const IGNORED_FILE: &str = "built-in.o";

/// A tree on disk, and where its regular files lie in it.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// The directory of each file is known by its number, because names are shared within it.
    files: Vec<PlannedFile>,
    bytes: u64,
}

/// A file as planned: all of it follows from its number.
#[derive(Debug)]
struct PlannedFile {
    path: PathBuf,
    kind: Kind,
    directory: usize,
    size: usize,
    executable: bool,
}

impl Tree {
    /// Writes a tree of `count` files to `root`, which must not exist yet.
    pub fn build(root: &Path, count: usize) -> Result<Self> {
        let directories = plan_directories(scaled(count, KERNEL_DIRECTORIES));
        for directory in &directories {
            fs::create_dir_all(root.join(directory))?;
        }
        let files: Vec<PlannedFile> = (0..count).map(|index| PlannedFile::new(index, &directories)).collect();
        let bytes = write_all(root, &files)?;
        write_ignore_files(root, &directories, scaled(count, KERNEL_IGNORE_FILES))?;
        write_symlinks(root, &files, scaled(count, KERNEL_SYMLINKS))?;
        Ok(Self { root: root.to_owned(), files, bytes })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How many regular files the contenders have to store, `.gitignore` files aside.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The paths, relative to the root, of the files that hold text.
    pub fn text_files(&self) -> Vec<&Path> {
        let is_text = |file: &&PlannedFile| file.kind != Kind::Binary;
        self.files.iter().filter(is_text).map(|file| file.path.as_path()).collect()
    }

    /// Reads everything once, so that no contender pays for a cold cache.
    pub fn warm_cache(&self) -> Result<()> {
        let mut buffer = vec![0; 1 << 20];
        for file in &self.files {
            interrupt::check()?;
            let mut open = File::open(self.root.join(&file.path))?;
            while open.read(&mut buffer)? > 0 {}
        }
        Ok(())
    }
}

impl PlannedFile {
    fn new(index: usize, directories: &[PathBuf]) -> Self {
        let mut random = Random::for_item(0xf0, index);
        // One file for each directory first: git neither stores nor keeps an empty one.
        let directory = if index < directories.len() { index } else { random.below(directories.len()) };
        let kind = match random.below(100) {
            0..2 => Kind::Binary,
            2..12 => Kind::Prose,
            12..45 => Kind::Header,
            _ => Kind::Source,
        };
        let name = format!("{}_{}{index}.{}", stem(&mut random), stem(&mut random), kind.extension());
        Self {
            path: directories[directory].join(name),
            kind,
            directory,
            size: random.log_normal(MEDIAN_SIZE, SIGMA).clamp(SMALLEST, LARGEST) as usize,
            executable: random.chance(1),
        }
    }
}

fn scaled(files: usize, at_kernel_size: usize) -> usize {
    (files * at_kernel_size / KERNEL_FILES).max(1)
}

fn stem(random: &mut Random) -> &'static str {
    random.pick(stems())
}

/// The directories, parents first; the root is the empty path. Most lie three to five levels deep.
fn plan_directories(count: usize) -> Vec<PathBuf> {
    let mut directories = vec![PathBuf::new()];
    for index in 1..count {
        let mut random = Random::for_item(0xd0, index);
        let parent = random.skewed(index);
        let name = format!("{}{index}", stem(&mut random));
        directories.push(directories[parent].join(name));
    }
    directories
}

/// Writes the files on all cores and returns the sum of their sizes.
fn write_all(root: &Path, files: &[PlannedFile]) -> Result<u64> {
    let threads = thread::available_parallelism()?.get();
    let share = files.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let workers: Vec<_> = files
            .chunks(share)
            .enumerate()
            .map(|(number, chunk)| scope.spawn(move || write_share(root, chunk, number * share)))
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a writer does not panic")).sum()
    })
}

fn write_share(root: &Path, files: &[PlannedFile], first: usize) -> Result<u64> {
    let mut content = Vec::new();
    let mut bytes = 0;
    for (offset, file) in files.iter().enumerate() {
        interrupt::check()?;
        text::write_file(&mut content, file.kind, file.directory, first + offset, file.size);
        let path = root.join(&file.path);
        fs::write(&path, &content)?;
        if file.executable {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        bytes += content.len() as u64;
    }
    Ok(bytes)
}

fn write_ignore_files(root: &Path, directories: &[PathBuf], count: usize) -> io::Result<()> {
    for directory in directories.iter().step_by(directories.len() / count).take(count) {
        let directory = root.join(directory);
        fs::write(directory.join(".gitignore"), IGNORE_RULES)?;
        fs::write(directory.join(IGNORED_FILE), "not to be stored\n")?;
    }
    Ok(())
}

fn write_symlinks(root: &Path, files: &[PlannedFile], count: usize) -> io::Result<()> {
    for file in files.iter().step_by(files.len() / count).take(count) {
        let target = file.path.file_name().expect("every planned file has a name");
        symlink(target, root.join(&file.path).with_extension("link"))?;
    }
    Ok(())
}
