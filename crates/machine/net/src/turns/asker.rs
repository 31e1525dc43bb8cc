//! The users and sources that take turns.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;

use crate::peer::{PeerAddress, network};

/// A user or source: opaque here, and stable for as long as the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asker(u64);

impl Asker {
    /// The asker of this identity.
    #[must_use]
    pub fn of(who: impl Hash) -> Self {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        Self(SECRET.get_or_init(RandomState::new).hash_one(who))
    }

    /// The user, or the source of `peer` where no one knows the user: an address, the network of 64 bits for IPv6, or a user of this
    /// machine.
    #[must_use]
    pub fn user_or_source(user: Option<&str>, peer: &PeerAddress) -> Self {
        match user {
            Some(user) => Self::of(("user", user)),
            None => match peer {
                PeerAddress::Ip(address) => Self::of(("source", network(address.ip()))),
                PeerAddress::Unix { uid } => Self::of(("local", uid)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_the_same_from_everywhere_and_a_stranger_is_an_address_or_a_network() {
        let peer = |text: &str| PeerAddress::Ip(text.parse().unwrap());
        let (one, other) = (peer("192.0.2.1:1"), peer("192.0.2.2:1"));
        let user = |user, peer| Asker::user_or_source(user, peer);

        assert_eq!(user(Some("alice"), &one), user(Some("alice"), &other));
        assert_ne!(user(Some("alice"), &one), user(Some("bob"), &one));
        assert_ne!(user(None, &one), user(None, &other));
        let later = peer("192.0.2.1:2");
        assert_eq!(user(None, &one), user(None, &later));
        let (near, far) = (peer("[2001:db8::1]:1"), peer("[2001:db8::2:0:0:1]:1"));
        assert_eq!(user(None, &near), user(None, &far));
    }
}
