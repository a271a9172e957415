//! Binary content: the diff holds both sides, so it can be applied and reverted alone.

use super::round_trip;

/// Bytes that do not compress, the same every time.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// DIF-03.
#[test]
fn binary_files_are_made_changed_and_deleted() {
    let trip = round_trip(
        |p| {
            p.write("changed", b"\0one").write("deleted", b"\x7fELF\0\x01").write("text", "a\n");
        },
        |p| {
            p.write("changed", b"\0two").remove("deleted").write("new", noise(1000, 1)).write("text", "b\n");
        },
    );
    let text = trip.diff_text();
    for name in ["changed", "deleted", "new"] {
        assert!(text.contains(&format!("# decree-binary \"{name}\" ")), "{name}");
        assert!(!text.contains(&format!("diff --git a/{name}")), "{name}");
    }
    assert!(text.contains("diff --git a/text b/text\n"));
    let longest = text.lines().filter(|line| !line.starts_with("# decree-")).map(str::len).max();
    assert_eq!(longest, Some("# ".len() + 76));
}

#[test]
fn text_becomes_binary_and_binary_text() {
    round_trip(
        |p| {
            p.write("to-binary", "text\n").write("to-text", b"a\0b").write("empty-to-binary", "");
            p.write("binary-to-empty", b"\0").chmod("to-text", 0o755);
        },
        |p| {
            p.write("to-binary", b"te\0xt\n").write("to-text", "plain\n").write("empty-to-binary", b"\0");
            p.write("binary-to-empty", "").chmod("to-binary", 0o700);
        },
    );
}

/// git's rule: only the first 8,000 bytes decide.
#[test]
fn a_nul_after_byte_8000_leaves_a_file_text() {
    let with_nul = |at: usize, end: &str| {
        let mut bytes = vec![b'x'; at];
        bytes.push(0);
        bytes.extend(end.as_bytes());
        bytes
    };
    let trip = round_trip(
        |p| {
            p.write("text", with_nul(8000, "a\n")).write("binary", with_nul(7999, "a\n"));
            p.write("lines", [&b"line\n".repeat(2000)[..], b"\0\0\n\0"].concat());
        },
        |p| {
            p.write("text", with_nul(8000, "b\n")).write("binary", with_nul(7999, "b\n"));
            p.write("lines", [&b"line\n".repeat(2000)[..], b"\0\n\0\0"].concat());
        },
    );
    let text = trip.diff_text();
    assert!(text.contains("diff --git a/text b/text\n"));
    assert!(text.contains("diff --git a/lines b/lines\n"));
    assert!(text.contains("# decree-binary \"binary\" "));
}

#[test]
fn contents_at_the_borders_of_base64_lines_come_back() {
    const SIZES: [usize; 12] = [1, 2, 3, 4, 56, 57, 58, 113, 114, 115, 171, 58_368];
    let content = |size: usize, seed: u8| {
        let mut bytes = vec![seed; size];
        bytes[0] = 0;
        bytes
    };
    round_trip(
        |p| {
            for size in SIZES {
                p.write(format!("deleted-{size}"), content(size, 1));
                p.write(format!("grown-{size}"), content(size, 2));
            }
        },
        |p| {
            for size in SIZES {
                p.remove(format!("deleted-{size}"));
                p.write(format!("made-{size}"), content(size, 3));
                p.write(format!("grown-{size}"), content(size + 1, 4));
            }
        },
    );
}

#[test]
fn a_binary_file_changes_its_mode_with_or_without_its_content() {
    let trip = round_trip(
        |p| {
            p.write("both", b"\0a").chmod("both", 0o755).write("mode", b"\0a").chmod("mode", 0o4711);
        },
        |p| {
            p.write("both", b"\0b").chmod("both", 0o600).chmod("mode", 0o644);
        },
    );
    assert!(!trip.diff_text().contains("# decree-binary \"mode\""), "a mode alone needs no content");
}

#[test]
fn binary_files_and_links_take_each_others_place() {
    round_trip(
        |p| {
            p.write("to-link", b"\0binary").link("to-file", "nowhere");
        },
        |p| {
            p.remove("to-link").link("to-link", "somewhere").remove("to-file").write("to-file", b"bin\0ary");
        },
    );
}

/// Beyond 4 MiB a side is streamed.
#[test]
fn a_binary_file_that_outgrows_memory_comes_back() {
    const SIZE: usize = 4 * 1024 * 1024;
    round_trip(
        |p| {
            p.write("grown", b"\0small");
        },
        |p| {
            p.write("grown", noise(SIZE + 10, 1));
        },
    );
}

/// The sizes at which reading and storing change their ways: a frame, and what is read at once.
#[test]
fn contents_at_the_borders_of_the_stores_frames_come_back() {
    const BORDERS: [usize; 3] = [512 * 1024, 1024 * 1024, 1536 * 1024];
    let sizes: Vec<usize> = BORDERS.into_iter().flat_map(|border| [border - 1, border, border + 1]).collect();
    round_trip(
        |p| {
            for size in &sizes {
                p.write(size.to_string(), noise(*size, 3));
            }
        },
        |p| {
            for size in &sizes {
                p.write(size.to_string(), b"\0");
            }
        },
    );
}
