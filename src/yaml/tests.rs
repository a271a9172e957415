use super::parse::MAX_TEXT;
use super::*;

fn entries(node: &YamlNode) -> &[(YamlNode, YamlNode)] {
    match &node.value {
        YamlValue::Map(entries) => entries,
        other => panic!("{other:?}"),
    }
}

fn lines(text: &str) -> Vec<(String, usize, usize)> {
    let root = parse(text).unwrap();
    entries(&root).iter().map(|(key, value)| (key.describe(), key.line, value.line)).collect()
}

#[test]
fn every_node_knows_its_line() {
    let text = "# a comment\n\na: 1\nb:\n  - x\n  - y\nc: {d: 1,\n    e: [2,\n  3]}\n\"f\": >\n  folded\n  text\n? g\n: h\n";
    let found = lines(text);
    let expected = [("'a'", 3, 3), ("'b'", 4, 5), ("'c'", 7, 7), ("'f'", 10, 10), ("'g'", 13, 14)]
        .map(|(k, a, b)| (k.to_owned(), a, b));
    assert_eq!(found, expected);
    let root = parse(text).unwrap();
    let inner = entries(&entries(&root)[2].1);
    assert_eq!(inner[1].0.line, 8);
}

#[test]
fn scalars_keep_the_text_of_the_file() {
    let text = "[1.10, 0x1F, True, '7', 2025022514320000, 1e3, ~, yes, 007, 99999999999999999999999]";
    let YamlValue::List(items) = parse(text).unwrap().value else { panic!() };
    let shown: Vec<String> = items.iter().map(YamlNode::describe).collect();
    assert_eq!(
        shown,
        [
            "'1.10'",
            "'0x1F'",
            "'True'",
            "'7'",
            "'2025022514320000'",
            "'1e3'",
            "nothing",
            "'yes'",
            "'007'",
            "'99999999999999999999999'"
        ]
    );
    let kind = |i: usize| match items[i].value {
        YamlValue::Scalar(kind, _) => kind,
        _ => panic!(),
    };
    assert_eq!(
        (kind(0), kind(2), kind(3), kind(7)),
        (ScalarKind::Number, ScalarKind::Bool, ScalarKind::Text, ScalarKind::Text)
    );
}

#[test]
fn nothing_is_null() {
    for text in ["", "\n", "# only this\n", "---\n", "~", "null\n"] {
        assert!(matches!(parse(text).unwrap().value, YamlValue::Null), "{text:?}");
    }
}

#[test]
fn broken_yaml_is_reported_with_its_line() {
    let tabs = parse("a:\n\tb: 1\n").unwrap_err();
    assert_eq!((tabs.line, tabs.hint.as_deref()), (2, Some("YAML is indented with spaces, not with tabs")));
    for (text, line) in [("a: 1\nb: [1,\nc: 2\n", 2), ("a: 1\n b: 2\n", 2), ("a: *x\n", 1), ("a: 'x\n\n", 1)]
    {
        let mistake = parse(text).unwrap_err();
        assert_eq!(mistake.line, line, "{text:?}: {mistake:?}");
        assert!(mistake.message.starts_with("not valid YAML: "), "{mistake:?}");
    }
    assert!(parse("a: !secret b\n").unwrap_err().message.contains("tags"));
    assert!(parse("a: 1\n---\nb: 1\n").is_err());
}

#[test]
fn a_block_scalar_begins_at_its_indicator() {
    for text in [
        "x: 1\nkey: |\n\n\n  text\n",
        "x: 1\nkey: >-\n",
        "x: 1\nkey: |\nnext: 1\n",
        "x: 1\nkey: | # why\n  text",
    ] {
        assert_eq!(lines(text)[1], ("'key'".into(), 2, 2), "{text:?}");
    }
}

/// Ten entries that each repeat the one before ten times, and so on: 10^12 nodes in a kilobyte.
fn billion_laughs() -> String {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for i in 1..12 {
        let before = vec![format!("*a{}", i - 1); 10].join(",");
        text.push_str(&format!("a{i}: &a{i} [{before}]\n"));
    }
    text
}

#[test]
fn aliases_cannot_fill_the_memory() {
    let wide = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(50_000), "*a,".repeat(50_000));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), "*a,".repeat(50_000));
    for text in [billion_laughs(), wide, long] {
        let mistake = parse(&text).unwrap_err();
        assert!(mistake.message.contains("aliases expand"), "{mistake:?}");
    }
    let nested_anchors: String = (0..120).map(|i| format!("&a{i} [")).collect();
    let filler = format!("{}{}{}", nested_anchors, "x,".repeat(100_000), "]".repeat(120));
    assert!(parse(&filler).unwrap_err().message.contains("aliases expand"));
    assert!(parse("a: &a [*a]\n").unwrap_err().message.contains("own anchor"));
    assert_eq!(parse("a: &a [1, x]\nb: *a\n").unwrap(), parse("a: [1, x]\nb: [1, x]\n").unwrap());
}

#[test]
fn deep_nesting_is_rejected_at_once() {
    for open in ["[", "{a: ", "- ", "? ", "[{a: ", "&a [", "- - - ? - "] {
        for count in [300, 100_000] {
            let mistake = parse(&open.repeat(count)).unwrap_err();
            assert!(mistake.message.contains("nested too deeply"), "{open:?} {count}: {mistake:?}");
        }
    }
    let indented: String = (0..300).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(parse(&indented).unwrap_err().message.contains("nested too deeply"));
    assert_eq!(parse(&format!("a: 1\nb: {}", "{a: ".repeat(300))).unwrap_err().line, 2);
    // Each anchor adds a level to the one before.
    let chain: String = (1..130).map(|i| format!("- &a{i} [*a{}]\n", i - 1)).collect();
    let mistake = parse(&format!("- &a0 x\n{chain}")).unwrap_err();
    assert!(mistake.message.contains("nested too deeply"), "{mistake:?}");
    let closed = |depth: usize| format!("{}x{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&closed(128)).is_ok());
    assert!(parse(&closed(129)).unwrap_err().message.contains("nested too deeply"));
}

#[test]
fn a_long_text_is_read_in_linear_time_up_to_the_limit() {
    let long = "x".repeat(MAX_TEXT - 10);
    assert_eq!(entries(&parse(&format!("a: {long}")).unwrap())[0].1.value.as_text(), Some(long.as_str()));
    let many: String = (0..50_000).map(|i| format!("- k{i}: v\n")).collect();
    assert!(matches!(parse(&many).unwrap().value, YamlValue::List(items) if items.len() == 50_000));
    assert!(parse(&"x".repeat(MAX_TEXT + 1)).unwrap_err().message.contains("1024 KiB"));
}

#[test]
fn tabs_as_indentation_are_reported_where_they_are() {
    for (text, line) in
        [("\tx: 1\n", 1), ("a:\n  \tb: 1\n", 2), ("a: 1\n\n\tb: 1\n", 3), ("- a\n-\n\t- b\n", 3)]
    {
        let mistake = parse(text).unwrap_err();
        assert_eq!((mistake.line, mistake.hint.is_some()), (line, true), "{text:?}: {mistake:?}");
    }
}

#[test]
fn a_core_tag_sets_the_type_and_must_fit() {
    let scalar = |text: &str| parse(text).unwrap().value;
    assert_eq!(scalar("!!str 1"), YamlValue::Scalar(ScalarKind::Text, "1".into()));
    assert_eq!(scalar("!!int '1'"), YamlValue::Scalar(ScalarKind::Number, "1".into()));
    assert_eq!(parse("a: !!bool x").unwrap_err().message, "not valid YAML: 'x' is not of the type `!!bool`");
}

mod written {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = YamlValue> {
        let text = "(?s).{0,12}|[ \n:#'\"a-]{0,8}|[0-9._eExXo+-]{1,6}|true|null|~|yes|[a-z]{129}"
            .prop_map(|text| YamlValue::Scalar(ScalarKind::Text, text));
        let literal = "0|-?[1-9][0-9]{0,5}".prop_map(|text| YamlValue::Scalar(ScalarKind::Number, text));
        let leaf = prop_oneof![Just(YamlValue::Null), literal, text];
        leaf.prop_recursive(4, 20, 4, |inner| {
            let node = inner.prop_map(|value| YamlNode { line: 1, value }).boxed();
            prop_oneof![
                prop::collection::vec(node.clone(), 0..4).prop_map(YamlValue::List),
                prop::collection::vec((node.clone(), node), 0..4).prop_map(YamlValue::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_rendered_mapping_is_read_as_it_was(value in value()) {
            let text = render([("key", &value)]);
            let root = parse(&text).map_err(|mistake| TestCaseError::fail(format!("{text}\n{mistake:?}")))?;
            prop_assert_eq!(&entries(&root)[0].1.value, &value, "{}", text);
        }
    }
}
