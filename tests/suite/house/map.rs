//! `docs/architecture.md` names every top-level module and everything directly below it, in the order of the layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{Source, module};

/// The map: top-level modules from the highest layer to the lowest, each with the modules that its section names.
pub struct Map {
    pub layers: Vec<String>,
    sections: BTreeMap<String, BTreeSet<String>>,
}

impl Map {
    pub fn read() -> Map {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
        Map::parse(&fs::read_to_string(path).unwrap())
    }

    /// Reads the code block that begins with `src/`. A line begins with the names of modules, each of which ends in `.rs` or `/`;
    /// the rest describes them. Two spaces of indentation open a section, more belong to it.
    fn parse(text: &str) -> Map {
        let block = text.split("```\nsrc/\n").nth(1).expect("the map begins with src/");
        let block = block.split("```").next().unwrap_or_default();
        let mut map = Map { layers: Vec::new(), sections: BTreeMap::new() };
        for line in block.lines().take_while(|line| line.starts_with(' ')) {
            let opens = !line.starts_with("   ");
            let name = |word: &'_ str| {
                word.strip_suffix(".rs").or_else(|| word.strip_suffix('/')).map(str::to_owned)
            };
            for name in line.split_whitespace().map_while(name) {
                if opens {
                    map.sections.entry(name.clone()).or_default();
                    map.layers.push(name);
                } else {
                    let section = map.layers.last().expect("a section is open").clone();
                    map.sections.entry(section).or_default().insert(name);
                }
            }
        }
        map
    }
}

/// Modules that the map does not name, and names in the map that are no module.
fn differences(source: &Source, map: &Map) -> Vec<String> {
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in source.0.keys().filter(|path| !path.ends_with("tests.rs")) {
        let segments = module(path);
        let Some(top) = segments.first() else { continue };
        let section = modules.entry((*top).to_owned()).or_default();
        section.extend(segments.get(1).map(|name| (*name).to_owned()));
    }
    let mut wrong = Vec::new();
    for (top, names) in &modules {
        match map.sections.get(top) {
            None => wrong.push(format!("{top} is not in the map")),
            Some(named) => {
                wrong.extend(names.difference(named).map(|name| format!("{top}/{name} is not in the map")));
                // A section may also name what is deeper; only direct children that are gone are stale.
                let deeper =
                    |name: &&String| source.0.keys().any(|path| module(path).contains(&name.as_str()));
                let stale = named.difference(names).filter(|name| !deeper(name));
                wrong.extend(stale.map(|name| format!("{top}/{name} is in the map and not in src/")));
            }
        }
    }
    let gone = map.layers.iter().filter(|top| *top != "main" && *top != "lib" && !modules.contains_key(*top));
    wrong.extend(gone.map(|top| format!("{top} is in the map and not in src/")));
    wrong
}

#[test]
fn the_map_names_every_module() {
    assert_eq!(differences(&Source::read(), &Map::read()), Vec::<String>::new());
}

#[test]
fn a_planted_module_is_reported_as_missing_from_the_map() {
    let planted = Source::read().with("report/planted.rs", "").with("attic/mod.rs", "");
    let wrong = differences(&planted, &Map::read());
    assert_eq!(wrong, ["attic is not in the map", "report/planted is not in the map"]);
}
