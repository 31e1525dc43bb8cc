//! Modules of a crate have an order, as crates have one: a circle of imports is at most one small family of files. So have its rooms, which
//! are the folders in its root, and the files there.
//!
//! An edge is a path by which a module's production code names an item of another module of its crate. A parent that only
//! re-exports its children does not know them, and who imports through it knows the child in which the item is defined.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::Sized;
use crate::imports::{self, Import};
use crate::names::crate_of;
use crate::tree::{File, Tree};

/// Share of a crate's production lines that its largest circle may hold.
const PERCENT: usize = 20;
/// Share of a crate's production lines that all its circles together may hold.
const TOGETHER: usize = 25;
/// Re-exports that a path is looked through, one after the other.
const RE_EXPORTS: usize = 5;

/// The crates with too much in circles: `crates/FOLDER/NAME` for the largest circle of files, the same with `rooms` for that of rooms, with
/// `circles` for all circles of files together.
pub fn large(tree: &Tree) -> Vec<Sized> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_production()) {
        crates.entry(crate_of(&file.path)).or_default().push(file);
    }

    crates
        .into_iter()
        .flat_map(|(name, files)| {
            let files = Graph::new(&files);
            let rooms = files.rooms().sized(&format!("{name} rooms"));
            [files.sized(name), rooms, files.together(name)]
        })
        .flatten()
        .collect()
}

/// The modules of a crate and who imports whom.
pub struct Graph<'a> {
    /// In the order of their paths.
    modules: Vec<Module<'a>>,
    /// For each module those that it imports, by their index.
    edges: Vec<BTreeSet<usize>>,
}

struct Module<'a> {
    /// Path within `src`.
    file: &'a str,
    lines: usize,
}

impl<'a> Graph<'a> {
    /// The modules that are in these files of a crate.
    pub fn new(files: &[&'a File]) -> Self {
        let names: Vec<Vec<String>> = files.iter().map(|file| module_path(&file.path)).collect();
        let imports: Vec<Vec<Import>> = files
            .iter()
            .zip(&names)
            .map(|(file, name)| imports::of(production(file), &children(name, &names)))
            .collect();
        let resolver = Resolver {
            names: &names,
            imports: &imports,
        };

        let edges = imports.iter().enumerate().map(|(from, imports)| {
            let known = imports.iter().filter(|import| !import.is_facade());
            let known = known.filter_map(|import| resolver.module(from, &import.path, RE_EXPORTS));
            known.filter(|to| *to != from).collect()
        });

        Self {
            edges: edges.collect(),
            modules: files.iter().map(|file| Module::new(file)).collect(),
        }
    }

    /// The names of its modules.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.modules.iter().map(|module| module.file)
    }

    /// Who imports whom, by name.
    pub fn arrows(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let edges = self.edges.iter().enumerate();
        edges
            .flat_map(|(from, known)| known.iter().map(move |to| (from, *to)))
            .map(|(from, to)| (self.modules[from].file, self.modules[to].file))
    }

    /// The rooms, as modules.
    pub fn rooms(&self) -> Self {
        let mut rooms: Vec<Module<'a>> = Vec::new();
        let place = self.modules.iter().map(|module| {
            let first = module.file.split('/').next().unwrap_or_default();
            // A folder, and the file that is its module.
            let name = first.trim_end_matches(".rs");
            let known = rooms.iter().position(|room| room.file == name);
            let at = known.unwrap_or(rooms.len());
            if known.is_none() {
                rooms.push(Module {
                    file: name,
                    lines: 0,
                });
            }
            rooms[at].lines += module.lines;
            at
        });
        let place: Vec<usize> = place.collect();

        let mut edges = vec![BTreeSet::new(); rooms.len()];
        for (from, known) in self.edges.iter().enumerate() {
            let others = known.iter().map(|to| place[*to]);
            edges[place[from]].extend(others.filter(|to| *to != place[from]));
        }

        Self {
            modules: rooms,
            edges,
        }
    }

    /// The share of lines in a part of the modules, in percent.
    fn share(&self, part: &[usize]) -> usize {
        let all: usize = self.modules.iter().map(|module| module.lines).sum();
        self.lines(part) * 100 / all.max(1)
    }

    /// All circles together, if they are over the budget.
    fn together(&self, name: &str) -> Option<Sized> {
        let reached: Vec<_> = (0..self.edges.len())
            .map(|from| reach(&self.edges, from))
            .collect();
        let within: Vec<_> = (0..self.edges.len())
            .filter(|at| reached[*at].contains(at))
            .collect();
        let size = self.share(&within);
        let files: Vec<_> = within.iter().map(|at| self.modules[*at].file).collect();

        (size > TOGETHER).then(|| Sized {
            subject: format!("{name} circles"),
            path: format!("{name}/src"),
            line: 0,
            size,
            unit: "percent of its lines in circles of imports",
            budget: TOGETHER,
            remedy: format!(
                "move what they share into modules below them: {}",
                files.join(", ")
            ),
        })
    }

    /// The largest circle, if it is over the budget.
    fn sized(&self, name: &str) -> Option<Sized> {
        let share = |circle: &[usize]| self.share(circle);
        let circle = self.largest(&self.edges);
        let size = share(&circle);

        if size <= PERCENT {
            return None;
        }

        let files: Vec<_> = circle.iter().map(|at| self.modules[*at].file).collect();
        let breaking = self.breaking(|edges| share(&self.largest(edges)) <= PERCENT);
        Some(Sized {
            subject: name.to_owned(),
            path: format!("{}/src", name.trim_end_matches(" rooms")),
            line: 0,
            size,
            unit: "percent of its lines in one circle of imports",
            budget: PERCENT,
            remedy: format!(
                "move what they share into a module below them; without {} it would pass. The circle: {}",
                breaking.join(", "),
                files.join(", ")
            ),
        })
    }

    fn lines(&self, circle: &[usize]) -> usize {
        circle.iter().map(|at| self.modules[*at].lines).sum()
    }

    /// The modules of the circle with the most lines; empty when there is no circle.
    fn largest(&self, edges: &[BTreeSet<usize>]) -> Vec<usize> {
        let reached: Vec<_> = (0..edges.len()).map(|from| reach(edges, from)).collect();
        let circles = (0..edges.len()).map(|at| {
            let back = reached[at].iter().filter(|to| reached[**to].contains(&at));
            back.copied().collect::<Vec<_>>()
        });

        circles
            .max_by_key(|circle| self.lines(circle))
            .unwrap_or_default()
    }

    /// Few edges without which the graph passes: those that point backwards in an order with few of them, less each that
    /// can stay.
    fn breaking(&self, passes: impl Fn(&[BTreeSet<usize>]) -> bool) -> Vec<String> {
        let order = order(&self.edges);
        let mut left = self.edges.clone();
        let mut removed = Vec::new();

        for (from, known) in self.edges.iter().enumerate() {
            let backwards = known.iter().filter(|to| order[from] > order[**to]);
            removed.extend(backwards.map(|to| (from, *to)));
        }

        for (from, to) in &removed {
            left[*from].remove(to);
        }

        removed.retain(|(from, to)| {
            left[*from].insert(*to);
            let needed = !passes(&left);
            if needed {
                left[*from].remove(to);
            }
            needed
        });

        let file = |at: usize| self.modules[at].file;
        removed
            .into_iter()
            .map(|(from, to)| format!("{} -> {}", file(from), file(to)))
            .collect()
    }
}

impl<'a> Module<'a> {
    fn new(file: &'a File) -> Self {
        let lines = production(file).lines();
        Self {
            file: within_src(&file.path),
            lines: lines.filter(|line| !line.trim().is_empty()).count(),
        }
    }
}

/// Finds the module in which an item is defined.
struct Resolver<'a> {
    names: &'a [Vec<String>],
    imports: &'a [Vec<Import>],
}

impl Resolver<'_> {
    /// The module that a path leads to from `from`, through at most `hops` re-exports.
    fn module(&self, from: usize, path: &[String], hops: usize) -> Option<usize> {
        let (mut at, mut rest) = base(&self.names[from], path);
        while let [child, after @ ..] = rest {
            let inner = [&at[..], std::slice::from_ref(child)].concat();
            if !self.names.contains(&inner) {
                break;
            }
            at = inner;
            rest = after;
        }

        let module = self.names.iter().position(|name| *name == at)?;
        let exported = self.imports[module]
            .iter()
            .find(|import| import.public && import.name() == rest.first());
        match exported.filter(|_| hops > 0) {
            Some(exported) => self.module(module, &exported.path, hops - 1),
            None => Some(module),
        }
    }
}

/// The module in which a path begins, and the rest of the path.
fn base<'p>(from: &[String], path: &'p [String]) -> (Vec<String>, &'p [String]) {
    let mut at = from.to_vec();
    let mut rest = path;
    while let [first, after @ ..] = rest {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = after;
    }

    (at, rest)
}

/// The place of each module in an order in which few edges point backwards (Eades, Lin and Smyth 1993): who is imported by
/// none comes first, who imports none last, and of the others first who imports most more than he is imported.
fn order(edges: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut left: BTreeSet<usize> = (0..edges.len()).collect();
    let mut place = vec![0; edges.len()];
    let mut first = 0;
    let mut last = edges.len();

    while !left.is_empty() {
        let known = |at: &usize| edges[*at].intersection(&left).count();
        let importers = |at: &usize| {
            left.iter()
                .filter(|from| edges[**from].contains(at))
                .count()
        };

        let lowest = left.iter().copied().find(|at| known(at) == 0);
        let highest = left.iter().copied().find(|at| importers(at) == 0);
        let next = highest.or_else(|| {
            let candidates = left.iter().copied();
            candidates.max_by_key(|at| known(at).wrapping_sub(importers(at)).cast_signed())
        });

        match (lowest, next) {
            (Some(lowest), _) => {
                last -= 1;
                place[lowest] = last;
                left.remove(&lowest);
            }
            (None, Some(next)) => {
                place[next] = first;
                first += 1;
                left.remove(&next);
            }
            (None, None) => break,
        }
    }

    place
}

/// Everything that can be reached from `from` by at least one edge.
fn reach(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut todo = vec![from];
    while let Some(at) = todo.pop() {
        todo.extend(edges[at].iter().filter(|to| reached.insert(**to)));
    }
    reached
}

/// The modules that stand directly below `name`.
fn children(name: &[String], names: &[Vec<String>]) -> Vec<String> {
    let below = names.iter().filter_map(|other| other.split_last());
    below
        .filter(|(_, parent)| *parent == name)
        .map(|(child, _)| child.clone())
        .collect()
}

/// `pool::links` of `crates/machine/upstream/src/pool/links.rs`, in parts; nothing of `lib.rs`.
fn module_path(path: &str) -> Vec<String> {
    let stem = within_src(path).trim_end_matches(".rs");
    let mut parts: Vec<String> = stem.split('/').map(str::to_owned).collect();
    let last = parts.last().map(String::as_str);
    if last == Some("mod") || stem == "lib" || stem == "main" {
        parts.pop();
    }
    parts
}

fn within_src(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(_, file)| file)
}

fn production(file: &File) -> &str {
    file.rust.as_ref().map_or("", |rust| &rust.production)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edges of a crate's files, as `from -> to`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let files = files_of(files);
        let graph = Graph::new(&files.iter().collect::<Vec<_>>());
        let file = |at: usize| graph.modules[at].file;
        let known = graph.edges.iter().enumerate();
        known
            .flat_map(|(from, known)| known.iter().map(move |to| (from, *to)))
            .map(|(from, to)| format!("{} -> {}", file(from), file(to)))
            .collect()
    }

    fn files_of(files: &[(&str, &str)]) -> Vec<File> {
        let file = |(path, text): &(&str, &str)| File::new(&format!("crates/a/src/{path}"), text);
        files.iter().map(file).collect()
    }

    #[test]
    fn a_use_and_a_path_in_the_code_are_edges() {
        let found = edges(&[
            (
                "a.rs",
                "use crate::{b::B, lib_item};\nfn f() { super::c::f() }",
            ),
            ("b.rs", "// use crate::c;\nconst D: &str = \"crate::c::f\";"),
            ("c.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }"),
            ("lib.rs", "mod a;"),
        ]);
        assert_eq!(found, ["a.rs -> b.rs", "a.rs -> c.rs", "a.rs -> lib.rs"]);
    }

    #[test]
    fn a_parent_knows_the_children_that_it_uses_not_those_that_it_only_shows() {
        let found = edges(&[
            ("p/kept.rs", ""),
            (
                "p/mod.rs",
                "pub use shown::Shown;\nfn f() { used::f(kept.used::x) }",
            ),
            ("p/shown.rs", ""),
            ("p/used.rs", ""),
        ]);
        assert_eq!(found, ["p/mod.rs -> p/used.rs"]);
    }

    #[test]
    fn a_re_export_is_looked_through() {
        let found = edges(&[
            ("a.rs", "use crate::p::{Shown as S, Own};\nuse crate::Top;"),
            ("lib.rs", "pub use p::Top;"),
            ("p/deep/mod.rs", ""),
            (
                "p/mod.rs",
                "pub(crate) use self::deep::{Hidden, Top};\npub use shown::Shown;",
            ),
            ("p/shown.rs", "use super::Hidden;"),
        ]);
        let expected = [
            "a.rs -> p/deep/mod.rs",
            "a.rs -> p/mod.rs",
            "a.rs -> p/shown.rs",
            "p/shown.rs -> p/deep/mod.rs",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn re_exports_that_lead_to_each_other_end() {
        let found = edges(&[
            ("a.rs", "pub use crate::b::X;"),
            ("b.rs", "pub use crate::a::X;"),
        ]);
        assert!(found.len() <= 2, "{found:?}");
    }

    fn sized(files: &[(&str, &str)]) -> Option<(usize, String)> {
        let files = files_of(files);
        let sized = Graph::new(&files.iter().collect::<Vec<_>>()).sized("crates/a")?;
        Some((sized.size, sized.remedy))
    }

    #[test]
    fn the_largest_circle_is_named_with_what_breaks_it() {
        let (size, remedy) = sized(&[
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::c::C;\nuse crate::d::D;\n"),
            ("c.rs", "use crate::a::A;\n\n"),
            ("d.rs", "struct D;\n"),
        ])
        .expect("four of five lines are in a circle");
        assert_eq!(size, 80);
        assert!(remedy.ends_with("The circle: a.rs, b.rs, c.rs"), "{remedy}");
        let edges = ["a.rs -> b.rs", "b.rs -> c.rs", "c.rs -> a.rs"];
        let named = edges.iter().filter(|edge| remedy.contains(**edge));
        assert_eq!(named.count(), 1, "one edge is enough: {remedy}");
    }

    #[test]
    fn rooms_have_an_order_even_where_their_files_have_one() {
        let files = files_of(&[
            ("a/mod.rs", "mod one;\n"),
            ("a/one.rs", "use crate::b::two::T;\n"),
            ("a/two.rs", "struct A;\n"),
            ("b/mod.rs", "mod one;\n"),
            ("b/one.rs", "use crate::a::two::A;\n"),
            ("b/two.rs", "struct T;\n"),
        ]);
        let files = Graph::new(&files.iter().collect::<Vec<_>>());
        assert!(files.sized("crates/a").is_none());
        assert!(files.together("crates/a").is_none());
        let rooms = files
            .rooms()
            .sized("crates/a rooms")
            .expect("a knows b, and b knows a");
        assert_eq!(
            (rooms.size, rooms.subject.as_str()),
            (100, "crates/a rooms")
        );
    }

    #[test]
    fn small_circles_count_together() {
        let files = files_of(&[
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::a::A;\n"),
            ("c.rs", "use crate::d::D;\n"),
            ("d.rs", "use crate::c::C;\n"),
            ("e.rs", "struct E;\n"),
        ]);
        let together = Graph::new(&files.iter().collect::<Vec<_>>()).together("crates/a");
        assert_eq!(together.expect("four of five lines").size, 80);
    }

    #[test]
    fn a_small_family_and_a_crate_without_circles_pass() {
        let body = "fn f() {}\n".repeat(18);
        let a = ("a.rs", "use crate::b::B;\n");
        let b = ("b.rs", "use crate::a::A;\n");
        assert_eq!(sized(&[a, b, ("c.rs", &body)]), None);
        assert_eq!(sized(&[a, ("b.rs", "struct B;\n")]), None);
        assert!(sized(&[a, b]).is_some());
    }
}
