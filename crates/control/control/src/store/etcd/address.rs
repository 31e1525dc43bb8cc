//! Where an etcd is: `etcd://h1:2379,h2:2379/OVERLAY`, and the files of TLS.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use hermes_api::Name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::connection::Endpoint;
use crate::store::StoreError;

/// Servers of one etcd that are named at most.
#[doc(alias = "bound")]
const ENDPOINTS: usize = 16;

/// The servers of an etcd, and the overlay in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) overlay: Name,
}

/// Files in PEM by which a controller and etcd believe each other.
#[derive(Debug, Clone)]
pub struct EtcdTls {
    /// Authorities of etcd's servers.
    pub authorities: PathBuf,
    /// The controller's certificates and its key; `None` where etcd wants none.
    pub identity: Option<EtcdIdentity>,
}

/// A controller towards etcd.
#[derive(Debug, Clone)]
pub struct EtcdIdentity {
    /// Its certificates.
    pub certificates: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl EtcdAddress {
    /// The overlay in it.
    pub fn overlay(&self) -> &Name {
        &self.overlay
    }

    /// Whether all its servers are on this machine.
    pub fn is_local(&self) -> bool {
        let is_local = |endpoint: &Endpoint| match endpoint.host.parse::<std::net::IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => endpoint.host == "localhost",
        };
        self.endpoints.iter().all(is_local)
    }
}

impl FromStr for EtcdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            |reason: &str| format!("{text:?}: {reason}; write etcd://HOST:2379,HOST:2379/OVERLAY");
        let rest = text.strip_prefix("etcd://");
        let rest = rest.ok_or_else(|| bad("it does not begin with etcd://"))?;
        let (servers, overlay) = rest
            .split_once('/')
            .ok_or_else(|| bad("it names no overlay"))?;
        let overlay = overlay
            .parse()
            .map_err(|error: hermes_api::BadName| bad(&error.to_string()))?;
        let endpoints: Option<Vec<_>> = servers.split(',').map(endpoint).collect();
        let endpoints = endpoints.ok_or_else(|| bad("a server is no host and port"))?;
        if endpoints.len() > ENDPOINTS {
            return Err(bad(&format!("it names more than {ENDPOINTS} servers")));
        }
        Ok(Self { endpoints, overlay })
    }
}

fn endpoint(text: &str) -> Option<Endpoint> {
    let authority: http::uri::Authority = text.parse().ok()?;
    let host = authority.host();
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    // An authority may have a user before the host, which etcd would never be told.
    let is_plain = !host.is_empty() && !text.contains('@');
    is_plain.then(|| {
        Some(Endpoint {
            host: host.to_owned(),
            port: authority.port_u16()?,
        })
    })?
}

impl EtcdTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read, or holds none of what it should.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, StoreError> {
        let failed = |path: &PathBuf, error: &dyn std::fmt::Display| {
            StoreError::new(format!("{}: {error}", path.display()))
        };
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.authorities)? {
            roots
                .add(authority)
                .map_err(|error| failed(&self.authorities, &error))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreError::new(error.to_string()))?
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_file(&identity.key)
                    .map_err(|error| failed(&identity.key, &error))?;
                config
                    .with_client_auth_cert(certificates(&identity.certificates)?, key)
                    .map_err(|error| failed(&identity.certificates, &error))?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let failed =
        |error: &dyn std::fmt::Display| StoreError::new(format!("{}: {error}", path.display()));
    let read = CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
    let read: Result<Vec<_>, _> = read.collect();
    let read = read.map_err(|error| failed(&error))?;
    match read.is_empty() {
        true => Err(failed(&"it has no certificate in PEM")),
        false => Ok(read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_servers_and_an_overlay() {
        let address: EtcdAddress = "etcd://h1:2379,[::1]:1/office".parse().unwrap();
        let shown: Vec<_> = address.endpoints.iter().map(Endpoint::to_string).collect();
        assert_eq!(shown, ["h1:2379", "[::1]:1"]);
        assert_eq!(address.overlay().as_str(), "office");
        for text in [
            "etcd://h1:2379",
            "etcd:///office",
            "etcd://h1/office",
            "etcd://h1:2379,/office",
            "etcd://user@h1:2379/office",
            "etcd://h1:2379/Two Words",
            "http://h1:2379/office",
        ] {
            assert!(text.parse::<EtcdAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_servers_on_this_machine_are_local() {
        let is_local = |text: &str| text.parse::<EtcdAddress>().unwrap().is_local();
        assert!(is_local("etcd://127.0.0.1:1,[::1]:1,localhost:1/o"));
        assert!(!is_local("etcd://127.0.0.1:1,10.0.0.1:1/o"));
    }
}
