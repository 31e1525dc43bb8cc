//! Credentials for a proxy (RFC 9110, section 11.7): Basic (RFC 7617) and Bearer (RFC 6750).
//!
//! They are read here and judged elsewhere. Neither [`Credentials`] nor [`CredentialsError`] shows
//! any part of the input, not even the user: some clients send a token in its place.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
#[cfg(test)]
use http::header::HeaderValue;

use crate::fields::names::PROXY_AUTHORIZATION;
use crate::fields::{AsFieldValue, Fields};

/// A client's claim to an identity.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A user and a password.
    Basic {
        /// Not empty, without a colon.
        user: String,
        /// May be empty.
        password: String,
    },
    /// A token, as it was sent: of the `b64token` grammar, which JSON web tokens keep to.
    Bearer(String),
}

/// Why credentials cannot be read. Answer 407.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// There are several lines, and which one counts would be a guess.
    #[error("Proxy-Authorization is given more than once")]
    Repeated,
    /// The scheme is neither Basic nor Bearer.
    #[error("the authentication scheme is neither Basic nor Bearer")]
    Scheme,
    /// The text behind `Basic` is not base64 with its padding.
    #[error("the Basic credentials are not base64")]
    Base64,
    /// A user or password that is not UTF-8 (the charset of RFC 7617, section 2.1).
    #[error("the Basic credentials are not UTF-8")]
    Charset,
    /// No colon between user and password.
    #[error("the Basic credentials have no colon between user and password")]
    NoColon,
    /// The user before the colon is empty.
    #[error("the Basic credentials name no user")]
    NoUser,
    /// A control character (refused: RFC 7617, section 2).
    #[error("the Basic credentials hold a control character")]
    Control,
    /// The text behind `Bearer` is not a `b64token` (RFC 6750, section 2.1).
    #[error("the Bearer token is empty or has a character that no token has")]
    Token,
}

impl Credentials {
    /// The credentials in `Proxy-Authorization`, or `None` without that field.
    ///
    /// # Errors
    /// [`CredentialsError`], also when there are several lines.
    pub fn from_fields(fields: &Fields) -> Result<Option<Self>, CredentialsError> {
        let mut lines = fields.values(PROXY_AUTHORIZATION);
        match (lines.next(), lines.next()) {
            (None, _) => Ok(None),
            (Some(line), None) => Self::parse(line).map(Some),
            (Some(_), Some(_)) => Err(CredentialsError::Repeated),
        }
    }

    /// Parses the value of one line: a scheme in any case, spaces, credentials.
    ///
    /// # Errors
    /// [`CredentialsError`].
    pub fn parse(value: impl AsFieldValue) -> Result<Self, CredentialsError> {
        let value = value.field_value().as_bytes();
        let end = value
            .iter()
            .position(|&byte| byte == b' ')
            .unwrap_or(value.len());
        let (scheme, rest) = value.split_at(end);
        let rest = rest.trim_ascii();

        if scheme.eq_ignore_ascii_case(b"Basic") {
            parse_basic(rest)
        } else if scheme.eq_ignore_ascii_case(b"Bearer") {
            parse_bearer(rest)
        } else {
            Err(CredentialsError::Scheme)
        }
    }
}

fn parse_basic(encoded: &[u8]) -> Result<Credentials, CredentialsError> {
    let decoded = STANDARD
        .decode(encoded)
        .map_err(|_| CredentialsError::Base64)?;
    let text = String::from_utf8(decoded).map_err(|_| CredentialsError::Charset)?;
    if text.chars().any(char::is_control) {
        return Err(CredentialsError::Control);
    }

    match text.split_once(':') {
        None => Err(CredentialsError::NoColon),
        Some(("", _)) => Err(CredentialsError::NoUser),
        Some((user, password)) => Ok(Credentials::Basic {
            user: user.to_owned(),
            password: password.to_owned(),
        }),
    }
}

fn parse_bearer(token: &[u8]) -> Result<Credentials, CredentialsError> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    let padding = token.iter().rev().take_while(|&&byte| byte == b'=').count();
    let body = &token[..token.len() - padding];

    if body.is_empty() || !body.iter().all(allowed) {
        return Err(CredentialsError::Token);
    }
    Ok(Credentials::Bearer(
        token.iter().copied().map(char::from).collect(),
    ))
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic(..)",
            Self::Bearer(_) => "Bearer(..)",
        })
    }
}

/// Parses an arbitrary value: an accepted value keeps its grammar, survives a round trip and is
/// never shown.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else {
        return;
    };
    let Ok(credentials) = Credentials::parse(&value) else {
        return;
    };

    let again = match &credentials {
        Credentials::Basic { user, password } => {
            assert!(!user.is_empty() && !user.contains(':'));
            format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
        }
        Credentials::Bearer(token) => format!("bearer {token}"),
    };

    assert_eq!(
        HeaderValue::try_from(again)
            .map(|value| Credentials::parse(&value))
            .ok(),
        Some(Ok(credentials.clone()))
    );

    assert!(["Basic(..)", "Bearer(..)"].contains(&format!("{credentials:?}").as_str()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(value: &str) -> Result<Credentials, CredentialsError> {
        Credentials::parse(HeaderValue::from_bytes(value.as_bytes()).unwrap())
    }

    fn basic(text: impl AsRef<[u8]>) -> Result<Credentials, CredentialsError> {
        parse(&format!("Basic {}", STANDARD.encode(text)))
    }

    fn both(user: &str, password: &str) -> Result<Credentials, CredentialsError> {
        Ok(Credentials::Basic {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    #[test]
    fn reads_the_examples_of_rfc_7617() {
        assert_eq!(
            parse("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            both("Aladdin", "open sesame")
        );
        assert_eq!(parse("Basic dGVzdDoxMjPCow=="), both("test", "123\u{a3}"));
    }

    #[test]
    fn reads_the_example_of_rfc_6750() {
        assert_eq!(
            parse("Bearer mF_9.B5f-4.1JqM"),
            Ok(Credentials::Bearer("mF_9.B5f-4.1JqM".to_owned()))
        );
    }

    #[test]
    fn takes_schemes_in_any_case_and_more_than_one_space() {
        assert_eq!(parse("bAsIc   YTpi "), both("a", "b"));
        assert_eq!(
            parse("BEARER  abc=="),
            Ok(Credentials::Bearer("abc==".to_owned()))
        );
    }

    #[test]
    fn splits_at_the_first_colon_and_allows_an_empty_password() {
        assert_eq!(basic("a:b:c"), both("a", "b:c"));
        assert_eq!(basic("a:"), both("a", ""));
    }

    #[test]
    fn says_what_is_wrong() {
        let cases = [
            ("", CredentialsError::Scheme),
            ("Negotiate YTpi", CredentialsError::Scheme),
            ("Basic\tYTpi", CredentialsError::Scheme),
            ("Basic", CredentialsError::NoColon),
            ("Basic YTp", CredentialsError::Base64),
            ("Basic YT pi", CredentialsError::Base64),
            ("Basic YTpi, Basic YTpi", CredentialsError::Base64),
            ("Bearer", CredentialsError::Token),
            ("Bearer ==", CredentialsError::Token),
            ("Bearer a=b", CredentialsError::Token),
            ("Bearer a b", CredentialsError::Token),
        ];
        for (value, error) in cases {
            assert_eq!(parse(value), Err(error), "{value}");
        }
        assert_eq!(basic("a"), Err(CredentialsError::NoColon));
        assert_eq!(basic(":b"), Err(CredentialsError::NoUser));
        assert_eq!(basic("a:\r\n"), Err(CredentialsError::Control));
        assert_eq!(basic([0xff, b':']), Err(CredentialsError::Charset));
    }

    #[test]
    fn refuses_to_choose_between_two_lines() {
        let mut fields = Fields::new();
        assert_eq!(Credentials::from_fields(&fields), Ok(None));
        fields.append(PROXY_AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
        assert_eq!(
            Credentials::from_fields(&fields).transpose(),
            Some(both("a", "b"))
        );
        fields.append(PROXY_AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
        assert_eq!(
            Credentials::from_fields(&fields),
            Err(CredentialsError::Repeated)
        );
    }

    #[test]
    fn never_shows_a_secret() {
        assert_eq!(format!("{:?}", basic("alice:secret")), "Ok(Basic(..))");
        assert_eq!(format!("{:?}", parse("Bearer secret")), "Ok(Bearer(..))");
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(user in "[^:\\p{Cc}]+", password in "\\P{Cc}*") {
            prop_assert_eq!(basic(format!("{user}:{password}")), both(&user, &password));
        }
    }
}
