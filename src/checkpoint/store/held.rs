//! A store whose packs can be read whatever a program does to their files.
//!
//! A pack is held open: that costs a descriptor and no copy. If there are more packs than descriptors, the smallest are copied into a
//! file without a name. A pack that can be held in neither way is an error, before the program starts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::directory::Store;
use super::pack::{HeldPack, HeldSource, Pack, Packs};
use crate::error::{Error, IoContext, Result};
use crate::fs::spool::Spool;
use crate::fs::{FileStamp, atomic, descriptors};

/// Packs may take one in this many of the files that decree may have open.
const OPEN_PARTS: usize = 4;

impl Store {
    /// Holds all packs from here on.
    pub fn hold(&self) -> Result<()> {
        let mut left = descriptors::raise_limit() / OPEN_PARTS;
        let mut spool = Spool::new(&self.dir);
        let former = self.held_packs();
        let former: HashMap<&Path, &Arc<HeldPack>> = former
            .iter()
            .flat_map(|packs| packs.iter())
            .filter_map(|pack| Some((pack.path.as_path(), pack.held.as_ref()?)))
            .collect();
        let held = self.open_packs(&mut |path, stamp, file| {
            // One that was held before and is the same file stays held, without being opened again.
            let former = former.get(path).filter(|held| held.stamp == stamp);
            if let Some(held) =
                former.filter(|held| left > 0 || matches!(held.source, HeldSource::Spooled(_)))
            {
                left -= usize::from(matches!(held.source, HeldSource::Open(_)));
                return Ok(Some(Arc::clone(held)));
            }
            let mut file = file()?;
            let stamp = FileStamp::of(&file.metadata().at("read", path)?);
            if left > 0 {
                left -= 1;
                return Ok(Some(Arc::new(HeldPack { source: HeldSource::Open(file), stamp })));
            }
            let content = spool.add(&mut file, path).map_err(|error| cannot_hold(path, error))?;
            Ok(Some(Arc::new(HeldPack { source: HeldSource::Spooled(content), stamp })))
        })?;
        *self.held.write().expect("no thread panics while it has this lock") = Some(Arc::new(held));
        Ok(())
    }

    pub(super) fn held_packs(&self) -> Option<Arc<Packs>> {
        self.held.read().expect("no thread panics while it has this lock").clone()
    }

    /// Whether no file of a held pack was written to, replaced or removed since.
    pub fn is_untouched(&self) -> bool {
        let is_same = |pack: &Pack| {
            let found = pack.path.symlink_metadata();
            pack.held.as_ref().is_none_or(|held| found.is_ok_and(|found| FileStamp::of(&found) == held.stamp))
        };
        self.held_packs().is_none_or(|held| held.iter().all(is_same))
    }

    /// Writes held packs again whose contents are no longer in the store. Returns how many.
    pub fn repair(&self) -> Result<usize> {
        let Some(held) = self.held_packs() else { return Ok(0) };
        if self.is_untouched() || held.iter().all(is_in_place) {
            return Ok(0);
        }
        self.discard_packs();
        let mut count = 0;
        for pack in held.iter().filter(|pack| !is_in_place(pack)) {
            // Another process may have merged the pack with others.
            if !pack.path.exists() && self.has_all_of(pack)? {
                continue;
            }
            self.write_again(pack)?;
            count += 1;
        }
        if count > 0 {
            atomic::sync_dir(&self.dir)?;
            self.discard_packs();
        }
        Ok(count)
    }

    fn has_all_of(&self, pack: &Pack) -> Result<bool> {
        let stored = self.snapshot()?;
        Ok(pack.index.blobs().all(|blob| stored.contains(&blob.hash)))
    }

    fn write_again(&self, pack: &Pack) -> Result<()> {
        let held = pack.held.as_ref().expect("all packs of a held store are held");
        fs::create_dir_all(&self.dir).at("create", &self.dir)?;
        let (mut file, temporary) = self.new_temporary()?;
        let mut source: Box<dyn Read> = match &held.source {
            HeldSource::Open(open) => Box::new(OpenPack { file: open, at: 0 }),
            HeldSource::Spooled(content) => Box::new(content.reader()),
        };
        io::copy(&mut source, &mut file)
            .and_then(|_| file.sync_data())
            .at("write", &temporary)
            .and_then(|()| fs::rename(&temporary, &pack.path).at("write", &pack.path))
            .inspect_err(|_| drop(fs::remove_file(&temporary)))
    }
}

/// Whether the file of a held pack is what it was. One that is held open and was overwritten in place has no other copy.
fn is_in_place(pack: &Pack) -> bool {
    let Some(held) = &pack.held else { return true };
    match &held.source {
        HeldSource::Open(file) => crate::fs::is_at(file, &pack.path),
        HeldSource::Spooled(_) => {
            pack.path.symlink_metadata().is_ok_and(|found| FileStamp::of(&found) == held.stamp)
        }
    }
}

fn cannot_hold(path: &Path, error: Error) -> Error {
    Error::integrity(format!(
        "the content of {} cannot be held, so it could not be restored if the command deleted it: {error}",
        path.display()
    ))
    .detail("nothing was started")
    .hint("raise the limit on open files (`ulimit -n`), or free some disk space")
}

/// Reads a pack from its beginning, whatever the position of its descriptor.
struct OpenPack<'p> {
    file: &'p File,
    at: u64,
}

impl Read for OpenPack<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(out, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}
