//! Every error that the code can produce, and every end of an exchange, is on the page of errors with its remedy.

use std::collections::BTreeMap;

use crate::report::Violation;
use crate::rust::{identifier, line_of};
use crate::tree::Tree;

/// The page, and the file that lists the ends of exchanges.
const PAGE: &str = "docs/errors.md";
const ENDS: &str = "crates/node/observe/src/reason.rs";

/// How an error of RFC 9209 is named in the code.
const TYPE: &str = "ProxyError::";

/// Checks the page against the code.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let page = tree
        .files
        .iter()
        .find(|file| file.path == PAGE)
        .map_or("", |file| &file.text);
    let rows = rows(page);
    let mut violations = Vec::new();

    for file in tree.files.iter().filter(|file| file.is_production()) {
        let Some(rust) = &file.rust else { continue };
        let mut words: Vec<(usize, String)> = produced(&rust.production);
        if file.path == ENDS {
            words.extend(listed(&file.text));
        }

        for (line, word) in words {
            if !rows
                .get(word.as_str())
                .is_some_and(|cells| cells.iter().all(|cell| !cell.is_empty()))
            {
                let message =
                    format!("`{word}` has no row in {PAGE}: say what happened and what to do");
                violations.push(Violation::new(&file.path, line, message));
            }
        }
    }

    violations
}

/// The rows of the page's tables, by each word in backticks of their first cell.
fn rows(page: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut rows = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        for word in cells[0].split('`').skip(1).step_by(2) {
            rows.insert(word, cells[1..].to_vec());
        }
    }

    rows
}

/// Errors that the code names: `ProxyError::DnsError` is `dns_error` on the wire.
fn produced(code: &str) -> Vec<(usize, String)> {
    let named = code
        .match_indices(TYPE)
        .map(|(at, _)| (line_of(code, at), identifier(&code[at + TYPE.len()..])));
    // `ALL` and functions are no variants.
    named
        .filter(|(_, name)| {
            name.contains(char::is_lowercase) && name.starts_with(char::is_uppercase)
        })
        .map(|(line, name)| (line, snake(name)))
        .collect()
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }

    text
}

/// The words of the list of ends: lines that are one string.
fn listed(text: &str) -> Vec<(usize, String)> {
    let list = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| !line.starts_with("const ENDS"))
        .skip(1);
    let words = list.take_while(|(_, line)| !line.starts_with(']'));
    words
        .map(|(index, line)| (index + 1, line.trim().trim_matches(['"', ',']).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_every_word_of_their_first_cell() {
        let rows = rows("| Reason | Meaning |\n|---|---|\n| `a`, `b_c` | Why |\n| `d` |  |\n");
        assert_eq!(rows["a"], ["Why"]);
        assert_eq!(rows["b_c"], ["Why"]);
        assert_eq!(rows["d"], [""]);
    }

    #[test]
    fn errors_are_named_as_on_the_wire() {
        let code = "x(ProxyError::DnsError);\ny(ProxyError::ALL, ProxyError::TlsAlertReceived)";
        assert_eq!(
            produced(code),
            [
                (1, "dns_error".to_owned()),
                (2, "tls_alert_received".to_owned())
            ]
        );
    }

    #[test]
    fn the_list_of_ends_is_read() {
        let text = "const ENDS: [&str; 2] = [\n    \"done\",\n    \"idle\",\n];\n\"other\",\n";
        assert_eq!(
            listed(text),
            [(2, "done".to_owned()), (3, "idle".to_owned())]
        );
    }
}
