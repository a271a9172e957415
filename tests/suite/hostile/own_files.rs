//! Routines that change or delete decree's own files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{
    VANDALISM, dead, done, inbox, letters, only_dead, only_run, process, project, result, tracker, tree,
};
use crate::harness::{CommandOutput, Project, assert_same};
use crate::revert::{as_nobody, hand_over};

/// Ways to take `.decree/` away, or what is in it.
const ASSAULTS: [(&str, &str); 16] = [
    ("everything", "rm -rf .decree"),
    ("only the store", "rm -rf .decree/store"),
    ("the run", "rm -rf .decree/runs"),
    ("the manifest", "rm \"$message_dir\"/manifest.json"),
    ("the queue", "rm -rf .decree/inbox"),
    ("the lock", "rm -f .decree/lock"),
    ("a file in its place", "rm -rf .decree; echo mine > .decree"),
    ("a link in its place", "rm -rf .decree; mkdir elsewhere; ln -s elsewhere .decree"),
    ("a link to nothing", "rm -rf .decree; ln -s /nonexistent/x .decree"),
    ("another name", "mv .decree hidden-decree"),
    ("another name, and a link", "mv .decree moved; ln -s moved .decree"),
    ("a file for the queue", "rm -rf .decree/inbox; echo x > .decree/inbox"),
    ("a link for the runs", "rm -rf .decree/runs; mkdir \"$OLDPWD_/x\"; ln -s \"$OLDPWD_/x\" .decree/runs"),
    ("a file for the run", "rm -rf \"$message_dir\"; echo x > \"$message_dir\""),
    (
        "directories where files will be",
        "mkdir -p \"$message_dir\"/{changes.diff,result.json}/x \
         \"$message_dir\"/attempts/1/{changes.diff,result.json,usage.json,set-aside}/x \
         \"$message_dir\"/attempts/2/changes.diff/x; echo '{}' > \"$message_dir\"/usage.json",
    ),
    (
        "what would be waited for",
        "for f in specs/processed-spec.md .decree/config.yml .decree/running.json \"$message_dir\"/usage.json \
         \"$message_dir\"/message.md; do rm -f \"$f\"; mkfifo \"$f\"; done",
    ),
];

/// A project with a file in every part of its queue and settings.
pub(super) fn project_with_own_files(routine: &str) -> Project {
    let project = project(routine);
    project
        .write("specs/processed-spec.md", "00-old.spec.md\n")
        .write(".decree/.gitignore", "/runs/\n")
        .write(".decree/cron/daily.md", "daily\n")
        .write(".decree/routines/other.sh", "true\n")
        .write(".decree/inbox/done/old.md", "done\n")
        .write(".decree/inbox/dead/older.md", "---\nerror: x\n---\ndead\n")
        // Waits on: it is for another selection.
        .write(".decree/inbox/waiting.md", "---\nroutine: other\n---\nwait\n");
    project
}

/// Runs only the spec, so that what waits in the inbox goes on waiting.
fn work(project: &Project) -> CommandOutput {
    let elsewhere = crate::harness::temp_dir();
    let mut command = project.command();
    command.args(["process", "--spec", "01-*"]).env("OLDPWD_", elsewhere.path());
    crate::harness::run_command(&mut command)
}

/// Settings, queue and the run are there, and the next command works.
#[track_caller]
fn assert_whole(project: &Project, what: &str) {
    assert!(!project.path(".decree").is_symlink(), "{what}");
    assert_eq!(project.read(".decree/config.yml"), b"max_retries: 0\n", "{what}");
    assert_eq!(project.read(".decree/.gitignore"), b"/runs/\n", "{what}");
    assert_eq!(project.read(".decree/cron/daily.md"), b"daily\n", "{what}");
    assert_eq!(project.read(".decree/routines/other.sh"), b"true\n", "{what}");
    assert_eq!(inbox(project).keys().collect::<Vec<_>>(), ["waiting.md"], "{what}");
    assert_eq!(done(project)["old.md"], "done\n", "{what}");
    assert!(dead(project)["older.md"].ends_with("dead\n"), "{what}");
    let run = only_run(project);
    for file in ["message.md", "manifest.json", "changes.diff", "result.json", "routine.log"] {
        assert!(project.path(format!("{run}/{file}")).is_file(), "{what}: {file}");
    }
    assert!(!project.exists(".decree/running.json"), "{what}");
    project.decree(["status"]).ok();
    let checkpoint = project.checkpoint();
    project.decree(["checkpoint", "verify", &checkpoint]).ok();
}

#[test]
fn a_failing_routine_that_takes_decrees_own_files_away_is_reverted_anyway() {
    for (what, assault) in ASSAULTS {
        let project = project_with_own_files(&format!("{VANDALISM}echo said; {assault}\nexit 3\n"));
        let before = project.snapshot();
        let output = work(&project);
        assert_eq!(output.code, 1, "{what}: {}", output.err);
        assert_same(&project.snapshot(), &before);
        assert_whole(&project, what);
        assert_eq!(result(&project)["put_back"]["verified"], 6, "{what}");
        assert!(dead(&project)["01-work.md"].contains("exit 3 (1 attempt)"), "{what}");
        assert_eq!(tracker(&project), ["00-old.spec.md"], "{what}");
        let log = project.read(format!("{}/routine.log", only_run(&project)));
        assert!(log.starts_with(b"said\n"), "{what}");
    }
}

#[test]
fn a_content_routine_that_takes_decrees_own_files_away_keeps_its_work() {
    for (what, assault) in ASSAULTS {
        let project = project_with_own_files(&format!("echo work > src/lib.rs\n{assault}\nexit 0\n"));
        let mut expected = tree(&project);
        let output = work(&project);
        assert_eq!(output.code, 0, "{what}: {}", output.err);
        let mut found = tree(&project);
        // What it made elsewhere in the tree is its work, too.
        found.retain(|path, _| {
            !["elsewhere", "hidden-decree", "moved"].iter().any(|dir| path.starts_with(dir.as_bytes()))
        });
        if let Some(crate::harness::TreeEntry::File { bytes, .. }) = expected.get_mut(&b"src/lib.rs"[..]) {
            *bytes = b"work\n".to_vec();
        }
        assert_same(&found, &expected);
        assert_whole(&project, what);
        assert_eq!(tracker(&project), ["00-old.spec.md", "01-work.spec.md"], "{what}");
        assert!(done(&project).contains_key("01-work.md"), "{what}");
    }
}

#[test]
fn every_attempt_may_delete_everything_and_the_next_one_still_learns() {
    let project = project_with_own_files(
        "echo $DECREE_ATTEMPT >> tried; [ -e \"$message_dir/failure-context.md\" ] && cp \"$message_dir/failure-context.md\" context\n\
         rm -rf .decree; [ $DECREE_ATTEMPT = 3 ]\n",
    );
    project.write(".decree/config.yml", "max_retries: 2\n");
    work(&project).ok();
    assert_eq!(project.read("tried"), b"3\n", "the last one began on the clean tree");
    let context = String::from_utf8(project.read("context")).unwrap();
    assert!(context.contains("Attempt 1") && context.contains("Attempt 2"), "{context}");
    let run = only_run(&project);
    for file in [
        "attempts/1/changes.diff",
        "attempts/2/changes.diff",
        "attempts/3/changes.diff",
        "failure-context.md",
    ] {
        assert!(project.path(format!("{run}/{file}")).is_file(), "{file}");
    }
}

#[test]
fn the_list_of_what_is_processed_is_not_a_routines_to_write() {
    for edit in
        ["echo 01-work.spec.md >> $t", "rm $t", "> $t", "rm $t; mkdir $t", "rm $t; ln -s ../notes.txt $t"]
    {
        for end in [0, 1] {
            let project = project(&format!("t=specs/processed-spec.md; {edit}; exit {end}\n"));
            project.write("specs/processed-spec.md", "00-old.spec.md\n");
            process(&project).fails(end).mentions(&["specs/processed-spec.md"]);
            let expected: &[&str] =
                if end == 0 { &["00-old.spec.md", "01-work.spec.md"] } else { &["00-old.spec.md"] };
            assert_eq!(tracker(&project), expected, "{edit}");
            assert_eq!(project.read("notes.txt"), b"notes\n", "{edit}");
        }
    }
}

#[test]
fn a_message_that_its_routine_edits_is_settled_as_it_was() {
    for end in [0, 1] {
        let project = project(&format!(
            "for f in \"$message_file\" .decree/inbox/01-work.md; do printf -- '---\\nid: x\\nroutine: evil\\n---\\nother\\n' > $f; done; exit {end}\n"
        ));
        process(&project).fails(end);
        let letters = if end == 0 { done(&project) } else { dead(&project) };
        let text = &letters["01-work.md"];
        assert!(text.contains("routine: develop") && !text.contains("evil"), "{text}");
        assert!(inbox(&project).is_empty());
    }
}

#[test]
fn a_run_that_edits_its_own_records_is_reverted_by_what_was_recorded() {
    let project = project(&format!(
        "{VANDALISM}sed -i 's/\"sha256\":\"./\"sha256\":\"0/' \"$message_dir/manifest.json\"\n\
         for f in .decree/running.json \"$message_dir\"/attempts/*/*; do [ -s $f ] && echo '{{}}' > $f; done; exit 1\n"
    ));
    project.write(".decree/config.yml", "max_retries: 1\n");
    let before = project.snapshot();
    process(&project).fails(1);
    assert_same(&project.snapshot(), &before);
    let id = only_run(&project).rsplit('/').next().unwrap().to_owned();
    // The records are good enough to do the work again and to undo it.
    project.decree(["apply", &id]).ok();
    assert_eq!(project.read("src/main.rs"), b"broken\n");
    project.decree(["revert", &id]).ok();
    assert_same(&project.snapshot(), &before);
    let diff = project.decree(["diff", &id, "--attempt", "1"]).ok().text();
    assert!(diff.contains("+broken"), "{diff}");
}

#[test]
fn settings_that_a_routine_edits_stay_edited_and_are_named() {
    let project = project("echo 'max_retries: 1' > .decree/config.yml; echo work > work\n");
    process(&project).ok().mentions(&[".decree/config.yml", "is kept"]);
    assert_eq!(project.read(".decree/config.yml"), b"max_retries: 1\n");
}

#[test]
fn a_second_decree_stays_out_even_if_the_lock_was_deleted() {
    let decree = env!("CARGO_BIN_EXE_decree");
    let project = project(&format!(
        "rm -f .decree/lock; {decree} checkpoint create; echo \"the other: $?\"; echo work > work\n"
    ));
    let output = process(&project).ok();
    assert!(output.err.contains("the other: 5"), "{}", output.err);
}

#[test]
fn an_ordinary_user_cannot_be_locked_out_of_their_own_decree() {
    if !crate::harness::skip::as_root() {
        return;
    }
    for (what, assault) in [
        ("read-only", "chmod a-w .decree"),
        ("all read-only", "chmod -R a-w .decree"),
        ("closed", "chmod 000 .decree"),
        ("all closed", "chmod -R 000 .decree"),
        ("the run closed", "chmod -R 000 \"$message_dir\""),
        ("the queue closed", "chmod 000 .decree/inbox"),
    ] {
        for end in [0, 1] {
            let project =
                project_with_own_files(&format!("echo broken > src/main.rs; {assault}; exit {end}\n"));
            let before = project.snapshot();
            hand_over(project.root());
            let output = as_nobody(&project, &["process", "--spec", "01-*"]);
            assert_eq!(output.code, end, "{what}: {}", output.err);
            if end == 1 {
                assert_same(&project.snapshot(), &before);
            } else {
                assert_eq!(project.read("src/main.rs"), b"broken\n", "{what}");
            }
            let mode = fs::metadata(project.path(".decree")).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o755, "{what}");
            as_nobody(&project, &["status"]).ok();
            as_nobody(&project, &["checkpoint", "create"]).ok();
            assert_eq!(letters(&project, ".decree/inbox").len(), 1, "{what}");
        }
    }
}

#[test]
fn older_checkpoints_outlive_a_routine_that_deletes_everything() {
    for assault in ["rm -rf .decree", "rm -rf .decree/store", "sed -i s/./x/ .decree/store/*.pack"] {
        let project = project_with_own_files(&format!("echo broken > src/main.rs; {assault}; exit 1\n"));
        let before = project.snapshot();
        let id = project.checkpoint();
        project.write("src/lib.rs", "later\n");
        let later = project.snapshot();
        work(&project).fails(1);
        assert_same(&project.snapshot(), &later);
        project.decree(["checkpoint", "verify", &id]).ok();
        project.decree(["revert", &id]).ok();
        assert_same(&project.snapshot(), &before);
    }
}

#[test]
fn earlier_runs_that_a_routine_deletes_are_reported() {
    let project = project("[ -e first ] && rm -rf .decree; echo x > first; [ ! -e second ]\n");
    process(&project).ok();
    project.write("specs/02-more.spec.md", "more\n");
    process(&project).ok().mentions(&["the directories of 1 earlier run"]);
    assert_eq!(tracker(&project), ["01-work.spec.md", "02-more.spec.md"]);
}

#[test]
fn a_project_that_is_moved_away_is_moved_back() {
    for place in ["", "; mkdir \"$here\"; echo x > \"$here/mine\""] {
        let project =
            project(&format!("{VANDALISM}here=$PWD; mv \"$here\" \"$here.moved\"{place}; exit 1\n"));
        let before = project.snapshot();
        process(&project).fails(1);
        assert_same(&project.snapshot(), &before);
        assert_eq!(dead(&project).len(), 1);
        assert!(!fs::exists(format!("{}.moved", project.root().display())).unwrap());
    }
}

#[test]
fn a_project_that_is_deleted_comes_back() {
    let project = project("here=$PWD; cd /; rm -rf \"$here\"; exit 3\n");
    let before = project.snapshot();
    process(&project).fails(1).mentions(&["deleted the directory of the project; it is made again"]);
    assert_same(&project.snapshot(), &before);
    assert!(only_dead(&project).contains("exit 3"), "{:?}", dead(&project));
    project.write(".decree/routines/develop.sh", "exit 7\n");
    process(&project).fails(1);
    assert_same(&project.snapshot(), &before);
    assert!(only_dead(&project).contains("exit 7"), "{:?}", dead(&project));
    assert_eq!(project.read(".decree/config.yml"), b"max_retries: 0\n");
}

#[test]
fn more_packs_than_files_that_may_be_open_are_no_obstacle() {
    let project = project(&format!("{VANDALISM}rm -rf .decree/tmp; exit 1\n"));
    for number in 0..80 {
        project.write("changing", format!("{number}\n")).checkpoint();
    }
    let before = project.snapshot();
    let mut command = std::process::Command::new("bash");
    command.args(["-c", "ulimit -n 64; exec \"$0\" process"]).arg(env!("CARGO_BIN_EXE_decree"));
    crate::harness::run_command(command.current_dir(project.root())).fails(1).mentions(&["exit 1"]);
    assert_same(&project.snapshot(), &before);
}

#[test]
fn what_a_routine_puts_where_the_queue_was_is_kept() {
    let project = project_with_own_files("rm -rf .decree; echo mine > .decree; exit 1\n");
    work(&project).fails(1);
    let kept = project.path(format!("{}/set-aside", only_run(&project)));
    let kept = fs::read_dir(&kept).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    assert!(kept.into_iter().any(|bytes| bytes == b"mine\n"));
    assert!(!only_dead_of(&project, "01-work.md").is_empty());
}

fn only_dead_of(project: &Project, name: &str) -> String {
    dead(project).remove(name).unwrap_or_else(|| only_dead(project))
}
