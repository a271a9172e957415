use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::*;

struct RoutineDirs(tempfile::TempDir);

impl RoutineDirs {
    fn new() -> Self {
        let place = RoutineDirs(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.own()).unwrap();
        fs::create_dir_all(place.shared()).unwrap();
        place
    }

    fn own(&self) -> PathBuf {
        self.0.path().join(".decree/routines")
    }

    fn shared(&self) -> PathBuf {
        self.0.path().join("shared")
    }

    fn discover(&self, notebooks: bool) -> Routines {
        Routines::discover(&[self.own(), self.shared()], notebooks).unwrap()
    }
}

fn name(text: &str) -> RoutineName {
    RoutineName::parse(text).unwrap()
}

fn names(routines: &Routines) -> Vec<&str> {
    routines.names().map(RoutineName::as_str).collect()
}

const NOTEBOOK: &str = r#"{"cells": [
    {"cell_type": "markdown", "source": "Looks at data.\nneeds: python3", "metadata": {}},
    {"cell_type": "code", "source": "rows = 5", "metadata": {"tags": ["parameters"]}}]}"#;

#[test]
fn a_script_declares_description_and_parameters() {
    let place = RoutineDirs::new();
    let script = "#!/bin/bash\n# Develops.\n# needs: git\nbranch=\"${branch:-main}\"\ngo\n";
    fs::write(place.own().join("develop.sh"), script).unwrap();
    fs::write(place.own().join("README.md"), "").unwrap();
    let routines = place.discover(false);
    let routine = routines.find(&name("develop")).unwrap();
    assert_eq!((routine.description.as_str(), routine.kind), ("Develops.", RoutineKind::Shell));
    assert_eq!(routine.needs, ["git"]);
    assert_eq!(
        routine.parameters,
        [Parameter { name: "branch".into(), default: "main".into(), typed: false }]
    );
    assert_eq!(routine.path, place.own().join("develop.sh"));
    assert!(routines.problems.is_empty());
}

#[test]
fn a_notebook_has_priority_when_notebooks_are_on() {
    let place = RoutineDirs::new();
    fs::write(place.own().join("a.sh"), "# script\n").unwrap();
    fs::write(place.own().join("a.ipynb"), NOTEBOOK).unwrap();
    fs::write(place.own().join("b.ipynb"), NOTEBOOK).unwrap();
    let on = place.discover(true);
    let routine = on.find(&name("a")).unwrap();
    assert_eq!((routine.kind, routine.description.as_str()), (RoutineKind::Notebook, "Looks at data."));
    assert_eq!(routine.parameters, [Parameter { name: "rows".into(), default: "5".into(), typed: true }]);
    assert_eq!(names(&on), ["a", "b"]);

    let off = place.discover(false);
    assert_eq!(off.find(&name("a")).unwrap().kind, RoutineKind::Shell);
    let error = off.find(&name("b")).unwrap_err();
    assert_eq!(error.hint_text(), Some("b.ipynb exists: set 'notebook_support: true' to use notebooks"));
}

#[test]
fn the_projects_own_routines_come_first() {
    let place = RoutineDirs::new();
    fs::write(place.own().join("a.sh"), "# own\n").unwrap();
    fs::write(place.shared().join("a.ipynb"), NOTEBOOK).unwrap();
    fs::write(place.shared().join("b.sh"), "# shared\n").unwrap();
    let routines = place.discover(true);
    assert_eq!(routines.find(&name("a")).unwrap().description, "own");
    assert_eq!(routines.find(&name("b")).unwrap().description, "shared");
}

#[test]
fn an_unknown_name_is_reported_with_the_known_ones() {
    let place = RoutineDirs::new();
    for file in ["develop.sh", "rust-develop.sh"] {
        fs::write(place.own().join(file), "").unwrap();
    }
    let routines = Routines::discover(&[place.own()], false).unwrap();
    let error = routines.find(&name("devlop")).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.kind().exit_code()), ("routine 'devlop' not found", 3));
    assert_eq!(error.detail_lines(), ["looked in .decree/routines: develop.sh, rust-develop.sh"]);
    assert_eq!(error.hint_text(), Some("did you mean 'develop'?"));
    assert_eq!(routines.find(&name("develop.sh")).unwrap_err().hint_text(), Some("did you mean 'develop'?"));
    assert_eq!(routines.find(&name("zzz")).unwrap_err().hint_text(), None);
    let error = routines.not_found("../x");
    assert!(error.to_string().starts_with("\"../x\" is not a routine name: it has a '/'"), "{error}");
}

#[test]
fn a_missing_directory_has_no_routines() {
    let routines = Routines::discover(&["/nowhere/.decree/routines".into()], true).unwrap();
    assert_eq!(names(&routines), [""; 0]);
    let error = routines.find(&name("develop")).unwrap_err();
    assert_eq!(error.detail_lines(), ["looked in .decree/routines: no routines"]);
}

#[test]
fn an_unusable_routine_is_left_out_with_a_reason() {
    let place = RoutineDirs::new();
    let own = place.own();
    fs::create_dir(own.join("dir.sh")).unwrap();
    symlink("nowhere", own.join("gone.sh")).unwrap();
    fs::write(own.join("latin.sh"), b"# caf\xe9\n").unwrap();
    fs::write(own.join("broken.ipynb"), "{").unwrap();
    fs::write(own.join("my routine.sh"), "").unwrap();
    fs::write(own.join(OsStr::from_bytes(b"\xff.sh")), "").unwrap();
    fs::write(own.join(".hidden.sh"), "").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, own.join("pipe.sh"), rustix::fs::Mode::RWXU).unwrap();
    fs::write(own.join("good.sh"), "").unwrap();
    let routines = place.discover(true);
    assert_eq!(names(&routines), ["good"]);
    let mut reasons: Vec<String> =
        routines.problems.iter().map(|p| format!("{}: {}", p.path.to_string_lossy(), p.reason)).collect();
    reasons.sort();
    let expected = [
        ".decree/routines/broken.ipynb: it is not a notebook: ",
        ".decree/routines/dir.sh: it is a directory",
        ".decree/routines/gone.sh: it is a link to nothing",
        ".decree/routines/latin.sh: it is not UTF-8",
        ".decree/routines/my routine.sh: its name is not a routine name: it has ' '",
        ".decree/routines/pipe.sh: it is not a regular file",
        ".decree/routines/\u{fffd}.sh: its name is not UTF-8",
    ];
    assert_eq!(reasons.len(), expected.len(), "{reasons:#?}");
    for (reason, expected) in reasons.iter().zip(expected) {
        assert!(reason.starts_with(expected), "{reason}");
    }
}

#[test]
fn a_broken_routine_is_not_replaced_by_a_shared_one() {
    let place = RoutineDirs::new();
    fs::write(place.own().join("develop.sh"), b"\xff").unwrap();
    fs::write(place.shared().join("develop.sh"), "# shared\n").unwrap();
    let error = place.discover(false).find(&name("develop")).unwrap_err();
    assert_eq!(
        error.detail_lines().last().unwrap(),
        ".decree/routines/develop.sh cannot be used: it is not UTF-8"
    );
}
