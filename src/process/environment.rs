//! What a program inherits from decree, and what a message may not set for it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::marked::MARK_VARIABLE;

/// Credentials and files with which a program could act as decree, or as the CI runner.
const WITHHELD: [&str; 8] = [
    "DECREE_GITHUB_TOKEN",
    "GITHUB_TOKEN",
    "GITHUB_OUTPUT",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
    MARK_VARIABLE,
];

/// A message is untrusted input. These variables would let it decide which programs run, or which servers and certificates
/// they use.
const RESERVED: [&str; 49] = [
    "ALL_PROXY",
    "AWS_CA_BUNDLE",
    "CDPATH",
    "CLASSPATH",
    "CURL_CA_BUNDLE",
    "CURL_HOME",
    "EDITOR",
    "ENV",
    "EUID",
    "FTP_PROXY",
    "GCONV_PATH",
    "GLOBIGNORE",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IFS",
    "INPUTRC",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LESSOPEN",
    "LOCPATH",
    "LOGNAME",
    "MAKEFLAGS",
    "NO_PROXY",
    "OLDPWD",
    "PAGER",
    "PATH",
    "POSIXLY_CORRECT",
    "PPID",
    "PROMPT_COMMAND",
    "PS4",
    "PWD",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "TMPDIR",
    "UID",
    "USER",
    "VISUAL",
    "ZDOTDIR",
    "_",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Prefixes of names that are reserved for the same reason.
const RESERVED_PREFIXES: [&str; 22] = [
    "ACTIONS_",
    "BASH",
    "CARGO_",
    "DECREE_",
    "DYLD_",
    "GITHUB_",
    "GIT_",
    "INPUT_",
    "JUPYTER_",
    "LC_",
    "LD_",
    "MALLOC_",
    "NODE_",
    "NPM_CONFIG_",
    "PERL",
    "PIP_",
    "PYTHON",
    "RUBY",
    "RUNNER_",
    "RUST",
    "SSL_CERT_",
    "npm_config_",
];

/// The environment of a program: `variables` without those that would let it act as decree or as the CI runner. A name in
/// `pass` is passed all the same, except for the mark of a run, because every run has its own.
pub fn child_environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    pass: &[String],
) -> BTreeMap<OsString, OsString> {
    variables
        .into_iter()
        .filter(|(name, _)| {
            let passed = pass.iter().any(|pass| name == pass.as_str()) && name != MARK_VARIABLE;
            passed || !is_withheld(name)
        })
        .collect()
}

fn is_withheld(name: &OsStr) -> bool {
    // A name that is not UTF-8 is none of the listed ones, but may have one of the prefixes.
    let name = name.to_string_lossy().to_ascii_uppercase();
    WITHHELD.contains(&name.as_str())
        || name.starts_with("ACTIONS_")
        || (name.starts_with("INPUT_") && name.contains("TOKEN"))
}

/// Whether a message may never set this variable for a routine.
///
/// That includes everything that is no variable name: with a `=` or a NUL in it, another variable would be set. Names are
/// case-sensitive, as in the OS: `user` and `path` are not reserved.
pub fn is_reserved(name: &str) -> bool {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    !is_name
        || RESERVED.binary_search(&name).is_ok()
        || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited(names: &[&str], pass: &[&str]) -> Vec<String> {
        let pass: Vec<String> = pass.iter().map(|&name| name.to_owned()).collect();
        let variables = names.iter().map(|name| (OsString::from(name), OsString::from("x")));
        child_environment(variables, &pass).into_keys().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_program_cannot_act_as_decree_or_the_runner() {
        let names = [
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
            "ACTIONS_RUNTIME_URL",
            "ANTHROPIC_API_KEY",
            "DECREE_GITHUB_TOKEN",
            "DECREE_RUN_MARK",
            "GITHUB_ENV",
            "GITHUB_OUTPUT",
            "GITHUB_PATH",
            "GITHUB_REPOSITORY",
            "GITHUB_STATE",
            "GITHUB_STEP_SUMMARY",
            "GITHUB_TOKEN",
            "INPUT_GITHUB-TOKEN",
            "INPUT_SPEC",
            "INPUT_TOKEN",
            "PATH",
        ];
        assert_eq!(inherited(&names, &[]), ["ANTHROPIC_API_KEY", "GITHUB_REPOSITORY", "INPUT_SPEC", "PATH"]);
    }

    #[test]
    fn only_the_exact_name_is_passed() {
        let names = ["ACTIONS_CACHE_URL", "ACTIONS_RUNTIME_TOKEN", "DECREE_RUN_MARK", "GITHUB_TOKEN"];
        let pass = ["ACTIONS_CACHE_URL", "ACTIONS_*", "github_token", "DECREE_RUN_MARK"];
        assert_eq!(inherited(&names, &pass), ["ACTIONS_CACHE_URL"]);
        assert_eq!(inherited(&names, &["GITHUB_TOKEN"]), ["GITHUB_TOKEN"]);
    }

    #[test]
    fn variables_that_decide_what_runs_are_reserved() {
        for name in [
            "PATH",
            "HOME",
            "SHELL",
            "IFS",
            "ENV",
            "BASH_ENV",
            "BASH_FUNC_ls",
            "BASHOPTS",
            "SHELLOPTS",
            "PS4",
            "PROMPT_COMMAND",
            "CDPATH",
            "GLOBIGNORE",
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "PERL5LIB",
            "PERL5OPT",
            "RUBYOPT",
            "GIT_DIR",
            "GITHUB_ENV",
            "ACTIONS_X",
            "RUNNER_TEMP",
            "DECREE_ATTEMPT",
            "http_proxy",
            "https_proxy",
            "HTTPS_PROXY",
            "no_proxy",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "all_proxy",
            "TMPDIR",
            "",
            "a=b",
            "a b",
            "1a",
            "a-b",
            "a\0b",
            "ä",
        ] {
            assert!(is_reserved(name), "{name:?}");
        }
    }

    #[test]
    fn ordinary_names_are_not_reserved() {
        for name in [
            "name",
            "spec_file",
            "model",
            "_x",
            "MAX_TURNS",
            "path_to",
            "environment",
            "title2",
            "user",
            "git_branch",
            "python_version",
        ] {
            assert!(!is_reserved(name), "{name:?}");
        }
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(RESERVED.is_sorted());
        assert!(RESERVED_PREFIXES.is_sorted());
    }
}
