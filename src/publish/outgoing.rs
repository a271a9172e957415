//! What a push would send besides decree's own commits: those of routines and users that no remote has. Each is checked by itself: what
//! one commit adds and the next removes is pushed all the same.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::known_values::SecretSearch;
use super::own_commits::UnpushedOnly;
use super::repository::Repository;
use super::run_secrets::RunSecrets;
use super::scope::refuse;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote::for_people;
use crate::checkpoint::sensitive::{Suspicion, holds_private_key};
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::history::GitChange;
use crate::interrupt;
use crate::process::redact::Redactor;

/// How many bytes of content one call of git prints, unless a single file has more.
const BATCH: u64 = 64 << 20;
/// Content that is larger cannot be searched.
const MAX_BLOB: u64 = 1 << 30;
/// How many digits of a commit messages show.
const SHORT: usize = 10;

/// The commits to check.
pub struct OutgoingCommits<'o> {
    pub repository: &'o Repository,
    pub workspace: &'o Workspace,
    /// The last of them.
    pub base: &'o str,
    /// Whether all commits are to be pushed that no remote has. Otherwise only those since the first run count.
    pub pushes: bool,
    pub unpushed: &'o UnpushedOnly,
    /// What kept runs did to git's own state.
    pub changes: Vec<&'o GitChange>,
    /// What the same runs recorded of likely secrets.
    pub secrets: &'o RunSecrets,
    pub search: &'o SecretSearch<'o>,
}

/// A file as a commit has it, and none of its parents.
struct NewFile {
    commit: String,
    path: Vec<u8>,
    hash: String,
    is_regular: bool,
}

impl OutgoingCommits<'_> {
    /// Refuses secrets of the environment in any commit, and likely secrets that were not tracked before the runs.
    pub fn refuse_secrets(&self) -> Result<()> {
        let start = self.start()?;
        let of_runs = match &start {
            Start::NoRun => Vec::new(),
            Start::Beginning => self.list(None)?,
            Start::Commit(before) => self.list(Some(before))?,
        };
        let all = if self.pushes { self.list(None)? } else { of_runs.clone() };
        let files = self.new_files(&all)?;
        let find = |redactor: &Redactor| self.environment_secrets(redactor, &all, &files);
        let secrets = self.search.find(self.repository, find)?;
        let why = "commits that would be published contain a secret of the environment";
        let hint = "`decree revert` takes back a run and its commits, `git rebase -i` edits them; if it is not a secret, push them yourself, or unset the variable";
        refuse(secrets, why, hint)?;
        let of_runs: BTreeSet<String> = of_runs.into_iter().collect();
        let likely = self.likely_secrets(files, &of_runs, &start)?;
        let why = "commits that would be published add likely secrets";
        let hint = "`decree revert` takes back a run and its commits, `git rebase -i` edits them; if a file is no secret, name it in `sensitive.allow` of the config, or push it yourself";
        refuse(likely, why, hint)
    }

    /// The last commit before all runs that moved HEAD.
    fn start(&self) -> Result<Start> {
        let before: BTreeSet<Option<&str>> = self
            .changes
            .iter()
            .filter(|change| change.moved())
            .map(|change| change.before.as_deref())
            .collect();
        if before.is_empty() {
            return Ok(Start::NoRun);
        }
        let Some(before) = before.into_iter().collect::<Option<Vec<&str>>>() else {
            return Ok(Start::Beginning);
        };
        let args = ["merge-base", "--octopus"].into_iter().chain(before).chain([self.base]);
        // A commit that git has collected since has no common ancestor with anything.
        let common = self.repository.git.call(args).run()?.line();
        Ok(if common.is_empty() { Start::Beginning } else { Start::Commit(common) })
    }

    /// The commits that no remote has, and that `before` does not contain.
    fn list(&self, before: Option<&str>) -> Result<Vec<String>> {
        let before = before.map(|before| format!("^{before}"));
        let args = ["rev-list", self.base].into_iter().chain(before.as_deref()).chain(self.unpushed.args());
        let output = self.repository.git.call(args).ok()?;
        Ok(String::from_utf8_lossy(&output.out).lines().map(str::to_owned).collect())
    }

    /// The files that these commits add or change; of a merge, those that no parent has like this.
    fn new_files(&self, commits: &[String]) -> Result<Vec<NewFile>> {
        if commits.is_empty() {
            return Ok(Vec::new());
        }
        let args =
            ["diff-tree", "--stdin", "--root", "-r", "-c", "-z", "--raw", "--no-abbrev", "--no-renames"];
        let output = self.repository.git.call(args).input(lines(commits)).ok()?;
        let (mut files, mut commit, mut records) = (Vec::new(), String::new(), output.records());
        while let Some(record) = records.next() {
            let text = String::from_utf8_lossy(record);
            let Some(raw) = text.strip_prefix(':') else {
                text.trim().clone_into(&mut commit);
                continue;
            };
            // One mode and one hash per parent, then those of the commit itself, then a letter per parent.
            let parents = 1 + raw.len() - raw.trim_start_matches(':').len();
            let fields: Vec<&str> = raw.trim_start_matches(':').split(' ').collect();
            let path = records.next().unwrap_or_default().to_vec();
            let (Some(mode), Some(hash)) = (fields.get(parents), fields.get(2 * parents + 1)) else {
                return Err(Error::failed(format!("`git diff-tree` printed {}", for_people(record))));
            };
            // Neither a deletion nor the commit of a submodule has content here.
            if matches!(mode.as_bytes(), [b'1', b'0' | b'2', ..]) {
                let (commit, hash) = (commit.clone(), (*hash).to_owned());
                files.push(NewFile { commit, path, hash, is_regular: mode.starts_with("100") });
            }
        }
        Ok(files)
    }

    /// Where secrets of the environment are: in a commit itself, in a name, or in content.
    fn environment_secrets(
        &self,
        redactor: &Redactor,
        commits: &[String],
        files: &[NewFile],
    ) -> Result<Vec<String>> {
        if !redactor.has_secrets() {
            return Ok(Vec::new());
        }
        let mut found = BTreeSet::new();
        self.read(commits.iter().map(String::as_str), |commit, content| {
            if redactor.is_in(content).unwrap_or(true) {
                found.insert(format!("commit {}: its message, author or committer", short(commit)));
            }
        })?;
        let mut by_hash: BTreeMap<&str, Vec<&NewFile>> = BTreeMap::new();
        for file in files {
            by_hash.entry(&file.hash).or_default().push(file);
            if redactor.is_in(&*file.path).unwrap_or(true) {
                found.insert(self.shown(file));
            }
        }
        self.read(by_hash.keys().copied(), |hash, content| {
            if redactor.is_in(content).unwrap_or(true) {
                found.extend(by_hash[hash].iter().map(|file| self.shown(file)));
            }
        })?;
        Ok(found.into_iter().collect())
    }

    /// The likely secrets that commits of runs add: by their names, because a run recorded them as such, or by their content. By name, only
    /// those that were not tracked before.
    fn likely_secrets(
        &self,
        mut files: Vec<NewFile>,
        of_runs: &BTreeSet<String>,
        start: &Start,
    ) -> Result<Vec<String>> {
        let sensitive = self.workspace.sensitive();
        files.retain(|file| {
            file.is_regular && of_runs.contains(&file.commit) && !sensitive.allows(self.in_project(file).0)
        });
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let tracked = self.tracked_before(start)?;
        let keys = self.private_keys(&files)?;
        let copies = self.copies(&files, &tracked)?;
        files.retain(|file| {
            let (path, recorded) = self.in_project(file);
            let is_one_of =
                |paths: &BTreeSet<TreePath>| recorded.as_ref().is_some_and(|path| paths.contains(path));
            let is_by_name = sensitive.suspect(path) == Suspicion::Secret || keys.contains(&file.hash);
            copies.contains(&file.hash)
                || is_one_of(&self.secrets.became)
                || (!tracked.paths.contains(&file.path) && (is_by_name || is_one_of(&self.secrets.made)))
        });
        Ok(files.iter().map(|file| self.shown(file)).collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// The path in the project by which a file is judged, and by which a run would have recorded it, if it is in the project.
    fn in_project<'f>(&self, file: &'f NewFile) -> (&'f [u8], Option<TreePath>) {
        match file.path.strip_prefix(&*self.repository.prefix) {
            Some(path) => (path, TreePath::new(path).ok()),
            None => (&file.path, None),
        }
    }

    /// What was tracked before the first run.
    fn tracked_before(&self, start: &Start) -> Result<TrackedFiles> {
        let mut tracked = TrackedFiles::default();
        if let Start::Commit(before) = start {
            let output = self.repository.git.call(["ls-tree", "-r", "-z", before]).ok()?;
            for record in output.records() {
                // Mode, type and hash, then a TAB and the path.
                let Some(end) = memchr::memchr(b'\t', record) else { continue };
                let hash = String::from_utf8_lossy(&record[..end]);
                tracked.hashes.extend(hash.rsplit(' ').next().map(str::to_owned));
                tracked.paths.insert(record[end + 1..].to_vec());
            }
        }
        Ok(tracked)
    }

    /// The contents that are private keys, of files that may be one by their names.
    fn private_keys(&self, files: &[NewFile]) -> Result<BTreeSet<String>> {
        let mut keys = BTreeSet::new();
        let is_maybe = |file: &&NewFile| {
            self.workspace.sensitive().suspect(self.in_project(file).0) == Suspicion::MaybeKey
        };
        let maybe: BTreeSet<&str> = files.iter().filter(is_maybe).map(|file| &*file.hash).collect();
        self.read(maybe.into_iter(), |hash, mut content| {
            if holds_private_key(&mut content).unwrap_or(true) {
                keys.insert(hash.to_owned());
            }
        })?;
        Ok(keys)
    }

    /// The contents that a likely secret in the tree has, too. What was tracked before is none.
    fn copies(&self, files: &[NewFile], tracked: &TrackedFiles) -> Result<BTreeSet<String>> {
        let mut copies = BTreeSet::new();
        let is_tracked = |path: &TreePath| tracked.paths.contains(&self.repository.inside(path.as_bytes()));
        let (root, sensitive) = (self.workspace.root(), self.workspace.sensitive());
        let secrets = self.secrets.contents(root, sensitive, is_tracked);
        if secrets.is_empty() {
            return Ok(copies);
        }
        let sizes: HashSet<u64> = secrets.values().copied().collect();
        let hashes: BTreeSet<&str> = files.iter().map(|file| &*file.hash).collect();
        let hashes: Vec<&str> = hashes.into_iter().filter(|hash| !tracked.hashes.contains(*hash)).collect();
        let found = self.sizes(&hashes)?.into_iter().zip(hashes);
        let maybe = found.filter(|(size, _)| sizes.contains(size)).map(|(_, hash)| hash);
        self.read(maybe, |hash, content| {
            if secrets.contains_key(&ContentHash::of(content)) {
                copies.insert(hash.to_owned());
            }
        })?;
        Ok(copies)
    }

    /// The commit and the path, for messages.
    fn shown(&self, file: &NewFile) -> String {
        let path = self.repository.git.redactor.redact(&for_people(&file.path)).into_owned();
        format!("commit {}: {path}", short(&file.commit))
    }

    /// Reads objects, as many at once as fit into memory.
    fn read<'h>(
        &self,
        hashes: impl Iterator<Item = &'h str>,
        mut visit: impl FnMut(&str, &[u8]),
    ) -> Result<()> {
        let git = &self.repository.git;
        let hashes: Vec<&str> = hashes.collect();
        let mut batches: Vec<(u64, Vec<&str>)> = Vec::new();
        for (hash, size) in hashes.iter().zip(self.sizes(&hashes)?) {
            if size >= MAX_BLOB {
                return Err(unreadable(hash));
            }
            match batches.last_mut() {
                Some((sum, batch)) if *sum + size <= BATCH => {
                    *sum += size;
                    batch.push(hash);
                }
                _ => batches.push((size, vec![hash])),
            }
        }
        for (_, batch) in batches {
            interrupt::check()?;
            let output = git.call(["cat-file", "--batch"]).input(lines(&batch)).ok()?;
            let mut rest = &output.out[..];
            for hash in batch {
                let content = next_object(&mut rest, hash).ok_or_else(|| unreadable(hash))?;
                visit(hash, content);
            }
        }
        Ok(())
    }

    /// The size of each object.
    fn sizes(&self, hashes: &[&str]) -> Result<Vec<u64>> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.repository.git.call(["cat-file", "--batch-check=%(objectname) %(objectsize)"]);
        let output = call.input(lines(hashes)).ok()?;
        let text = String::from_utf8_lossy(&output.out);
        let mut answers = text.lines();
        let size = |hash: &&str| {
            let size = answers.next().and_then(|line| line.strip_prefix(hash)?.trim().parse().ok());
            size.ok_or_else(|| unreadable(hash))
        };
        hashes.iter().map(size).collect()
    }
}

/// What a commit has.
#[derive(Default)]
struct TrackedFiles {
    paths: HashSet<Vec<u8>>,
    hashes: HashSet<String>,
}

/// Where the commits of runs begin.
enum Start {
    /// No run moved HEAD.
    NoRun,
    /// There was no commit, or it is unknown.
    Beginning,
    Commit(String),
}

/// Takes the next object from the output of `git cat-file --batch`: `<hash> <type> <size>`, a line break, the content, a line break.
fn next_object<'o>(rest: &mut &'o [u8], hash: &str) -> Option<&'o [u8]> {
    let end = memchr::memchr(b'\n', rest)?;
    let line = str::from_utf8(&rest[..end]).ok()?;
    let size: usize = line.strip_prefix(hash)?.rsplit(' ').next()?.parse().ok()?;
    let content = rest.get(end + 1..end + 1 + size)?;
    *rest = rest.get(end + 2 + size..)?;
    Some(content)
}

fn lines(words: &[impl AsRef<str>]) -> Vec<u8> {
    words.iter().flat_map(|word| [word.as_ref().as_bytes(), b"\n"].concat()).collect()
}

fn short(commit: &str) -> &str {
    commit.get(..SHORT).unwrap_or(commit)
}

fn unreadable(hash: &str) -> Error {
    Error::failed(format!("object {hash} of the repository cannot be searched for secrets"))
        .detail("it is missing, or larger than 1 GiB; nothing was done")
        .hint("`git fsck` finds missing objects; if nothing is wrong, push the branch yourself")
}
