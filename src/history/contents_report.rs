//! What a checkpoint holds of what it was made for. Every value is computed, none is assumed.

use serde_json::Value;

use crate::checkpoint::verify::Verification;

/// What a checkpoint holds within its scope.
pub struct ContentsReport {
    pub files: FileList,
    /// Parts of a state snapshot, and names of databases.
    pub state_keys: Vec<String>,
    pub hash: String,
    /// One line for the user.
    pub summary: String,
    /// How many things it holds.
    pub held: usize,
    /// How many more it holds in a way that may not be enough to restore them.
    pub uncertain: usize,
    /// What is within the scope and not held.
    pub left_out: Vec<String>,
    /// What has to be true for the checkpoint to be enough.
    pub assumptions: Vec<String>,
    /// Everything that it does not hold, for programs.
    pub coverage: Value,
    /// What the user has to know before anything happens to what is not protected.
    pub warnings: Vec<String>,
}

/// The files that a checkpoint holds within its scope.
pub enum FileList {
    /// So many files of the tree. Their names are in the manifest: there may be a million.
    InManifest(usize),
    /// decree's own files, or SQLite files.
    Names(Vec<String>),
}

impl FileList {
    pub fn len(&self) -> usize {
        match self {
            FileList::InManifest(count) => *count,
            FileList::Names(names) => names.len(),
        }
    }
}

/// How much of the scope can be restored, in hundredths: less than 1 as soon as anything is missing, or not everything was read back.
pub fn confidence(held: usize, missing: usize, verification: Verification) -> f64 {
    let share = match held + missing {
        0 => 1.0,
        all => held as f64 / all as f64,
    };
    let most = if missing > 0 { 0.95 } else { 1.0 };
    let most = most
        * match verification {
            Verification::ReadBack => 1.0,
            Verification::Recorded => 0.99,
            Verification::Unverified => 0.9,
        };
    (share * most * 100.0).floor() / 100.0
}

/// The assumptions that follow from what is left out.
pub(super) fn not_needed(left_out: &[String]) -> Vec<String> {
    left_out.iter().map(|name| format!("{name} does not have to be restored: it is left out")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_drops_as_soon_as_something_is_missing() {
        let read_back = Verification::ReadBack;
        assert_eq!(confidence(100, 0, read_back), 1.0);
        assert_eq!(confidence(0, 0, read_back), 1.0);
        assert!(confidence(1_000_000, 1, read_back) < 0.96);
        assert!(confidence(10, 10, read_back) < 0.5);
        assert_eq!(confidence(100, 0, Verification::Recorded), 0.99);
        assert_eq!(confidence(100, 0, Verification::Unverified), 0.9);
    }
}
