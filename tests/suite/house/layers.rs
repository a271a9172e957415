//! A module uses only modules below it in the map, and no two siblings use each other, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

use super::map::Map;
use super::{Source, module};

/// A module's path, from the crate's root.
type ModulePath = Vec<String>;

/// What each module imports: the name in its scope, and the path that the name stands for, from the crate's root.
type Imports = BTreeMap<ModulePath, BTreeMap<String, Vec<String>>>;

/// The modules, and the names that each imports. Imports are followed, so that a name which `history/mod.rs` exports from
/// `history/run_dir.rs` counts as a use of both.
struct Modules {
    code: Vec<(ModulePath, String)>,
    paths: BTreeSet<ModulePath>,
    imports: Imports,
}

impl Modules {
    fn of(source: &Source) -> Modules {
        let owned = |path: &str| module(path).into_iter().map(str::to_owned).collect::<ModulePath>();
        let paths: BTreeSet<ModulePath> = source.0.keys().map(|path| owned(path)).collect();
        let code: Vec<_> = source.code().map(|(path, code)| (owned(path), code)).collect();
        let mut imports = Imports::new();
        for (from, code) in &code {
            let names = imports.entry(from.clone()).or_default();
            names.extend(
                use_lines(code).into_iter().filter_map(|(path, name)| Some((name, absolute(from, &path)?))),
            );
        }
        Modules { code, paths, imports }
    }

    /// Which modules each module uses, from its imports and from the paths in its code.
    fn uses(&self) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
        let mut uses: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (from, code) in &self.code {
            let imported = self.imports[from].values().cloned();
            let inline = inline_paths(code).into_iter().filter_map(|path| absolute(from, &path));
            let used = imported.chain(inline).flat_map(|path| self.resolve(path));
            uses.entry(from.clone()).or_default().extend(used.filter(|used| used != from));
        }
        uses
    }

    /// The modules that a path leads through: the one that it names, and each that only imports the rest of the path.
    fn resolve(&self, mut path: Vec<String>) -> Vec<ModulePath> {
        let mut passed = Vec::new();
        loop {
            let longest = (0..=path.len()).rev().find(|length| self.paths.contains(&path[..*length]));
            let (found, rest) = path.split_at(longest.unwrap_or(0));
            let is_new = !passed.contains(&found.to_vec());
            passed.push(found.to_vec());
            let import = rest.first().and_then(|name| self.imports.get(found)?.get(name));
            match import.filter(|_| is_new) {
                Some(target) => path = [target, &rest[1..]].concat(),
                None => return passed,
            }
        }
    }
}

/// The path of each `use` declaration, with braces expanded, and the name that it brings into scope.
fn use_lines(code: &str) -> Vec<(Vec<String>, String)> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        if before.is_empty() || before.starts_with("pub") {
            let tree = code[at + 4..].split(';').next().unwrap_or_default();
            expand("", &tree.split_whitespace().collect::<Vec<_>>().join(" "), &mut paths);
        }
    }
    let parse = |text: &String| {
        let (path, alias) =
            text.split_once(" as ").map_or((text.as_str(), None), |(path, name)| (path, Some(name)));
        let path: Vec<String> = path.trim_end_matches("::self").split("::").map(str::to_owned).collect();
        let name = alias.map_or_else(|| path[path.len() - 1].clone(), str::to_owned);
        (path, name)
    };
    paths.iter().map(parse).collect()
}

fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    match tree.split_once('{') {
        None => paths.push(format!("{prefix}{tree}")),
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

/// Paths such as `crate::fs::atomic::write`, or `atomic::write` below an import, in the middle of code.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    words
        .filter(|word| word.contains("::") && !word.starts_with(':'))
        .map(|word| word.split("::").map(str::to_owned).collect())
        .collect()
}

/// A path from the crate's root, as the module `from` spells it. A path that begins with a name is looked up in `from`.
fn absolute(from: &[String], path: &[String]) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    Some(match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [from, &path[1..]].concat(),
        "super" => [&from[..from.len().checked_sub(supers)?], &path[supers..]].concat(),
        _ => [from, path].concat(),
    })
}

/// Uses of a higher layer by a lower one. The map has the layers from top to bottom.
fn upward(source: &Source, layers: &[String]) -> Vec<String> {
    let level = |path: &ModulePath| layers.iter().position(|layer| Some(layer) == path.first());
    let mut wrong = Vec::new();
    for (from, used) in Modules::of(source).uses() {
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
    let uses = Modules::of(source).uses();
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
fn an_upward_use_through_an_export_of_the_crate_is_reported() {
    let planted = Source::read().with("fs/planted.rs", "use crate::ContentHash;\n");
    let wrong = upward(&planted, &Map::read().layers);
    assert_eq!(wrong, ["fs/planted uses checkpoint/hash, which is above it"]);
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

#[test]
fn a_cycle_through_an_export_or_a_module_alias_is_reported() {
    let alias = "use crate::checkpoint as engine;\nfn f() { engine::planted::outer::g() }\n";
    for uses_outer in ["use super::super::Outer;\n", "use crate::checkpoint::planted::Outer;\n", alias] {
        let planted = Source::read()
            .with("checkpoint/planted/mod.rs", "mod inner;\nmod outer;\npub use outer::Outer;\n")
            .with("checkpoint/planted/outer.rs", "use super::inner;\n")
            .with("checkpoint/planted/inner/mod.rs", "mod deep;\n")
            .with("checkpoint/planted/inner/deep.rs", uses_outer);
        let cycles = sibling_cycles(&planted);
        assert!(cycles.contains(&"checkpoint/planted: inner, outer".to_owned()), "{uses_outer} {cycles:?}");
    }
}
