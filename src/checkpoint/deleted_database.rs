//! SQLite databases in the tree that were deleted or replaced while other programs had them open.
//!
//! Such a program reads and writes a file without a name, and notices nothing. What it commits is gone when it ends. The file can be read
//! as long as the program has it open, through `/proc`.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::compare::Change;
use super::live_database::{DatabaseInUse, database_of, has_magic, open_database, parts, refusal};
use super::manifest::Manifest;
use super::path::TreePath;
use super::root::Root;
use super::workspace::Workspace;
use crate::error::Error;
use crate::process::file_users::{self, DeletedFile};

/// A database that other programs have open, and that is not at its path any more.
#[derive(Debug)]
pub struct DeletedDatabase {
    pub path: TreePath,
    /// The programs: `python3 (process 12)`.
    pub users: Vec<String>,
    /// Its own file, then its `-wal` or `-journal` file, each with the path that it had.
    pub files: Vec<(TreePath, File)>,
    /// The program has several of this path open, and only the order of its descriptors says which journal belongs to which.
    pub is_guess: bool,
    /// Where `/proc` has its own file, for people; `None` if that is still at its path.
    link: Option<PathBuf>,
}

impl DeletedDatabase {
    pub fn users(&self) -> String {
        self.users.join(", ")
    }

    /// Whether a path is the database, or one of the files beside it.
    pub fn owns(&self, path: &TreePath) -> bool {
        self.path == *path || database_of(path).is_some_and(|database| database == self.path)
    }

    fn identity(&self) -> Option<(u64, u64)> {
        let found = self.files.first()?.1.metadata().ok()?;
        Some((found.dev(), found.ino()))
    }

    /// What a person has to know who stops the program.
    fn advice(&self) -> Option<String> {
        let (path, link) = (&self.path, self.link.as_ref()?.display());
        Some(format!(
            "{path} was deleted or replaced: what was committed since is only in {link}, gone when that program ends"
        ))
    }
}

/// Every such database below the root. Processes that `/proc` hides are ignored.
pub fn find(root: &Root) -> Vec<DeletedDatabase> {
    // The files of a database belong together if one process has them open.
    let mut groups: BTreeMap<(TreePath, String), Vec<DeletedFile>> = BTreeMap::new();
    for file in file_users::deleted_below(root.path()) {
        if let Ok(path) = TreePath::new(file.path.as_os_str().as_bytes()) {
            let database = database_of(&path).unwrap_or(path);
            groups.entry((database, file.user.clone())).or_default().push(file);
        }
    }
    let mut found: Vec<DeletedDatabase> = Vec::new();
    for ((path, user), files) in groups {
        for database in of_process(root, &path, &user, &files) {
            let is_same = |known: &&mut DeletedDatabase| known.identity() == database.identity();
            match found.iter_mut().find(is_same) {
                Some(known) => known.users.extend(database.users),
                None => found.push(database),
            }
        }
    }
    found
}

/// The deleted databases that one process has open under the same path: usually one. A process opens the files of one database one after
/// the other, so the first `-wal` file belongs to the first database.
fn of_process(root: &Root, path: &TreePath, user: &str, files: &[DeletedFile]) -> Vec<DeletedDatabase> {
    let mut names = parts(path).into_iter();
    let Some(own) = names.next() else { return Vec::new() };
    let mut journals: Vec<(TreePath, std::vec::IntoIter<(PathBuf, File)>)> =
        names.map(|name| (name.clone(), opened(files, &name).into_iter())).collect();
    let mut mains: Vec<(Option<PathBuf>, File)> =
        opened(files, &own).into_iter().map(|(link, file)| (Some(link), file)).collect();
    mains.retain(|(_, file)| has_magic(file));
    if mains.is_empty() && journals.iter().any(|(_, files)| files.len() > 0) {
        // Only the file with a part of it was deleted.
        mains.extend(open_database(root, path).map(|file| (None, file)));
    }
    let is_guess = mains.len() > 1 && journals.iter().any(|(_, files)| files.len() > 0);
    let database = |(link, file): (Option<PathBuf>, File)| {
        let mut files = vec![(own.clone(), file)];
        for (name, of_name) in &mut journals {
            files.extend(of_name.next().map(|(_, file)| (name.clone(), file)));
        }
        DeletedDatabase { path: path.clone(), users: vec![user.to_owned()], files, is_guess, link }
    };
    mains.into_iter().map(database).collect()
}

/// The files of a process that had this path, each once.
fn opened(files: &[DeletedFile], path: &TreePath) -> Vec<(PathBuf, File)> {
    let mut known = Vec::new();
    let of_path = files.iter().filter(|file| file.path.as_os_str().as_bytes() == path.as_bytes());
    let open = |file: &DeletedFile| {
        let open = File::open(&file.link).ok()?;
        let found = open.metadata().ok().filter(|found| found.is_file())?;
        let identity = (found.dev(), found.ino());
        if known.contains(&identity) {
            return None;
        }
        known.push(identity);
        Some((file.link.clone(), open))
    };
    of_path.filter_map(open).collect()
}

impl Workspace {
    /// Those that a restore of these changes would bring back.
    pub fn deleted_databases(&self, changes: &[Change]) -> Vec<DeletedDatabase> {
        let may_belong = |change: &Change| change.may_be_database() || database_of(&change.path).is_some();
        self.deleted_among(changes.iter().filter(|change| may_belong(change)).map(|change| &change.path))
    }

    /// Those among these paths. Looks for them only if there are any paths.
    pub(super) fn deleted_among<'p>(
        &self,
        paths: impl Iterator<Item = &'p TreePath>,
    ) -> Vec<DeletedDatabase> {
        let paths: Vec<&TreePath> = paths.collect();
        let mut found = if paths.is_empty() { Vec::new() } else { find(self.root()) };
        found.retain(|database| paths.iter().any(|path| database.owns(path)));
        found
    }

    /// Those of a checkpoint that were in use when it was made, or that `is_changed` accepts.
    pub fn deleted_since(
        &self,
        manifest: &Manifest,
        is_changed: impl Fn(&DeletedDatabase) -> bool,
    ) -> Vec<DeletedDatabase> {
        let mut found = find(self.root());
        let live = &manifest.coverage.live_databases;
        found.retain(|database| {
            let was_live = live.iter().any(|live| live.path == database.path);
            manifest.tree.has(&database.path) && (was_live || is_changed(database))
        });
        found
    }
}

/// The error of a restore that a person wants, and that would bring deleted databases back or replace others in use.
pub fn refuse(what: &str, live: &[DatabaseInUse], deleted: &[DeletedDatabase]) -> Option<Error> {
    let in_use = |database: &DeletedDatabase| DatabaseInUse {
        path: database.path.clone(),
        users: database.users.clone(),
    };
    let mut databases: Vec<DatabaseInUse> = live.to_vec();
    for database in deleted.iter().map(in_use) {
        if !databases.iter().any(|known| known.path == database.path) {
            databases.push(database);
        }
    }
    let advice = deleted.iter().filter_map(DeletedDatabase::advice).collect();
    (!databases.is_empty()).then(|| refusal(what, &databases).details(advice, 20))
}
