//! One spelling for each JSON value, so that equal documents have equal hashes.

use serde_json::Value;

/// The text of a value without spaces, with the members of objects in the order of their keys (by code points).
///
/// Strings and integers are spelt as RFC 8785 has them. Other numbers are spelt as `serde_json` does: every program that makes a
/// hash here uses it, and one that only checks hashes never spells anew.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(elements) => write_array(elements, out),
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            write_members(&sorted, out);
        }
        scalar => out.extend_from_slice(scalar.to_string().as_bytes()),
    }
}

fn write_array(elements: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(b']');
}

fn write_members(members: &[(&String, &Value)], out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let key = Value::String((*key).clone());
        out.extend_from_slice(key.to_string().as_bytes());
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_order_of_members_does_not_matter() {
        let one: Value =
            serde_json::from_str(r#"{"b": [1, {"d": null, "c": 2.5}], "a": "x\ny"}"#).unwrap();
        let other = json!({ "a": "x\ny", "b": [1, { "c": 2.5, "d": null }] });
        assert_eq!(canonical(&one), canonical(&other));
        assert_eq!(
            String::from_utf8(canonical(&one)).unwrap(),
            r#"{"a":"x\ny","b":[1,{"c":2.5,"d":null}]}"#
        );
    }

    #[test]
    fn it_reads_as_the_same_value() {
        let value = json!({ "é": true, "\u{1}": -3, "list": [], "none": {}, "big": u64::MAX });
        let read: Value = serde_json::from_slice(&canonical(&value)).unwrap();
        assert_eq!(read, value);
    }
}
