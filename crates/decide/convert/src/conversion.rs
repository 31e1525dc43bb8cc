//! Converts one file of a known format.

use crate::converted::Converted;
use crate::discovered::ReadBeside;
use crate::draft::Draft;
use crate::format::Format;
use crate::text::text;
use crate::unreadable::Unreadable;
use crate::{envoy, pac, sing_box, source, wireguard};

/// Converts a file.
///
/// # Errors
/// The file is too long, not UTF-8, not of this format, or has no part that could be converted.
pub fn convert(format: Format, bytes: &[u8]) -> Result<Converted, Unreadable> {
    convert_beside(format, bytes, &|_| {
        Err("files that the source names are not read".to_owned())
    })
}

/// Converts a file and the further files that it names: of Envoy those of its file discovery.
///
/// # Errors
/// As [`convert`]. A further file that cannot be read is a note.
pub fn convert_beside(
    format: Format,
    bytes: &[u8],
    read: ReadBeside<'_>,
) -> Result<Converted, Unreadable> {
    let text = text(bytes)?;
    let mut draft = Draft::default();
    match format {
        Format::Envoy => envoy::convert(&source::read(text)?, read, &mut draft)?,
        Format::SingBox => sing_box::convert(&source::read_json(text)?, &mut draft)?,
        Format::Wireguard => wireguard::convert(text, &mut draft)?,
        Format::Pac => pac::convert(text, &mut draft)?,
    }
    Ok(draft.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::LONGEST;

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_line() {
        let error = convert(Format::Envoy, b"a: b\n\xff").unwrap_err();
        assert_eq!(error.to_string(), "line 2: it is not UTF-8 from here on");
        let long = vec![b' '; LONGEST + 1];
        assert!(convert(Format::Pac, &long).is_err());
    }
}
