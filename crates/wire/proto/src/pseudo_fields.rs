//! The pseudo-fields of a section, as they came (RFC 9113, section 8.3; RFC 9114, section 4.3).

use std::ops::Range;

use bytes::Bytes;

use crate::fields::PseudoName;

/// Bytes that most have.
const USUAL_BYTES: usize = 128;

/// The values of pseudo-fields, in one text.
#[derive(Debug, Default)]
pub(crate) struct PseudoFields {
    text: Vec<u8>,
    places: [Option<Range<usize>>; PseudoName::COUNT],
}

/// A pseudo-field appears twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Twice;

impl PseudoFields {
    /// Takes one.
    ///
    /// # Errors
    /// Sets a field; fails if it is set already.
    pub(crate) fn set(&mut self, name: PseudoName, value: &[u8]) -> Result<(), Twice> {
        let place = &mut self.places[name as usize];
        if place.is_some() {
            return Err(Twice);
        }

        let start = self.text.len();
        if start == 0 {
            self.text.reserve(USUAL_BYTES);
        }
        self.text.extend_from_slice(value);
        *place = Some(start..self.text.len());
        Ok(())
    }

    /// The value of one.
    pub(crate) fn get(&self, name: PseudoName) -> Option<&[u8]> {
        let place = self.places[name as usize].clone()?;
        Some(&self.text[place])
    }

    /// The value of one, to be kept.
    pub(crate) fn bytes(&self, name: PseudoName) -> Option<Bytes> {
        self.get(name).map(Bytes::copy_from_slice)
    }

    /// Whether it is there.
    pub(crate) fn has(&self, name: PseudoName) -> bool {
        self.places[name as usize].is_some()
    }

    /// Whether one is there that only requests have.
    pub(crate) fn has_request(&self) -> bool {
        PseudoName::OF_REQUESTS
            .into_iter()
            .any(|name| self.has(name))
    }
}
