//! What a checkpoint leaves out, and why, so that no unprotected file is believed to be protected.

use serde::{Deserialize, Serialize};

use super::live_database::{LiveDatabase, LiveReason};
use super::path::{RepositoryPath, TreePath};

/// How many ignored files below the root are named. Of further ones, only the number is known.
const MAX_IGNORED_BELOW: usize = 1_000;

/// Who takes the tree back to a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayBack {
    /// A person, by a command that refuses to replace a database in use.
    OnRequest,
    /// decree itself, after a failure.
    Automatic,
}

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
    /// Sockets, FIFOs and devices, and `outputs`.
    #[serde(default)]
    pub special: Vec<TreePath>,
    /// Files that decree's own output was redirected to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<TreePath>,
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
    /// Paths whose owner, capabilities or `trusted.*` attributes are held, and which only root can restore; empty if root made the
    /// checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes_need_root: Vec<TreePath>,
}

impl Coverage {
    /// Sorts the lists, which a walk fills in any order.
    pub fn sort(&mut self) {
        self.ignored_dirs.sort();
        self.sensitive.sort();
        self.special.sort();
        self.outputs.sort();
        self.ignored_in_root.sort();
        self.ignored_below.sort();
        self.repositories.sort();
        self.hard_links.sort();
        self.attributes_need_root.sort();
    }

    /// Adds the paths of another part of the walk.
    pub fn absorb(&mut self, other: Coverage) {
        self.ignored_dirs.extend(other.ignored_dirs);
        self.ignored_files += other.ignored_files;
        self.sensitive.extend(other.sensitive);
        self.special.extend(other.special);
        self.outputs.extend(other.outputs);
        self.ignored_in_root.extend(other.ignored_in_root);
        self.repositories.extend(other.repositories);
        self.hard_links.extend(other.hard_links);
        self.attributes_need_root.extend(other.attributes_need_root);
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
    pub fn warnings(&self, way_back: WayBack) -> Vec<String> {
        let special: Vec<TreePath> = self.special_files().cloned().collect();
        let left_out = "left out of the checkpoint as";
        let lists = [
            (format!("{left_out} likely secrets"), &self.sensitive),
            (format!("{left_out} sockets, FIFOs or devices"), &special),
            (format!("{left_out} decree's own output"), &self.outputs),
            ("only root can restore the owner or an attribute of".to_owned(), &self.attributes_need_root),
        ];
        let lists = lists.into_iter().filter(|(_, paths)| !paths.is_empty());
        let mut warnings: Vec<String> =
            lists.map(|(what, paths)| format!("{what}: {}", listed(paths))).collect();
        warnings.extend(self.live_databases.iter().map(|database| {
            let is_in_use = database.reasons.contains(&LiveReason::InUse);
            let advice = match way_back {
                _ if !is_in_use => "only all of its files together are the database",
                WayBack::OnRequest => "it is not restored while another program has it open",
                WayBack::Automatic => "after a failure decree writes it back through SQLite, and what other programs wrote meanwhile is kept in set-aside/",
            };
            let (path, why) = (&database.path, database.why());
            format!("{path} is an SQLite database in use: {why}. {advice}; `--type database_savepoint` saves a database in use")
        }));
        warnings
    }

    /// Sockets, FIFOs and devices alone.
    pub fn special_files(&self) -> impl Iterator<Item = &TreePath> {
        self.special.iter().filter(|path| !has(&self.outputs, path))
    }

    /// Whether the path existed and was left out, other than by an ignore rule.
    pub fn excludes(&self, path: &TreePath) -> bool {
        has(&self.sensitive, path) || has(&self.special, path)
    }

    pub fn is_ignored_dir(&self, path: &TreePath) -> bool {
        has(&self.ignored_dirs, path)
    }
}

/// The first paths; further ones are only counted.
fn listed(paths: &[TreePath]) -> String {
    const MAX_LISTED: usize = 5;
    let shown: Vec<String> = paths.iter().take(MAX_LISTED).map(TreePath::to_string).collect();
    match paths.len().saturating_sub(MAX_LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn has(sorted: &[TreePath], path: &TreePath) -> bool {
    sorted.binary_search(path).is_ok()
}
