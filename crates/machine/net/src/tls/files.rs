//! Certificates and keys in PEM (RFC 7468).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::VerifierBuilderError;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use super::file_error::{TlsFileError, TlsPart};
use super::source::TlsSource;
use super::words;

/// Permission bits that let others than the owner use a file.
const GROUP_AND_OTHER: u32 = 0o077;

/// Mode bits that a key of root must not have: its group may read it, as with Debian's `ssl-cert`
/// and volumes of Kubernetes.
const BEYOND_READING: u32 = 0o037;

/// The owner of keys that a group may read.
const ROOT: u32 = 0;

/// Characters of the longest label of a PEM block: `ENCRYPTED PRIVATE KEY` has 21.
const LABEL: usize = 32;

/// The certificates of a file, at least one, in their order: our own first, then those that issued it.
pub(super) fn certificates(
    source: TlsSource<'_>,
    part: TlsPart,
) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = source.read(part)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| source.wrong(part, bad_pem(&error)))?;

    if found.is_empty() {
        return Err(source
            .wrong(part, "no certificate in it")
            .remedy("it must hold PEM blocks that start with -----BEGIN CERTIFICATE-----"));
    }

    Ok(found)
}

/// The certificates of a file that we are to show.
pub(super) fn own_certificates(
    source: TlsSource<'_>,
) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let found = certificates(source, TlsPart::Certificate)?;
    let version = |der: &CertificateDer<'_>| {
        X509Certificate::from_der(der)
            .ok()
            .map(|(_, one)| one.version())
    };

    match found.iter().position(|one| version(one) == Some(X509Version::V1)) {
        Some(index) => Err(source
            .wrong(TlsPart::Certificate, format!("certificate {} is {}", index + 1, words::VERSION_1))
            .remedy("issue it as version 3, with its names as subjectAltName (openssl: -addext or -extfile)")),
        None => Ok(found),
    }
}

/// A private key, whose file no one but its owner can read, or where root owns it, its group.
pub(super) fn private_key(source: TlsSource<'_>) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    if let TlsSource::File(file) = source {
        check_private(file)?;
    }

    let wrong = |reason: String| source.wrong(TlsPart::Key, reason);
    match PrivateKeyDer::from_pem_slice(&source.read(TlsPart::Key)?) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(wrong("no private key in it".to_owned())
            .remedy("it must hold an unencrypted PEM block that ends in PRIVATE KEY-----")),
        Err(error) => Err(wrong(bad_pem(&error))),
    }
}

/// Checks that no one else can use a file.
fn check_private(file: &Path) -> Result<(), TlsFileError> {
    let source = TlsSource::File(file);
    let metadata = fs::metadata(file).map_err(|error| source.unreadable(TlsPart::Key, &error))?;
    let mode = metadata.mode() & 0o777;
    let (others, remedy) = match metadata.uid() {
        ROOT => (BEYOND_READING, "640"),
        _ => (GROUP_AND_OTHER, "600"),
    };
    if mode & others != 0 {
        let reason = format!("private key that others can use (mode {mode:04o})");
        let remedy = format!("chmod {remedy} {}", file.display());
        return Err(source.wrong(TlsPart::Key, reason).remedy(remedy));
    }

    Ok(())
}

/// The certificates of a file as authorities to trust.
pub(super) fn roots(source: TlsSource<'_>) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    let mut refused = None;
    let certificates = certificates(source, TlsPart::Authorities)?;
    for (index, certificate) in certificates.into_iter().enumerate() {
        // One less is trusted, and nothing else changes: bundles that others make hold some that no one can use.
        if let Err(error) = roots.add(certificate) {
            let reason = format!("certificate {} cannot be trusted: {error}", index + 1);
            tracing::warn!(file = %source, "{reason}; the others are");
            refused.get_or_insert(reason);
        }
    }

    match refused {
        Some(reason) if roots.is_empty() => Err(source.wrong(TlsPart::Authorities, reason)),
        _ => Ok(roots),
    }
}

/// Why rustls makes no verifier of authorities, in terms of their file.
pub(super) fn refused_verifier(
    authorities: TlsSource<'_>,
    error: &VerifierBuilderError,
) -> TlsFileError {
    authorities.wrong(TlsPart::Authorities, error.to_string())
}

/// Why rustls refused a chain and its key, in terms of the files they came from.
pub(super) fn refused_pair(
    certificate: TlsSource<'_>,
    key: TlsSource<'_>,
    error: &rustls::Error,
) -> TlsFileError {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            let reason = format!("does not belong to the certificate {certificate}");
            let remedy =
                "name the key that the certificate was made for, and put our own certificate first";
            key.wrong(TlsPart::Key, reason).remedy(remedy)
        }
        rustls::Error::InvalidCertificate(problem) => certificate.wrong(
            TlsPart::Certificate,
            format!(
                "not a usable certificate: {}",
                words::of_certificate(problem)
            ),
        ),
        other => key.wrong(TlsPart::Key, format!("not a usable key: {other}")),
    }
}

/// A mistake in PEM, without the words that stand there: they may be of a key.
pub(super) fn bad_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => match label(end_marker) {
            Some(label) => format!("not valid PEM: no end of {label}"),
            None => "not valid PEM: a block has no end".to_owned(),
        },
        pem::Error::IllegalSectionStart { .. } => {
            "not valid PEM: a line that starts with -----BEGIN goes on after its dashes".to_owned()
        }
        pem::Error::Base64Decode(_) => "not valid PEM: bad base64 between BEGIN and END".to_owned(),
        other => format!("not valid PEM: {other}"),
    }
}

/// The label of a block (RFC 7468 section 3): where line ends are missing, a whole key stands in its place.
fn label(text: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'0'..=b'9');
    let text = text.trim_ascii();
    let is_label = text.len() <= LABEL && text.iter().all(is_plain);
    std::str::from_utf8(text).ok().filter(|_| is_label)
}
