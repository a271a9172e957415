//! What `st_mode` and the content do not show: ACLs, extended attributes, capabilities, owners, hard links.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use sha2::Digest;

use super::{NOBODY, as_nobody, hand_over, is_root};
use crate::harness::skip;
use crate::harness::{Project, run_command};
use crate::rollback::contract::assert_valid;

/// A file whose mode says that its group may read it, while its ACL grants that to one user alone.
const SETUP: &str = "
    set -e
    for f in replaced rewritten deleted stripped chmodded; do
        echo $f > $f; setfacl -m u:65534:r,g::--- $f; setfattr -n user.note -v \"of $f\" $f
    done
    echo plain > plain; echo plain > plain2; echo annotated > annotated
    mkdir -p dir/sub old/sub; setfacl -d -m u:65534:rwx,o::--- dir; setfacl -m u:65534:rwx old; setfacl -d -m u:65534:rx old/sub
    echo inherits > dir/inherits; echo x > old/sub/file; setfacl -b old/sub/file
";

/// Everything that a routine may do to them.
const HARM: &str = "
    set -e
    echo new > tmp-file; mv tmp-file replaced
    echo more >> rewritten
    rm deleted
    setfacl -b stripped; setfattr -x user.note stripped
    chmod 600 chmodded
    setfacl -m u:65534:rw plain
    setfattr -n user.added -v '' plain2
    setfattr -n user.odd -v 'a b,c=d:e' annotated; echo more >> annotated
    setfacl -b -k dir; echo new > dir/new; mkdir dir/made; setfacl -d -m u:65534:rwx dir/sub
    rm -r old
";

fn bash(project: &Project, script: &str) -> String {
    let mut command = Command::new("bash");
    let output = run_command(command.args(["-c", script]).current_dir(project.root()));
    assert_eq!(output.code, 0, "{}", output.err);
    output.text()
}

/// Owner, mode, ACL and attributes of everything in the project.
fn look(project: &Project) -> String {
    bash(
        project,
        "find . -mindepth 1 -path ./.decree -prune -o -path ./specs -prune -o -print0 | sort -z | while read -r -d '' f; do
             stat -c '%n %F %u:%g %a' \"$f\"; [ -f \"$f\" ] && cat \"$f\"
             getfacl -pn \"$f\"; getfattr -hd -m '^(user|trusted|security[.]capability)' \"$f\"
         done",
    )
}

/// Whether the machine can show anything here: the tools, and a file system that keeps ACLs and attributes.
fn has_attributes(project: &Project) -> bool {
    let file = project.write("probe", "").path("probe");
    let reason = "the file system of the tests keeps no ACLs or attributes of users";
    let works = skip::works(Command::new("setfacl").args(["-m", "u:65534:r"]).arg(&file), reason)
        && skip::works(Command::new("setfattr").args(["-n", "user.x", "-v", "1"]).arg(&file), reason);
    project.remove("probe");
    works
}

/// A checkpoint after `setup`, and what was there before and after `harm`.
fn scene(setup: &str, harm: &str) -> Option<(Project, String, String, String)> {
    let project = Project::new();
    if !has_attributes(&project) {
        return None;
    }
    bash(&project, setup);
    let before = look(&project);
    let id = project.checkpoint();
    bash(&project, harm);
    let after = look(&project);
    assert!(before != after, "the harm does nothing");
    Some((project, id, before, after))
}

/// REV-17.
#[test]
fn acls_and_attributes_come_back_on_revert_and_on_apply() {
    let Some((project, id, before, after)) = scene(SETUP, HARM) else { return };
    project.decree(["revert", &id]).ok();
    assert_eq!(look(&project), before);
    assert!(project.decree(["diff", &id]).ok().out.is_empty());
    project.decree(["apply", &id]).ok();
    assert_eq!(look(&project), after);
    project.decree(["revert", &id]).ok();
    assert_eq!(look(&project), before);
    project.decree(["revert", &id]).ok().mentions(&["already"]);
    project.decree(["checkpoint", "verify", &id]).ok();
}

/// REV-17.
#[test]
fn acls_and_attributes_come_back_on_rollback_and_in_guard() {
    let Some((project, id, before, after)) = scene(SETUP, HARM) else { return };
    let output = project.decree(["rollback", &id, "--format", "json"]).ok();
    assert_eq!(look(&project), before);
    let answer: serde_json::Value = serde_json::from_slice(&output.out).unwrap();
    assert_eq!(answer["verification"]["match"], true);
    let present = answer["saved_present_as"].as_str().unwrap();
    project.decree(["rollback", present]).ok();
    assert_eq!(look(&project), after);
    project.decree(["rollback", &id]).ok();
    project.decree(["guard", "--", "bash", "-c", &format!("{HARM}\nexit 7")]).fails(7);
    assert_eq!(look(&project), before);
}

/// REV-17.
#[test]
fn acls_and_attributes_come_back_when_a_run_fails() {
    let project = Project::new();
    if !has_attributes(&project) {
        return;
    }
    bash(&project, SETUP);
    let before = look(&project);
    project
        .write("specs/01-work.spec.md", "Do the work.\n")
        .write(".decree/config.yml", "max_retries: 0\n")
        .write(".decree/routines/develop.sh", format!("{HARM}\nexit 1\n"));
    project.decree(["process"]).fails(1).mentions(&["reverted"]);
    assert_eq!(look(&project), before);
}

/// REV-17. A change of an ACL alone is a change: it is in the diff, as a comment that git and patch skip.
#[test]
fn a_change_of_an_acl_alone_is_in_the_diff_and_git_accepts_it() {
    let Some((project, id, _, _)) = scene(
        "echo a > acl; echo b > text; echo c > both",
        "setfacl -m u:65534:r acl; echo B > text; echo C > both; setfattr -n user.x -v y both",
    ) else {
        return;
    };
    let diff = project.decree(["diff", &id]).ok();
    assert!(
        diff.text().contains("# decree-attributes \"acl\" old=- new=system.posix_acl_access:"),
        "{}",
        diff.text()
    );
    project.write("../a.diff", &diff.out);
    bash(&project, "printf 'b\\n' > text; printf 'c\\n' > both");
    bash(&project, "git init -q . && git apply -p1 ../a.diff && [ $(cat text both | tr -d '\\n') = BC ]");
    bash(
        &project,
        "printf 'b\\n' > text; printf 'c\\n' > both; patch -sp1 < ../a.diff && [ $(cat text) = B ]",
    );
    let listed = project.decree(["rollback", &id, "--dry-run"]).ok().text();
    assert!(listed.contains("revert    acl"), "{listed}");
    fs::remove_file(project.path("../a.diff")).unwrap();
}

/// REV-17. As root: owner, group, capabilities and `trusted` attributes, of files that were changed, deleted, or only given away.
#[test]
fn owners_and_capabilities_come_back_if_root_reverts() {
    let setup = "set -e
        mkdir d; chown 1234:2345 d
        for f in deleted rewritten given d/deleted; do echo $f > $f; chown 1234:2345 $f; chmod 4750 $f; done
        for f in tool tool2; do echo $f > $f; chmod 755 $f; setcap cap_net_raw+ep $f; setfattr -n trusted.x -v 1 $f; done";
    let harm = "set -e
        rm deleted tool2; rm -r d; echo new > new; rm rewritten; echo more > rewritten
        chown 0:0 given; echo more >> tool; setfattr -x trusted.x tool";
    if !skip::as_root() || !skip::works(Command::new("getcap").arg("/"), "getcap does not work") {
        return;
    }
    let Some((project, id, before, after)) = scene(setup, harm) else { return };
    project.decree(["revert", &id]).ok();
    assert_eq!(look(&project), before);
    project.decree(["apply", &id]).ok();
    assert_eq!(look(&project), after);
    project.decree(["rollback", &id]).ok();
    assert_eq!(look(&project), before);
}

/// REV-18. An ordinary user cannot give a file away: it comes back with no more access for others, and that is named.
#[test]
fn an_owner_that_cannot_be_restored_is_named_and_never_widens_access() {
    if !skip::as_root() {
        return;
    }
    let project = Project::new();
    project
        .write("theirs", "theirs\n")
        .chmod("theirs", 0o640)
        .write("open", "open\n")
        .write("mine", "mine\n");
    hand_over(project.root());
    for file in ["theirs", "open"] {
        std::os::unix::fs::chown(project.path(file), Some(0), Some(NOBODY)).unwrap();
    }
    std::os::unix::fs::chown(project.path("open"), Some(0), Some(0)).unwrap();
    let id = as_nobody(&project, &["checkpoint", "create"]).ok().line();
    project.remove("theirs").remove("open").write("mine", "changed\n");
    let output = as_nobody(&project, &["revert", &id]).fails(4);
    output.mentions(&["theirs", "2 paths reverted without owner or attributes", "run it again as root"]);
    assert_eq!(project.read("theirs"), b"theirs\n");
    let mode = |file: &str| fs::metadata(project.path(file)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("theirs"), mode("open")), (0o640, 0o644));
    assert_eq!(fs::metadata(project.path("theirs")).unwrap().uid(), NOBODY);

    project.write("group", "g\n").chmod("group", 0o660);
    std::os::unix::fs::chown(project.path("group"), Some(NOBODY), Some(12)).unwrap();
    let output = as_nobody(&project, &["guard", "--", "bash", "-c", "rm -f group; exit 3"]).fails(4);
    output.mentions(&["group", "owner", "with 3"]);
    assert_eq!(mode("group"), 0o600, "the members of another group could read it");
}

/// A project of `nobody` with a file that root owns.
fn with_file_of_root() -> Project {
    let project = Project::new();
    project.write(".decree/config.yml", "max_retries: 0\n").write("theirs", "theirs\n");
    project.write(".decree/routines/develop.sh", "rm -f theirs; exit 1\n");
    hand_over(project.root());
    std::os::unix::fs::chown(project.path("theirs"), Some(0), Some(0)).unwrap();
    project
}

/// REV-66. What the hint names helps.
#[test]
fn a_run_that_is_reverted_without_the_owner_is_reverted_again_as_root() {
    if !skip::as_root() {
        return;
    }
    let project = with_file_of_root();
    project.write(".decree/routines/develop.sh", "rm -f theirs\n");
    as_nobody(&project, &["run", "-m", "x", "-p", "y"]).ok();
    let run = fs::read_dir(project.path(".decree/runs")).unwrap().next().unwrap().unwrap().file_name();
    let id = run.to_str().unwrap();
    let refused = as_nobody(&project, &["revert", id]).fails(4);
    refused.mentions(&[
        "could not restore its owner",
        &format!("`decree apply {id}` and `decree revert {id}` as root"),
    ]);
    let owner = || fs::metadata(project.path("theirs")).unwrap().uid();
    assert_eq!(owner(), NOBODY);
    project.decree(["apply", id]).ok();
    project.decree(["revert", id]).ok();
    assert_eq!(owner(), 0);
}

/// REV-18, REV-66.
#[test]
fn a_rollback_without_the_owner_is_no_success() {
    if !skip::as_root() {
        return;
    }
    let project = with_file_of_root();
    let created = json(&as_nobody(&project, &["checkpoint", "create", "--format", "json"]).ok().out);
    assert_eq!(created["coverage"]["attributes_need_root"], serde_json::json!(["theirs"]));
    let id = created["checkpoint"]["id"].as_str().unwrap();
    project.remove("theirs");
    let back = json(&as_nobody(&project, &["rollback", id, "--format", "json"]).fails(4).out);
    assert_valid(&back, "rollback");
    assert_eq!((&back["rolled_back"], &back["verification"]["match"]), (&false.into(), &false.into()));
    assert!(back["error"]["details"].to_string().contains("theirs: its owner 0:0"), "{back:#}");
    assert!(back["warnings"].to_string().contains("it is 65534:65534 now"), "{back:#}");
    assert!(back["error"]["hint"].to_string().contains("as root"), "{back:#}");
    assert_eq!(project.read("theirs"), b"theirs\n");

    std::os::unix::fs::chown(project.path("theirs"), Some(0), Some(0)).unwrap();
    let args = ["guard", "--format", "json", "--", "sh", "-c", "rm -f theirs; exit 3"];
    let guarded = json(&as_nobody(&project, &args).fails(4).out);
    assert_valid(&guarded, "guard");
    assert_eq!((&guarded["rolled_back"], &guarded["exit_code"]), (&false.into(), &4.into()));
    assert!(guarded["warnings"].to_string().contains("could not restore its owner"), "{guarded:#}");
    assert!(guarded["error"]["message"].as_str().is_some_and(|text| text.contains("owner")), "{guarded:#}");
}

/// REV-18.
#[test]
fn a_run_that_is_reverted_without_the_owner_says_so_in_its_record() {
    if !skip::as_root() {
        return;
    }
    let project = with_file_of_root();
    let output = as_nobody(&project, &["run", "-m", "x", "-p", "y"]).fails(4);
    assert!(output.text().contains("reverted to its checkpoint, except for theirs ("), "{}", output.text());
    let run = fs::read_dir(project.path(".decree/runs")).unwrap().next().unwrap().unwrap().path();
    let result = json(&fs::read(run.join("result.json")).unwrap());
    assert_eq!(result["coverage"]["attributes_need_root"], serde_json::json!(["theirs"]));
    assert_eq!(result["put_back"]["not_restored"][0]["path"], "theirs", "{result:#}");
    assert!(result["warnings"].to_string().contains("could not restore its owner 0:0"), "{result:#}");
    let summary = json(&project.read(".decree/summary.json"));
    assert!(summary["messages"][0]["warnings"].to_string().contains("owner 0:0"), "{summary:#}");
}

fn json(out: &[u8]) -> serde_json::Value {
    serde_json::from_slice(out).unwrap()
}

/// REV-17. What a checkpoint of an older version did not record stays as it is on files that are replaced.
#[test]
fn a_checkpoint_without_attributes_leaves_those_of_the_files_alone() {
    let Some((project, id, _, _)) =
        scene("echo a > a", "setfacl -m u:65534:r,g::--- a; echo b > a; mkdir d; setfacl -m u:65534:r d")
    else {
        return;
    };
    let path = project.record(&id, "manifest.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"attributes\":true,\n", "");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let part = |key: &str| text.lines().find_map(|line| line.strip_prefix(&format!("\"{key}\":"))).unwrap();
    let (tree, rules) = (json["tree"].as_str().unwrap(), part("rules").trim_end_matches(','));
    let checked = format!("1\n{tree}\n{rules}\n{}\n", part("coverage").trim_end_matches(','));
    let digest = sha2::Sha256::digest(checked.as_bytes());
    let check: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(&path, text.replace(json["check"].as_str().unwrap(), &check)).unwrap();
    let acl = bash(&project, "getfacl -pn a");
    project.decree(["rollback", &id]).ok();
    assert_eq!(project.read("a"), b"a\n");
    assert_eq!(bash(&project, "getfacl -pn a"), acl);
    assert!(!project.exists("d"));
}

/// REV-18.
#[test]
fn a_revert_that_breaks_a_hard_link_says_so() {
    let project = Project::new();
    project.write("one", "before\n").write("single", "before\n");
    fs::hard_link(project.path("one"), project.path("two")).unwrap();
    let id = project.checkpoint();
    project.write("single", "after\n");
    fs::write(project.path("one"), "after\n").unwrap();
    let output = project.decree(["revert", &id]).ok().mentions(&["one", "hard link"]);
    assert!(!output.err.contains("single was a hard link"), "{}", output.err);
    assert_eq!((project.read("one"), project.read("two")), (b"before\n".to_vec(), b"before\n".to_vec()));
}

/// REV-18.
#[test]
fn names_of_one_file_that_come_back_as_separate_files_are_named() {
    let project = Project::new();
    project.write(".decree/config.yml", "max_retries: 0\n").write("h1", "h\n").write("single", "s\n");
    project.write(".decree/routines/develop.sh", "rm h1; exit 1\n");
    let join = || fs::hard_link(project.path("h2"), project.path("h1")).unwrap();
    fs::hard_link(project.path("h1"), project.path("h2")).unwrap();
    let id = project.checkpoint();
    let named = "h1 had other names at the checkpoint (hard links); it is a file of its own now";
    project.remove("h1").remove("single");
    let back = json(&project.decree(["rollback", &id, "--format", "json"]).ok().out);
    assert_eq!(back["warnings"], serde_json::json!([named]));
    assert!(back["confidence"].as_f64().unwrap() < 1.0);
    project.remove("h1");
    join();
    project.remove("h1");
    project.decree(["revert", &id]).ok().mentions(&[named]);
    project.remove("h1");
    join();
    project.decree(["run", "-m", "x", "-p", "y"]).fails(1).mentions(&[named]);
    project.remove("h1");
    join();
    // It is still one file with two names if only its mode was changed.
    project.chmod("h1", 0o600);
    let back = json(&project.decree(["rollback", &id, "--format", "json"]).ok().out);
    assert!(!back["warnings"].to_string().contains("had other names"), "{back:#}");
}

/// REV-17. As an ordinary user, also where the mode forbids to read the file.
#[test]
fn attributes_of_files_that_were_made_unreadable_come_back() {
    let project = Project::new();
    if !has_attributes(&project) {
        return;
    }
    bash(
        &project,
        "echo a > a; setfattr -n user.x -v 1 a; echo b > b; setfacl -m u:12:r,g::--- b; mkdir d; setfattr -n user.x -v d d",
    );
    project
        .write(".decree/config.yml", "max_retries: 0\n")
        .write(".decree/routines/develop.sh", "chmod 000 a; echo c >> b; chmod 200 b; chmod 000 d; exit 1\n");
    hand_over(project.root());
    let before = look_as_owner(&project);
    as_nobody(&project, &["run", "-m", "x", "-p", "y"]).fails(1);
    assert_eq!(look_as_owner(&project), before);
    let id = as_nobody(&project, &["checkpoint", "create"]).ok().line();
    bash(&project, "chmod 444 a; echo c >> b; chmod 444 b");
    as_nobody(&project, &["rollback", &id]).ok();
    assert_eq!(look_as_owner(&project), before);
}

fn look_as_owner(project: &Project) -> String {
    assert!(is_root() || fs::metadata(project.root()).is_ok());
    look(project)
}
