//! SQLite databases that were deleted or replaced under the programs that have them open, while decree puts the tree back by itself. The
//! tree gets them back from the checkpoint, as files; what the programs committed is only in files without a name, and is kept.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::checkpoint::deleted_database::DeletedDatabase;
use crate::checkpoint::stat_cache::Stat;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::fs::quarantine::{numbered, take_free_name};
use crate::project::Layout;

/// How often a database is copied, if its program writes to it meanwhile.
const MAX_TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Copies what deleted databases hold to `set_aside`. Returns a sentence for each, also for those that could not be copied.
pub fn keep_deleted(layout: &Layout, databases: &[DeletedDatabase], set_aside: &Path) -> Vec<String> {
    let note = |database: &DeletedDatabase| {
        let (path, users) = (&database.path, database.users());
        let kept = match keep_one(database, set_aside) {
            Ok(kept) => format!("is in {}", layout.shown(&kept)),
            Err(error) => format!("could not be kept ({error})"),
        };
        let guess = if database.is_guess {
            ", with the -wal or -journal file that seems to belong to it: the program has several deleted databases of this path open"
        } else {
            ""
        };
        format!(
            "{path} was deleted or replaced while {users} had it open: it is restored from the checkpoint, and what the program committed {kept}{guess}; \
             what it writes from now on goes to a deleted file until it opens the database again"
        )
    };
    databases.iter().map(note).collect()
}

/// Each gets a directory of its own: SQLite would take any other `-wal` file beside it for a part of it. Returns the directory.
fn keep_one(database: &DeletedDatabase, set_aside: &Path) -> Result<PathBuf> {
    let place = numbered_place(database, set_aside);
    let dir = take_free_name(
        |number| numbered(&place, ".", number),
        |dir| {
            let above = dir.parent().unwrap_or(set_aside);
            fs::create_dir_all(above).at("create", above)?;
            fs::create_dir(dir).unless_exists().at("create", dir)
        },
    )?;
    for _ in 0..MAX_TRIES {
        let before = main_stat(database);
        copy_files(database, &dir)?;
        // As long as its own file is the same, the journals of any moment belong to it.
        if before.is_some() && main_stat(database) == before {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    atomic::sync_dir(&dir)?;
    Ok(dir)
}

fn numbered_place(database: &DeletedDatabase, set_aside: &Path) -> PathBuf {
    let mut place = database.path.below(set_aside).into_os_string();
    place.push(".deleted");
    place.into()
}

fn main_stat(database: &DeletedDatabase) -> Option<Stat> {
    let (_, main) = database.files.first()?;
    rustix::fs::fstat(main).ok().map(|stat| Stat::of(&stat))
}

fn copy_files(database: &DeletedDatabase, dir: &Path) -> Result<()> {
    for (path, file) in &database.files {
        let to = dir.join(std::ffi::OsStr::from_bytes(path.name()));
        let mut out = File::options().write(true).create(true).truncate(true).open(&to).at("create", &to)?;
        let mut from = file;
        let copied = from.seek(SeekFrom::Start(0)).and_then(|_| io::copy(&mut from, &mut out));
        copied.and_then(|_| out.sync_all()).at("write", &to)?;
    }
    Ok(())
}
