//! Credentials as they stand in a field.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hermes_http::fields::Fields;
use hermes_http::fields::names::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::HeaderValue;

/// Bytes of a field value with credentials: tokens with long lists of groups fit.
#[doc(alias = "bound")]
const LIMIT: usize = 16 * 1024;

/// The credentials of a client. They have no `Debug` form: that would reveal secrets.
pub(crate) enum Credentials {
    /// RFC 7617.
    Basic { user: String, password: String },
    /// RFC 6750.
    Bearer(String),
    /// A scheme we do not know.
    Other,
}

impl Credentials {
    /// A user and a password that came apart; `None` where no pair of Basic could be theirs (RFC 7617 section 2).
    pub fn of_password(user: &[u8], password: &[u8]) -> Option<Self> {
        let user = std::str::from_utf8(user).ok()?;
        let password = std::str::from_utf8(password).ok()?;
        if user.contains(':') || user.chars().chain(password.chars()).any(char::is_control) {
            return None;
        }
        Some(Self::Basic {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// The scheme's name.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Basic { .. } => "basic",
            Self::Bearer(_) => "bearer",
            Self::Other => "other",
        }
    }
}

/// Takes the credentials out of `fields`. `asks` says whether this listener reads credentials from a field.
///
/// # Errors
/// The mistake, if they cannot be read and this listener would have read them.
pub(crate) fn take(
    fields: &mut Fields,
    gateway: bool,
    asks: bool,
) -> Result<Option<Credentials>, &'static str> {
    let name = if gateway {
        AUTHORIZATION
    } else {
        PROXY_AUTHORIZATION
    };

    let shown: Vec<HeaderValue> = match asks {
        true => fields.values(name).map(HeaderValue::from).collect(),
        false => Vec::new(),
    };

    // RFC 9110 section 11.7.2: consumed by the first proxy that expects it, and by us in any case.
    fields.remove(PROXY_AUTHORIZATION);
    if asks {
        fields.remove(name);
    }

    match shown.as_slice() {
        [] => Ok(None),
        [one] => parse(one).map(Some),
        _ => Err("more than one line of credentials"),
    }
}

/// `scheme SP token68` (RFC 9110 section 11.4).
fn parse(value: &HeaderValue) -> Result<Credentials, &'static str> {
    if value.len() > LIMIT {
        return Err("the credentials are too long");
    }
    let text = value
        .to_str()
        .map_err(|_| "the credentials are not ASCII")?
        .trim();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim_start();

    if scheme.eq_ignore_ascii_case("basic") {
        parse_basic(rest)
    } else if scheme.eq_ignore_ascii_case("bearer") {
        Ok(Credentials::Bearer(rest.to_owned()))
    } else {
        Ok(Credentials::Other)
    }
}

/// `base64(user-id ":" password)`, UTF-8, without control characters (RFC 7617 section 2).
fn parse_basic(encoded: &str) -> Result<Credentials, &'static str> {
    let decoded = STANDARD
        .decode(encoded)
        .map_err(|_| "the basic credentials are not base64")?;
    let pair = String::from_utf8(decoded).map_err(|_| "the basic credentials are not UTF-8")?;
    if pair.chars().any(char::is_control) {
        return Err("the basic credentials hold control characters");
    }

    let (user, password) = pair
        .split_once(':')
        .ok_or("the basic credentials hold no colon")?;
    Ok(Credentials::Basic {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match parse(&HeaderValue::from_str(text).unwrap()) {
            Ok(Credentials::Basic { user, password }) => format!("{user}/{password}"),
            Ok(Credentials::Bearer(token)) => format!("bearer {token}"),
            Ok(Credentials::Other) => "other".to_owned(),
            Err(reason) => reason.to_owned(),
        }
    }

    #[test]
    fn credentials_are_read_strictly() {
        let basic = |pair: &[u8]| format!("bAsIc  {}", STANDARD.encode(pair));
        let cases = [
            (basic(b"alice:a:b"), "alice/a:b"),
            (basic(b"alice:"), "alice/"),
            (basic("jos\u{e9}:p".as_bytes()), "jos\u{e9}/p"),
            (basic(b"alice"), "the basic credentials hold no colon"),
            (
                basic(b"alice:\x00"),
                "the basic credentials hold control characters",
            ),
            (basic(b"\xff:p"), "the basic credentials are not UTF-8"),
            ("Basic !".to_owned(), "the basic credentials are not base64"),
            ("Bearer abc.def".to_owned(), "bearer abc.def"),
            ("Digest x=y".to_owned(), "other"),
            ("x".repeat(LIMIT + 1), "the credentials are too long"),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(&text), expected, "{text:.40}");
        }
    }
}
