//! Certificates for one run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Name in the origin's certificate, and the host of the target that speaks TLS.
pub const ORIGIN: &str = "tls.lab";
/// Name in the proxies' certificate.
pub const PROXY: &str = "proxy.lab";

/// A folder with an authority's certificate and what it has issued.
#[derive(Debug, Clone)]
pub struct Pki {
    folder: PathBuf,
}

impl Pki {
    /// Makes an authority and certificates for [`ORIGIN`] and [`PROXY`], both on this machine, in `folder`.
    ///
    /// # Errors
    /// When keys or files cannot be made.
    pub fn create(folder: &Path) -> Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters
            .distinguished_name
            .push(DnType::CommonName, "Lab authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        fs::write(folder.join("ca.pem"), authority.pem())?;

        for name in [ORIGIN, PROXY] {
            let mut parameters = CertificateParams::new([name.to_owned(), "127.0.0.1".to_owned()])?;
            parameters.use_authority_key_identifier_extension = true;
            parameters.extended_key_usages = vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ];
            let key = KeyPair::generate()?;
            fs::write(
                folder.join(format!("{name}.pem")),
                parameters.signed_by(&key, &authority)?.pem(),
            )?;
            let file = folder.join(format!("{name}.key"));
            fs::write(&file, key.serialize_pem())?;
            fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        }

        Ok(Self::open(folder))
    }

    /// A folder that [`Self::create`] has filled.
    pub fn open(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The certificate for a name.
    pub fn cert(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pem"))
    }

    /// The key of [`Self::cert`].
    pub fn key(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.key"))
    }

    /// The origin's side of TLS.
    ///
    /// # Errors
    /// When the files are not there.
    pub fn server(&self) -> Result<Arc<ServerConfig>> {
        let chain = CertificateDer::pem_file_iter(self.cert(ORIGIN))?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(self.key(ORIGIN))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;

        Ok(Arc::new(
            config.with_no_client_auth().with_single_cert(chain, key)?,
        ))
    }

    /// The client's side of TLS. It resumes no session: each connection is a client that was not here before.
    ///
    /// # Errors
    /// When the authority's file is not there.
    pub fn client(&self) -> Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.ca())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();

        Ok(Arc::new(config))
    }
}
