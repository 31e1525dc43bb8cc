//! The order of a crate's rooms, which are the folders in its root and the files there: each knows those below it.

use crate::circles::Graph;
use crate::names::crate_of;
use crate::report::Violation;
use crate::tree::{File, Tree};

/// A crate whose rooms have an order.
struct Storeys {
    /// Its folder.
    name: &'static str,
    /// Its rooms from the bottom up.
    rooms: &'static str,
}

/// The crates. `ARCHITECTURE.md` draws them.
const STOREYS: &[Storeys] = &[
    Storeys {
        name: "crates/node/exchange",
        rooms: "pump stage transformed failed beyond carried reach message datagrams packets tunnel here carrier between forward behalf lib",
    },
    Storeys {
        name: "crates/node/node",
        rooms: "answers nowhere scarcity builtin check documents metrics upkeep process change status why rehearsal trial handle node handover lib",
    },
];

/// Rooms that know one above them, or that have no place in the order.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let crates = STOREYS.iter();
    crates
        .flat_map(|storeys| violations(storeys, tree))
        .collect()
}

fn violations(storeys: &Storeys, tree: &Tree) -> Vec<Violation> {
    let files: Vec<&File> = tree
        .files
        .iter()
        .filter(|file| file.is_production() && crate_of(&file.path) == storeys.name)
        .collect();
    let place = |room: &str| storeys.rooms.split(' ').position(|known| known == room);
    let path = format!("{}/src", storeys.name);

    let rooms = Graph::new(&files).rooms();
    let unknown = rooms.names().filter(|room| place(room).is_none());
    let unknown = unknown.map(|room| format!("{room} has no place in the order of rooms.rs"));
    let upwards = rooms.arrows().filter(|(from, to)| place(from) < place(to));
    let upwards = upwards.map(|(from, to)| {
        format!("{from} knows {to}, which lies above it; move what they share below both, or pass it down")
    });

    unknown
        .chain(upwards)
        .map(|message| Violation::new(&path, 0, message))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let storeys = Storeys {
            name: "crates/a/b",
            rooms: "low high lib",
        };
        let file = |(path, text): &(&str, &str)| File::new(&format!("crates/a/b/src/{path}"), text);
        let tree = Tree {
            root: std::path::PathBuf::new(),
            files: files.iter().map(file).collect(),
            metadata: Value::Null,
        };
        let found = violations(&storeys, &tree);
        found.into_iter().map(|found| found.message).collect()
    }

    #[test]
    fn a_room_knows_those_below_it_alone() {
        let downwards = [
            ("lib.rs", "mod high;\nmod low;\nuse high::inner::H;"),
            ("high/mod.rs", "pub mod inner;"),
            ("high/inner.rs", "use crate::low::L;\npub struct H;"),
            ("low.rs", "pub struct L;"),
        ];
        assert_eq!(messages(&downwards), Vec::<String>::new());

        let mut upwards = downwards;
        upwards[3].1 = "use crate::high::inner::H;";
        let found = messages(&upwards);
        assert!(found[0].starts_with("low knows high,"), "{found:?}");
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_new_room_needs_a_place() {
        let found = messages(&[("lib.rs", "mod odd;"), ("odd.rs", "struct O;")]);
        assert_eq!(found, ["odd has no place in the order of rooms.rs"]);
    }
}
