//! The names of lines as they were spelled in HTTP/1.1, for origins that tell capitals from small letters (RFC 9110, 5.1 says that there
//! is no difference).

use super::Line;

/// The names of lines that came. What was added since is spelled as most programs do.
#[derive(Debug, Clone, Default)]
pub(super) struct Spelling {
    /// All names, one behind the other.
    names: Vec<u8>,
    /// Where each line begins in the text of its fields, and its name in `names`; in the order of the lines.
    places: Vec<NamePlace>,
}

#[derive(Debug, Clone, Copy)]
struct NamePlace {
    line: u32,
    name: u32,
}

impl Spelling {
    /// Of lines, and of the section that they were read from, without its empty line.
    pub(super) fn of(lines: &[Line], section: &[u8]) -> Self {
        let mut spelling = Self::default();
        let written = section.split_inclusive(|byte| *byte == b'\n');
        for (line, written) in lines.iter().zip(written) {
            let Some(name) = written.get(..usize::from(line.name_length)) else {
                break;
            };
            spelling.places.push(NamePlace {
                line: line.start,
                name: super::number(spelling.names.len()),
            });
            spelling.names.extend_from_slice(name);
        }
        spelling.places.sort_unstable_by_key(|place| place.line);
        spelling
    }

    /// Bytes of memory that it takes.
    pub(super) fn footprint(&self) -> usize {
        self.names.len() + self.places.len() * size_of::<NamePlace>()
    }

    /// Writes the name of a line, which is `lower` in small letters.
    pub(super) fn write(&self, line: Line, lower: &[u8], out: &mut impl Extend<u8>) {
        let found = self
            .places
            .binary_search_by_key(&line.start, |place| place.line);
        match found {
            Ok(at) => {
                let start = self.places[at].name as usize;
                let name = &self.names[start..start + lower.len()];
                out.extend(name.iter().copied());
            }
            Err(_) => out.extend(capitalised(lower)),
        }
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
