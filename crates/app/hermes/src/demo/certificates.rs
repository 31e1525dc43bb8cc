//! An authority of the demo's own, and its certificates. Keys are made anew each time and leave with the demo.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::place::NODES;
use super::says::Says;

/// Whatever the demo's authority has signed, and the authority's certificate.
pub struct Certificates {
    /// The authority, as PEM.
    pub authority_pem: String,
    /// The authority, as DER.
    pub authority: CertificateDer<'static>,
    /// One identity a node, named as the node; the name in its certificate is `NODE.overlay`.
    pub nodes: Vec<Identity>,
    /// The TLS origin's; no node has this key.
    pub secure: Identity,
}

/// A certificate and its key.
pub struct Identity {
    /// The name of its holder.
    pub name: &'static str,
    /// The certificate, as PEM.
    pub certificate_pem: String,
    /// The certificate, as DER.
    pub certificate: CertificateDer<'static>,
    /// The private key, as PEM.
    pub key_pem: String,
    /// The private key, as DER.
    key: Vec<u8>,
}

impl Certificates {
    /// Makes the authority and has it sign everything.
    pub fn issue() -> Result<Self, String> {
        let authority = authority().says("the demo's authority")?;
        let issue = |name: &'static str, host: &str| identity(name, host, &authority).says(name);
        Ok(Self {
            authority_pem: authority.pem(),
            authority: authority.der().clone(),
            nodes: NODES
                .iter()
                .map(|node| issue(node, &format!("{node}.overlay")))
                .collect::<Result<_, _>>()?,
            secure: issue("SECURE", "SECURE")?,
        })
    }
}

impl Identity {
    /// The private key, for a TLS server in this process.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Result<Authority, rcgen::Error> {
    let mut parameters = CertificateParams::default();
    parameters
        .distinguished_name
        .push(DnType::CommonName, "Hermes demo authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)
}

fn identity(
    name: &'static str,
    host: &str,
    authority: &Authority,
) -> Result<Identity, rcgen::Error> {
    let mut parameters = CertificateParams::new([host.to_owned()])?;
    parameters.distinguished_name.push(DnType::CommonName, host);
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate()?;
    let certificate = parameters.signed_by(&key, authority)?;

    Ok(Identity {
        name,
        certificate_pem: certificate.pem(),
        certificate: certificate.der().clone(),
        key_pem: key.serialize_pem(),
        key: key.serialize_der(),
    })
}
