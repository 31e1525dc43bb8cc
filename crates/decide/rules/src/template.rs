//! Templates and the values of their variables.

use std::borrow::Cow;
use std::net::SocketAddr;

use hermes_config::model::{Template, TemplatePart, Variable};

/// The values of a template's variables in one exchange. Unknown ones render as nothing.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// `peer.address`, `peer.port`: where the connection came from; `None` for a Unix socket.
    pub peer: Option<SocketAddr>,
    /// `listener`: name of the listener.
    pub listener: &'a str,
    /// `user`: the user of the exchange.
    pub user: Option<&'a str>,
    /// `tls.peer`: name in the client's certificate.
    pub tls_peer: Option<&'a str>,
    /// `target.host`: host that the exchange is for, without brackets.
    pub target_host: &'a str,
    /// `target.port`: port that the exchange is for; nothing where it is for no single port.
    pub target_port: Option<u16>,
    /// `node`: name of this node.
    pub node: &'a str,
    /// `path`: path without the query; empty for CONNECT.
    pub path: &'a str,
    /// `query`: query without its `?`; `None` without a query.
    pub query: Option<&'a str>,
    /// `method`: method.
    pub method: &'a str,
}

impl<'a> Values<'a> {
    fn value(&self, variable: Variable) -> Cow<'a, str> {
        match variable {
            // An IPv4 client of a dual-stack socket is an IPv4 client.
            Variable::PeerAddress => self
                .peer
                .map(|peer| peer.ip().to_canonical().to_string())
                .unwrap_or_default()
                .into(),
            Variable::PeerPort => self
                .peer
                .map(|peer| peer.port().to_string())
                .unwrap_or_default()
                .into(),
            Variable::Listener => self.listener.into(),
            Variable::User => self.user.unwrap_or_default().into(),
            Variable::TlsPeer => self.tls_peer.unwrap_or_default().into(),
            Variable::Target => self.target().into(),
            Variable::TargetHost => self.target_host.into(),
            Variable::TargetPort => self
                .target_port
                .map(|port| port.to_string())
                .unwrap_or_default()
                .into(),
            Variable::Node => self.node.into(),
            Variable::Path => self.path.into(),
            Variable::Query => self
                .query
                .map(|query| format!("?{query}"))
                .unwrap_or_default()
                .into(),
            Variable::Method => self.method.into(),
        }
    }

    /// The target as an authority: IPv6 addresses in brackets (RFC 3986, 3.2.2).
    fn target(&self) -> String {
        let host = self.target_host;
        match self.target_port {
            None => host.to_owned(),
            Some(port) if host.contains(':') && !host.starts_with('[') => {
                format!("[{host}]:{port}")
            }
            Some(port) => format!("{host}:{port}"),
        }
    }
}

/// The text of a template for one exchange. A client controls parts of it: code that writes it into
/// a field checks it first, as [`apply`](crate::fields::apply) does.
pub fn render(template: &Template, values: &Values<'_>) -> String {
    let mut text = String::new();
    for part in &template.parts {
        match part {
            TemplatePart::Text(part) => text.push_str(part),
            TemplatePart::Variable(variable) => text.push_str(&values.value(*variable)),
        }
    }

    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values<'static> {
        Values {
            peer: Some("[::ffff:192.0.2.1]:4711".parse().unwrap()),
            listener: "web",
            user: Some("alice"),
            tls_peer: None,
            target_host: "::1",
            target_port: Some(443),
            node: "laptop",
            path: "/a",
            query: Some("b=c"),
            method: "GET",
        }
    }

    fn rendered(template: &str) -> String {
        render(&template.parse().unwrap(), &values())
    }

    #[test]
    fn every_variable_is_rendered() {
        for (template, text) in [
            ("{peer.address} {peer.port}", "192.0.2.1 4711"),
            ("{listener}/{node}", "web/laptop"),
            ("{user}<{tls.peer}>", "alice<>"),
            ("{target} {target.host} {target.port}", "[::1]:443 ::1 443"),
            ("{method} {path}{query}", "GET /a?b=c"),
            ("{{literal", "{literal"),
        ] {
            assert_eq!(rendered(template), text, "{template}");
        }
    }

    #[test]
    fn unknown_values_render_as_nothing() {
        let stranger = Values {
            peer: None,
            user: None,
            query: None,
            ..values()
        };
        assert_eq!(
            render(
                &"[{peer.address}{peer.port}{user}{query}]".parse().unwrap(),
                &stranger
            ),
            "[]"
        );
    }
}
