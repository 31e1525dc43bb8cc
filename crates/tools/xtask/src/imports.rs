//! By which paths a module's code names items of its crate: its `use` trees, and the paths in its code.

use crate::rust::{identifier, words};

/// A path that begins in this crate, in parts: `crate::pool::Link`, `super::Link`, `watch::Watch` in the parent of `watch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub path: Vec<String>,
    /// Under which name a `use` brings it in, where that is another one.
    alias: Option<String>,
    /// Does a `pub use` show it to others?
    pub public: bool,
}

impl Import {
    /// The name that it has here.
    pub fn name(&self) -> Option<&String> {
        self.alias.as_ref().or(self.path.last())
    }

    /// Does a parent only re-export items of its child?
    pub fn is_facade(&self) -> bool {
        let first = self.path.first().map_or("", String::as_str);
        self.public && !matches!(first, "crate" | "super")
    }
}

/// The imports of a module with these children, from its code without comments, literals and tests.
pub fn of(code: &str, children: &[String]) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut rest = code.as_bytes().to_vec();
    for at in words(code, "use") {
        let Some(length) = code[at..].find(';') else {
            continue;
        };

        // `use<'a>` in a return type is no import.
        let tree = &code[at + "use".len()..at + length];
        if tree.starts_with(char::is_whitespace) {
            expand(&[], tree, is_public(&code[..at]), &mut imports);
            rest[at..at + length].fill(b' ');
        }
    }

    imports.retain(|import| import.public || begins_here(&import.path, children));
    imports.extend(paths(&String::from_utf8_lossy(&rest), children));
    imports
}

fn begins_here(path: &[String], children: &[String]) -> bool {
    path.first().is_some_and(|first| {
        matches!(first.as_str(), "crate" | "super" | "self") || children.contains(first)
    })
}

/// Is the text before an item a visibility?
fn is_public(before: &str) -> bool {
    let before = before.trim_end();
    let restricted = before
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once('('));
    let before = restricted.map_or(before, |(visible, _)| visible);
    before.ends_with("pub")
}

/// Writes a `use` tree out.
fn expand(prefix: &[String], tree: &str, public: bool, imports: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    let mut rest = tree.trim();
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            let inner = inner.strip_suffix('}').unwrap_or(inner);
            for branch in branches(inner) {
                expand(&path, branch, public, imports);
            }
            return;
        }

        let name = identifier(rest);
        let after = rest[name.len()..].trim_start();
        if name != "self" || path.is_empty() {
            path.push(name.to_owned());
        }

        let Some(deeper) = after.strip_prefix("::") else {
            let alias = after.strip_prefix("as ").map(identifier);
            imports.push(Import {
                path,
                alias: alias.map(str::to_owned),
                public,
            });
            return;
        };

        rest = deeper.trim_start();
    }
}

/// The branches of a `use` tree: the texts between commas outside inner braces.
fn branches(trees: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let split = trees.split(|char: char| {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        char == ',' && depth == 0
    });

    split.filter(|tree| !tree.trim().is_empty()).collect()
}

/// The paths in code, `use` aside.
fn paths(code: &str, children: &[String]) -> Vec<Import> {
    let first = ["crate", "super", "self"];
    let first = first.into_iter().chain(children.iter().map(String::as_str));
    first
        .flat_map(|first| words(code, first))
        .filter(|at| !code[..*at].ends_with([':', '.']) && !code[..*at].ends_with("mod "))
        .filter_map(|at| path(&code[at..]))
        .collect()
}

/// The path of at least two parts that the text begins with.
fn path(text: &str) -> Option<Import> {
    let mut path = vec![identifier(text).to_owned()];
    let mut rest = &text[path[0].len()..];
    while let Some(after) = rest.strip_prefix("::") {
        let name = identifier(after);
        if name.is_empty() || after.starts_with(char::is_whitespace) {
            break;
        }
        path.push(name.to_owned());
        rest = &after[name.len()..];
    }

    (path.len() > 1).then_some(Import {
        path,
        alias: None,
        public: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let children = ["child".to_owned()];
        let paths = of(code, &children).into_iter().map(|import| {
            let path = import.path.join("::");
            import
                .alias
                .map_or(path.clone(), |alias| format!("{path} as {alias}"))
        });
        paths.collect()
    }

    #[test]
    fn a_tree_is_written_out() {
        let code = "use crate::{a::{self, B as C}, d, super_::{E, F},};\nuse std::fmt;";
        assert_eq!(
            found(code),
            [
                "crate::a",
                "crate::a::B as C",
                "crate::d",
                "crate::super_::E",
                "crate::super_::F"
            ]
        );
    }

    #[test]
    fn paths_of_the_crate_and_of_children_are_found_in_code() {
        let code = "mod child;\nfn f() -> impl Fn() + use<'_> { super::a(child::B::c(), x.child, crate::D) }";
        assert_eq!(found(code), ["crate::D", "super::a", "child::B::c"]);
        assert_eq!(
            found("fn f() { other::child::g(); child(); self.child }"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_is_shown_to_others_is_known() {
        let code = "pub use child::A;\npub(crate) use crate::B;\nuse crate::C;";
        let imports = of(code, &["child".to_owned()]);
        let public: Vec<_> = imports.iter().map(|import| import.public).collect();
        let facade: Vec<_> = imports.iter().map(Import::is_facade).collect();
        assert_eq!(public, [true, true, false]);
        assert_eq!(facade, [true, false, false]);
    }
}
