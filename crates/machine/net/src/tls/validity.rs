//! From when until when the certificates and lists of a file count, so that someone can be warned.

use x509_parser::asn1_rs::Any;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

use super::file_error::{TlsFileError, TlsPart};
use super::files::{certificates, roots};
use super::revocation_list::{RevocationFile, revocation_file};
use super::source::TlsSource;

/// The validity period of one certificate or revocation list, in Unix seconds.
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
pub fn of_certificates(source: TlsSource<'_>) -> Result<Vec<Span>, TlsFileError> {
    let certificates = certificates(source, TlsPart::Certificate)?;
    Ok(certificates
        .iter()
        .filter_map(|der| of_certificate(der))
        .collect())
}

/// The period of a certificate (DER); `None` if it is malformed.
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
pub fn of_revocations(source: TlsSource<'_>) -> Result<Vec<Span>, TlsFileError> {
    Ok(revocation_file(source)?.spans.clone())
}

/// The period of a list (DER), without its entries (RFC 5280 section 5.1); `None` if it is
/// malformed.
pub(super) fn of_list(der: &[u8]) -> Option<Span> {
    let (_, list) = Any::from_der(der).ok()?;
    let (_, signed) = Any::from_der(list.data).ok()?;
    let (rest, _version) = Any::from_der(signed.data).ok()?;
    let (rest, _algorithm) = Any::from_der(rest).ok()?;
    let (rest, issuer) = X509Name::from_der(rest).ok()?;
    let (rest, from) = ASN1Time::from_der(rest).ok()?;
    let until = ASN1Time::from_der(rest).ok().map(|(_, until)| until);

    Some(Span {
        of: issuer.to_string(),
        from: seconds(from),
        until: until.map(seconds),
    })
}

/// Lists that say nothing about the authorities beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted {
    /// An authority of which there is no list: each certificate that it issued is refused.
    pub authority: String,
    /// Which of the given are lists of others alone.
    pub foreign: Vec<bool>,
}

/// Whether there are lists of unknown authorities, while an authority (PEM) has no list. Lists of
/// intermediate authorities are no mistake beside those of all named authorities. Unreadable
/// files are reported elsewhere.
pub fn unlisted(
    authorities_of: TlsSource<'_>,
    revocation_lists: &[TlsSource<'_>],
) -> Option<Unlisted> {
    let authorities = roots(authorities_of).ok()?.roots;
    let lists: Vec<_> = revocation_lists
        .iter()
        .map(|source| revocation_file(*source).ok())
        .collect();

    let is_of =
        |file: &RevocationFile, authority| file.lists.iter().any(|one| one.is_of(authority));
    let is_foreign = |file: &RevocationFile| !authorities.iter().any(|one| is_of(file, one));
    let foreign = lists
        .iter()
        .map(|file| file.as_deref().is_some_and(is_foreign));
    let foreign: Vec<bool> = foreign.collect();
    let has_list = |authority| lists.iter().flatten().any(|file| is_of(file, authority));
    let bare = authorities.iter().find(|one| !has_list(*one))?;

    foreign.contains(&true).then(|| Unlisted {
        authority: name(authorities_of, &bare.subject),
        foreign,
    })
}

/// The name of the authority with this subject (DER without its tag).
fn name(authorities: TlsSource<'_>, subject: &[u8]) -> String {
    let known = certificates(authorities, TlsPart::Authorities).unwrap_or_default();
    let mut names = known.iter().filter_map(|der| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let found = certificate.subject();
        found.as_raw().ends_with(subject).then(|| found.to_string())
    });
    names.next_back().unwrap_or_default()
}

/// A time before 1970 is long ago, too.
fn seconds(time: ASN1Time) -> u64 {
    u64::try_from(time.timestamp()).unwrap_or(0)
}
