//! The refusal of an unauthenticated client, with a challenge.

use hermes_http::fields::Fields;
use hermes_http::fields::names::{PROXY_AUTHENTICATE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

/// Default realm of challenges.
pub(crate) const REALM: &str = "hermes";

/// The answer in place of serving the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// 407, on a gateway's listener 401; 403 when no credential in a field would help; 503 when busy.
    pub status: StatusCode,
    /// One `Proxy-Authenticate` (gateway: `WWW-Authenticate`) line for each scheme; `Retry-After` when busy.
    pub fields: Fields,
    /// Why, in words that tell nothing secret. `busy` when too many passwords are waiting.
    pub reason: String,
    /// The scheme that failed: `basic`, `bearer`, `mtls`, `ingress`, `other`, or `none` when nothing readable was shown.
    pub scheme: &'static str,
}

/// Why someone is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No credentials.
    Missing,
    /// Credentials that cannot be read.
    Malformed(&'static str),
    /// Credentials of a scheme that this listener does not ask for.
    Unasked(&'static str),
    /// User and password are not known together.
    Basic,
    /// The token is not valid.
    Bearer(&'static str),
    /// The certificate names no one.
    Certificate(&'static str),
    /// The ingress' name cannot be that of a user.
    Ingress(&'static str),
    /// Too many passwords are waiting to be checked.
    Busy,
}

/// The schemes a listener asks for in fields.
pub(crate) struct Schemes<'a> {
    /// The realm of Basic.
    pub basic: Option<&'a str>,
    /// Whether Bearer is asked for.
    pub bearer: bool,
}

impl Challenge {
    pub(crate) fn new(refusal: Refusal, schemes: &Schemes<'_>, gateway: bool) -> Self {
        let (scheme, reason) = refusal.words();
        let mut fields = Fields::new();
        if refusal == Refusal::Busy {
            fields.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return Self {
                status: StatusCode::SERVICE_UNAVAILABLE,
                fields,
                reason,
                scheme,
            };
        }

        // RFC 9110 sections 15.5.2 and 15.5.8: a 401 or 407 carries a challenge; without one it is a 403.
        let lines = schemes.lines(refusal);
        let (status, name) = match gateway {
            _ if lines.is_empty() => (StatusCode::FORBIDDEN, PROXY_AUTHENTICATE),
            true => (StatusCode::UNAUTHORIZED, WWW_AUTHENTICATE),
            false => (
                StatusCode::PROXY_AUTHENTICATION_REQUIRED,
                PROXY_AUTHENTICATE,
            ),
        };

        for line in lines {
            // Realms were checked when they were built in: the line is always a field value.
            if let Ok(value) = HeaderValue::try_from(line) {
                fields.append(name, value);
            }
        }

        Self {
            status,
            fields,
            reason,
            scheme,
        }
    }
}

impl Refusal {
    /// The scheme that failed, and why.
    fn words(self) -> (&'static str, String) {
        match self {
            Self::Missing => ("none", "no credentials were shown".to_owned()),
            Self::Malformed(reason) => ("none", reason.to_owned()),
            Self::Unasked(scheme) => (
                scheme,
                format!("{scheme} authentication is not accepted here"),
            ),
            Self::Basic => ("basic", "user and password do not match".to_owned()),
            Self::Bearer(reason) => ("bearer", reason.to_owned()),
            Self::Certificate(reason) => ("mtls", reason.to_owned()),
            Self::Ingress(reason) => ("ingress", reason.to_owned()),
            Self::Busy => ("basic", "busy".to_owned()),
        }
    }
}

impl Schemes<'_> {
    /// One challenge for each scheme (RFC 7617 section 2, RFC 6750 section 3).
    fn lines(&self, refusal: Refusal) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(realm) = self.basic {
            lines.push(format!(
                r#"Basic realm="{}", charset="UTF-8""#,
                escaped(realm)
            ));
        }

        if self.bearer {
            let realm = escaped(self.basic.unwrap_or(REALM));
            // RFC 6750 section 3.1: no error code for a request that showed no token.
            lines.push(match refusal {
                Refusal::Bearer(reason) => {
                    format!(r#"Bearer realm="{realm}", error="invalid_token", error_description="{reason}""#)
                }
                _ => format!(r#"Bearer realm="{realm}""#),
            });
        }

        lines
    }
}

/// Text between the quotes of a quoted-string (RFC 9110 section 5.6.4).
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
