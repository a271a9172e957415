//! Pushing to a bare repository.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Repo, git_in};
use crate::harness::temp_dir;

/// A bare repository that is `origin`.
pub struct Remote(tempfile::TempDir);

impl Remote {
    /// Has what the repository has.
    pub fn of(repo: &Repo) -> Remote {
        let remote = Remote(temp_dir());
        git_in(remote.0.path(), ["init", "-q", "--bare", "-b", "main"]).ok();
        let place = remote.0.path().to_str().unwrap();
        let plain = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
        repo.git(plain.iter().copied().chain(["remote", "add", "origin", place])).ok();
        repo.git(plain.iter().copied().chain(["push", "-q", "origin", "main"])).ok();
        remote
    }

    /// Where a branch is there; empty if there is none.
    pub fn tip(&self, branch: &str) -> String {
        let name = format!("refs/heads/{branch}");
        git_in(self.0.path(), ["for-each-ref", "--format=%(objectname)", &name]).ok().text().trim().to_owned()
    }

    /// Whether it has an object.
    pub fn has(&self, hash: &str) -> bool {
        git_in(self.0.path(), ["cat-file", "-e", hash]).code == 0
    }

    /// Another user pushes a commit to `main`.
    fn moves_on(&self) {
        let other = temp_dir();
        let place = self.0.path().to_str().unwrap();
        git_in(other.path(), ["clone", "-q", place, "."]).ok();
        fs::write(other.path().join("theirs.txt"), "theirs\n").unwrap();
        git_in(other.path(), ["add", "-A"]).ok();
        git_in(other.path(), ["commit", "-q", "-m", "theirs"]).ok();
        git_in(other.path(), ["push", "-q", "origin", "main"]).ok();
    }
}

/// PUB-26.
#[test]
fn commits_are_pushed_to_their_branch() {
    let repo = Repo::with("echo $spec_file >>notes.txt", &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    let remote = Remote::of(&repo);
    repo.process_with(&["--limit", "1"]).ok();
    let answer = repo.publish_json(&["--push"]);
    assert_eq!((&answer["pushed"], &answer["branch"]), (&true.into(), &"main".into()));
    assert_eq!(remote.tip("main"), repo.says(["rev-parse", "HEAD"]));
    repo.process().ok();
    repo.publish(&["--push", "--branch", "decree/more"]).ok().mentions(&["pushed decree/more to origin"]);
    assert_eq!(remote.tip("decree/more"), repo.says(["rev-parse", "decree/more"]));
    git_in(remote.0.path(), ["fsck", "--strict"]).ok();
}

/// PUB-26. What could not be pushed the first time is pushed the second time.
#[test]
fn a_push_that_failed_is_made_up_for() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    let remote = Remote::of(&repo);
    repo.process().ok();
    repo.publish(&["--push", "--remote", "nowhere"]).fails(1).mentions(&["cannot push", "stay"]);
    let tip = repo.says(["rev-parse", "HEAD"]);
    repo.publish(&["--push"]).ok().mentions(&["nothing to commit", "pushed main"]);
    assert_eq!(remote.tip("main"), tip);
}

/// PUB-26. Without any commit of decree, the user's own commits are not pushed.
#[test]
fn nothing_of_ours_is_nothing_to_push() {
    let repo = Repo::with("exit 1", &[("01-a", "# A\n")]);
    let remote = Remote::of(&repo);
    repo.config("max_retries: 0\n");
    let before = remote.tip("main");
    repo.write("mine.txt", "x\n");
    repo.commit_all("mine");
    repo.process().fails(1);
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), before);
}

/// PUB-27.
#[test]
fn a_rejected_push_is_reported_and_the_commits_stay() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    let remote = Remote::of(&repo);
    remote.moves_on();
    let theirs = remote.tip("main");
    repo.process().ok();
    let output = repo.publish(&["--push", "--format", "json"]).fails(1).mentions(&[
        "rejected the push",
        "git pull --rebase",
        "stay",
    ]);
    let answer: serde_json::Value = serde_json::from_slice(&output.out).unwrap();
    assert_eq!(answer["pushed"], false);
    assert_eq!(answer["commits"][0]["sha"], repo.says(["rev-parse", "HEAD"]));
    assert_eq!(remote.tip("main"), theirs);
    repo.git(["pull", "-q", "--rebase", "origin", "main"]).ok();
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), repo.says(["rev-parse", "HEAD"]));
    repo.is_clean();
}

/// PUB-28. A git that records its environment replaces a server that needs a token.
#[test]
fn a_token_goes_to_its_server_only_and_is_never_shown() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    let bin = temp_dir();
    let git = bin.path().join("git");
    let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|dir| dir.join("git"))
        .find(|path| path.exists())
        .unwrap();
    let (args, env) = (bin.path().join("args"), bin.path().join("env"));
    let script = format!(
        "#!/bin/sh\nenv >>{0}.all\necho \"$@\" >>{1}\ncase \" $* \" in *' push '*) env >{0}; env >&2; exit 1;; esac\nexec {2} \"$@\"\n",
        env.display(),
        args.display(),
        real.display()
    );
    fs::write(&git, script).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    // base64 of `x-access-token:ghs_0123456789`.
    let basic = "eC1hY2Nlc3MtdG9rZW46Z2hzXzAxMjM0NTY3ODk=";
    let secrets = ["ghs_0123456789", basic];
    let publish = |url: &str| {
        fs::write(&env, "").unwrap();
        let variables = [("PATH", path.as_str()), ("GITHUB_TOKEN", "ghs_0123456789")];
        let output = repo.publish_with(&["--push", "--remote", url], &variables).fails(1);
        for secret in secrets {
            assert!(!output.err.contains(secret) && !output.text().contains(secret), "{}", output.err);
            assert!(!fs::read_to_string(&args).unwrap().contains(secret));
        }
        fs::read_to_string(&env).unwrap()
    };
    let given = publish("https://github.com/o/r.git");
    assert!(given.contains(&format!("=AUTHORIZATION: basic {basic}")), "{given}");
    assert!(given.contains("=http.https://github.com/.extraheader\n"), "{given}");
    assert!(!given.contains("ghs_"), "{given}");
    for url in ["https://github.com.example/o/r", "http://github.com/o/r", "https://example.com/o/r"] {
        assert!(!publish(url).contains("AUTHORIZATION"), "{url}");
    }
    // What actions/checkout configured is enough.
    repo.git(["config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic configured"]).ok();
    assert!(!publish("https://github.com/o/r.git").contains(basic));
    let all = fs::read_to_string(format!("{}.all", env.display())).unwrap();
    assert!(!all.contains("ghs_"), "no git ever has the token itself");
}

/// PUB-28. A proxy that the repository's settings name, and the server itself, both only count who calls.
#[test]
fn no_setting_that_a_routine_left_leads_the_token_elsewhere() {
    let repo = Repo::with("echo run >>notes.txt", &[("01-a", "# A\n")]);
    repo.process().ok();
    let listen = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        std::thread::spawn(move || {
            for call in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(call);
            }
        });
        (address, calls)
    };
    let ((server, asked), (proxy, misled)) = (listen(), listen());
    let (server, proxy) = (format!("https://{server}"), format!("http://{proxy}"));
    for key in ["http.proxy".to_owned(), format!("http.{server}/.proxy"), "remote.origin.proxy".to_owned()] {
        repo.git(["config", &key, &proxy]).ok();
    }
    repo.git(["config", "http.sslVerify", "false"]).ok();
    repo.git(["config", "remote.origin.url", &format!("{server}/o/r.git")]).ok();
    let home = temp_dir();
    fs::write(home.path().join(".gitconfig"), format!("[http]\n\tproxy = {proxy}\n")).unwrap();
    let variables = [
        ("GITHUB_SERVER_URL", server.as_str()),
        ("GITHUB_TOKEN", "ghs_0123456789"),
        ("HOME", home.path().to_str().unwrap()),
    ];
    repo.publish_with(&["--push"], &variables).fails(1).mentions(&["cannot push"]);
    assert_eq!((asked.load(Ordering::SeqCst) > 0, misled.load(Ordering::SeqCst)), (true, 0));
}
