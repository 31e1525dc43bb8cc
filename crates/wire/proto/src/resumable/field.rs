//! The field by which two ends agree on a session.

use std::fmt;

use http::HeaderName;

use super::SESSION;
#[cfg(test)]
use crate::fields::Fields;
use crate::session_field::{SessionRequest, SessionValue};

/// The field: in a request `?1`, which asks for a session, or a [`Ticket`]; in an answer a [`Grant`]. Both are byte sequences
/// (RFC 9651, 3.3.5).
pub const FIELD: HeaderName = HeaderName::from_static("hermes-resume");

/// Bytes of a session's key, and of a proof.
const KEY: usize = 32;

/// Bytes of a ticket without its proof.
const CLAIM: usize = SESSION + 8 + 4;

/// The wish of a request for a tunnel.
pub type Request = SessionRequest<Ticket>;

/// A session that was granted: `Session (128), Epoch (64), Key (256)`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Its name.
    pub session: [u8; SESSION],
    /// The process that keeps it.
    pub epoch: u64,
    /// The proof that a request to go on comes from the end that opened the session. It travels
    /// once, in the answer.
    pub key: [u8; KEY],
}

/// A request to go on with a session: `Session (128), Epoch (64), Number (32), Proof (256)`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The session.
    pub session: [u8; SESSION],
    /// The process that keeps it.
    pub epoch: u64,
    /// Rises with each request: a ticket that was seen on a path is of no use a second time.
    pub number: u32,
    /// HMAC-SHA-256, by the session's key, of [`Self::claim`].
    pub proof: [u8; KEY],
}

impl SessionValue for Grant {
    const FIELD: HeaderName = FIELD;

    fn encode(&self) -> Vec<u8> {
        [&self.session[..], &self.epoch.to_be_bytes(), &self.key].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (session, rest) = bytes.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;

        Some(Self {
            session: *session,
            epoch: u64::from_be_bytes(*epoch),
            key: rest.try_into().ok()?,
        })
    }
}

impl Ticket {
    /// The content of the proof: the ticket without the proof.
    pub fn claim(&self) -> [u8; CLAIM] {
        let mut claim = [0; CLAIM];
        claim[..SESSION].copy_from_slice(&self.session);
        claim[SESSION..SESSION + 8].copy_from_slice(&self.epoch.to_be_bytes());
        claim[SESSION + 8..].copy_from_slice(&self.number.to_be_bytes());
        claim
    }
}

impl SessionValue for Ticket {
    const FIELD: HeaderName = FIELD;

    fn encode(&self) -> Vec<u8> {
        [&self.claim()[..], &self.proof].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (session, rest) = bytes.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;

        Some(Self {
            session: *session,
            epoch: u64::from_be_bytes(*epoch),
            number: u32::from_be_bytes(*number),
            proof: rest.try_into().ok()?,
        })
    }
}

/// Says nothing of the key.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grant")
    }
}

/// Says nothing of the session.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.number)
    }
}

/// A parsed field survives a round trip.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let Ok(value) = http::HeaderValue::from_bytes(data) else {
        return;
    };

    let mut fields = Fields::from_iter([(FIELD, value.clone())]);
    if let Some(request) = Request::take(&mut fields) {
        request.write(&mut fields);
        assert_eq!(Request::take(&mut fields), Some(request));
    }

    let mut fields = Fields::from_iter([(FIELD, value)]);
    if let Some(grant) = Grant::take(&mut fields) {
        grant.write(&mut fields);
        assert_eq!(Grant::take(&mut fields), Some(grant));
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const TICKET_ONE: Ticket = Ticket {
        session: [1; SESSION],
        epoch: 7,
        number: 3,
        proof: [2; KEY],
    };

    fn taken(lines: &[&str]) -> Option<Request> {
        let mut fields = Fields::new();
        for line in lines {
            fields.append(FIELD, line.parse::<HeaderValue>().unwrap());
        }
        let taken = Request::take(&mut fields);
        assert!(fields.is_empty(), "it is taken out in any case");
        taken
    }

    #[test]
    fn a_session_is_asked_for_anew_or_with_a_ticket() {
        assert_eq!(taken(&["?1"]), Some(Request::New));

        let mut fields = Fields::new();
        Request::Again(TICKET_ONE).write(&mut fields);
        let value = fields.get(FIELD).unwrap();
        assert!(value.is_sensitive());
        assert_eq!(
            taken(&[value.to_str().unwrap()]),
            Some(Request::Again(TICKET_ONE))
        );
        assert_eq!(format!("{TICKET_ONE:?}"), "Ticket(3)");
    }

    #[test]
    fn a_grant_is_written_and_taken() {
        let grant = Grant {
            session: [1; SESSION],
            epoch: u64::MAX,
            key: [9; KEY],
        };
        let mut fields = Fields::new();
        grant.write(&mut fields);
        assert!(fields.get(FIELD).unwrap().is_sensitive());
        assert_eq!(Grant::take(&mut fields), Some(grant));
        assert!(fields.is_empty());
        assert_eq!(format!("{grant:?}"), "Grant");
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
            &[],
        ] {
            assert_eq!(taken(lines), None, "{lines:?}");
        }
    }

    #[test]
    fn a_claim_says_all_but_the_proof() {
        let other = |change: fn(&mut Ticket)| {
            let mut other = TICKET_ONE;
            change(&mut other);
            other.claim() != TICKET_ONE.claim()
        };
        assert!(other(|ticket| ticket.number = 4));
        assert!(other(|ticket| ticket.epoch = 8));
        assert!(other(|ticket| ticket.session[15] = 0));
        assert!(!other(|ticket| ticket.proof[0] = 0));
    }
}
