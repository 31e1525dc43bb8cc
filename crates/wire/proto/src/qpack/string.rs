//! Strings of lines (RFC 7541, section 5.2; RFC 9204, section 4.1.2).

use std::ops::Range;

use bytes::{BufMut, BytesMut};

use super::{QpackError, huffman, integer};

/// A string that was read.
#[derive(Debug)]
pub(crate) enum StringText<'a> {
    /// As it stands in the section.
    Plain(&'a [u8]),
    /// Where the text of its Huffman code was put.
    Coded(Range<usize>),
}

impl<'a> StringText<'a> {
    /// Its bytes; `texts` is where those of Huffman codes were put.
    pub(crate) fn bytes<'b>(self, texts: &'b [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Coded(place) => &texts[place],
        }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Coded(place) => place.len(),
        }
    }
}

/// Takes a string off the front of `rest`. The bit above the prefix marks a Huffman code; its text
/// is appended to `texts`, up to `limit` bytes.
///
/// # Errors
/// The string is cut off, is an invalid code, or is too long.
pub(crate) fn decode<'a>(
    prefix: u8,
    rest: &mut &'a [u8],
    limit: usize,
    texts: &mut Vec<u8>,
) -> Result<StringText<'a>, QpackError> {
    let is_coded = rest.first().is_some_and(|byte| byte & (1 << prefix) != 0);
    let length = integer::decode(prefix, rest)?.ok_or(QpackError::Truncated)?;
    let length = usize::try_from(length).map_err(|_| QpackError::Truncated)?;
    let (string, after) = rest.split_at_checked(length).ok_or(QpackError::Truncated)?;

    *rest = after;
    if !is_coded {
        return Ok(StringText::Plain(string));
    }
    let start = texts.len();
    huffman::decode(string, limit, texts)?;
    Ok(StringText::Coded(start..texts.len()))
}

/// Appends a string, as a Huffman code where it is at least `worth` bytes long and that is shorter. The bits of the first byte
/// above the prefix and the one that says so are `flags`.
pub(crate) fn encode(text: &[u8], prefix: u8, flags: u8, worth: usize, output: &mut BytesMut) {
    if text.len() >= worth {
        let size = huffman::size(text);
        if size < text.len() {
            integer::encode(size as u64, prefix, flags | 1 << prefix, output);
            huffman::encode(text, size, output);
            return;
        }
    }

    integer::encode(text.len() as u64, prefix, flags, output);
    output.put_slice(text);
}
