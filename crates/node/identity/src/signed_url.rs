//! Signed URLs: anyone who holds one may fetch its resource until its time is over.
//!
//! ```text
//! http://host/path?a=1&signature=1800000000.MAC
//! MAC = base64url(HMAC-SHA-256(key, "hermes-url\n1800000000\nhost/path?a=1"))
//! ```
//!
//! The signed text has the URL in one spelling, without the parameter itself: another spelling of the same URL is signed, too, and nothing
//! else is. `http` and `https` are not told apart, as a server before this node may end TLS.

use std::borrow::Cow;
use std::fmt;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_proto::path::{Token, Tokens, capital};

/// Characters that a key has at least.
#[doc(alias = "bound")]
pub const SHORTEST_KEY: usize = 32;

/// The first line of each signed text: no other use of a key has it.
const PURPOSE: &str = "hermes-url";

/// Bytes of a signature.
const MAC: usize = 32;

/// A key by which URLs are signed.
pub struct UrlKey(hmac::Key);

/// Why a URL does not count as signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    /// It has none.
    #[error("the URL is not signed")]
    Missing,
    /// It has two: readers might take one or the other.
    #[error("the URL has more than one signature")]
    Repeated,
    /// The parameter is no signature.
    #[error("the signature of the URL is malformed")]
    Malformed,
    /// Its time is over.
    #[error("the signature of the URL has expired")]
    Expired,
    /// Another key, another time or another URL.
    #[error("the signature of the URL is wrong")]
    Wrong,
}

/// The signature of a URL, and the end of its time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UrlSignature {
    /// In Unix time: it counts before this second.
    expires: u64,
    mac: [u8; MAC],
}

/// A URL as it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedText(String);

/// A path and query without its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenSignature {
    /// The signature, if there was one.
    signature: Result<UrlSignature, BadSignature>,
}

impl UrlKey {
    /// A key; `None` if it is shorter than [`SHORTEST_KEY`].
    pub fn new(secret: &str) -> Option<Self> {
        let is_long = secret.len() >= SHORTEST_KEY;
        is_long.then(|| Self(hmac::Key::new(HMAC_SHA256, secret.as_bytes())))
    }

    /// Signs a URL until this second of Unix time.
    pub fn sign(&self, url: &SignedText, expires: u64) -> UrlSignature {
        let mut mac = [0; MAC];
        mac.copy_from_slice(hmac::sign(&self.0, &url.until(expires)).as_ref());
        UrlSignature { expires, mac }
    }
}

impl SignedText {
    /// The URL of this host, port, path and query.
    pub fn new(host: &str, port: u16, path_and_query: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host,
        };
        let port = match port {
            80 | 443 => String::new(),
            port => format!(":{port}"),
        };
        let path = one_spelling(path_and_query);
        Self(format!("{host}{port}{path}"))
    }

    /// With the time that a signature counts.
    fn until(&self, expires: u64) -> Vec<u8> {
        format!("{PURPOSE}\n{expires}\n{}", self.0).into_bytes()
    }
}

impl UrlSignature {
    /// The value of the parameter.
    fn parse(text: &str) -> Option<Self> {
        let (expires, mac) = text.split_once('.')?;
        // `u64` takes a sign, too.
        let is_number = expires.bytes().all(|byte| byte.is_ascii_digit());
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        Some(Self {
            expires: expires.parse().ok().filter(|_| is_number)?,
            mac: mac.try_into().ok()?,
        })
    }
}

impl fmt::Display for UrlSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.expires, URL_SAFE_NO_PAD.encode(self.mac))
    }
}

/// Says nothing of the code.
impl fmt::Debug for UrlSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UrlSignature({})", self.expires)
    }
}

impl TakenSignature {
    /// Whether one of these keys has signed the URL, in a time that says nothing of the signature, and its time is not over.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, keys: &[UrlKey], url: &SignedText, now: u64) -> Result<(), BadSignature> {
        let signature = self.signature?;
        // Before the work: an old URL costs no more than one that is not signed.
        if signature.expires <= now {
            return Err(BadSignature::Expired);
        }
        let text = url.until(signature.expires);
        let is_of = |key: &UrlKey| hmac::verify(&key.0, &text, &signature.mac).is_ok();
        match keys.iter().any(is_of) {
            true => Ok(()),
            false => Err(BadSignature::Wrong),
        }
    }
}

/// Takes the signature out of a path and query: these without the parameter of this name, however it is written, and the signature.
pub fn take_signature(path_and_query: &str, parameter: &str) -> (String, TakenSignature) {
    let (path, query) = path_and_query
        .split_once('?')
        .unwrap_or((path_and_query, ""));
    let mut kept = Vec::new();
    let mut signature = Err(BadSignature::Missing);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !is_named(name, parameter) {
            kept.push(pair);
            continue;
        }
        signature = match signature {
            Err(BadSignature::Missing) => UrlSignature::parse(value).ok_or(BadSignature::Malformed),
            _ => Err(BadSignature::Repeated),
        };
    }

    let rest = match kept.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", kept.join("&")),
    };
    (rest, TakenSignature { signature })
}

/// Adds a signature to a path and query that has none.
pub fn add_signature(path_and_query: &str, parameter: &str, signature: &UrlSignature) -> String {
    let before = match path_and_query.contains('?') {
        true => '&',
        false => '?',
    };
    format!("{path_and_query}{before}{parameter}={signature}")
}

/// Whether a name is this one, written as it is or percent-encoded.
fn is_named(written: &str, name: &str) -> bool {
    let bytes = Tokens(written.as_bytes()).map(|token| match token {
        Token::Plain(byte) | Token::Encoded(byte) => byte,
    });
    bytes.eq(name.bytes())
}

/// A path and query with the percent-encodings of RFC 3986, section 6.2.2: capitals, and none of characters that need none.
fn one_spelling(path_and_query: &str) -> Cow<'_, str> {
    // One that is broken has no other spelling: decoding a part of it could make it another URL.
    let is_broken = |token| token == Token::Plain(b'%');
    let has_encodings = path_and_query.contains('%');
    if !has_encodings || Tokens(path_and_query.as_bytes()).any(is_broken) {
        return Cow::Borrowed(path_and_query);
    }

    let mut spelt = String::with_capacity(path_and_query.len());
    for token in Tokens(path_and_query.as_bytes()) {
        match token {
            Token::Plain(byte) => spelt.push(char::from(byte)),
            Token::Encoded(byte) if is_unreserved(byte) => spelt.push(char::from(byte)),
            Token::Encoded(byte) => {
                let digits = [capital(byte >> 4), capital(byte)].map(char::from);
                spelt.push('%');
                spelt.extend(digits);
            }
        }
    }
    Cow::Owned(spelt)
}

/// RFC 3986, section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(letter: &str) -> UrlKey {
        UrlKey::new(&letter.repeat(SHORTEST_KEY)).unwrap()
    }

    /// Checks a path and query at `host`, by the keys `a` and `b`, at second 1000.
    fn checked(host: &str, port: u16, signed: &str) -> Result<(), BadSignature> {
        let (rest, taken) = take_signature(signed, "signature");
        taken.check(
            &[key("a"), key("b")],
            &SignedText::new(host, port, &rest),
            1000,
        )
    }

    fn signed(by: &str, path: &str, expires: u64) -> String {
        let signature = key(by).sign(&SignedText::new("host", 80, path), expires);
        add_signature(path, "signature", &signature)
    }

    #[test]
    fn a_url_counts_that_one_of_the_keys_has_signed() {
        for path in ["/", "/a?b=1", "/a?b=1&c", "/%41%2f"] {
            assert_eq!(checked("host", 80, &signed("a", path, 1001)), Ok(()));
            assert_eq!(checked("HOST", 443, &signed("b", path, 1001)), Ok(()));
            assert_eq!(
                checked("host", 80, &signed("c", path, 1001)),
                Err(BadSignature::Wrong)
            );
        }
    }

    #[test]
    fn the_text_is_as_the_page_says() {
        let text = SignedText::new("host", 80, "/path?a=1").until(1_800_000_000);
        assert_eq!(text, b"hermes-url\n1800000000\nhost/path?a=1");
        let six = SignedText::new("::1", 8080, "/");
        assert_eq!(six.0, "[::1]:8080/");
    }

    #[test]
    fn its_time_ends_at_the_second_that_it_says() {
        for (expires, expected) in [
            (1000, Err(BadSignature::Expired)),
            (0, Err(BadSignature::Expired)),
            (1001, Ok(())),
            (u64::MAX, Ok(())),
        ] {
            assert_eq!(checked("host", 80, &signed("a", "/", expires)), expected);
        }
        let later = signed("a", "/", 900).replace("=900.", "=9000.");
        assert_eq!(checked("host", 80, &later), Err(BadSignature::Wrong));
    }

    #[test]
    fn nothing_else_is_signed() {
        let good = signed("a", "/film/1?part=2", 1001);
        assert_eq!(checked("host", 80, &good), Ok(()));
        for (from, to) in [
            ("/film/1", "/film/2"),
            ("/film/1", "/Film/1"),
            ("/film/1", "/film%2f1"),
            ("part=2", "part=3"),
            ("part=2", "part=2&part=3"),
            ("part=2&", ""),
            ("part=2", "part=2%26"),
        ] {
            let other = good.replace(from, to);
            assert_eq!(checked("host", 80, &other), Err(BadSignature::Wrong));
        }
        assert_eq!(checked("host2", 80, &good), Err(BadSignature::Wrong));
        assert_eq!(checked("host", 8080, &good), Err(BadSignature::Wrong));
    }

    #[test]
    fn another_spelling_of_the_url_is_signed_too() {
        let good = signed("a", "/~a/b%2Fc?d=%C3%A9", 1001);
        for (from, to) in [
            ("~a", "%7ea"),
            ("%2F", "%2f"),
            ("%C3", "%c3"),
            ("/b", "/%62"),
        ] {
            assert_eq!(checked("host", 80, &good.replace(from, to)), Ok(()));
        }
        // Of broken encodings, no part is decoded.
        let broken = signed("a", "/%4%31", 1001);
        assert_eq!(checked("host", 80, &broken), Ok(()));
        let joined = broken.replace("%4%31", "%41");
        assert_eq!(checked("host", 80, &joined), Err(BadSignature::Wrong));
    }

    #[test]
    fn the_parameter_is_taken_wherever_and_however_it_is_written() {
        let good = signed("a", "/a?b=1", 1001);
        let value = good.split_once("signature=").unwrap().1;
        for query in [
            format!("signature={value}&b=1"),
            format!("%73ignature={value}&b=1"),
            format!("&b=1&&signature={value}&"),
        ] {
            let (rest, _) = take_signature(&format!("/a?{query}"), "signature");
            assert_eq!(rest, "/a?b=1");
            assert_eq!(checked("host", 80, &format!("/a?{query}")), Ok(()));
        }
        let twice = format!("{good}&signature={value}");
        assert_eq!(checked("host", 80, &twice), Err(BadSignature::Repeated));
        assert_eq!(
            checked("host", 80, "/a?b=1&Signature=1"),
            Err(BadSignature::Missing)
        );
    }

    #[test]
    fn any_other_value_is_malformed() {
        let good = signed("a", "/", 1001);
        let (head, mac) = good.rsplit_once('.').unwrap();
        for value in [
            String::new(),
            "1001".to_owned(),
            format!("+1001.{mac}"),
            format!(".{mac}"),
            format!("18446744073709551616.{mac}"),
            format!("1001.{mac}A"),
            format!("1001.{}", &mac[1..]),
            format!("1001.{mac}="),
        ] {
            let url = format!("/?signature={value}");
            assert_eq!(checked("host", 80, &url), Err(BadSignature::Malformed));
        }
        assert!(head.ends_with("=1001"));
    }

    #[test]
    fn no_bit_of_a_signature_may_change() {
        let text = SignedText::new("host", 80, "/");
        let good = key("a").sign(&text, 1001);
        for bit in 0..8 * MAC {
            let mut other = good;
            other.mac[bit / 8] ^= 1 << (bit % 8);
            let taken = TakenSignature {
                signature: Ok(other),
            };
            assert_eq!(
                taken.check(&[key("a")], &text, 1000),
                Err(BadSignature::Wrong)
            );
        }
        assert!(!format!("{good:?}").contains('.'));
        assert!(UrlKey::new("short").is_none());
    }
}
