//! Certificates and keys from PEM files (RFC 7468).

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::VerifierBuilderError;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use super::words;
use crate::read_at_most;

/// Permission bits that let others than the owner use a file.
const GROUP_AND_OTHER: u32 = 0o077;

/// Mode bits that a key of root must not have: its group may read it, as with Debian's `ssl-cert`
/// and volumes of Kubernetes.
const BEYOND_READING: u32 = 0o037;

/// The owner of keys that a group may read.
const ROOT: u32 = 0;

/// Bytes of one file: a list of 200,000 revoked certificates has 10 MiB as PEM.
#[doc(alias = "bound")]
pub const FILE_BYTES: u64 = 16 << 20;

/// A certificate or key file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFileError {
    /// The file at fault.
    pub file: PathBuf,
    /// The mistake.
    pub reason: String,
    /// The remedy, if it is known.
    pub remedy: Option<String>,
}

impl TlsFileError {
    pub(crate) fn new(file: &Path, reason: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            reason: reason.into(),
            remedy: None,
        }
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for TlsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.reason)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TlsFileError {}

/// The certificates of a file, at least one, in their order: our own first, then those that issued it.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| bad_pem(file, &error))?;

    if found.is_empty() {
        return Err(TlsFileError::new(file, "no certificate in it")
            .remedy("it must hold PEM blocks that start with -----BEGIN CERTIFICATE-----"));
    }

    Ok(found)
}

/// The certificates of a file that we are to show.
pub(super) fn own_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let found = certificates(file)?;
    let version = |der: &CertificateDer<'_>| {
        X509Certificate::from_der(der)
            .ok()
            .map(|(_, one)| one.version())
    };

    match found.iter().position(|one| version(one) == Some(X509Version::V1)) {
        Some(index) => Err(TlsFileError::new(file, format!("certificate {} is {}", index + 1, words::VERSION_1))
            .remedy("issue it as version 3, with its names as subjectAltName (openssl: -addext or -extfile)")),
        None => Ok(found),
    }
}

/// The private key of a file that no one but its owner can read, or where root owns it, its group.
pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let metadata = fs::metadata(file).map_err(|error| unreadable(file, &error))?;
    let mode = metadata.mode() & 0o777;
    let (others, remedy) = match metadata.uid() {
        ROOT => (BEYOND_READING, "640"),
        _ => (GROUP_AND_OTHER, "600"),
    };
    if mode & others != 0 {
        let reason = format!("private key that others can use (mode {mode:04o})");
        let remedy = format!("chmod {remedy} {}", file.display());
        return Err(TlsFileError::new(file, reason).remedy(remedy));
    }

    match PrivateKeyDer::from_pem_slice(&read(file)?) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(TlsFileError::new(file, "no private key in it")
            .remedy("it must hold an unencrypted PEM block that ends in PRIVATE KEY-----")),
        Err(error) => Err(bad_pem(file, &error)),
    }
}

/// The certificates of a file as authorities to trust.
pub(super) fn roots(file: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    let mut refused = None;
    for (index, certificate) in certificates(file)?.into_iter().enumerate() {
        // One less is trusted, and nothing else changes: bundles that others make hold some that no one can use.
        if let Err(error) = roots.add(certificate) {
            let reason = format!("certificate {} cannot be trusted: {error}", index + 1);
            tracing::warn!(file = %file.display(), "{reason}; the others are");
            refused.get_or_insert(reason);
        }
    }

    match refused {
        Some(reason) if roots.is_empty() => Err(TlsFileError::new(file, reason)),
        _ => Ok(roots),
    }
}

/// Why rustls makes no verifier of authorities, in terms of their file.
pub(super) fn refused_verifier(ca: &Path, error: &VerifierBuilderError) -> TlsFileError {
    TlsFileError::new(ca, error.to_string())
}

/// Why rustls refused a chain and its key, in terms of the files they came from.
pub(super) fn refused_pair(cert: &Path, key: &Path, error: &rustls::Error) -> TlsFileError {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            let reason = format!("does not belong to the certificate {}", cert.display());
            let remedy =
                "name the key that the certificate was made for, and put our own certificate first";
            TlsFileError::new(key, reason).remedy(remedy)
        }
        rustls::Error::InvalidCertificate(problem) => TlsFileError::new(
            cert,
            format!(
                "not a usable certificate: {}",
                words::of_certificate(problem)
            ),
        ),
        other => TlsFileError::new(key, format!("not a usable key: {other}")),
    }
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, TlsFileError> {
    read_at_most(file, FILE_BYTES).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &std::io::Error) -> TlsFileError {
    TlsFileError::new(file, format!("cannot be read: {error}"))
}

pub(super) fn bad_pem(file: &Path, error: &pem::Error) -> TlsFileError {
    let reason = match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!(
                "not valid PEM: no end of {}",
                String::from_utf8_lossy(end_marker)
            )
        }
        pem::Error::IllegalSectionStart { line } => {
            format!(
                "not valid PEM: bad line {:?}",
                String::from_utf8_lossy(line)
            )
        }
        // Without the decoder's words: they may quote the content of a key file.
        pem::Error::Base64Decode(_) => "not valid PEM: bad base64 between BEGIN and END".to_owned(),
        other => format!("not valid PEM: {other}"),
    };
    TlsFileError::new(file, reason)
}
