//! The fields of a request that no function outside may see or change.
//!
//! Policy, filters and routes have decided on the request as it was; a function that wrote another user, host or credential would decide
//! after them.

use hermes_proto::fields::{FieldName, Fields};

/// Fields that frame a message on its connection.
const FRAMING: &[&str] = &[
    "content-length",
    "transfer-encoding",
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
];

/// Fields that a function may see, and not change.
const KEPT: &[&str] = &[
    "host",
    "authorization",
    "cookie",
    "user",
    "service",
    "namespace",
    "ipaddress",
    "via",
    "forwarded",
    "x-real-ip",
    "client-cert",
    "client-cert-chain",
];

/// Beginnings of the names of such fields.
const KEPT_PREFIXES: &[&str] = &["hermes-", "x-hermes-", "x-forwarded-"];

/// Fields that a function does not see: the proxy's own credentials.
const HIDDEN: &[&str] = &["proxy-authorization", "proxy-authenticate"];

fn is_kept(name: &str) -> bool {
    let has_prefix = |prefix: &&str| name.starts_with(*prefix);
    KEPT.contains(&name) || HIDDEN.contains(&name) || KEPT_PREFIXES.iter().any(has_prefix)
}

fn any(names: &[&str], name: FieldName<'_>) -> bool {
    names.contains(&name.as_str())
}

/// Removes the fields that no function sees, and those of the connection.
pub(crate) fn hide(fields: &mut Fields) {
    fields.retain(|name| !any(HIDDEN, name) && !any(FRAMING, name));
}

/// Removes the fields that frame a message.
pub(crate) fn unframe(fields: &mut Fields) {
    fields.retain(|name| !any(FRAMING, name));
}

/// The fields that a function gives, with those that it may not change as they were.
pub(crate) fn merge(own: &Fields, mut given: Fields) -> Fields {
    given.retain(|name| !is_kept(name.as_str()) && !any(FRAMING, name));
    // All lines of each, so that none is left for the function to have the last word.
    for (name, value) in own.iter() {
        if is_kept(name.as_str()) {
            given.append(name, value);
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let lines = lines.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        Fields::from_iter(lines)
    }

    #[test]
    fn a_function_can_neither_give_nor_take_nor_change_what_was_decided_on() {
        let own = fields(&[
            ("user", "ann"),
            ("authorization", "Basic x"),
            ("accept", "a"),
        ]);
        let given = fields(&[
            ("user", "root"),
            ("host", "elsewhere"),
            ("x-hermes-role", "admin"),
            ("x-forwarded-for", "127.0.0.1"),
            ("hermes-functions", "none"),
            ("content-length", "5"),
            ("accept", "b"),
            ("x-scanned", "yes"),
        ]);
        let merged = merge(&own, given);
        let has = |name: &'static str| {
            merged
                .get(HeaderName::from_static(name))
                .map(|v| v.to_str().unwrap().to_owned())
        };
        assert_eq!(has("user").as_deref(), Some("ann"));
        assert_eq!(has("authorization").as_deref(), Some("Basic x"));
        assert_eq!(has("accept").as_deref(), Some("b"));
        assert_eq!(has("x-scanned").as_deref(), Some("yes"));
        for gone in [
            "host",
            "x-hermes-role",
            "x-forwarded-for",
            "hermes-functions",
            "content-length",
        ] {
            assert_eq!(has(gone), None, "{gone}");
        }
    }
}
