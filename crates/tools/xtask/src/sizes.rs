//! Size budgets: a file, a function, a struct and a circle of imports that can be read at one go, with an allow-list that may
//! only shrink.
//!
//! What a reader carries in his head is the number of things said, not of lines: sizes are in tokens, so that air costs nothing.

use crate::budget::Sized;
use crate::circles;
use crate::names;
use crate::reasons;
use crate::report::Violation;
use crate::tree::{File, Tree};
use crate::tuples;

/// Tokens of a production file, its test module not counted. The aim is 2,500.
const FILE_TOKENS: usize = 5_000;
/// Tokens of a production function, from `fn` to the closing brace. The aim is 120.
const FUNCTION_TOKENS: usize = 500;
/// Fields of a struct.
const FIELDS: usize = 12;
/// The usual remedy for large code.
const SPLIT: &str = "split it by phase or by concept";
/// The exceptions, each with its ceiling and its reason.
const ALLOW: &str = "crates/tools/xtask/allow.txt";

/// An exception: `subject <= ceiling: reason`.
#[derive(Debug, PartialEq, Eq)]
struct Allowed {
    subject: String,
    ceiling: usize,
    line: usize,
}

/// Checks every production file and function, and the allow-list itself.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let list = tree
        .files
        .iter()
        .find(|file| file.path == ALLOW)
        .map_or("", |file| &file.text);
    let production = tree.files.iter().filter(|file| file.is_production());
    let mut large: Vec<Sized> = production.flat_map(large).collect();
    large.extend(names::shared(tree));
    large.extend(circles::large(tree));
    large.extend(tuples::many(tree));
    large.extend(reasons::few(tree));
    let (allowed, mut violations) = parse(list);
    violations.extend(judge(&large, &allowed));

    violations
}

/// The parts of one file that are over their budget.
fn large(file: &File) -> Vec<Sized> {
    let Some(rust) = &file.rust else {
        return Vec::new();
    };
    let mut sized = vec![Sized {
        subject: file.path.clone(),
        path: file.path.clone(),
        line: 0,
        size: rust.tokens(),
        unit: "tokens",
        budget: FILE_TOKENS,
        remedy: SPLIT.into(),
    }];

    sized.extend(rust.functions().into_iter().map(|function| Sized {
        subject: format!("{}::{}", file.path, function.name),
        path: file.path.clone(),
        line: function.line,
        size: function.tokens,
        unit: "tokens",
        budget: FUNCTION_TOKENS,
        remedy: SPLIT.into(),
    }));

    sized.extend(rust.types().into_iter().map(|named| Sized {
        subject: format!("{}::{}", file.path, named.name),
        path: file.path.clone(),
        line: named.line,
        size: named.fields,
        unit: "fields",
        budget: FIELDS,
        remedy: SPLIT.into(),
    }));

    sized.retain(|sized| sized.size > sized.budget);
    sized
}

/// The entries of the allow-list, and its malformed lines.
fn parse(list: &str) -> (Vec<Allowed>, Vec<Violation>) {
    let mut allowed = Vec::new();
    let mut violations = Vec::new();
    let lines = list
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));

    for (index, line) in lines {
        match entry(line) {
            Some((subject, ceiling)) => allowed.push(Allowed {
                subject,
                ceiling,
                line: index + 1,
            }),
            None => violations.push(Violation::new(
                ALLOW,
                index + 1,
                "write `path[::name] <= size: reason`",
            )),
        }
    }

    (allowed, violations)
}

fn entry(line: &str) -> Option<(String, usize)> {
    let (subject, rest) = line.split_once(" <= ")?;
    let (ceiling, reason) = rest.split_once(": ")?;
    let ceiling = ceiling.trim_end_matches(" percent").trim().parse().ok()?;
    (!reason.trim().is_empty()).then(|| (subject.trim().to_owned(), ceiling))
}

fn judge(large: &[Sized], allowed: &[Allowed]) -> Vec<Violation> {
    let too_large = large.iter().filter_map(|sized| {
        let ceiling = allowed
            .iter()
            .find(|entry| entry.subject == sized.subject)
            .map_or(sized.budget, |entry| entry.ceiling);
        (sized.size > ceiling).then(|| over(sized, ceiling))
    });

    let needed = |entry: &Allowed| large.iter().any(|sized| sized.subject == entry.subject);
    let stale = allowed.iter().filter(|entry| !needed(entry)).map(|entry| {
        Violation::new(
            ALLOW,
            entry.line,
            format!(
                "{} is within its budget now; remove this line",
                entry.subject
            ),
        )
    });

    too_large.chain(stale).collect()
}

fn over(sized: &Sized, ceiling: usize) -> Violation {
    let whole = if sized.path.ends_with(".rs") {
        "file"
    } else {
        "the crate"
    };

    let name = sized
        .subject
        .rsplit_once("::")
        .map_or(whole, |(_, name)| name);
    let Sized {
        size, unit, remedy, ..
    } = sized;
    let message = format!("{name} has {size} {unit}, more than {ceiling}; {remedy}");

    Violation::new(&sized.path, sized.line, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(subject: &str, size: usize) -> Sized {
        Sized {
            subject: subject.into(),
            path: subject.into(),
            line: 0,
            size,
            unit: "tokens",
            budget: FILE_TOKENS,
            remedy: SPLIT.into(),
        }
    }

    fn messages(large: &[Sized], list: &str) -> Vec<String> {
        let (allowed, mut violations) = parse(list);
        violations.extend(judge(large, &allowed));
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_function_is_found_by_name() {
        let text = format!("//! Doc.\nfn long() {{\n{}}}\n", "    1;\n".repeat(250));
        let found = large(&File::new("crates/a/src/b.rs", &text));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].subject.as_str(), found[0].size),
            ("crates/a/src/b.rs::long", 506)
        );
    }

    #[test]
    fn a_file_at_its_budget_passes_and_comments_cost_nothing() {
        let file = |tokens| File::new("crates/a/src/b.rs", &"; // a reason\n\n".repeat(tokens));
        assert!(large(&file(FILE_TOKENS)).is_empty());
        assert_eq!(large(&file(FILE_TOKENS + 1)).len(), 1);
    }

    #[test]
    fn a_struct_with_too_many_fields_is_found() {
        let text = |fields| format!("struct A {{\n{}}}\n", "    a: u8,\n".repeat(fields));
        let found = |fields| large(&File::new("crates/a/src/b.rs", &text(fields))).len();
        assert_eq!((found(FIELDS), found(FIELDS + 1)), (0, 1));
    }

    #[test]
    fn an_exception_holds_up_to_its_ceiling() {
        assert!(messages(&[sized("a.rs", 5100)], "# why\n\na.rs <= 5100: one table\n").is_empty());
        assert!(
            messages(&[sized("a.rs", 5101)], "a.rs <= 5100: one table\n")[0]
                .contains("more than 5100")
        );
    }

    #[test]
    fn a_share_is_written_in_percent() {
        assert_eq!(
            entry("crates/a <= 48 percent: x"),
            Some(("crates/a".into(), 48))
        );
    }

    #[test]
    fn an_exception_that_is_not_needed_fails() {
        assert_eq!(
            messages(&[], "a.rs <= 500: x"),
            [format!(
                "{ALLOW}:1: a.rs is within its budget now; remove this line"
            )]
        );
    }

    #[test]
    fn an_exception_needs_a_reason() {
        assert!(messages(&[], "a.rs <= 500:  ")[0].contains("reason"));
        assert!(messages(&[], "a.rs")[0].contains("reason"));
    }
}
