//! The input of a policy, as the evaluator has it.

use std::collections::BTreeMap;

use regorus::Value;
use serde_json::Value as Json;

/// An input that is not given is undefined, and so is everything in it.
pub(crate) fn undefined_if_null(input: Json) -> Value {
    if input.is_null() {
        Value::Undefined
    } else {
        value_of(input)
    }
}

/// JSON as a value. The evaluator's own conversion goes through a deserializer, which costs a request more than twice this, and takes
/// an object with a certain key for a number of any size.
pub(crate) fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(is_true) => Value::Bool(is_true),
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::from(items.into_iter().map(value_of).collect::<Vec<_>>()),
        Json::Object(members) => {
            let members = members.into_iter();
            let values = members.map(|(key, value)| (Value::from(key), value_of(value)));
            Value::from(values.collect::<BTreeMap<_, _>>())
        }
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(natural), _) => Value::from(natural),
            (None, Some(integer)) => Value::from(integer),
            // Others keep the form that the evaluator's own reading gives them.
            (None, None) => Value::from(Json::Number(number)),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_what_the_evaluator_reads() {
        let input = json!({
            "null": null, "booleans": [true, false], "text": "a\u{e9}", "empty": [[], {}, ""],
            "numbers": [0, 1, -1, u64::MAX, i64::MIN, 0.5, -2.25e300, 1e21, 3.0],
            "deep": { "b": { "a": [{ "z": 1, "a": 2 }] } },
        });
        assert_eq!(value_of(input.clone()), Value::from(input));
        assert_eq!(undefined_if_null(Json::Null), Value::Undefined);
    }
}
