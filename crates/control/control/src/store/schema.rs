//! The form of the records of a store, which a later version of the program may change.

use super::{RESTORING, RecordChange, Store, StoreError};

/// The record that says it.
pub(super) const SCHEMA: &str = "schema";

/// The form that this program knows.
const KNOWN: &[u8] = b"1";

/// Looks whether this program knows the form of a store; an empty one has the form of this program from now on.
///
/// # Errors
/// The store has another form, a backup was read into it half, or it cannot be read or written.
pub(crate) fn check_schema(store: &dyn Store) -> Result<(), StoreError> {
    if store.record(RESTORING)?.is_some() {
        return Err(StoreError::Foreign {
            place: "of this overlay".to_owned(),
            reason: "a backup was read into it in part".to_owned(),
            remedy: "read it again with --restore FILE".to_owned(),
        });
    }
    let new = RecordChange {
        key: SCHEMA.to_owned(),
        expected: None,
        new: Some(KNOWN.to_vec()),
    };
    match store.record(SCHEMA)? {
        Some(form) => judge_schema(&form),
        // Another controller may be faster, and is of the same version or refused by the next look.
        None => store.swap(&[new]).map(drop),
    }
}

/// # Errors
/// The form is not the one that this program knows.
pub(super) fn judge_schema(form: &[u8]) -> Result<(), StoreError> {
    if form == KNOWN {
        return Ok(());
    }
    Err(StoreError::Foreign {
        place: "of this overlay".to_owned(),
        reason: format!(
            "its records have form {}, and this program knows form {}",
            String::from_utf8_lossy(form),
            String::from_utf8_lossy(KNOWN)
        ),
        remedy: "use the version of hermes that wrote them, or a later one".to_owned(),
    })
}
