//! `docs/architecture.md` names every module at every depth, and the top-level ones in the order of the layers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Source, module};

/// The map: the path of every module that it names, and the top-level modules from the highest layer to the lowest.
pub struct Map {
    pub layers: Vec<String>,
    modules: BTreeSet<String>,
}

impl Map {
    pub fn read() -> Map {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
        Map::parse(&fs::read_to_string(path).unwrap())
    }

    /// Reads the code block that begins with `src/`. A line begins with the names of modules, each of which ends in `.rs` or `/`;
    /// the rest describes them. Each two spaces of indentation are one level of directories.
    fn parse(text: &str) -> Map {
        let block = text.split("```\nsrc/\n").nth(1).expect("the map begins with src/");
        let block = block.split("```").next().unwrap_or_default();
        let mut map = Map { layers: Vec::new(), modules: BTreeSet::new() };
        let mut parents: Vec<String> = Vec::new();
        for line in block.lines().take_while(|line| line.starts_with(' ')) {
            let level = (line.len() - line.trim_start().len()) / 2 - 1;
            parents.truncate(level);
            let name = |word: &'_ str| {
                word.strip_suffix(".rs").or_else(|| word.strip_suffix('/')).map(str::to_owned)
            };
            let mut last = None;
            for name in line.split_whitespace().map_while(name) {
                if level == 0 {
                    map.layers.push(name.clone());
                }
                map.modules.insert(
                    module(&[&parents[..], std::slice::from_ref(&name)].concat().join("/")).join("/"),
                );
                last = Some(name);
            }
            parents.extend(last);
        }
        map
    }
}

/// Modules that the map does not name, and names in the map that are no module.
fn differences(source: &Source, map: &Map) -> Vec<String> {
    let files = source.0.keys().filter(|path| !path.ends_with("tests.rs"));
    let modules: BTreeSet<String> = files.map(|path| module(path).join("/")).collect();
    let missing = modules.difference(&map.modules).map(|path| format!("{path} is not in the map"));
    let stale = map.modules.difference(&modules).map(|path| format!("{path} is in the map and not in src/"));
    missing.chain(stale).collect()
}

#[test]
fn the_map_names_every_module() {
    assert_eq!(differences(&Source::read(), &Map::read()), Vec::<String>::new());
}

#[test]
fn a_planted_module_is_reported_as_missing_from_the_map() {
    let planted = Source::read()
        .with("report/planted.rs", "")
        .with("attic/mod.rs", "")
        .with("checkpoint/store/planted.rs", "");
    let wrong = differences(&planted, &Map::read());
    let missing = ["attic", "checkpoint/store/planted", "report/planted"];
    assert_eq!(wrong, missing.map(|path| format!("{path} is not in the map")));
}

#[test]
fn a_planted_line_of_the_map_without_a_module_is_reported() {
    let map = Map::parse("```\nsrc/\n  main.rs   starts\n  attic/    old\n    chest.rs   older\n```\n");
    let source = Source([("main.rs".to_owned(), String::new())].into());
    let wrong = differences(&source, &map);
    assert_eq!(wrong, ["attic", "attic/chest"].map(|path| format!("{path} is in the map and not in src/")));
}
