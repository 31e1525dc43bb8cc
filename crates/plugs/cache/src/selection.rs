//! Which of the stored responses of a resource fits a request (RFC 9111, section 4.1).
//!
//! `Vary` says which fields the origin looked at, as far as the origin knows. A field that reaches the answer without `Vary` would
//! let one request decide the answer to another one; so each request field outside a list of ordinary ones is part of the key.

use hermes_proto::fields::Fields;
use http::HeaderName;
use serde::{Deserialize, Serialize};

use crate::control::joined;

/// Names in one `Vary`; a response with more is not stored.
#[doc(alias = "bound")]
const VARY_NAMES: usize = 16;

/// Bytes of a request's fields that are part of a key; a request with more passes by the cache.
#[doc(alias = "bound")]
pub(crate) const KEYED_BYTES: usize = 4096;

/// Fields that are part of a key only where `Vary` names them: the cache obeys them itself, they differ between requests for one
/// answer, or they negotiate.
const ORDINARY: &[&str] = &[
    "accept",
    "authorization",
    "cache-control",
    "cdn-loop",
    "connection",
    "content-length",
    "dnt",
    "early-data",
    "expect",
    "host",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "max-forwards",
    "pragma",
    "priority",
    "proxy-trace",
    "range",
    "referer",
    "save-data",
    "te",
    "traceparent",
    "tracestate",
    "upgrade-insecure-requests",
    // The identity that the node found, which is the place of a response that is no one else's.
    "user",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-request-id",
];

/// Beginnings of such names.
const ORDINARY_BEGINNINGS: &[&str] = &["accept-", "sec-"];

/// The request fields by which a stored response is selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Selection {
    /// The fields outside the ordinary ones, as [`keyed`] writes them.
    keyed: String,
    /// The fields that `Vary` names.
    varying: Vec<VaryingField>,
}

/// A field that `Vary` names, as the request had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct VaryingField {
    #[serde(with = "field_name")]
    name: HeaderName,
    /// `None`: absent, which is another value than an empty one.
    value: Option<String>,
}

/// The name of a field as text.
mod field_name {
    use http::HeaderName;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(name: &HeaderName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<HeaderName, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        HeaderName::from_bytes(name.as_bytes()).map_err(D::Error::custom)
    }
}

impl Selection {
    /// That of a response to a request with these fields; `None` if its `Vary` names too much.
    pub(crate) fn of(request: &Fields, keyed: String, response: &Fields) -> Option<Self> {
        let vary = joined(response, "vary");
        let names = vary
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let mut varying: Vec<VaryingField> = Vec::new();
        for name in names {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            if varying.iter().any(|field| field.name == name) {
                continue;
            }
            if varying.len() == VARY_NAMES {
                return None;
            }
            let value = normalised(request, &name);
            varying.push(VaryingField { name, value });
        }
        Some(Self { keyed, varying })
    }

    /// Whether the response is one for a request with these fields.
    pub(crate) fn matches(&self, request: &Fields, keyed: &str) -> bool {
        let has_value = |field: &VaryingField| normalised(request, &field.name) == field.value;
        self.keyed == keyed && self.varying.iter().all(has_value)
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        let value = |field: &VaryingField| field.value.as_ref().map_or(0, String::len) + 64;
        self.keyed.len() + self.varying.iter().map(value).sum::<usize>()
    }
}

/// The fields of a request that are part of its key, without those in `unkeyed`; `None` if they are too long.
pub(crate) fn keyed(request: &Fields, unkeyed: &[HeaderName]) -> Option<String> {
    let mut lines = Vec::new();
    for (name, value) in request {
        let is_ordinary = ORDINARY.contains(&name.as_str())
            || ORDINARY_BEGINNINGS
                .iter()
                .any(|beginning| name.starts_with(beginning))
            || unkeyed.iter().any(|other| name == other);
        if !is_ordinary {
            let value = String::from_utf8_lossy(value.as_bytes());
            let value = match name == "forwarded" {
                true => without_clients(&value),
                false => value.into_owned(),
            };
            lines.push(format!("{name}: {value}\n"));
        }
    }
    // The order of two fields says nothing; that of two lines of one field is kept by a stable sort by name.
    lines.sort_by(|one, other| one.split(':').next().cmp(&other.split(':').next()));
    let keyed = lines.concat();
    (keyed.len() <= KEYED_BYTES).then_some(keyed)
}

/// A value of `Forwarded` (RFC 7239) without the addresses of clients and proxies, in which requests for one answer differ: a gateway writes that of
/// its client. A quoted value that is cut leaves its rest, so that the hidden words stay part of the key.
fn without_clients(forwarded: &str) -> String {
    let is_kept = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default().trim();
        !name.eq_ignore_ascii_case("for") && !name.eq_ignore_ascii_case("by")
    };
    let element = |element: &str| {
        let pairs: Vec<_> = element.split(';').filter(is_kept).collect();
        pairs.join(";")
    };
    let elements: Vec<_> = forwarded.split(',').map(element).collect();
    elements.join(",")
}

/// The value of a field as comparisons see it: lines joined, and no space around commas.
fn normalised(request: &Fields, name: &HeaderName) -> Option<String> {
    let mut members = Vec::new();
    let mut is_there = false;
    for value in request.values(name) {
        is_there = true;
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        members.extend(text.split(',').map(|member| member.trim().to_owned()));
    }
    // Both are lists of names whose case says nothing (RFC 9110, section 12.5).
    let joined = members.join(",");
    let ignores_case = name == "accept-encoding" || name == "accept-language";
    is_there.then(|| {
        if ignores_case {
            joined.to_ascii_lowercase()
        } else {
            joined
        }
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_str(value).unwrap());
        }
        fields
    }

    fn selects(vary: &str, one: &[(&'static str, &str)], other: &[(&'static str, &str)]) -> bool {
        let (one, other) = (fields(one), fields(other));
        let key = |fields: &Fields| keyed(fields, &[]).unwrap();
        let selection = Selection::of(&one, key(&one), &fields(&[("vary", vary)])).unwrap();
        selection.matches(&other, &key(&other))
    }

    #[test]
    fn section_4_1_every_field_that_vary_names_has_to_match() {
        let german = [("accept-language", "de, en")];
        assert!(selects(
            "Accept-Language",
            &german,
            &[("accept-language", "DE,en")]
        ));
        assert!(!selects(
            "Accept-Language",
            &german,
            &[("accept-language", "en, de")]
        ));
        assert!(!selects("Accept-Language", &german, &[]));
        assert!(!selects("Accept-Language", &[], &[("accept-language", "")]));
        assert!(selects(
            "accept-language",
            &german,
            &[("accept-language", "de"), ("accept-language", "en")]
        ));
        assert!(selects("", &german, &[]));
    }

    #[test]
    fn a_field_that_the_cache_does_not_know_is_part_of_the_key() {
        for evil in [
            "x-forwarded-host",
            "forwarded",
            "x-original-url",
            "x-http-method-override",
            "cookie",
            "origin",
            "x-any",
        ] {
            assert!(!selects("", &[(evil, "evil.example")], &[]), "{evil}");
            assert!(!selects("", &[], &[(evil, "evil.example")]), "{evil}");
        }
        assert!(selects(
            "",
            &[("user-agent", "a")],
            &[("user-agent", "b"), ("sec-fetch-mode", "cors")]
        ));
    }

    #[test]
    fn of_forwarded_all_but_addresses_is_part_of_the_key() {
        let selects = |one, other| selects("", &[("forwarded", one)], &[("forwarded", other)]);
        let own = "for=192.0.2.1;proto=http;host=site";
        assert!(selects(own, "for=\"[2001:db8::1]:9\";proto=http;host=site"));
        assert!(selects(own, "For=x;proto=http; by=y;host=site"));
        for other in [
            "for=192.0.2.1;proto=https;host=site",
            "for=192.0.2.1;proto=http;host=evil",
            "for=192.0.2.1;proto=http;host=site, for=192.0.2.2",
            "for=\"x;host=evil\";proto=http;host=site",
            "for=\"x,host=evil\";proto=http;host=site",
            "for=x;proto=http;host=site;secret=1",
        ] {
            assert!(!selects(own, other), "{other}");
        }
    }

    #[test]
    fn the_order_of_lines_counts_only_within_a_field() {
        assert!(selects(
            "",
            &[("x-a", "1"), ("x-b", "2")],
            &[("x-b", "2"), ("x-a", "1")]
        ));
        assert!(!selects(
            "",
            &[("x-a", "1"), ("x-a", "2")],
            &[("x-a", "2"), ("x-a", "1")]
        ));
    }

    #[test]
    fn a_vary_of_many_names_is_not_followed() {
        let names = |count: usize| {
            (0..count)
                .map(|at| format!("x-{at}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let response = |count: usize| fields(&[("vary", &names(count))]);
        let of = |count| Selection::of(&Fields::new(), String::new(), &response(count));
        assert!(of(VARY_NAMES).is_some());
        assert!(of(VARY_NAMES + 1).is_none());
        assert!(
            Selection::of(&Fields::new(), String::new(), &fields(&[("vary", "a b")])).is_none()
        );
    }

    #[test]
    fn a_request_with_much_to_compare_has_no_key() {
        let long = "a".repeat(KEYED_BYTES);
        assert_eq!(keyed(&fields(&[("x-a", &long)]), &[]), None);
        assert_eq!(
            keyed(
                &fields(&[("x-a", &long)]),
                &[HeaderName::from_static("x-a")]
            ),
            Some(String::new())
        );
    }
}
