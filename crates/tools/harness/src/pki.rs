//! Certificates for one test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams,
    CertificateSigningRequestParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tempfile::TempDir;

/// An authority, and a folder with its certificates. Dropping it removes the folder.
#[derive(Debug)]
pub struct Pki {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
    /// How many certificates.
    issued: AtomicU64,
}

/// Files with a certificate and its key.
#[derive(Debug, Clone)]
pub struct Issued {
    /// PEM certificate.
    pub cert: PathBuf,
    /// PEM private key, mode 0600.
    pub key: PathBuf,
    serial: u64,
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}

impl Pki {
    /// A new authority.
    ///
    /// # Panics
    /// When the system cannot make keys or files.
    pub fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters
            .distinguished_name
            .push(DnType::CommonName, "Test authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority =
            CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();

        Self {
            folder,
            authority,
            issued: AtomicU64::new(0),
        }
    }

    /// The authority's certificate, as PEM.
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Issues a certificate for servers and clients. The first name is the common name too; a name is a DNS name, an IP
    /// address, a URI (`spiffe://...`) or an e-mail address.
    ///
    /// # Panics
    /// When a name cannot stand in a certificate.
    pub fn issue(&self, names: &[&str]) -> Issued {
        let day = Duration::from_secs(24 * 60 * 60);
        self.issue_for(
            names,
            SystemTime::now() - day,
            SystemTime::now() + 365 * day,
        )
    }

    /// The certificate that a request (PKCS #10, DER) asks for, valid from then until then, as PEM.
    ///
    /// # Panics
    /// It is no request.
    pub fn sign(&self, request: &[u8], from: SystemTime, until: SystemTime) -> String {
        let mut request = CertificateSigningRequestParams::from_der(&request.into()).unwrap();
        (request.params.not_before, request.params.not_after) = (from.into(), until.into());
        request.signed_by(&self.authority).unwrap().pem()
    }

    /// As [`Self::sign`], for other names than are asked for.
    ///
    /// # Panics
    /// It is no request.
    pub fn sign_for(
        &self,
        request: &[u8],
        names: &[&str],
        from: SystemTime,
        until: SystemTime,
    ) -> String {
        let mut request = CertificateSigningRequestParams::from_der(&request.into()).unwrap();
        request.params.subject_alt_names =
            names.iter().map(|name| alternative_name(name)).collect();
        (request.params.not_before, request.params.not_after) = (from.into(), until.into());
        request.signed_by(&self.authority).unwrap().pem()
    }

    /// As [`Self::issue`], valid from then until then; a certificate knows whole seconds.
    ///
    /// # Panics
    /// As [`Self::issue`].
    pub fn issue_for(&self, names: &[&str], from: SystemTime, until: SystemTime) -> Issued {
        let mut parameters = CertificateParams::default();
        parameters
            .distinguished_name
            .push(DnType::CommonName, names[0]);
        parameters.subject_alt_names = names.iter().map(|name| alternative_name(name)).collect();
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        (parameters.not_before, parameters.not_after) = (from.into(), until.into());
        let serial = self.issued.fetch_add(1, Ordering::Relaxed) + 1;
        parameters.serial_number = Some(SerialNumber::from(serial));
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.authority).unwrap();
        let stem: String = names[0]
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let path = |ending| self.folder.path().join(format!("{stem}.{ending}"));
        let issued = Issued {
            cert: path("pem"),
            key: path("key"),
            serial,
        };

        fs::write(&issued.cert, certificate.pem()).unwrap();
        fs::write(&issued.key, key.serialize_pem()).unwrap();
        fs::set_permissions(&issued.key, fs::Permissions::from_mode(0o600)).unwrap();

        issued
    }

    /// Writes a list that revokes these certificates, and is to be renewed within this many days, in place of the one before.
    ///
    /// # Panics
    /// When the list cannot be made.
    pub fn revoke(&self, certificates: &[&Issued], next: SystemTime) -> PathBuf {
        let serials = certificates
            .iter()
            .map(|issued| SerialNumber::from(issued.serial));
        self.list(serials.collect(), next)
    }

    /// The same of `count` certificates that were never issued, with serial numbers of 16 bytes that begin with `first`.
    ///
    /// # Panics
    /// When the list cannot be made.
    pub fn revoke_many(&self, count: u64, first: u8, next: SystemTime) -> PathBuf {
        let serial = |number: u64| {
            let mut bytes = vec![first; 8];
            bytes.extend(number.to_be_bytes());
            SerialNumber::from(bytes)
        };
        self.list((0..count).map(serial).collect(), next)
    }

    fn list(&self, serials: Vec<SerialNumber>, next: SystemTime) -> PathBuf {
        let day = Duration::from_secs(24 * 60 * 60);
        let revoked = |serial_number| RevokedCertParams {
            serial_number,
            revocation_time: (SystemTime::now() - day).into(),
            reason_code: None,
            invalidity_date: None,
        };

        let list = CertificateRevocationListParams {
            this_update: (SystemTime::now() - 30 * day).into(),
            next_update: next.into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.into_iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };

        let file = self.folder.path().join("crl.pem");
        fs::write(
            &file,
            list.signed_by(&self.authority).unwrap().pem().unwrap(),
        )
        .unwrap();

        file
    }

    /// Client side of TLS that believes this authority and shows `own`, with these versions and a memory of sessions.
    ///
    /// # Panics
    /// When a file cannot be read.
    pub fn client(
        &self,
        own: Option<&Issued>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.ca()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap();
        let builder = builder.with_root_certificates(roots);

        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = CertificateDer::pem_file_iter(&own.cert)
                    .unwrap()
                    .map(Result::unwrap)
                    .collect();
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&own.key).unwrap())
                    .unwrap()
            }
        })
    }

    /// Server side of TLS with a certificate for these names.
    ///
    /// # Panics
    /// As [`Self::issue`].
    pub fn server(&self, names: &[&str], alpn: &[&str]) -> Arc<ServerConfig> {
        let issued = self.issue(names);
        let certificates = CertificateDer::pem_file_iter(&issued.cert)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());

        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .unwrap();

        config.alpn_protocols = alpn
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();

        Arc::new(config)
    }
}

impl Issued {
    /// `cert_file: ..., key_file: ...`, as a file's `tls` says it.
    pub fn yaml(&self) -> String {
        format!(
            "cert_file: {}, key_file: {}",
            self.cert.display(),
            self.key.display()
        )
    }
}

fn alternative_name(name: &str) -> SanType {
    if let Ok(address) = name.parse() {
        SanType::IpAddress(address)
    } else if name.contains("://") {
        SanType::URI(name.try_into().unwrap())
    } else if name.contains('@') {
        SanType::Rfc822Name(name.try_into().unwrap())
    } else {
        SanType::DnsName(name.try_into().unwrap())
    }
}
