//! The page of bounds, made from the constants that are marked as such: `#[doc(alias = "bound")]`, or
//! `#[doc(alias("bound", "limits.fields"))]` where the constant is the default of a key of the configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::report::Violation;
use crate::tree::{File, Tree};

/// The page, how the paths of the pages of the configuration begin, and what makes the former.
const PAGE: &str = "docs/bounds.md";
const CONFIGURATION: &str = "docs/configuration";
const COMMAND: &str = "cargo xtask bounds";

/// How the attribute begins, and the alias that marks a constant.
const ATTRIBUTE: &str = "#[doc(alias";
const MARK: &str = "bound";

const HEAD: &str = "\
# Bounds

<!-- Made by `cargo xtask bounds` from the constants of the code: edit those. -->

Every queue, table, head, capsule and timer of Hermes has a bound with a name, a unit and a reason. This page is made from the
constants of the code. A bound that the configuration can change names its key; its value here is the default. What HTTP/2 peers
may cost depends on who they are: see [the two profiles](configuration/listeners.md#what-else-is-bounded).
";

/// One bound as the code has it.
#[derive(Debug, PartialEq, Eq)]
struct Bound {
    line: usize,
    name: String,
    value: String,
    /// The first paragraph of its documentation: the bounded thing, and the reason.
    reason: String,
    /// The keys of the configuration that replace it.
    keys: Vec<String>,
}

/// Writes the page anew.
///
/// # Errors
/// A sentence, where a bound is not documented or the page cannot be written.
pub fn run(tree: &Tree) -> Result<(), String> {
    let (page, violations) = render(tree);
    if let Some(violation) = violations.first() {
        return Err(violation.to_string());
    }
    fs::write(tree.root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

/// Does the page agree with the code?
pub fn check(tree: &Tree) -> Vec<Violation> {
    let (page, mut violations) = render(tree);
    if text(tree, PAGE) != page {
        let message = format!("says otherwise than the code: run `{COMMAND}`");
        violations.push(Violation::new(PAGE, 0, message));
    }
    violations
}

fn text<'a>(tree: &'a Tree, path: &str) -> &'a str {
    let file = tree.files.iter().find(|file| file.path == path);
    file.map_or("", |file| &file.text)
}

/// The page, and constants without documentation.
fn render(tree: &Tree) -> (String, Vec<Violation>) {
    let configuration = pages(tree);
    let mut crates: BTreeMap<&str, Vec<(&File, Bound)>> = BTreeMap::new();
    let mut violations = Vec::new();

    for file in tree.files.iter().filter(|file| file.is_production()) {
        let folder = file.path.split('/').nth(2).unwrap_or_default();
        for bound in bounds(&file.text) {
            violations.extend(faults(file, &bound, &configuration));
            crates.entry(folder).or_default().push((file, bound));
        }
    }

    let mut page = HEAD.to_owned();
    for (folder, bounds) in &mut crates {
        bounds.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
        let _ = write!(
            page,
            "\n## {folder}\n\n| Bound | Value | What it bounds, and why | File |\n|---|---|---|---|\n"
        );

        for (file, bound) in bounds {
            page.push_str(&row(file, bound, &configuration));
        }
    }

    (page, violations)
}

fn row(file: &File, bound: &Bound, configuration: &[&File]) -> String {
    let links = bound.keys.iter().filter_map(|key| {
        let link = link(configuration, key)?;
        Some(format!(", [`{key}`]({link})"))
    });
    let name = format!("`{}`{}", bound.name, links.collect::<String>());
    let path = &file.path;
    let short = path
        .split_once("/src/")
        .map_or(path.as_str(), |(_, short)| short);
    let reason = bound.reason.replace('|', "\\|");

    format!(
        "| {name} | {} | {reason} | [{short}](../{path}) |\n",
        bound.value
    )
}

fn faults(file: &File, bound: &Bound, configuration: &[&File]) -> Vec<Violation> {
    let name = &bound.name;
    let mut faults = Vec::new();
    if bound.reason.is_empty() {
        faults.push(format!(
            "`{name}` is a bound: document what it bounds, and why"
        ));
    }

    for key in &bound.keys {
        if link(configuration, key).is_none() {
            faults.push(format!(
                "`{name}`: no page of {CONFIGURATION} has a row for the key `{key}`"
            ));
        }
    }

    let at = |message| Violation::new(&file.path, bound.line, message);
    faults.into_iter().map(at).collect()
}

/// The marked constants of a file.
fn bounds(text: &str) -> Vec<Bound> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let marks = lines.iter().enumerate().filter_map(|(at, line)| {
        let aliases = line.starts_with(ATTRIBUTE).then(|| aliases(line))?;
        let (marks, keys): (Vec<String>, _) = aliases.into_iter().partition(|alias| alias == MARK);
        (!marks.is_empty()).then_some((at, keys))
    });

    marks
        .filter_map(|(at, keys)| bound(&lines, at, keys))
        .collect()
}

/// The strings of an attribute.
fn aliases(line: &str) -> Vec<String> {
    line.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The constant of the attribute on this line.
fn bound(lines: &[&str], at: usize, keys: Vec<String>) -> Option<Bound> {
    let of_item = |line: &&str| line.starts_with("///") || line.starts_with("#[");
    let start = at
        - lines[..at]
            .iter()
            .rev()
            .take_while(|line| of_item(line))
            .count();

    let item = at + lines[at..].iter().take_while(|line| of_item(line)).count();

    let words = lines[start..item]
        .iter()
        .filter_map(|line| line.strip_prefix("///"));
    let paragraph: Vec<&str> = words
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();

    let definition = definition(&lines[item..]);
    let (head, value) = definition.split_once(" = ")?;
    let name = head.split_once("const ")?.1.split(':').next()?;

    Some(Bound {
        line: item + 1,
        name: name.to_owned(),
        value: readable(value),
        reason: unlinked(&paragraph.join(" ")),
        keys,
    })
}

/// A definition on one line, without its semicolon.
fn definition(lines: &[&str]) -> String {
    let length = lines.iter().take_while(|line| !line.ends_with(';')).count();
    let whole = lines[..lines.len().min(length + 1)].join(" ");
    whole.trim_end_matches(';').to_owned()
}

/// A value as written, but for durations, which get their unit.
fn readable(value: &str) -> String {
    let mut rest = value;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once("Duration::from_") {
        let Some((unit, (number, end))) = after
            .split_once('(')
            .and_then(|(unit, after)| Some((unit, after.split_once(')')?)))
        else {
            break;
        };

        let unit = match unit {
            "secs" => "s",
            "millis" => "ms",
            "micros" => "µs",
            other => other,
        };

        let _ = write!(text, "{before}{number} {unit}");
        rest = end;
    }

    text.push_str(rest);
    format!(
        "`{}`",
        text.trim_start_matches('(').trim_end_matches(')').trim()
    )
}

/// Links of rustdoc to items are only their text.
fn unlinked(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

/// The pages of the configuration.
fn pages(tree: &Tree) -> Vec<&File> {
    let pages = tree.files.iter().filter(|file| {
        let rest = file.path.strip_prefix(CONFIGURATION);
        rest.is_some_and(|rest| rest.ends_with(".md"))
    });
    pages.collect()
}

/// Where the pages of the configuration document a key, from the page of bounds.
fn link(pages: &[&File], key: &str) -> Option<String> {
    pages.iter().find_map(|page| {
        let anchor = anchor(&page.text, key)?;
        let path = page.path.trim_start_matches("docs/");
        Some(format!("{path}#{anchor}"))
    })
}

/// Where a page of the configuration documents a key: the anchor of the last heading before a row with it. A row has the whole
/// key, or what follows its first part where the heading or the head of the table has that.
fn anchor(configuration: &str, key: &str) -> Option<String> {
    let (section, part) = key.split_once('.').unwrap_or(("", key));
    let mut heading = "";
    let mut table = "";
    let mut before = "";

    for line in configuration.lines() {
        if line.starts_with("##") {
            heading = line.trim_start_matches('#').trim();
            table = "";
        }

        if line.starts_with('|') && !before.starts_with('|') {
            table = line;
        }
        before = line;
        let Some(cell) = line.strip_prefix('|').and_then(|row| row.split('|').next()) else {
            continue;
        };

        let of_section =
            section.is_empty() || [heading, table].iter().any(|head| has(head, section));
        if has(cell, key) || of_section && has(cell, part) {
            return Some(slug(heading));
        }
    }

    None
}

/// Is the word in the text, in backticks?
fn has(text: &str, word: &str) -> bool {
    text.split('`').skip(1).step_by(2).any(|code| code == word)
}

/// The anchor that a page gives a heading.
fn slug(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Bound {
        let mut found = bounds(text);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn a_marked_constant_is_read_with_its_reason_and_value() {
        let bound = only(
            "/// Bytes of one file; see [`FILES`]:\n/// longer ones are refused.\n///\n/// More.\n#[doc(alias = \"bound\")]\n\
             pub(crate) const FILE_BYTES: u64 = 4 << 20;\n",
        );
        assert_eq!(
            (bound.line, bound.name.as_str(), bound.value.as_str()),
            (6, "FILE_BYTES", "`4 << 20`")
        );
        assert_eq!(
            bound.reason,
            "Bytes of one file; see `FILES`: longer ones are refused."
        );
        assert!(bound.keys.is_empty());
    }

    #[test]
    fn keys_stand_beside_the_mark() {
        let bound = only(
            "/// A.\n#[doc(alias(\"bound\", \"limits.fields\"))]\nconst FIELDS: usize = 128;\n",
        );
        assert_eq!(bound.keys, ["limits.fields"]);
    }

    #[test]
    fn other_constants_and_aliases_are_no_bounds() {
        assert!(bounds("/// A bound.\nconst A: usize = 1;\n#[doc(alias = \"other\")]\nconst B: usize = 2;\n").is_empty());
    }

    #[test]
    fn durations_are_written_with_their_unit() {
        assert_eq!(readable("Duration::from_secs(5)"), "`5 s`");
        assert_eq!(
            readable("Duration::from_millis(10)..=Duration::from_millis(500)"),
            "`10 ms..=500 ms`"
        );
        assert_eq!(
            readable("(Duration::from_secs(1), Duration::from_secs(300))"),
            "`1 s, 300 s`"
        );
        let long = "/// A.\n#[doc(alias = \"bound\")]\nconst A: RangeInclusive<Duration> =\n    Duration::from_millis(10)..=Duration::from_millis(500);\n";
        assert_eq!(only(long).value, "`10 ms..=500 ms`");
    }

    #[test]
    fn keys_are_found_where_the_configuration_documents_them() {
        let page = "## `listeners`\n\n| Key of `limits` | Default |\n|---|---|\n| `fields` | 128 |\n\n### Balance, health & limits\n\n\
                    | Key | Default |\n|---|---|\n| `limits.pending` | 1024 |\n";
        assert_eq!(anchor(page, "limits.fields").as_deref(), Some("listeners"));
        assert_eq!(
            anchor(page, "limits.pending").as_deref(),
            Some("balance-health--limits")
        );
        assert_eq!(anchor(page, "fields").as_deref(), Some("listeners"));
        assert_eq!(anchor(page, "timeouts.fields"), None);
    }

    #[test]
    fn a_bound_without_reason_or_with_an_unknown_key_is_a_fault() {
        let file = File::new(
            "crates/a/src/lib.rs",
            "#[doc(alias(\"bound\", \"nowhere\"))]\nconst A: usize = 1;\n",
        );
        let bound = only(&file.text);
        assert_eq!(faults(&file, &bound, &[]).len(), 2);
    }
}
