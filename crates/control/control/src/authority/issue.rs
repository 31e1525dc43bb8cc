//! Certificates of members and of the controller.

use hermes_api::lifetime::{EARLY, LIFETIME};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose,
    PublicKeyData, SanType, SerialNumber,
};

use super::encoding::{hex, random, time, unhex};
use super::error::AuthorityError;
use super::generation::Generation;

/// Bytes of each half of a serial number: the first one says which membership, the second one which certificate.
const HALF: usize = 8;

/// Whom a certificate is for: exactly these two names.
pub(super) struct Names {
    pub(super) membership: String,
    pub(super) uri: String,
    pub(super) dns: String,
}

/// A certificate that was made.
pub(super) struct Issued {
    pub(super) pem: String,
    /// In hexadecimal.
    pub(super) serial: String,
    /// When it has to be renewed.
    pub(super) first_end: u64,
    /// When no one believes it any more.
    pub(super) until: u64,
}

/// Makes a certificate for a key, which others believe for so many seconds more than its lifetime.
pub(super) fn certificate(
    generation: &Generation,
    key: &impl PublicKeyData,
    names: &Names,
    grace: u64,
    now: u64,
) -> Result<Issued, AuthorityError> {
    let serial = serial(&names.membership)?;
    let until = (now + LIFETIME + grace).min(generation.until);
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, &names.dns);
    parameters.serial_number = Some(SerialNumber::from_slice(&serial));
    parameters.not_before = time(now.saturating_sub(EARLY));
    parameters.not_after = time(until);
    parameters.subject_alt_names = vec![
        SanType::URI(names.uri.as_str().try_into()?),
        SanType::DnsName(names.dns.as_str().try_into()?),
    ];
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A node shows the same certificate as a server and as a client.
    parameters.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];

    let certificate = parameters.signed_by(key, &generation.issuer()?)?;
    Ok(Issued {
        pem: certificate.pem(),
        serial: hex(&serial),
        first_end: until.min(now + LIFETIME),
        until,
    })
}

/// A random name of a membership, in hexadecimal. It begins the serial numbers of its certificates, so that a later node of the same
/// name is another member, however long ago the certificates of the earlier one have ended.
pub(super) fn membership() -> Result<String, AuthorityError> {
    let mut half = [0; HALF];
    random(&mut half)?;
    // DER writes such a number as it stands: it is positive, and has no zero in front.
    half[0] = half[0] & 0x3f | 0x40;
    Ok(hex(&half))
}

fn serial(membership: &str) -> Result<Vec<u8>, AuthorityError> {
    let mut half = [0; HALF];
    random(&mut half)?;
    Ok([unhex(membership), half.to_vec()].concat())
}
