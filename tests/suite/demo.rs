//! `decree demo`, the README's first command, with only bash on `PATH`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use crate::harness::{Project, run_command, snapshot};

/// A `PATH` with bash and a few plain tools, and nothing else: no git, no Python.
fn plain_tools(dir: &Path) {
    fs::create_dir(dir).unwrap();
    for tool in ["bash", "cat", "chmod", "dirname", "grep", "head", "mkdir", "rm", "tail"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|place| place.join(tool))
            .find(|path| path.is_file())
            .unwrap_or_else(|| panic!("{tool} is not installed"));
        symlink(found, dir.join(tool)).unwrap();
    }
}

/// SEE-01.
#[test]
fn the_demo_shows_everything_without_git_python_or_network() {
    let place = Project::bare();
    plain_tools(&place.path("bin"));
    let demo = place.path("demo");
    let output = run_command(
        place
            .command()
            .env("PATH", place.path("bin"))
            .env("http_proxy", "http://127.0.0.1:9")
            .env("https_proxy", "http://127.0.0.1:9")
            .stdin(Stdio::null())
            .args(["demo", "--dir"])
            .arg(&demo),
    )
    .ok();
    let (out, err) = (output.text(), output.err);
    assert!(out.contains("✓ 4 kept") && out.contains("✗ 1 reverted"), "{out}");
    for part in
        ["attempt 2 of 3: succeeded", "attempt 3 of 3, on a clean slate", "reverted 6 paths", "decree status"]
    {
        assert!(err.contains(part), "{part:?} is not in: {err}");
    }
    let tree = snapshot(&demo);
    for path in ["src/lib.sh", "src/greet.sh", "src/add.sh", "src/shout.sh", "README.md"] {
        assert!(tree.contains_key(path.as_bytes()), "{path}");
    }
    assert!(!tree.contains_key(b"build".as_slice()), "what the last spec made is gone");
    let tracker = fs::read_to_string(demo.join("specs/processed-spec.md")).unwrap();
    assert_eq!(tracker.lines().count(), 3, "{tracker}");
    assert_eq!(fs::read_dir(demo.join(".decree/inbox/dead")).unwrap().count(), 1);
}

#[test]
fn the_demo_overwrites_nothing() {
    let place = Project::bare();
    place.write("demo/mine", "mine\n");
    place.decree(["demo", "--dir", "demo"]).fails(1).mentions(&["exists already"]);
    assert_eq!(place.read("demo/mine"), b"mine\n");
}
