//! The proof that a session is resumed by the end that opened it.

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use hermes_proto::resumable::{Grant, SESSION, Ticket};

/// The secret of this process. The key of each session follows from it, so that none has to be kept.
pub struct Secret {
    key: hmac::Key,
    /// Another one after each start.
    epoch: u64,
}

impl Secret {
    /// A new one; none where the system has no random numbers.
    pub fn random() -> Option<Self> {
        let mut key = [0; 32];
        let mut epoch = [0; 8];
        getrandom::fill(&mut key).ok()?;
        getrandom::fill(&mut epoch).ok()?;

        Some(Self {
            key: hmac::Key::new(HMAC_SHA256, &key),
            epoch: u64::from_be_bytes(epoch),
        })
    }

    /// A new session.
    pub fn grant(&self) -> Option<Grant> {
        let mut session = [0; SESSION];
        getrandom::fill(&mut session).ok()?;

        Some(Grant {
            session,
            epoch: self.epoch,
            key: self.key_of(&session),
        })
    }

    /// Whether a session of this process may be resumed with the ticket.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn check(&self, ticket: &Ticket) -> Result<(), &'static str> {
        if ticket.epoch != self.epoch {
            return Err(
                "the session is of another process: this one was started since, or is another node",
            );
        }

        let key = hmac::Key::new(HMAC_SHA256, &self.key_of(&ticket.session));
        hmac::verify(&key, &ticket.claim(), &ticket.proof)
            .map_err(|_| "the request does not prove that the session is its own")
    }

    fn key_of(&self, session: &[u8; SESSION]) -> [u8; 32] {
        digest(&self.key, session)
    }
}

/// The ticket with this number, by which a session is resumed.
pub fn ticket(grant: &Grant, number: u32) -> Ticket {
    let key = hmac::Key::new(HMAC_SHA256, &grant.key);
    let mut ticket = Ticket {
        session: grant.session,
        epoch: grant.epoch,
        number,
        proof: [0; 32],
    };

    ticket.proof = digest(&key, &ticket.claim());
    ticket
}

fn digest(key: &hmac::Key, of: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(key, of);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_counts_where_its_session_was_granted() {
        let secret = Secret::random().unwrap();
        let grant = secret.grant().unwrap();
        assert_eq!(secret.check(&ticket(&grant, 1)), Ok(()));
        assert_eq!(secret.check(&ticket(&grant, u32::MAX)), Ok(()));

        let other = Secret::random().unwrap();
        assert!(other.check(&ticket(&grant, 1)).is_err());
    }

    #[test]
    fn forged_tickets_do_not_count() {
        let secret = Secret::random().unwrap();
        let grant = secret.grant().unwrap();
        let other = secret.grant().unwrap();
        let good = ticket(&grant, 1);

        let mut later = good;
        later.number = 2;
        assert!(secret.check(&later).is_err(), "a number of its own");

        let mut stolen = good;
        stolen.session = other.session;
        assert!(secret.check(&stolen).is_err(), "another session");

        for bit in 0..256 {
            let mut guessed = good;
            guessed.proof[bit / 8] ^= 1 << (bit % 8);
            assert!(secret.check(&guessed).is_err(), "bit {bit}");
        }
    }
}
