//! Text: bytes are kept as they are, with any line ending or none.

use super::{CompletedRoundTrip, round_trip};

/// `(name, before, after)`; nothing means that there is no such file.
type Case<'c> = (&'c str, Option<&'c [u8]>, Option<&'c [u8]>);

#[track_caller]
fn changed(cases: &[Case<'_>]) -> CompletedRoundTrip {
    round_trip(
        |p| {
            for (name, before, _) in cases {
                before.map(|bytes| p.write(name, bytes));
            }
        },
        |p| {
            for (name, _, after) in cases {
                match after {
                    Some(bytes) => p.write(name, bytes),
                    None => p.remove(name),
                };
            }
        },
    )
}

#[track_caller]
fn rewritten(cases: &[(&str, &[u8], &[u8])]) -> CompletedRoundTrip {
    let cases: Vec<Case<'_>> = cases.iter().map(|(name, a, b)| (*name, Some(*a), Some(*b))).collect();
    changed(&cases)
}

/// DIF-02.
#[test]
fn crlf_line_ends_stay_what_they_are() {
    rewritten(&[
        ("edited", b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        ("to-unix", b"a\r\nb\r\n", b"a\nb\n"),
        ("to-dos", b"a\nb\n", b"a\r\nb\r\n"),
        ("mixed", b"a\r\nb\nc\r\n", b"a\nb\r\nc\r\n"),
        ("no-end", b"a\r\nb\r\n", b"a\r\nb\r"),
    ]);
}

/// DIF-02.
#[test]
fn a_lone_carriage_return_ends_no_line() {
    rewritten(&[
        ("mac", b"a\rb\rc\r", b"a\rB\rc\r"),
        ("only", b"\r", b"\r\r"),
        ("inside", b"one\rtwo\nthree\n", b"one\rTWO\nthree\n"),
    ]);
}

/// DIF-02.
#[test]
fn a_final_newline_is_gained_and_lost() {
    rewritten(&[
        ("gained", b"a\nb", b"a\nb\n"),
        ("lost", b"a\nb\n", b"a\nb"),
        ("never", b"a\nb", b"A\nb"),
        ("never-last", b"a\nb", b"a\nB"),
        ("doubled", b"a\n", b"a\n\n"),
        ("only-newline", b"\n", b"\n\n\n"),
        ("longer", b"a", b"a\nb"),
    ]);
}

/// DIF-02.
#[test]
fn bytes_that_are_not_utf8_survive() {
    let every_byte: Vec<u8> = (1..=255).collect();
    let reversed: Vec<u8> = (1..=255).rev().collect();
    rewritten(&[
        ("latin-1", b"caf\xe9\nna\xefve\n", b"caf\xe9s\nna\xefve\n"),
        ("invalid", b"\xff\xfe\n\xc3\x28\n", b"\xff\xfe\n\xc3\x29\n"),
        ("utf-8-to-latin-1", "café\n".as_bytes(), b"caf\xe9\n"),
        ("bom", b"\xef\xbb\xbfa\n", b"a\n"),
        ("every-byte", &every_byte, &reversed),
    ]);
}

/// DIF-04.
#[test]
fn empty_files_are_made_removed_filled_and_emptied() {
    let trip = changed(&[
        ("made", None, Some(b"")),
        ("removed", Some(b""), None),
        ("filled", Some(b""), Some(b"content\n")),
        ("filled-without-newline", Some(b""), Some(b"x")),
        ("emptied", Some(b"content\n"), Some(b"")),
        ("emptied-without-newline", Some(b"x"), Some(b"")),
    ]);
    for name in ["made", "removed", "filled", "emptied"] {
        assert!(trip.diff_text().contains(&format!("diff --git a/{name} b/{name}\n")), "{name}");
    }
}

#[test]
fn files_come_and_go_with_every_kind_of_end() {
    changed(&[
        ("made", None, Some(b"a\nb\n")),
        ("made-open", None, Some(b"a\nb")),
        ("removed", Some(b"a\nb\n"), None),
        ("removed-open", Some(b"a\r\nb"), None),
        ("deep/down/made", None, Some(b"x\n")),
    ]);
}

/// What is inside a hunk must never be taken for the diff's own structure.
#[test]
fn contents_that_look_like_a_diff_are_only_contents() {
    const TRAPS: &str = "\
--- a/x
+++ b/x
@@ -1 +1 @@
-a
+b
 c
\\ No newline at end of file
diff --git a/x b/x
old mode 100644
GIT binary patch
# decree-diff 1
# decree-file \"x\" old=- new=- size=-:- mode=-:-
# decree-binary \"x\" old=- new=- size=-:- mode=-:-
# old
# new
# end
# decree-end changes=0 sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
";
    let doubled = TRAPS.replace('\n', "\n\n");
    let signed: String =
        TRAPS.lines().flat_map(|line| ["-", "+", " ", "\\"].map(|s| format!("{s}{line}\n"))).collect();
    changed(&[
        ("made", None, Some(TRAPS.as_bytes())),
        ("removed", Some(TRAPS.as_bytes()), None),
        ("doubled", Some(TRAPS.as_bytes()), Some(doubled.as_bytes())),
        ("signed", Some(signed.as_bytes()), Some(TRAPS.as_bytes())),
        ("open", Some(TRAPS.trim_end().as_bytes()), Some(TRAPS.as_bytes())),
    ]);
}

#[test]
fn separate_changes_in_a_file_are_separate_hunks() {
    let line = |n: usize| format!("line number {n}\n");
    let before: String = (0..3000).map(line).collect();
    let after: String = (0..3000)
        .flat_map(|n| match n % 97 {
            0 => vec![format!("changed {n}\n")],
            13 => vec![],
            50 => vec![line(n), "inserted\n".to_owned()],
            _ => vec![line(n)],
        })
        .collect();
    let trip = rewritten(&[("edited", before.as_bytes(), after.as_bytes())]);
    let hunks = trip.diff_text().matches("\n@@ -").count();
    assert!(hunks > 60, "{hunks} hunks");
}

#[test]
fn lines_of_half_a_megabyte_are_lines_like_others() {
    let long = |middle: &str| format!("start\n{}{middle}{}\nend\n", "x".repeat(200_000), "y".repeat(200_000));
    let open = |end: &str| format!("{}{end}", "z".repeat(400_000));
    rewritten(&[
        ("changed", long("a").as_bytes(), long("b").as_bytes()),
        ("open", open("1").as_bytes(), open("22").as_bytes()),
        ("split", open("").as_bytes(), open("\nnew").as_bytes()),
    ]);
}

/// Beyond 200,000 lines a side is not compared in memory any more.
#[test]
fn files_of_very_many_lines_come_back() {
    let before: String = (0..210_000).map(|n| format!("{n}\n")).collect();
    let one_line = before.replacen("\n105000\n", "\nchanged\n", 1);
    let all_lines: String = (0..210_000).map(|n| format!("+{n}\n")).collect();
    rewritten(&[
        ("one-line", before.as_bytes(), one_line.as_bytes()),
        ("all-lines", before.as_bytes(), all_lines.trim_end().as_bytes()),
    ]);
}
