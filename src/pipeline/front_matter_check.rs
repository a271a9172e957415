//! Whether decree and the routine understand the front matter of a spec or a message.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::context::RunOverrides;
use super::{route, verify_program};
use crate::fs::untrusted;
use crate::message::{
    Document, DocumentKind, Rejection, UnknownKey, check_parameters, check_values, is_spec_key,
    misplaced_key, mistaken_opening, read_limited, unknown_keys,
};
use crate::process::environment::child_environment;
use crate::project::{Config, Layout, parse_duration};
use crate::routine::{Routine, RoutineKind, Routines};
use crate::yaml::Mistake;

/// A spec or a message with the name that errors have for it.
#[derive(Clone, Copy)]
pub(super) struct CheckedDocument<'d> {
    pub kind: DocumentKind,
    /// The path of the spec, or the file name of the message.
    pub file: &'d str,
    pub document: &'d Document,
}

impl CheckedDocument<'_> {
    /// Rejects values of the wrong type. What is a parameter is known only once the routine is chosen.
    pub fn check_values(&self) -> Result<(), Rejection> {
        check_values(self.document, self.kind).map_err(|mistake| self.rejection(&mistake))
    }

    /// Rejects a parameter of a script that is not text, a spec's key that is a typing mistake of a key of decree's, and a message's key
    /// that only specs have: each would switch off what it stands for. Returns a warning for every other key that neither decree nor the routine reads.
    pub fn check_keys(&self, routine: &Routine) -> Result<Vec<String>, Rejection> {
        let is_parameter = |name: &str| routine.parameters.iter().any(|parameter| parameter.name == name);
        // A notebook takes lists and mappings, too.
        if routine.kind == RoutineKind::Shell {
            check_parameters(self.document, is_parameter).map_err(|mistake| self.rejection(&mistake))?;
        }
        let mut warnings = Vec::new();
        for key in unknown_keys(self.document, self.kind, is_parameter) {
            let mistake = match self.kind {
                DocumentKind::Spec => key.meant.map(|_| key.describe()),
                DocumentKind::Message => misplaced_key(&key.name),
            };
            if let Some(mistake) = mistake {
                return Err(self.rejection(&Mistake::new(key.line, mistake)));
            }
            warnings.push(self.warning(&key, routine));
        }
        Ok(warnings)
    }

    /// The limit of an attempt in its front matter.
    pub fn timeout(&self) -> Result<Option<std::time::Duration>, Rejection> {
        let text = self.document.get_text("timeout");
        let parsed = text.map(|text| parse_duration(&text)).transpose();
        parsed.map_err(|why| self.reject(format!("{}: timeout: {why}", self.file)))
    }

    fn warning(&self, key: &UnknownKey, routine: &Routine) -> String {
        let (file, line, name) = (self.file, key.line, &routine.name);
        format!("{file}:{line}: {} (neither decree nor the routine '{name}' reads it)", key.describe())
    }

    fn rejection(&self, mistake: &Mistake) -> Rejection {
        let hint = mistake.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
        self.reject(format!("{}:{}: {}{hint}", self.file, mistake.line, mistake.message))
    }

    fn reject(&self, why: String) -> Rejection {
        match self.kind {
            DocumentKind::Spec => Rejection { code: "BadSpec", why },
            DocumentKind::Message => Rejection::bad(why),
        }
    }
}

/// Parses the text of a spec or a message; the error names file and line.
pub(super) fn parse(kind: DocumentKind, file: &str, text: &str) -> Result<Document, Rejection> {
    let nothing = Document::default();
    let checked = CheckedDocument { kind, file, document: &nothing };
    Document::parse(text).map_err(|mistake| checked.rejection(&mistake))
}

/// Reads a spec whose values are of the right types.
pub(super) fn read_spec(layout: &Layout, path: &str) -> Result<Document, Rejection> {
    let bad = |why: String| Rejection { code: "BadSpec", why };
    let read = untrusted::open_inside(layout.root(), path).and_then(read_limited);
    let bytes = read.map_err(|error| bad(format!("{path} cannot be read: {error}")))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| bad(format!("{path} is not UTF-8")))?;
    let document = parse(DocumentKind::Spec, path, text)?;
    let checked = CheckedDocument { kind: DocumentKind::Spec, file: path, document: &document };
    checked.check_values()?;
    if let Some((line, key)) = mistaken_opening(text).filter(|(_, key)| is_spec_key(key)) {
        let mistake =
            Mistake::new(line, format!("this line is not '---', so '{key}' below it has no effect"));
        return Err(checked.rejection(&mistake.hint("front matter begins and ends with a line '---'")));
    }
    Ok(document)
}

/// The command that has to succeed after the routine: the spec's, else the config's; empty for none.
pub(super) fn verification(spec: &Document, config: &Config) -> String {
    spec.get_text("verify").unwrap_or_else(|| config.verify.clone())
}

/// What it takes to judge specs and messages without running anything.
pub struct WorkCheck<'p> {
    pub(super) layout: &'p Layout,
    pub(super) config: &'p Config,
    routines: &'p Routines,
    overrides: &'p RunOverrides,
    /// What routines and verifications inherit.
    environment: BTreeMap<OsString, OsString>,
    /// What bash says of the scripts that were parsed.
    parsed: RefCell<BTreeMap<PathBuf, Option<String>>>,
    /// Why the verifications that were looked at cannot succeed.
    verifications: RefCell<BTreeMap<String, Option<String>>>,
}

impl<'p> WorkCheck<'p> {
    pub fn new(
        layout: &'p Layout,
        config: &'p Config,
        routines: &'p Routines,
        overrides: &'p RunOverrides,
    ) -> Self {
        let environment = child_environment(std::env::vars_os(), &config.pass_env);
        let (parsed, verifications) = (RefCell::default(), RefCell::default());
        WorkCheck { layout, config, routines, overrides, environment, parsed, verifications }
    }

    /// Why a spec cannot be processed, as far as that is known; warnings if it can. With a router its routine is known only if it
    /// names one.
    pub fn spec(&self, path: &str) -> Result<Vec<String>, Rejection> {
        let document = read_spec(self.layout, path)?;
        let checked = CheckedDocument { kind: DocumentKind::Spec, file: path, document: &document };
        checked.timeout()?;
        let warnings = match self.routine(&[&document])? {
            Some(routine) => checked.check_keys(routine)?,
            None => Vec::new(),
        };
        self.verification(&document)?;
        Ok(warnings)
    }

    /// Rejects a spec, or none, whose verification begins with a program that is not installed.
    pub(super) fn verification(&self, spec: &Document) -> Result<(), Rejection> {
        let command = verification(spec, self.config);
        let why = self.missing_verification(&command);
        why.map_or(Ok(()), |why| Err(Rejection { code: "NeedsMissing", why }))
    }

    /// Why a command that verifies cannot succeed here, if that is known.
    pub fn missing_verification(&self, command: &str) -> Option<String> {
        let mut known = self.verifications.borrow_mut();
        let look = || verify_program::cannot_succeed(command, self.layout, &self.environment);
        known.entry(command.to_owned()).or_insert_with(look).clone()
    }

    /// The routine that these documents lead to, if that is known and it can run here.
    pub(super) fn routine(&self, documents: &[&Document]) -> Result<Option<&'p Routine>, Rejection> {
        let Some(name) = route::known_routine(self.config, self.overrides, documents) else {
            return Ok(None);
        };
        let routine = route::find_routine(self.routines, self.config, &name)?;
        let mut parsed = self.parsed.borrow_mut();
        let mistake = parsed.entry(routine.path.clone()).or_insert_with(|| {
            // If bash cannot run, that is reported as such.
            route::syntax_error(self.layout, self.environment.clone(), routine).ok().flatten()
        });
        match mistake {
            Some(why) => Err(Rejection { code: "RoutineInvalid", why: why.clone() }),
            None => Ok(Some(routine)),
        }
    }
}
