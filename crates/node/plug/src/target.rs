//! The target of an exchange.

use std::borrow::Cow;
use std::fmt;

use hermes_http::{Kind, RequestHead};
use hermes_proto::authority::{self, HostPort};
use hermes_proto::ip_template::{IpScope, IpTarget};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::udp_bind;
use hermes_proto::upgrade::Protocol;
use hermes_proto::uri_template::{self, TemplateError, UriTemplate};
use hermes_rules::route::Scope;
use http::uri::{Authority, PathAndQuery};
use http::{StatusCode, uri::Scheme};

use crate::refusal::Refusal;

/// The target of an exchange, in any form of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host, an IPv6 address without brackets, and a port.
    Host(HostPort),
    /// UDP with whatever peers a client of CONNECT-UDP Bind names later.
    Any,
    /// IP packets.
    Ip(IpPackets),
}

/// Which IP packets an exchange is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpPackets {
    /// The destinations and protocols that it asks for.
    pub scope: IpScope,
    /// Where they go, in words.
    text: String,
}

/// The forms of requests that a listener takes.
pub struct Forms<'a> {
    /// Templates of CONNECT-UDP.
    pub udp_templates: &'a [UriTemplate],
    /// Templates of connect-tcp.
    pub tcp_templates: &'a [UriTemplate],
    /// Whether it is a gateway, to which requests come in origin form.
    pub gateway: bool,
}

impl Forms<'_> {
    /// Those in which this node itself writes requests.
    pub const OWN: Self = Self {
        udp_templates: &[],
        tcp_templates: &[],
        gateway: false,
    };
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(HostPort { host, port }) if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            Self::Host(HostPort { host, port }) => write!(f, "{host}:{port}"),
            Self::Any => f.write_str("*:0"),
            Self::Ip(packets) => f.write_str(&packets.text),
        }
    }
}

impl Target {
    /// This and a path behind it.
    pub fn with_path(&self, path: &str) -> String {
        let host = match self {
            Self::Host(host) if !host.host.contains(':') => host,
            _ => return format!("{self}{path}"),
        };

        // The same text as that of `Display`, without the machinery of formatting: every exchange is recorded with its target.
        let mut text = String::with_capacity(host.host.len() + ":65535".len() + path.len());
        text.push_str(&host.host);
        text.push(':');
        let digits = [10_000, 1000, 100, 10, 1].map(|place| host.port / place % 10);
        let first = digits
            .iter()
            .position(|digit| *digit > 0)
            .unwrap_or(digits.len() - 1);
        text.extend(
            digits[first..]
                .iter()
                .filter_map(|digit| char::from_digit(u32::from(*digit), 10)),
        );
        text.push_str(path);

        text
    }

    /// A host and a port.
    pub fn host_port(host: String, port: u16) -> Self {
        Self::Host(HostPort { host, port })
    }

    /// The host and the port, where it is for one host.
    pub fn as_host(&self) -> Option<&HostPort> {
        match self {
            Self::Host(host) => Some(host),
            Self::Any | Self::Ip(_) => None,
        }
    }

    /// The host as templates and filters see it: `*` for any.
    pub fn host(&self) -> &str {
        match self {
            Self::Host(host) => &host.host,
            Self::Any => "*",
            Self::Ip(packets) => &packets.text,
        }
    }

    /// The same in the one form in which policies, filters and their records compare it: names in lower case (RFC 4343). Addresses and final
    /// dots are in one form from the beginning.
    pub fn canonical(&self) -> Cow<'_, Self> {
        let name = match self {
            Self::Host(target) => &target.host,
            Self::Ip(IpPackets {
                scope:
                    IpScope {
                        target: IpTarget::Name(name),
                        ..
                    },
                ..
            }) => name,
            Self::Any | Self::Ip(_) => return Cow::Borrowed(self),
        };
        if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Cow::Borrowed(self);
        }

        let name = name.to_ascii_lowercase();
        Cow::Owned(match self {
            Self::Ip(packets) => Self::of_scope(IpScope {
                target: IpTarget::Name(name),
                protocol: packets.scope.protocol,
            }),
            Self::Host(_) | Self::Any => Self::host_port(name, self.port().unwrap_or_default()),
        })
    }

    /// The port, where it is for one.
    pub fn port(&self) -> Option<u16> {
        self.as_host().map(|host| host.port)
    }

    /// As decisions see it.
    pub fn as_rules(&self) -> hermes_rules::Target<'_> {
        match self {
            Self::Host(HostPort { host, port }) => hermes_rules::Target::Host {
                name: host,
                port: *port,
            },
            Self::Any => hermes_rules::Target::Any,
            Self::Ip(packets) => hermes_rules::Target::Ip {
                scope: packets.as_rules(),
                protocol: packets.scope.protocol,
            },
        }
    }

    /// The target of a request that came to a listener which accepts these forms; `tls` is whether the request came over TLS, which decides the
    /// default port of origin form.
    ///
    /// # Errors
    /// The request names no valid target; 400.
    pub fn of(head: &RequestHead, listener: &Forms<'_>, tls: bool) -> Result<Self, Refusal> {
        match head.kind() {
            Kind::ConnectUdp => Self::of_template(head, &uri_template::UDP, listener.udp_templates),
            Kind::ConnectTcp => Self::of_template(head, &uri_template::TCP, listener.tcp_templates),
            Kind::ConnectIp => Self::of_packets(head),
            Kind::Connect => Self::parse(required(head.authority.as_ref())?, None),
            // A node that attaches asks this proxy itself.
            Kind::Message | Kind::Upgrade
                if head.origin_form && !listener.gateway && !asks_to_attach(head) =>
            {
                Err(bad_request(if head.kind() == Kind::Upgrade {
                    // Java's HttpClient, where a connection of a plain request is kept.
                    "this is a proxy: ask for WebSocket by CONNECT or in absolute form; clients that send origin form on a \
                     connection that they keep, as Java's, need one for WebSocket alone, or wss://"
                } else {
                    "this is a proxy: send the request in absolute form, or set `gateway: true` on the listener"
                }))
            }
            Kind::Message | Kind::Upgrade => {
                let default = if is_https(head, tls) { 443 } else { 80 };
                Self::parse(required(head.authority.as_ref())?, Some(default))
            }
        }
    }

    /// Whether it names no peer yet.
    pub fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }

    /// RFC 9484, 3: the target of CONNECT-IP stands in the path.
    fn of_packets(head: &RequestHead) -> Result<Self, Refusal> {
        let path = head.path.as_ref().map_or("", PathAndQuery::as_str);
        let scope = IpScope::parse(path).map_err(|error| {
            Refusal::new(ProxyError::HttpRequestError, error.to_string()).status(error.status())
        })?;
        Ok(Self::of_scope(scope))
    }

    fn of_scope(scope: IpScope) -> Self {
        let text = match scope.protocol {
            Some(protocol) => format!("{} protocol {protocol}", scope.target),
            None => scope.target.to_string(),
        };
        Self::Ip(IpPackets { scope, text })
    }

    /// RFC 9298, 3: the target of CONNECT-UDP, and of connect-tcp, stands in the path or in the query.
    fn of_template(
        head: &RequestHead,
        known: &UriTemplate,
        further: &[UriTemplate],
    ) -> Result<Self, Refusal> {
        let path = head.path.as_ref().map_or("", PathAndQuery::as_str);
        let bound = head.kind() == Kind::ConnectUdp && udp_bind::is_asked_for(&head.fields);
        if bound
            && further
                .iter()
                .chain([known])
                .any(|template| template.matches_any(path))
        {
            return Ok(Self::Any);
        }

        let matched = further
            .iter()
            .fold(known.matches(path), |matched, template| match matched {
                Err(TemplateError::NotTemplate) => template.matches(path),
                decided => decided,
            });

        let (host, port) = matched.map_err(|error| {
            Refusal::new(ProxyError::HttpRequestError, error.to_string()).status(error.status())
        })?;
        Ok(Self::host_port(host, port))
    }

    /// Writes the path that asks a proxy with this template for the target.
    ///
    /// # Errors
    /// The target cannot be written as a path.
    pub fn write_path(
        &self,
        template: &UriTemplate,
        head: &mut RequestHead,
    ) -> Result<(), Refusal> {
        let path = match self {
            Self::Host(HostPort { host, port }) => template.expand(host, *port),
            Self::Any => template.expand_any(),
            Self::Ip(packets) => packets.scope.path(),
        };

        head.path =
            Some(PathAndQuery::try_from(path).map_err(|error| bad_request(&error.to_string()))?);
        Ok(())
    }

    fn parse(authority: &str, default: Option<u16>) -> Result<Self, Refusal> {
        let parsed = match default {
            Some(port) => HostPort::parse_with_default(authority, port),
            None => authority.parse(),
        };
        let parsed = parsed.map_err(|error| bad_request(&error.to_string()))?;
        Ok(Self::Host(parsed))
    }

    /// Makes a request be for this target: its authority, or the path of CONNECT-UDP.
    ///
    /// # Errors
    /// The target cannot be written as an authority.
    pub fn write_into(&self, head: &mut RequestHead) -> Result<(), Refusal> {
        match head.kind() {
            Kind::ConnectUdp => return self.write_path(&uri_template::UDP, head),
            Kind::ConnectTcp => return self.write_path(&uri_template::TCP, head),
            // Its target stands in its path already, and is no host.
            Kind::ConnectIp => return Ok(()),
            Kind::Message | Kind::Connect | Kind::Upgrade => {}
        }

        let scheme = head.scheme.as_ref().map_or("http", Scheme::as_str);
        let default = authority::default_port(scheme);
        let full = self.to_string();

        let text = match (head.kind(), default) {
            (Kind::Message | Kind::Upgrade, Some(port)) if Some(port) == self.port() => full
                .rsplit_once(':')
                .map_or(full.as_str(), |(host, _)| host)
                .to_owned(),
            _ => full,
        };

        head.authority =
            Some(Authority::try_from(text).map_err(|error| bad_request(&error.to_string()))?);
        Ok(())
    }
}

impl IpPackets {
    fn as_rules(&self) -> Scope<'_> {
        match &self.scope.target {
            IpTarget::Any => Scope::Any,
            IpTarget::Name(name) => Scope::Name(name),
            IpTarget::Prefix { address, length } => Scope::of_prefix(*address, *length),
        }
    }
}

/// Whether the exchange is for an `https` URI.
pub fn is_https(head: &RequestHead, tls: bool) -> bool {
    head.scheme
        .as_ref()
        .map_or(tls, |scheme| *scheme == Scheme::HTTPS)
}

/// Whether the request asks for an attachment.
pub fn asks_to_attach(head: &RequestHead) -> bool {
    head.kind() == Kind::Upgrade && head.protocol == Some(Protocol::Ptth)
}

fn required(authority: Option<&Authority>) -> Result<&str, Refusal> {
    authority
        .map(Authority::as_str)
        .ok_or_else(|| bad_request("the request names no host"))
}

fn bad_request(reason: &str) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, reason.to_owned()).status(StatusCode::BAD_REQUEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_in_lower_case() {
        let compared = |target: Target| target.canonical().to_string();
        let host = |name: &str| Target::host_port(name.to_owned(), 80);
        assert_eq!(
            compared(host("Secret.EXAMPLE.org")),
            "secret.example.org:80"
        );
        assert_eq!(compared(Target::Any), "*:0");

        let packets = IpScope::parse("/.well-known/masque/ip/Secret.example/17/").unwrap();
        assert_eq!(
            compared(Target::of_scope(packets)),
            "secret.example protocol 17"
        );
        assert!(matches!(host("a").canonical(), Cow::Borrowed(_)));
    }
}
