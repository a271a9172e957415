//! A disk that a routine fills.

use super::{dead, inbox, process, project, tracker, tree};
use crate::damage::disk::SmallDisk;
use crate::harness::{Project, assert_same};

/// Puts the usual project on a small disk.
fn on(disk: &SmallDisk, routine: &str) {
    let usual = project(routine);
    copy(&usual, &disk.project);
}

fn copy(from: &Project, to: &Project) {
    let status =
        std::process::Command::new("cp").arg("-a").arg(from.path(".")).arg(to.root()).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_routine_that_fills_the_disk_and_cleans_up_is_reverted() {
    let Some(disk) = SmallDisk::new(32 << 10) else { return };
    on(&disk, "echo broken > src/main.rs; cat /dev/zero > filler; rm filler; exit 1\n");
    let project = &disk.project;
    let before = project.snapshot();
    process(project).fails(1);
    assert_same(&project.snapshot(), &before);
    assert!(dead(project)["01-work.md"].contains("exit 1"));
}

#[test]
fn a_disk_that_stays_full_is_reported_and_the_next_process_goes_on_from_there() {
    for end in [0, 1] {
        let Some(disk) = SmallDisk::new(32 << 10) else { return };
        on(
            &disk,
            &format!("echo broken > src/main.rs; rm notes.txt; cat /dev/zero > .decree/filler; exit {end}\n"),
        );
        let project = &disk.project;
        let before = tree(project);
        let output = process(project);
        assert!([1, 4].contains(&output.code), "{}: {}", output.code, output.err);
        assert!(
            output.err.contains("No space left") && output.err.contains("run the same command again"),
            "{}",
            output.err
        );
        assert_eq!(
            (dead(project).len(), tracker(project).len(), inbox(project).len()),
            (0, 0, 1),
            "{}",
            output.err
        );
        project.remove(".decree/filler");
        project.write(".decree/routines/develop.sh", "exit 7\n");
        process(project).fails(1);
        assert_same(&tree(project), &before);
        assert!(dead(project)["01-work.md"].contains("exit 7"));
    }
}

#[test]
fn a_disk_full_of_the_routines_own_files_is_reverted_once_there_is_room() {
    let Some(disk) = SmallDisk::new(32 << 10) else { return };
    on(
        &disk,
        "echo broken > src/main.rs; head -c 100000 /dev/urandom > keep; cat /dev/zero > filler; exit 1\n",
    );
    let project = &disk.project;
    let before = tree(project);
    let output = process(project);
    assert!([1, 4].contains(&output.code), "{}: {}", output.code, output.err);
    assert!(output.err.contains("No space left"), "{}", output.err);
    project.remove("filler");
    project.write(".decree/routines/develop.sh", "exit 7\n");
    process(project).fails(1);
    assert_same(&tree(project), &before);
}
