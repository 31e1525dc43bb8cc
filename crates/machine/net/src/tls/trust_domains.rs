//! Clients of other SPIFFE trust domains: each domain has authorities of its own, which are believed about it alone (SPIFFE Trust
//! Domain and Bundle, section 5.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::file_error::TlsFileError;
use super::files::{refused_verifier, roots};
use super::names::certificate_names;
use super::provider;
use super::source::TlsSource;
use crate::peer::CertificateNames;

/// Begins the ID in a certificate.
const SCHEME: &str = "spiffe://";

/// Another trust domain, and its authorities.
#[derive(Debug, Clone, Copy)]
pub struct TrustDomain<'a> {
    /// Its name, such as `b.example.org`.
    pub name: &'a str,
    /// PEM certificates of its authorities.
    pub authorities: TlsSource<'a>,
}

/// Verifies a certificate by the authorities of the trust domain in its SPIFFE ID, and all others by our own.
#[derive(Debug)]
pub(super) struct ClientsByDomain {
    own: Arc<dyn ClientCertVerifier>,
    others: BTreeMap<String, Arc<dyn ClientCertVerifier>>,
    hints: Vec<DistinguishedName>,
}

impl ClientsByDomain {
    /// `own` verifies the certificates of all other trust domains, and those without one.
    pub(super) fn read(
        own: Arc<dyn ClientCertVerifier>,
        domains: &[TrustDomain<'_>],
    ) -> Result<Self, TlsFileError> {
        let mut hints = own.root_hint_subjects().to_vec();
        let mut others = BTreeMap::new();
        for domain in domains {
            let verifier = verifier(domain)?;
            hints.extend_from_slice(verifier.root_hint_subjects());
            others.insert(domain.name.to_owned(), verifier);
        }
        Ok(Self { own, others, hints })
    }

    /// The verifier of a certificate.
    fn verifier_of(
        &self,
        certificate: &CertificateDer<'_>,
    ) -> Result<&Arc<dyn ClientCertVerifier>, Error> {
        let names = certificate_names(certificate);
        let mut domains = names.uris.iter().filter_map(|uri| trust_domain(uri));
        let known = domains.find_map(|domain| self.others.get_key_value(domain));
        let Some((domain, verifier)) = known else {
            return Ok(&self.own);
        };
        // Peers are known by any name in their certificate, so one name outside of the domain would be a loan from ours.
        match is_within(&names, domain) {
            true => Ok(verifier),
            false => Err(Error::General(format!(
                "the certificate names more than one member of the trust domain {domain}"
            ))),
        }
    }
}

fn verifier(domain: &TrustDomain<'_>) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    let named = |error: TlsFileError| TlsFileError {
        name: format!("{} of {}", error.name, domain.name),
        ..error
    };
    let roots = Arc::new(roots(domain.authorities).map_err(named)?);
    let built = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    let verifier = built.map_err(|error| named(refused_verifier(domain.authorities, &error)))?;
    Ok(verifier)
}

/// The trust domain in a SPIFFE ID.
fn trust_domain(uri: &str) -> Option<&str> {
    let rest = uri.strip_prefix(SCHEME)?;
    rest.split('/').next()
}

/// Whether all names of a certificate are of one trust domain, and its ID is the only one.
fn is_within(names: &CertificateNames, domain: &str) -> bool {
    let is_below = |name: &String| {
        let label = name.strip_suffix(domain);
        label.is_some_and(|label| label.ends_with('.'))
    };
    names.spiffe_id().is_some()
        && names.emails.is_empty()
        && names.dns.iter().all(is_below)
        && names.common_name.iter().all(is_below)
}

impl ClientCertVerifier for ClientsByDomain {
    fn offer_client_auth(&self) -> bool {
        self.own.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.own.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verifier = self.verifier_of(end_entity)?;
        verifier.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.own.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.own.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.own.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, SanType,
    };

    use super::super::Clients;
    use super::*;

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            let issuer = Issuer::new(params, key);
            Self { pem, issuer }
        }

        fn certificate(&self, common_name: &str, names: Vec<SanType>) -> CertificateDer<'static> {
            let mut params = CertificateParams::default();
            params
                .distinguished_name
                .push(DnType::CommonName, common_name);
            params.subject_alt_names = names;
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            certificate.der().clone()
        }
    }

    fn uri(name: &str) -> SanType {
        SanType::URI(name.try_into().unwrap())
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().unwrap())
    }

    #[test]
    fn authorities_are_believed_about_their_own_domain_alone() {
        let [own, other, third] = [Authority::new(), Authority::new(), Authority::new()];
        let domains = [("b.test", &other.pem), ("c.test", &third.pem)];
        let domains = domains.map(|(name, pem)| TrustDomain {
            name,
            authorities: TlsSource::Inline(pem),
        });
        let clients = Clients::read(TlsSource::Inline(&own.pem), &domains, &[]).unwrap();
        let now = 1_790_000_000;
        let believed = |authority: &Authority, names: &[&str], hosts: &[&str]| {
            let names = names.iter().map(|name| uri(name));
            let names = names.chain(hosts.iter().map(|host| dns(host)));
            let shown = authority.certificate("hub.b.test", names.collect());
            clients.believe(&[shown], now).is_ok()
        };

        assert!(believed(
            &other,
            &["spiffe://b.test/node/hub"],
            &["hub.b.test"]
        ));
        assert!(believed(
            &own,
            &["spiffe://a.test/node/hub"],
            &["hub.a.test"]
        ));
        // Names of our own trust domain, of a third one, and of none.
        assert!(!believed(&other, &["spiffe://a.test/node/hub"], &[]));
        assert!(!believed(&other, &["spiffe://c.test/node/hub"], &[]));
        assert!(!believed(&other, &["spiffe://B.test/node/hub"], &[]));
        assert!(!believed(&other, &["spiffe://b.test.evil/node/hub"], &[]));
        assert!(!believed(&other, &[], &["hub.b.test"]));
        assert!(!believed(&own, &["spiffe://b.test/node/hub"], &[]));
        assert!(!believed(&third, &["spiffe://b.test/node/hub"], &[]));
        // One name of theirs, and another one beside it.
        let id = "spiffe://b.test/node/hub";
        assert!(!believed(&other, &[id, "spiffe://a.test/node/hub"], &[]));
        assert!(!believed(&other, &["spiffe://a.test/node/hub", id], &[]));
        assert!(!believed(&other, &[id], &["hub.a.test"]));
        assert!(!believed(&other, &[id], &["hubb.test"]));

        let named = other.certificate("alice", vec![uri(id)]);
        assert!(clients.believe(&[named], now).is_err());
        let mail = SanType::Rfc822Name("alice@a.test".try_into().unwrap());
        let named = other.certificate("hub.b.test", vec![uri(id), mail]);
        assert!(clients.believe(&[named], now).is_err());
    }
}
