//! UDP sessions that outlive the path to them.
//!
//! A CONNECT-UDP between proxies asks for a session, `hermes-session: ?1`. The proxy where the
//! tunnel ends answers with a token, which every proxy on the way may keep. When the path breaks,
//! the first node to notice opens the tunnel again with the token, and gets the same UDP socket:
//! the target sees nothing. A token that is unknown, or belongs to someone else, counts as absent:
//! the answer is a fresh session.
//!
//! The value is a boolean or a byte sequence of RFC 9651. It appears in no log and no record, is
//! taken out of every request on arrival, and goes on to the next proxy only.

use std::fmt;

use hermes_proto::fields::Fields;
use hermes_proto::session_field::{SessionRequest, SessionValue};
use http::HeaderName;

/// Bytes of a token: it can neither be guessed nor tried.
const LENGTH: usize = 16;

/// A secret of the nodes that carried a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; LENGTH]);

/// A request's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A session.
    New,
    /// The session that this token stands for, or else a fresh one.
    Again(Token),
    /// Asks for that session and no fresh one: its user has as many as allowed.
    Only(Token),
}

impl Asked {
    /// Takes the wish out of a request.
    pub fn take(fields: &mut Fields) -> Option<Self> {
        SessionRequest::take(fields).map(|request| match request {
            SessionRequest::New => Self::New,
            SessionRequest::Again(token) => Self::Again(token),
        })
    }

    /// Writes the wish.
    pub fn write(self, fields: &mut Fields) {
        let request = match self {
            Self::New => SessionRequest::New,
            Self::Again(token) | Self::Only(token) => SessionRequest::Again(token),
        };
        request.write(fields);
    }
}

impl Token {
    /// A new one; `None` if the system has no random numbers.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; LENGTH];
        // From the system itself: the generator of the TLS library takes a tenth of a second to begin, on each worker.
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The token of a session that has a name of its own.
    pub fn of(name: [u8; LENGTH]) -> Self {
        Self(name)
    }
}

impl SessionValue for Token {
    const FIELD: HeaderName = HeaderName::from_static("hermes-session");

    fn encode(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// Says nothing.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const FIELD: HeaderName = Token::FIELD;

    fn asked(lines: &[&str]) -> Option<Asked> {
        let mut fields = Fields::new();
        for line in lines {
            fields.append(FIELD, line.parse::<HeaderValue>().unwrap());
        }
        let asked = Asked::take(&mut fields);
        assert!(fields.is_empty(), "it is taken out in any case");
        asked
    }

    #[test]
    fn a_session_is_asked_for_anew_or_by_its_token() {
        assert_eq!(asked(&["?1"]), Some(Asked::New));
        let token = Token::random().unwrap();
        let mut fields = Fields::new();
        Asked::Again(token).write(&mut fields);
        assert!(fields.get(FIELD).unwrap().is_sensitive());
        assert_eq!(
            asked(&[fields.get(FIELD).unwrap().to_str().unwrap()]),
            Some(Asked::Again(token))
        );
        assert_eq!(format!("{token:?}"), "Token");
        assert_ne!(Token::random(), Some(token));
    }

    #[test]
    fn anything_else_asks_for_nothing() {
        for lines in [
            &["?0"][..],
            &["1"],
            &["?1", "?1"],
            &["::"],
            &[":AAAA:"],
            &[":!:"],
            &["AAAAAAAAAAAAAAAAAAAAAA=="],
            &[],
        ] {
            assert_eq!(asked(lines), None, "{lines:?}");
        }
    }
}
