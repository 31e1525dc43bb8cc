//! Cookies: they show that a stranger receives at the address that it sends from, before anything is kept of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand::fill;
use hermes_proto::custody::COOKIE;

/// How long a cookie is good at least.
#[doc(alias = "bound")]
const LIFE: Duration = Duration::from_secs(120);

/// Makes cookies and knows them again, without keeping any: each is a code over the address and the time.
pub struct Cookies {
    key: Key,
    begun: Instant,
}

impl Cookies {
    /// With a key of its own.
    pub fn new(now: Instant) -> Self {
        let mut key = [0; 32];
        // Without random bytes no handshake succeeds either.
        let _ = fill(&mut key);
        Self {
            key: Key::new(HMAC_SHA256, &key),
            begun: now,
        }
    }

    /// The cookie of an address.
    pub fn make(&self, address: SocketAddr, now: Instant) -> [u8; COOKIE] {
        self.code(address, self.slot(now))
    }

    /// Whether this is one.
    pub fn is_good(&self, address: SocketAddr, cookie: &[u8; COOKIE], now: Instant) -> bool {
        // The slot before as well: a cookie that was made at the end of one would not live at all.
        let slot = self.slot(now);
        [slot, slot.wrapping_sub(1)]
            .into_iter()
            // In constant time, so that no one finds a cookie byte by byte.
            .any(|slot| verify_slices_are_equal(&self.code(address, slot), cookie).is_ok())
    }

    fn slot(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begun).as_secs() / LIFE.as_secs()
    }

    fn code(&self, address: SocketAddr, slot: u64) -> [u8; COOKIE] {
        let text = format!("{slot} {address}");
        let code = sign(&self.key, text.as_bytes());
        let mut cookie = [0; COOKIE];
        cookie.copy_from_slice(&code.as_ref()[..COOKIE]);
        cookie
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_one_address_and_for_a_while() {
        let now = Instant::now();
        let cookies = Cookies::new(now);
        let address = "192.0.2.1:7".parse().unwrap();
        let other = "192.0.2.1:8".parse().unwrap();
        let cookie = cookies.make(address, now);
        assert!(cookies.is_good(address, &cookie, now + LIFE));
        assert!(!cookies.is_good(address, &cookie, now + LIFE * 2));
        assert!(!cookies.is_good(other, &cookie, now));
        assert!(!cookies.is_good(address, &[0; COOKIE], now));
        assert!(!Cookies::new(now).is_good(address, &cookie, now));
    }
}
