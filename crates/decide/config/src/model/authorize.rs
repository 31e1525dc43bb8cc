//! External authorisation: who is asked about an exchange before its route is chosen.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Duration, FieldPattern, HttpUrl, OneOrMany};
use super::{
    ClientTls, Endpoint, EndpointAddress, HttpVersion, Match, PlugUse, Rego, TlsChoice, Upstream,
};

/// An authorisation server that is asked over HTTP, a policy that is evaluated here, or a filter
/// that is part of the program. Those with a matching `match` are asked, one after the other.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Authorize {
    /// Name in records, metrics and reasons.
    pub name: String,
    /// Which protocol the server speaks.
    #[serde(default)]
    pub kind: AuthorizeKind,
    /// A filter of this name, which is part of the program, decides instead of a server; `{ NAME: {..} }` with settings.
    #[serde(default)]
    pub filter: Option<PlugUse>,
    /// A policy in Rego decides instead of a server.
    #[serde(default)]
    pub rego: Option<Rego>,
    /// The upstream that is asked. This, `url`, `rego` or `filter` is required.
    #[serde(default)]
    pub upstream: Option<String>,
    /// The server that is asked, in a line: `http://127.0.0.1:9191/check`. Its path counts as `path`.
    #[serde(default)]
    pub url: Option<HttpUrl>,
    /// TLS to the server of an `https` url: trusted authorities and own certificate. Default: the
    /// system's authorities.
    #[serde(default)]
    pub tls: Option<ClientTls>,
    /// `http`: the prefix of the exchange's path, such as `/check`; default: nothing. `opa`: the
    /// decision, such as `/v1/data/overlay/allow`; required.
    #[serde(default)]
    pub path: Option<String>,
    /// Exchanges about which the server is asked. Default: all.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// Until the whole answer is here, with the wait for a free place. Default: 200ms.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// Without an answer. Default: closed, the exchange is refused.
    #[serde(default)]
    pub fail: Fail,
    /// Fields of the exchange that the server sees. A star never means credentials: write those in
    /// full. With `proxy-authorization` the server sees the credentials that were shown to this
    /// node. Default: none.
    #[serde(default)]
    pub send: Vec<FieldPattern>,
    /// `http` only: ask with POST and a JSON body that says all that is known of the exchange.
    #[serde(default)]
    pub body: AuthorizeBody,
    /// Fields of the answer that the exchange takes over. Its own fields of these names are
    /// removed. Default: none.
    #[serde(default)]
    pub allow_fields: Vec<FieldPattern>,
    /// Remember answers. Default: every exchange is asked about.
    #[serde(default)]
    pub cache: Option<AuthorizeCache>,
    /// How long a decision on an open tunnel counts where the answer does not say; then the server is asked again. Default:
    /// until the configuration changes.
    #[serde(default)]
    pub recheck: Option<Duration>,
    /// How long an open tunnel about which the server is asked again goes on without an answer. Default: 30s.
    #[serde(default)]
    pub grace: Option<Duration>,
    /// Questions at once. Default: 256.
    #[serde(default)]
    pub concurrency: Option<NonZeroUsize>,
}

impl Authorize {
    /// The name of the upstream that is asked; for a `url` one that no upstream of the file can have.
    pub fn asked(&self) -> String {
        self.upstream
            .clone()
            .unwrap_or_else(|| format!("authorize {}", self.name))
    }

    /// The upstream that a `url` means.
    pub fn own_upstream(&self) -> Option<Upstream> {
        let url = self.url.as_ref()?;
        let endpoints = vec![Endpoint::Address(EndpointAddress::Tcp(url.address.clone()))];
        let tls = self
            .tls
            .clone()
            .map_or(TlsChoice::Switch(true), TlsChoice::Details);

        Some(Upstream {
            endpoints,
            // gRPC is spoken over HTTP/2, also without TLS.
            http: (self.kind == AuthorizeKind::Grpc).then(|| OneOrMany(vec![HttpVersion::H2])),
            tls: url.tls.then_some(tls),
            ..Upstream::default()
        })
    }

    /// The path, from wherever it was written.
    pub fn path(&self) -> Option<&str> {
        let of_url = self
            .url
            .as_ref()
            .map(|url| url.path.as_str())
            .filter(|path| !path.is_empty());
        self.path.as_deref().or(of_url)
    }
}

/// The protocol of an authorisation server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthorizeKind {
    /// The server sees method and path of the exchange; 200 allows it, any other answer is the client's.
    #[default]
    Http,
    /// The data API of Open Policy Agent.
    Opa,
    /// `Check` of Envoy's external authorisation, version 3, over gRPC.
    Grpc,
}

/// The fate of an exchange without a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fail {
    /// The exchange is refused with 503.
    #[default]
    Closed,
    /// The exchange goes on, without fields from the server.
    Open,
}

/// The content of a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthorizeBody {
    /// None.
    #[default]
    None,
    /// A JSON object.
    Json,
}

/// Answers that are remembered; an answer counts for equal questions only.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthorizeCache {
    /// How long an answer counts.
    #[serde(rename = "for")]
    pub time: Duration,
    /// Answers at most; the oldest goes first. Default: 10000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub entries: Option<usize>,
}
