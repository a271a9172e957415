//! What a checkpoint does not hold, and why: so that nobody believes a file was protected that was not.

use serde::{Deserialize, Serialize};

use super::path::TreePath;
use super::quote;

/// The paths a walk left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Ignored directories; entered, if at all, only for what a `.decreeignore` asks for.
    #[serde(default)]
    pub ignored_dirs: Vec<PathText>,
    /// How many single files were ignored.
    #[serde(default)]
    pub ignored_files: u64,
    /// Left out because they are likely to hold secrets.
    #[serde(default)]
    pub sensitive: Vec<PathText>,
    /// Sockets, FIFOs and devices.
    #[serde(default)]
    pub special: Vec<PathText>,
}

impl Coverage {
    /// Puts the lists in order: walks find things in any.
    pub fn sort(&mut self) {
        self.ignored_dirs.sort();
        self.sensitive.sort();
        self.special.sort();
    }

    /// Adds what another part of the walk left out.
    pub fn absorb(&mut self, other: Coverage) {
        self.ignored_dirs.extend(other.ignored_dirs);
        self.ignored_files += other.ignored_files;
        self.sensitive.extend(other.sensitive);
        self.special.extend(other.special);
    }

    /// What people have to know before something happens to what is not protected: a sentence for each kind.
    pub fn warnings(&self) -> Vec<String> {
        /// More are counted, not named.
        const NAMED: usize = 5;
        let lists = [
            ("likely to hold secrets", &self.sensitive),
            ("sockets, FIFOs, devices or decree's own output", &self.special),
        ];
        let mut warnings = Vec::new();
        for (what, paths) in lists.into_iter().filter(|(_, paths)| !paths.is_empty()) {
            let shown: Vec<String> = paths.iter().take(NAMED).map(|path| path.0.to_string()).collect();
            let more = match paths.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            warnings.push(format!("not in the checkpoint, as {what}: {}{more}", shown.join(", ")));
        }
        warnings
    }

    /// Whether this path was left out as sensitive.
    pub fn is_sensitive(&self, path: &TreePath) -> bool {
        self.sensitive.binary_search_by(|known| known.0.cmp(path)).is_ok()
    }

    /// Whether this was an ignored directory.
    pub fn is_ignored_dir(&self, path: &TreePath) -> bool {
        self.ignored_dirs.binary_search_by(|known| known.0.cmp(path)).is_ok()
    }

    /// Whether this path was left out as a socket, FIFO or device.
    pub fn is_special(&self, path: &TreePath) -> bool {
        self.special.binary_search_by(|known| known.0.cmp(path)).is_ok()
    }
}

/// A path that is written as text, quoted if it has to be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PathText(pub TreePath);

impl Serialize for PathText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&quote::in_json(self.0.as_bytes()))
    }
}

impl<'de> Deserialize<'de> for PathText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_path(&text).map(PathText).map_err(serde::de::Error::custom)
    }
}

/// Reads a path as JSON carries it.
pub fn parse_path(text: &str) -> Result<TreePath, String> {
    let shown = || quote::one_line(text);
    let bytes = quote::from_json(text).ok_or_else(|| format!("path {} is quoted wrongly", shown()))?;
    TreePath::new(&*bytes).map_err(|why| format!("path {} {why}", shown()))
}
