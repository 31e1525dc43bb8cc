//! `hermes status`: what a running node is and does.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::overlay::ask::ControllerSocket;
use super::overlay::overview;
use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Arguments of `hermes status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The state of the overlay, not one node's: its revision, how far a change has spread, and nodes that are not in step.
    #[arg(long, conflicts_with_all = ["admin", "node"])]
    overlay: bool,
    #[command(flatten)]
    controller: ControllerSocket,
    #[command(flatten)]
    which: Which,
}

/// Shows it once.
///
/// # Errors
/// When the node cannot be reached.
pub async fn run(status: &Status, output: Output) -> Result<(), Failure> {
    if status.overlay {
        return overview::status(&status.controller, output).await;
    }
    let answer = admin::ask(&status.which.socket()?, "/status").await?;
    if output.json {
        output.value(&answer)
    } else {
        output.raw(&text(&answer, output.width()))
    }
    Ok(())
}

/// Simple values as lines, lists of objects as tables.
fn text(status: &Value, width: Option<usize>) -> String {
    let mut lines = String::new();
    let mut tables = String::new();
    for (name, value) in status.as_object().into_iter().flatten() {
        match rows(value, width) {
            None if value.as_array().is_some_and(Vec::is_empty) => {}
            Some(rows) => {
                tables.push_str(&format!("\n{}\n{}\n", words(name), rows));
                tables.push_str(&inner(name, value, width).unwrap_or_default());
            }
            None if name == "unconfirmed" => {
                lines.push_str(&line(name, &super::reload::condition(value), width));
            }
            None if name == "given_up" => {
                let revision = format!(
                    "revision {}; how the file differs: hermes diff",
                    value["revision"]
                );
                lines.push_str(&line("given up", &revision, width));
            }
            None if name == "memory" => {
                lines.push_str(&line(name, &memory_line(value), width));
                tables.push_str(&memory_tables(value, width));
            }
            None => lines.push_str(&line(&words(name), &shown(name, value), width)),
        }
    }

    lines + &tables
}

/// The sums.
fn memory_line(memory: &Value) -> String {
    let fields = memory.as_object().into_iter().flatten();
    let sums = fields
        .filter(|(_, value)| value.is_u64())
        .map(|(name, value)| (name.clone(), value.clone()));
    shown("memory", &Value::Object(sums.collect()))
}

/// Charges by purpose where anything is or was refused, and their users.
fn memory_tables(memory: &Value, width: Option<usize>) -> String {
    let purposes = memory["charged_for"].as_object().into_iter().flatten();
    let charges: Vec<Value> = purposes
        .map(|(purpose, bytes)| {
            let refused = &memory["refused_for"][purpose];
            json!({ "purpose": purpose, "charged_bytes": bytes, "refused": refused })
        })
        .filter(|row| row["charged_bytes"] != 0 || row["refused"] != 0)
        .collect();

    let tables = [
        ("charges", Value::Array(charges)),
        ("owners", memory["owners"].clone()),
    ];
    let tables = tables.iter().filter_map(|(name, value)| {
        let rows = rows(value, width)?;
        Some(format!("\n{name}\n{rows}\n"))
    });
    tables.collect()
}

/// A name and a value, which goes on below itself where the line is too long.
fn line(name: &str, value: &str, width: Option<usize>) -> String {
    const NAMES: usize = 18;
    let lines = table::wrapped(value, NAMES, width.unwrap_or(usize::MAX)).join("\n");
    format!("{name:<NAMES$}{}\n", lines.trim_start())
}

/// A table of a list of objects; `None` for anything else. Not all of them have the same keys, so the columns are those of any.
fn rows(value: &Value, width: Option<usize>) -> Option<String> {
    let items = value
        .as_array()
        .filter(|items| !items.is_empty() && items.iter().all(Value::is_object))?;
    let lists = lists(items);
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let names = columns(items.iter(), |name, value| {
        lists.contains(&name) || is_empty(value)
    });
    let header: Vec<String> = names.iter().map(|name| words(name)).collect();
    let row = |item: &Value| names.iter().map(|name| shown(name, &item[*name])).collect();

    Some(table::fitted(
        &header,
        &items.iter().map(row).collect::<Vec<_>>(),
        width,
    ))
}

/// Lists of objects within a list of objects, which have tables of their own: of the `upstreams`, the `endpoints`.
fn inner(outer: &str, value: &Value, width: Option<usize>) -> Option<String> {
    let items = value.as_array()?;
    let names = lists(items);
    let tables = names
        .iter()
        .map(|name| inner_table(outer, items, name, width));
    Some(tables.collect())
}

/// A table of objects of one kind. A key that none of them has gets no column.
fn inner_table(outer: &str, items: &[Value], name: &str, width: Option<usize>) -> String {
    let lists = items
        .iter()
        .filter_map(|item| Some((&item["name"], item[name].as_array()?)));
    let all: Vec<(&Value, &Value)> = lists
        .flat_map(|(of, list)| list.iter().map(move |object| (of, object)))
        .collect();
    let names = columns(all.iter().map(|(_, object)| *object), |_, value| {
        value.is_null()
    });
    let header = std::iter::once(words(outer.trim_end_matches('s')))
        .chain(names.iter().map(|name| words(name)));
    let row = |(of, object): (&Value, &Value)| {
        let cells = names.iter().map(|name| shown(name, &object[*name]));
        std::iter::once(shown("", of)).chain(cells).collect()
    };

    let rows: Vec<Vec<String>> = all.into_iter().map(row).collect();
    format!(
        "\n{}\n{}\n",
        words(name),
        table::fitted(&header.collect::<Vec<_>>(), &rows, width)
    )
}

/// The keys of these objects in the order of their first appearance, without those to leave out.
fn columns<'a>(
    items: impl Iterator<Item = &'a Value>,
    left_out: impl Fn(&str, &Value) -> bool,
) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (name, value) in items.filter_map(Value::as_object).flatten() {
        if !names.contains(&name.as_str()) && !left_out(name, value) {
            names.push(name.as_str());
        }
    }
    names
}

/// The keys under which any of the objects has a list of objects; the list of another may be empty.
fn lists(items: &[Value]) -> Vec<&str> {
    let fields = items.iter().filter_map(Value::as_object).flatten();
    let mut names = Vec::new();
    for (name, _) in fields.filter(|(_, value)| is_list(value)) {
        if !names.contains(&name.as_str()) {
            names.push(name.as_str());
        }
    }
    names
}

/// A list of objects.
fn is_list(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_object))
}

/// `open_files` reads `open files`.
fn words(name: &str) -> String {
    name.trim_end_matches("_seconds")
        .trim_end_matches("_bytes")
        .replace('_', " ")
}

/// A value, in the unit that its name ends with.
fn shown(name: &str, value: &Value) -> String {
    match (value, value.as_u64()) {
        (_, Some(count)) if name.ends_with("_bytes") => table::bytes(count),
        (_, Some(count)) if name.ends_with("_seconds") => table::age(Duration::from_secs(count)),
        (Value::Null, _) => table::NOTHING.to_owned(),
        (Value::String(text), _) => text.clone(),
        (Value::Array(items), _) => items
            .iter()
            .map(|item| shown("", item))
            .collect::<Vec<_>>()
            .join(", "),
        (Value::Object(fields), _) => {
            let known = fields.iter().filter(|(_, value)| !value.is_null());
            let pairs =
                known.map(|(name, value)| format!("{} {}", words(name), shown(name, value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        (other, _) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_objects_become_tables_after_the_lines() {
        let status = json!({
            "node": "alice",
            "listeners": [{"name": "web", "address": "127.0.0.1:8080"}],
            "uptime_seconds": 125,
            "resident_bytes": 1536,
        });
        let text = text(&status, None);
        assert!(
            text.starts_with(
                "node              alice\nuptime            2m 05s\nresident          1.5 KiB\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("\nlisteners\n") && text.contains("127.0.0.1:8080"),
            "{text}"
        );
    }

    #[test]
    fn lists_within_lists_have_a_table_of_their_own() {
        let endpoints = |http: Value| json!([{"address": "a:1", "zone": null, "http": http}, {"address": "a:2", "why": "x"}]);
        let status = json!({ "upstreams": [
            {"name": "near", "tls": true, "endpoints": endpoints(json!(2))},
            {"name": "far", "tls": false, "endpoints": endpoints(Value::Null)},
        ]});
        let text = text(&status, None);
        assert!(
            text.starts_with("\nupstreams\n name  tls\n near  true\n"),
            "{text}"
        );
        let table = "endpoints\n upstream  address  http  why\n near      a:1      2     -\n near      a:2      -     x\n far";
        assert!(text.contains(table), "{text}");
    }

    #[test]
    fn an_upstream_without_endpoints_leaves_the_tables_whole() {
        let status = json!({ "upstreams": [
            {"name": "users", "tls": false, "attached": "{target.host}", "endpoints": []},
            {"name": "edge", "tls": true, "endpoints": [{"address": "127.0.0.1:8444"}], "panics": false},
        ]});
        let expected = "\nupstreams\n name   tls    attached       panics\n users  false  {target.host}  -\n edge   true   -              false\n\
                        \nendpoints\n upstream  address\n edge      127.0.0.1:8444\n";
        assert_eq!(text(&status, None), expected);
        let alone =
            json!({ "upstreams": [{"name": "users", "attached": "alice", "endpoints": []}]});
        assert_eq!(
            text(&alone, None),
            "\nupstreams\n name   attached\n users  alice\n"
        );
    }

    #[test]
    fn memory_is_shown_by_purpose_and_owner() {
        let status = json!({ "memory": {
            "held_bytes": 0,
            "charged_bytes": 2048,
            "charged_for": { "heads": 2048, "replays": 0, "stack": 0 },
            "refused_charges": 7,
            "refused_for": { "heads": 0, "replays": 7, "stack": 0 },
            "owners": [{ "owner": "user alice", "charged_bytes": 2048 }],
        }});
        let expected = "memory            held 0 B, charged 2.0 KiB, refused charges 7\n\
                        \ncharges\n purpose  charged  refused\n heads    2.0 KiB  0\n replays  0 B      7\n\
                        \nowners\n owner       charged\n user alice  2.0 KiB\n";
        assert_eq!(text(&status, None), expected);
    }

    #[test]
    fn nothing_is_a_dash() {
        assert_eq!(shown("user", &Value::Null), "-");
        assert_eq!(shown("exchanges", &json!({"live": 3})), "live 3");
    }
}
