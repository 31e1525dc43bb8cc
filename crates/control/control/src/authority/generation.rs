//! Certificates of the authority.

use hermes_api::{Hash, Name};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

use super::encoding::time;
use super::error::{AuthorityError, DAY};

/// Begins the keys of their records.
pub(super) const PREFIX: &str = "authority/";

/// How long one counts.
#[doc(alias = "bound")]
const TIME: u64 = 365 * DAY;

/// How long nodes have to learn of a new one before it issues.
///
/// A node that was cut off from the controller for a week must not refuse the certificates of others.
const KNOWN: u64 = 14 * DAY;

/// A certificate of the authority, with its key.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Generation {
    pub(super) number: u32,
    /// PEM.
    pub(super) certificate: String,
    /// PEM.
    key: String,
    made: u64,
    pub(super) until: u64,
}

impl Generation {
    pub(super) fn make(overlay: &Name, number: u32, now: u64) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let until = now + TIME;
        let certificate = Lines {
            overlay,
            number,
            made: now,
            until,
        }
        .parameters()
        .self_signed(&key)?;
        Ok(Self {
            number,
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            made: now,
            until,
        })
    }

    /// The key of its record; generations are read in the order of their numbers.
    pub(super) fn key(&self) -> String {
        format!("{PREFIX}{:08}", self.number)
    }

    pub(super) fn issuer(&self) -> Result<Issuer<'static, KeyPair>, AuthorityError> {
        let key = KeyPair::from_pem(&self.key)?;
        Ok(Issuer::from_ca_cert_pem(&self.certificate, key)?)
    }

    /// A certificate of this generation's key by an earlier generation, as PEM: it leads those who know the earlier one alone to this one.
    pub(super) fn vouched_by(
        &self,
        earlier: &Self,
        overlay: &Name,
    ) -> Result<String, AuthorityError> {
        let lines = Lines {
            overlay,
            number: self.number,
            made: self.made,
            until: self.until.min(earlier.until),
        };
        let key = KeyPair::from_pem(&self.key)?;
        let mut parameters = lines.parameters();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.use_authority_key_identifier_extension = true;
        Ok(parameters.signed_by(&key, &earlier.issuer()?)?.pem())
    }

    pub(super) fn der(&self) -> Result<CertificateDer<'static>, AuthorityError> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|error| AuthorityError::Crypto(error.to_string()))
    }

    pub(super) fn pin(&self) -> Result<Hash, AuthorityError> {
        Ok(Hash::of(&self.der()?))
    }

    /// Whether nodes that attend know it by now.
    pub(super) fn is_known(&self, now: u64) -> bool {
        now >= self.made + KNOWN
    }

    pub(super) fn is_half_over(&self, now: u64) -> bool {
        now >= self.made + TIME / 2
    }
}

/// What the certificate of a generation says.
struct Lines<'a> {
    overlay: &'a Name,
    number: u32,
    made: u64,
    until: u64,
}

impl Lines<'_> {
    fn parameters(&self) -> CertificateParams {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        let name = format!("{} authority {}", self.overlay, self.number);
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.not_before = time(self.made.saturating_sub(2 * DAY));
        parameters.not_after = time(self.until);
        // A generation certifies members, and the next generation to those who have only heard of this one.
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters
    }
}
