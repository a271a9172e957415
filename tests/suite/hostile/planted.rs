//! What a routine puts where decree will have files of its own, and who may read those.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{dead, done, inbox, process, project};
use crate::harness::{Project, temp_dir, wait_for};

/// Directories of decree that need not exist before a run.
const DIRS: [&str; 6] = ["checkpoints", "inbox/done", "inbox/dead", "inbox", "runs", "tmp"];

/// Every command that writes below `.decree/`.
fn use_everything(project: &Project) {
    project.decree(["checkpoint", "create"]);
    project.write("specs/09-last.spec.md", "last\n").write("notes.txt", "later\n");
    project.decree(["process"]);
    project.write(".decree/routines/develop.sh", "exit 1\n").write("specs/10-fails.spec.md", "fails\n");
    project.decree(["process"]);
    project.decree(["revert", "chk_"]);
}

#[track_caller]
fn assert_untouched(outside: &Path, what: &str) {
    let names: Vec<_> = fs::read_dir(outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.is_empty(), "{what}: {names:?}");
}

/// HLD-22.
#[test]
fn a_link_in_place_of_a_directory_of_decree_leads_nothing_out() {
    for dir in DIRS {
        for end in [0, 1] {
            let outside = temp_dir();
            let link = format!("rm -rf .decree/{dir}; ln -s {} .decree/{dir}", outside.path().display());
            let project = project(&format!("echo work >>src/lib.rs; {link}; exit {end}\n"));
            process(&project).fails(end);
            let what = format!("{dir}, exit {end}");
            assert!(!project.path(format!(".decree/{dir}")).is_symlink(), "{what}");
            assert_eq!((dead(&project).len(), done(&project).len()), if end == 0 { (0, 1) } else { (1, 0) });
            use_everything(&project);
            assert_untouched(outside.path(), &what);
        }
    }
}

/// HLD-22. The same if nothing could be repaired, because decree was killed.
#[test]
fn a_link_that_a_killed_run_left_is_refused_by_name() {
    for dir in ["checkpoints", "inbox/done", "inbox/dead", "inbox", "tmp"] {
        let outside = temp_dir();
        let project = project(&format!(
            "[ -e .decree/again ] && {{ echo work >work; exit 0; }}\ntouch .decree/again\nrm -rf .decree/{dir}\n\
             ln -s {} .decree/{dir}\necho x >planted; sleep 60\n",
            outside.path().display()
        ));
        let mut child = super::start(&project);
        wait_for(&project.path("planted"));
        child.kill().unwrap();
        child.wait().unwrap();
        let output = process(&project);
        assert!(output.code != 0 && output.err.contains(&format!(".decree/{dir}")), "{dir}: {}", output.err);
        assert!(output.err.contains("symbolic link"), "{}", output.err);
        assert_untouched(outside.path(), dir);
        fs::remove_file(project.path(format!(".decree/{dir}"))).unwrap();
        process(&project).ok();
        assert!(!project.exists("planted") && project.exists("work"), "{dir}");
        assert_untouched(outside.path(), dir);
    }
}

/// HLD-22. A routine knows the ids of its follow-ups.
#[test]
fn a_link_in_place_of_a_future_run_leads_nothing_out() {
    let outside = temp_dir();
    let project = project(&format!(
        "echo x >>work; case $message_id in *-0) c=${{message_id%-0}}; ln -s {} .decree/runs/$c-1; \
         printf -- \"---\\nid: $c-1\\nroutine: develop\\n---\\nmore\\n\" >.decree/inbox/$c-1.md;; esac\n",
        outside.path().display()
    ));
    process(&project).ok();
    assert_eq!(project.read("work"), b"x\nx\n");
    assert_untouched(outside.path(), "a run");
}

/// HLD-22.
#[test]
fn a_trail_and_orders_that_a_routine_plants_are_not_taken_for_decrees() {
    let files = ["audit.jsonl", "rolling-back.json", "guarding.json", "guard-failed.json"];
    let script: String =
        files.iter().map(|name| format!("echo '{{\"forged\":1}}' >.decree/{name}\n")).collect();
    for end in [0, 1] {
        let project = project(&format!("echo work >>src/lib.rs\n{script}exit {end}\n"));
        process(&project).fails(end);
        for name in files {
            let text = fs::read_to_string(project.path(format!(".decree/{name}"))).unwrap_or_default();
            assert!(!text.contains("forged"), "{name}: {text}");
        }
        project.decree(["status"]).ok();
        project.decree(["audit"]).ok();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// All files below a directory.
fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let (mut files, mut todo) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path())
            } else {
                files.push(entry.path())
            }
        }
    }
    files
}

/// HLD-23.
#[test]
fn what_decree_stores_is_for_its_user_alone_whatever_the_umask() {
    let project = Project::new();
    project
        .write("private.txt", "private\n")
        .chmod("private.txt", 0o600)
        .write("specs/01-work.spec.md", "Work.\n")
        .write(".decree/config.yml", "max_retries: 0\n")
        .write(
            ".decree/routines/develop.sh",
            "echo changed >>private.txt; exit $([ -e specs/02-b.spec.md ]; echo $?)\n",
        );
    // Left by an earlier version.
    for dir in ["runs", "store", "checkpoints", "inbox"] {
        project.mkdir(format!(".decree/{dir}")).chmod(format!(".decree/{dir}"), 0o755);
    }
    let run = |args: &str| {
        let script = format!("umask 000; exec \"$0\" {args}");
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script]).arg(env!("CARGO_BIN_EXE_decree")).current_dir(project.root());
        crate::harness::run_command(&mut command)
    };
    run("process").fails(1);
    project.write("specs/02-b.spec.md", "b\n");
    run("process").ok();
    run("checkpoint create").ok();
    project.write("private.txt", "other\n");
    run("rollback chk_").ok();
    for dir in ["runs", "store", "checkpoints", "inbox", "inbox/done", "inbox/dead", "tmp"] {
        assert_eq!(mode(&project.path(format!(".decree/{dir}"))), 0o700, "{dir}");
    }
    for dir in ["runs", "store", "checkpoints", "inbox"] {
        let files = files_below(&project.path(format!(".decree/{dir}")));
        assert!(!files.is_empty(), "{dir}");
        for file in files {
            assert_eq!(mode(&file) & 0o077, 0, "{}", file.display());
        }
    }
    for file in ["audit.jsonl", "summary.json"] {
        assert_eq!(mode(&project.path(format!(".decree/{file}"))), 0o600, "{file}");
    }
    // What people commit is as their umask says.
    assert_eq!(mode(&project.path("specs/processed-spec.md")), 0o666);
    run("report --format markdown --output report.md").ok();
    assert_eq!(mode(&project.path("report.md")), 0o666);
}

/// RCV-30. The run's directory has the message, too.
#[test]
fn a_message_whose_inbox_a_killed_run_deleted_is_not_lost() {
    let project = project(
        "[ -e .decree/again ] && { echo work >work; exit 0; }\ntouch .decree/again\nrm -rf .decree/inbox\n\
         echo x >gone; sleep 60\n",
    );
    project
        .remove("specs/01-work.spec.md")
        .write(".decree/inbox/other.md", "---\nroutine: develop\n---\nother\n");
    let mut command = project.command();
    command.args(["run", "-m", "mine", "-p", "Do it."]);
    let mut child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_for(&project.path("gone"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!project.exists(".decree/inbox"));
    let output = process(&project).ok();
    // Both were processed: the run's directory had one, the second names of waiting messages the other.
    assert_eq!(done(&project).keys().collect::<Vec<_>>(), ["mine.md", "other.md"], "{}", output.err);
    assert!(inbox(&project).is_empty() && dead(&project).is_empty());
    assert!(project.exists("work") && !project.exists("gone"));
    output.mentions(&["mine.md", "other.md"]);
}

/// HLD-22. A routine may write to its run's directory, where decree will have directories, too.
#[test]
fn a_link_in_the_runs_own_directory_leads_nothing_out() {
    let outside = temp_dir();
    let project = project(&format!(
        "for d in follow-ups git put-back set-aside previous attempts/1/set-aside attempts/1/follow-ups attempts/2/set-aside; do \
         mkdir -p $(dirname $message_dir/$d); ln -sn {0} $message_dir/$d; done 2>/dev/null\n\
         ln -s nothing $message_dir/notes-link\n\
         c=${{message_id%-0}}; printf -- \"---\\nid: $c-1\\n---\\nmore\\n\" >.decree/inbox/$c-1.md\n\
         echo y >>src/lib.rs; mkfifo pipe; exit 1\n",
        outside.path().display()
    ));
    project.write(".decree/config.yml", "max_retries: 1\nretry_delay: 0s\n");
    let before = project.snapshot();
    process(&project).fails(1);
    crate::harness::assert_same(&project.snapshot(), &before);
    assert_untouched(outside.path(), "the run");
}
