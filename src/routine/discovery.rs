//! Finds routines, and reads their descriptions and parameters.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::header::RoutineHeader;
use super::notebook::Notebook;
use super::parameters::{self, Parameter};
use crate::error::{Error, IoContext, Result};
use crate::fs::untrusted::{Problem, names_in, regular_file};
use crate::project::{Project, RoutineName, shown_in_project};
use crate::suggest::{closest, did_you_mean};

/// A script or a notebook that carries out messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    /// The file name without its extension.
    pub name: RoutineName,
    pub path: PathBuf,
    pub kind: RoutineKind,
    /// The comment at its top; may be empty or have several lines.
    pub description: String,
    /// Parameters that a message may set, beyond the standard ones.
    pub parameters: Vec<Parameter>,
    /// Commands that its header says it needs.
    pub needs: Vec<String>,
    /// Whether it lets an AI agent do the work.
    pub is_agent: bool,
}

/// How a routine is run. Of two with the same name, the notebook has priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoutineKind {
    /// An `.ipynb` file, run by papermill.
    Notebook,
    /// An `.sh` file, run by bash.
    Shell,
}

/// All routines of a project, one per name.
#[derive(Clone, Debug, Default)]
pub struct Routines {
    routines: BTreeMap<RoutineName, Routine>,
    /// Files that have the name of a routine and cannot be used.
    pub problems: Vec<Problem>,
    /// The directories that were searched, and the file names in them that may be routines.
    searched: Vec<(PathBuf, Vec<String>)>,
    /// Notebooks that were left out because `notebook_support` is off.
    disabled: Vec<RoutineName>,
}

impl RoutineKind {
    /// In the order of priority.
    pub(super) const ALL: [RoutineKind; 2] = [RoutineKind::Notebook, RoutineKind::Shell];

    /// The file name's extension, with its dot.
    pub fn extension(self) -> &'static str {
        match self {
            RoutineKind::Notebook => ".ipynb",
            RoutineKind::Shell => ".sh",
        }
    }
}

impl Routines {
    /// The routines of a project: its own, then those in `routine_paths`.
    pub fn of(project: &Project) -> Result<Routines> {
        let own = std::iter::once(project.layout.routines());
        let shared = project.config.routine_paths.iter().map(|path| project.layout.root().join(path));
        Routines::discover(&own.chain(shared).collect::<Vec<_>>(), project.config.notebook_support)
    }

    /// Searches the directories in order. A missing directory is no error, and hidden files are ignored.
    ///
    /// The first directory with a file of a name decides, even if that file is unusable: another routine must not run in its
    /// place.
    pub fn discover(dirs: &[PathBuf], notebook_support: bool) -> Result<Routines> {
        let mut found = Routines::default();
        let mut by_name = BTreeMap::new();
        for dir in dirs {
            let mut candidates = found.list(dir, notebook_support)?;
            candidates.sort();
            for (name, kind, path) in candidates {
                by_name.entry(name).or_insert((kind, path));
            }
        }
        for (name, (kind, path)) in by_name {
            match read(name.clone(), kind, &path) {
                Ok(routine) => drop(found.routines.insert(name, routine)),
                Err(reason) => found.problems.push(Problem { path: shown_in_project(&path), reason }),
            }
        }
        Ok(found)
    }

    /// The files in a directory that may be routines, judged by their names.
    fn list(
        &mut self,
        dir: &Path,
        notebook_support: bool,
    ) -> Result<Vec<(RoutineName, RoutineKind, PathBuf)>> {
        let shown = shown_in_project(dir);
        let mut candidates = Vec::new();
        let mut files = Vec::new();
        for file in names_in(dir).at("read", &shown)? {
            match candidate(&file) {
                Ok(None) => {}
                Ok(Some((name, RoutineKind::Notebook))) if !notebook_support => self.disabled.push(name),
                Ok(Some((name, kind))) => {
                    files.push(file.to_string_lossy().into_owned());
                    candidates.push((name, kind, dir.join(&file)));
                }
                Err(reason) => self.problems.push(Problem { path: shown.join(&file), reason }),
            }
        }
        self.searched.push((shown, files));
        Ok(candidates)
    }

    /// The routine of this name; the error lists what was found instead.
    pub fn find(&self, name: &RoutineName) -> Result<&Routine> {
        self.routines.get(name).ok_or_else(|| self.not_found(name.as_str()))
    }

    /// The error for a name that no routine has, whether or not it is a valid one.
    pub fn not_found(&self, name: &str) -> Error {
        let error = match RoutineName::parse(name) {
            Ok(_) => Error::project(format!("routine '{name}' not found")),
            Err(why) => Error::project(format!("{name:?} is not a routine name: {why}")),
        };
        let error = self.searched.iter().fold(error, |error, (dir, files)| {
            let files = if files.is_empty() { "no routines".to_owned() } else { files.join(", ") };
            error.detail(format!("looked in {}: {files}", dir.display()))
        });
        let has_name = |problem: &&Problem| problem.path.file_stem() == Some(OsStr::new(name));
        if let Some(Problem { path, reason }) = self.problems.iter().find(has_name) {
            return error.detail(format!("{} cannot be used: {reason}", path.display()));
        }
        if self.disabled.iter().any(|disabled| disabled.as_str() == name) {
            return error.hint(format!("{name}.ipynb exists: set 'notebook_support: true' to use notebooks"));
        }
        let stem =
            RoutineKind::ALL.iter().find_map(|kind| name.strip_suffix(kind.extension())).unwrap_or(name);
        let known = self.names().map(RoutineName::as_str);
        match closest(stem, known) {
            Some(meant) => error.hint(did_you_mean(meant)),
            None => error,
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Routine) -> bool) {
        self.routines.retain(|_, routine| keep(routine));
    }

    /// All routines, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Routine> {
        self.routines.values()
    }

    pub fn names(&self) -> impl ExactSizeIterator<Item = &RoutineName> {
        self.routines.keys()
    }
}

/// What a file is by its name: a routine, or `None`. An error says why a file with the right extension cannot be a routine.
fn candidate(file: &OsStr) -> Result<Option<(RoutineName, RoutineKind)>, String> {
    let bytes = file.as_encoded_bytes();
    let Some(kind) = RoutineKind::ALL.into_iter().find(|kind| bytes.ends_with(kind.extension().as_bytes()))
    else {
        return Ok(None);
    };
    if bytes.starts_with(b".") {
        return Ok(None);
    }
    let file = file.to_str().ok_or("its name is not UTF-8")?;
    let stem = file.strip_suffix(kind.extension()).unwrap_or(file);
    let name = RoutineName::parse(stem).map_err(|why| format!("its name is not a routine name: {why}"))?;
    Ok(Some((name, kind)))
}

fn read(name: RoutineName, kind: RoutineKind, path: &Path) -> Result<Routine, String> {
    regular_file(path)?;
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let (header, parameters) = match kind {
        RoutineKind::Shell => (RoutineHeader::from_shell(&text), parameters::from_shell(&text)),
        RoutineKind::Notebook => {
            let notebook = Notebook::parse(&text)?;
            let parameters = notebook.parameters().map(|cell| parameters::from_notebook(&cell));
            let header = notebook.introduction().map(|cell| RoutineHeader::from_markdown(&cell));
            (header.unwrap_or_default(), parameters.unwrap_or_default())
        }
    };
    let RoutineHeader { description, needs, agent } = header;
    let calls_ai = || needs.iter().any(|need| need == "ai") || text.contains("DECREE_AI");
    let is_agent = agent.unwrap_or_else(calls_ai);
    Ok(Routine { name, path: path.to_owned(), kind, description, parameters, needs, is_agent })
}

#[cfg(test)]
mod tests;
