//! Putting commits together: each has exactly what its runs left, on top of exactly what they found.
//!
//! Nothing that anybody can see changes here: there are new objects in the repository, and nothing leads to them yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::content::PublishScratch;
use super::message::{message, subject};
use super::plan::{Chain, NetChange, between};
use super::repository::Repository;
use super::scope::{ignored, is_ignored, refuse_other_repositories, shown};
use crate::checkpoint::entry::Node;
use crate::checkpoint::path::{TRACKER, TreePath};
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::git::{Differences, GitIndex, GitOutput, IndexEntry};
use crate::interrupt;
use crate::project::Layout;
use crate::spec::Tracker;

/// A commit that was made, or would be.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its name; `None` if it was not made.
    pub sha: Option<String>,
    /// The first line of its message.
    pub subject: String,
    /// The whole message.
    pub message: String,
    /// The runs in it.
    pub runs: Vec<String>,
    /// The spec they fulfil.
    pub spec: Option<String>,
    /// Paths in the repository that it changes.
    pub files: Vec<Vec<u8>>,
}

/// Commits that nothing leads to yet.
#[derive(Debug, Default)]
pub struct BuiltCommits {
    /// In their order.
    pub commits: Vec<Commit>,
    /// Where the last one is not what the base is.
    pub entries: Differences,
    /// What people have to know.
    pub warnings: Vec<String>,
}

/// What commits are made of.
pub struct CommitBuilder<'b> {
    /// Where to.
    pub repository: &'b Repository,
    /// Where from.
    pub workspace: &'b Workspace,
    /// The project's paths.
    pub layout: &'b Layout,
    /// A place to work in.
    pub scratch: &'b PublishScratch,
    /// The commit to begin with; `None` before the first one.
    pub base: Option<&'b str>,
    /// In front of every subject.
    pub prefix: &'b str,
    /// Whether commits are only put together, and not made.
    pub dry_run: bool,
}

/// What the chains did, path by path, a map for each chain.
type Nets<'c> = Vec<BTreeMap<&'c TreePath, NetChange<'c>>>;

impl CommitBuilder<'_> {
    /// A commit for each chain that changes something.
    pub fn build(&self, chains: &[Chain]) -> Result<BuiltCommits> {
        let mut built = BuiltCommits::default();
        let index = GitIndex::at(&self.repository.git, self.index_file());
        index.read_tree(self.base_tree())?;
        let mut nets: Nets<'_> = chains.iter().map(Chain::net).collect::<Result<_>>()?;
        self.leave_out(&index, &mut nets, &mut built.warnings)?;
        let uncommitted = self.uncommitted(&index, &nets)?;
        if !uncommitted.is_empty() {
            // Agents commit what they do; whoever else has changes there has to see to them first.
            if !self.is_committed(&index, &nets)? {
                return Err(uncommitted_error(&uncommitted));
            }
            let said = "what the runs did is committed already, by them or by somebody else";
            built.warnings.push(said.to_owned());
            nets.iter_mut().for_each(BTreeMap::clear);
        }
        let mut tracker = self.tracker(&index, chains, &mut built.warnings)?;
        let sign = self.repository.git.config(&["--type=bool", "--get", "commit.gpgsign"])?;
        let sign = sign.as_deref() == Some("true");
        let mut parent = self.base.map(str::to_owned);
        let mut tree = index.write_tree()?;
        for (number, (chain, net)) in chains.iter().zip(&nets).enumerate() {
            interrupt::check()?;
            self.add(&index, net, &format!("after-{number}"))?;
            if let Some(tracker) = &mut tracker {
                self.track(&index, tracker, &chain.tracked(self.layout))?;
            }
            let after = index.write_tree()?;
            if after == tree {
                continue;
            }
            let shown = |text: &str| self.repository.git.printable(text);
            let subject = subject(chain, self.layout, self.prefix, shown);
            let text = shown(&message(chain, &subject, shown));
            let files = self.changed(&tree, &after)?;
            let sha = match self.dry_run {
                true => None,
                false => Some(self.commit(&after, parent.as_deref(), &text, sign)?),
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

    fn base_tree(&self) -> &str {
        self.base.unwrap_or(&self.repository.empty_tree)
    }

    /// Takes out what git does not want, and refuses what belongs elsewhere.
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

    /// Whether all that the runs left is what is committed.
    fn is_committed(&self, index: &GitIndex<'_>, nets: &Nets<'_>) -> Result<bool> {
        index.read_tree(self.base_tree())?;
        let last: BTreeMap<&TreePath, &NetChange<'_>> =
            nets.iter().flatten().map(|(path, net)| (*path, net)).collect();
        let (there, gone): (Vec<_>, Vec<_>) = last.into_iter().partition(|(_, net)| net.after.is_some());
        let tree = self.scratch.tree("left", &self.repository.prefix)?;
        tree.write_after(self.workspace.store(), &there)?;
        let names = |paths: &[(&TreePath, &NetChange<'_>)]| -> Vec<Vec<u8>> {
            paths.iter().map(|(path, _)| self.repository.inside(path)).collect()
        };
        index.remove(&names(&gone))?;
        index.add(&tree.top, &names(&there))?;
        let committed = index.differences(self.base_tree())?.is_empty();
        tree.remove();
        index.read_tree(self.base_tree())?;
        Ok(committed)
    }

    /// What the runs found and is not committed: somebody's edits would be committed with theirs. Leaves the index with it.
    fn uncommitted(&self, index: &GitIndex<'_>, nets: &Nets<'_>) -> Result<Vec<String>> {
        let mut found: BTreeMap<&TreePath, Option<Node>> = BTreeMap::new();
        let mut left: BTreeMap<&TreePath, Option<Node>> = BTreeMap::new();
        let mut moved_on = Vec::new();
        for net in nets {
            for (path, net) in net {
                match left.insert(path, net.after) {
                    None => drop(found.insert(path, net.before)),
                    Some(left) if left != net.before => moved_on.push(path.to_string()),
                    Some(_) => {}
                }
            }
        }
        between(moved_on)?;
        let tree = self.scratch.tree("before", &self.repository.prefix)?;
        let there: Vec<(&TreePath, Node)> =
            found.iter().filter_map(|(path, node)| Some((*path, (*node)?))).collect();
        tree.write_before(self.workspace.store(), &there)?;
        let absent = found.iter().filter(|(_, node)| node.is_none());
        index.remove(&absent.map(|(path, _)| self.repository.inside(path)).collect::<Vec<_>>())?;
        let names: Vec<Vec<u8>> = there.iter().map(|(path, _)| self.repository.inside(path)).collect();
        index.add(&tree.top, &names)?;
        Ok(shown(index.differences(self.base_tree())?.keys()))
    }

    /// Brings the index to what a chain left.
    fn add(&self, index: &GitIndex<'_>, net: &BTreeMap<&TreePath, NetChange<'_>>, name: &str) -> Result<()> {
        let tree = self.scratch.tree(name, &self.repository.prefix)?;
        let there: Vec<(&TreePath, &NetChange<'_>)> =
            net.iter().filter(|(_, net)| net.after.is_some()).map(|(path, net)| (*path, net)).collect();
        tree.write_after(self.workspace.store(), &there)?;
        let secrets = tree.secrets(self.repository.git.redactor(), &there)?;
        if !secrets.is_empty() {
            return Err(Error::failed("what was processed holds a secret of the environment, and is not committed")
                .details(secrets, 20)
                .detail("nothing was done")
                .hint("`decree revert` undoes the run; if it is no secret, commit it yourself, or do not hand the variable on"));
        }
        let gone = net.iter().filter(|(_, net)| net.after.is_none());
        index.remove(&gone.map(|(path, _)| self.repository.inside(path)).collect::<Vec<_>>())?;
        let names: Vec<Vec<u8>> = there.iter().map(|(path, _)| self.repository.inside(path)).collect();
        index.add(&tree.top, &names)?;
        tree.remove();
        Ok(())
    }

    /// The tracker as the base has it; `None` if commits had better not touch it.
    fn tracker(
        &self,
        index: &GitIndex<'_>,
        chains: &[Chain],
        warnings: &mut Vec<String>,
    ) -> Result<Option<Tracking>> {
        if chains.iter().all(|chain| chain.tracked(self.layout).is_empty()) {
            return Ok(None);
        }
        let present = Tracker::read(&self.layout.tracker())?;
        let path = self.repository.below(TRACKER);
        let Some(entry) = index.get(&path)? else {
            if is_ignored(self.repository, &self.index_file(), &path)? {
                warnings.push(format!("{} is left out: git ignores it", shown([&path]).join("")));
                return Ok(None);
            }
            let tracker = Tracker::default();
            return Ok(Some(Tracking { path, mode: "100644".to_owned(), tracker, present }));
        };
        let blob = self.repository.git.call(["cat-file", "blob", &entry.hash]).run()?;
        match String::from_utf8(blob.out) {
            Ok(text) if entry.mode.starts_with("100") => {
                Ok(Some(Tracking { path, mode: entry.mode, tracker: Tracker::from_text(text), present }))
            }
            _ => {
                let path = shown([&path]).join("");
                warnings.push(format!("{path} is left out: what is committed there is no list of specs"));
                Ok(None)
            }
        }
    }

    /// Adds these specs to what is committed of the tracker; whatever else people did to it is theirs to commit.
    fn track(&self, index: &GitIndex<'_>, tracking: &mut Tracking, names: &[String]) -> Result<()> {
        let mut added = false;
        for name in names.iter().filter(|name| tracking.present.contains(name)) {
            added |= tracking.tracker.add(name);
        }
        if !added {
            return Ok(());
        }
        let text = tracking.tracker.text().as_bytes().to_vec();
        let git = &self.repository.git;
        let hash = git.call(["hash-object", "-w", "--no-filters", "--stdin"]).input(text).line()?;
        let staged = IndexEntry { mode: tracking.mode.clone(), hash };
        index.put(&Differences::from([(tracking.path.clone(), staged)]))
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

/// A commit of the runs would take somebody's edits along.
fn uncommitted_error(paths: &[String]) -> Error {
    Error::failed("files that were processed had changes that are not committed")
        .details(paths.to_vec(), 20)
        .detail("a commit of the run would take them along; nothing was done")
        .hint("commit what was there before the run first: `decree revert`, `git commit`, `decree apply`")
}

/// The list of processed specs on its way from commit to commit.
struct Tracking {
    path: Vec<u8>,
    mode: String,
    tracker: Tracker,
    /// What is in the work tree: a spec that somebody took off it again stays off.
    present: Tracker,
}
