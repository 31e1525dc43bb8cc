//! A parameter is one value with a name: tuples of parameters pass below a limit on their number, and cost every reader a look.

use std::ops::Range;

use crate::budget::Sized;
use crate::rust::{line_of, words};
use crate::tree::{File, Tree};

/// Parameters that are tuples, in the production code of all crates.
const TUPLES: usize = 10;

/// The excess over the budget, if there is any.
pub fn many(tree: &Tree) -> Option<Sized> {
    let production = tree.files.iter().filter(|file| file.is_production());
    let found: Vec<(&str, usize)> = production
        .flat_map(|file| lines(file).into_iter().map(|line| (&*file.path, line)))
        .collect();

    let (path, line) = *found.first()?;
    (found.len() > TUPLES).then(|| Sized {
        subject: "tuples".to_owned(),
        path: path.to_owned(),
        line,
        size: found.len(),
        unit: "and others: parameters that are tuples",
        budget: TUPLES,
        remedy: "give each a name, or make a struct of them".to_owned(),
    })
}

/// The lines of functions' parameters that are tuples.
fn lines(file: &File) -> Vec<usize> {
    let Some(rust) = &file.rust else {
        return Vec::new();
    };
    let code = &rust.production;
    let parameters = words(code, "fn").filter_map(|at| parameters(code, at));

    parameters
        .flat_map(|within| tuples(code, within))
        .map(|at| line_of(code, at))
        .collect()
}

/// Where the parameters of the function begin and end that begins here; `None` for a type of functions.
fn parameters(code: &str, at: usize) -> Option<Range<usize>> {
    let after = at + "fn".len();
    if !code[after..].starts_with(char::is_whitespace) {
        return None;
    }

    let open = after + opening(&code[after..])?;
    let mut depth = 0_usize;
    for (offset, char) in code[open..].char_indices() {
        match char {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(open + 1..open + offset),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Where the parenthesis of the parameters is, behind the function's name and its generic parameters.
fn opening(signature: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, char) in signature.char_indices() {
        match char {
            '(' if depth == 0 => return Some(at),
            '<' => depth += 1,
            '>' if !signature[..at].ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Where parameters begin that are taken apart as tuples: `(a, b): (A, B)`.
fn tuples(code: &str, within: Range<usize>) -> Vec<usize> {
    let from = within.start;
    let mut depth = 0_usize;
    let mut begins = true;
    let mut found = Vec::new();
    for (offset, char) in code[within].char_indices() {
        match char {
            '(' if begins && depth == 0 => found.push(from + offset),
            ',' if depth == 0 => {
                begins = true;
                continue;
            }
            _ => {}
        }

        match char {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '>' if !code[..from + offset].ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        begins &= char.is_whitespace();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        lines(&File::new("crates/a/b/src/c.rs", text))
    }

    #[test]
    fn a_parameter_that_is_taken_apart_is_found_on_its_line() {
        let text = "fn f(\n    a: u8,\n    (b, c): (&B, &C),\n) {}\nfn g((d, e): (D, E)) {}";
        assert_eq!(found(text), [3, 5]);
    }

    #[test]
    fn types_of_tuples_and_of_functions_are_not() {
        let text =
            "fn f<T: Fn((u8, u8)) -> u8>(a: (u8, u8), b: impl Fn(u8, (u8, u8)), c: fn(u8)) {}";
        assert_eq!(found(text), Vec::<usize>::new());
    }
}
