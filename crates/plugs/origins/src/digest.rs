//! The digest of a whole representation, where its origin has told one (RFC 9530): validators that lie are found by it.

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hermes_proto::fields::Fields;

/// A digest that is being computed, and the one that was told.
pub(crate) struct Told {
    wanted: Vec<u8>,
    context: Context,
}

impl Told {
    /// The SHA-256 of `Repr-Digest`, if there is one.
    pub(crate) fn of(fields: &Fields) -> Option<Self> {
        let mut lines = fields.values("repr-digest");
        let wanted = lines.find_map(|line| {
            let line = line.to_str().ok()?.to_owned();
            let mut digests = line.split(',');
            digests.find_map(|digest| {
                let value = digest.trim().strip_prefix("sha-256=:")?.strip_suffix(':')?;
                STANDARD.decode(value).ok()
            })
        })?;
        Some(Self {
            wanted,
            context: Context::new(&SHA256),
        })
    }

    /// The next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    /// Whether they were the right ones.
    pub(crate) fn matches(self) -> bool {
        self.context.finish().as_ref() == self.wanted
    }
}
