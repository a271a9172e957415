//! Builds the commits: each has exactly the content that its runs left, on top of exactly the content they started from.
//!
//! This only adds objects to the repository; no reference points to them yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::content::AddTree;
use super::known_values::SecretSearch;
use super::message::{message, subject};
use super::plan::{Chain, NetChange, refuse_edits_between_runs};
use super::repository::Repository;
use super::scope::{ignored, is_ignored, refuse, refuse_other_repositories, shown};
use crate::checkpoint::entry::Node;
use crate::checkpoint::path::{TRACKER, TreePath};
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::fs::ScratchDir;
use crate::git::{Differences, GitIndex, GitOutput, IndexEntry};
use crate::humanize::count;
use crate::interrupt;
use crate::project::Layout;
use crate::spec::Tracker;

/// A commit that was created, or would be in a dry run.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The hash; `None` in a dry run.
    pub sha: Option<String>,
    pub subject: String,
    /// The whole message, including the subject.
    pub message: String,
    pub runs: Vec<String>,
    pub spec: Option<String>,
    /// The paths that it changes, relative to the repository.
    pub files: Vec<Vec<u8>>,
}

/// Commits that no reference points to yet.
#[derive(Debug, Default)]
pub struct BuiltCommits {
    pub commits: Vec<Commit>,
    /// The index entries in which the last commit differs from the base.
    pub entries: Differences,
    pub warnings: Vec<String>,
}

pub struct CommitBuilder<'b> {
    pub repository: &'b Repository,
    pub workspace: &'b Workspace,
    pub layout: &'b Layout,
    pub scratch: &'b ScratchDir,
    /// The parent of the first commit; `None` in a repository without commits.
    pub base: Option<&'b str>,
    /// The prefix of every subject.
    pub prefix: &'b str,
    /// The chains that the base has already.
    pub published: &'b [Chain],
    pub dry_run: bool,
    pub search: &'b SecretSearch<'b>,
}

/// The net changes by path, one map per chain.
type Nets<'c> = Vec<BTreeMap<&'c TreePath, NetChange<'c>>>;

impl CommitBuilder<'_> {
    /// Builds one commit per chain that changes anything.
    pub fn build(&self, chains: &[Chain]) -> Result<BuiltCommits> {
        let mut built = BuiltCommits::default();
        let index = GitIndex::at(&self.repository.git, self.index_file());
        index.read_tree(self.base_tree())?;
        let mut nets: Nets<'_> = chains.iter().map(Chain::net).collect::<Result<_>>()?;
        self.leave_out(&index, &mut nets, &mut built.warnings)?;
        let uncommitted = self.uncommitted(&index, &nets)?;
        if !uncommitted.is_empty() {
            // An agent may have committed its work itself. Any other uncommitted change has to be committed first.
            let paths = count(uncommitted.len(), "path");
            self.drop_committed(&index, chains, &mut nets, uncommitted)?;
            built.warnings.push(format!(
                "changes of the runs to {paths} are committed already, by a routine or by another process"
            ));
        }
        let mut tracker = self.tracker_update(&index, chains, &mut built.warnings)?;
        let sign = self.repository.git.config(&["--type=bool", "--get", "commit.gpgsign"])?;
        let sign = sign.as_deref() == Some("true");
        let mut parent = self.base.map(str::to_owned);
        let mut tree = index.write_tree()?;
        for (number, (chain, net)) in chains.iter().zip(&nets).enumerate() {
            interrupt::check()?;
            self.add(&index, net, &format!("after-{number}"))?;
            if let Some(tracker) = &mut tracker {
                self.add_to_tracker(&index, tracker, &chain.tracked(self.layout))?;
            }
            let after = index.write_tree()?;
            if after == tree {
                continue;
            }
            let shown = |text: &str| self.repository.git.printable(text);
            let subject = subject(chain, self.layout, self.prefix, shown);
            let text = shown(&message(chain, &subject, shown));
            let files = self.changed(&tree, &after)?;
            let sha = if self.dry_run {
                None
            } else {
                Some(self.commit(&after, parent.as_deref(), &text, sign)?)
            };
            (parent, tree) = (sha.clone(), after);
            built.commits.push(Commit {
                sha,
                subject,
                message: text,
                runs: chain.runs.iter().map(|run| run.id.to_string()).collect(),
                spec: chain.spec().map(str::to_owned),
                files,
            });
        }
        built.entries = index.differences(self.base_tree())?;
        Ok(built)
    }

    fn index_file(&self) -> PathBuf {
        self.scratch.path("index")
    }

    fn in_repository<T>(&self, paths: &[(&TreePath, T)]) -> Vec<Vec<u8>> {
        paths.iter().map(|(path, _)| self.repository.inside(path.as_bytes())).collect()
    }

    fn base_tree(&self) -> &str {
        self.base.unwrap_or(&self.repository.empty_tree)
    }

    /// Removes ignored paths, and refuses paths of other repositories.
    fn leave_out(&self, index: &GitIndex<'_>, nets: &mut Nets<'_>, warnings: &mut Vec<String>) -> Result<()> {
        let paths: BTreeSet<&TreePath> = nets.iter().flat_map(|net| net.keys().copied()).collect();
        let root = self.workspace.root();
        refuse_other_repositories(self.repository, root, index, &paths)?;
        let out = ignored(self.repository, root, &self.index_file(), &paths)?;
        for path in &out {
            warnings.push(format!("{path} is left out: git ignores it"));
        }
        for net in nets {
            net.retain(|path, _| !out.contains(path));
        }
        Ok(())
    }

    /// Drops the changes that are committed already: for each of these paths, those up to the last run, published before or not, that
    /// left what the base has. Refuses paths that no run left like that. Leaves the base in `index`.
    fn drop_committed(
        &self,
        index: &GitIndex<'_>,
        chains: &[Chain],
        nets: &mut Nets<'_>,
        uncommitted: BTreeSet<Vec<u8>>,
    ) -> Result<()> {
        let mut left = uncommitted;
        for chain in self.published.iter().rev() {
            let found = self.unchanged_in_base(index, &chain.net()?, &left)?;
            for (earlier, net) in chains.iter().zip(nets.iter_mut()) {
                if earlier.first().id < chain.first().id {
                    net.retain(|path, _| !found.contains(&self.repository.inside(path.as_bytes())));
                }
            }
            left.retain(|path| !found.contains(path));
        }
        for number in (0..nets.len()).rev() {
            let found = self.unchanged_in_base(index, &nets[number], &left)?;
            for earlier in &mut nets[..=number] {
                earlier.retain(|path, _| !found.contains(&self.repository.inside(path.as_bytes())));
            }
            left.retain(|path| !found.contains(path));
        }
        index.read_tree(self.base_tree())?;
        if left.is_empty() { Ok(()) } else { Err(uncommitted_error(&shown(left))) }
    }

    /// Those of the given paths at which the base has what a chain left.
    fn unchanged_in_base(
        &self,
        index: &GitIndex<'_>,
        net: &BTreeMap<&TreePath, NetChange<'_>>,
        among: &BTreeSet<Vec<u8>>,
    ) -> Result<BTreeSet<Vec<u8>>> {
        let inside = |path: &TreePath| self.repository.inside(path.as_bytes());
        let net: BTreeMap<&TreePath, NetChange<'_>> = net
            .iter()
            .filter(|(path, _)| among.contains(&inside(path)))
            .map(|(path, change)| (*path, *change))
            .collect();
        if net.is_empty() {
            return Ok(BTreeSet::new());
        }
        index.read_tree(self.base_tree())?;
        self.add(index, &net, "committed")?;
        let differ = index.differences(self.base_tree())?;
        Ok(net.keys().map(|path| inside(path)).filter(|path| !differ.contains_key(path)).collect())
    }

    /// The paths whose content before the runs is not committed: a commit would include those edits. Leaves that content in `index`.
    fn uncommitted(&self, index: &GitIndex<'_>, nets: &Nets<'_>) -> Result<BTreeSet<Vec<u8>>> {
        let mut found: BTreeMap<&TreePath, Option<Node>> = BTreeMap::new();
        let mut left: BTreeMap<&TreePath, Option<Node>> = BTreeMap::new();
        let mut edited = Vec::new();
        for net in nets {
            for (path, net) in net {
                match left.insert(path, net.after) {
                    None => drop(found.insert(path, net.before)),
                    Some(left) if left != net.before => edited.push(path.to_string()),
                    Some(_) => {}
                }
            }
        }
        refuse_edits_between_runs(edited)?;
        let tree = AddTree::new(self.scratch, "before", &self.repository.prefix)?;
        let there: Vec<(&TreePath, Node)> =
            found.iter().filter_map(|(path, node)| Some((*path, (*node)?))).collect();
        tree.write_before(self.workspace.store(), &there)?;
        let absent: Vec<(&TreePath, ())> =
            found.iter().filter(|(_, node)| node.is_none()).map(|(path, _)| (*path, ())).collect();
        index.remove(&self.in_repository(&absent))?;
        index.add(&tree.top, &self.in_repository(&there))?;
        Ok(index.differences(self.base_tree())?.into_keys().collect())
    }

    /// Updates the index to the content that a chain left.
    fn add(&self, index: &GitIndex<'_>, net: &BTreeMap<&TreePath, NetChange<'_>>, name: &str) -> Result<()> {
        let tree = AddTree::new(self.scratch, name, &self.repository.prefix)?;
        let (there, gone): (Vec<_>, Vec<_>) =
            net.iter().map(|(path, net)| (*path, net)).partition(|(_, net)| net.after.is_some());
        tree.write_after(self.workspace.store(), &there)?;
        let secrets = self.search.find(self.repository, |redactor| tree.secrets(redactor, &there))?;
        let why = "a run's changes contain a secret of the environment; they are not committed";
        let hint = "`decree revert` reverts the run; if it is not a secret, commit it yourself, or unset the variable";
        refuse(secrets, why, hint)?;
        index.remove(&self.in_repository(&gone))?;
        index.add(&tree.top, &self.in_repository(&there))?;
        tree.remove();
        Ok(())
    }

    /// The tracker of the base; `None` if the commits must not change it.
    fn tracker_update(
        &self,
        index: &GitIndex<'_>,
        chains: &[Chain],
        warnings: &mut Vec<String>,
    ) -> Result<Option<TrackerUpdate>> {
        if chains.iter().all(|chain| chain.tracked(self.layout).is_empty()) {
            return Ok(None);
        }
        let present = Tracker::read(&self.layout.tracker())?;
        let path = self.repository.inside(TRACKER.as_bytes());
        let Some(entry) = index.get(&path)? else {
            if is_ignored(self.repository, &self.index_file(), &path)? {
                warnings.push(format!("{} is left out: git ignores it", shown([&path]).join("")));
                return Ok(None);
            }
            let tracker = Tracker::default();
            return Ok(Some(TrackerUpdate { path, mode: "100644".to_owned(), tracker, present }));
        };
        let blob = self.repository.git.call(["cat-file", "blob", &entry.hash]).run()?;
        match String::from_utf8(blob.out) {
            Ok(text) if entry.mode.starts_with("100") => {
                Ok(Some(TrackerUpdate { path, mode: entry.mode, tracker: Tracker { text }, present }))
            }
            _ => {
                let path = shown([&path]).join("");
                warnings.push(format!("{path} is left out: the committed file is not a list of specs"));
                Ok(None)
            }
        }
    }

    /// Adds these specs to the committed tracker. Other edits of the tracker are left for the user to commit.
    fn add_to_tracker(
        &self,
        index: &GitIndex<'_>,
        update: &mut TrackerUpdate,
        names: &[String],
    ) -> Result<()> {
        let mut added = false;
        for name in names.iter().filter(|name| update.present.contains(name)) {
            added |= update.tracker.add(name);
        }
        if !added {
            return Ok(());
        }
        let text = update.tracker.text.as_bytes().to_vec();
        let git = &self.repository.git;
        let hash = git.call(["hash-object", "-w", "--no-filters", "--stdin"]).input(text).line()?;
        let entry = IndexEntry { mode: update.mode.clone(), hash };
        index.put(&Differences::from([(update.path.clone(), entry)]))
    }

    fn changed(&self, before: &str, after: &str) -> Result<Vec<Vec<u8>>> {
        let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after];
        let answer: GitOutput = self.repository.git.call(args).ok()?;
        Ok(answer.records().map(<[u8]>::to_vec).collect())
    }

    fn commit(&self, tree: &str, parent: Option<&str>, message: &str, sign: bool) -> Result<String> {
        let mut args = vec!["commit-tree", tree, "-F", "-"];
        if sign {
            args.push("-S");
        }
        if let Some(parent) = parent {
            args.extend(["-p", parent]);
        }
        self.repository.git.call(args).input(message.as_bytes().to_vec()).line()
    }
}

fn uncommitted_error(paths: &[String]) -> Error {
    Error::failed("files that the runs changed already had uncommitted changes")
        .details(paths.to_vec(), 20)
        .detail("a commit would include them; nothing was done")
        .hint("commit the earlier changes first: `decree revert`, `git commit`, `decree apply`")
}

/// The tracker as it grows from commit to commit.
struct TrackerUpdate {
    path: Vec<u8>,
    mode: String,
    tracker: Tracker,
    /// The tracker in the work tree: a spec that the user removed from it is not added.
    present: Tracker,
}
