//! Routes: conditions on an exchange, changes to it, and its next hop.

use std::fmt;

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attach::AttachAs;
use super::plugs::function_schema;
use super::retry::{Hedge, Retry};
use super::scalar::{
    ByteSize, Duration, FieldPattern, HostPort, OneOrMany, PathMatch, PortMatch, Prefix,
    TargetMatch, Template, TextMatch, UpgradeName, UserMatch,
};
use super::terminate_by::TerminateBy;
use super::tun::{PacketTermination, TerminateIntercept, TerminateIp, TerminateTun};
use super::tunnel::Tunnel;
use super::{AnswerChanges, Bind, Broadcast, Chain, PlugUse, SignedUrls};

/// One route. The first route that matches decides; exactly one of `to`, `terminate`, `attach`, `respond`, `redirect`, `handle`
/// is given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Name in logs and reasons. Default: its position, as `routes[3]`.
    #[serde(default)]
    pub name: Option<String>,
    /// Conditions on the exchange. Default: any exchange.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// Paths of this route are secrets, such as those of channels that no one can guess: records, `top`, `why`, traces and logs show the part that
    /// stands in `match`, and a hash in the place of the rest. Handlers of channels (`relay`) hide theirs anyway. Default: false.
    #[serde(default)]
    pub hide_path: bool,
    /// Requests need a URL that was signed with one of these keys, and whose time is not over. Default: any URL.
    #[serde(default)]
    pub signed: Option<SignedUrls>,
    /// Fields set before the exchange leaves (existing values are replaced).
    #[serde(default)]
    pub set: IndexMap<String, Template>,
    /// Fields appended before the exchange leaves.
    #[serde(default)]
    pub append: IndexMap<String, Template>,
    /// Fields removed before the exchange leaves.
    #[serde(default)]
    pub remove: Vec<FieldPattern>,
    /// Changes to the answer that the client gets, wherever it comes from.
    #[serde(default)]
    pub answer: Option<AnswerChanges>,
    /// Overlay fields that the origin may see. Default: none; `to` always keeps them.
    #[serde(default)]
    pub expose: Vec<FieldPattern>,
    /// Changes to target and path.
    #[serde(default)]
    pub rewrite: Option<Rewrite>,
    /// Time-outs of exchanges that take this route; over those of the upstream.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// When a failed attempt is followed by another; over the `retry` of the upstream, key by key. Default: as the upstream says.
    #[serde(default)]
    pub retry: Option<Retry>,
    /// A second attempt beside a slow one; instead of the upstream's. Default: as the upstream says.
    #[serde(default)]
    pub hedge: Option<Hedge>,
    /// Datagrams kept while a tunnel opens.
    #[serde(default)]
    pub datagrams: Option<Datagrams>,
    /// Copy requests that ask for it to all endpoints.
    #[serde(default)]
    pub broadcast: Option<Broadcast>,
    /// `connect` or `connect-tcp`: tunnels of bytes leave in this form. `post`: they leave as POST, and a POST that takes this
    /// route is one. Default: as they came; those of `tcp` listeners as CONNECT. A map says more, such as `resume: true`.
    #[serde(default)]
    pub tunnel: Option<Tunnel>,
    /// Further protocols that an Upgrade or extended CONNECT on this route may ask for. Default: `websocket`, and those that
    /// Hermes itself speaks.
    #[serde(default)]
    pub upgrades: Vec<UpgradeName>,
    /// Functions on the way of the exchanges of this route, in this order, and in the reverse order on the way back: names of `functions`,
    /// or parts of the program, such as `compress`; `{ NAME: {..} }` with settings; `{ at: NODE, do: [NAME, ..] }` for those of a node
    /// further on, which does those behind it, too. Default: none.
    #[serde(default)]
    #[schemars(schema_with = "function_schema")]
    pub through: Vec<PlugUse>,
    /// Forward to the next proxy: an upstream, a list of 1 to 4 that are passed one inside the other, or a map with weights.
    #[serde(default)]
    pub to: Option<Hops>,
    /// End the overlay here: `true` dials the target, a name dials that upstream's endpoints, `host:port` or `unix:/path` dials
    /// that address; a map with `tun` or `intercept` takes the packets of CONNECT-IP, one with `ip` sends connections and
    /// datagrams as such, and one with `by` has a connector take them.
    #[serde(default)]
    pub terminate: Option<Terminate>,
    /// Let nodes be attached here, to be reached through an upstream with `attached`: `true` under the name of the request's
    /// user, or the names that are allowed.
    #[serde(default)]
    pub attach: Option<AttachAs>,
    /// Take CONNECT-UDP without a target on this route, which has `terminate: true`: sockets for
    /// any peers that the client names, within `egress`; with `tcp`, ports for the connection of a target. Default: they are refused.
    #[serde(default)]
    pub bind: Option<Bind>,
    /// Answer here.
    #[serde(default)]
    pub respond: Option<Respond>,
    /// Send the client elsewhere.
    #[serde(default)]
    pub redirect: Option<Redirect>,
    /// Have requests answered, and tunnels taken, here by a handler of this name, which is part of the program; `{ NAME: {..} }` with
    /// settings.
    #[serde(default)]
    pub handle: Option<PlugUse>,
}

/// The action of a route, once it is known that exactly one is given.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    /// Forward to the next proxy.
    To(&'a Hops),
    /// End the overlay here.
    Terminate(&'a Terminate),
    /// Let the client be attached here.
    Attach(&'a AttachAs),
    /// Answer here.
    Respond(&'a Respond),
    /// Send the client elsewhere.
    Redirect(&'a Redirect),
    /// Have a handler answer.
    Handle(&'a str),
}

impl Route {
    /// The route's action; `None` unless exactly one is given (the loader reports that).
    pub fn action(&self) -> Option<Action<'_>> {
        let actions = [
            self.to.as_ref().map(Action::To),
            self.terminate.as_ref().map(Action::Terminate),
            self.attach.as_ref().map(Action::Attach),
            self.respond.as_ref().map(Action::Respond),
            self.redirect.as_ref().map(Action::Redirect),
            self.handle
                .as_ref()
                .map(|handle| Action::Handle(&handle.name)),
        ];

        let mut given = actions.into_iter().flatten();
        let action = given.next();
        action.filter(|_| given.next().is_none())
    }
}

/// Conditions, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// The kind of exchange: `http`, `connect`, `connect-tcp`, `connect-udp`, `connect-ip`,
    /// `upgrade`.
    #[serde(default)]
    pub kind: Option<OneOrMany<ExchangeKind>>,
    /// Host and, if given, port that the exchange is for: `VIDEO`, `DB:5432`, `*.example.com`, `10.0.0.0/24`,
    /// `service:database`, `~^v[0-9]+$`.
    #[serde(default)]
    pub target: Option<OneOrMany<TargetMatch>>,
    /// Port that the exchange is for: `443`, `1-1023`.
    #[serde(default)]
    pub port: Option<OneOrMany<PortMatch>>,
    /// Authority that names the proxy itself (extended CONNECT, or `Host`), like `target`.
    #[serde(default)]
    pub authority: Option<OneOrMany<TargetMatch>>,
    /// Path: `/exact`, `/prefix/*`, `~regex`. The query is not matched.
    #[serde(default)]
    pub path: Option<OneOrMany<PathMatch>>,
    /// Method, in capitals.
    #[serde(default)]
    pub method: Option<OneOrMany<String>>,
    /// `:protocol` of an extended CONNECT, or the `Upgrade` token: `connect-tcp`, `connect-udp`, `websocket`.
    #[serde(default)]
    pub protocol: Option<OneOrMany<String>>,
    /// Fields, by name: a value, `~regex`, `true` for present, `false` for absent.
    #[serde(default)]
    pub fields: IndexMap<String, FieldMatch>,
    /// The authenticated user: a name, `*@example.com`, `group:admins` or `~regex`.
    #[serde(default)]
    pub user: Option<OneOrMany<UserMatch>>,
    /// Prefixes of the address that the connection came from.
    #[serde(default)]
    #[schemars(with = "Option<OneOrMany<Prefix>>")]
    pub source: Option<OneOrMany<IpNet>>,
    /// Listeners, by name.
    #[serde(default)]
    pub listener: Option<OneOrMany<String>>,
}

/// The kinds of exchanges; access records use the same words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeKind {
    /// A request and a response.
    Http,
    /// Bytes: CONNECT, and connections of `tcp` listeners.
    Connect,
    /// Bytes, in capsules.
    ConnectTcp,
    /// UDP datagrams: CONNECT-UDP, and those of `udp` listeners.
    ConnectUdp,
    /// IP packets.
    ConnectIp,
    /// Bytes of any other protocol, such as WebSocket.
    Upgrade,
}

impl ExchangeKind {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Connect => "connect",
            Self::ConnectTcp => "connect-tcp",
            Self::ConnectUdp => "connect-udp",
            Self::ConnectIp => "connect-ip",
            Self::Upgrade => "upgrade",
        }
    }
}

impl fmt::Display for ExchangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Condition on one field.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FieldMatch {
    /// `true`: present; `false`: absent.
    Present(bool),
    /// One of its values is this, or matches `~regex`.
    Value(TextMatch),
}

/// Changes to the target of an exchange. The query is never changed (RFC 9110, 7.7).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// New target.
    #[serde(default)]
    pub target: Option<HostPort>,
    /// New path.
    #[serde(default)]
    pub path: Option<PathRewrite>,
}

/// A path prefix and its replacement.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathRewrite {
    /// Prefix that is replaced, such as `/org/`; other paths stay as they are.
    pub prefix: String,
    /// The replacement, such as `/`.
    pub with: String,
}

/// Time-outs. There is no overall limit on an exchange.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Until a connection is usable, TLS included. Default: 5s.
    #[serde(default)]
    pub connect: Option<Duration>,
    /// Until a response head arrives, counted from the request's end or the last interim response. Default: 60s where the overlay
    /// ends; on a hop to another proxy as long as the link is alive, or 5m over HTTP/1.1.
    #[serde(default)]
    pub header: Option<Duration>,
    /// Longest silence within a message's content. Default: 5m where the overlay ends, 10s more on a hop to another proxy.
    #[serde(default)]
    pub idle: Option<Duration>,
    /// Longest silence of a UDP session that is a conversation. Default: 300s.
    #[serde(default)]
    pub udp: Option<Duration>,
    /// Longest silence of a `udp` listener's session without an answer of the target. Default: 5s.
    #[serde(default)]
    pub udp_unanswered: Option<Duration>,
    /// Longest silence of a `udp` listener's session with one turn of questions and answers, as in DNS. Default: 3s.
    #[serde(default)]
    pub udp_answered: Option<Duration>,
}

impl Timeouts {
    /// These time-outs; absent ones are taken from `others`.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        Self {
            connect: self.connect.or(others.connect),
            header: self.header.or(others.header),
            idle: self.idle.or(others.idle),
            udp: self.udp.or(others.udp),
            udp_unanswered: self.udp_unanswered.or(others.udp_unanswered),
            udp_answered: self.udp_answered.or(others.udp_answered),
        }
    }
}

/// Bounds on datagrams kept while a tunnel opens; the oldest are dropped first, and counted.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Datagrams {
    /// Bytes kept per session. Default: 160KiB.
    #[serde(default)]
    pub hold_bytes: Option<ByteSize>,
    /// Age at which a kept datagram is dropped. Default: 5s.
    #[serde(default)]
    pub hold_time: Option<Duration>,
    /// The handling of datagrams of a `udp` or `capture` listener that are too large for the QUIC datagrams of a
    /// hop: `capsule` or `drop`. Default: `capsule` for a `udp` listener, `drop` for a `capture` listener, whose
    /// clients are told by ICMP.
    #[serde(default)]
    pub oversize: Option<Oversize>,
}

/// The handling of datagrams that are too large for QUIC datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Oversize {
    /// They travel as capsules on the stream beside, and may so come later than those behind them.
    #[default]
    Capsule,
    /// They are dropped, and counted.
    Drop,
}

/// Next proxies: one upstream, several that are passed one behind the other, or several with weights.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Hops {
    /// All exchanges to this upstream.
    One(String),
    /// All exchanges through these, one inside the other.
    Chain(Chain),
    /// Exchanges split by weight.
    Split(IndexMap<String, u32>),
}

/// Where the overlay ends.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Terminate {
    /// `true`: at the target itself, if `egress` allows its address.
    Target(bool),
    /// At the endpoints of this upstream; without one of that name, at this address.
    #[schemars(extend("format" = super::scalar::END))]
    Upstream(String),
    /// CONNECT-IP: at a TUN device.
    Tun(TerminateTun),
    /// CONNECT-IP: in this process, where packets become exchanges.
    Intercept(TerminateIntercept),
    /// Connections and datagrams: in the tunnel of IP packets of a listener.
    Ip(TerminateIp),
    /// Connections and datagrams, at the far ends of a connector.
    By(TerminateBy),
}

impl Terminate {
    /// The end of CONNECT-IP's packets, if it is for these.
    pub fn packets(&self) -> Option<PacketTermination<'_>> {
        match self {
            Self::Tun(end) => Some(PacketTermination::Tun(end)),
            Self::Intercept(end) => Some(PacketTermination::Intercept(end)),
            Self::Target(_) | Self::Upstream(_) | Self::Ip(_) | Self::By(_) => None,
        }
    }

    /// The listener in whose tunnel of IP packets connections and datagrams end.
    pub fn ip(&self) -> Option<&str> {
        match self {
            Self::Ip(end) => Some(&end.ip),
            _ => None,
        }
    }

    /// The connector that opens its far ends.
    pub fn connector(&self) -> Option<&PlugUse> {
        match self {
            Self::By(end) => Some(&end.by),
            _ => None,
        }
    }
}

/// A local answer.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Respond {
    /// Status code, 200 to 599.
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// Content, as text. Default: empty.
    #[serde(default)]
    pub body: String,
    /// Fields of the answer.
    #[serde(default)]
    pub fields: IndexMap<String, String>,
}

/// A local redirect.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// The new location; may use variables such as `{target.host}` and `{path}`.
    pub location: Template,
    /// 301, 302, 303, 307 or 308. Default: 302.
    #[serde(default)]
    #[schemars(extend("enum" = [301, 302, 303, 307, 308]))]
    pub status: Option<u16>,
}
