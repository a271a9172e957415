//! Refs as text, without git: what HEAD names, and which refs differ between two moments.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memchr::memmem;

use crate::error::{IoContext, Result};

/// How a symbolic ref begins.
const SYMBOLIC: &str = "ref:";
/// decree's own refs. That one is new or moved is no change; one that was deleted is.
const OWN: &[u8] = b"refs/decree/";
/// How many symbolic refs lead from one to the next, as in git.
const MAX_DEPTH: usize = 5;
/// How many digits of a hash messages show.
const SHORT: usize = 10;

/// What HEAD is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// The full name of a branch, which need not exist yet.
    Branch(String),
    /// The hash of a commit.
    Detached(String),
}

/// All refs at one moment, one `<value> <name>` per line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefTexts {
    /// Refs in files of their own, sorted by name. They win over packed ones.
    pub loose: Vec<u8>,
    /// The file `packed-refs` as it is.
    pub packed: Vec<u8>,
}

/// A ref that differs between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefChange {
    pub name: Vec<u8>,
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
}

impl Head {
    /// Parses the content of the file `HEAD`; `None` if it is nothing that git writes.
    pub fn parse(text: &str) -> Option<Head> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix(SYMBOLIC) {
            let name = name.trim();
            // With reftable the file has a name that no branch can have.
            return (name.starts_with("refs/") && !name.ends_with("/.invalid"))
                .then(|| Head::Branch(name.to_owned()));
        }
        is_hash(text).then(|| Head::Detached(text.to_owned()))
    }

    /// Whether a file has what git takes for a HEAD or a ref.
    pub fn is_in(path: &Path) -> bool {
        let is_file = path.metadata().is_ok_and(|found| found.is_file());
        is_file && fs::read_to_string(path).is_ok_and(|text| Head::parse(&text).is_some())
    }

    /// As the file has it.
    pub fn to_text(&self) -> String {
        match self {
            Head::Branch(name) => format!("{SYMBOLIC} {name}"),
            Head::Detached(hash) => hash.clone(),
        }
    }

    /// For messages: the branch without `refs/heads/`.
    pub fn shown(&self) -> &str {
        match self {
            Head::Branch(name) => name.strip_prefix("refs/heads/").unwrap_or(name),
            Head::Detached(_) => "a detached HEAD",
        }
    }
}

impl RefTexts {
    /// Reads the refs of a repository that keeps them in files.
    pub fn read(common_dir: &Path) -> Result<RefTexts> {
        let mut loose: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        read_loose(&common_dir.join("refs"), b"refs", &mut loose)?;
        loose.sort();
        let mut text = Vec::new();
        for (name, value) in loose {
            text.extend_from_slice(&[value.trim_ascii(), b" ", &name, b"\n"].concat());
        }
        let path = common_dir.join("packed-refs");
        let packed = fs::read(&path).if_exists().at("read", &path)?.unwrap_or_default();
        Ok(RefTexts { loose: text, packed })
    }

    /// The hash that a ref has.
    pub fn value(&self, name: &str) -> Option<String> {
        let mut name = name.to_owned();
        for _ in 0..MAX_DEPTH {
            let value = find(&self.loose, &name).or_else(|| find(&self.packed, &name))?;
            match symbolic_target(&value) {
                Some(target) => target.clone_into(&mut name),
                None => return Some(value).filter(|value| is_hash(value)),
            }
        }
        None
    }

    /// The refs that differ, without those that decree itself has added.
    pub fn changes(&self, after: &RefTexts) -> Vec<RefChange> {
        if self == after {
            return Vec::new();
        }
        let (old, new) = (self.all(), after.all());
        let gone = old.iter().filter(|(name, _)| !new.contains_key(*name));
        let gone = gone.map(|(name, value)| (*name, Some(*value), None));
        let came = new.iter().map(|(name, value)| (*name, old.get(name).copied(), Some(*value)));
        let mut changes: Vec<RefChange> = gone
            .chain(came.filter(|(_, before, after)| before != after))
            .filter(|(name, _, after)| after.is_none() || !name.starts_with(OWN))
            .map(|(name, before, after)| RefChange {
                name: name.to_vec(),
                before: before.map(<[u8]>::to_vec),
                after: after.map(<[u8]>::to_vec),
            })
            .collect();
        changes.sort_by(|a, b| a.name.cmp(&b.name));
        changes
    }

    /// All refs whose names are UTF-8.
    pub(super) fn names_and_values(&self) -> impl Iterator<Item = (String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
        self.all().into_iter().filter_map(move |(name, value)| Some((text(name).ok()?, text(value).ok()?)))
    }

    fn all(&self) -> BTreeMap<&[u8], &[u8]> {
        lines(&self.packed).chain(lines(&self.loose)).collect()
    }
}

impl RefChange {
    /// For messages: the ref, and what became of it.
    pub fn shown(&self) -> String {
        let name = String::from_utf8_lossy(&self.name);
        let Some(before) = &self.before else { return format!("{name} (created)") };
        let what = if self.after.is_none() { "deleted" } else { "moved" };
        let before = String::from_utf8_lossy(before);
        let value = symbolic_target(&before).or(before.get(..SHORT)).unwrap_or(&before);
        format!("{name} ({what}; it was {value})")
    }
}

/// The ref that the value of a symbolic ref names.
pub(super) fn symbolic_target(value: &str) -> Option<&str> {
    value.strip_prefix(SYMBOLIC).map(str::trim)
}

/// Whether a text is the hash of an object: SHA-1 or SHA-256.
pub(super) fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The name and value of each line, without comments and the lines of peeled tags.
fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(b"#") && !line.starts_with(b"^"))
        .filter_map(|line| {
            // The value of a symbolic ref has a space, too; a name has none.
            let at = memchr::memrchr(b' ', line)?;
            Some((&line[at + 1..], &line[..at]))
        })
}

/// The value of one ref, without parsing all lines: there may be 50,000.
fn find(text: &[u8], name: &str) -> Option<String> {
    let wanted = format!(" {name}\n");
    let at = memmem::find(text, wanted.as_bytes())?;
    let begin = memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
    String::from_utf8(text[begin..at].to_vec()).ok()
}

/// Reads the refs in a directory and below. A ref that another process removes meanwhile is left out.
fn read_loose(dir: &Path, prefix: &[u8], out: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
    let Some(entries) = fs::read_dir(dir).if_exists().at("read", dir)? else { return Ok(()) };
    for entry in entries {
        let entry = entry.at("read", dir)?;
        let (path, file_name) = (entry.path(), entry.file_name());
        let name = [prefix, b"/", file_name.as_bytes()].concat();
        let kind = entry.file_type().at("read", &path)?;
        if kind.is_dir() {
            read_loose(&path, &name, out)?;
        } else if !name.ends_with(b".lock") {
            match fs::read(&path) {
                Ok(value) => out.push((name, value)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).at("read", &path),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";

    fn texts(loose: &str, packed: &str) -> RefTexts {
        RefTexts { loose: loose.into(), packed: packed.into() }
    }

    #[test]
    fn head_is_a_branch_or_a_commit() {
        assert_eq!(Head::parse("ref: refs/heads/a/b\n"), Some(Head::Branch("refs/heads/a/b".to_owned())));
        assert_eq!(Head::parse(&format!("{A}\n")), Some(Head::Detached(A.to_owned())));
        for text in ["", "ref: refs/heads/.invalid", "ref: elsewhere", "12ab"] {
            assert_eq!(Head::parse(text), None, "{text}");
        }
        assert_eq!(Head::parse(&Head::Branch("refs/heads/x".to_owned()).to_text()).unwrap().shown(), "x");
    }

    #[test]
    fn a_loose_ref_wins_over_a_packed_one_and_symbolic_refs_are_followed() {
        let packed = format!(
            "# pack-refs with: peeled\n{A} refs/heads/main\n{A} refs/heads/main2\n{A} refs/tags/t\n^{B}\n"
        );
        let refs =
            texts(&format!("{B} refs/heads/main\nref: refs/heads/main2 refs/remotes/o/HEAD\n"), &packed);
        assert_eq!(refs.value("refs/heads/main").as_deref(), Some(B));
        assert_eq!(refs.value("refs/heads/main2").as_deref(), Some(A));
        assert_eq!(refs.value("refs/remotes/o/HEAD").as_deref(), Some(A));
        assert_eq!(refs.value("refs/heads/mai"), None);
    }

    #[test]
    fn packing_refs_is_no_change_and_every_other_difference_is() {
        let loose = texts(&format!("{A} refs/heads/x\n{B} refs/tags/t\n"), "");
        let own = texts(&format!("{A} refs/decree/runs/1\n{A} refs/decree/runs/2\n"), "");
        let one = texts(&format!("{B} refs/decree/runs/1\n{A} refs/decree/runs/3\n"), "");
        let gone: Vec<String> = own.changes(&one).iter().map(RefChange::shown).collect();
        assert_eq!(gone, ["refs/decree/runs/2 (deleted; it was 1111111111)"]);
        let packed = texts("", &format!("{A} refs/heads/x\n{B} refs/tags/t\n"));
        assert_eq!(loose.changes(&packed), []);
        let moved = texts(&format!("{B} refs/decree/runs/1\n{B} refs/heads/x\n{A} refs/heads/y\n"), "");
        let shown: Vec<String> = loose.changes(&moved).iter().map(RefChange::shown).collect();
        assert_eq!(
            shown,
            [
                "refs/heads/x (moved; it was 1111111111)",
                "refs/heads/y (created)",
                "refs/tags/t (deleted; it was 2222222222)"
            ]
        );
    }
}
