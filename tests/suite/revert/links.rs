//! Symbolic links: a link is its target, to the byte; nothing is ever done through one.

use super::round_trip;

/// REV-01, DIF-04.
#[test]
fn links_of_every_kind_are_made_and_deleted() {
    let links: [(&str, &[u8]); 7] = [
        ("to-file", b"file"),
        ("to-dir", b"dir"),
        ("dangling", b"no/such/thing"),
        ("absolute", b"/etc/passwd"),
        ("outside", b"../../outside"),
        ("to-itself", b"to-itself"),
        ("dir/up", b"../file"),
    ];
    let base = |p: &crate::harness::Project| {
        p.write("file", "x\n").write("dir/inside", "y\n");
    };
    let trip = round_trip(base, |p| {
        links.iter().for_each(|(name, target)| {
            p.link(name, target);
        });
    });
    assert_eq!(trip.diff_text().matches("new file mode 120000\n").count(), links.len());
    let trip = round_trip(
        |p| {
            base(p);
            links.iter().for_each(|(name, target)| {
                p.link(name, target);
            });
        },
        |p| {
            links.iter().for_each(|(name, _)| {
                p.remove(name);
            })
        },
    );
    assert_eq!(trip.diff_text().matches("deleted file mode 120000\n").count(), links.len());
}

#[test]
fn a_changed_target_comes_back() {
    round_trip(
        |p| {
            p.link("a", "old").link("b", "old/").link("c", "x".repeat(4095)).link("d", "same-length");
        },
        |p| {
            p.remove("a").link("a", "new").remove("b").link("b", "old").remove("c").link("c", "y");
            p.remove("d").link("d", "length-same");
        },
    );
}

#[test]
fn a_target_may_be_any_bytes() {
    let odd: [&[u8]; 6] = [
        b"two\nlines",
        b"ends in newline\n",
        b"\n",
        b"caf\xe9/\xff",
        b"--- a/x\n+++ b/x\n@@ -1 +1 @@",
        b"tab\tquote\"back\\slash",
    ];
    round_trip(
        |p| {
            for (n, target) in odd.iter().enumerate() {
                p.link(format!("deleted-{n}"), target).link(format!("changed-{n}"), target);
            }
        },
        |p| {
            for (n, target) in odd.iter().enumerate() {
                p.remove(format!("deleted-{n}")).link(format!("made-{n}"), target);
                p.remove(format!("changed-{n}")).link(format!("changed-{n}"), odd[(n + 1) % odd.len()]);
            }
        },
    );
}

/// REV-02.
///
/// The link's target and the file's content are the same bytes: only the type differs.
#[test]
fn files_and_links_take_each_others_place() {
    round_trip(
        |p| {
            p.write("file", "target").link("link", "target").write("run", "#!/bin/sh\n").chmod("run", 0o755);
            p.write("empty", "");
        },
        |p| {
            p.remove("file").link("file", "target").remove("link").write("link", "target");
            p.remove("run").link("run", "file").remove("empty").link("empty", "x");
        },
    );
}

#[test]
fn links_and_directories_take_each_others_place() {
    round_trip(
        |p| {
            p.link("to-dir", "dir")
                .write("dir/a", "a\n")
                .write("to-link/a", "b\n")
                .write("to-link/deep/b", "c\n");
            p.mkdir("empty-to-link").link("to-empty", "dir");
        },
        |p| {
            p.remove("to-dir").write("to-dir/a", "mine\n").write("to-dir/deep/c", "d\n");
            p.remove("to-link").link("to-link", "dir");
            p.remove("empty-to-link").link("empty-to-link", "dir").remove("to-empty").mkdir("to-empty");
        },
    );
}

/// A directory moved away and linked to reads as before through the link; decree must not look through it.
#[test]
fn a_directory_that_moved_and_left_a_link_comes_back_as_a_directory() {
    round_trip(
        |p| {
            p.write("src/a", "a\n").write("src/b", "b\n");
        },
        |p| {
            std::fs::rename(p.path("src"), p.path("moved")).unwrap();
            p.link("src", "moved");
        },
    );
}

/// DIF-08.
#[test]
fn what_a_link_leads_to_outside_is_never_touched() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("a"), "theirs\n").unwrap();
    let target = outside.path().to_str().unwrap().to_owned();
    round_trip(
        |p| {
            p.write("dir/a", "ours\n").write("dir/b", "ours\n");
        },
        |p| {
            p.remove("dir").link("dir", &target);
        },
    );
    assert_eq!(std::fs::read(outside.path().join("a")).unwrap(), b"theirs\n");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}
