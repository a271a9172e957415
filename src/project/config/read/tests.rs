use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::project::config::OnNoChange;

/// The error as a person sees it: message, then hint.
fn mistake(text: &str) -> (String, Option<String>) {
    let error = Config::parse(text).unwrap_err().in_file(".decree/config.yml");
    assert_eq!(error.kind().exit_code(), 3);
    (error.to_string(), error.hint_text().map(str::to_owned))
}

fn message(text: &str) -> String {
    mistake(text).0
}

/// The whole file of the design.
const EVERYTHING: &str = r#"commands:
  router: ""            # built-in; or e.g. "claude -p {prompt}"
  router_timeout: 15s
  ai: "claude -p"       # what the default routines call
max_retries: 3
max_depth: 10
default_routine: develop
notebook_support: false
timeout: 1h             # per attempt
retry_delay: 0s
verify: ""              # e.g. "cargo test"; a spec's front matter may say its own
on_no_change: auto      # or accept, retry
hooks: { before_all: "", before_each: "", after_each: "", after_all: "" }
routine_paths: []       # shared routines, after the project's own
budget: { usd: 0, time: 0s, attempts: 0 }                      # 0: no limit
log_limit: 20MiB
sensitive: { exclude: [], allow: [] }
policy: { allow: [], deny: [], max_files: 0, max_bytes: 0 }   # a diff outside the policy is a failed attempt
pass_env: []
databases: {}           # e.g. main: { save: 'pg_dump -f "$DECREE_FILE" app', restore: 'psql -f "$DECREE_FILE" app' }
"#;

#[test]
fn the_documented_file_is_what_holds_by_default() {
    assert_eq!(Config::parse(EVERYTHING).unwrap(), Config::default());
}

#[test]
fn a_config_without_anything_is_all_defaults() {
    for text in ["", "# nothing\n", "---\n", "{}", "\u{feff}\n", "commands:\nverify:\npolicy:\n  deny:\n"] {
        assert_eq!(Config::parse(text).unwrap(), Config::default(), "{text:?}");
    }
}

#[test]
fn every_key_is_documented_and_can_be_set() {
    let text = r#"
commands: { router: "r {prompt}", router_timeout: 90s, ai: "a" }
max_retries: 0
max_depth: 1
default_routine: rust-develop
notebook_support: true
timeout: 0
retry_delay: 1w 1m30s
verify: |
  cargo test
on_no_change: retry
hooks: { before_all: a, before_each: b, after_each: c, after_all: d }
routine_paths: [../shared]
budget: { usd: 2.5, time: 2h, attempts: 7 }
log_limit: 1024
sensitive: { exclude: [a], allow: [b] }
policy: { allow: ["src/**"], deny: ["*.lock"], max_files: 3, max_bytes: 5 MB }
pass_env: [GITHUB_TOKEN]
"#;
    for (key, _) in KEYS {
        let last = format!("{}:", key.rsplit('.').next().unwrap());
        assert!(EVERYTHING.contains(&last) && text.contains(&last), "{key}");
    }
    let config = Config::parse(text).unwrap();
    assert_eq!((config.commands.router.as_str(), config.commands.ai.as_str()), ("r {prompt}", "a"));
    assert_eq!(config.commands.router_timeout, Duration::from_secs(90));
    assert_eq!((config.max_retries, config.max_depth), (0, 1));
    assert_eq!(config.default_routine, "rust-develop");
    assert!(config.notebook_support);
    assert_eq!((config.timeout, config.retry_delay), (Duration::ZERO, Duration::from_secs(604_890)));
    assert_eq!((config.verify.as_str(), config.on_no_change), ("cargo test\n", OnNoChange::Retry));
    let hooks =
        [config.hooks.before_all, config.hooks.before_each, config.hooks.after_each, config.hooks.after_all];
    assert_eq!(hooks, ["a", "b", "c", "d"]);
    assert_eq!(config.routine_paths, [PathBuf::from("../shared")]);
    assert_eq!((config.budget.usd, config.budget.time), (2.5, Duration::from_secs(7200)));
    assert_eq!((config.budget.attempts, config.log_limit), (7, 1024));
    assert_eq!((config.sensitive.exclude, config.sensitive.allow), (vec!["a".into()], vec!["b".into()]));
    assert_eq!((config.policy.allow, config.policy.deny), (vec!["src/**".into()], vec!["*.lock".into()]));
    assert_eq!((config.policy.max_files, config.policy.max_bytes), (3, 5_000_000));
    assert_eq!(config.pass_env, ["GITHUB_TOKEN"]);
}

#[test]
fn an_unknown_key_is_reported_with_file_line_and_suggestion() {
    let (message, hint) = mistake("# one\n\ncommands:\n  ai: x\nverify: y\n\nmax_retry: 3\n");
    assert_eq!(message, ".decree/config.yml:7: unknown key 'max_retry'");
    assert_eq!(hint.as_deref(), Some("did you mean 'max_retries'?"));

    let (message, hint) = mistake("verify: y\nbudget:\n  time: 1h\n\n  usdd: 3\n");
    assert_eq!(message, ".decree/config.yml:5: unknown key 'budget.usdd'");
    assert_eq!(hint.as_deref(), Some("did you mean 'budget.usd'?"));

    let (message, hint) = mistake("hooks: { before_all: '',\n  befor_each: x }\n");
    assert_eq!(message, ".decree/config.yml:2: unknown key 'hooks.befor_each'");
    assert_eq!(hint.as_deref(), Some("did you mean 'hooks.before_each'?"));

    assert_eq!(mistake("usd: 3\n").1.as_deref(), Some("did you mean 'budget.usd'?"));
    assert_eq!(
        mistake("budget:\n  max_retries: 3\n").1.as_deref(),
        Some("'max_retries' is a top-level key: write it at the left margin")
    );
    assert!(mistake("frobnicate: 1\n").1.unwrap().starts_with("the keys here: commands, max_retries"));
    assert_eq!(message_of_key("1: x"), "unknown key '1'");
    assert_eq!(message_of_key("~: x"), "unknown key 'nothing'");
    assert_eq!(message_of_key("[a]: x"), "unknown key 'a list'");
    let (message, hint) = mistake("budget.usd: 3\n");
    assert_eq!(message, ".decree/config.yml:1: unknown key 'budget.usd'");
    assert_eq!(hint.as_deref(), Some("write 'usd' below 'budget:'"));
}

fn message_of_key(text: &str) -> String {
    message(text).trim_start_matches(".decree/config.yml:1: ").to_owned()
}

#[test]
fn a_wrong_type_is_reported_with_the_value() {
    for (text, expected) in [
        ("max_retries: three", "1: 'max_retries' must be a whole number, not 'three'"),
        ("max_retries: 1.5", "1: 'max_retries' must be a whole number, not '1.5'"),
        ("max_retries: '3'", "1: 'max_retries' must be a whole number, not '3'"),
        ("max_retries: [3]", "1: 'max_retries' must be a whole number, not a list"),
        ("max_retries: 0x10", "1: 'max_retries' must be a whole number, not '0x10'"),
        ("notebook_support: yes", "1: 'notebook_support' must be true or false, not 'yes'"),
        ("verify: [a, b]", "1: 'verify' must be text, not a list"),
        ("verify: true", "1: 'verify' must be text, not 'true'"),
        (
            "timeout:\n  hours: 1",
            "1: 'timeout' must be a time such as '90s', '1h30m', '7d' or '2w', not a mapping",
        ),
        ("log_limit: true", "1: 'log_limit' must be a size such as '20MiB' or '500kB', not 'true'"),
        ("\nbudget:\n  usd: lots", "3: 'budget.usd' must be an amount in US dollars, not 'lots'"),
        ("hooks: x", "1: 'hooks' must be a mapping, not 'x'"),
        ("sensitive:\n  exclude: 3", "2: 'sensitive.exclude' must be a list, not '3'"),
        ("policy:\n  deny:\n    - a\n    - 3", "4: 'policy.deny' must be text, not '3'"),
        ("a\n", "1: must be a mapping of keys to values, not 'a'"),
        ("\n- a\n", "2: must be a mapping of keys to values, not a list"),
    ] {
        assert_eq!(message(text), format!(".decree/config.yml:{expected}"), "{text}");
    }
}

#[test]
fn a_bad_value_is_reported_with_the_accepted_ones() {
    for (text, expected) in [
        (
            "timeout: 1x",
            "'timeout' is not valid: expected a time such as '90s', '1h30m', '7d' or '2w', not '1x'",
        ),
        ("timeout: -5", "'timeout' is not valid: a time cannot be negative: '-5'"),
        (
            "log_limit: 5 XB",
            "'log_limit' is not valid: expected a size such as '20MiB' or '500kB', not '5 XB'",
        ),
        ("on_no_change: maybe", "'on_no_change' must be 'auto', 'accept' or 'retry', not 'maybe'"),
        ("max_retries: -1", "'max_retries' must not be negative: -1"),
        ("max_retries: 4000000000", "'max_retries' must be at most 1000, not 4000000000"),
        (
            "max_retries: 99999999999999999999999",
            "'max_retries' must be at most 1000, not 99999999999999999999999",
        ),
        ("max_depth: 0", "'max_depth' must be at least 1, not 0"),
        ("budget: {usd: -0.5}", "'budget.usd' must not be negative: -0.5"),
        ("budget: {usd: .inf}", "'budget.usd' must be an amount in US dollars, not '.inf'"),
        ("policy: {deny: ['[a']}", "'policy.deny' has an entry that is not an ignore pattern: '[a'"),
        ("policy: {deny: ['']}", "'policy.deny' must not be an empty text"),
        ("pass_env: [A=B]", "'pass_env' must be names of environment variables, not 'A=B'"),
    ] {
        assert_eq!(message(text), format!(".decree/config.yml:1: {expected}"), "{text}");
    }
    assert!(message("default_routine: ../x").contains("'default_routine' is not a routine name"));
}

#[test]
fn a_duplicate_key_is_reported_at_its_second_line() {
    assert_eq!(
        message("verify: a\ntimeout: 1h\nverify: b\n"),
        ".decree/config.yml:3: 'verify' is defined twice"
    );
    assert_eq!(
        message("budget:\n  usd: 1\n  time: 1h\n  usd: 2\n"),
        ".decree/config.yml:4: 'budget.usd' is defined twice"
    );
    assert_eq!(message("hooks: {}\nhooks: {}\n"), ".decree/config.yml:2: 'hooks' is defined twice");
}

#[test]
fn broken_yaml_and_invalid_utf8_are_reported_with_their_line() {
    let (message, hint) = mistake("hooks:\n\tbefore_all: x\n");
    assert!(message.starts_with(".decree/config.yml:2: not valid YAML: "), "{message}");
    assert_eq!(hint.as_deref(), Some("YAML is indented with spaces, not with tabs"));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".decree/config.yml");
    std::fs::create_dir(dir.path().join(".decree")).unwrap();
    std::fs::write(&path, b"verify: a\nhooks: {}\n# caf\xe9\n").unwrap();
    let error = Config::read(&path).unwrap_err();
    assert_eq!(error.to_string(), ".decree/config.yml:3: not UTF-8");
    assert_eq!(error.kind().exit_code(), 3);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(Config::read(&path).unwrap(), Config::default());
}

#[test]
fn databases_have_names_of_their_own_and_the_same_keys() {
    let text = r#"
databases:
  main:
    save: pg_dump --file "$DECREE_FILE" app
    restore: psql --file "$DECREE_FILE" app
    fingerprint: pg_dump app | sha256sum
    timeout: 1h
  cache-2: { save: a, restore: b, fingerprint: , timeout: 0 }
  "7": { save: a, restore: b }
"#;
    let config = Config::parse(text).unwrap();
    assert_eq!(config.databases.keys().collect::<Vec<_>>(), ["7", "cache-2", "main"]);
    let main = &config.databases["main"];
    assert_eq!(main.save, "pg_dump --file \"$DECREE_FILE\" app");
    assert_eq!(main.restore, "psql --file \"$DECREE_FILE\" app");
    assert_eq!(main.fingerprint, "pg_dump app | sha256sum");
    assert_eq!(main.timeout, Duration::from_secs(3600));
    assert_eq!(config.databases["cache-2"].timeout, Duration::ZERO);
    assert_eq!(config.databases["7"].timeout, Duration::from_secs(600));
    assert!(config.databases["7"].fingerprint.is_empty());
}

#[test]
fn a_mistake_in_a_database_is_reported_with_its_line() {
    for (text, expected, expected_hint) in [
        ("databases: x", "1: 'databases' must be a mapping, not 'x'", "its keys are names of databases"),
        (
            "databases:\n  a: x\n",
            "2: 'databases.a' must be a mapping, not 'x'",
            "its keys: save, restore, fingerprint, timeout",
        ),
        ("databases:\n  a:\n", "2: 'databases.a' must be a mapping, not nothing", "its keys: save"),
        (
            "databases:\n  Main: {}\n",
            "2: 'Main' is not a name for a database",
            "lower-case letters, digits, '_' and '-'",
        ),
        ("databases:\n  ../a: {}\n", "2: '../a' is not a name for a database", "lower-case letters"),
        ("databases:\n  -a: {}\n", "2: '-a' is not a name for a database", "lower-case letters"),
        (
            "databases:\n  a: { save: x }\n",
            "2: 'databases.a' has no command 'restore'",
            "both 'save' and 'restore'",
        ),
        ("databases:\n  a:\n    restore: x\n", "2: 'databases.a' has no command 'save'", "both"),
        ("databases:\n  a:\n    save: ''\n", "3: 'databases.a.save' must not be an empty text", ""),
        ("databases:\n  a:\n    save: 3\n", "3: 'databases.a.save' must be text, not '3'", "in quotes"),
        ("databases:\n  a:\n    save: x\n    save: y\n", "4: 'databases.a.save' is defined twice", ""),
        (
            "databases:\n  a:\n    restor: y\n",
            "3: unknown key 'databases.a.restor'",
            "did you mean 'databases.a.restore'?",
        ),
        ("databases:\n  a:\n    timeout: soon\n", "3: 'databases.a.timeout' is not valid", ""),
        (
            "databases:\n  a: { save: x, restore: y }\n  a: { save: x, restore: y }\n",
            "3: 'databases.a' is defined twice",
            "",
        ),
        ("database: {}\n", "1: unknown key 'database'", "did you mean 'databases'?"),
    ] {
        let (message, hint) = mistake(text);
        assert!(message.starts_with(&format!(".decree/config.yml:{expected}")), "{text}: {message}");
        assert!(hint.unwrap_or_default().contains(expected_hint), "{text}");
    }
}
