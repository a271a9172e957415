//! Processes that have a file open, or mapped, for writing while decree replaces it: they go on writing to what was set aside.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::harness::{TreeEntry, assert_same};
use crate::killed::{has_strace, strace};
use crate::pipeline::pipeline_project::{PipelineProject, assert_has};

/// Opens a file for appending, and writes each line of its input to it.
const APPENDER: &str =
    "exec 3>>\"$1\"; echo ready; while read -r line; do echo \"$line\" >&3; echo done; done";

/// REV-33. A process that goes on writing to a file long after it was replaced.
#[test]
fn what_a_process_appends_after_a_restore_is_kept_in_set_aside() {
    for is_run in [false, true] {
        let project = PipelineProject::with("echo more >>notes.txt; exit 1");
        project.config("max_retries: 0\n").spec("01-a", "# A\n");
        let before = project.snapshot();
        let id = project.checkpoint();
        let mut appender = Command::new("bash")
            .args(["-c", APPENDER, "appender"])
            .arg(project.path("notes.txt"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(appender.stdout.take().unwrap()).lines();
        assert_eq!(answers.next().unwrap().unwrap(), "ready");
        let output = if is_run {
            project.process().fails(1)
        } else {
            std::fs::OpenOptions::new()
                .append(true)
                .open(project.path("notes.txt"))
                .unwrap()
                .write_all(b"mine\n")
                .unwrap();
            project.decree(["rollback", &id]).ok()
        };
        assert_same(&project.snapshot(), &before);
        output.mentions(&["notes.txt was open for writing in bash (process", "set-aside/"]);
        writeln!(appender.stdin.as_mut().unwrap(), "late").unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), "done");
        drop(appender.stdin.take());
        appender.wait().unwrap();
        assert_same(&project.snapshot(), &before);
        let kept = set_aside(&project, "notes.txt");
        assert!(kept.iter().any(|text| text.ends_with("late\n")), "{kept:?}");
    }
}

/// REV-33. The process writes between the comparison and the moment in which its file leaves the tree.
#[test]
fn a_process_that_writes_while_its_file_is_moved_is_named() {
    if !has_strace() {
        return;
    }
    let begun = "until ls .decree/tmp/restore-*/journal.json >/dev/null 2>&1; do sleep 0.01; done";
    for (opens, writes, named) in [
        ("exec 3>>notes.txt", "echo late >&3", "notes.txt was open for writing in bash (process"),
        // Opens the same file only to write.
        (
            "exec 3<notes.txt",
            "echo late >>/proc/self/fd/3",
            "another process wrote notes.txt during the restore, and has closed it since",
        ),
    ] {
        let project = PipelineProject::new();
        let id = project.checkpoint();
        project.write("notes.txt", "what is new\n");
        let script = format!("{opens}; {begun}; {writes}; read -r _");
        let mut writer = Command::new("bash")
            .args(["-c", &script])
            .current_dir(project.root())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let late = ["-e", "trace=renameat2", "-e", "inject=renameat2:delay_enter=2000000:when=1"];
        let output = strace(&project, &["rollback", &id], &late);
        drop(writer.stdin.take());
        writer.wait().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_has(&err, &[named, "set-aside/"]);
        assert_eq!(project.text("notes.txt"), "one\r\ntwo\n", "{err}");
        assert_eq!(set_aside(&project, "notes.txt"), ["what is new\nlate\n"], "{err}");
    }
}

/// REV-42.
#[test]
fn an_apply_names_the_file_that_a_process_goes_on_writing() {
    let project = PipelineProject::with("echo more >>notes.txt");
    project.spec("01-a", "# A\n");
    project.process().ok();
    let (after, id) = (project.snapshot(), project.only_run());
    project.decree(["revert", &id]).ok();
    let mut appender = Command::new("bash")
        .args(["-c", APPENDER, "appender"])
        .arg(project.path("notes.txt"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(appender.stdout.take().unwrap()).lines();
    assert_eq!(answers.next().unwrap().unwrap(), "ready");
    let output = project.decree(["apply", &id]).ok();
    assert_eq!(project.read("notes.txt"), *b"one\r\ntwo\nmore\n");
    let place = format!(".decree/runs/{id}/set-aside/notes.txt");
    let output = output.mentions(&[
        "notes.txt was open for writing in bash (process",
        "set aside notes.txt: moved to",
        &place,
    ]);
    assert!(!output.err.contains("the revert set aside"), "{}", output.err);
    writeln!(appender.stdin.as_mut().unwrap(), "late").unwrap();
    assert_eq!(answers.next().unwrap().unwrap(), "done");
    drop(appender.stdin.take());
    appender.wait().unwrap();
    assert_eq!(project.read(place), *b"one\r\ntwo\nlate\n");
    let mut now = project.snapshot();
    now.retain(|path, _| after.contains_key(path));
    assert_same(&now, &after);
}

/// Maps a file into memory, closes it, and writes each line of its input to the beginning of it.
const MAPPER: &str = "
import mmap, os, sys
memory = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)
os.closerange(3, 64)  # also the copy of the descriptor that mmap makes
print('ready', flush=True)
for line in sys.stdin:
    memory[0:4] = line.strip().encode()
    print('done', flush=True)
";

/// REV-41. A name may contain what `/proc` escapes, and what it adds to the name of a file that was removed.
#[test]
fn what_a_process_writes_through_a_mapping_after_a_restore_is_kept_in_set_aside() {
    for name in ["notes.txt", "two\nlines \\ (deleted)"] {
        let project = PipelineProject::new();
        project.write(name, "some text\n");
        let before = project.snapshot();
        let id = project.checkpoint();
        project.write(name, "what is new\n");
        let mut mapper = Command::new("python3")
            .args(["-c", MAPPER])
            .arg(project.path(name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(mapper.stdout.take().unwrap()).lines();
        assert_eq!(answers.next().unwrap().unwrap(), "ready");
        let output = project.decree(["rollback", &id]).ok();
        assert_same(&project.snapshot(), &before);
        output.mentions(&["was open for writing in python3 (process", "set-aside/"]);
        writeln!(mapper.stdin.as_mut().unwrap(), "late").unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), "done");
        drop(mapper.stdin.take());
        mapper.wait().unwrap();
        assert_same(&project.snapshot(), &before);
        let kept = set_aside(&project, name);
        assert_eq!(kept, ["late is new\n"]);
    }
}

/// REV-41. A mapping that cannot be written through, or that is private, changes nothing.
#[test]
fn a_file_that_is_only_mapped_to_be_read_is_replaced() {
    for access in ["ACCESS_READ", "ACCESS_COPY"] {
        let project = PipelineProject::new();
        let id = project.checkpoint();
        project.write("notes.txt", "what is new\n");
        let script = MAPPER.replace("O_RDWR), 0)", &format!("O_RDWR), 0, access=mmap.{access})"));
        let mut mapper = Command::new("python3")
            .args(["-c", &script])
            .arg(project.path("notes.txt"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(mapper.stdout.take().unwrap()).lines();
        assert_eq!(answers.next().unwrap().unwrap(), "ready");
        let output = project.decree(["rollback", &id]).ok();
        drop(mapper.stdin.take());
        mapper.wait().unwrap();
        assert!(!output.err.contains("open for writing"), "{}", output.err);
        assert_eq!(set_aside(&project, "notes.txt"), [""; 0]);
    }
}

/// What is in every file of this name in a `set-aside/`.
fn set_aside(project: &PipelineProject, name: &str) -> Vec<String> {
    let files = crate::harness::snapshot(&project.path(".decree")).into_iter();
    let of_name =
        |path: &[u8]| String::from_utf8_lossy(path).contains("set-aside") && path.ends_with(name.as_bytes());
    files
        .filter(|(path, _)| of_name(path))
        .filter_map(|(_, entry)| match entry {
            TreeEntry::File { bytes, .. } => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        })
        .collect()
}
