//! Certificates that an authority issues by itself (ACME, RFC 8555).

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_source::DataSource;
use super::scalar::FilePath;

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// A certificate that the node obtains and renews itself, from an authority that speaks ACME (RFC 8555).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acme {
    /// Names that the certificate is for, each of which leads to this node. No wildcards: the authority asks the node itself.
    #[schemars(length(min = 1, max = 100))]
    pub domains: Vec<String>,
    /// Folder for the account and the certificate. It belongs to the node's user, and no one else
    /// may write to it; it is made if missing.
    pub folder: FilePath,
    /// `true`: the operator has read the authority's terms of service and agrees to them. Without it nothing is asked for.
    #[serde(default)]
    pub terms_agreed: bool,
    /// Address that the authority may write to. Default: none.
    #[serde(default)]
    pub email: Option<String>,
    /// URL of the authority's directory. Default: that of Let's Encrypt.
    #[serde(default)]
    pub directory: Option<String>,
    /// PEM authorities of the directory's own certificate. Default: the system's.
    #[serde(default)]
    pub ca_file: Option<DataSource>,
    /// An existing account of the operator at the authority, to bind this one to. Default: none.
    #[serde(default)]
    pub external_account: Option<AcmeExternalAccount>,
    /// How the authority finds out that the names lead here. Default: tls-alpn-01.
    #[serde(default)]
    pub challenge: AcmeChallenge,
}

/// An account at the authority that is not one of ACME (RFC 8555 section 7.3.4).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcmeExternalAccount {
    /// The name of its key at the authority.
    pub id: String,
    /// File with the key as the authority shows it, in the alphabet of base64url.
    pub key_file: DataSource,
}

/// How an authority finds out that a name leads to this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AcmeChallenge {
    /// The authority asks an `http` listener without TLS, at port 80 of the name (RFC 8555 section
    /// 8.3).
    #[serde(rename = "http-01")]
    Http01,
    /// The authority makes a TLS handshake with this listener, at port 443 of the name (RFC 8737).
    #[default]
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl Acme {
    /// URL of the authority's directory.
    pub fn directory(&self) -> &str {
        self.directory.as_deref().unwrap_or(LETS_ENCRYPT)
    }

    /// The file of the certificate, its issuers and its key: named after the first domain.
    pub fn certificate_file(&self) -> PathBuf {
        let first = self.domains.first().map_or("", String::as_str);
        self.folder.0.join(format!("{first}.pem"))
    }
}
