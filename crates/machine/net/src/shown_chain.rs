//! The certificates that a peer showed, and how long a verification of them counts.

use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The certificates that a client showed when it connected, its own first.
///
/// They were verified then, or, where the session was resumed, at some time before. Neither means
/// that they would be accepted now: certificates expire, revocation lists grow, and authorities are
/// removed. A new verification is noted here, so that most exchanges of a connection compare two
/// numbers.
pub struct ShownChain {
    certificates: Vec<CertificateDer<'static>>,
    /// Unix times in seconds of the first moment at which one of them is not valid any more, in their order.
    ends: Vec<u64>,
    /// Number of the rules by which they were accepted last; 0 for none.
    rules: AtomicU64,
    /// The end that comes next after that.
    until: AtomicU64,
}

impl ShownChain {
    /// As they were shown.
    #[must_use]
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        let mut ends: Vec<u64> = certificates.iter().filter_map(|one| end_of(one)).collect();
        ends.sort_unstable();
        Self {
            certificates,
            ends,
            rules: AtomicU64::new(0),
            until: AtomicU64::new(0),
        }
    }

    /// The certificates, the client's own first.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// Whether the rules of this number accepted them, and none has expired at `now`, Unix time in
    /// seconds.
    #[must_use]
    pub fn is_believed(&self, rules: u64, now: u64) -> bool {
        now < self.until.load(Ordering::Relaxed) && self.rules.load(Ordering::Acquire) == rules
    }

    /// Notes that the certificates were verified at `now` by the rules of this number, which is not 0.
    pub fn believed(&self, rules: u64, now: u64) {
        let next = self.next_end(now);
        // The end depends on time alone: with the rules of before or after, it is the right one.
        self.until
            .store(next.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.rules.store(rules, Ordering::Release);
    }

    /// The first moment after `now`, Unix times in seconds, at which one of them is not valid any more.
    pub(crate) fn next_end(&self, now: u64) -> Option<u64> {
        self.ends.iter().copied().find(|end| now < *end)
    }

    /// The last moment, in Unix seconds and not after `now`, at which all of them were valid.
    #[must_use]
    pub fn last_valid(&self, now: u64) -> u64 {
        self.ends
            .first()
            .map_or(now, |end| now.min(end.saturating_sub(1)))
    }
}

/// RFC 5280 section 4.1.2.5: `notAfter` itself is within.
fn end_of(certificate: &[u8]) -> Option<u64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    u64::try_from(certificate.validity().not_after.timestamp())
        .ok()?
        .checked_add(1)
}

impl PartialEq for ShownChain {
    fn eq(&self, other: &Self) -> bool {
        self.certificates == other.certificates
    }
}

impl Eq for ShownChain {}

impl std::fmt::Debug for ShownChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShownChain")
            .field("certificates", &self.certificates.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(ends: &[u64]) -> ShownChain {
        ShownChain {
            ends: ends.to_vec(),
            ..ShownChain::new(Vec::new())
        }
    }

    #[test]
    fn what_was_found_counts_for_its_rules_and_until_the_next_end() {
        let chain = chain(&[10, 20]);
        assert!(!chain.is_believed(1, 5), "nothing was found yet");
        chain.believed(1, 5);
        assert!(chain.is_believed(1, 9));
        assert!(!chain.is_believed(2, 9), "other rules");
        assert!(!chain.is_believed(1, 10), "one has ended");
        // The second chain was not needed: an authority may have signed two of them.
        chain.believed(1, 10);
        assert!(chain.is_believed(1, 19) && !chain.is_believed(1, 20));
    }

    #[test]
    fn the_last_valid_moment_is_that_of_the_first_to_end() {
        assert_eq!(chain(&[10, 20]).last_valid(15), 9);
        assert_eq!(chain(&[10, 20]).last_valid(5), 5);
        assert_eq!(chain(&[]).last_valid(5), 5);
    }
}
