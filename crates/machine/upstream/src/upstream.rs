//! A configured group of endpoints.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_config::model::{
    self, Chain, CongestionControl, EndpointAddress, FieldCase, HttpVersion, ProxyProtocolVersion,
};
use hermes_config::{Problem, child};
use hermes_http::h1::client::Receiver;
use hermes_http::{Kind, RequestHead};
use hermes_net::quic::Record;
use hermes_net::{clock, tls};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_protocol::Version;
use hermes_proto::uri_template::UriTemplate;
use http::StatusCode;
use humantime::format_rfc3339_seconds;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::choice::{Choice, panics};
use crate::ejector::Ejector;
use crate::endpoint::Endpoint;
use crate::limits::Limits;
use crate::link_policy::LinkPolicy;
use crate::request_fields::RequestFields;
use crate::ring::Affinity;
use crate::security::{self, Security};
use crate::socks_hop::SocksHop;
use crate::tunnel_sizes::TunnelSizes;
use crate::{EndpointStatus, HopStatus, Timeouts, UpstreamStatus};

/// A group of endpoints that do the same work: its configuration, and the endpoints' history.
/// Shared by all workers.
#[derive(Debug)]
pub struct Upstream {
    pub(crate) id: u64,
    name: Arc<str>,
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    pub(crate) versions: Vec<HttpVersion>,
    pub(crate) security: Option<Security>,
    pub(crate) choice: Choice,
    pub(crate) limits: Limits,
    pub(crate) links: LinkPolicy,
    timeouts: Timeouts,
    experience: Experience,
    requests: RequestPolicy,
    /// The configuration, also for [`Self::same`].
    source: Source,
}

/// The contents of requests to an upstream that its configuration decides.
#[derive(Debug)]
struct RequestPolicy {
    /// Whether the node's token is shown to it.
    sends_token: bool,
    /// The fields of every request.
    fields: RequestFields,
    /// The templates of CONNECT-UDP and of connect-tcp, where they are not the default ones.
    templates: [Option<UriTemplate>; 2],
    /// How it is asked for tunnels, if it speaks SOCKS.
    socks: Option<SocksHop>,
}

impl RequestPolicy {
    fn build(name: &str, config: &model::Upstream) -> Result<Self, Problem> {
        Ok(Self {
            templates: templates(name, config)?,
            fields: RequestFields::build(name, config)?,
            sends_token: sends_token(config),
            socks: SocksHop::build(name, config)?,
        })
    }
}

/// The experience of exchanges through an upstream, beside that of its endpoints.
#[derive(Debug, Default)]
struct Experience {
    budget: Budget,
    tunnel_sizes: TunnelSizes,
}

impl Upstream {
    /// Makes the upstream `name`; reads its TLS files, asks no name of DNS.
    ///
    /// # Errors
    /// A problem of the configuration, with its path.
    pub fn build(name: &str, config: &model::Upstream) -> Result<Arc<Self>, Problem> {
        Self::build_in(None, name, config)
    }

    /// As [`Self::build`], for a node in this zone.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn build_in(
        zone: Option<&str>,
        name: &str,
        config: &model::Upstream,
    ) -> Result<Arc<Self>, Problem> {
        Self::build_recorded(zone, name, config, &Record::default())
    }

    /// As [`Self::build_in`], with a record of its QUIC connections.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn build_recorded(
        zone: Option<&str>,
        name: &str,
        config: &model::Upstream,
        record: &Record,
    ) -> Result<Arc<Self>, Problem> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let versions = versions(config);
        check(name, config, &versions)?;

        // Before the files are used: one that changes meanwhile counts as changed.
        let source = source(config);
        let requests = RequestPolicy::build(name, config)?;
        let security = Security::build(name, config, &versions, record)?;
        let ejector = config
            .eject
            .as_ref()
            .map(|eject| Arc::new(Ejector::new(eject, config.endpoints.len())));
        let (upstream, count): (Arc<str>, _) = (name.into(), config.endpoints.len());
        let endpoint =
            |endpoint| Arc::new(Endpoint::new(endpoint, ejector.clone(), &upstream, count));
        let endpoints: Vec<_> = config.endpoints.iter().map(endpoint).collect();

        Ok(Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: upstream,
            choice: Choice::new(zone, config, &endpoints),
            endpoints,
            versions,
            security,
            limits: Limits::new(&config.limits),
            links: LinkPolicy::new(config),
            timeouts: Timeouts::default().overlaid(&config.timeouts),
            experience: Experience::default(),
            requests,
            source,
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name, shared.
    pub fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its time-outs, defaults filled in.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// The budget of its retries.
    pub fn budget(&self) -> &Budget {
        &self.experience.budget
    }

    /// The template by which its endpoints are asked for tunnels of this kind, where it is not the default one.
    pub fn template(&self, kind: Kind) -> Option<&UriTemplate> {
        let [udp, tcp] = &self.requests.templates;
        match kind {
            Kind::ConnectUdp => udp.as_ref(),
            Kind::ConnectTcp => tcp.as_ref(),
            Kind::Message | Kind::Connect | Kind::ConnectIp | Kind::Upgrade => None,
        }
    }

    /// Whether it has an endpoint that is not among `tried`, which are named as they are
    /// configured.
    #[must_use]
    pub fn has_endpoint_beside(&self, tried: &[Arc<str>]) -> bool {
        self.endpoints
            .iter()
            .any(|endpoint| !tried.contains(&endpoint.text))
    }

    /// The upstream through which its endpoints are reached, if there is one.
    pub(crate) fn via(&self) -> Option<&str> {
        self.source.config.via.as_deref()
    }

    /// How it is asked for tunnels, if it speaks SOCKS.
    pub(crate) fn socks(&self) -> Option<&SocksHop> {
        self.requests.socks.as_ref()
    }

    /// Whether its endpoints are proxies that speak SOCKS and no HTTP.
    pub fn is_socks(&self) -> bool {
        self.socks().is_some()
    }

    /// The active checks of its endpoints, if there are any.
    pub(crate) fn health_checks(&self) -> Option<&model::Health> {
        self.source.config.health.as_ref()
    }

    /// The PROXY header that connections to it begin with.
    pub(crate) fn proxy_header(&self) -> Option<Version> {
        match self.source.config.proxy_protocol? {
            ProxyProtocolVersion::V1 => Some(Version::V1),
            ProxyProtocolVersion::V2 => Some(Version::V2),
        }
    }

    /// The name under which nodes that it stands for are attached to this one; `None` where it has endpoints.
    pub fn attached(&self) -> Option<&model::Template> {
        self.source.config.attached.as_ref()
    }

    /// Whether the certificates that its endpoints show are checked, so that the names in them are theirs.
    pub fn verifies(&self) -> bool {
        let tls = security::details(&self.source.config);
        tls.is_none_or(|details| !details.insecure_skip_verify)
    }

    /// Whether its endpoints are spoken to under TLS.
    pub fn is_tls(&self) -> bool {
        self.security.is_some()
    }

    /// Whether the node's token is shown to it: as configured, or else under TLS or where every endpoint is local.
    pub fn sends_token(&self) -> bool {
        self.requests.sends_token
    }

    /// Whether it is shown credentials of its own.
    pub fn has_credentials(&self) -> bool {
        self.requests.fields.has_credentials()
    }

    /// The credentials that a proxy's 407 asks the configuration for; `None` for other answers.
    /// `has_token`: whether this node has a token.
    pub fn wanted_credentials(&self, status: StatusCode, has_token: bool) -> Option<String> {
        if status != StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            return None;
        }
        let path = child("upstreams", Chain::last_of(&self.name));
        Some(if self.has_credentials() {
            format!("it does not accept `{path}.credentials`")
        } else if self.requests.sends_token && has_token {
            "it does not accept the token of this node".to_owned()
        } else {
            format!("it wants credentials: write `{path}.credentials`")
        })
    }

    /// A request as it is sent there: with its credentials and the fields that are configured, if there are any.
    pub fn addressed<'a>(&self, head: &'a RequestHead, receiver: Receiver) -> Cow<'a, RequestHead> {
        if self.requests.fields.is_empty() {
            return Cow::Borrowed(head);
        }
        let mut head = head.clone();
        self.add_fields(&mut head.fields, receiver);
        Cow::Owned(head)
    }

    /// Whether names of fields leave as they were spelled when they came.
    pub fn preserves_case(&self) -> bool {
        self.source.config.field_case == FieldCase::Preserve
    }

    /// Writes the fields of every request to it: its credentials, and the configured fields.
    pub fn add_fields(&self, fields: &mut Fields, receiver: Receiver) {
        self.requests.fields.write(fields, receiver);
    }

    /// Whether `config`, and the files it names, would make the same upstream again.
    pub fn same(&self, config: &model::Upstream) -> bool {
        self.source == source(config)
    }

    /// As [`Self::same`], for a node in this zone.
    pub fn same_in(&self, zone: Option<&str>, config: &model::Upstream) -> bool {
        self.choice.zone() == zone && self.same(config)
    }

    /// The key that keeps exchanges together; `None` if they are not.
    pub fn hash(&self) -> Option<&model::Hash> {
        self.choice.hash()
    }

    /// Its status.
    pub fn status(&self) -> UpstreamStatus {
        let now = clock::now();
        UpstreamStatus {
            name: self.name.to_string(),
            http: self
                .versions
                .iter()
                .copied()
                .map(HttpVersion::number)
                .collect(),
            tls: self.security.is_some(),
            congestion: self.congestion(),
            via: self.via().map(str::to_owned),
            attached: self.attached().map(ToString::to_string),
            endpoints: self
                .endpoints
                .iter()
                .map(|endpoint| self.endpoint_status(endpoint, now))
                .collect(),
            panics: self.endpoints.len() > 1 && panics(&self.endpoints, now),
            waiting: self.limits.waiting(),
            refused: self.limits.refused(),
        }
    }

    /// The name of the congestion control, unless it is the system's: QUIC has one of ours where none is configured.
    fn congestion(&self) -> Option<&'static str> {
        let speaks_h3 = self.versions.contains(&HttpVersion::H3);
        let default = speaks_h3.then_some(CongestionControl::Cubic);
        self.links
            .congestion
            .or(default)
            .map(CongestionControl::name)
    }

    fn endpoint_status(&self, endpoint: &Endpoint, now: Instant) -> EndpointStatus {
        let version = endpoint.hop.version();
        let speaks_h3 = self.versions.contains(&HttpVersion::H3);
        let (health, reason) = endpoint.health(now);

        EndpointStatus {
            address: endpoint.text.to_string(),
            weight: endpoint.weight,
            zone: endpoint.zone().map(str::to_owned),
            health,
            reason,
            addresses: endpoint
                .addresses
                .as_ref()
                .map_or_else(Vec::new, |addresses| addresses.known()),
            active: endpoint.active(),
            failures: endpoint.failures(),
            last_error: endpoint.last_error(),
            http: version.as_ref().map(|version| version.number),
            http_since: version
                .as_ref()
                .map(|version| format_rfc3339_seconds(version.since).to_string()),
            http_because: version.map(|version| version.because),
            round_trip_ms: endpoint.hop.round_trip_ms(),
            http3: speaks_h3.then(|| endpoint.quic.words(now)),
            http3_again_in_seconds: endpoint
                .quic
                .rest(now)
                .filter(|_| speaks_h3)
                .map(|rest| rest.as_secs() + 1),
        }
    }

    /// Milliseconds of a round trip to the endpoint of this text, as [`HopStatus`] has them; asks no system for them.
    pub fn round_trip_ms(&self, endpoint: &Arc<str>) -> Option<f64> {
        let mut endpoints = self.endpoints.iter();
        let found = endpoints.find(|one| one.text == *endpoint);
        found?.hop.round_trip_ms()
    }

    /// How its endpoints were reached, as hops of a chain.
    pub fn hops(&self) -> Vec<HopStatus> {
        let now = clock::now();
        let behind = self.via().is_some();
        let status = |endpoint: &Arc<Endpoint>| {
            let quic = self
                .versions
                .contains(&HttpVersion::H3)
                .then(|| endpoint.quic.words(now));
            endpoint
                .hop
                .status(&self.name, &endpoint.text, behind, quic)
        };

        self.endpoints.iter().map(status).collect()
    }

    /// The endpoint to try next; `None` when all were `tried`.
    pub(crate) fn pick(&self, tried: &[usize], affinity: Option<Affinity>) -> Option<usize> {
        self.choice.pick(&self.endpoints, tried, affinity)
    }

    /// Whether HTTP/3 is preferred, and another version will do.
    pub(crate) fn prefers_h3(&self) -> bool {
        matches!(self.versions.as_slice(), [HttpVersion::H3, _, ..])
    }

    /// Whether it speaks HTTP/1.1.
    pub(crate) fn speaks_h1(&self) -> bool {
        self.versions.contains(&HttpVersion::H1)
    }

    /// The sizes of its tunnels, if large ones get connections of their own: without TLS, or with
    /// TLS that the kernel can carry, over HTTP/2 and, for large ones, over HTTP/1.1, whose tunnels
    /// the kernel carries.
    pub fn bulk_goes_alone(&self) -> Option<&TunnelSizes> {
        let is_carried = self.security.is_none() || tls::kernel_carries();
        let both = is_carried && self.may_share() && self.speaks_h1();
        both.then_some(&self.experience.tunnel_sizes)
    }

    /// Whether half of the connections that may be open are free, so that a further one is in no one's way.
    pub fn has_spare_connections(&self) -> bool {
        self.limits.has_spare_connections()
    }

    /// Whether a connection to it may turn out to be a link that exchanges share.
    pub fn may_share(&self) -> bool {
        match self.security {
            Some(_) => self
                .versions
                .iter()
                .any(|version| *version != HttpVersion::H1),
            None => self.versions.first() == Some(&HttpVersion::H2),
        }
    }
}

fn versions(config: &model::Upstream) -> Vec<HttpVersion> {
    match &config.http {
        None if config.attached.is_some() => vec![HttpVersion::H2],
        Some(versions) => versions.0.clone(),
        None if security::details(config).is_some() => vec![HttpVersion::H2, HttpVersion::H1],
        None => vec![HttpVersion::H1],
    }
}

fn check(name: &str, config: &model::Upstream, versions: &[HttpVersion]) -> Result<(), Problem> {
    let wrong = |key: &str, reason| Problem::new(format!("upstreams.{name}.{key}"), reason);

    if config.endpoints.is_empty() && config.attached.is_none() {
        let wrong = wrong("endpoints", "there is no endpoint");
        return Err(wrong.remedy("write at least one host:port"));
    }

    if versions.is_empty() {
        return Err(wrong("http", "there is no HTTP version").remedy("write 1, 2 or [2, 1]"));
    }

    let is_unix = |address: &EndpointAddress| matches!(address, EndpointAddress::Unix(_));
    match config
        .endpoints
        .iter()
        .map(model::Endpoint::address)
        .position(is_unix)
    {
        Some(index) if config.via.is_some() => {
            let reason = "a Unix socket cannot be reached through another proxy";
            Err(wrong(&format!("endpoints[{index}]"), reason)
                .remedy("remove `via`, or name a host and port"))
        }
        _ => Ok(()),
    }
}

fn templates(name: &str, config: &model::Upstream) -> Result<[Option<UriTemplate>; 2], Problem> {
    let parse = |key: &str, text: Option<&String>| {
        text.map(|text| UriTemplate::parse(text))
            .transpose()
            .map_err(|mistake| {
                let path = format!("upstreams.{name}.templates.{key}");
                Problem::new(path, mistake.to_string()).remedy(mistake.remedy())
            })
    };

    let Some(templates) = &config.templates else {
        return Ok([None, None]);
    };
    Ok([
        parse("udp", templates.udp.as_ref())?,
        parse("tcp", templates.tcp.as_ref())?,
    ])
}

fn sends_token(config: &model::Upstream) -> bool {
    let is_local = |endpoint: &model::Endpoint| match endpoint.address() {
        EndpointAddress::Unix(_) => true,
        EndpointAddress::Tcp(place) => match place.host.parse::<std::net::IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => is_localhost(&place.host),
        },
    };

    // An address local to another proxy is not local to us.
    let all_local =
        config.attached.is_none() && config.via.is_none() && config.endpoints.iter().all(is_local);
    // A request has one line of credentials (RFC 9110, 11.7.2).
    let default = all_local || security::details(config).is_some();
    config.credentials.is_none() && config.send_token.unwrap_or(default)
}

/// RFC 6761, 6.3: `localhost` and everything below it is this machine.
fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// The sources that an upstream is built from.
#[derive(Debug, PartialEq)]
struct Source {
    config: model::Upstream,
    /// A digest of the files that it names.
    files: u64,
}

/// Retries and hedges are decided elsewhere: a change of them keeps the connections.
fn source(config: &model::Upstream) -> Source {
    let config = model::Upstream {
        retry: None,
        hedge: None,
        ..config.clone()
    };
    Source {
        files: security::fingerprint(&config),
        config,
    }
}
