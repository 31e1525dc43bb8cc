//! TLS to an upstream's endpoints: made once, from files, when the upstream is built.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use hermes_config::Problem;
use hermes_config::model::{
    self, ClientTls, CongestionControl, EndpointAddress, HttpVersion, TlsChoice,
};
use hermes_net::quic::{self, Congestion};
use hermes_net::read_at_most;
use hermes_net::tls::{self, ClientOptions, RevocationsInForce};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::link_policy::LinkPolicy;
use crate::tls_files::{client_problem, client_tls};

/// The settings for TLS to any endpoint of an upstream.
#[derive(Debug)]
pub(crate) struct Security {
    /// Offers the HTTP versions of the upstream (RFC 7301).
    pub(crate) http: Arc<ClientConfig>,
    /// Offers HTTP/1.1 alone.
    pub(crate) h1: Arc<ClientConfig>,
    /// Offers no application protocol: the content is not ours.
    pub(crate) bare: Arc<ClientConfig>,
    /// Offers HTTP/3, if the upstream speaks that.
    pub(crate) quic: Option<quic::ClientConfig>,
    /// For SNI and the certificate, where it is not the endpoint's host.
    pub(crate) server_name: Option<String>,
    /// Connections do not keep the lists themselves.
    _revocations: RevocationsInForce,
}

impl Security {
    /// The upstream's TLS; `None` without TLS.
    pub(crate) fn build(
        name: &str,
        config: &model::Upstream,
        versions: &[HttpVersion],
        record: &quic::Record,
    ) -> Result<Option<Self>, Problem> {
        let Some(details) = details(config) else {
            return Ok(None);
        };
        // QUIC has an ALPN of its own: `h3` is not offered over TCP (RFC 9114, 3.2).
        let over_tcp = versions
            .iter()
            .copied()
            .filter(|version| *version != HttpVersion::H3);
        let alpn: Vec<&[u8]> = over_tcp.map(protocol).collect();
        let path = format!("upstreams.{name}.tls");
        let http = client_tls(&path, &details, &alpn)?;
        let quic = versions.contains(&HttpVersion::H3);
        let quic = quic.then(|| quic::ClientConfig::new(&http, config.early_data, record.clone()));
        let quic = quic
            .transpose()
            .map_err(|error| client_problem(&path, error))?;
        let quic = quic.map(|quic| kept(quic, &LinkPolicy::new(config)));

        let security = Self {
            h1: h1_only(&http),
            bare: without_protocols(&http),
            http: http.config(),
            _revocations: http.revocations(),
            quic,
            server_name: details.server_name.clone(),
        };

        security.check_names(&path, config, &details)?;
        Ok(Some(security))
    }

    /// Every endpoint must have a name that its certificate can be checked against.
    fn check_names(
        &self,
        path: &str,
        config: &model::Upstream,
        details: &ClientTls,
    ) -> Result<(), Problem> {
        for endpoint in &config.endpoints {
            let host = self.server_name(endpoint.server_name(), endpoint.address());
            let nameless = matches!(endpoint.address(), EndpointAddress::Unix(_))
                && self.server_name.is_none()
                && endpoint.server_name().is_none();
            if ServerName::try_from(host).is_err() || (nameless && !details.insecure_skip_verify) {
                let address = endpoint.address();
                let reason = format!("`{address}` has no name to check a certificate against");
                return Err(Problem::new(path, reason).remedy("set tls.server_name"));
            }
        }
        Ok(())
    }

    /// The name to ask an endpoint for, which may have one of its `own`.
    pub(crate) fn server_name<'a>(
        &'a self,
        own: Option<&'a str>,
        address: &'a EndpointAddress,
    ) -> &'a str {
        match (own.or(self.server_name.as_deref()), address) {
            (Some(name), _) => name,
            (None, EndpointAddress::Tcp(place)) => place.zoned().0,
            (None, EndpointAddress::Unix(_)) => "localhost",
        }
    }
}

/// Keeps connections of QUIC as the upstream says.
fn kept(quic: quic::ClientConfig, policy: &LinkPolicy) -> quic::ClientConfig {
    let quic = match policy.keepalive {
        Some(keepalive) => quic.kept_alive(keepalive.every),
        None => quic,
    };
    match policy.congestion {
        Some(CongestionControl::Off) => quic.controlled(Congestion::Off),
        Some(CongestionControl::Bbr) => quic.controlled(Congestion::Bbr),
        Some(CongestionControl::Cubic) | None => quic,
    }
}

/// The configured TLS; `None` without TLS.
pub(crate) fn details(config: &model::Upstream) -> Option<ClientTls> {
    match &config.tls {
        None | Some(TlsChoice::Switch(false)) => None,
        Some(TlsChoice::Switch(true)) => Some(ClientTls::default()),
        Some(TlsChoice::Details(details)) => Some(details.clone()),
    }
}

/// Changes when the content of any of the files changes, or the system's authorities where they count; for noticing renewed certificates.
pub(crate) fn fingerprint(config: &model::Upstream) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(details) = details(config) {
        if details.ca_file.is_none() {
            tls::system_generation().hash(&mut hasher);
        }
        for file in details.sources().filter_map(|(_, source)| source.file()) {
            read(&file.0).hash(&mut hasher);
        }
    }
    for file in config.secrets() {
        read(&file.0).hash(&mut hasher);
    }

    hasher.finish()
}

fn read(file: &Path) -> Option<Vec<u8>> {
    read_at_most(file, tls::FILE_BYTES).ok()
}

/// The system's authorities and both HTTP versions, for origins that requests name.
pub(crate) fn for_origins() -> Result<Arc<ClientConfig>, String> {
    let alpn: &[&[u8]] = &[protocol(HttpVersion::H2), protocol(HttpVersion::H1)];
    let client = tls::client(ClientOptions {
        alpn,
        ..ClientOptions::default()
    });
    client.map(Into::into).map_err(|error| error.to_string())
}

/// A copy that offers HTTP/1.1 alone.
pub(crate) fn h1_only(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut only = config.clone();
    only.alpn_protocols = vec![protocol(HttpVersion::H1).to_vec()];
    Arc::new(only)
}

fn without_protocols(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut bare = config.clone();
    bare.alpn_protocols.clear();
    Arc::new(bare)
}

/// The ALPN identifier of a version.
pub(crate) fn protocol(version: HttpVersion) -> &'static [u8] {
    match version {
        HttpVersion::H1 => b"http/1.1",
        HttpVersion::H2 => b"h2",
        HttpVersion::H3 => quic::ALPN,
    }
}
