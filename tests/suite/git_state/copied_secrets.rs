//! Commits of runs with copies of likely secrets: no name gives them away.

use super::published::is_refused;
use super::{COMMIT, commit, repo};
use crate::publish::Repo;
use crate::publish::pushing::Remote;

const PASSWORD: &str = "PASSWORD=of-this-project\n";

/// A repository in which git ignores `.env`, and a remote that has everything but that file.
fn with_env(routine: &str, env: &str) -> (Repo, Remote) {
    let repo = repo(routine);
    repo.write(".gitignore", ".decree/\n.env\n")
        .write(".env", env)
        .write(".env.example", "PASSWORD=example\n");
    repo.commit_all("ignored");
    let remote = Remote::of(&repo);
    (repo, remote)
}

/// GIT-60. What `decree process` calls a likely secret is one for `decree publish`, also when its original was changed since.
#[test]
fn a_copy_of_a_likely_secret_that_a_run_committed_is_not_pushed() {
    let (repo, remote) = with_env(&format!("cp .env settings.bak; echo work >>list.txt; {COMMIT}"), PASSWORD);
    repo.process().ok().mentions(&["settings.bak was made; it is a likely secret"]);
    let leak = commit(&repo, "HEAD");
    is_refused(&repo, &remote, &leak[..10], &["likely secret", "settings.bak"]);
    repo.write(".env", "PASSWORD=another-one\n").write("settings.bak", "nothing of it\n");
    let output = repo.publish(&["--push"]).fails(1).mentions(&["likely secret", "settings.bak", &leak[..10]]);
    assert!(!output.err.contains("list.txt"), "{}", output.err);
    assert!(!remote.has(&leak));
    // The config decides what is one.
    repo.config("max_retries: 0\nsensitive:\n  allow: [settings.bak]\n");
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    assert_eq!(repo.blob("HEAD", "settings.bak"), PASSWORD.as_bytes());
}

/// GIT-60. The tree has nothing of it; the commits have.
#[test]
fn a_copy_that_one_commit_adds_and_the_next_removes_is_not_pushed() {
    let (repo, remote) = with_env(
        &format!("cp .env s.bak; {COMMIT} git rm -q s.bak; echo work >>list.txt; {COMMIT}"),
        PASSWORD,
    );
    repo.process().ok();
    assert!(!repo.exists("s.bak"));
    let leak = commit(&repo, "HEAD~1");
    is_refused(&repo, &remote, &leak[..10], &["likely secret", "s.bak"]);
    // A config that calls the original no secret says the same of its copies.
    repo.config("max_retries: 0\nsensitive:\n  allow: [.env]\n");
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
}

/// GIT-60. A certificate that git tracks becomes a private key.
#[test]
fn a_tracked_file_that_became_a_likely_secret_is_not_pushed() {
    let repo = repo(&format!("echo '-----BEGIN PRIVATE KEY-----' >web.pem; {COMMIT}"));
    repo.write("web.pem", "-----BEGIN CERTIFICATE-----\n");
    repo.commit_all("certificate");
    let remote = Remote::of(&repo);
    repo.process().ok().mentions(&["web.pem was changed; it is a likely secret now"]);
    is_refused(&repo, &remote, &commit(&repo, "HEAD")[..10], &["likely secret", "web.pem"]);
}

/// GIT-60. What git tracked before is in no need of protection, whatever has the same content.
#[test]
fn a_copy_of_what_git_tracked_before_is_published() {
    let (repo, remote) =
        with_env(&format!("cp .env settings.bak; echo work >>list.txt; {COMMIT}"), "PASSWORD=example\n");
    repo.process().ok();
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    assert_eq!(repo.blob("HEAD", "settings.bak"), b"PASSWORD=example\n");
}
