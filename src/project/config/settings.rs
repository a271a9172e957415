//! All settings and their defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// All settings of a project. A limit of zero means no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Commands that decree and its routines call.
    pub commands: Commands,
    /// How many times a failed attempt is retried. Each retry continues from the last one's changes; the final one starts from
    /// the restored tree.
    pub max_retries: u32,
    /// A message with this sequence number or a higher one is rejected.
    pub max_depth: u32,
    /// The routine for a message that names none, if there is no router or it finds none.
    pub default_routine: String,
    /// Whether notebooks are accepted as routines.
    pub notebook_support: bool,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How long to wait before the second attempt; doubled each time.
    pub retry_delay: Duration,
    /// A command that must succeed after the routine; empty for none.
    pub verify: String,
    /// How an attempt that changed nothing is judged.
    pub on_no_change: OnNoChange,
    /// Commands that run before and after the work.
    pub hooks: Hooks,
    /// Directories with shared routines, after the project's own; relative to the project.
    pub routine_paths: Vec<PathBuf>,
    /// Limits for all attempts together.
    pub budget: Budget,
    /// How many bytes of an attempt's output are kept.
    pub log_limit: u64,
    /// Additions to, and exceptions from, the built-in names of files that checkpoints leave out.
    pub sensitive: SensitiveConfig,
    /// What a routine may change.
    pub policy: Policy,
    /// Environment variables that routines get although decree withholds them by default.
    pub pass_env: Vec<String>,
    /// Databases that are saved and restored by commands, by name.
    pub databases: BTreeMap<String, Database>,
}

/// Command lines of the tools that decree and its routines call; empty for none.
#[derive(Clone, Debug, PartialEq)]
pub struct Commands {
    /// Chooses a routine and a name for a message: a command, `builtin`, or empty for the default routine. See [`Router`].
    pub router: String,
    /// How long the router may take; an attempt's time limit applies too.
    pub router_timeout: Duration,
    /// The AI coding tool that the default routines call. It reads the prompt from standard input.
    pub ai: String,
}

/// What chooses the routine of a message that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Router<'c> {
    /// Nothing: the default routine is used.
    None,
    /// The ranking by descriptions, which needs no other program.
    Builtin,
    /// This command.
    Command(&'c str),
}

/// How an attempt that succeeded and changed nothing is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNoChange {
    /// As a failure if an agent carried out a spec, as a success otherwise.
    #[default]
    Auto,
    /// As a success.
    Accept,
    /// As a failure.
    Retry,
}

/// Commands that run before and after the work; empty for none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hooks {
    /// Runs once, before the first message.
    pub before_all: String,
    /// Runs before each message.
    pub before_each: String,
    /// Runs after each message.
    pub after_each: String,
    /// Runs once, after the last message.
    pub after_all: String,
}

/// Limits after which no further attempt is started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// US dollars, as routines report them.
    pub usd: f64,
    /// Time since the start of the command.
    pub time: Duration,
    /// Attempts of all messages together.
    pub attempts: u32,
}

/// Ignore patterns for files that may hold secrets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SensitiveConfig {
    /// Files to leave out of checkpoints as well.
    pub exclude: Vec<String>,
    /// Files to keep in checkpoints although a built-in name matches.
    pub allow: Vec<String>,
}

/// What a routine may change; any other change fails its attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Ignore patterns of the only paths it may change; empty for all.
    pub allow: Vec<String>,
    /// Ignore patterns of paths it must not change.
    pub deny: Vec<String>,
    /// How many paths it may change.
    pub max_files: u64,
    /// How many bytes the changed files may have together.
    pub max_bytes: u64,
}

/// The commands that save and restore a database. `DECREE_FILE` names the file they write or read.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    /// Writes the content of the database to the file.
    pub save: String,
    /// Replaces the content of the database with that of the file.
    pub restore: String,
    /// Prints text that changes only if the content of the database does; empty if the output of `save` has that property.
    pub fingerprint: String,
    /// Time limit for each command.
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

impl Config {
    pub fn router(&self) -> Router<'_> {
        match self.commands.router.trim() {
            "" => Router::None,
            "builtin" => Router::Builtin,
            command => Router::Command(command),
        }
    }
}

impl Default for Commands {
    fn default() -> Self {
        Commands { router: String::new(), router_timeout: Duration::from_secs(15), ai: "claude -p".into() }
    }
}
