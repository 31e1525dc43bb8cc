//! Conditional requests: those of clients, and those by which the cache validates (RFC 9111, section 4.3).

use hermes_http::{RequestHead, ResponseHead};
use hermes_proto::fields::Fields;
use http::Method;

use crate::control::{joined, members};
use crate::freshness::only_date;

/// Fields of a conditional or partial request.
const CONDITIONS: &[&str] = &["if-none-match", "if-modified-since", "if-range", "range"];

/// Fields that belong to a stored content and never change with a 304 (section 3.2).
const OF_CONTENT: &[&str] = &[
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
];

/// Whether a request has a condition that only an origin evaluates (section 4.3.2).
pub(crate) fn is_for_origin(request: &Fields) -> bool {
    request.contains_key("if-match") || request.contains_key("if-unmodified-since")
}

/// Whether the client has the stored response already (section 4.3.2). `If-Modified-Since` counts only without `If-None-Match`.
pub(crate) fn is_not_modified(request: &Fields, stored: &Fields) -> bool {
    if request.contains_key("if-none-match") {
        let asked = joined(request, "if-none-match");
        let Some(tags) = members(&asked) else {
            return false;
        };
        let tag = joined(stored, "etag");
        let is_same = |other: &&str| opaque(other) == opaque(&tag);
        return tags == ["*"] || (!tag.is_empty() && tags.iter().any(is_same));
    }

    let Some(since) = only_date(request, "if-modified-since") else {
        return false;
    };
    // Section 4.3.2: without Last-Modified the date of the response counts.
    let modified = only_date(stored, "last-modified").or_else(|| only_date(stored, "date"));
    modified.is_some_and(|modified| modified <= since)
}

/// The request by which a stored response is validated; `None` if it has no validator (section 4.3.1).
pub(crate) fn validating(head: &RequestHead, stored: &Fields) -> Option<RequestHead> {
    let mut request = head.clone();
    for name in CONDITIONS {
        request.fields.remove(*name);
    }
    // A HEAD would freshen nothing that a GET can have.
    request.method = Method::GET;

    let pairs = [
        ("if-none-match", "etag"),
        ("if-modified-since", "last-modified"),
    ];
    let mut has_any = false;
    for (condition, validator) in pairs {
        if let Some(value) = stored.get(validator) {
            request.fields.insert(condition, value.to_value());
            has_any = true;
        }
    }
    has_any.then_some(request)
}

/// Whether a request is conditional or partial.
pub(crate) fn has_any(request: &Fields) -> bool {
    CONDITIONS.iter().any(|name| request.contains_key(*name))
}

/// The request without conditions and ranges, for a content that is to be stored whole.
pub(crate) fn unconditional(head: &RequestHead) -> RequestHead {
    let mut request = head.clone();
    for name in CONDITIONS {
        request.fields.remove(*name);
    }
    request
}

/// Whether a 304 speaks of this stored response (section 4.3.4).
pub(crate) fn confirms(answer: &Fields, stored: &Fields) -> bool {
    for validator in ["etag", "last-modified"] {
        if answer.contains_key(validator) && stored.contains_key(validator) {
            let is_same = opaque(&joined(answer, validator)) == opaque(&joined(stored, validator));
            // A strong validator decides alone; so does any that is left.
            return is_same;
        }
    }
    true
}

/// Whether an answer to HEAD describes this stored content, of this length (section 4.3.5).
pub(crate) fn describes(answer: &Fields, stored: &Fields, length: Option<u64>) -> bool {
    let is_same = |validator: &'static str| {
        !answer.contains_key(validator) || joined(answer, validator) == joined(stored, validator)
    };
    let announced = joined(answer, "content-length");
    let is_long = announced.is_empty() || announced.trim().parse().ok() == length;
    is_long && is_same("etag") && is_same("last-modified")
}

/// The stored head with the fields of the 304 that confirmed it (sections 3.2 and 4.3.4).
pub(crate) fn freshened(stored: &ResponseHead, answer: &Fields) -> ResponseHead {
    let mut newer = answer.clone();
    newer.retain(|name| !OF_CONTENT.contains(&name.as_str()));
    let mut head = stored.clone();
    // An Age that the 304 does not have was that of the older answer.
    head.fields.remove("age");
    head.fields.replace(&newer);
    head
}

/// An entity tag without its weakness.
fn opaque(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/")
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};

    use super::*;
    use crate::name::tests::request;

    fn fields(lines: &[(&'static str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_str(value).unwrap());
        }
        fields
    }

    const EARLY: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATE: &str = "Mon, 07 Nov 1994 08:49:37 GMT";

    #[test]
    fn section_4_3_2_entity_tags_are_compared_weakly_and_before_dates() {
        let stored = fields(&[("etag", "W/\"a,b\""), ("last-modified", LATE)]);
        let asks = |lines: &[(&'static str, &str)]| is_not_modified(&fields(lines), &stored);
        assert!(asks(&[("if-none-match", "\"x\", \"a,b\"")]));
        assert!(asks(&[("if-none-match", "*")]));
        assert!(!asks(&[
            ("if-none-match", "\"x\""),
            ("if-modified-since", LATE)
        ]));
        assert!(asks(&[("if-modified-since", LATE)]) && !asks(&[("if-modified-since", EARLY)]));
        assert!(!asks(&[("if-modified-since", "soon")]) && !asks(&[]));
    }

    #[test]
    fn section_4_3_2_if_match_is_for_the_origin() {
        assert!(is_for_origin(&fields(&[("if-match", "*")])));
        assert!(is_for_origin(&fields(&[("if-unmodified-since", EARLY)])));
        assert!(!is_for_origin(&fields(&[("if-none-match", "*")])));
    }

    #[test]
    fn section_4_3_1_validators_of_the_stored_response_are_sent_in_place_of_the_clients() {
        let mut head = request(Method::HEAD, "/");
        head.fields = fields(&[
            ("if-none-match", "\"x\""),
            ("range", "bytes=0-1"),
            ("accept", "a"),
        ]);
        let stored = fields(&[("etag", "\"a\""), ("last-modified", EARLY)]);
        let sent = validating(&head, &stored).unwrap();
        assert_eq!(joined(&sent.fields, "if-none-match"), "\"a\"");
        assert_eq!(joined(&sent.fields, "if-modified-since"), EARLY);
        assert!(!sent.fields.contains_key("range") && sent.fields.contains_key("accept"));
        assert_eq!(sent.method, Method::GET);
        assert!(validating(&head, &fields(&[])).is_none());
    }

    #[test]
    fn section_4_3_4_a_304_of_another_entity_confirms_nothing() {
        let stored = fields(&[("etag", "\"a\""), ("last-modified", EARLY)]);
        assert!(confirms(&fields(&[]), &stored));
        assert!(confirms(
            &fields(&[("etag", "\"a\""), ("last-modified", LATE)]),
            &stored
        ));
        assert!(!confirms(&fields(&[("etag", "\"b\"")]), &stored));
        assert!(!confirms(&fields(&[("last-modified", LATE)]), &stored));
    }

    #[test]
    fn section_4_3_5_a_head_describes_the_stored_content_if_all_that_it_says_fits() {
        let stored = fields(&[("etag", "\"a\""), ("x-a", "1")]);
        let fits = |lines: &[(&'static str, &str)]| describes(&fields(lines), &stored, Some(5));
        assert!(fits(&[]) && fits(&[("etag", "\"a\""), ("content-length", "5")]));
        assert!(fits(&[("x-a", "2")]));
        assert!(!fits(&[("etag", "\"b\"")]));
        assert!(!fits(&[("content-length", "6")]));
        assert!(!fits(&[("last-modified", EARLY)]));
    }

    #[test]
    fn section_3_2_a_304_changes_the_fields_but_those_of_the_content() {
        let mut stored = ResponseHead::new(StatusCode::OK);
        stored.fields = fields(&[
            ("x-a", "1"),
            ("content-type", "text/plain"),
            ("age", "7"),
            ("x-b", "1"),
        ]);
        let answer = fields(&[
            ("x-a", "2"),
            ("content-type", "text/html"),
            ("content-length", "0"),
        ]);
        let head = freshened(&stored, &answer);
        assert_eq!(joined(&head.fields, "x-a"), "2");
        assert_eq!(joined(&head.fields, "x-b"), "1");
        assert_eq!(joined(&head.fields, "content-type"), "text/plain");
        assert!(!head.fields.contains_key("age") && !head.fields.contains_key("content-length"));
    }
}
