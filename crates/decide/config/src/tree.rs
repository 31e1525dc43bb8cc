//! A document as it is written: values with their places.

use serde_json::Value as Json;

use crate::Place;

/// A value and where it is written.
#[derive(Clone)]
pub(crate) struct Node {
    /// The value.
    pub(crate) value: Value,
    /// Where it begins.
    pub(crate) place: Place,
    /// The text of a plain scalar, one without quotes: it decides the type.
    pub(crate) plain: Option<String>,
    /// The text with variables that the value was expanded from.
    pub(crate) variables: Option<String>,
}

/// A value of the YAML core schema.
#[derive(Clone)]
pub(crate) enum Value {
    Null,
    /// A scalar with variables that cannot be expanded; reported already.
    Unread,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// An entry of a map.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Where the key is written.
    pub(crate) place: Place,
    pub(crate) node: Node,
}

impl Entry {
    /// The place where problems of the entry are shown: a scalar at its value, a map or list at its key.
    pub(crate) fn shown(&self) -> &Place {
        match self.node.value {
            Value::Null | Value::List(_) | Value::Map(_) => &self.place,
            _ => &self.node.place,
        }
    }
}

impl Node {
    /// The entry of a map.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The value as it is, where a schema takes any.
    pub(crate) fn json(&self) -> Json {
        match &self.value {
            Value::Null | Value::Unread => Json::Null,
            Value::Bool(switch) => Json::from(*switch),
            Value::Int(number) => Json::from(*number),
            Value::Float(number) => Json::from(*number),
            Value::Text(text) => Json::from(text.as_str()),
            Value::List(nodes) => nodes.iter().map(Self::json).collect(),
            Value::Map(entries) => {
                let entry = |entry: &Entry| (entry.key.clone(), entry.node.json());
                Json::Object(entries.iter().map(entry).collect())
            }
        }
    }

    /// The kind of the value, in words that follow "expected" and "found".
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null | Value::Unread => "nothing",
            Value::Bool(_) => "true or false",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

impl Value {
    /// The value of a plain scalar (YAML 1.2.2, 10.3.2).
    pub(crate) fn of_plain(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "true" | "True" | "TRUE" => Self::Bool(true),
            "false" | "False" | "FALSE" => Self::Bool(false),
            _ => number(text).unwrap_or_else(|| Self::Text(text.to_owned())),
        }
    }
}

fn number(text: &str) -> Option<Value> {
    if let Some(digits) = text.strip_prefix("0x") {
        return whole(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return whole(digits, 8);
    }

    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(number) = text.parse()
    {
        return Some(Value::Int(number));
    }

    let float = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
        && digits.bytes().any(|byte| byte.is_ascii_digit());

    if float {
        text.parse().ok().map(Value::Float)
    } else {
        None
    }
}

fn whole(digits: &str, radix: u32) -> Option<Value> {
    // A sign is accepted by `from_str_radix`, not by YAML.
    let signed = digits.starts_with(['-', '+']);
    if signed {
        None
    } else {
        i64::from_str_radix(digits, radix).ok().map(Value::Int)
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn plain_scalars_have_the_types_of_the_core_schema() {
        assert!(matches!(Value::of_plain(""), Value::Null));
        assert!(matches!(Value::of_plain("~"), Value::Null));
        assert!(matches!(Value::of_plain("TRUE"), Value::Bool(true)));
        for (text, number) in [
            ("0", 0),
            ("-7", -7),
            ("+7", 7),
            ("007", 7),
            ("0x1F", 31),
            ("0o17", 15),
        ] {
            assert!(
                matches!(Value::of_plain(text), Value::Int(found) if found == number),
                "{text}"
            );
        }
        for text in ["1.5", ".5", "1e3", "-1.", "99999999999999999999"] {
            assert!(matches!(Value::of_plain(text), Value::Float(_)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_text() {
        for text in [
            "yes",
            "off",
            "-",
            "+",
            ".",
            "e",
            "1-1023",
            "0x",
            "0x-1",
            "10.0.0.1",
            "1_000",
            "~a",
            "DB:5432",
            "2026-01-01",
        ] {
            assert!(matches!(Value::of_plain(text), Value::Text(_)), "{text}");
        }
    }
}
