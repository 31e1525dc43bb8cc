//! Fields that come behind a content, when everything was decided: those of requests are on a list, or are left out.

use hermes_proto::fields::Fields;
use hermes_proto::fields::names::FORWARDED;
use hermes_proto::h1::is_forbidden_trailer;

use super::{OverlayFields, Provenance, is_reserved};

/// Fields that may stand behind the content of a request: they say something about it that is not known before, and nothing about where
/// the request goes or whose it is. RFC 9110, section 6.5.2, lets a proxy leave out all others.
const ALLOWED: [&str; 10] = [
    "content-digest",
    "content-md5",
    "digest",
    "etag",
    "repr-digest",
    "server-timing",
    "signature",
    "signature-input",
    "x-amz-trailer-signature",
    "x-goog-hash",
];

/// How names of such fields begin.
const ALLOWED_PREFIXES: [&str; 5] = [
    "checksum-",
    "grpc-",
    "x-amz-checksum-",
    "x-checksum-",
    "x-content-",
];

/// Leaves of the trailers of a request what its target may read.
pub fn strip_request_trailers(trailers: &mut Fields) {
    trailers.retain(|name| {
        let name: &str = &name;
        ALLOWED.contains(&name)
            || ALLOWED_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
    });
}

/// Removes from the trailers of a response what belongs to the overlay, to its hops, or to heads of requests. All else is between the
/// target and its client: services put results of their own there.
pub fn strip_response_trailers(
    trailers: &mut Fields,
    overlay: &OverlayFields,
    provenance: &Provenance,
) {
    overlay.strip(trailers, &[]);
    provenance.strip(trailers, &[]);
    trailers.remove(FORWARDED);
    trailers.retain(|name| !is_reserved(&name) && !is_forbidden_trailer(&name));
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
    fn a_request_says_nothing_behind_its_content_but_of_its_content() {
        let allowed = [
            "content-digest",
            "grpc-status",
            "x-amz-checksum-crc32",
            "etag",
        ];
        let mut trailers = fields(&allowed);
        let others = [
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
            "x-role",
            "expect",
            "max-forwards",
            "range",
            "sec-websocket-key",
        ];
        trailers.extend(&fields(&others));
        strip_request_trailers(&mut trailers);
        assert_eq!(names(&trailers), allowed);
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
        strip_response_trailers(&mut trailers, &overlay, &provenance);
        assert_eq!(names(&trailers), own);
    }
}
