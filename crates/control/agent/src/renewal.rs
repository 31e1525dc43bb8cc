//! When a node renews its certificate.

use hermes_api::Hash;
use hermes_api::lifetime::first_end;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The time of a certificate to its first end, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// The time of the first certificate of a PEM text.
pub(crate) fn span(certificates: &str) -> Option<Span> {
    let der = CertificateDer::from_pem_slice(certificates.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let validity = certificate.validity();
    let from = u64::try_from(validity.not_before.timestamp()).ok()?;
    let until = u64::try_from(validity.not_after.timestamp()).ok()?;
    Some(Span {
        from,
        until: first_end(from, until),
    })
}

impl Span {
    /// Whether it is time to renew: at two thirds of the time, up to a twelfth later. The node's name says how much, so that nodes that
    /// joined at once do not come back at once.
    pub(crate) fn is_due(self, node: &str, now: u64) -> bool {
        let whole = self.until.saturating_sub(self.from);
        let chance = u64::from(Hash::of(node.as_bytes()).as_bytes()[0]);
        let late = whole / 12 * chance / 255;
        now >= self.from + whole / 3 * 2 + late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_renew_at_different_times_after_two_thirds() {
        let span = Span {
            from: 0,
            until: 120_000,
        };
        let due = |node: &str| (0..).find(|now| span.is_due(node, *now)).unwrap();
        let times: Vec<_> = ["a", "b", "c", "d"].map(due).to_vec();
        assert!(
            times.iter().all(|time| (80_000..=90_000).contains(time)),
            "{times:?}"
        );
        let mut different = times.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), times.len());
    }
}
