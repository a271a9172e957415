//! Databases that are saved and restored by commands from the config.
//!
//! A command gets the environment of a hook, and the path of a file in `DECREE_FILE`. Its result is trusted only as far as it can be
//! checked: it has to succeed, every part of a pipe too (a hash of what a failing program printed would be the hash of
//! nothing), and what it saved has to be a file that is not empty.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::{atomic, random_hex};
use crate::humanize;
use crate::interrupt::{self, Interruptible};
use crate::process::environment::child_environment;
use crate::process::redact::Redactor;
use crate::process::{Exec, ExecEnd, ExecResult, STRICT_BASH};
use crate::project::{Config, Database};
use crate::sanitize::{escape_command, last_lines};
use crate::suggest::{closest, did_you_mean};

/// The file that a command writes or reads.
const FILE: &str = "DECREE_FILE";
/// The database that a command is for.
const NAME: &str = "DECREE_DATABASE";
/// A fingerprint is a line; a command that prints the whole database is a mistake.
const MAX_FINGERPRINT: usize = 64 << 10;
/// How many lines of a failing command's output an error has.
const MAX_LINES: usize = 10;
/// How much of its output is kept for that.
const MAX_OUTPUT: usize = 16 << 10;

/// What a command saved of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    /// The size of the file.
    pub bytes: u64,
    /// The hash of the file.
    pub sha256: ContentHash,
    /// Identifies the content: the hash of what the command `fingerprint` printed, or that
    /// of the file if there is no such command. `None` if the database changed while it was saved.
    pub fingerprint: Option<ContentHash>,
}

/// A database of the config, and what its commands need.
pub struct DatabaseCommands<'c> {
    name: &'c str,
    database: &'c Database,
    root: &'c Path,
    environment: BTreeMap<OsString, OsString>,
    redactor: Redactor,
    supervisor: Option<PathBuf>,
}

impl<'c> DatabaseCommands<'c> {
    /// The database of that name, in the project at `root`.
    pub fn find(root: &'c Path, config: &'c Config, name: &str) -> Result<DatabaseCommands<'c>> {
        let Some((name, database)) = config.databases.get_key_value(name) else {
            let names: Vec<&str> = config.databases.keys().map(String::as_str).collect();
            let error = Error::project(format!(
                "there is no database '{}' in .decree/config.yml",
                escape_command(name)
            ));
            return Err(error.hint(match closest(name, names.iter().copied()) {
                Some(meant) => did_you_mean(meant),
                None if names.is_empty() => {
                    "add it below 'databases:', with a 'save' and a 'restore' command".into()
                }
                None => format!("it has {}", names.join(", ")),
            }));
        };
        let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        Ok(DatabaseCommands {
            name,
            database,
            root,
            environment: child_environment(variables.clone(), &config.pass_env),
            redactor: Redactor::from_environment(&variables),
            supervisor: None,
        })
    }

    /// The decree that supervises the commands, instead of this executable. For tests, which are other executables.
    pub fn supervisor(mut self, decree: impl Into<PathBuf>) -> Self {
        self.supervisor = Some(decree.into());
        self
    }

    /// Saves the database to the new file `to`, which is complete and durable afterwards, or not there.
    pub fn save(&mut self, to: &Path) -> Result<Dump> {
        if to.symlink_metadata().is_ok() {
            return Err(Error::failed(format!("{} exists already", to.display())));
        }
        let before = self.printed(to)?;
        let saved = self.run("save", &self.database.save, to, None).and_then(|_| self.take_in(to));
        let dump = saved.and_then(|(sha256, bytes)| {
            let fingerprint = match before {
                Some(before) => self.printed(to)?.filter(|after| *after == before),
                None => Some(sha256),
            };
            Ok(Dump { bytes, sha256, fingerprint })
        });
        if dump.is_err() {
            remove(to);
        }
        dump
    }

    /// Hashes the file that a command wrote, and makes it durable and readable by its owner only.
    fn take_in(&self, path: &Path) -> Result<(ContentHash, u64)> {
        let key = format!("databases.{}.save", self.name);
        let wrong = |what: &str| {
            Error::failed(format!("{key} succeeded, but {what}"))
                .hint(format!("the command has to write the content of the database to \"${FILE}\""))
        };
        match path.symlink_metadata() {
            Err(_) => return Err(wrong("it wrote no file")),
            Ok(found) if !found.is_file() => return Err(wrong("what it wrote is not a regular file")),
            Ok(found) if found.len() == 0 => return Err(wrong("the file that it wrote is empty")),
            Ok(_) => {}
        }
        fs::set_permissions(path, Permissions::from_mode(0o600)).at("write", path)?;
        let file = File::open(path).at("read", path)?;
        file.sync_all().at("write", path)?;
        atomic::sync_parent(path)?;
        hash(file, path)
    }

    /// The fingerprint of the present content, to be compared with [`Dump::fingerprint`]. Without a command for that the database is
    /// saved to a file in the directory `scratch`, which is removed afterwards.
    pub fn fingerprint_now(&mut self, scratch: &Path) -> Result<ContentHash> {
        fs::create_dir_all(scratch).at("create", scratch)?;
        let file = scratch.join(format!("{}{}.dump", atomic::TEMPORARY, random_hex()));
        if let Some(printed) = self.printed(&file)? {
            return Ok(printed);
        }
        let saved = self.run("save", &self.database.save, &file, None).and_then(|_| self.take_in(&file));
        remove(&file);
        Ok(saved?.0)
    }

    /// The hash of what the command `fingerprint` prints, if there is one.
    fn printed(&mut self, file: &Path) -> Result<Option<ContentHash>> {
        if self.database.fingerprint.is_empty() {
            return Ok(None);
        }
        let ended = self.run("fingerprint", &self.database.fingerprint, file, Some(MAX_FINGERPRINT))?;
        let wrong = |what: &str| {
            Error::failed(format!("databases.{}.fingerprint succeeded, but {what}", self.name))
                .hint("it has to print a hash of the content, e.g. with `… | sha256sum`")
        };
        let printed = ended.stdout.trim_ascii();
        if printed.is_empty() {
            return Err(wrong("it printed nothing"));
        }
        if ended.stdout_truncated {
            Err(wrong("it printed too much"))
        } else {
            Ok(Some(ContentHash::of(printed)))
        }
    }

    /// Restores what was saved. [`DatabaseCommands::fingerprint_now`] proves it.
    pub fn restore(&mut self, copy: &Path, expected: &Dump) -> Result<()> {
        check(copy, expected)?;
        self.run("restore", &self.database.restore, copy, None)
            .map(drop)
            .map_err(|error| error.detail("the database may be restored only in part"))
    }

    /// Runs one of the commands; an error if it did not succeed.
    fn run(&mut self, word: &str, command: &str, file: &Path, capture: Option<usize>) -> Result<ExecResult> {
        let file = std::path::absolute(file).at("find", file)?;
        let timeout = self.database.timeout;
        let mut exec = Exec::new("bash")
            .args(STRICT_BASH)
            .args([command])
            .directory(self.root)
            .environment(self.environment.clone())
            .variable(FILE, &file)
            .variable(NAME, self.name)
            .timeout((!timeout.is_zero()).then_some(timeout));
        exec.capture = capture;
        if let Some(decree) = &self.supervisor {
            exec.supervisor = decree.into();
        }
        let mut output = Vec::new();
        let redactor = &mut self.redactor;
        let ended = exec.run(&mut |bytes: &[u8]| {
            redactor.push(bytes, &mut output);
            let surplus = output.len().saturating_sub(MAX_OUTPUT);
            output.drain(..surplus);
            Ok(())
        });
        redactor.flush(&mut output);
        let ended = ended?;
        let why = match ended.end {
            ExecEnd::Exited(0) => return Ok(ended),
            ExecEnd::Interrupted => {
                let signal = interrupt::requested().unwrap_or_default();
                return Err(Error::new(ErrorKind::Interrupted { signal }, "interrupted")
                    .detail(format!("databases.{}.{word} was ended", self.name)));
            }
            ExecEnd::TimedOut => format!("timed out after {}", humanize::duration(timeout)),
            how => how.to_string(),
        };
        let lines = last_lines(&String::from_utf8_lossy(&output), MAX_LINES);
        let lines: Vec<String> = lines.iter().map(|line| escape_command(line)).collect();
        Err(Error::failed(format!("databases.{}.{word} failed: {why}", self.name))
            .details(lines, MAX_LINES)
            .hint(format!("run the command of .decree/config.yml by hand, with {FILE} set to a file")))
    }
}

/// Checks that a dump is what was saved.
pub fn check(copy: &Path, expected: &Dump) -> Result<()> {
    let broken = |what: &str| Error::integrity(format!("the saved database {} {what}", copy.display()));
    match copy.symlink_metadata() {
        Ok(found) if !found.is_file() => return Err(broken("is not a regular file")),
        Ok(_) => {}
        Err(error) => return Err(broken("cannot be read").caused_by(error)),
    }
    let file = File::open(copy).map_err(|error| broken("cannot be read").caused_by(error))?;
    match hash(file, copy)? {
        (sha256, _) if sha256 == expected.sha256 => Ok(()),
        (sha256, bytes) => Err(broken("has changed")
            .detail(format!("saved: {} bytes, SHA-256 {}", expected.bytes, expected.sha256))
            .detail(format!("found: {bytes} bytes, SHA-256 {sha256}"))),
    }
}

fn hash(file: File, path: &Path) -> Result<(ContentHash, u64)> {
    ContentHash::of_reader(&mut Interruptible(file), &mut vec![0; 1 << 18]).at("read", path)
}

/// Removes whatever a command left.
fn remove(path: &Path) {
    let _ = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
}
