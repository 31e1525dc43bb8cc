//! TLS of a controller: TLS 1.3 alone. Members and other controllers show certificates; those who join have none yet.

use std::sync::Arc;

use hermes_net::tls::{AnyServer, JudgedServer};
use rustls::client::Resumption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ServerSessionMemoryCache;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

/// Sessions that may go on: one of each member that is connected. Strangers' push out members', who then show their certificates again.
#[doc(alias = "bound")]
const SESSIONS: usize = 20_000;

/// Makes the configuration of a controller with this identity. Sessions of the one before go on.
///
/// # Errors
/// The certificates or the key cannot be used.
pub(super) fn server_config(
    certificates: &str,
    key: &str,
    before: Option<&ServerConfig>,
) -> Result<Arc<ServerConfig>, String> {
    let identity = identity(certificates, key)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyMember {
        provider: provider.clone(),
    });

    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain, identity.key);
    let mut config = config.map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A member that comes back goes on with its session, once, and neither end sends its certificates again: that is most of the bytes
    // of a connection. The certificate of the session is judged anew at each connection all the same, as if it had just been shown.
    config.send_tls13_tickets = 1;
    config.session_storage = match before {
        Some(before) => before.session_storage.clone(),
        None => ServerSessionMemoryCache::new(SESSIONS),
    };
    Ok(Arc::new(config))
}

/// Makes the configuration by which a controller with this identity speaks to another one. Who that is has to be judged by its
/// certificates before anything is sent.
///
/// # Errors
/// As for [`server_config`].
pub(super) fn client_config(certificates: &str, key: &str) -> Result<Arc<ClientConfig>, String> {
    let identity = identity(certificates, key)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(JudgedServer::new(AnyServer, provider.clone()));
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(identity.chain, identity.key);
    let mut config = config.map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Controllers are few, and each shows its certificates each time.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Certificates and their key.
struct ParsedIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn identity(certificates: &str, key: &str) -> Result<ParsedIdentity, String> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
    Ok(ParsedIdentity {
        chain: chain.map_err(|error| error.to_string())?,
        key: PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| error.to_string())?,
    })
}

/// Takes any certificate whose key signs the handshake. The authority judges it afterwards, since it alone knows whom it has
/// revoked, and that a member whose certificate has expired may still renew it.
#[derive(Debug)]
struct AnyMember {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyMember {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, HandshakeKind, RootCertStore, ServerConnection};

    use super::*;

    struct Made {
        certificate: String,
        key: String,
    }

    fn made() -> Made {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["controller".to_owned()]).unwrap();
        Made {
            certificate: parameters.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    fn member_config(controller: &Made, member: &Made) -> Arc<ClientConfig> {
        let der =
            |made: &Made| CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(der(controller)).unwrap();
        let key = PrivateKeyDer::from_pem_slice(member.key.as_bytes()).unwrap();
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .unwrap()
                .with_root_certificates(roots)
                .with_client_auth_cert(vec![der(member)], key)
                .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    /// The kind of the handshake, and the certificates that the controller finds.
    fn connected(
        server: &Arc<ServerConfig>,
        client: &Arc<ClientConfig>,
    ) -> (HandshakeKind, Vec<CertificateDer<'static>>) {
        let name = ServerName::try_from("controller").unwrap();
        let mut client = ClientConnection::new(client.clone(), name).unwrap();
        let mut server = ServerConnection::new(server.clone()).unwrap();
        for _ in 0..6 {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut wire = Vec::new();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets().unwrap();
        }

        client.writer().write_all(b"hello").unwrap();
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        let mut heard = [0; 5];
        server.reader().read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        let chain = server.peer_certificates().unwrap().to_vec();
        (server.handshake_kind().unwrap(), chain)
    }

    #[test]
    fn who_comes_back_goes_on_with_a_session_whose_certificate_can_be_judged() {
        let controller = made();
        let member = member_config(&controller, &made());
        let server = server_config(&controller.certificate, &controller.key, None).unwrap();
        let (first, shown) = connected(&server, &member);
        assert_eq!(first, HandshakeKind::Full);

        let (second, found) = connected(&server, &member);
        assert_eq!(second, HandshakeKind::Resumed);
        assert_eq!(found, shown);
        // The controller's certificate is another one by now.
        let next = server_config(&controller.certificate, &controller.key, Some(&server)).unwrap();
        assert_eq!(connected(&next, &member), (HandshakeKind::Resumed, shown));
    }

    #[test]
    fn another_member_begins_a_session_of_its_own() {
        let controller = made();
        let server = server_config(&controller.certificate, &controller.key, None).unwrap();
        let (_, one) = connected(&server, &member_config(&controller, &made()));
        let (kind, other) = connected(&server, &member_config(&controller, &made()));
        assert_eq!(kind, HandshakeKind::Full);
        assert_ne!(one, other);
    }
}
