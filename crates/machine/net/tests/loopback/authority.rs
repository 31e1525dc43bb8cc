//! Certificates made for one test.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hermes_net::tls::{self, ClientOptions, TlsError, TlsServerOptions};
use hermes_net::{Stream, Transport};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

use crate::PATIENCE;

/// An authority with its folder of files.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and key in files.
pub struct Identity {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        fs::write(
            folder.path().join("ca.pem"),
            params.self_signed(&key).unwrap().pem(),
        )
        .unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn ca(&self) -> PathBuf {
        self.folder().join("ca.pem")
    }

    /// Issues a certificate for `names`; the files are called `<stem>.pem` and `<stem>.key`.
    pub fn issue(&self, stem: &str, names: Vec<SanType>) -> Identity {
        self.sign(stem, names, CertificateParams::default())
    }

    /// As [`Self::server`], with a certificate that ends then.
    pub fn server_until(&self, end: SystemTime) -> Identity {
        let mut params = CertificateParams::default();
        params.not_after = end.into();
        self.sign(
            "ending",
            vec![SanType::DnsName("server.example".try_into().unwrap())],
            params,
        )
    }

    fn sign(&self, stem: &str, names: Vec<SanType>, mut params: CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        params.subject_alt_names = names;
        params.distinguished_name.push(DnType::CommonName, stem);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let cert_file = self.folder().join(format!("{stem}.pem"));
        let key_file = self.folder().join(format!("{stem}.key"));
        fs::write(&cert_file, certificate.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        Identity {
            cert: cert_file,
            key: key_file,
        }
    }

    /// A certificate for the DNS name `server.example`.
    pub fn server(&self) -> Identity {
        self.issue(
            "server",
            vec![SanType::DnsName("server.example".try_into().unwrap())],
        )
    }
}

impl Identity {
    /// Options for a server that asks no client for a certificate.
    pub fn serving(&self) -> TlsServerOptions<'_> {
        TlsServerOptions {
            certificate: (&self.cert).into(),
            key: (&self.key).into(),
            client_authorities: None,
            client_domains: &[],
            client_revocation_lists: &[],
            client_required: false,
            alpn: &[],
        }
    }
}

/// Runs both sides of a handshake over `pair`; the client asks for `name`.
pub async fn handshake(
    pair: (Stream, Stream),
    client: ClientOptions<'_>,
    server: TlsServerOptions<'_>,
    name: &str,
) -> (Result<Stream, TlsError>, Result<Stream, TlsError>) {
    let (client, server) = (tls::client(client).unwrap(), tls::server(server).unwrap());
    let (near, far) = pair;
    tokio::join!(
        tls::connect(near, client, name, PATIENCE),
        tls::accept(far, server, Duration::from_secs(30))
    )
}

/// Both ends of TLS over `pair`.
pub async fn tls_pair(pair: (Stream, Stream)) -> (Stream, Stream) {
    let authority = Authority::new();
    let (identity, ca) = (authority.server(), authority.ca());
    let client = ClientOptions {
        authorities: Some((&ca).into()),
        ..ClientOptions::default()
    };
    let (near, far) = handshake(pair, client, identity.serving(), "server.example").await;
    let (near, far) = (near.unwrap(), far.unwrap());
    assert!(matches!(near.transport(), Transport::TlsClient(_)));
    assert!(matches!(far.transport(), Transport::TlsServer(_)));
    (near, far)
}
