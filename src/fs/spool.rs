//! A file without a name, to which contents are copied that have to survive whatever another program does to their own files.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::atomic::TEMPORARY;
use super::random_hex;
use crate::error::{IoContext, Result};

/// Contents, one after the other. It is created when the first is added, and gone with the last [`SpooledContent`].
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    file: Option<Arc<File>>,
    length: u64,
}

/// A content in a spool.
#[derive(Clone, Debug)]
pub struct SpooledContent {
    file: Arc<File>,
    offset: u64,
    pub length: u64,
}

impl Spool {
    /// A spool on the file system of `dir`, which is created if it is missing.
    pub fn new(dir: impl Into<PathBuf>) -> Spool {
        Spool { dir: dir.into(), file: None, length: 0 }
    }

    /// Copies a file that is open at its beginning. `path` is its name, for messages.
    pub fn add(&mut self, content: &mut File, path: &Path) -> Result<SpooledContent> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new(unnamed(&self.dir)?))),
        };
        let mut out = &*file;
        let copied = out.seek(SeekFrom::Start(self.length)).and_then(|_| io::copy(content, &mut out));
        let length = copied.at("copy", path)?;
        let offset = self.length;
        self.length += length;
        Ok(SpooledContent { file, offset, length })
    }
}

/// Creates a file and removes its name.
fn unnamed(dir: &Path) -> Result<File> {
    fs::create_dir_all(dir).at("create", dir)?;
    let path = dir.join(format!("{TEMPORARY}{}", random_hex()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).at("create", &path)?;
    fs::remove_file(&path).at("remove", &path)?;
    Ok(file)
}

impl SpooledContent {
    pub fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(out, self.offset + offset)
    }

    pub fn reader(&self) -> SpoolReader<'_> {
        SpoolReader { content: self, at: 0 }
    }
}

/// Reads a content from its beginning.
pub struct SpoolReader<'s> {
    content: &'s SpooledContent,
    at: u64,
}

impl Read for SpoolReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.content.length - self.at;
        let wanted = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = self.content.file.read_at(&mut out[..wanted], self.content.offset + self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read_back_whatever_becomes_of_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(dir.path().join("spool"));
        let mut held = Vec::new();
        for content in ["one", "", "three"] {
            let path = dir.path().join("file");
            fs::write(&path, content).unwrap();
            held.push((content, spool.add(&mut File::open(&path).unwrap(), &path).unwrap()));
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path().join("spool")).unwrap().count(), 0);
        fs::remove_dir_all(dir.path().join("spool")).unwrap();
        for (content, spooled) in held {
            let mut text = String::new();
            spooled.reader().read_to_string(&mut text).unwrap();
            assert_eq!(text, content);
        }
    }
}
