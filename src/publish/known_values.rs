//! Secrets of the environment that are not worth refusing a commit or a push for: a plain word such as `postgres`, and a value that a
//! remote has already. Where they are is named; logs and reports mask them all the same.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashSet};

use super::own_commits::RecordedChanges;
use super::repository::Repository;
use crate::error::Result;
use crate::git::GitOutput;
use crate::process::redact::Redactor;
use crate::project::Layout;

/// A longer word may be a passphrase.
const MAX_WORD: usize = 8;
/// Of a value of several lines, at least one has to be this long: shorter ones occur by chance.
const MIN_LINE: usize = 8;

/// Searches what would be published for secrets of the environment.
pub struct SecretSearch<'s> {
    pub layout: &'s Layout,
    /// The commit that the commits of runs are built on.
    pub base: Option<String>,
    /// Finds the secrets that count. Only needed once any secret was found.
    refused: OnceCell<Redactor>,
    /// Where the others are.
    tolerated: RefCell<BTreeSet<String>>,
}

impl<'s> SecretSearch<'s> {
    pub fn new(layout: &'s Layout, base: Option<String>) -> SecretSearch<'s> {
        SecretSearch { layout, base, refused: OnceCell::new(), tolerated: RefCell::default() }
    }

    /// The places of secrets that count, among those that `find` finds with a redactor.
    pub fn find(
        &self,
        repository: &Repository,
        find: impl Fn(&Redactor) -> Result<Vec<String>>,
    ) -> Result<Vec<String>> {
        let found = find(&repository.git.redactor)?;
        if found.is_empty() {
            return Ok(found);
        }
        let counting = find(self.refused(repository)?)?;
        let others = found.into_iter().filter(|place| !counting.contains(place));
        self.tolerated.borrow_mut().extend(others);
        Ok(counting)
    }

    /// Names where values are that were not refused.
    pub fn warnings(&self) -> Vec<String> {
        let sentence = |place: &String| {
            format!(
                "{place}: it has a value of the environment that is a plain word, or known to a remote already; it is not refused"
            )
        };
        self.tolerated.borrow().iter().map(sentence).collect()
    }

    fn refused(&self, repository: &Repository) -> Result<&Redactor> {
        if let Some(refused) = self.refused.get() {
            return Ok(refused);
        }
        let all = &repository.git.redactor;
        let secrets: Vec<&[u8]> = all.secrets().filter(|secret| !is_plain_word(secret)).collect();
        let known = self.known_to_remotes(repository, &secrets)?;
        let refused = all.without(|secret| is_plain_word(secret) || known.contains(secret));
        Ok(self.refused.get_or_init(|| refused))
    }

    /// Those of the values that the commits have on which everything is built that no remote has.
    fn known_to_remotes(&self, repository: &Repository, secrets: &[&[u8]]) -> Result<HashSet<Vec<u8>>> {
        let pushed = PushedText { repository, commits: self.last_pushed(repository)? };
        let mut known = HashSet::new();
        if pushed.commits.is_empty() {
            return Ok(known);
        }
        let long = secrets.iter().flat_map(|secret| lines(secret)).filter(|line| is_long(line));
        let found = pushed.find_all(long.collect())?;
        'secrets: for secret in secrets {
            let (long, short): (Vec<&[u8]>, Vec<&[u8]>) = lines(secret).partition(|line| is_long(line));
            // Several short lines are in any text.
            if !long.iter().all(|line| found.contains(*line)) || (long.is_empty() && short.len() != 1) {
                continue;
            }
            for line in short {
                if !pushed.has(line)? {
                    continue 'secrets;
                }
            }
            known.insert(secret.to_vec());
        }
        Ok(known)
    }

    /// The newest commits below the base that a remote has. Refs that runs wrote prove nothing.
    fn last_pushed(&self, repository: &Repository) -> Result<Vec<String>> {
        let Some(base) = &self.base else { return Ok(Vec::new()) };
        let unpushed = RecordedChanges::read(self.layout)?.unpushed_only(repository)?;
        let args = ["rev-list", "--boundary", base].into_iter().chain(unpushed.args());
        let output = repository.git.call(args).ok()?;
        let text = String::from_utf8_lossy(&output.out);
        if text.trim().is_empty() {
            return Ok(vec![base.clone()]);
        }
        Ok(text.lines().filter_map(|line| line.strip_prefix('-')).map(str::to_owned).collect())
    }
}

/// The files of commits that remotes have.
struct PushedText<'p> {
    repository: &'p Repository,
    commits: Vec<String>,
}

impl PushedText<'_> {
    /// Those of the lines that are in the files.
    fn find_all(&self, mut missing: BTreeSet<&[u8]>) -> Result<HashSet<Vec<u8>>> {
        let mut found: HashSet<Vec<u8>> = HashSet::new();
        while !missing.is_empty() {
            let answer = self.grep(&["-h", "-o"], missing.iter().copied())?;
            let before = missing.len();
            found.extend(answer.out.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            missing.retain(|line| !found.contains(*line));
            // Of values that overlap in a text git prints one. The others are looked for again.
            if missing.len() == before {
                break;
            }
        }
        Ok(found)
    }

    /// The same for one line. It may be so short that printing every place would take long.
    fn has(&self, line: &[u8]) -> Result<bool> {
        Ok(self.grep(&["-q"], [line].into_iter())?.is_ok())
    }

    fn grep<'l>(&self, options: &[&str], lines: impl Iterator<Item = &'l [u8]>) -> Result<GitOutput> {
        // Without what the user's settings may add to the output.
        let plain = ["--no-recurse-submodules", "--no-line-number", "--no-column", "--color=never"];
        // The values are not arguments, which other users could read.
        let args = ["grep", "-a", "-F", "-f", "-"].into_iter().chain(plain).chain(options.iter().copied());
        let args = args.chain(self.commits.iter().map(String::as_str)).chain(["--"]);
        let patterns = lines.flat_map(|line| [line, b"\n"].concat()).collect();
        let answer = self.repository.git.call(args).input(patterns).run()?;
        if !answer.is_ok() && !answer.is_code(1) {
            return Err(answer.into_error());
        }
        Ok(answer)
    }
}

/// The lines of a value that can be looked up.
fn lines(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

fn is_long(line: &[u8]) -> bool {
    line.len() >= MIN_LINE
}

/// Whether a value says nothing: it may be the name of a program or of a user, and occurs in any text.
fn is_plain_word(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    value.len() <= MAX_WORD && value.iter().all(u8::is_ascii_lowercase)
}
