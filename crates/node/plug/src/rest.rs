//! The rest of a response whose content broke off, or is fetched in pieces: it is asked for with Range and If-Range (RFC 9110, 13.1.5 and
//! 14.2).
//!
//! The bytes at the client belong to one representation. Only an answer that certainly is of the same one continues it.

use hermes_http::{RequestHead, ResponseHead};
use hermes_proto::fields::Fields;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_RANGE, DATE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE,
};
use http::{HeaderValue, Method, StatusCode};
use httpdate::parse_http_date;

/// How long before the response a resource must have changed for last, for the date of that to tell its states apart (RFC 9110, 8.8.2.2).
const STRONG_AFTER: u64 = 60;

/// The response whose content broke off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    validator: Validator,
    /// Bytes of its content, where they were announced.
    length: Option<u64>,
    encoding: Option<Vec<u8>>,
}

/// The validator of one state of the resource (RFC 9110, 8.8).
#[derive(Debug, Clone, PartialEq, Eq)]
enum Validator {
    Tag(HeaderValue),
    Date(HeaderValue),
}

/// The part of an answer that is the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestPart {
    /// Bytes at its beginning that the client has.
    pub skip: u64,
    /// Bytes of the whole representation, where they are known.
    pub whole: Option<u64>,
}

impl Original {
    /// A response to `request` whose rest can be asked for; its content has this length.
    pub fn of(request: &RequestHead, response: &ResponseHead, length: Option<u64>) -> Option<Self> {
        let is_whole = request.method == Method::GET
            && response.status == StatusCode::OK
            && !request.fields.contains_key(RANGE)
            && !response.fields.contains_key(CONTENT_RANGE);
        let fields = &response.fields;
        let refuses = fields
            .get(ACCEPT_RANGES)
            .is_some_and(|units| units.as_bytes().eq_ignore_ascii_case(b"none"));
        if !is_whole || refuses {
            return None;
        }

        Some(Self {
            validator: Validator::of(fields)?,
            length,
            encoding: encoding(fields),
        })
    }

    /// The request for the bytes from `at` on.
    pub fn ask(&self, request: &RequestHead, at: u64) -> RequestHead {
        let mut asking = request.clone();
        if let Ok(range) = HeaderValue::try_from(format!("bytes={at}-")) {
            asking.fields.insert(RANGE, range);
        }

        let (Validator::Tag(value) | Validator::Date(value)) = &self.validator;
        asking.fields.insert(IF_RANGE, value.clone());
        asking
    }

    /// The part of the answer behind the first `at` bytes; its content has this length.
    ///
    /// # Errors
    /// It is of something else, and why that is known.
    pub fn part(
        &self,
        at: u64,
        answer: &ResponseHead,
        length: Option<u64>,
    ) -> Result<RestPart, String> {
        let same = Validator::of(&answer.fields).is_some_and(|its| its == self.validator)
            && encoding(&answer.fields) == self.encoding;

        match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                let range = answer.fields.get(CONTENT_RANGE);
                let range = range.and_then(|value| parse_range(value.to_str().ok()?));
                let (first, whole) = range.ok_or("the answer does not say which part it is")?;
                let other_length = self
                    .length
                    .zip(whole)
                    .is_some_and(|(one, other)| one != other);
                // RFC 9110, 15.3.7: a 206 has the fields of the representation that a 200 would have.
                if !same || other_length {
                    return Err("the content has changed".to_owned());
                }
                if first != at {
                    return Err(format!("the answer begins at {first}, not at {at}"));
                }

                let whole = whole.or(self.length);
                Ok(RestPart { skip: 0, whole })
            }
            // It knows no ranges. The same tag is the same bytes (RFC 9110, 8.8.3.2).
            StatusCode::OK if same && matches!(self.validator, Validator::Tag(_)) => {
                let whole = self.length.or(length);
                if length.is_some() && whole != length {
                    return Err("the content has changed".to_owned());
                }
                Ok(RestPart { skip: at, whole })
            }
            StatusCode::OK => Err("the content has changed".to_owned()),
            status => Err(format!("the answer was {status}")),
        }
    }

    /// Bytes of its content, where they are known.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Whether that is all.
    pub fn is_all(&self, at: u64) -> bool {
        self.length == Some(at)
    }
}

impl Validator {
    /// A strong one: weak ones tell nothing of bytes (RFC 9110, 8.8.1).
    fn of(fields: &Fields) -> Option<Self> {
        if let Some(tag) = fields.get(ETAG) {
            let is_strong = tag.as_bytes().starts_with(b"\"");
            let value = HeaderValue::from_bytes(tag.as_bytes()).ok()?;
            return is_strong.then_some(Self::Tag(value));
        }

        let modified = fields.get(LAST_MODIFIED)?;
        let date = seconds(fields.get(DATE)?.to_str().ok()?)?;
        let changed = seconds(modified.to_str().ok()?)?;
        let value = HeaderValue::from_bytes(modified.as_bytes()).ok()?;
        (changed.saturating_add(STRONG_AFTER) <= date).then_some(Self::Date(value))
    }
}

fn encoding(fields: &Fields) -> Option<Vec<u8>> {
    let value = fields.get(CONTENT_ENCODING)?;
    Some(value.as_bytes().to_vec())
}

/// Seconds of a date.
fn seconds(text: &str) -> Option<u64> {
    let time = parse_http_date(text).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

/// The first byte of a part, and how many the whole has, of `bytes 5-9/10` (RFC 9110, 14.4).
pub fn parse_range(value: &str) -> Option<(u64, Option<u64>)> {
    let (range, whole) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let first: u64 = first.parse().ok()?;
    let last: u64 = last.parse().ok()?;
    let whole = match whole {
        "*" => None,
        whole => Some(whole.parse().ok()?),
    };

    let is_right = first <= last && whole.is_none_or(|whole| last < whole);
    is_right.then_some((first, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            let name = http::HeaderName::from_static(name);
            fields.append(name, HeaderValue::try_from(*value).unwrap());
        }
        fields
    }

    fn response(status: u16, lines: &[(&'static str, &str)]) -> ResponseHead {
        ResponseHead {
            fields: fields(lines),
            ..ResponseHead::new(StatusCode::from_u16(status).unwrap())
        }
    }

    fn request(method: Method, lines: &[(&'static str, &str)]) -> RequestHead {
        RequestHead {
            method,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
            fields: fields(lines),
            version: http::Version::HTTP_11,
            origin_form: true,
        }
    }

    fn get(lines: &[(&'static str, &str)]) -> RequestHead {
        request(Method::GET, lines)
    }

    fn original(lines: &[(&'static str, &str)]) -> Option<Original> {
        Original::of(&get(&[]), &response(200, lines), Some(100))
    }

    const TAG: (&str, &str) = ("etag", "\"one\"");

    #[test]
    fn the_rest_is_asked_for_with_the_validator() {
        let original = original(&[TAG]).unwrap();
        let asking = original.ask(&get(&[("accept", "text/plain")]), 40);
        assert_eq!(asking.fields.get(RANGE).unwrap(), "bytes=40-");
        assert_eq!(asking.fields.get(IF_RANGE).unwrap(), "\"one\"");
        assert!(asking.fields.contains_key(http::header::ACCEPT));
    }

    #[test]
    fn what_has_no_strong_validator_is_not_asked_for() {
        let modified = ("last-modified", "Mon, 23 Nov 2026 10:00:00 GMT");
        let late = ("date", "Mon, 23 Nov 2026 10:01:00 GMT");
        let soon = ("date", "Mon, 23 Nov 2026 10:00:59 GMT");
        assert!(original(&[]).is_none());
        assert!(original(&[("etag", "W/\"one\"")]).is_none());
        assert!(original(&[("etag", "W/\"one\""), modified, late]).is_none());
        assert!(original(&[modified]).is_none());
        assert!(original(&[modified, soon]).is_none());
        assert!(original(&[modified, late]).is_some());
    }

    #[test]
    fn parts_and_other_methods_are_left_alone() {
        let whole = response(200, &[TAG]);
        let none = |request: &RequestHead, response: &ResponseHead| {
            assert!(Original::of(request, response, None).is_none());
        };
        none(&request(Method::POST, &[]), &whole);
        none(&request(Method::HEAD, &[]), &whole);
        none(&get(&[("range", "bytes=0-5")]), &whole);
        none(
            &get(&[]),
            &response(206, &[TAG, ("content-range", "bytes 0-5/10")]),
        );
        none(&get(&[]), &response(404, &[TAG]));
        none(&get(&[]), &response(200, &[TAG, ("accept-ranges", "none")]));
    }

    #[test]
    fn a_part_of_the_same_goes_on() {
        let original = original(&[TAG]).unwrap();
        let part = |range: &str| {
            original.part(
                40,
                &response(206, &[TAG, ("content-range", range)]),
                Some(60),
            )
        };
        let rest = RestPart {
            skip: 0,
            whole: Some(100),
        };
        assert_eq!(part("bytes 40-99/100"), Ok(rest));
        assert_eq!(part("bytes 40-99/*"), Ok(rest));
        assert_eq!(part("bytes 40-69/100"), Ok(rest), "a part of the rest");

        for wrong in [
            "bytes 39-99/100",
            "bytes 40-99/101",
            "bytes 40-100/100",
            "bytes 40-39/100",
            "bytes */100",
            "lines 40-99/100",
            "bytes 40-/100",
            "",
        ] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn content_that_changed_is_never_mixed() {
        let of_tag = original(&[TAG]).unwrap();
        let range = ("content-range", "bytes 40-99/100");
        let gzip = ("content-encoding", "gzip");
        for lines in [
            &[("etag", "\"two\""), range][..],
            &[("etag", "W/\"one\""), range],
            &[range],
            &[TAG, range, gzip],
        ] {
            assert!(of_tag.part(40, &response(206, lines), Some(60)).is_err());
        }
        let whole = response(200, &[("etag", "\"two\"")]);
        assert!(of_tag.part(40, &whole, Some(100)).is_err());
        assert!(of_tag.part(40, &response(404, &[TAG]), None).is_err());

        let modified = [
            ("last-modified", "Mon, 23 Nov 2026 10:00:00 GMT"),
            ("date", "Mon, 23 Nov 2026 12:00:00 GMT"),
        ];
        let of_date = original(&modified).unwrap();
        let whole = response(200, &modified);
        assert!(
            of_date.part(40, &whole, Some(100)).is_err(),
            "a date proves no bytes"
        );
        let part = [modified[0], modified[1], range];
        assert!(of_date.part(40, &response(206, &part), Some(60)).is_ok());
    }

    #[test]
    fn a_server_without_ranges_sends_it_all_again() {
        let original = original(&[TAG]).unwrap();
        let whole = response(200, &[TAG]);
        let again = RestPart {
            skip: 40,
            whole: Some(100),
        };
        assert_eq!(original.part(40, &whole, Some(100)), Ok(again));
        assert_eq!(original.part(40, &whole, None), Ok(again));
        assert!(original.part(40, &whole, Some(99)).is_err());
    }
}
