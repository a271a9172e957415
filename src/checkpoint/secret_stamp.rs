//! Which file a likely secret was, without a word about its content: not even a hash, by which a short secret could be guessed.

use std::collections::BTreeMap;

use rustix::fs::{AtFlags, statat};
use serde::{Deserialize, Serialize};

use super::path::TreePath;
use super::root::{Root, is_absent};
use super::stat_cache::Stat;
use crate::error::{IoContext, Result};

/// A file at one moment: its inode, and when it was last written and changed. The kernel alone sets the time of the last change, so
/// an edited file has another stamp, whatever its size and its other time; so has a copy, and a file that was moved away and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretStamp(String);

/// Which files likely secrets were; `None` if that is not recorded.
pub type SecretFiles = BTreeMap<TreePath, Option<SecretStamp>>;

impl SecretStamp {
    /// The file at a path; `None` if nothing is there.
    pub fn of(root: &Root, path: &TreePath) -> Result<Option<SecretStamp>> {
        let stat =
            root.parent(path).and_then(|(dir, name)| Ok(statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?));
        match stat {
            Ok(stat) => {
                let Stat { inode, mtime, ctime, .. } = Stat::of(&stat);
                Ok(Some(SecretStamp(format!("{inode} {} {}", mtime.nanos(), ctime.nanos()))))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error).at("read", path),
        }
    }
}
