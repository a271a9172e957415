//! What kept runs recorded of likely secrets. A commit of a run has none of these files, nor a copy of one.

use std::collections::{BTreeSet, HashMap};

use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;
use crate::checkpoint::secret_copies::secret_content;
use crate::checkpoint::sensitive::{Sensitive, Suspicion, holds_private_key};
use crate::history::uncaptured::SecretFate;
use crate::pipeline::RunResult;

#[derive(Default)]
pub struct RunSecrets {
    /// The paths of likely secrets that runs made or changed.
    pub made: BTreeSet<TreePath>,
    /// The paths of files that became likely secrets; git may have tracked them before.
    pub became: BTreeSet<TreePath>,
    /// The paths of likely secrets that were there before.
    present: BTreeSet<TreePath>,
}

impl RunSecrets {
    pub fn add(&mut self, result: &RunResult) {
        for secret in result.run.secrets.iter().filter(|secret| secret.change != SecretFate::Deleted) {
            let paths = if secret.was_ordinary { &mut self.became } else { &mut self.made };
            paths.extend(secret.tree_path());
        }
        if let Some(changes) = &result.changes {
            self.made.extend(changes.secret_files().into_keys());
            self.became.extend(changes.withheld_paths());
            self.present.extend(changes.coverage.sensitive.iter().cloned());
        }
    }

    /// What the likely secrets have in them now that are called so by their names, and the size of each. One that git tracked before is
    /// the user's decision, and so are its copies.
    pub fn contents(
        &self,
        root: &Root,
        sensitive: &Sensitive,
        is_tracked: impl Fn(&TreePath) -> bool,
    ) -> HashMap<ContentHash, u64> {
        let is_secret = |path: &&TreePath| match sensitive.suspect(path.as_bytes()) {
            Suspicion::None => false,
            Suspicion::Secret => true,
            Suspicion::MaybeKey => {
                root.open_file(path).and_then(|mut file| holds_private_key(&mut file)).unwrap_or(false)
            }
        };
        let paths = self.present.iter().chain(&self.made).filter(|path| !is_tracked(path));
        paths.chain(&self.became).filter(is_secret).filter_map(|path| secret_content(root, path)).collect()
    }
}
