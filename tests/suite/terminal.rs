//! Output on a terminal, through a real pseudo-terminal, and in a log without one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::thread;

use nix::pty::{OpenptyResult, Winsize, openpty};

use crate::apply::{Recorded, recorded};
use crate::harness::{Project, wait_for};

fn project() -> Project {
    let project = Project::new();
    project.write(".decree/config.yml", "max_retries: 1\n");
    project.write("specs/01-say.spec.md", "# Say\n");
    let routine = "# Develop\necho 'first words'\necho 'last words'\nsleep 1\necho done > out\n[ \"$DECREE_ATTEMPT\" = 2 ]\n";
    project.write(".decree/routines/develop.sh", routine);
    project
}

/// Runs decree on a pseudo-terminal; returns everything it drew, and its exit code.
fn on_a_terminal(project: &Project, arguments: &[&str]) -> (String, i32) {
    on_a_terminal_with(project, arguments, &[])
}

/// The same, with these variables.
fn on_a_terminal_with(project: &Project, arguments: &[&str], variables: &[(&str, &str)]) -> (String, i32) {
    let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
    let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
    let mut command = project.command();
    command.env("TERM", "xterm-256color").envs(variables.iter().copied()).args(arguments);
    command.stdin(end(&slave)).stdout(end(&slave)).stderr(end(&slave));
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(slave);
    let reader = thread::spawn(move || {
        let mut drawn = Vec::new();
        // The other side is closed with an error, not with an end.
        let _ = File::from(master).read_to_end(&mut drawn);
        String::from_utf8_lossy(&drawn).into_owned()
    });
    let code = child.wait().unwrap().code().unwrap_or(-1);
    (reader.join().unwrap(), code)
}

/// SEE-02.
#[test]
fn a_terminal_shows_a_row_that_moves_and_the_last_words_of_the_routine() {
    let project = project();
    let (drawn, code) = on_a_terminal(&project, &["process"]);
    assert_eq!(code, 0, "{drawn}");
    for part in [
        "1 spec to process",
        "attempt 1 of 2",
        "clean slate",
        "└ first words",
        "last words",
        "✓ kept",
        "\x1b[",
    ] {
        assert!(drawn.contains(part), "{part:?} is not in {drawn:?}");
    }
}

/// Runs decree as the foreground program of a terminal and types Ctrl-C twice once `ready` is there.
fn ctrl_c_twice(project: &Project, arguments: &[&str], ready: &str) -> (String, i32) {
    let OpenptyResult { master, slave } = openpty(None, None).unwrap();
    let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
    let decree = project.command();
    let mut command = std::process::Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(decree.get_program()).args(arguments).current_dir(project.root());
    command.stdin(end(&slave)).stdout(end(&slave)).stderr(end(&slave));
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(slave);
    let mut keyboard = File::from(master.try_clone().unwrap());
    let reader = thread::spawn(move || {
        let mut drawn = Vec::new();
        let _ = File::from(master).read_to_end(&mut drawn);
        String::from_utf8_lossy(&drawn).into_owned()
    });
    wait_for(&project.path(ready));
    for _ in 0..2 {
        keyboard.write_all(b"\x03").unwrap();
        thread::sleep(std::time::Duration::from_millis(200));
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    (reader.join().unwrap(), code)
}

/// RUN-36, GRD-16.
#[test]
fn ctrl_c_twice_on_a_terminal_says_what_became_of_the_tree() {
    let stubborn =
        "trap '' INT TERM; echo x >notes; echo yes >.decree/ready; while [ -d .decree ]; do sleep 0.05; done";
    let project = project();
    project.write(".decree/routines/develop.sh", stubborn).write("notes", "mine\n");
    let (drawn, code) = ctrl_c_twice(&project, &["process"], ".decree/ready");
    assert_eq!(code, 130, "{drawn:?}");
    for words in ["interrupted again", "the tree is NOT reverted", "the next `decree process`"] {
        assert!(drawn.contains(words), "{words:?} is not in {drawn:?}");
    }
    assert_eq!(project.read("notes"), b"x\n");
    let project = self::project();
    project.write("notes", "mine\n");
    let (drawn, code) = ctrl_c_twice(&project, &["guard", "--", "bash", "-c", stubborn], ".decree/ready");
    assert_eq!(code, 130, "{drawn:?}");
    assert!(drawn.contains("rolled back") && drawn.contains("the tree is as it was"), "{drawn:?}");
    assert_eq!(project.read("notes"), b"mine\n");
}

/// SEE-15.
#[test]
fn a_terminal_says_that_edits_made_meanwhile_are_reverted_too_and_names_what_was() {
    let project = project();
    let (drawn, _) = on_a_terminal(&project, &["process"]);
    assert_eq!(drawn.matches("a file that you edit while a routine runs").count(), 1, "{drawn:?}");
    assert!(drawn.contains("reverted  out"), "the clean slate reverted it: {drawn:?}");
    // Where there is nothing to do, nothing can be edited meanwhile.
    let (drawn, _) = on_a_terminal(&project, &["process"]);
    assert!(drawn.contains("nothing to do") && !drawn.contains("a file that you edit"), "{drawn:?}");
    let project = self::project();
    let plain = project.decree(["process"]).ok().err;
    assert!(!plain.contains("that you edit while"), "{plain}");
    assert!(plain.contains("    reverted  out\n"), "{plain}");
}

/// SEE-03.
#[test]
fn a_bar_shows_how_far_the_checkpoint_of_a_large_tree_is() {
    let project = project();
    for number in 0..6000 {
        project.write(format!("many/{:02}/{number}", number % 50), vec![b'x'; 3000]);
    }
    let (drawn, _) = on_a_terminal(&project, &["process"]);
    assert!(drawn.contains("reading") && drawn.contains("files"), "{drawn:?}");
}

/// SEE-02.
#[test]
fn without_a_terminal_there_are_plain_lines() {
    let project = project();
    let output = project.decree(["process"]).ok();
    for text in [&output.err, &output.text()] {
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
    }
    for line in [
        "  attempt 1 of 2",
        "first words",
        "last words",
        "  attempt 1 of 2: exit 1 ·",
        "  attempt 2 of 2, on a clean slate",
    ] {
        assert!(
            output.err.lines().any(|output| output.starts_with(line)),
            "{line:?} is not in {}",
            output.err
        );
    }
    assert!(output.text().contains("✓ 1 kept"), "{}", output.text());
}

#[test]
fn verbose_shows_everything_on_a_terminal_and_quiet_nothing_but_the_end() {
    let (drawn, _) = on_a_terminal(&project(), &["--verbose", "process"]);
    assert!(drawn.contains("first words\r\nlast words\r\n"), "{drawn:?}");
    let output = project().decree(["-q", "process"]).ok();
    assert_eq!(output.err, "");
    assert!(output.text().contains("✓ 1 kept"), "{}", output.text());
}

/// WFL-07.
#[test]
fn a_workflows_log_is_lines_even_if_the_runner_hands_out_a_terminal() {
    let (drawn, code) = on_a_terminal_with(&project(), &["process"], &[("GITHUB_ACTIONS", "true")]);
    assert_eq!(code, 0, "{drawn}");
    assert!(drawn.contains("::group::") && drawn.contains("\nlast words\r\n"), "{drawn}");
    assert!(!drawn.contains("\x1b[2K") && !drawn.contains('⠋'), "{drawn:?}");
}

/// CPC-09.
#[test]
fn nothing_is_deleted_without_a_clear_yes() {
    let project = project();
    let id = project.checkpoint();
    let answered = |answer: &str, signal: bool| {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut command = project.command();
        command.args(["checkpoint", "delete", &id]);
        command.stdin(end(&slave)).stdout(end(&slave)).stderr(end(&slave));
        let mut child = command.spawn().unwrap();
        let mut terminal = File::from(master);
        let mut drawn = Vec::new();
        while !String::from_utf8_lossy(&drawn).contains("[y/N]") {
            let mut byte = [0];
            terminal.read_exact(&mut byte).unwrap();
            drawn.push(byte[0]);
        }
        if signal {
            rustix::process::kill_process(
                rustix::process::Pid::from_child(&child),
                rustix::process::Signal::INT,
            )
            .unwrap();
        }
        let code = if signal {
            child.wait().unwrap().code()
        } else {
            terminal.write_all(answer.as_bytes()).unwrap();
            child.wait().unwrap().code()
        };
        drop(slave);
        code
    };
    assert_eq!(answered("\n", false), Some(0));
    assert_eq!(answered("n\n", false), Some(0));
    assert_eq!(answered("", true), Some(130));
    assert!(project.exists(format!(".decree/checkpoints/{id}")));
    assert_eq!(answered("y\n", false), Some(0));
    assert!(!project.exists(format!(".decree/checkpoints/{id}")));
}

/// REV-12. Enter alone overwrites nothing.
#[test]
fn apply_with_force_asks_on_a_terminal_unless_it_is_told_yes() {
    let write = |text: &'static str| {
        move |project: &Project| {
            project.write("a", text);
        }
    };
    let Recorded { project, id, .. } = recorded(write("one\n"), write("two\n"));
    project.write("a", "mine\n");
    for (answer, code) in [("\n", 1), ("n\n", 1), ("y\n", 0)] {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut command = project.command();
        command.args(["apply", &id, "--force"]);
        command.stdin(end(&slave)).stdout(end(&slave)).stderr(end(&slave));
        let mut child = command.spawn().unwrap();
        let mut terminal = File::from(master);
        let mut drawn = Vec::new();
        while !String::from_utf8_lossy(&drawn).contains("/n] ")
            && !String::from_utf8_lossy(&drawn).contains("/N] ")
        {
            let mut byte = [0];
            terminal.read_exact(&mut byte).unwrap();
            drawn.push(byte[0]);
        }
        let drawn = String::from_utf8_lossy(&drawn).into_owned();
        assert!(drawn.contains("Overwrite 1 path (a)") && drawn.contains("[y/N]"), "{drawn}");
        terminal.write_all(answer.as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{answer:?}");
        drop(slave);
        assert_eq!(project.read("a") == b"mine\n", code == 1, "{answer:?}");
    }
    project.write("a", "mine\n");
    let (drawn, code) = on_a_terminal(&project, &["apply", &id, "--force", "--yes"]);
    assert_eq!(code, 0, "{drawn}");
    assert!(!drawn.contains("/N]") && drawn.contains("overwriting a"), "{drawn}");
    assert_eq!(project.read("a"), b"two\n");
}
