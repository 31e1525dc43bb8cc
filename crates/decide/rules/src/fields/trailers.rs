//! Trailer fields, which come after all decisions: fields that would have changed a decision are
//! left out.

use hermes_proto::fields::Fields;
use hermes_proto::fields::names::FORWARDED;
use hermes_proto::h1::is_forbidden_trailer;

use super::{ControlledFields, OverlayFields, Provenance, is_reserved};

/// Fields of requests that servers act on, and that RFC 9110, section 6.5.1, therefore keeps out of trailers. Some servers merge trailers
/// into the head.
const OF_HEADS: [&str; 9] = [
    "from",
    "origin",
    "referer",
    "user-agent",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-requested-with",
    "forwarded",
];

/// How names of such fields begin.
const OF_HEADS_PREFIXES: [&str; 6] = [
    "accept",
    "access-control-",
    "proxy-",
    "sec-",
    "x-original-",
    "x-rewrite-",
];

/// The fields that a node's document keeps out of trailers.
#[derive(Debug, Clone, Copy)]
pub struct TrailerRules<'a> {
    /// Which fields are overlay fields.
    pub overlay: &'a OverlayFields,
    /// Which fields say where a request came from.
    pub provenance: &'a Provenance,
    /// Which fields the operator sets or removes in heads of the same direction.
    pub controlled: &'a ControlledFields,
}

impl TrailerRules<'_> {
    /// Leaves in the trailers of a request the fields that its target may read: not the overlay's, nor those that say where it comes from or
    /// goes to, nor the operator's, nor those that belong in a head. Underscores count as hyphens, as for servers that make variables of
    /// names.
    pub fn strip_request(&self, trailers: &mut Fields) {
        self.strip_response(trailers);
        trailers.retain(|name| {
            let name = name.replace('_', "-");
            !OF_HEADS.contains(&name.as_str())
                && !OF_HEADS_PREFIXES
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
                && !is_reserved(&name)
                && !is_forbidden_trailer(&name)
        });
    }

    /// Removes from the trailers of a response the fields that belong to the overlay, to its hops, to the operator, or to heads of requests. All
    /// else is between the target and its client: services put results of their own there.
    pub fn strip_response(&self, trailers: &mut Fields) {
        self.overlay.strip(trailers, &[]);
        self.provenance.strip(trailers, &[]);
        self.controlled.strip(trailers);
        trailers.remove(FORWARDED);
        trailers.retain(|name| !is_reserved(&name) && !is_forbidden_trailer(&name));
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::model::default_provenance;
    use hermes_proto::fields::FieldName;
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn fields(names: &[&'static str]) -> Fields {
        let line = |name: &&'static str| {
            let value = HeaderValue::from_static("1");
            (HeaderName::from_static(name), value)
        };
        names.iter().map(line).collect()
    }

    fn names(fields: &Fields) -> Vec<&str> {
        fields.names().map(FieldName::as_str).collect()
    }

    #[test]
    fn a_request_says_nothing_behind_its_content_that_belongs_in_its_head() {
        let own = [
            "content-digest",
            "grpc-status",
            "x-amz-checksum-crc32",
            "x-sum",
            "etag",
        ];
        let mut trailers = fields(&own);
        trailers.extend(&fields(&[
            "forwarded",
            "via",
            "host",
            "authorization",
            "cookie",
            "content-length",
            "content_length",
            "x-forwarded-for",
            "x_forwarded_for",
            "user",
            "x-http-method-override",
            "transfer-encoding",
            "expect",
            "max-forwards",
            "range",
            "accept-language",
            "sec-websocket-key",
        ]));
        let overlay = OverlayFields::new(&["user".parse().unwrap()]);
        let provenance = Provenance::new(&default_provenance());
        let document = serde_json::from_value(serde_json::json!({ "version": 1 })).unwrap();
        let rules = TrailerRules {
            overlay: &overlay,
            provenance: &provenance,
            controlled: &ControlledFields::of_requests(&document),
        };
        rules.strip_request(&mut trailers);
        assert_eq!(names(&trailers), own);
    }

    #[test]
    fn a_response_keeps_what_is_its_own() {
        let own = ["grpc-status", "x-result-bin", "server-timing"];
        let mut trailers = fields(&own);
        trailers.extend(&fields(&[
            "forwarded",
            "user",
            "proxy-status",
            "x-real-ip",
            "via",
            "connection",
            "set-cookie",
        ]));
        let overlay = OverlayFields::new(&["user".parse().unwrap()]);
        let provenance = Provenance::new(&default_provenance());
        let document = serde_json::from_value(serde_json::json!({ "version": 1 })).unwrap();
        let rules = TrailerRules {
            overlay: &overlay,
            provenance: &provenance,
            controlled: &ControlledFields::of_answers(&document),
        };
        rules.strip_response(&mut trailers);
        assert_eq!(names(&trailers), own);
    }
}
