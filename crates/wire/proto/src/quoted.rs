//! Tokens and quoted strings, as `Forwarded`, `Proxy-Status` and `Via` write them.
//!
//! For any input, the output is visible ASCII and one element: text from a peer or an error message
//! cannot break out of its quotes, end the field line or start another element.

use http::HeaderValue;

/// Which bytes are a `tchar`.
const TCHARS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// Whether `byte` is a `tchar` (RFC 9110, section 5.6.2).
pub(crate) const fn is_tchar(byte: u8) -> bool {
    TCHARS[byte as usize]
}

/// Whether `text` is a `token`: one `tchar` or more.
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_tchar(byte))
}

/// Appends `text` between double quotes: `"` and `\` are escaped, all but printable ASCII becomes `?`.
///
/// The result is an `sf-string` (RFC 8941, section 3.3.3) and also a `quoted-string` (RFC 9110, section 5.6.4).
pub(crate) fn push_string(text: &str, output: &mut String) {
    output.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => output.extend(['\\', character]),
            ' '..='~' => output.push(character),
            _ => output.push('?'),
        }
    }

    output.push('"');
}

/// Makes a field value of text that one of the writers of this crate composed.
///
/// # Panics
/// When `text` holds a control character: a mistake of the writer, for [`push_string`] lets none through.
pub(crate) fn field_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("writers of fields keep to printable ASCII")
}
