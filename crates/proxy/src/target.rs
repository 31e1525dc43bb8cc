//! What an exchange is for.

use std::fmt::{self, Write as _};

use hermes_http::{Kind, RequestHead};
use hermes_proto::authority::{self, HostPort};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::udp_bind;
use hermes_proto::upgrade::Protocol;
use hermes_proto::uri_template::{self, TemplateError, UriTemplate};
use http::uri::{Authority, PathAndQuery};
use http::{StatusCode, uri::Scheme};

use crate::refusal::Refusal;
use crate::snapshot::ListenerRules;

/// Host and port that an exchange is for, whatever its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host name or address, an IPv6 address without brackets; `*` where there is none.
    pub host: String,
    /// Port, 0 only without a host.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Target {
    /// This and a path behind it.
    pub fn with_path(&self, path: &str) -> String {
        let mut text = String::with_capacity(self.host.len() + "[]:65535".len() + path.len());
        if self.host.contains(':') {
            // Writing to a string cannot fail.
            let _ = write!(text, "{self}");
        } else {
            // What `Display` writes, without the machinery of formatting: every exchange is recorded with its target.
            text.push_str(&self.host);
            text.push(':');
            let digits = [10_000, 1000, 100, 10, 1].map(|place| self.port / place % 10);
            let first = digits
                .iter()
                .position(|digit| *digit > 0)
                .unwrap_or(digits.len() - 1);
            text.extend(
                digits[first..]
                    .iter()
                    .filter_map(|digit| char::from_digit(u32::from(*digit), 10)),
            );
        }
        text.push_str(path);
        text
    }

    /// The target of a request that came to `listener`, whose templates count, and which allows origin form if it is a gateway; `tls` is whether the request came over TLS, which decides the
    /// default port of origin form.
    ///
    /// # Errors
    /// The request names no valid target; 400.
    pub fn of(head: &RequestHead, listener: &ListenerRules, tls: bool) -> Result<Self, Refusal> {
        match head.kind() {
            Kind::ConnectUdp => {
                Self::of_template(head, &uri_template::UDP, &listener.udp_templates)
            }
            Kind::ConnectTcp => {
                Self::of_template(head, &uri_template::TCP, &listener.tcp_templates)
            }
            Kind::Connect => Self::parse(required(head.authority.as_ref())?, None),
            // Who attaches asks this proxy itself.
            Kind::Message | Kind::Upgrade
                if head.origin_form && !listener.config.gateway && !asks_to_attach(head) =>
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

    /// No target: whatever peers a client of CONNECT-UDP Bind names later. No host is written so.
    fn any() -> Self {
        Self {
            host: "*".to_owned(),
            port: 0,
        }
    }

    /// Whether it is none.
    pub fn is_any(&self) -> bool {
        self.port == 0
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
            return Ok(Self::any());
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
        Ok(Self { host, port })
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
        let path = if self.is_any() {
            template.expand_any()
        } else {
            template.expand(&self.host, self.port)
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
        let HostPort { host, port } = parsed.map_err(|error| bad_request(&error.to_string()))?;
        Ok(Self { host, port })
    }

    /// Makes a request be for this target: its authority, or the path of CONNECT-UDP.
    ///
    /// # Errors
    /// The target cannot be written as an authority.
    pub fn write_into(&self, head: &mut RequestHead) -> Result<(), Refusal> {
        if head.kind().is_templated() {
            let udp = head.kind() == Kind::ConnectUdp;
            return self.write_path(
                if udp {
                    &uri_template::UDP
                } else {
                    &uri_template::TCP
                },
                head,
            );
        }
        let scheme = head.scheme.as_ref().map_or("http", Scheme::as_str);
        let default = authority::default_port(scheme);
        let full = self.to_string();
        let text = match (head.kind(), default) {
            (Kind::Message | Kind::Upgrade, Some(port)) if port == self.port => full
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

/// Whether the exchange is for an `https` URI.
pub fn is_https(head: &RequestHead, tls: bool) -> bool {
    head.scheme
        .as_ref()
        .map_or(tls, |scheme| *scheme == Scheme::HTTPS)
}

/// Whether the request asks for an attachment.
pub(crate) fn asks_to_attach(head: &RequestHead) -> bool {
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
