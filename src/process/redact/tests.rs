use super::*;
use proptest::prelude::*;

fn redactor(secrets: &[&str]) -> Redactor {
    Redactor::new(secrets.iter().map(|secret| secret.as_bytes().to_vec()).collect())
}

fn stream(redactor: &mut Redactor, bytes: &[u8], size: usize) -> String {
    let mut out = Vec::new();
    for chunk in bytes.chunks(size) {
        redactor.push(chunk, &mut out);
    }
    redactor.flush(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn secrets_are_found_by_the_names_of_their_variables() {
    let redactor = Redactor::from_environment([
        ("A_TOKEN", "tok-123456"),
        ("b_key", "key-123456"),
        ("C_Secret", "sec-123456"),
        ("D_PASSWORD", "pass12"),
        ("PGPASSWORD", "postgres-1"),
        ("E_PASSWORD", "short"),
        ("F_TOKEN_FILE", "/a/file/name"),
        ("KEYS", "not-secret"),
        ("PEM_KEY", "-----BEGIN-----\nMIIEabcdefgh\nshort\n-----END-----\n"),
    ]);
    let text = "tok-123456 key-123456 sec-123456 pass12 postgres-1 short /a/file/name not-secret";
    assert_eq!(redactor.redact(text), "*** *** *** *** *** short /a/file/name not-secret");
    assert_eq!(redactor.redact("  MIIEabcdefgh\r\n  short"), "  ***\r\n  short");
    assert_eq!(redactor.redact("-----BEGIN-----\nMIIEabcdefgh\nshort\n-----END-----"), "***");
    assert!(matches!(redactor.redact("nothing here"), Cow::Borrowed(_)));
}

#[test]
fn a_secret_is_masked_in_json_too() {
    let redactor = Redactor::from_environment([("A_KEY", "pass\"wo\\rd\n12345678")]);
    assert_eq!(redactor.redact(r#"{"a":"pass\"wo\\rd\n12345678"}"#), r#"{"a":"***"}"#);
    assert_eq!(redactor.redact("pass\"wo\\rd"), "***");
    assert!(redactor.is_in(&br#"xx12345678"#[..]).unwrap());
    assert!(!redactor.is_in(&b"xx1234567"[..]).unwrap());
    let redactor = Redactor::from_environment([("A_KEY", "p\u{e4}ssw\u{1f511}rd")]);
    assert_eq!(redactor.redact("<p\\u00e4ssw\\ud83d\\udd11rd> <p\u{e4}ssw\u{1f511}rd>"), "<***> <***>");
}

#[test]
fn a_token_is_masked_in_git_config_too() {
    let redactor = Redactor::from_environment([("GITHUB_TOKEN", "ghs_0123456789")]);
    let setting =
        "http.https://github.com/.extraheader=AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46Z2hzXzAxMjM0NTY3ODk=";
    assert_eq!(redactor.redact(setting), "http.https://github.com/.extraheader=AUTHORIZATION: basic ***");
}

#[test]
fn a_secret_split_across_chunks_is_masked() {
    let text = b"before hunter22 between hunter22hunter22 hunter2 after";
    for size in 1..=text.len() {
        let out = stream(&mut redactor(&["hunter22"]), text, size);
        assert_eq!(out, "before *** between ****** hunter2 after", "by {size}");
    }
}

#[test]
fn overlapping_secrets_are_masked_completely() {
    for size in 1..30 {
        let mut found = redactor(&["abcdef", "abcdefghi", "efghijkl", "aaaaaa"]);
        assert_eq!(stream(&mut found, b"<abcdefghi>", size), "<***>");
        assert_eq!(stream(&mut found, b"<abcdefgh>", size), "<***gh>");
        assert_eq!(stream(&mut found, b"<abcdefghijkl>", size), "<***>");
        assert_eq!(stream(&mut found, b"<aaaaaaaaaaaaaaa>", size), "<***>");
        assert_eq!(stream(&mut found, b"<aaaaabcdef>", size), "<aaaa***>");
    }
}

#[test]
fn what_cannot_be_a_secret_is_not_held_back() {
    let mut redactor = redactor(&["hunter22", &"x".repeat(4000)]);
    let mut out = Vec::new();
    redactor.push(b"Continue? [y/n] ", &mut out);
    assert_eq!(out, b"Continue? [y/n] ");
    redactor.push(b"hunt", &mut out);
    assert_eq!(out.len(), 16);
    redactor.push(b"ing", &mut out);
    assert_eq!(&out[16..], b"hunting");
}

#[test]
fn what_is_not_seen_does_not_split_a_secret() {
    for split in
        ["\0", "\x08\x08", "\x1b[1;31m", "\x1b]0;a title\x07", "\x1b(B", "\r", "\u{85}", "\x1b[\x1b[0m"]
    {
        let text = format!("<hunt{split}er{split}22> hunt{split}ing");
        for size in 1..=text.len() {
            let out = stream(&mut redactor(&["hunter22"]), text.as_bytes(), size);
            assert_eq!(out, format!("<***> hunt{split}ing"), "{split:?} by {size}");
        }
        assert_eq!(redactor(&["hunter22"]).redact(&text), format!("<***> hunt{split}ing"));
        assert!(redactor(&["hunter22"]).is_in(text.as_bytes()).unwrap(), "{split:?}");
    }
    // In the title itself it is a secret, too.
    assert_eq!(redactor(&["hunter22"]).redact("\x1b]0;hunter22\x07x"), "\x1b]0;***\x07x");
}

#[test]
fn a_secret_is_masked_however_much_splits_it() {
    for (between, left) in [("\0", "\0"), ("\x1b[m", "\x1b[m")] {
        let mut redactor = redactor(&["hunter22"]);
        let (mut out, between) = (Vec::new(), between.repeat(1000));
        redactor.push(b"<hunt", &mut out);
        for _ in 0..500 {
            redactor.push(between.as_bytes(), &mut out);
            assert!(redactor.held.len() <= 8 + MAX_INVISIBLE);
        }
        redactor.push(b"er22>", &mut out);
        redactor.flush(&mut out);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out.replace(left, ""), "<***>");
    }
}

#[test]
fn memory_is_bounded_by_the_longest_secret() {
    let mut redactor = redactor(&["aaaaaaaa", "aaaaaaab"]);
    let mut out = Vec::new();
    for _ in 0..1000 {
        redactor.push(&[b'a'; 100], &mut out);
        assert!(redactor.held.len() < 8);
    }
    assert_eq!(out, b"***");
}

#[test]
fn without_secrets_everything_passes() {
    assert_eq!(stream(&mut redactor(&[]), b"anything", 3), "anything");
}

proptest! {
    /// The result does not depend on where the stream is split, and equals hiding every byte of every secret.
    #[test]
    fn chunk_sizes_make_no_difference(
        secrets in prop::collection::btree_set("[ab]{6,9}", 1..5),
        text in "[abc]{0,80}",
        size in 1..20usize,
    ) {
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let out = stream(&mut redactor(&secrets), text.as_bytes(), size);
        let mut hidden = vec![false; text.len()];
        for start in 0..text.len() {
            for secret in &secrets {
                if text[start..].starts_with(secret) {
                    hidden[start..start + secret.len()].fill(true);
                }
            }
        }
        let shown: String = text.chars().zip(&hidden).filter(|(_, hidden)| !**hidden).map(|(c, _)| c).collect();
        prop_assert_eq!(out.replace('*', ""), shown);
        prop_assert_eq!(redactor(&secrets).redact(&text).into_owned(), out);
    }

    /// Once the bytes that are not seen are gone, no secret is there, and nothing else is missing.
    #[test]
    fn stripping_shows_no_secret(
        secrets in prop::collection::btree_set("[ab]{6,7}", 1..4),
        parts in prop::collection::vec("[abc]{0,9}|\0|\x1b\\[0m|\x1b\\(B|\x1b\\]t\x07|\r|\u{85}|\n|\x1b", 0..40),
        size in 1..20usize,
    ) {
        let (secrets, text) = (secrets.iter().map(String::as_str).collect::<Vec<_>>(), parts.concat());
        let out = stream(&mut redactor(&secrets), text.as_bytes(), size);
        let seen = crate::sanitize::strip_controls(&out);
        prop_assert!(!secrets.iter().any(|secret| seen.contains(secret)), "{text:?} became {out:?}");
        prop_assert_eq!(redactor(&secrets).redact(&text).into_owned(), out);
    }
}
