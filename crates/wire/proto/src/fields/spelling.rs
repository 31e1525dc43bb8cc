//! The names of lines as they were spelled in HTTP/1.1, for origins that tell capitals from small letters (RFC 9110, 5.1 says that there
//! is no difference).
//!
//! Few messages keep them, and those that do not pay nothing: a text with spelled names begins with a mark that no name begins with,
//! and the end of the lines that came. Behind each of these stands its name once more, as it was spelled. Lines that were added since
//! are spelled as most programs do.
//!
//! ```text
//! MARK END(4) *(name ":" SP value CRLF spelled-name) *(name ":" SP value CRLF)
//! ```

use super::{Class, Fields, Line};

/// The first byte of a text with spelled names.
const MARK: u8 = 0;

/// Its first byte once they are forgotten.
const FORGOTTEN: u8 = 1;

/// Bytes before the first line: the mark, and where the lines that came end.
const HEADER: usize = 1 + size_of::<u32>();

impl Fields {
    /// Whether it is known how names were spelled over HTTP/1.1.
    pub fn is_spelled(&self) -> bool {
        self.text.first() == Some(&MARK)
    }

    /// Forgets how names were spelled: they leave in small letters.
    pub fn forget_spelling(&mut self) {
        if self.is_spelled() {
            self.text[0] = FORGOTTEN;
        }
    }

    /// Remembers how names are spelled in the section that the lines were read from just now, without its empty line.
    pub(crate) fn spell(&mut self, section: &[u8]) {
        let names: usize = self.lines.iter().map(|line| line.name().len()).sum();
        let mut text = Vec::with_capacity(HEADER + self.text.len() + names + super::ADDED_BYTES);
        text.resize(HEADER, MARK);

        let mut written = section.split_inclusive(|byte| *byte == b'\n');
        for line in &mut self.lines {
            let start = text.len();
            let name = &self.text[line.name()];
            let spelled = written.next().and_then(|written| written.get(..name.len()));
            text.extend_from_slice(&self.text[line.whole()]);
            text.extend_from_slice(spelled.unwrap_or(name));
            line.start = super::number(start);
        }

        let end = super::number(text.len());
        text[1..HEADER].copy_from_slice(&end.to_ne_bytes());
        self.text = text;
    }

    /// Writes lines as HTTP/1.1 does, but those of a class, with their names as they were spelled.
    pub(crate) fn put_spelled(&self, without: Class, out: &mut impl Extend<u8>) {
        for line in self.lines.iter().filter(|line| !line.id.is(without)) {
            match self.spelled(*line) {
                Some(name) => out.extend(name.iter().copied()),
                None => out.extend(capitalised(&self.text[line.name()])),
            }
            let rest = line.name().end..line.whole().end;
            out.extend(self.text[rest].iter().copied());
        }
    }

    /// How the name of a line was spelled, if it came so.
    fn spelled(&self, line: Line) -> Option<&[u8]> {
        let end: &[u8; size_of::<u32>()] = self.text.get(1..HEADER)?.first_chunk()?;
        let came = self.is_spelled() && line.start < u32::from_ne_bytes(*end);
        let name = line.whole().end..line.whole().end + line.name().len();
        came.then(|| &self.text[name])
    }
}

/// A name with a capital at the beginning of each word: `X-Forwarded-For`.
fn capitalised(lower: &[u8]) -> impl Iterator<Item = u8> {
    let mut begins = true;
    lower.iter().map(move |byte| {
        let letter = match begins {
            true => byte.to_ascii_uppercase(),
            false => *byte,
        };
        begins = *byte == b'-';
        letter
    })
}
