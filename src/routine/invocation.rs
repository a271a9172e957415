//! The command line that runs a routine: bash for a script, papermill for a notebook.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::discovery::{Routine, RoutineKind};
use super::papermill;
use crate::error::{Error, IoContext, Result};
use crate::project::Layout;
use crate::yaml::{self, ScalarKind, YamlNode, YamlValue};

/// What to execute, and where its output goes.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Added to the environment; a script takes its parameters from there.
    pub environment: BTreeMap<OsString, OsString>,
}

impl Invocation {
    /// The invocation of a routine; a notebook with its results is written to `output`. In a shell every parameter is text; a notebook
    /// gets those in `typed` as they are.
    pub fn new(
        routine: &Routine,
        parameters: BTreeMap<String, String>,
        typed: &BTreeMap<String, YamlValue>,
        layout: &Layout,
        output: &Path,
    ) -> Result<Invocation> {
        if routine.kind == RoutineKind::Notebook {
            return notebook(routine, parameters, typed, layout, output);
        }
        let environment = parameters.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // Through bash, so that the file need not be executable.
        Ok(Invocation { program: "bash".into(), arguments: vec![routine.path.clone().into()], environment })
    }
}

/// Runs `papermill <routine> <output>` with the parameters.
fn notebook(
    routine: &Routine,
    parameters: BTreeMap<String, String>,
    typed: &BTreeMap<String, YamlValue>,
    layout: &Layout,
    output: &Path,
) -> Result<Invocation> {
    let papermill = papermill::find(layout).ok_or_else(|| {
        Error::project(format!("{} has no papermill", layout.shown(&layout.venv())))
            .hint("`decree doctor` lists what is missing")
    })?;
    let mut arguments: Vec<OsString> = vec![routine.path.clone().into(), output.into(), "--cwd".into()];
    arguments.extend([layout.root().into(), "--log-output".into(), "--no-progress-bar".into()]);
    for (key, value) in parameters.iter().filter(|(key, _)| !typed.contains_key(*key)) {
        // `-p` lets papermill infer the type: right where the notebook's default is no text. An id of digits stays text.
        let is_typed = routine.parameters.iter().any(|parameter| parameter.name == *key && parameter.typed);
        if is_typed && matches!(value.as_str(), "true" | "false") {
            // papermill infers only Python's own spelling.
            arguments.extend(["-y".into(), format!("{{{}: {value}}}", yaml::quoted(key)).into()]);
            continue;
        }
        let flag = if is_typed { "-p" } else { "-r" };
        arguments.extend([flag.into(), key.into(), value.into()]);
    }
    for (key, value) in typed {
        let mapping = format!("{{{}: {}}}", yaml::quoted(key), in_yaml_1_1(value));
        arguments.extend(["-y".into(), mapping.into()]);
    }
    Ok(Invocation { program: papermill.into(), arguments, environment: jupyter_dirs(layout)? })
}

/// A value on one line, in a notation that papermill's reader, which follows YAML 1.1, takes for the same value.
fn in_yaml_1_1(value: &YamlValue) -> String {
    match value {
        YamlValue::Null => "null".to_owned(),
        YamlValue::Scalar(ScalarKind::Text, text) => yaml::quoted(text),
        YamlValue::Scalar(ScalarKind::Bool, text) => text.to_lowercase(),
        YamlValue::Scalar(ScalarKind::Number, text) => match text.split_once('e') {
            // To YAML 1.1, `1e16` is text.
            Some((digits, exponent)) => {
                let point = if digits.contains('.') { "" } else { ".0" };
                let sign = if exponent.starts_with('-') { "" } else { "+" };
                format!("{digits}{point}e{sign}{exponent}")
            }
            None => text.clone(),
        },
        YamlValue::List(items) => {
            let items: Vec<String> = items.iter().map(|item| in_yaml_1_1(&item.value)).collect();
            format!("[{}]", items.join(", "))
        }
        YamlValue::Map(entries) => {
            let entry = |(key, value): &(YamlNode, YamlNode)| {
                format!("{}: {}", in_yaml_1_1(&key.value), in_yaml_1_1(&value.value))
            };
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Directories for Jupyter in `.decree/tmp`: by default it writes into the home directory, which a CI job may not have.
fn jupyter_dirs(layout: &Layout) -> Result<BTreeMap<OsString, OsString>> {
    let mut dirs = BTreeMap::new();
    for name in ["IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"] {
        if std::env::var_os(name).is_none() {
            let dir = layout.scratch().join("jupyter").join(name.to_lowercase());
            fs::create_dir_all(&dir).at("create", &dir)?;
            dirs.insert(name.into(), dir.into());
        }
    }
    Ok(dirs)
}
