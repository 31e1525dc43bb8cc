//! Any bytes: each converter must answer, quickly and without panic.

use crate::conversion::convert;
use crate::format::{Format, recognize};
use crate::source;

/// Converts any bytes as each format.
///
/// # Panics
/// When the YAML of a document cannot be read, or an error or a note has no reason: all are bugs.
pub(crate) fn fuzz_one(bytes: &[u8]) {
    recognize(bytes);
    for format in Format::ALL {
        match convert(format, bytes) {
            Ok(converted) => {
                let yaml = converted.yaml();
                let again = source::read(&yaml);
                assert!(again.is_ok(), "{again:?}: {yaml}");
                for note in &converted.notes {
                    assert!(!note.reason.is_empty() && note.line > 0, "{note}");
                }
            }
            Err(error) => assert!(!error.reason.is_empty(), "{error}"),
        }
    }
}
