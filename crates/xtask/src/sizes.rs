//! Size budgets: a file and a function that can be read at one go, with an allow-list that may only shrink.

use crate::report::Violation;
use crate::tree::{File, Tree};

/// Lines of a production file, its test module not counted. The aim is 250.
const FILE_LINES: usize = 450;
/// Lines of a production function, from `fn` to the closing brace. The aim is 25.
const FUNCTION_LINES: usize = 60;
/// The exceptions, each with its ceiling and its reason.
const ALLOW: &str = "crates/xtask/allow.txt";

/// Something that has a size.
#[derive(Debug, PartialEq, Eq)]
struct Sized {
    /// `path` of a file, or `path::function`.
    subject: String,
    path: String,
    line: usize,
    lines: usize,
    budget: usize,
}

/// An exception: `subject <= ceiling: reason`.
#[derive(Debug, PartialEq, Eq)]
struct Allowed {
    subject: String,
    ceiling: usize,
    line: usize,
}

/// Checks every production file and function, and the allow-list itself.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let list = tree.files.iter().find(|file| file.path == ALLOW).map_or("", |file| &file.text);
    let production = tree.files.iter().filter(|file| file.is_production());
    let large: Vec<Sized> = production.flat_map(large).collect();
    let (allowed, mut violations) = parse(list);
    violations.extend(judge(&large, &allowed));
    violations
}

/// What is over its budget in one file.
fn large(file: &File) -> Vec<Sized> {
    let Some(rust) = &file.rust else { return Vec::new() };
    let sized = |subject, line, lines, budget| Sized { subject, path: file.path.clone(), line, lines, budget };
    let functions = rust.functions().into_iter().map(|function| {
        let subject = format!("{}::{}", file.path, function.name);
        sized(subject, function.line, function.lines, FUNCTION_LINES)
    });
    let whole = sized(file.path.clone(), 0, rust.production_lines, FILE_LINES);
    functions.chain([whole]).filter(|sized| sized.lines > sized.budget).collect()
}

/// The entries of the allow-list, and what is wrong with its lines.
fn parse(list: &str) -> (Vec<Allowed>, Vec<Violation>) {
    let (mut allowed, mut violations) = (Vec::new(), Vec::new());
    let lines = list.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    for (index, line) in lines {
        match entry(line) {
            Some((subject, ceiling)) => allowed.push(Allowed { subject, ceiling, line: index + 1 }),
            None => violations.push(Violation::new(ALLOW, index + 1, "write `path[::function] <= lines: reason`")),
        }
    }
    (allowed, violations)
}

fn entry(line: &str) -> Option<(String, usize)> {
    let (subject, rest) = line.split_once(" <= ")?;
    let (ceiling, reason) = rest.split_once(": ")?;
    let ceiling = ceiling.trim().parse().ok()?;
    (!reason.trim().is_empty()).then(|| (subject.trim().to_owned(), ceiling))
}

fn judge(large: &[Sized], allowed: &[Allowed]) -> Vec<Violation> {
    let too_large = large.iter().filter_map(|sized| {
        let ceiling =
            allowed.iter().find(|entry| entry.subject == sized.subject).map_or(sized.budget, |entry| entry.ceiling);
        (sized.lines > ceiling).then(|| over(sized, ceiling))
    });
    let needed = |entry: &Allowed| large.iter().any(|sized| sized.subject == entry.subject);
    let stale = allowed.iter().filter(|entry| !needed(entry)).map(|entry| {
        Violation::new(ALLOW, entry.line, format!("{} is within its budget now; remove this line", entry.subject))
    });
    too_large.chain(stale).collect()
}

fn over(sized: &Sized, ceiling: usize) -> Violation {
    let name = sized.subject.rsplit_once("::").map_or("file", |(_, name)| name);
    let message = format!("{name} has {} lines, more than {ceiling}; split it by phase or by concept", sized.lines);
    Violation::new(&sized.path, sized.line, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(subject: &str, lines: usize) -> Sized {
        Sized { subject: subject.into(), path: subject.into(), line: 0, lines, budget: FILE_LINES }
    }

    fn messages(large: &[Sized], list: &str) -> Vec<String> {
        let (allowed, mut violations) = parse(list);
        violations.extend(judge(large, &allowed));
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_function_is_found_by_name() {
        let text = format!("//! Doc.\nfn long() {{\n{}}}\n", "    1;\n".repeat(59));
        let found = large(&File::new("crates/a/src/b.rs", &text));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].subject.as_str(), found[0].lines), ("crates/a/src/b.rs::long", 61));
    }

    #[test]
    fn a_file_at_its_budget_passes() {
        let file = |lines| File::new("crates/a/src/b.rs", &"//\n".repeat(lines));
        assert!(large(&file(FILE_LINES)).is_empty());
        assert_eq!(large(&file(FILE_LINES + 1)).len(), 1);
    }

    #[test]
    fn an_exception_holds_up_to_its_ceiling() {
        assert!(messages(&[sized("a.rs", 500)], "# why\n\na.rs <= 500: one table\n").is_empty());
        assert!(messages(&[sized("a.rs", 501)], "a.rs <= 500: one table\n")[0].contains("more than 500"));
    }

    #[test]
    fn an_exception_that_is_not_needed_fails() {
        assert_eq!(
            messages(&[], "a.rs <= 500: x"),
            [format!("{ALLOW}:1: a.rs is within its budget now; remove this line")]
        );
    }

    #[test]
    fn an_exception_needs_a_reason() {
        assert!(messages(&[], "a.rs <= 500:  ")[0].contains("reason"));
        assert!(messages(&[], "a.rs")[0].contains("reason"));
    }
}
