use super::*;

fn entries(node: &Node) -> &[(Node, Node)] {
    match &node.value {
        Value::Map(entries) => entries,
        other => panic!("{other:?}"),
    }
}

fn lines(text: &str) -> Vec<(String, usize, usize)> {
    let tree = Tree::parse(text).unwrap();
    entries(&tree.root)
        .iter()
        .map(|(key, value)| (key.shown(), tree.line_of(key), tree.line_of(value)))
        .collect()
}

#[test]
fn every_node_knows_its_line() {
    let text = "# a comment\n\na: 1\nb:\n  - x\n  - y\nc: {d: 1,\n    e: [2,\n  3]}\n\"f\": >\n  folded\n  text\n? g\n: h\n";
    let found = lines(text);
    let expected = [("'a'", 3, 3), ("'b'", 4, 5), ("'c'", 7, 7), ("'f'", 10, 10), ("'g'", 13, 14)]
        .map(|(k, a, b)| (k.to_owned(), a, b));
    assert_eq!(found, expected);
    let tree = Tree::parse(text).unwrap();
    let inner = entries(&entries(&tree.root)[2].1);
    assert_eq!(tree.line_of(&inner[1].0), 8);
}

#[test]
fn scalars_keep_the_text_of_the_file() {
    let text = "[1.10, 0x1F, True, '7', 2025022514320000, 1e3, ~, yes, 007, 99999999999999999999999]";
    let tree = Tree::parse(text).unwrap();
    let Value::List(items) = tree.root.value else { panic!() };
    let shown: Vec<String> = items.iter().map(Node::shown).collect();
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
        Value::Scalar(kind, _) => kind,
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
        assert!(matches!(Tree::parse(text).unwrap().root.value, Value::Null), "{text:?}");
    }
}

#[test]
fn broken_yaml_is_told_with_its_line() {
    let tabs = Tree::parse("a:\n\tb: 1\n").unwrap_err();
    assert_eq!((tabs.line, tabs.hint.as_deref()), (2, Some("YAML is indented with spaces, not with tabs")));
    for (text, line) in [("a: 1\nb: [1,\nc: 2\n", 2), ("a: 1\n b: 2\n", 2), ("a: *x\n", 1), ("a: 'x\n\n", 1)]
    {
        let mistake = Tree::parse(text).unwrap_err();
        assert_eq!(mistake.line, line, "{text:?}: {mistake:?}");
        assert!(mistake.message.starts_with("not valid YAML: "), "{mistake:?}");
    }
    assert!(Tree::parse("a: !secret b\n").unwrap_err().message.contains("tags"));
    assert!(Tree::parse("a: 1\n---\nb: 1\n").is_err());
}

#[test]
fn bombs_do_not_go_off() {
    let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for i in 1..12 {
        let before = vec![format!("*a{}", i - 1); 10].join(",");
        laughs.push_str(&format!("a{i}: &a{i} [{before}]\n"));
    }
    assert!(Tree::parse(&laughs).is_err());
    let wide = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(50_000), "*a,".repeat(50_000));
    assert!(Tree::parse(&wide).unwrap_err().message.contains("repeats itself"));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), "*a,".repeat(50_000));
    assert!(Tree::parse(&long).is_err());
    assert!(Tree::parse("a: &a [*a]\n").is_err());
    for open in ["[", "{a: ", "- ", "? "] {
        assert!(Tree::parse(&open.repeat(200_000)).is_err());
    }
    assert!(Tree::parse(&"x".repeat(MAX_TEXT + 1)).is_err());
    assert_eq!(Tree::parse(&format!("a: 1\nb: {}", "{a: ".repeat(300))).unwrap_err().line, 2);
}
