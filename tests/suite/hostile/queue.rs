//! An inbox with arbitrary files, and routines that write to it without end.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use super::{dead, done, inbox, only_dead, process, project, summary, tracker, tree, verdicts};
use crate::harness::{Project, assert_same};

/// A project without specs.
fn idle(routine: &str) -> Project {
    let project = project(routine);
    project.remove("specs/01-work.spec.md");
    project
}

const WORK: &str = "echo \"$message_id\" >> work\n";

#[test]
fn what_is_no_message_stays_where_it_is_and_is_not_waited_for() {
    let project = idle(WORK);
    project.mkdir(".decree/inbox/dir.md").link(".decree/inbox/link.md", "/etc/passwd");
    project.link(".decree/inbox/dangling.md", "nowhere").write(".decree/inbox/notes.txt", "x");
    let made = Command::new("mkfifo").arg(project.path(".decree/inbox/fifo.md")).status().unwrap();
    assert!(made.success());
    project.write(".decree/inbox/good.md", "work\n");
    process(&project).ok();
    assert_eq!(done(&project).len(), 1);
    for name in ["dir.md", "link.md", "dangling.md", "notes.txt", "fifo.md"] {
        assert!(project.exists(format!(".decree/inbox/{name}")), "{name}");
    }
}

#[test]
fn a_message_of_any_name_is_carried_out() {
    let project = idle(WORK);
    project.mkdir(".decree/inbox");
    let names: [&[u8]; 4] = [b"\xff\xfe.md", b"a b\"'$(touch pwned).md", b"new\nline.md", b"-rf.md"];
    for name in names {
        fs::write(project.path([b".decree/inbox/", name].concat()), "work\n").unwrap();
    }
    process(&project).ok();
    assert_eq!(project.read("work").iter().filter(|byte| **byte == b'\n').count(), names.len());
    assert!(!project.exists("pwned") && inbox(&project).is_empty());
    for name in names {
        assert!(project.path(".decree/inbox/done").join(OsStr::from_bytes(name)).is_file(), "{name:?}");
    }
}

#[test]
fn a_message_that_is_too_long_is_a_dead_letter_and_costs_no_memory() {
    let project = idle(WORK);
    project.mkdir(".decree/inbox");
    // Takes no room on the disk, and all of the memory.
    File::create(project.path(".decree/inbox/huge.md")).unwrap().set_len(1 << 42).unwrap();
    project.write(".decree/inbox/small.md", "work\n");
    process(&project).fails(1).mentions(&["huge", "16 MiB"]);
    assert_eq!(
        fs::metadata(project.path(".decree/inbox/dead/huge.md")).unwrap().len(),
        1 << 42,
        "nothing is lost"
    );
    assert!(done(&project).contains_key("small.md"));
    project.decree(["status"]).ok();
    fs::remove_file(project.path(".decree/inbox/dead/huge.md")).unwrap();
}

#[test]
fn a_message_that_cannot_be_read_does_not_keep_the_others_waiting() {
    if !crate::harness::skip::as_root() {
        return;
    }
    let project = idle(WORK);
    project.write(".decree/inbox/closed.md", "x\n").chmod(".decree/inbox/closed.md", 0o000);
    project.write(".decree/inbox/open.md", "x\n");
    crate::revert::hand_over(project.root());
    crate::revert::as_nobody(&project, &["process"]).fails(1).mentions(&["closed", "Permission denied"]);
    assert!(done(&project).contains_key("open.md"));
    assert_eq!(dead(&project)["closed.md"], "x\n");
}

#[test]
fn a_message_with_broken_front_matter_is_kept_whole_and_can_be_repaired() {
    for broken in
        ["---\nroutine: [develop\n---\nDo it.\n", "---\nnever closed\nDo it.\n", "---\nid: 12\n---\nDo it.\n"]
    {
        let project = idle(WORK);
        project.write(".decree/inbox/broken.md", broken);
        let before = project.snapshot();
        process(&project).fails(1).mentions(&["BadMessage"]);
        assert_same(&project.snapshot(), &before);
        let letter = only_dead(&project);
        assert!(letter.contains("BadMessage: ") && letter.ends_with("Do it.\n"), "{letter}");
        if !broken.contains("id: 12") {
            assert!(letter.ends_with(broken), "{letter}");
        }
        // As it is, it dies again, once, and is not wrapped twice.
        project.decree(["retry", "broken"]).ok();
        process(&project).fails(1);
        assert_eq!(only_dead(&project).matches("BadMessage").count(), 1, "{}", only_dead(&project));
        // Once repaired, it works.
        let repaired = letter
            .replace("[develop", "develop")
            .replace("never closed", "routine: develop\n---")
            .replace("id: 12\n", "");
        project.write(".decree/inbox/dead/broken.md", repaired);
        project.decree(["retry", "broken"]).ok();
        process(&project).ok();
        assert!(project.exists("work") && dead(&project).is_empty());
        let text = &done(&project)["broken.md"];
        assert!(text.ends_with("Do it.\n") && !text.contains("error:"), "{text}");
    }
}

#[test]
fn a_message_that_is_not_text_is_kept_byte_for_byte() {
    let project = idle(WORK);
    project.write(".decree/inbox/bytes.md", b"---\nroutine: \xff\n---\n\0\xfe");
    process(&project).fails(1).mentions(&["BadMessage", "UTF-8"]);
    assert!(project.read(".decree/inbox/dead/bytes.md").ends_with(b"---\nroutine: \xff\n---\n\0\xfe"));
}

#[test]
fn an_input_file_cannot_lead_out_of_the_project() {
    let outside = crate::harness::temp_dir();
    let secret = outside.path().join("secret.spec.md");
    fs::write(&secret, "---\nverify: touch pwned\n---\nsecret\n").unwrap();
    fs::write(outside.path().join("secret.txt"), "secret\n").unwrap();
    let folder = outside.path().file_name().unwrap().to_str().unwrap();
    for (input, link) in [
        (format!("../{folder}/secret.spec.md"), false),
        (format!("../{folder}/secret.txt"), false),
        (secret.display().to_string(), false),
        ("inside.spec.md".to_owned(), true),
        ("src/../../nothing.txt".to_owned(), false),
    ] {
        let project = idle("cat \"$input_file\" > stolen\n");
        if link {
            project.link("inside.spec.md", secret.to_str().unwrap());
        }
        project.write(".decree/inbox/a.md", format!("---\nroutine: develop\ninput_file: {input}\n---\n"));
        process(&project).fails(1).mentions(&["is not in the project"]);
        assert!(!project.exists("stolen") && !project.exists("pwned"), "{input}");
        assert_eq!(dead(&project).len(), 1);
    }
}

/// Writes follow-ups of its own chain.
fn write_follow_ups(each: &str) -> String {
    format!("if [ $seq = 0 ]; then {each}; fi\necho $seq >> seen\n")
}

#[test]
fn a_thousand_follow_ups_end_at_the_depth_that_is_allowed() {
    let project =
        project(&write_follow_ups("for i in {1..1000}; do echo more > .decree/inbox/$chain-$i.md; done"));
    process(&project).fails(1).mentions(&["MaxDepthExceeded"]);
    let seen = String::from_utf8(project.read("seen")).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert_eq!((dead(&project).len(), inbox(&project).len()), (991, 0));
    assert_eq!(tracker(&project), ["01-work.spec.md"]);
}

#[test]
fn a_chain_that_never_ends_does() {
    // Each asks for the next: by its number, by claiming to be the first, by claiming to be itself.
    for follow_up in [
        "echo more > .decree/inbox/$chain-$((seq + 1)).md",
        "printf -- \"---\\nid: $chain-0\\n---\\n\" > .decree/inbox/again-$seq.md",
        "printf -- \"---\\nid: $message_id\\n---\\n\" > .decree/inbox/self-$seq.md",
    ] {
        let project =
            project(&format!("echo $seq >> seen; [ $(wc -l < seen) -gt 30 ] && exit 1\n{follow_up}\n"));
        process(&project).fails(1).mentions(&["MaxDepthExceeded"]);
        let seen = String::from_utf8(project.read("seen")).unwrap();
        assert_eq!(seen.lines().count(), 10, "{follow_up}: {seen}");
        assert_eq!(dead(&project).len(), 1, "{follow_up}");
        // Every run has a directory of its own, and none took another's.
        let runs = fs::read_dir(project.path(".decree/runs")).unwrap();
        for run in runs.map(|entry| entry.unwrap().path()) {
            assert!(!run.join("previous").exists(), "{follow_up}: {}", run.display());
        }
    }
}

#[test]
fn a_follow_up_with_a_huge_number_is_too_deep() {
    for seq in ["10", "4294967295", "4294967296", "99999999999999999999999"] {
        let project = project(&write_follow_ups(&format!("echo x > .decree/inbox/$chain-{seq}.md")));
        process(&project).fails(1).mentions(&["MaxDepthExceeded"]);
        assert_eq!((project.read("seen"), dead(&project).len()), (b"0\n".to_vec(), 1), "{seq}");
        assert_eq!(tracker(&project), ["01-work.spec.md"]);
    }
}

#[test]
fn a_follow_up_with_another_chains_id_does_not_take_that_chains_place() {
    let project = project("echo $message_id >> seen\n");
    process(&project).ok();
    let first = String::from_utf8(project.read("seen")).unwrap().trim().to_owned();
    let diff = project.read(format!(".decree/runs/{first}/changes.diff"));
    project.write("specs/02-more.spec.md", "---\nroutine: forger\n---\n");
    project.write(
        ".decree/routines/forger.sh",
        format!("printf -- '---\\nid: {first}\\nroutine: develop\\n---\\n' > .decree/inbox/forged.md\n"),
    );
    process(&project).ok();
    process(&project).ok();
    assert_eq!(project.read(format!(".decree/runs/{first}/changes.diff")), diff);
    assert!(!project.exists(format!(".decree/runs/{first}/previous")));
    let seen = String::from_utf8(project.read("seen")).unwrap();
    let second = first.replace("-0", "-1");
    assert_eq!(seen, format!("{first}\n{second}\n"), "it follows in the chain that it names");
}

#[test]
fn what_a_failed_run_asked_for_is_not_done() {
    let project = project(
        "echo more > .decree/inbox/$chain-1.md; printf -- \"---\\nchain: $chain\\nseq: 2\\n---\\n\" > .decree/inbox/other.md; exit 1\n",
    );
    project
        .write(".decree/inbox/waiting.md", "---\nroutine: good\n---\n")
        .write(".decree/routines/good.sh", "echo x > good\n");
    let mut expected = tree(&project);
    process(&project).fails(1);
    let mut found = tree(&project);
    assert!(found.remove(&b"good"[..]).is_some());
    expected.remove(&b"good"[..]);
    assert_same(&found, &expected);
    assert_eq!(verdicts(&project), ["success", "failed-reverted"]);
    assert_eq!((inbox(&project).len(), dead(&project).len()), (0, 1));
    let run = summary(&project)["messages"][1]["run_dir"].as_str().unwrap().to_owned();
    let letter = |text: &str| text.contains("seq: 2") || text == "more\n";
    let kept = super::letters(&project, &format!("{run}/attempts/1/follow-ups"));
    assert!(kept.len() == 2 && kept.values().all(|text| letter(text)), "{kept:?}");
}
