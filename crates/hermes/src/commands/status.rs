//! `hermes status`: what a running node is and does.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Arguments of `hermes status`.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    which: Which,
}

/// Shows it once.
///
/// # Errors
/// When the node cannot be reached.
pub async fn run(status: &Status, output: Output) -> Result<(), Failure> {
    let answer = admin::ask(&status.which.socket()?, "/status").await?;
    if output.json {
        output.value(&answer)
    } else {
        output.raw(&text(&answer))
    }
    Ok(())
}

/// Simple values as lines, lists of objects as tables.
fn text(status: &Value) -> String {
    let mut lines = String::new();
    let mut tables = String::new();
    for (name, value) in status.as_object().into_iter().flatten() {
        match rows(value) {
            None if value.as_array().is_some_and(Vec::is_empty) => {}
            Some(rows) => {
                tables.push_str(&format!("\n{}\n{}\n", words(name), rows));
                tables.push_str(&inner(name, value).unwrap_or_default());
            }
            None => lines.push_str(&format!("{:<18}{}\n", words(name), shown(name, value))),
        }
    }
    lines + &tables
}

/// A table of a list of objects; `None` for anything else.
fn rows(value: &Value) -> Option<String> {
    let items = value.as_array().filter(|items| !items.is_empty() && items.iter().all(Value::is_object))?;
    let names: Vec<&String> =
        items[0].as_object()?.iter().filter(|field| !is_list(field.1)).map(|field| field.0).collect();
    let header: Vec<String> = names.iter().map(|name| words(name)).collect();
    let mut table = table::plain(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for item in items {
        table.add_row(names.iter().map(|name| shown(name, &item[name.as_str()])).collect::<Vec<_>>());
    }
    Some(table.trim_fmt())
}

/// Lists of objects within a list of objects, which have a table of their own: of the `upstreams`, the `endpoints`. What
/// is not known of any of them has no column.
fn inner(outer: &str, value: &Value) -> Option<String> {
    let items = value.as_array()?;
    let name = items.iter().find_map(|item| item.as_object()?.iter().find(|field| is_list(field.1)))?.0;
    let lists = items.iter().filter_map(|item| Some((&item["name"], item[name.as_str()].as_array()?)));
    let all: Vec<(&Value, &Value)> = lists.flat_map(|(of, list)| list.iter().map(move |object| (of, object))).collect();
    let mut names: Vec<&String> = Vec::new();
    for (field, value) in all.iter().filter_map(|(_, object)| object.as_object()).flatten() {
        if !value.is_null() && !names.contains(&field) {
            names.push(field);
        }
    }
    let header = std::iter::once(words(outer.trim_end_matches('s'))).chain(names.iter().map(|name| words(name)));
    let mut table = table::plain(&header.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
    for (of, object) in all {
        let cells = names.iter().map(|name| shown(name, &object[name.as_str()]));
        table.add_row(std::iter::once(shown("", of)).chain(cells).collect::<Vec<_>>());
    }
    Some(format!("\n{}\n{}\n", words(name), table.trim_fmt()))
}

/// A list of objects.
fn is_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_object))
}

/// `open_files` reads `open files`.
fn words(name: &str) -> String {
    name.trim_end_matches("_seconds").trim_end_matches("_bytes").replace('_', " ")
}

/// A value, in the unit that its name ends with.
fn shown(name: &str, value: &Value) -> String {
    match (value, value.as_u64()) {
        (_, Some(count)) if name.ends_with("_bytes") => table::bytes(count),
        (_, Some(count)) if name.ends_with("_seconds") => table::age(Duration::from_secs(count)),
        (Value::Null, _) => "-".to_owned(),
        (Value::String(text), _) => text.clone(),
        (Value::Array(items), _) => items.iter().map(|item| shown("", item)).collect::<Vec<_>>().join(", "),
        (Value::Object(fields), _) => {
            let known = fields.iter().filter(|(_, value)| !value.is_null());
            let pairs = known.map(|(name, value)| format!("{} {}", words(name), shown(name, value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        (other, _) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_objects_become_tables_after_the_lines() {
        let status = json!({
            "node": "alice",
            "listeners": [{"name": "web", "address": "127.0.0.1:8080"}],
            "uptime_seconds": 125,
            "resident_bytes": 1536,
        });
        let text = text(&status);
        assert!(
            text.starts_with("node              alice\nuptime            2m 05s\nresident          1.5 KiB\n"),
            "{text}"
        );
        assert!(text.contains("\nlisteners\n") && text.contains("127.0.0.1:8080"), "{text}");
    }

    #[test]
    fn lists_within_lists_have_a_table_of_their_own() {
        let endpoints =
            |http: Value| json!([{"address": "a:1", "zone": null, "http": http}, {"address": "a:2", "why": "x"}]);
        let status = json!({ "upstreams": [
            {"name": "near", "tls": true, "endpoints": endpoints(json!(2))},
            {"name": "far", "tls": false, "endpoints": endpoints(Value::Null)},
        ]});
        let text = text(&status);
        assert!(text.starts_with("\nupstreams\n name  tls\n near  true\n"), "{text}");
        let table =
            "endpoints\n upstream  address  http  why\n near      a:1      2     -\n near      a:2      -     x\n far";
        assert!(text.contains(table), "{text}");
    }

    #[test]
    fn nothing_is_a_dash() {
        assert_eq!(shown("user", &Value::Null), "-");
        assert_eq!(shown("exchanges", &json!({"live": 3})), "live 3");
    }
}
