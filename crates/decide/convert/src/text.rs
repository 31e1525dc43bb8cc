//! The text of a file, and the numbers of its lines.

use std::str;

use crate::unreadable::Unreadable;

/// Bytes of a file that is converted: the largest configurations that people write have some hundred kilobytes.
#[doc(alias = "bound")]
pub const LONGEST: usize = 4 << 20;

/// The text, without a byte order mark.
///
/// # Errors
/// The text is too long, or not UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Unreadable> {
    if bytes.len() > LONGEST {
        let reason = format!("it has more than {} MiB", LONGEST >> 20);
        return Err(Unreadable::new(reason));
    }

    let text = str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        Unreadable::at(number(lines + 1), "it is not UTF-8 from here on")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// The number of a line.
pub(crate) fn number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}
