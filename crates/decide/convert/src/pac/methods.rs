//! Methods of the host, of the URL, and of texts.

use super::condition::{HostPattern, Predicate};
use super::predicates::{host, matches, scheme};
use super::value::Value;

/// The value of a call; `None` for a method or operands that are not understood.
pub(super) fn call(of: &Value, name: &str, operands: &[Value]) -> Option<Value> {
    match of {
        Value::Host => of_host(name, operands),
        Value::Url => of_url(name, operands),
        Value::Text(text) if name == "toLowerCase" && operands.is_empty() => {
            Some(Value::Text(text.to_lowercase()))
        }
        Value::Regex {
            expression,
            folds_case,
        } if name == "test" && matches!(operands, [Value::Host]) => {
            regular(expression, *folds_case).map(Value::Predicate)
        }
        _ => None,
    }
}

fn of_host(name: &str, operands: &[Value]) -> Option<Value> {
    let condition = match (name, operands) {
        ("toLowerCase" | "trim" | "toString", []) => return Some(Value::Host),
        ("indexOf" | "search", [Value::Text(part)]) => {
            return Some(Value::PlaceInHost(part.to_ascii_lowercase()));
        }
        ("includes", [Value::Text(part)]) => matches(regex::escape(part)),
        ("startsWith", [Value::Text(part)]) => matches(format!("^{}", regex::escape(part))),
        // A domain, which routes find by an index, unlike a regular expression.
        ("endsWith", [Value::Text(part)]) if part.starts_with('.') && part.len() > 1 => {
            host(HostPattern::Below(part.to_ascii_lowercase()))
        }
        ("endsWith", [Value::Text(part)]) => matches(format!("{}$", regex::escape(part))),
        (
            "match" | "search",
            [
                Value::Regex {
                    expression,
                    folds_case,
                },
            ],
        ) => regular(expression, *folds_case)?,
        _ => return None,
    };
    Some(Value::Predicate(condition))
}

fn of_url(name: &str, operands: &[Value]) -> Option<Value> {
    match (name, operands) {
        ("toLowerCase" | "trim" | "toString", []) => Some(Value::Url),
        ("indexOf", [Value::Text(part)]) => Some(Value::PlaceInUrl(part.clone())),
        ("startsWith", [Value::Text(part)]) => scheme(part).map(Value::Predicate),
        ("substring" | "slice" | "substr", [Value::Number(from), Value::Number(_)])
            if *from == 0.0 =>
        {
            Some(Value::UrlStart)
        }
        _ => None,
    }
}

/// Hosts that match an expression of the file, if it is one for us too.
fn regular(expression: &str, folds_case: bool) -> Option<Predicate> {
    let expression = match folds_case {
        true => format!("(?i){expression}"),
        false => expression.to_owned(),
    };
    regex::Regex::new(&expression).ok()?;
    Some(matches(expression))
}
