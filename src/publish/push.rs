//! Pushes commits, never by force, and sends the token to its own server only.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::repository::Repository;
use crate::error::{Error, IoContext, Result};
use crate::fs::{ScratchDir, atomic};
use crate::github::RunnerEnvironment;

/// The server that is used unless the runner names another.
const GITHUB: &str = "https://github.com";

/// The runner's token in the encoding that git sends; as secret as the token itself.
pub fn basic_token(environment: &RunnerEnvironment) -> Option<String> {
    environment.token.as_ref().map(|token| STANDARD.encode(format!("x-access-token:{token}")))
}

/// Variables that let git authenticate to the server of this URL and to no other; `None` if git has its own credentials.
fn credentials(
    repository: &Repository,
    environment: &RunnerEnvironment,
    url: &str,
) -> Result<Option<Vec<(OsString, OsString)>>> {
    let server = environment.server_url.as_deref().unwrap_or(GITHUB).trim_end_matches('/');
    let (Some(basic), true) = (basic_token(environment), is_below(url, server)) else {
        return Ok(None);
    };
    // actions/checkout configures a header; the server rejects a request with two of them.
    if repository.git.config(&["--get-urlmatch", "http.extraheader", url])?.is_some() {
        return Ok(None);
    }
    let settings = [
        (format!("http.{server}/.extraheader"), format!("AUTHORIZATION: basic {basic}")),
        // No program in the repository's settings may see the token or answer for it.
        ("credential.helper".to_owned(), String::new()),
        ("core.askPass".to_owned(), String::new()),
    ];
    let count = repository.git.variable("GIT_CONFIG_COUNT").and_then(|count| count.to_str()?.parse().ok());
    let first: usize = count.unwrap_or(0);
    let mut variables = vec![("GIT_CONFIG_COUNT".into(), (first + settings.len()).to_string().into())];
    for (number, (key, value)) in (first..).zip(settings) {
        variables.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
    }
    // A routine can also write the user's global settings.
    variables.push(("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()));
    Ok(Some(variables))
}
/// Whether a URL belongs to an https server, and not to one whose name only begins with the same text.
fn is_below(url: &str, server: &str) -> bool {
    server.starts_with("https://") && url.strip_prefix(server).is_some_and(|rest| rest.starts_with('/'))
}

/// Creates a bare repository that shares the objects but not the settings: a routine may have edited those, and a proxy named
/// there would receive the token.
fn bare(repository: &Repository, scratch: &ScratchDir) -> Result<PathBuf> {
    let git = &repository.git;
    let path = |name: &str| git.call(["rev-parse", "--path-format=absolute", "--git-path", name]).ok();
    let format = git.call(["rev-parse", "--show-object-format"]).line()?;
    let bare = scratch.path("bare");
    let format = format!("--object-format={format}");
    fs::create_dir(&bare).at("create", &bare)?;
    git.call(["init", "--quiet", "--bare", "--template=", &format]).in_bare(&bare).ok()?;
    let info = bare.join("objects/info");
    fs::create_dir_all(&info).at("create", &info)?;
    let objects = path("objects")?.path();
    atomic::write(&info.join("alternates"), &[objects.as_os_str().as_bytes(), b"\n"].concat())?;
    let shallow = path("shallow")?.path();
    if shallow.exists() {
        fs::copy(&shallow, bare.join("shallow")).at("copy", &shallow)?;
    }
    Ok(bare)
}

/// Pushes a commit to a branch of a remote. `scratch` is a directory for temporary files.
pub fn push(
    repository: &Repository,
    environment: &RunnerEnvironment,
    scratch: &Path,
    remote: &str,
    commit: &str,
    branch: &str,
) -> Result<()> {
    let url = repository.git.call(["remote", "get-url", "--push", "--", remote]).run()?;
    // A remote may be named by its URL.
    let named = url.is_ok();
    let url = if named { url.line() } else { remote.to_owned() };
    let refspec = format!("{commit}:refs/heads/{branch}");
    let answer = match credentials(repository, environment, &url)? {
        None => repository.git.call(["push", "--no-follow-tags", "--", remote, &refspec]).run()?,
        Some(variables) => {
            let scratch = ScratchDir::new(scratch, "publish")?;
            let bare = bare(repository, &scratch)?;
            let call = repository.git.call(["push", "--no-follow-tags", "--", &url, &refspec]).in_bare(&bare);
            variables.into_iter().fold(call, |call, (name, value)| call.variable(name, value)).run()?
        }
    };
    if answer.is_ok() {
        if named {
            // A push from the bare repository does not update the remote-tracking branch. A failure here is harmless.
            let tracking = format!("refs/remotes/{remote}/{branch}");
            let _ = repository.git.call(["update-ref", &tracking, commit]).run();
        }
        return Ok(());
    }
    let behind = ["(fetch first)", "(non-fast-forward)", "(stale info)"];
    let is_behind = behind.iter().any(|word| answer.err.contains(word));
    let lines: Vec<String> =
        answer.err.lines().map(str::trim_end).filter(|l| !l.is_empty()).map(str::to_owned).collect();
    let remote = repository.git.printable(remote);
    let error = if is_behind {
        Error::failed(format!("{remote} rejected the push: {branch} has commits there that are not here"))
            .hint(format!("`git pull --rebase {remote} {branch}`, then `decree publish --push` again; decree never force-pushes"))
    } else {
        Error::failed(format!("cannot push to {branch} of {remote}"))
            .hint("check the remote and the permission to write to it (in GitHub Actions: `permissions: contents: write`), then `decree publish --push` again")
    };
    Err(error.details(lines, 20).detail("the local commits stay"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_its_server_only() {
        assert!(is_below("https://github.com/o/r.git", GITHUB));
        for url in [
            "https://github.com.evil.example/o/r",
            "https://evil.example/https://github.com/",
            "http://github.com/o/r",
            "git@github.com:o/r.git",
            "https://user@github.com/o/r",
        ] {
            assert!(!is_below(url, GITHUB), "{url}");
        }
        assert!(!is_below("http://localhost/o", "http://localhost"));
    }
}
