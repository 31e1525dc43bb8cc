//! The `Proxy-Status` field (RFC 9209): which proxy failed an exchange, and why.

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};

use crate::fields::Fields;
use crate::hop_report::PARAMETERS;
use crate::quoted;
use crate::refusal_id::RefusalId;

/// The field's name.
pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Characters of `details` that are written, since clients choose parts of it; the rest is cut off.
#[doc(alias = "bound")]
pub const MAX_DETAILS: usize = 256;

macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident = $token:literal, $status:ident;)+) => {
        /// Types of errors, from the registry "HTTP Proxy Error Types" (RFC 9209, section 2.3).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProxyError {
            $($(#[$doc])* $variant,)+
        }

        impl ProxyError {
            /// All types, in the order of the registry.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The token on the wire.
            pub fn token(self) -> &'static str {
                match self { $(Self::$variant => $token,)+ }
            }

            /// The status that the registry recommends.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }
        }
    };
}

registry! {
    /// The name lookup took too long.
    DnsTimeout = "dns_timeout", GATEWAY_TIMEOUT;
    /// The name lookup failed.
    DnsError = "dns_error", BAD_GATEWAY;
    /// There is no route to take for the request.
    DestinationNotFound = "destination_not_found", INTERNAL_SERVER_ERROR;
    /// The next hop is known to be down.
    DestinationUnavailable = "destination_unavailable", SERVICE_UNAVAILABLE;
    /// The address may not be connected to.
    DestinationIpProhibited = "destination_ip_prohibited", BAD_GATEWAY;
    /// The network has no path to the address.
    DestinationIpUnroutable = "destination_ip_unroutable", BAD_GATEWAY;
    /// The next hop refused the connection.
    ConnectionRefused = "connection_refused", BAD_GATEWAY;
    /// The connection closed before the response began.
    ConnectionTerminated = "connection_terminated", BAD_GATEWAY;
    /// Connecting took too long.
    ConnectionTimeout = "connection_timeout", GATEWAY_TIMEOUT;
    /// Nothing could be read for too long.
    ConnectionReadTimeout = "connection_read_timeout", GATEWAY_TIMEOUT;
    /// Nothing could be written for too long.
    ConnectionWriteTimeout = "connection_write_timeout", GATEWAY_TIMEOUT;
    /// The proxy has as many connections as it may have.
    ConnectionLimitReached = "connection_limit_reached", SERVICE_UNAVAILABLE;
    /// The TLS handshake failed.
    TlsProtocolError = "tls_protocol_error", BAD_GATEWAY;
    /// The next hop's certificate does not hold.
    TlsCertificateError = "tls_certificate_error", BAD_GATEWAY;
    /// The next hop sent a TLS alert.
    TlsAlertReceived = "tls_alert_received", BAD_GATEWAY;
    /// The request is at fault; another 4xx may say it better.
    HttpRequestError = "http_request_error", BAD_REQUEST;
    /// The proxy's rules deny the request.
    HttpRequestDenied = "http_request_denied", FORBIDDEN;
    /// The response ended early.
    HttpResponseIncomplete = "http_response_incomplete", BAD_GATEWAY;
    /// The response's header section is too large.
    HttpResponseHeaderSectionSize = "http_response_header_section_size", BAD_GATEWAY;
    /// One field of the response's header is too large.
    HttpResponseHeaderSize = "http_response_header_size", BAD_GATEWAY;
    /// The response's content is too large.
    HttpResponseBodySize = "http_response_body_size", BAD_GATEWAY;
    /// The response's trailer section is too large.
    HttpResponseTrailerSectionSize = "http_response_trailer_section_size", BAD_GATEWAY;
    /// One field of the response's trailer is too large.
    HttpResponseTrailerSize = "http_response_trailer_size", BAD_GATEWAY;
    /// The response's transfer coding could not be decoded.
    HttpResponseTransferCoding = "http_response_transfer_coding", BAD_GATEWAY;
    /// The response's content coding could not be decoded.
    HttpResponseContentCoding = "http_response_content_coding", BAD_GATEWAY;
    /// The whole response took too long.
    HttpResponseTimeout = "http_response_timeout", GATEWAY_TIMEOUT;
    /// The next hop did not agree to the upgrade.
    HttpUpgradeFailed = "http_upgrade_failed", BAD_GATEWAY;
    /// The next hop broke HTTP in another way.
    HttpProtocolError = "http_protocol_error", BAD_GATEWAY;
    /// The proxy itself made the response, without forwarding; the registry leaves the status open.
    ProxyInternalResponse = "proxy_internal_response", INTERNAL_SERVER_ERROR;
    /// The proxy itself failed.
    ProxyInternalError = "proxy_internal_error", INTERNAL_SERVER_ERROR;
    /// The proxy's configuration does not hold.
    ProxyConfigurationError = "proxy_configuration_error", INTERNAL_SERVER_ERROR;
    /// The request came back to a proxy that had forwarded it.
    ProxyLoopDetected = "proxy_loop_detected", BAD_GATEWAY;
}

/// One member of `Proxy-Status`: `node; error=token; next-hop=..; details=".."`.
///
/// `node` and `next_hop` are written as a token where the grammar allows it and else as a string,
/// `details` as a string of at most [`MAX_DETAILS`] characters. Characters that are not printable
/// ASCII become `?` (RFC 8941, section 3.3.3).
///
/// # Examples
/// ```
/// use hermes_proto::proxy_status::{ProxyError, format};
///
/// let value = format("edge", ProxyError::DnsError, Some("no such name"), None);
/// assert_eq!(value, r#"edge; error=dns_error; details="no such name""#);
/// ```
pub fn format(
    node: &str,
    error: ProxyError,
    details: Option<&str>,
    next_hop: Option<&str>,
) -> HeaderValue {
    let mut text = String::with_capacity(64);
    push_item(node, &mut text);
    text.push_str("; error=");
    text.push_str(error.token());

    if let Some(next_hop) = next_hop {
        text.push_str("; next-hop=");
        push_item(next_hop, &mut text);
    }

    if let Some(details) = details {
        push_details(details, &mut text);
    }

    quoted::field_value(text)
}

fn push_details(details: &str, text: &mut String) {
    let end = details
        .char_indices()
        .nth(MAX_DETAILS)
        .map_or(details.len(), |(end, _)| end);
    text.push_str("; details=");
    quoted::push_string(&details[..end], text);
}

/// As [`format()`], with the name of the refusal as a last parameter. Strangers may see it, as it says nothing.
///
/// # Examples
/// ```
/// use hermes_proto::proxy_status::{ProxyError, format, named};
/// use hermes_proto::refusal_id::RefusalId;
///
/// let id = RefusalId::from_random(0x0123_4567_89ab);
/// let value = named(format("edge", ProxyError::DnsError, None, None), id);
/// assert_eq!(value, "edge; error=dns_error; refusal=bcdfghjklmnp");
/// ```
pub fn named(member: HeaderValue, id: RefusalId) -> HeaderValue {
    let mut text = String::from_utf8_lossy(member.as_bytes()).into_owned();
    text.push_str("; refusal=");
    text.push_str(id.as_str());
    quoted::field_value(text)
}

/// The member of a proxy that has done its part.
pub fn success(node: &str) -> HeaderValue {
    let mut text = String::with_capacity(node.len());
    push_item(node, &mut text);
    quoted::field_value(text)
}

/// The member of a proxy that waits for something, in an interim response.
pub fn waits(node: &str, details: &str) -> HeaderValue {
    let mut text = String::with_capacity(64);
    push_item(node, &mut text);
    push_details(details, &mut text);
    quoted::field_value(text)
}

/// Adds a member after those of the proxies that are nearer to the origin (RFC 9209, section 2).
pub fn append(fields: &mut Fields, member: HeaderValue) {
    fields.append(PROXY_STATUS, member);
}

/// Takes `details`, `next-hop` and [reports](crate::hop_report) out of all members, for strangers. Returns whether a member has an
/// `error`: then an intermediary wrote the response (RFC 9209, section 2.1.1).
///
/// Parameters that cannot be read go with everything behind them.
pub fn hide_details(fields: &mut Fields) -> bool {
    let lines: Vec<_> = fields
        .values(PROXY_STATUS)
        .map(|line| line.as_bytes().to_vec())
        .collect();
    fields.remove(PROXY_STATUS);
    let mut is_error = false;

    for line in lines {
        let text = String::from_utf8_lossy(&line);
        let members: Vec<String> = split(&text, ',')
            .map(|member| terse(member, &mut is_error))
            .collect();
        append(fields, quoted::field_value(printable(&members.join(", "))));
    }

    is_error
}

/// A member without the parameters that tell of the overlay's inside.
fn terse(member: &str, is_error: &mut bool) -> String {
    let mut parts = split(member, ';').map(str::trim);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for parameter in parts {
        let name = parameter.split('=').next().unwrap_or_default();
        *is_error |= name == "error";
        let is_inside = ["details", "next-hop"].contains(&name) || PARAMETERS.contains(&name);
        if !is_inside {
            kept.push_str("; ");
            kept.push_str(parameter);
        }
    }

    kept
}

/// A proxy's report of its failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedFailure {
    /// The proxy, by the name that it gives itself.
    pub node: String,
    /// The type of the error.
    pub error: ProxyError,
    /// Its description; empty if there is none.
    pub details: String,
    /// Its name for the refusal.
    pub refusal: Option<RefusalId>,
}

/// Bytes of another proxy's name that are kept: it goes into records.
#[doc(alias = "bound")]
pub(crate) const MAX_NODE: usize = 64;

/// The first member with an `error` that is known: that of the failed proxy nearest to the origin.
/// Copied texts are bounded and printable.
///
/// # Examples
/// ```
/// use hermes_proto::proxy_status::{ProxyError, first_error, format, PROXY_STATUS};
/// use hermes_proto::fields::Fields;
///
/// let mut fields = Fields::new();
/// fields.insert(PROXY_STATUS, format("edge", ProxyError::DnsError, Some("no such name"), None));
/// let told = first_error(&fields).unwrap();
/// assert_eq!(told.to_string(), "dns_error: edge: no such name");
/// ```
pub fn first_error(fields: &Fields) -> Option<ReportedFailure> {
    let lines: Vec<_> = fields
        .values(PROXY_STATUS)
        .map(|line| printable(&String::from_utf8_lossy(line.as_bytes())))
        .collect();
    lines
        .iter()
        .flat_map(|line| split(line, ','))
        .find_map(told)
}

pub(crate) fn told(member: &str) -> Option<ReportedFailure> {
    let mut parts = split(member, ';').map(str::trim);
    let node = bare(parts.next()?, MAX_NODE);
    let mut error = None;
    let mut details = String::new();
    let mut refusal = None;

    for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        match name {
            "error" => {
                error = ProxyError::ALL
                    .iter()
                    .copied()
                    .find(|known| known.token() == value)
            }
            "details" => details = bare(value, MAX_DETAILS),
            "refusal" => refusal = value.parse().ok(),
            _ => {}
        }
    }

    error.map(|error| ReportedFailure {
        node,
        error,
        details,
        refusal,
    })
}

/// A token, or the content of a string, up to this many letters.
pub(crate) fn bare(value: &str, most: usize) -> String {
    let Some(quoted) = value.strip_prefix('"') else {
        return value.chars().take(most).collect();
    };
    let inner = quoted.strip_suffix('"').unwrap_or(quoted);
    let mut escaped = false;
    let letters = inner.chars().filter(|letter| {
        escaped = *letter == '\\' && !escaped;
        !escaped
    });

    letters.take(most).collect()
}

impl std::fmt::Display for ReportedFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.error.token(), self.words())
    }
}

impl ReportedFailure {
    /// The reporting proxy and its description, without the type of the error.
    pub fn words(&self) -> String {
        match self.details.as_str() {
            "" => self.node.clone(),
            details => format!("{}: {details}", self.node),
        }
    }
}

/// The parts between separators that stand outside of strings.
pub(crate) fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |character| {
        let separates = !quoted && character == separator;
        (quoted, escaped) = match character {
            _ if escaped => (quoted, false),
            '\\' => (quoted, quoted),
            '"' => (!quoted, false),
            _ => (quoted, false),
        };

        separates
    })
}

pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|character| {
            if matches!(character, ' '..='~') {
                character
            } else {
                '?'
            }
        })
        .collect()
}

pub(crate) fn push_item(text: &str, output: &mut String) {
    match is_sf_token(text.as_bytes()) {
        true => output.push_str(text),
        false => quoted::push_string(text, output),
    }
}

/// Whether `text` is an `sf-token` (RFC 8941, section 3.3.4).
fn is_sf_token(text: &[u8]) -> bool {
    let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'*';
    let goes_on = |byte: u8| quoted::is_tchar(byte) || byte == b':' || byte == b'/';
    text.split_first()
        .is_some_and(|(&first, rest)| starts(first) && rest.iter().all(|&byte| goes_on(byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writes_names_as_tokens_where_it_can() {
        let value = format(
            "alice-laptop",
            ProxyError::ConnectionRefused,
            None,
            Some("db.example:5432"),
        );
        assert_eq!(
            value,
            "alice-laptop; error=connection_refused; next-hop=db.example:5432"
        );
        let value = format(
            "1 node",
            ProxyError::ConnectionTimeout,
            None,
            Some("[::1]:80"),
        );
        assert_eq!(
            value,
            "\"1 node\"; error=connection_timeout; next-hop=\"[::1]:80\""
        );
    }

    #[test]
    fn a_success_is_the_name_alone() {
        assert_eq!(
            (success("edge"), success("1 node")),
            ("edge".parse().unwrap(), "\"1 node\"".parse().unwrap())
        );
    }

    #[test]
    fn escapes_details_and_replaces_what_is_not_ascii() {
        let value = format(
            "n",
            ProxyError::DnsError,
            Some("a \"b\" \\ caf\u{e9}\r\n"),
            None,
        );
        assert_eq!(value, r#"n; error=dns_error; details="a \"b\" \\ caf???""#);
    }

    #[test]
    fn cuts_long_details() {
        let value = format(
            "n",
            ProxyError::DnsError,
            Some(&"\u{e9}".repeat(MAX_DETAILS + 1)),
            None,
        );
        assert_eq!(value.to_str().unwrap().matches('?').count(), MAX_DETAILS);
    }

    #[test]
    fn appends_after_the_members_of_others() {
        let mut fields = Fields::new();
        fields.insert(
            PROXY_STATUS,
            HeaderValue::from_static("origin-side; error=dns_error"),
        );
        append(
            &mut fields,
            format("n", ProxyError::HttpUpgradeFailed, None, None),
        );
        let members: Vec<_> = fields.values(PROXY_STATUS).collect();
        assert_eq!(
            members,
            [
                "origin-side; error=dns_error",
                "n; error=http_upgrade_failed"
            ]
        );
    }

    #[test]
    fn a_stranger_learns_the_kind_of_the_error_only() {
        let mut fields = Fields::new();
        let far = format(
            "sap",
            ProxyError::DnsError,
            Some("no \"db\", really; \\"),
            Some("db.internal:5432"),
        );
        fields.append(PROXY_STATUS, far);
        fields.append(
            PROXY_STATUS,
            HeaderValue::from_static(
                "a; received-status=503, b; next-hop=\"x;y\"; error=dns_error",
            ),
        );
        assert!(hide_details(&mut fields));
        let members: Vec<_> = fields.values(PROXY_STATUS).collect();
        assert_eq!(
            members,
            [
                "sap; error=dns_error",
                "a; received-status=503, b; error=dns_error"
            ]
        );
        let mut fields = Fields::from_iter([(
            PROXY_STATUS,
            HeaderValue::from_static("cdn; details=\"open"),
        )]);
        assert!(!hide_details(&mut fields));
        assert_eq!(fields.get(PROXY_STATUS).unwrap(), "cdn");
    }

    #[test]
    fn the_first_error_is_that_of_the_proxy_nearest_to_the_origin() {
        let mut fields = Fields::new();
        fields.append(
            PROXY_STATUS,
            HeaderValue::from_static("cdn; received-status=404, far; error=sleepy"),
        );
        fields.append(
            PROXY_STATUS,
            format(
                "1 edge",
                ProxyError::DnsError,
                Some("no \"db\", \\; x"),
                Some("db:5432"),
            ),
        );
        fields.append(
            PROXY_STATUS,
            format("core", ProxyError::HttpUpgradeFailed, None, None),
        );
        let told = first_error(&fields).unwrap();
        assert_eq!(told.to_string(), "dns_error: 1 edge: no \"db\", \\; x");
        fields.remove(PROXY_STATUS);
        assert_eq!(first_error(&fields), None);
        fields.insert(
            PROXY_STATUS,
            HeaderValue::from_bytes(b"a; error=dns_error; details=\"\xc2\x9b[31m\"").unwrap(),
        );
        assert_eq!(
            first_error(&fields).unwrap().to_string(),
            "dns_error: a: ?[31m"
        );
    }

    #[test]
    fn recommends_the_statuses_of_the_registry() {
        let cases = [
            (ProxyError::DnsTimeout, 504),
            (ProxyError::DnsError, 502),
            (ProxyError::DestinationNotFound, 500),
            (ProxyError::DestinationUnavailable, 503),
            (ProxyError::ConnectionLimitReached, 503),
            (ProxyError::HttpRequestError, 400),
            (ProxyError::HttpRequestDenied, 403),
            (ProxyError::HttpResponseTimeout, 504),
            (ProxyError::ProxyConfigurationError, 500),
            (ProxyError::ProxyLoopDetected, 502),
        ];
        for (error, status) in cases {
            assert_eq!(error.status(), status, "{}", error.token());
        }
    }

    #[test]
    fn has_one_token_of_its_own_for_each_of_the_32_types() {
        let tokens: std::collections::BTreeSet<_> =
            ProxyError::ALL.iter().map(|error| error.token()).collect();
        assert_eq!((tokens.len(), ProxyError::ALL.len()), (32, 32));
        assert!(tokens.iter().all(|token| is_sf_token(token.as_bytes())));
    }

    proptest! {
        #[test]
        fn what_another_proxy_says_has_bounds_and_is_printable(line in prop::collection::vec(any::<u8>(), 0..600)) {
            let Ok(value) = HeaderValue::from_bytes(&line) else { return Ok(()) };
            let fields = Fields::from_iter([(PROXY_STATUS, value)]);
            if let Some(told) = first_error(&fields) {
                prop_assert!(told.node.len() <= MAX_NODE && told.details.len() <= MAX_DETAILS);
                prop_assert!(told.to_string().chars().all(|letter| matches!(letter, ' '..='~')));
            }
        }

        #[test]
        fn what_we_say_is_understood(node in "[ -~]{1,20}", details in "[ -~]{0,80}", random in any::<u64>()) {
            let id = RefusalId::from_random(random);
            let member = named(format(&node, ProxyError::DnsError, Some(&details), None), id);
            let mut fields = Fields::from_iter([(PROXY_STATUS, member)]);
            let refusal = Some(id);
            let told = ReportedFailure { node, error: ProxyError::DnsError, details, refusal };
            prop_assert_eq!(first_error(&fields), Some(told.clone()));

            // A stranger learns its name, too.
            hide_details(&mut fields);
            let hidden = ReportedFailure { details: String::new(), ..told };
            prop_assert_eq!(first_error(&fields), Some(hidden));
        }

        #[test]
        fn stays_one_member_whatever_it_is_given(node in any::<String>(), details in any::<String>(), hop in any::<String>()) {
            let value = format(&node, ProxyError::DnsError, Some(&details), Some(&hop));
            let text = value.to_str().unwrap();
            prop_assert_eq!(outside_of_strings(text).matches(';').count(), 3);
            prop_assert!(!outside_of_strings(text).contains(','));
        }
    }

    /// The rest of `text` without its strings; all of them must end.
    fn outside_of_strings(text: &str) -> String {
        let (mut outside, mut quoted, mut escaped) = (String::new(), false, false);
        for character in text.chars() {
            match character {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                _ if !quoted => outside.push(character),
                _ => {}
            }
        }
        assert!(!quoted);
        outside
    }
}
