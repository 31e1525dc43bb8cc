//! The facts of an exchange that rules and filters compare.

use hermes_config::model::ExchangeKind;
use hermes_http::{Kind, RequestHead};
use hermes_net::StreamInfo;
use hermes_plug::target::Target;
use hermes_proto::upgrade::Protocol;
use hermes_rules::{ClaimedGroups, Facts};

/// Whose an exchange is.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownUser<'a> {
    /// The name, if the user is known.
    pub user: Option<&'a str>,
    /// The groups that this user's token claims.
    pub claimed: ClaimedGroups<'a>,
}

/// The facts that rules compare.
pub fn facts<'a>(
    head: &'a RequestHead,
    target: &'a Target,
    whose: KnownUser<'a>,
    source: &StreamInfo,
    listener: &'a str,
) -> Facts<'a> {
    Facts {
        kind: exchange_kind(head.kind()),
        target: target.as_rules(),
        authority: head
            .authority
            .as_ref()
            .map(|authority| (authority.host(), authority.port_u16())),
        path: head.path(),
        method: &head.method,
        protocol: head.protocol.as_ref().map(Protocol::as_str),
        fields: &head.fields,
        user: whose.user,
        claimed: whose.claimed,
        source: source.peer.socket().map(|peer| peer.ip()),
        listener,
    }
}

/// The payload of an exchange, in a word.
pub fn kind(head: &RequestHead) -> &'static str {
    exchange_kind(head.kind()).word()
}

/// The kind of an exchange, as filters see it.
pub fn exchange_kind(kind: Kind) -> ExchangeKind {
    match kind {
        Kind::Message => ExchangeKind::Http,
        Kind::Connect => ExchangeKind::Connect,
        Kind::ConnectUdp => ExchangeKind::ConnectUdp,
        Kind::ConnectIp => ExchangeKind::ConnectIp,
        Kind::ConnectTcp => ExchangeKind::ConnectTcp,
        Kind::Upgrade => ExchangeKind::Upgrade,
    }
}
