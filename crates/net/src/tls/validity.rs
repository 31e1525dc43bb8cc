//! From when until when the certificates and lists of a file count, so that someone can be warned.

use std::path::Path;

use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use super::files::{TlsFileError, certificates, revocations_of};

/// What one certificate, or one list of revoked ones, says of its own time, in Unix seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The certificate's subject, or the list's issuer.
    pub of: String,
    /// Its first moment (`notBefore`, `thisUpdate`).
    pub from: u64,
    /// Its last (`notAfter`, `nextUpdate`); a list need not say.
    pub until: Option<u64>,
}

/// The certificates of a PEM file, in their order.
///
/// # Errors
/// The file holds no certificates.
pub fn of_certificates(file: &Path) -> Result<Vec<Span>, TlsFileError> {
    let certificates = certificates(file)?;
    Ok(certificates
        .iter()
        .filter_map(|der| of_certificate(der))
        .collect())
}

/// One certificate (DER); `None` if it is none.
pub fn of_certificate(der: &[u8]) -> Option<Span> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let validity = certificate.validity();
    Some(Span {
        of: certificate.subject().to_string(),
        from: seconds(validity.not_before),
        until: Some(seconds(validity.not_after)),
    })
}

/// The lists of revoked certificates of a file, which is DER or holds PEM blocks.
///
/// # Errors
/// The file holds no lists.
pub fn of_revocations(file: &Path) -> Result<Vec<Span>, TlsFileError> {
    let spans = revocations_of(file)?.into_iter().filter_map(|der| {
        let (_, list) = CertificateRevocationList::from_der(&der).ok()?;
        let from = seconds(list.last_update());
        let until = list.next_update().map(seconds);

        Some(Span {
            of: list.issuer().to_string(),
            from,
            until,
        })
    });
    Ok(spans.collect())
}

/// A time before 1970 is long ago, too.
fn seconds(time: ASN1Time) -> u64 {
    u64::try_from(time.timestamp()).unwrap_or(0)
}
