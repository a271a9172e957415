use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use zip::write::SimpleFileOptions;

use super::{archive, staged, worked};
use crate::harness::{assert_same, temp_dir};

/// ART-06.
#[test]
fn an_archive_with_an_entry_that_leads_out_of_it_is_refused() {
    let (here, there) = worked();
    let (_dir, target) = staged(&here);
    let id = here.runs()[0].clone();
    let before = there.snapshot();
    let inside = format!("runs/{id}/../../../../evil");
    for name in ["../evil", "/evil", "runs/../../evil", "runs/x/../../../evil", &inside] {
        for entry in [name.to_owned(), format!("{name}/{id}/result.json")] {
            let (_dir, evil) = archive_with(&target, &id, |zip| {
                zip.start_file(&entry, SimpleFileOptions::default()).unwrap();
                zip.write_all(b"evil").unwrap();
            });
            for arguments in [&["apply", "--from", &evil][..], &["apply", &id, "--from", &evil]] {
                there.decree(arguments).fails(3).mentions(&["is not an artifact", &format!("'{entry}'")]);
            }
        }
    }
    assert_same(&there.snapshot(), &before);
    assert!(!there.exists(".decree/runs"));
    assert!(!Path::new("/evil").exists() && !there.exists("../evil") && !there.exists("evil"));
}

/// ART-06.
#[test]
fn entries_that_no_run_has_are_ignored() {
    let (here, there) = worked();
    let (_dir, target) = staged(&here);
    let id = here.runs()[0].clone();
    let (_dir, from) = archive_with(&target, &id, |zip| {
        let deep = format!("runs/{id}/set-aside/{}x", "x/".repeat(20));
        for name in [deep, format!("runs/{id}/..\\x"), format!("./runs/{id}/x")] {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(b"ignored").unwrap();
        }
    });
    there.decree(["apply", &id, "--from", &from]).ok();
    let mut names = there.names(&format!(".decree/runs/{id}"));
    names.sort();
    assert_eq!(names, ["changes.diff", "manifest.json", "result.json"]);
}

/// ART-06.
#[test]
fn links_in_an_archive_are_not_followed() {
    let (here, there) = worked();
    let (_dir, target) = staged(&here);
    let id = here.runs()[0].clone();
    let (_dir, from) = archive_with(&target, &id, |zip| {
        zip.add_symlink(format!("runs/{id}/attempts"), "/tmp", SimpleFileOptions::default()).unwrap();
    });
    let output = there.decree(["apply", "--from", &from]).ok();
    assert_eq!(output.text().lines().collect::<Vec<_>>(), [&id]);
    there.decree(["apply", &id, "--from", &from]).ok();
    let mut names = there.names(&format!(".decree/runs/{id}"));
    names.sort();
    assert_eq!(names, ["changes.diff", "manifest.json", "result.json"]);
}

/// An archive of a run, with the entries that `add` adds before it, and the directory that holds it.
fn archive_with(
    artifact: &Path,
    id: &str,
    add: impl FnOnce(&mut zip::ZipWriter<File>),
) -> (tempfile::TempDir, String) {
    let dir = temp_dir();
    let path = dir.path().join("artifact.zip");
    let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
    add(&mut zip);
    for name in ["changes.diff", "result.json", "manifest.json"] {
        zip.start_file(format!("runs/{id}/{name}"), SimpleFileOptions::default()).unwrap();
        zip.write_all(&fs::read(artifact.join(format!("runs/{id}/{name}"))).unwrap()).unwrap();
    }
    zip.finish().unwrap();
    (dir, path.to_str().unwrap().to_owned())
}

/// ART-06.
#[test]
fn a_run_that_a_routine_put_into_its_own_is_none() {
    let (here, there) = worked();
    let (_dir, target) = staged(&here);
    let (first, second) = (here.runs()[0].clone(), here.runs()[1].clone());
    let inner = target.join(format!("runs/{first}/a"));
    for id in [&second, "2020010101010100-0"] {
        fs::create_dir_all(inner.join(id)).unwrap();
        for name in ["changes.diff", "result.json", "manifest.json"] {
            let forged = target.join(format!("runs/{first}/{name}"));
            fs::copy(forged, inner.join(id).join(name)).unwrap();
        }
    }
    let zip = target.with_extension("zip");
    archive(&target, &zip);
    let output = there.decree(["apply", "--from", zip.to_str().unwrap()]).ok();
    assert_eq!(output.text().lines().collect::<Vec<_>>(), [&first, &second]);
    there.decree(["apply", "--all", "--from", zip.to_str().unwrap()]).ok();
    let diff = |root: &Path| fs::read(root.join(format!("runs/{second}/changes.diff"))).unwrap();
    assert_eq!(diff(&there.path(".decree")), diff(&target));
}

/// ART-06.
#[test]
fn a_forged_artifact_changes_nothing() {
    let (here, there) = worked();
    let id = here.runs()[0].clone();
    let before = there.snapshot();
    let forge = |name: &str, content: Option<&[u8]>| {
        let (dir, target) = staged(&here);
        let path = target.join(format!("runs/{id}/{name}"));
        match content {
            Some(content) => fs::write(path, content).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        let output = there.decree(["apply", &id, "--from", target.to_str().unwrap()]);
        assert_ne!(output.code, 0, "{name}: {}", output.err);
        assert_same(&there.snapshot(), &before);
        assert!(!there.exists(format!(".decree/runs/{id}")), "{name}");
        assert!(there.names(".decree/runs").is_empty(), "{name}");
        drop(dir);
        output.err
    };
    let diff = here.read(format!(".decree/runs/{id}/changes.diff"));
    let outside = String::from_utf8_lossy(&diff).replace("notes.txt", "../notes.txt");
    forge("changes.diff", Some(outside.as_bytes()));
    forge("changes.diff", Some(&diff[..diff.len() / 2]));
    // Sound, but of another run.
    forge("changes.diff", Some(&here.read(format!(".decree/runs/{}/changes.diff", here.runs()[1]))));
    forge("result.json", Some(b"{}"));
    forge("result.json", Some(b"not json"));
    assert!(forge("changes.diff", None).contains("left-out.txt"));
}

/// ART-06.
#[test]
fn what_is_no_artifact_says_so() {
    let (_, there) = worked();
    there.write("plain.zip", "this is no archive");
    there.decree(["apply", "--from", "plain.zip"]).fails(3).mentions(&["plain.zip is not an artifact"]);
    there.decree(["apply", "--from", "nothing.zip"]).mentions(&["nothing.zip"]);
    there.mkdir("bare");
    there.decree(["apply", "--from", "bare"]).ok().mentions(&["no runs"]);
    there.decree(["apply", "--all"]).fails(2);
}

/// ART-06.
#[test]
fn links_in_a_directory_are_not_followed() {
    let (here, there) = worked();
    let (_dir, target) = staged(&here);
    let id = here.runs()[0].clone();
    symlink("/etc/passwd", target.join(format!("runs/{id}/passwd"))).unwrap();
    symlink("/etc", target.join(format!("runs/{id}/etc"))).unwrap();
    there.decree(["apply", &id, "--from", target.to_str().unwrap()]).ok();
    let names = there.names(&format!(".decree/runs/{id}"));
    assert!(!names.iter().any(|name| name == "passwd" || name == "etc"), "{names:?}");
}

/// ART-06.
#[test]
fn another_run_of_the_same_id_stays_what_it_is() {
    let (here, there) = worked();
    let id = here.runs()[0].clone();
    let (_dir, target) = staged(&here);
    there
        .write(format!(".decree/runs/{id}/changes.diff"), "")
        .write(format!(".decree/runs/{id}/result.json"), "{}");
    let before = there.snapshot();
    there.decree(["apply", &id, "--from", target.to_str().unwrap()]).fails(1).mentions(&["another run"]);
    assert_same(&there.snapshot(), &before);
    assert_eq!(there.read(format!(".decree/runs/{id}/result.json")), b"{}");
    assert_eq!(there.names(".decree/runs"), [id]);
}
