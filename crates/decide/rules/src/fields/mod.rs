//! Overlay fields, fields that say where a request came from, and changes to fields.

mod change;
mod controlled;
mod name_patterns;
mod overlay;
mod provenance;
mod trailers;

use hermes_config::model::FieldPattern;
use hermes_proto::fields::Fields;

pub(crate) use change::field_value;
pub use change::{BadField, apply};
pub use controlled::ControlledFields;
pub use overlay::OverlayFields;
pub use provenance::Provenance;
pub use trailers::TrailerRules;

/// Name of the field that names the user of an exchange.
pub use hermes_proto::fields::names::USER;

/// Whether a field belongs to the connection, to framing or to the proxy itself, so that configuration may not change
/// it (RFC 9110, 7.6.1, 7.6.3 and 11.7; RFC 9112, 6 and 3.2). `name` is in lower case.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Whether a pattern covers a [reserved](is_reserved) field; the field.
pub(crate) fn reserved_in(pattern: &FieldPattern) -> Option<&'static str> {
    RESERVED.into_iter().find(|name| pattern.matches(name))
}

/// The fields that no one may change.
pub const RESERVED: [&str; 20] = [
    "capsule-protocol",
    "connection",
    "content-length",
    "hermes-functions",
    "hermes-session",
    "hermes-transform",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "proxy-status",
    "proxy-trace",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Removes the fields with unwanted names.
fn remove_where(
    fields: &mut Fields,
    unwanted: impl Fn(&str) -> bool,
    mut removed: impl FnMut(&str),
) {
    fields.retain(|name| {
        let is_unwanted = unwanted(&name);
        if is_unwanted {
            removed(&name);
        }
        !is_unwanted
    });
}
