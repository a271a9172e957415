//! What can be set, and what holds when it is not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// All settings of a project. Zero means no limit wherever a limit can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Commands that decree and its routines call.
    pub commands: Commands,
    /// How many failed attempts are learned from before the last one on a clean tree; 0 is one attempt in all.
    pub max_retries: u32,
    /// A message with this sequence number or a higher one is refused.
    pub max_depth: u32,
    /// The routine for a message that names none and that the router has no answer for.
    pub default_routine: String,
    /// Whether notebooks are routines.
    pub notebook_support: bool,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How long to wait before the second attempt; doubled each time.
    pub retry_delay: Duration,
    /// A command that has to succeed after the routine; empty for none.
    pub verify: String,
    /// What an attempt that changed nothing counts as.
    pub on_no_change: OnNoChange,
    /// Commands around the work.
    pub hooks: Hooks,
    /// Directories with shared routines, after the project's own; relative to the project.
    pub routine_paths: Vec<PathBuf>,
    /// What all attempts together may use up.
    pub budget: Budget,
    /// How many bytes of an attempt's output are kept.
    pub log_limit: u64,
    /// Files that are left out of checkpoints, beyond the built-in names, and exceptions.
    pub sensitive: SensitiveConfig,
    /// What a routine may change.
    pub policy: Policy,
    /// Environment variables that reach a routine although they would be held back.
    pub pass_env: Vec<String>,
    /// Databases that are saved and brought back by commands, by their names.
    pub databases: BTreeMap<String, Database>,
}

/// Commands, as a shell would take them; empty for none.
#[derive(Clone, Debug, PartialEq)]
pub struct Commands {
    /// Chooses a routine and a name for a message; empty for the built-in router.
    pub router: String,
    /// The AI coding tool that the default routines call.
    pub ai: String,
}

/// What an attempt that succeeded and changed nothing counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNoChange {
    /// A success.
    #[default]
    Accept,
    /// A failed attempt.
    Retry,
}

/// Commands around the work; empty for none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hooks {
    /// Before the first message.
    pub before_all: String,
    /// Before each message.
    pub before_each: String,
    /// After each message.
    pub after_each: String,
    /// After the last message.
    pub after_all: String,
}

/// When to begin no further attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// US dollars, as routines report them.
    pub usd: f64,
    /// Time since the command began.
    pub time: Duration,
    /// Attempts of all messages together.
    pub attempts: u32,
}

/// Ignore patterns both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SensitiveConfig {
    /// Also left out.
    pub exclude: Vec<String>,
    /// Not left out.
    pub allow: Vec<String>,
}

/// What a routine may change; anything else makes its attempt a failed one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Only these paths (ignore patterns); empty for all.
    pub allow: Vec<String>,
    /// Never these paths (ignore patterns).
    pub deny: Vec<String>,
    /// How many paths.
    pub max_files: u64,
    /// How many bytes they may have together.
    pub max_bytes: u64,
}

/// A database and the commands that know it. They are told a file by `DECREE_FILE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    /// Writes what is in the database to the file.
    pub save: String,
    /// Makes the database what the file says.
    pub restore: String,
    /// Prints something that is the same whenever what is in the database is; empty if what `save` writes is.
    pub fingerprint: String,
    /// How long each of them may take.
    pub timeout: Duration,
}

impl Default for Database {
    fn default() -> Self {
        let (save, restore, fingerprint) = Default::default();
        Database { save, restore, fingerprint, timeout: Duration::from_secs(600) }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            commands: Commands::default(),
            max_retries: 3,
            max_depth: 10,
            default_routine: "develop".into(),
            notebook_support: false,
            timeout: Duration::from_secs(3600),
            retry_delay: Duration::ZERO,
            verify: String::new(),
            on_no_change: OnNoChange::default(),
            hooks: Hooks::default(),
            routine_paths: Vec::new(),
            budget: Budget::default(),
            log_limit: 20 << 20,
            sensitive: SensitiveConfig::default(),
            policy: Policy::default(),
            pass_env: Vec::new(),
            databases: BTreeMap::new(),
        }
    }
}

impl Default for Commands {
    fn default() -> Self {
        Commands { router: String::new(), ai: "claude -p".into() }
    }
}
