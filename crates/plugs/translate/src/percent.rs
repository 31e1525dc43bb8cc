//! Percent-encoding (RFC 3986, section 2.1), in paths, queries and forms.

/// The bytes that a text means.
///
/// # Errors
/// A percent sign without two digits, or bytes that are not UTF-8.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'%' => {
                let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
                let byte = digit(0).zip(digit(1)).map(|(high, low)| high * 16 + low);
                let byte = byte.and_then(|byte| u8::try_from(byte).ok());
                bytes.push(byte.ok_or("a percent sign has not two digits behind it")?);
                rest = &after[2..];
            }
            b'+' if plus_is_space => bytes.push(b' '),
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8")
}

/// A text as a part of a path, a query or a form: all but unreserved characters are encoded (RFC 3986, section 2.3).
pub(crate) fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        let letter = char::from(byte);
        match letter.is_ascii_alphanumeric() || "-._~".contains(letter) {
            true => out.push(letter),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
}
