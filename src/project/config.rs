//! `.decree/config.yml`.

use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, IoContext, Result};

/// The settings that the checkpoint engine knows.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Config {
    /// Files that are left out of checkpoints, beyond the built-in names, and exceptions.
    #[serde(default)]
    pub sensitive: SensitiveConfig,
}

/// Ignore patterns both.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SensitiveConfig {
    /// Also left out.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Not left out.
    #[serde(default)]
    pub allow: Vec<String>,
}

impl Config {
    /// Reads the file; a missing or empty one is all defaults.
    pub fn read(path: &Path) -> Result<Config> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
            result => result.at("read", path)?,
        };
        let config: Option<Config> = serde_yaml::from_str(&text).map_err(|error| {
            let line = error.location().map_or(String::new(), |place| format!(":{}", place.line()));
            Error::project(format!("{}{line}: {error}", path.display()))
        })?;
        Ok(config.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yml");
        std::fs::write(&path, text).unwrap();
        Config::read(&path)
    }

    #[test]
    fn an_empty_config_is_all_defaults() {
        assert!(read("").unwrap().sensitive.exclude.is_empty());
        assert!(read("# nothing\n").unwrap().sensitive.allow.is_empty());
    }

    #[test]
    fn a_wrong_type_is_told_with_its_line() {
        let error = read("sensitive:\n  exclude: 3\n").unwrap_err();
        assert_eq!(error.kind().exit_code(), 3);
        assert!(error.to_string().contains("config.yml:2"), "{error}");
    }
}
