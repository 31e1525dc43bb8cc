//! Whether a response is stored, and for whom (RFC 9111, sections 3 and 3.5).

use hermes_http::{RequestHead, ResponseHead};
use http::StatusCode;

use crate::control::Directives;
use crate::freshness::Freshness;

/// For whom a response is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Everyone: the origin says so.
    All,
    /// The user who asked for it, or everyone without a user.
    Asker,
}

/// For whom a response to GET is stored; why it is not.
///
/// # Errors
/// It may not be stored, or would be of no use.
pub(crate) fn audience(
    request: &RequestHead,
    response: &ResponseHead,
    freshness: &Freshness,
) -> Result<Audience, &'static str> {
    let control = Directives::of_response(&response.fields);
    let fields = &response.fields;

    // Section 5.2.2.3: must-understand lifts no-store where the meaning of the status is known.
    let is_known = is_whole(response.status) || response.status == StatusCode::NOT_FOUND;
    let is_understood = control.has("must-understand") && is_known;
    if control.has("no-store") && !is_understood {
        return Err("the answer says no-store");
    }
    if Directives::of_request(&request.fields).has("no-store") {
        return Err("the request says no-store");
    }
    // With field names, too, as section 5.2.2.7 lets a cache do.
    if control.has("private") {
        return Err("the answer is private");
    }
    if fields.contains_key("set-cookie") {
        return Err("the answer sets a cookie");
    }
    if crate::control::joined(fields, "vary").contains('*') {
        return Err("the answer varies on everything");
    }
    if response.status == StatusCode::PARTIAL_CONTENT || response.status == StatusCode::NOT_MODIFIED
    {
        return Err("the answer is not whole");
    }

    let is_for_all = control.has("public") || control.has("s-maxage") || control.is_targeted;
    // Section 3.5. must-revalidate would permit it, too; the user's credential is no part of the key, so it does not here.
    if request.fields.contains_key("authorization") && !is_for_all {
        return Err("the request has a credential");
    }

    let is_explicit = freshness.is_fresh(freshness.initial_age);
    let has_validator = fields.contains_key("etag") || fields.contains_key("last-modified");
    let is_validated_later = has_validator && is_whole(response.status);
    if !is_explicit && !is_validated_later {
        return Err("the answer is not fresh, and has no validator");
    }

    Ok(match is_for_all {
        true => Audience::All,
        false => Audience::Asker,
    })
}

/// Statuses whose answers are stored without explicit freshness, to be validated.
fn is_whole(status: StatusCode) -> bool {
    status == StatusCode::OK || status == StatusCode::NON_AUTHORITATIVE_INFORMATION
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use hermes_proto::fields::Fields;
    use http::{HeaderValue, Method};

    use super::*;
    use crate::freshness::Exchanged;
    use crate::name::tests::request;

    fn fields(lines: &[(&'static str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_str(value).unwrap());
        }
        fields
    }

    fn judged(
        asked: &[(&'static str, &str)],
        status: u16,
        answered: &[(&'static str, &str)],
    ) -> Result<Audience, &'static str> {
        let mut head = request(Method::GET, "/");
        head.fields = fields(asked);
        let mut response = ResponseHead::new(StatusCode::from_u16(status).unwrap());
        response.fields = fields(answered);
        let control = Directives::of_response(&response.fields);
        let exchanged = Exchanged {
            response_time: SystemTime::UNIX_EPOCH,
            delay: Duration::ZERO,
        };
        let freshness = Freshness::of(&response.fields, &control, exchanged);
        audience(&head, &response, &freshness)
    }

    fn stores(control: &str) -> bool {
        judged(&[], 200, &[("cache-control", control)]).is_ok()
    }

    #[test]
    fn section_3_a_response_is_stored_if_nothing_forbids_it() {
        assert!(stores("max-age=1"));
        for forbidden in [
            "max-age=1, no-store",
            "max-age=1, private",
            "private=\"a\", max-age=1",
        ] {
            assert!(!stores(forbidden), "{forbidden}");
        }
        let asked = [("cache-control", "no-store")];
        assert!(judged(&asked, 200, &[("cache-control", "max-age=1")]).is_err());
    }

    #[test]
    fn section_3_without_freshness_it_needs_a_validator_and_a_status_that_is_known() {
        assert!(judged(&[], 200, &[]).is_err());
        assert!(judged(&[], 200, &[("etag", "\"a\"")]).is_ok());
        assert!(judged(&[], 404, &[("etag", "\"a\"")]).is_err());
        assert!(judged(&[], 404, &[("cache-control", "max-age=1")]).is_ok());
    }

    #[test]
    fn section_3_3_partial_responses_are_not_stored() {
        assert!(judged(&[], 206, &[("cache-control", "max-age=9")]).is_err());
    }

    #[test]
    fn section_3_5_a_credential_needs_an_origin_that_says_public() {
        let asked = [("authorization", "Basic YTpi")];
        assert!(judged(&asked, 200, &[("cache-control", "max-age=9")]).is_err());
        for public in ["public, max-age=9", "s-maxage=9"] {
            assert_eq!(
                judged(&asked, 200, &[("cache-control", public)]),
                Ok(Audience::All)
            );
        }
        assert_eq!(
            judged(&asked, 200, &[("cdn-cache-control", "max-age=9")]),
            Ok(Audience::All)
        );
    }

    #[test]
    fn section_4_1_a_response_that_varies_on_everything_is_not_stored() {
        let answered = [("cache-control", "max-age=9"), ("vary", "accept, *")];
        assert!(judged(&[], 200, &answered).is_err());
    }

    #[test]
    fn section_5_2_2_3_must_understand_lifts_no_store_where_the_status_is_known() {
        let control = [("cache-control", "max-age=9, no-store, must-understand")];
        assert!(judged(&[], 200, &control).is_ok());
        assert!(judged(&[], 299, &control).is_err());
    }

    #[test]
    fn section_7_3_a_response_that_sets_a_cookie_is_not_stored() {
        let answered = [
            ("cache-control", "public, max-age=9"),
            ("set-cookie", "a=b"),
        ];
        assert!(judged(&[], 200, &answered).is_err());
    }

    #[test]
    fn what_no_origin_made_public_is_for_the_user_who_asked() {
        assert_eq!(
            judged(&[], 200, &[("cache-control", "max-age=9")]),
            Ok(Audience::Asker)
        );
    }
}
