//! The table of peers in `docs/interop.md`, made from the results of tests: `./test interop` makes them write it down, and
//! holds the document to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

const DOCUMENT: &str = "docs/interop.md";
const BEGIN: &str = "<!-- matrix: made by `cargo xtask matrix` -->\n";
const END: &str = "<!-- end of matrix -->\n";

/// The columns, in their order.
const PAYLOADS: [&str; 12] = [
    "request",
    "trailers",
    "1xx",
    "CONNECT",
    "UDP, datagrams",
    "UDP, capsules",
    "packets",
    "WebSocket",
    "0-RTT",
    "Alt-Svc",
    "migration",
    "bad frames",
];

/// Of a version that its distribution chooses: any other is as good.
const UNPINNED: &str = "(Debian)";

/// Results for a peer in a role, by its name, its role and its version.
type Shown = BTreeMap<(String, String, String), BTreeSet<String>>;

/// Writes the table of the results in this folder into the document, or with `check` only compares the two.
pub fn run(folder: &str, check: bool) -> Result<(), String> {
    let shown = read(Path::new(folder)).map_err(|error| format!("{folder}: {error}"))?;
    let table = render(&shown)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    let (before, rest) = text
        .split_once(BEGIN)
        .ok_or(format!("{DOCUMENT} has no line {BEGIN}"))?;
    let (present, after) = rest
        .split_once(END)
        .ok_or(format!("{DOCUMENT} has no line {END}"))?;

    if !check {
        let text = format!("{before}{BEGIN}{table}{END}{after}");
        return fs::write(&path, text).map_err(|error| format!("{DOCUMENT}: {error}"));
    }

    if unpinned(present) == unpinned(&table) {
        return Ok(());
    }
    Err(format!(
        "{DOCUMENT} says otherwise than the tests, which showed this:\n{table}"
    ))
}

/// One file for each thing that was shown: peer, version, role and payload between tabs.
fn read(folder: &Path) -> io::Result<Shown> {
    let mut shown = Shown::new();
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        let words: Vec<&str> = text.trim_end().split('\t').collect();
        let [peer, version, role, payload] = words[..] else {
            return Err(io::Error::other(format!(
                "{text:?} is no line of four words"
            )));
        };

        let key = (peer.to_owned(), role.to_owned(), version.to_owned());
        shown.entry(key).or_default().insert(payload.to_owned());
    }

    Ok(shown)
}

fn render(shown: &Shown) -> Result<String, String> {
    let unknown = shown
        .values()
        .flatten()
        .find(|payload| !PAYLOADS.contains(&payload.as_str()));
    if let Some(payload) = unknown {
        return Err(format!("no column is called {payload:?}"));
    }

    let mut rows = vec![
        ["peer", "version", "its role"]
            .into_iter()
            .chain(PAYLOADS)
            .map(str::to_owned)
            .collect(),
    ];

    for ((peer, role, version), payloads) in shown {
        let cells = PAYLOADS.map(|payload| {
            if payloads.contains(payload) {
                "yes"
            } else {
                "-"
            }
            .to_owned()
        });
        rows.push(
            [peer, version, role]
                .into_iter()
                .cloned()
                .chain(cells)
                .collect::<Vec<_>>(),
        );
    }

    let widths: Vec<usize> = (0..rows[0].len())
        .map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0))
        .collect();
    rows.insert(1, widths.iter().map(|width| "-".repeat(*width)).collect());
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("| {} |\n", cells.join(" | "))
    };

    Ok(rows.iter().map(line).collect())
}

/// The table without the versions that a distribution chooses, and without the width of columns, which depends on them.
fn unpinned(table: &str) -> Vec<Vec<String>> {
    let cell = |cell: &str| {
        if cell.contains(UNPINNED) {
            UNPINNED
        } else {
            cell.trim().trim_matches('-')
        }
        .to_owned()
    };
    table
        .lines()
        .map(|line| line.split('|').map(cell).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[[&str; 4]]) -> Shown {
        let mut shown = Shown::new();
        for [peer, version, role, payload] in lines.iter().map(|line| line.map(str::to_owned)) {
            shown
                .entry((peer, role, version))
                .or_default()
                .insert(payload);
        }
        shown
    }

    #[test]
    fn a_row_says_yes_where_something_was_shown() {
        let table = render(&shown(&[
            ["a", "1.2", "client", "CONNECT"],
            ["a", "1.2", "client", "request"],
        ]))
        .unwrap();
        let cells: Vec<&str> = table
            .lines()
            .nth(2)
            .unwrap()
            .split('|')
            .map(str::trim)
            .collect();
        assert_eq!(&cells[1..8], ["a", "1.2", "client", "yes", "-", "-", "yes"]);
    }

    #[test]
    fn only_versions_of_a_distribution_may_differ() {
        let of = |version: &str| {
            unpinned(&render(&shown(&[["a", version, "client", "request"]])).unwrap())
        };
        assert_eq!(of("156.0 (Debian)"), of("99 (Debian)"));
        assert_ne!(of("1.2"), of("1.3"));
    }

    #[test]
    fn what_has_no_column_is_an_error() {
        assert!(render(&shown(&[["a", "1", "client", "dreams"]])).is_err());
    }
}
