//! How long values are as text, up to the bound of a result.

use regorus::Value;

/// Bytes of the result of one call.
#[doc(alias = "bound")]
pub(crate) const RESULT: usize = 8 * 1024 * 1024;

pub(crate) fn text(value: Option<&Value>) -> Option<&str> {
    value?.as_string().ok().map(|text| &**text)
}

/// The length of a value as text, or a little more than `most` where it is longer: one value can stand in another a million times.
pub(crate) fn length_as_text(value: &Value, most: usize) -> usize {
    let mut length = 0_usize;
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        length += 4;
        match value {
            Value::String(text) => length = length.saturating_add(length_in_quotes(text)),
            // Digits of the longest ordinary number.
            Value::Number(_) => length += 400,
            Value::Array(array) => left.extend(array.iter()),
            Value::Set(set) => left.extend(set.iter_sorted()),
            Value::Object(object) => {
                left.extend(object.iter_sorted().flat_map(|(key, value)| [key, value]));
            }
            Value::Null | Value::Bool(_) | Value::Undefined => length += 5,
        }
        if length.saturating_add(left.len()) > most {
            return most + 1;
        }
    }
    length
}

fn length_in_quotes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}
