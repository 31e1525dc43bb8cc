//! The texts of JSON: strings and numbers.

/// Decodes the text between the quotes of a string (RFC 8259, section 7).
///
/// # Errors
/// Why it is none.
pub(crate) fn decode_string(raw: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(raw).map_err(|_| "a string is not UTF-8")?;
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }

    // An escape is never shorter than its character, so this is enough.
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        decoded.push_str(before);
        rest = escaped(after, &mut decoded)?;
    }
    decoded.push_str(rest);
    Ok(decoded)
}

/// Decodes one escape, whose backslash was taken; gives the text behind it.
fn escaped<'t>(text: &'t str, decoded: &mut String) -> Result<&'t str, &'static str> {
    let mut letters = text.chars();
    let letter = match letters.next() {
        Some(letter @ ('"' | '\\' | '/')) => letter,
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => return escaped_unit(letters.as_str(), decoded),
        _ => return Err("a string has an unknown escape"),
    };
    decoded.push(letter);
    Ok(letters.as_str())
}

/// Decodes `\uXXXX`, and the second half of a surrogate pair.
fn escaped_unit<'t>(text: &'t str, decoded: &mut String) -> Result<&'t str, &'static str> {
    let first = unit(text)?;
    let rest = &text[4..];
    if let Some(letter) = char::from_u32(first) {
        decoded.push(letter);
        return Ok(rest);
    }

    // A lone surrogate is no character: what one program drops, the next might not.
    let lone = "a string has half of a surrogate pair";
    let second = unit(rest.strip_prefix("\\u").ok_or(lone)?)?;
    let is_pair = (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second);
    if !is_pair {
        return Err(lone);
    }
    let letter = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    decoded.push(char::from_u32(letter).ok_or(lone)?);
    Ok(&rest[6..])
}

fn unit(text: &str) -> Result<u32, &'static str> {
    let wrong = "an escape has not four hexadecimal digits";
    let digits = text.get(..4).ok_or(wrong)?;
    // A sign would be taken by the conversion alone.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong);
    }
    u32::from_str_radix(digits, 16).map_err(|_| wrong)
}

/// Whether a text is a number (RFC 8259, section 6).
pub(crate) fn is_number(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let rest = match rest {
        [b'0', rest @ ..] => rest,
        [b'1'..=b'9', ..] => after_digits(rest),
        _ => return false,
    };
    let rest = match rest {
        [b'.', b'0'..=b'9', ..] => after_digits(&rest[1..]),
        [b'.', ..] => return false,
        _ => rest,
    };
    match rest {
        [] => true,
        [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => {
            !digits.is_empty() && after_digits(digits).is_empty()
        }
        _ => false,
    }
}

fn after_digits(text: &[u8]) -> &[u8] {
    let digits = text.iter().take_while(|digit| digit.is_ascii_digit());
    &text[digits.count()..]
}
