//! The protocol that a request asks for: the `Upgrade` of HTTP/1.1 (RFC 9110, section 7.8) and the
//! `:protocol` of extended CONNECT (RFC 8441, section 4; RFC 9220).

use std::fmt;

use crate::quoted::is_token;
use crate::{connect_tcp, ptth, websocket};

/// One protocol of the registry of upgrade tokens (RFC 9110, section 16.7), or another that could stand there.
///
/// Exactly one name with at most one version, so that no list, no space and no second line can pass
/// for a protocol. Names are compared without regard to case (RFC 9110, section 7.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// `websocket` (RFC 6455).
    WebSocket,
    /// `connect-udp` (RFC 9298).
    ConnectUdp,
    /// `connect-ip` (RFC 9484).
    ConnectIp,
    /// `connect-tcp` (draft-ietf-httpbis-connect-tcp).
    ConnectTcp,
    /// `ptth`: the connection is turned round (draft-kazuho-ptth-ptth).
    Ptth,
    /// Another one.
    Other(Name),
}

/// A protocol that is not known here: `name` or `name/version` in small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(Box<str>);

/// The text is not exactly one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the protocol is not one name with at most one version")]
pub struct BadProtocol;

/// Names of protocols that turn the *connection* into another one. Behind a proxy, the requests of
/// such a connection would escape inspection (h2c smuggling), so these never pass.
/// `hermes_config`'s `UpgradeName` refuses the same.
const OF_CONNECTIONS: [&str; 5] = ["h2", "h2c", "h3", "http", "tls"];

impl Protocol {
    /// Reads one protocol.
    ///
    /// # Errors
    /// The text names no protocol, or several.
    pub fn parse(text: &[u8]) -> Result<Self, BadProtocol> {
        let known = [
            Self::WebSocket,
            Self::ConnectUdp,
            Self::ConnectIp,
            Self::ConnectTcp,
            Self::Ptth,
        ];

        if let Some(known) = known
            .into_iter()
            .find(|known| text.eq_ignore_ascii_case(known.as_str().as_bytes()))
        {
            return Ok(known);
        }

        if !text.splitn(2, |byte| *byte == b'/').all(is_token) {
            return Err(BadProtocol);
        }
        let text = std::str::from_utf8(text).map_err(|_| BadProtocol)?;
        Ok(Self::Other(Name(text.to_ascii_lowercase().into())))
    }

    /// As it is written, in small letters.
    pub fn as_str(&self) -> &str {
        match self {
            Self::WebSocket => websocket::TOKEN,
            Self::ConnectUdp => "connect-udp",
            Self::ConnectIp => "connect-ip",
            Self::ConnectTcp => connect_tcp::PROTOCOL,
            Self::Ptth => ptth::TOKEN,
            Self::Other(name) => &name.0,
        }
    }

    /// Whether it would change the connection that it is spoken on, such as `h2c`; it never passes a proxy.
    pub fn is_of_connections(&self) -> bool {
        let name = self.as_str().split('/').next().unwrap_or_default();
        OF_CONNECTIONS.contains(&name)
    }

    /// The protocol of a list that a request switches to: the first that is known here, or else the first that is not
    /// [of connections](Self::is_of_connections); RFC 9110, section 7.8 lets a server choose, or ignore all.
    pub fn choose(offered: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut other = None;
        for protocol in offered {
            match protocol {
                Self::Other(_) if other.is_some() || protocol.is_of_connections() => {}
                Self::Other(_) => other = Some(protocol),
                known => return Some(known),
            }
        }

        other
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Protocol, BadProtocol> {
        Protocol::parse(text.as_bytes())
    }

    #[test]
    fn known_protocols_are_known_in_any_case() {
        for (text, protocol) in [
            ("websocket", Protocol::WebSocket),
            ("WebSocket", Protocol::WebSocket),
            ("connect-udp", Protocol::ConnectUdp),
            ("CONNECT-IP", Protocol::ConnectIp),
            ("connect-tcp", Protocol::ConnectTcp),
            ("ptth", Protocol::Ptth),
        ] {
            assert_eq!(parse(text).as_ref(), Ok(&protocol), "{text}");
            assert_eq!(protocol.to_string(), text.to_ascii_lowercase());
        }
        assert_eq!(parse("IRC/6.9").unwrap().as_str(), "irc/6.9");
    }

    #[test]
    fn what_is_not_one_protocol_is_none() {
        for text in [
            "",
            "a b",
            "websocket, h2c",
            "websocket,",
            " websocket",
            "a/",
            "/1",
            "a/b/c",
            "a\r\nb",
            "\u{fc}",
            "a;b",
        ] {
            assert_eq!(parse(text), Err(BadProtocol), "{text:?}");
        }
    }

    #[test]
    fn protocols_of_connections_are_told_from_others() {
        for text in [
            "h2c", "H2C", "h2", "h3", "TLS/1.0", "tls", "HTTP/2.0", "http", "h2c/1",
        ] {
            assert!(parse(text).unwrap().is_of_connections(), "{text}");
        }
        for text in ["websocket", "h2cx", "irc/6.9", "http-ish", "connect-udp"] {
            assert!(!parse(text).unwrap().is_of_connections(), "{text}");
        }
    }

    #[test]
    fn of_a_list_the_known_one_is_chosen() {
        let choose = |list: &str| {
            let chosen = Protocol::choose(list.split(' ').map(|text| parse(text).unwrap()));
            chosen.map(|protocol| protocol.to_string())
        };
        assert_eq!(choose("h2c websocket").as_deref(), Some("websocket"));
        assert_eq!(choose("irc/6.9 websocket").as_deref(), Some("websocket"));
        assert_eq!(
            choose("tls/1.0 irc/6.9 rta/x11").as_deref(),
            Some("irc/6.9")
        );
        assert_eq!(choose("h2c http/2.0 tls"), None);
    }
}
