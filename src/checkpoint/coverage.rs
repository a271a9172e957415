//! What a checkpoint leaves out, and why, so that no unprotected file is believed to be protected.

use serde::{Deserialize, Serialize};

use super::live_database::{LiveDatabase, LiveReason};
use super::path::{RepositoryPath, TreePath};

/// How many ignored files below the root are named. Of further ones, only the number is known.
const MAX_IGNORED_BELOW: usize = 1_000;

/// The paths that a walk left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Ignored directories; a walk enters them only if a `.decreeignore` may keep something in them.
    #[serde(default)]
    pub ignored_dirs: Vec<TreePath>,
    /// How many single files were ignored, without likely secrets.
    #[serde(default)]
    pub ignored_files: u64,
    /// Left out because they are likely to hold secrets, whether or not an ignore rule hides them.
    #[serde(default)]
    pub sensitive: Vec<TreePath>,
    /// Sockets, FIFOs and devices.
    #[serde(default)]
    pub special: Vec<TreePath>,
    /// SQLite databases that are held as files, and that other programs were using.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live_databases: Vec<LiveDatabase>,
    /// Ignored entries directly in the root, directories and files: their existence is checked when a run is reverted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_in_root: Vec<TreePath>,
    /// Ignored files below the root that are not in an ignored directory: their existence is checked, too. At most
    /// [`MAX_IGNORED_BELOW`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_below: Vec<TreePath>,
    /// The `.git` of every repository outside of ignored directories: their existence is checked after every run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<RepositoryPath>,
    /// Files that have other names, too. Their content is held, and that they are one file is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hard_links: Vec<TreePath>,
}

impl Coverage {
    /// Sorts the lists, which a walk fills in any order.
    pub fn sort(&mut self) {
        self.ignored_dirs.sort();
        self.sensitive.sort();
        self.special.sort();
        self.ignored_in_root.sort();
        self.ignored_below.sort();
        self.repositories.sort();
        self.hard_links.sort();
    }

    /// Adds the paths of another part of the walk.
    pub fn absorb(&mut self, other: Coverage) {
        self.ignored_dirs.extend(other.ignored_dirs);
        self.ignored_files += other.ignored_files;
        self.sensitive.extend(other.sensitive);
        self.special.extend(other.special);
        self.ignored_in_root.extend(other.ignored_in_root);
        self.repositories.extend(other.repositories);
        self.hard_links.extend(other.hard_links);
        let room = MAX_IGNORED_BELOW.saturating_sub(self.ignored_below.len());
        self.ignored_below.extend(other.ignored_below.into_iter().take(room));
    }

    /// Counts an ignored file, and notes its path.
    pub fn add_ignored_file(&mut self, path: TreePath) {
        self.ignored_files += 1;
        if path.split().0.is_empty() {
            self.ignored_in_root.push(path);
        } else if self.ignored_below.len() < MAX_IGNORED_BELOW {
            self.ignored_below.push(path);
        }
    }

    /// One warning for each kind of unprotected path.
    pub fn warnings(&self) -> Vec<String> {
        /// Further paths are only counted.
        const MAX_LISTED: usize = 5;
        let lists = [
            ("likely secrets", &self.sensitive),
            ("sockets, FIFOs, devices or decree's own output", &self.special),
        ];
        let mut warnings = Vec::new();
        for (what, paths) in lists.into_iter().filter(|(_, paths)| !paths.is_empty()) {
            let shown: Vec<String> = paths.iter().take(MAX_LISTED).map(TreePath::to_string).collect();
            let more = match paths.len().saturating_sub(MAX_LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            warnings.push(format!("left out of the checkpoint as {what}: {}{more}", shown.join(", ")));
        }
        warnings.extend(self.live_databases.iter().map(|database| {
            let advice = if database.reasons.contains(&LiveReason::InUse) {
                "it is not restored while another program has it open"
            } else {
                "only all of its files together are the database"
            };
            let (path, why) = (&database.path, database.why());
            format!("{path} is an SQLite database in use: {why}. {advice}; `--type database_savepoint` saves a database in use")
        }));
        warnings
    }

    /// Whether the path existed and was left out, other than by an ignore rule.
    pub fn excludes(&self, path: &TreePath) -> bool {
        has(&self.sensitive, path) || has(&self.special, path)
    }

    pub fn is_ignored_dir(&self, path: &TreePath) -> bool {
        has(&self.ignored_dirs, path)
    }
}

fn has(sorted: &[TreePath], path: &TreePath) -> bool {
    sorted.binary_search(path).is_ok()
}
