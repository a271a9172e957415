//! A module uses only modules below it in the map, and no two siblings use each other, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

use super::map::Map;
use super::{Source, module};

/// A module's path, from the crate's root.
type ModulePath = Vec<String>;

/// Which modules each module uses, from its `use` lines and its paths that begin with `crate` or `super`.
fn uses(source: &Source) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let owned = |path: &str| module(path).into_iter().map(str::to_owned).collect::<ModulePath>();
    let modules: BTreeSet<ModulePath> = source.0.keys().map(|path| owned(path)).collect();
    let mut uses: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
    for (path, code) in source.code() {
        let from = owned(path);
        let paths = use_lines(&code).into_iter().chain(inline_paths(&code));
        let used = paths.filter_map(|path| absolute(&from, &path, &modules));
        uses.entry(from.clone()).or_default().extend(used);
    }
    uses
}

/// The paths of all `use` declarations, with their braces expanded.
fn use_lines(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        if before.is_empty() || before.starts_with("pub") {
            let tree = code[at + 4..].split(';').next().unwrap_or_default();
            expand("", &tree.split_whitespace().collect::<Vec<_>>().join(" "), &mut paths);
        }
    }
    paths.iter().map(|path| path.split("::").map(str::to_owned).collect()).collect()
}

fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    match tree.split_once('{') {
        None => paths.push(format!("{prefix}{}", tree.split(" as ").next().unwrap_or_default())),
        Some((head, body)) => {
            let body = body.strip_suffix('}').unwrap_or(body);
            let (mut depth, mut begin) = (0, 0);
            for (at, c) in body.char_indices().chain([(body.len(), ',')]) {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 && begin < body.len() => {
                        expand(&format!("{prefix}{head}"), &body[begin..at.min(body.len())], paths);
                        begin = at + 1;
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Paths such as `crate::fs::atomic::write` in the middle of code.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    words
        .filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
        .map(|word| word.split("::").map(str::to_owned).collect())
        .collect()
}

/// The module that a path leads to, as the module `from` spells it.
fn absolute(from: &[String], path: &[String], modules: &BTreeSet<ModulePath>) -> Option<ModulePath> {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    let full: ModulePath = match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [from, &path[1..]].concat(),
        "super" => [&from[..from.len().checked_sub(supers)?], &path[supers..]].concat(),
        _ => [from, path].concat(),
    };
    let longest = (1..=full.len()).rev().map(|length| full[..length].to_vec());
    longest.into_iter().find(|prefix| modules.contains(prefix)).filter(|found| found != from)
}

/// Uses of a higher layer by a lower one. The map has the layers from top to bottom.
fn upward(source: &Source, layers: &[String]) -> Vec<String> {
    let level = |path: &ModulePath| layers.iter().position(|layer| Some(layer) == path.first());
    let mut wrong = Vec::new();
    for (from, used) in uses(source) {
        for to in used {
            if level(&from).zip(level(&to)).is_some_and(|(from, to)| to < from) {
                wrong.push(format!("{} uses {}, which is above it", from.join("/"), to.join("/")));
            }
        }
    }
    wrong
}

/// Groups of siblings of which each uses the next: none can be understood without the others.
fn sibling_cycles(source: &Source) -> Vec<String> {
    let uses = uses(source);
    let parents: BTreeSet<&[String]> =
        uses.keys().filter(|path| !path.is_empty()).map(|path| &path[..path.len() - 1]).collect();
    let mut cycles = Vec::new();
    for parent in parents {
        let below = |path: &ModulePath| path.len() > parent.len() && path.starts_with(parent);
        let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (from, used) in uses.iter().filter(|(from, _)| below(from)) {
            let from = from[parent.len()].as_str();
            let to = used.iter().filter(|to| below(to)).map(|to| to[parent.len()].as_str());
            graph.entry(from).or_default().extend(to.filter(|to| *to != from));
        }
        let in_cycle = |name: &&&str| reachable(&graph, name).contains(**name);
        let names: Vec<&str> = graph.keys().filter(in_cycle).copied().collect();
        if !names.is_empty() {
            cycles.push(format!("{}: {}", parent.join("/"), names.join(", ")));
        }
    }
    cycles
}

fn reachable<'g>(graph: &BTreeMap<&'g str, BTreeSet<&'g str>>, from: &str) -> BTreeSet<&'g str> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<&str> = vec![from];
    while let Some(name) = todo.pop() {
        for next in graph.get(name).into_iter().flatten() {
            if found.insert(*next) {
                todo.push(next);
            }
        }
    }
    found
}

#[test]
fn no_module_uses_one_above_it() {
    assert_eq!(upward(&Source::read(), &Map::read().layers), Vec::<String>::new());
}

#[test]
fn no_siblings_use_each_other() {
    assert_eq!(sibling_cycles(&Source::read()), Vec::<String>::new());
}

#[test]
fn a_planted_upward_import_is_reported() {
    let planted = Source::read().with("fs/planted.rs", "use crate::{error::Error, pipeline::RunDir};\n");
    let wrong = upward(&planted, &Map::read().layers);
    assert_eq!(wrong, ["fs/planted uses pipeline, which is above it"]);
    let inline = Source::read().with("fs/planted.rs", "fn f() { crate::cli::run(cli) }\n");
    assert_eq!(upward(&inline, &Map::read().layers), ["fs/planted uses cli/run, which is above it"]);
}

#[test]
fn a_planted_cycle_between_siblings_is_reported() {
    let planted = Source::read()
        .with("spec/one.rs", "use super::two::Two;\n")
        .with("spec/two.rs", "use crate::spec::three;\n")
        .with("spec/three.rs", "pub use super::one::{self, One};\n");
    let cycles = sibling_cycles(&planted);
    assert!(cycles.contains(&"spec: one, three, two".to_owned()), "{cycles:?}");
}
