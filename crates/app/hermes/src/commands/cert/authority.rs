//! The authority: `ca.pem` and `ca.key` of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::OffsetDateTime;

use super::issued::Issued;
use super::request::Request;
use super::{Action, CertOutcome, day, write};

/// Days that the authority counts: its certificate has to be on every node before it is changed.
const DAYS: u32 = 3650;

/// Seconds that a certificate counts before it was made: clocks differ.
const EARLY: u64 = 3600;

/// An authority that can issue.
pub(super) struct CertAuthority {
    cert_file: PathBuf,
    key_file: PathBuf,
    action: Action,
    until: u64,
    issuer: Issuer<'static, KeyPair>,
}

impl CertAuthority {
    /// The authority in `folder`, created if there is none.
    ///
    /// # Errors
    /// Its files cannot be read or written, or one of them is missing.
    pub(super) fn open_or_make(folder: &Path, now: u64) -> Result<Self, String> {
        let cert_file = folder.join("ca.pem");
        let key_file = folder.join("ca.key");
        let action = match (cert_file.exists(), key_file.exists()) {
            (true, true) => Action::Kept,
            (false, false) => {
                make(&cert_file, &key_file, now)?;
                Action::Made
            }
            (true, false) => return Err(missing(&key_file, &cert_file)),
            (false, true) => return Err(missing(&cert_file, &key_file)),
        };

        let failed = |error: rcgen::Error| format!("{}: {error}", cert_file.display());
        let issuer =
            Issuer::from_ca_cert_pem(&text(&cert_file)?, key(&key_file)?).map_err(failed)?;
        let until = Issued::read(&cert_file)?.map_or(0, |known| known.until);
        if until <= now {
            return Err(format!(
                "{} has expired on {}",
                cert_file.display(),
                day(until)
            ));
        }

        Ok(Self {
            cert_file,
            key_file,
            action,
            until,
            issuer,
        })
    }

    /// As the command shows it.
    pub(super) fn outcome(&self) -> CertOutcome {
        CertOutcome {
            action: self.action,
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
            names: vec!["the authority".to_owned()],
            until: day(self.until),
        }
    }

    /// Issues a certificate; the key is made if there is none. Returns the end of its time.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(super) fn issue(
        &self,
        request: &Request,
        cert_file: &Path,
        key_file: &Path,
        days: u32,
        now: u64,
    ) -> Result<u64, String> {
        if !key_file.exists() {
            write(key_file, &new_key()?.serialize_pem(), 0o600)?;
        }

        let failed = |error: rcgen::Error| format!("{}: {error}", cert_file.display());
        let mut parameters = parameters(&request.names[0], days, now);
        let until = (now + seconds(days)).min(self.until);
        parameters.not_after = time(until);
        parameters.subject_alt_names = request.alternative_names()?;
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // A node shows the same certificate as a server and as a client.
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];

        let certificate = parameters
            .signed_by(&key(key_file)?, &self.issuer)
            .map_err(failed)?;
        write(cert_file, &certificate.pem(), 0o644)?;
        Ok(until)
    }
}

fn make(cert_file: &Path, key_file: &Path, now: u64) -> Result<(), String> {
    let key = new_key()?;
    let mut parameters = parameters("Hermes overlay authority", DAYS, now);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];

    let certificate = parameters
        .self_signed(&key)
        .map_err(|error| error.to_string())?;
    write(key_file, &key.serialize_pem(), 0o600)?;
    write(cert_file, &certificate.pem(), 0o644)
}

fn parameters(name: &str, days: u32, now: u64) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = time(now.saturating_sub(EARLY));
    parameters.not_after = time(now + seconds(days));
    parameters
}

fn new_key() -> Result<KeyPair, String> {
    KeyPair::generate().map_err(|error| error.to_string())
}

fn key(file: &Path) -> Result<KeyPair, String> {
    KeyPair::from_pem(&text(file)?).map_err(|error| format!("{}: {error}", file.display()))
}

fn text(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn missing(lost: &Path, other: &Path) -> String {
    format!(
        "there is {} without {}: put it back, or name another --folder",
        other.display(),
        lost.display()
    )
}

fn seconds(days: u32) -> u64 {
    u64::from(days) * 24 * 60 * 60
}

/// A Unix time as X.509 has it; the last that it can say where it says more.
fn time(seconds: u64) -> OffsetDateTime {
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .unwrap_or(rcgen::date_time_ymd(9999, 12, 31))
}
