//! The MACs that make a handshake cheap to refuse (sections 5.3, 5.4.4 and 5.4.7): the first one
//! proves that its sender knows the key it writes to, and under load the second proves that the
//! sender receives at its address.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand::fill;
use blake2::digest::consts::U16;
use blake2::digest::{Digest, FixedOutput, KeyInit, Update};
use blake2::{Blake2s256, Blake2sMac};

use crate::message::{COOKIE_REPLY, Cookie, MAC, Macs, SEALED_COOKIE, encode_cookie};
use crate::xchacha;
use hermes_noise::{HandshakeBudget, KEY, PublicKey};

/// Handshakes of one second that need no cookie.
#[doc(alias = "bound")]
const FREE: u32 = 50;

/// For how long a cookie counts, and a secret makes cookies (section 5.4.7).
const COOKIE_LIFE: Duration = Duration::from_secs(120);

/// The period over which handshakes are counted.
const SECOND: Duration = Duration::from_secs(1);

const LABEL_MAC: &[u8] = b"mac1----";
const LABEL_COOKIE: &[u8] = b"cookie--";

/// Proves to its maker that a message comes from an address.
pub(crate) type CookieValue = [u8; MAC];

/// The MACs of messages to one key.
#[derive(Debug, Clone)]
pub(crate) struct MacKeys {
    first: [u8; KEY],
    cookie: [u8; KEY],
}

/// The fate of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The handshake is read.
    Admitted,
    /// Its sender does not know this key.
    BadMac,
    /// Answered with this cookie reply.
    Cookie(Vec<u8>),
    /// There are too many.
    TooMany,
}

/// Counts handshakes, and makes the cookies that they need under load.
#[derive(Debug)]
pub(crate) struct HandshakeGuard {
    keys: MacKeys,
    secret: [u8; KEY],
    /// When the secret was made.
    made: Instant,
    /// When counting began.
    since: Instant,
    count: u32,
    /// Of those with a cookie.
    budget: HandshakeBudget,
}

impl MacKeys {
    /// The keys for messages to this key.
    pub(crate) fn of(to: &PublicKey) -> Self {
        Self {
            first: hash(LABEL_MAC, &to.0),
            cookie: hash(LABEL_COOKIE, &to.0),
        }
    }

    /// Ends a message with its MACs; returns the first.
    pub(crate) fn complete(
        &self,
        message: &mut Vec<u8>,
        cookie: Option<&CookieValue>,
    ) -> [u8; MAC] {
        let first = mac(&self.first, &[message]);
        message.extend_from_slice(&first);
        // Section 5.4.4: zeros without a cookie.
        let second = cookie.map_or([0; MAC], |cookie| mac(cookie, &[message]));
        message.extend_from_slice(&second);
        first
    }

    /// Opens a cookie that was sent instead of an answer to the message with this first MAC.
    pub(crate) fn open_cookie(&self, reply: &Cookie<'_>, first: &[u8; MAC]) -> Option<CookieValue> {
        let mut sealed = *reply.sealed;
        let opened = xchacha::open(&self.cookie, reply.nonce, first, &mut sealed)?;
        opened.try_into().ok()
    }
}

impl HandshakeGuard {
    /// A guard for messages to this key; `None` if the system gives no random bytes.
    pub(crate) fn new(own: &PublicKey, now: Instant) -> Option<Self> {
        let mut secret = [0; KEY];
        fill(&mut secret).ok()?;
        Some(Self {
            keys: MacKeys::of(own),
            secret,
            made: now,
            since: now,
            count: 0,
            budget: HandshakeBudget::new(now),
        })
    }

    /// Decides about a handshake from this address, in which the sender's index is `sender`; `is_peer` says whether a peer is there.
    pub(crate) fn admit(
        &mut self,
        (from, sender): (SocketAddr, u32),
        macs: &Macs<'_>,
        is_peer: impl FnOnce() -> bool,
        now: Instant,
    ) -> Admission {
        // The cheapest test comes first: one hash, and no state changes for those that do not even know our key.
        let expected = mac(&self.keys.first, &[macs.covered]);
        // In constant time: otherwise the MAC could be found byte by byte.
        if verify_slices_are_equal(&expected, macs.first).is_err() {
            return Admission::BadMac;
        }
        self.keep_time(now);
        self.count = self.count.saturating_add(1);
        if self.count <= FREE {
            return Admission::Admitted;
        }

        // Computed from the address, not looked up: a flood of senders takes no memory.
        let cookie = self.cookie_of(from);
        let expected = mac(&cookie, &[macs.covered_by_second]);
        if verify_slices_are_equal(&expected, macs.second).is_err() {
            // A cookie is no longer than the message that it answers, so that we amplify nothing towards a forged address.
            let reply = self.reply(sender, &cookie, macs.first);
            return reply.map_or(Admission::TooMany, Admission::Cookie);
        }

        match self.budget.admits(from.ip(), is_peer(), now) {
            true => Admission::Admitted,
            false => Admission::TooMany,
        }
    }

    fn keep_time(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) >= SECOND {
            self.since = now;
            self.count = 0;
        }
        // Without random bytes, the old secret stays in use.
        if now.saturating_duration_since(self.made) >= COOKIE_LIFE && fill(&mut self.secret).is_ok()
        {
            self.made = now;
        }
    }

    fn cookie_of(&self, from: SocketAddr) -> CookieValue {
        // Bound to the address and the port, so that a cookie that was overheard serves no other sender.
        let port = from.port().to_be_bytes();
        match from.ip() {
            IpAddr::V4(address) => mac(&self.secret, &[&address.octets(), &port]),
            IpAddr::V6(address) => mac(&self.secret, &[&address.octets(), &port]),
        }
    }

    fn reply(&self, receiver: u32, cookie: &CookieValue, first: &[u8; MAC]) -> Option<Vec<u8>> {
        let mut nonce = [0; xchacha::NONCE];
        fill(&mut nonce).ok()?;
        let mut sealed = [0; SEALED_COOKIE];
        let (text, tag) = sealed.split_at_mut(MAC);
        // Sealed under the message's first MAC: only who has seen that message can have made this reply.
        text.copy_from_slice(cookie);
        tag.copy_from_slice(&xchacha::seal(&self.keys.cookie, &nonce, first, text)?);

        let reply = encode_cookie(&Cookie {
            receiver,
            nonce: &nonce,
            sealed: &sealed,
        });
        debug_assert_eq!(reply.len(), COOKIE_REPLY);
        Some(reply)
    }
}

/// Whether a cookie that arrived at `came` is still valid.
pub(crate) fn counts_still(came: Instant, now: Instant) -> bool {
    now.saturating_duration_since(came) < COOKIE_LIFE
}

fn hash(label: &[u8], key: &[u8; KEY]) -> [u8; KEY] {
    let mut hasher = Blake2s256::new();
    Digest::update(&mut hasher, label);
    Digest::update(&mut hasher, key);
    hasher.finalize().into()
}

/// Keyed BLAKE2s of 16 bytes.
fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; MAC] {
    // Keys have 16 or 32 bytes, of which it takes any up to 32.
    let Ok(mut hasher) = Blake2sMac::<U16>::new_from_slice(key) else {
        return [0; MAC];
    };
    for part in parts {
        Update::update(&mut hasher, part);
    }
    hasher.finalize_fixed().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FIRST, Message, encode_initiation};
    use hermes_noise::PrivateKey;

    fn from(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 1000).into()
    }

    fn admit(guard: &mut HandshakeGuard, message: &[u8], last: u8, now: Instant) -> Admission {
        let Some(Message::Initiation(initiation)) = Message::decode(message) else {
            panic!("no initiation");
        };
        let came = (from(last), initiation.sender);
        guard.admit(came, &initiation.macs, || last > 100, now)
    }

    fn initiation(keys: &MacKeys, cookie: Option<&CookieValue>) -> (Vec<u8>, [u8; MAC]) {
        let mut message = encode_initiation(7, &[1; FIRST]);
        let first = keys.complete(&mut message, cookie);
        (message, first)
    }

    #[test]
    fn under_load_only_those_are_read_who_get_what_is_sent_to_them() {
        let own = PrivateKey::generate().unwrap().public();
        let now = Instant::now();
        let mut guard = HandshakeGuard::new(&own, now).unwrap();
        let keys = MacKeys::of(&own);
        let (message, first) = initiation(&keys, None);
        for _ in 0..FREE {
            assert_eq!(admit(&mut guard, &message, 1, now), Admission::Admitted);
        }

        let Admission::Cookie(reply) = admit(&mut guard, &message, 1, now) else {
            panic!("no cookie");
        };
        let Some(Message::Cookie(reply)) = Message::decode(&reply) else {
            panic!("no reply");
        };
        assert_eq!(reply.receiver, 7);
        assert!(keys.open_cookie(&reply, &[0; MAC]).is_none());
        let cookie = keys.open_cookie(&reply, &first).unwrap();

        let (message, _) = initiation(&keys, Some(&cookie));
        assert_eq!(admit(&mut guard, &message, 1, now), Admission::Admitted);
        // From elsewhere it proves nothing.
        let other = admit(&mut guard, &message, 2, now);
        assert!(matches!(other, Admission::Cookie(_)), "{other:?}");
        let again = (0..100).map(|_| admit(&mut guard, &message, 1, now));
        let again: Vec<_> = again.collect();
        assert_eq!(again[0], Admission::Admitted);
        assert_eq!(again[99], Admission::TooMany);

        let later = now + SECOND;
        assert_eq!(admit(&mut guard, &message, 1, later), Admission::Admitted);
    }

    #[test]
    fn what_is_for_another_key_is_not_read() {
        let own = PrivateKey::generate().unwrap().public();
        let now = Instant::now();
        let mut guard = HandshakeGuard::new(&own, now).unwrap();
        let (message, _) = initiation(&MacKeys::of(&PublicKey([1; KEY])), None);
        assert_eq!(admit(&mut guard, &message, 1, now), Admission::BadMac);
    }
}
