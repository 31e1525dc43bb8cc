//! The keys that this node shares with others, by which nodes ask each other for functions.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use aws_lc_rs::hkdf;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use hermes_proto::functions_field::Mac;
use parking_lot::Mutex;

/// Seconds for which a request for functions holds, before and after the time on it: clocks of nodes differ.
#[doc(alias = "bound")]
pub const WINDOW: u64 = 30;

/// Requests that are remembered of one node in [`WINDOW`] seconds, 8 bytes each: further ones are refused. Only who has the key adds to them.
#[doc(alias = "bound")]
const REMEMBERED: usize = 128 * 1024;

/// The length of a shared key.
const KEY: usize = 32;

/// The keys in force.
#[derive(Default)]
pub struct Keyring(Mutex<BTreeMap<String, Arc<SharedKey>>>);

impl Keyring {
    /// The key that is shared with this node.
    pub fn of(&self, node: &str) -> Option<Arc<SharedKey>> {
        self.0.lock().get(node).cloned()
    }

    /// Puts other keys in force. One that stays keeps its memory of requests: a reload makes no old one good again.
    pub fn change(&self, keys: BTreeMap<String, Secret>) {
        let mut known = self.0.lock();
        let keys = keys.into_iter().map(|(node, secret)| {
            let kept = known.remove(&node).filter(|kept| kept.secret == secret);
            let key = kept.unwrap_or_else(|| Arc::new(SharedKey::new(secret)));
            (node, key)
        });
        *known = keys.collect();
    }
}

/// A secret of 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; KEY]);

impl Secret {
    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 2 * KEY || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; KEY];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// A key for this use alone, by HKDF (RFC 5869).
    pub fn derive(&self, salt: &[u8], purpose: &str) -> [u8; KEY] {
        let mut key = [0; KEY];
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&self.0);
        let purpose = [purpose.as_bytes()];
        let filled = secret
            .expand(&purpose, hkdf::HKDF_SHA256)
            .and_then(|expanded| expanded.fill(&mut key));
        debug_assert!(filled.is_ok(), "HKDF gives up to 8,160 bytes");
        key
    }
}

/// A key that two nodes share.
pub struct SharedKey {
    secret: Secret,
    signing: hmac::Key,
    seen: Mutex<SeenRequests>,
}

/// Why a request for functions is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unbelieved {
    /// Another key, or another request.
    Forged,
    /// Its time is over, or has not come.
    Expired,
    /// It was here before.
    Replayed,
    /// There are too many to remember.
    Full,
}

impl SharedKey {
    fn new(secret: Secret) -> Self {
        let derived = secret.derive(b"", "hermes functions: sign");
        Self {
            signing: hmac::Key::new(HMAC_SHA256, &derived),
            secret,
            seen: Mutex::default(),
        }
    }

    /// The secret, for keys of other uses.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The code of a text.
    pub fn sign(&self, text: &str) -> Mac {
        let mut mac = [0; 32];
        mac.copy_from_slice(hmac::sign(&self.signing, text.as_bytes()).as_ref());
        mac
    }

    /// Whether this is the code of the text; in a time that says nothing of the code.
    pub fn is_of(&self, mac: &Mac, text: &str) -> bool {
        hmac::verify(&self.signing, text.as_bytes(), mac).is_ok()
    }

    /// Takes a request that was genuine and made `at` this second, once.
    ///
    /// # Errors
    /// It is not to be believed now.
    pub fn take(&self, at: u64, once: u64, now: u64) -> Result<(), Unbelieved> {
        if at.abs_diff(now) > WINDOW {
            return Err(Unbelieved::Expired);
        }
        self.seen.lock().add(at, once)
    }
}

/// The requests that could come a second time: those of this and the neighbouring spans of time.
#[derive(Default)]
struct SeenRequests(BTreeMap<u64, HashSet<u64>>);

impl SeenRequests {
    /// Adds one that was made `at` this second.
    fn add(&mut self, at: u64, once: u64) -> Result<(), Unbelieved> {
        let span = at / WINDOW;
        // Times are at most two windows apart, so that more than three spans older than the newest are over.
        if let Some(newest) = self.0.last_key_value().map(|(newest, _)| *newest) {
            self.0 = self.0.split_off(&newest.max(span).saturating_sub(3));
        }
        let seen = self.0.entry(span).or_default();
        if seen.contains(&once) {
            return Err(Unbelieved::Replayed);
        }
        if seen.len() >= REMEMBERED {
            return Err(Unbelieved::Full);
        }
        seen.insert(once);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: char) -> Arc<SharedKey> {
        let secret = Secret::parse(&digit.to_string().repeat(64)).unwrap();
        Arc::new(SharedKey::new(secret))
    }

    #[test]
    fn a_code_is_of_one_key_and_one_text() {
        let mac = key('a').sign("text");
        assert!(key('a').is_of(&mac, "text"));
        assert!(!key('a').is_of(&mac, "other") && !key('b').is_of(&mac, "text"));
        for wrong in ["", "a", &"g".repeat(64), &"a".repeat(65), &"+1".repeat(32)] {
            assert!(Secret::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_request_holds_once_and_in_its_time() {
        let key = key('a');
        let now = 1_000_000;
        assert_eq!(key.take(now, 1, now), Ok(()));
        assert_eq!(key.take(now, 1, now), Err(Unbelieved::Replayed));
        assert_eq!(key.take(now - WINDOW - 1, 2, now), Err(Unbelieved::Expired));
        assert_eq!(key.take(now + WINDOW + 1, 2, now), Err(Unbelieved::Expired));
        // At the last moment of its time, while others came.
        assert_eq!(key.take(now + 60, 3, now + WINDOW), Ok(()));
        assert_eq!(key.take(now, 1, now + WINDOW), Err(Unbelieved::Replayed));
        assert_eq!(key.take(now, 1, now + WINDOW + 1), Err(Unbelieved::Expired));
    }

    #[test]
    fn the_memory_of_requests_is_bounded_on_every_day() {
        let key = key('a');
        for once in 0..REMEMBERED as u64 {
            assert_eq!(key.take(0, once, 0), Ok(()));
        }
        assert_eq!(key.take(0, u64::MAX, 0), Err(Unbelieved::Full));
        for day in 1..1000 {
            assert_eq!(key.take(day * 86_400, 1, day * 86_400), Ok(()));
            assert!(key.seen.lock().0.len() <= 2);
        }
    }

    #[test]
    fn a_key_that_stays_keeps_its_memory() {
        let keyring = Keyring::default();
        let keys = |digit: char| {
            let secret = Secret::parse(&digit.to_string().repeat(64)).unwrap();
            BTreeMap::from([("a".to_owned(), secret)])
        };
        keyring.change(keys('a'));
        keyring.of("a").unwrap().take(0, 1, 0).unwrap();
        keyring.change(keys('a'));
        let replayed = keyring.of("a").unwrap().take(0, 1, 0);
        assert_eq!(replayed, Err(Unbelieved::Replayed));
        keyring.change(keys('b'));
        assert_eq!(keyring.of("a").unwrap().take(0, 1, 0), Ok(()));
        keyring.change(BTreeMap::new());
        assert!(keyring.of("a").is_none());
    }
}
