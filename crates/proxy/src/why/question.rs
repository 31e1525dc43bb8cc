//! The exchange that is asked about, as a person writes it.

use std::net::IpAddr;

use bytes::Bytes;
use hermes_config::model::{Document, ExchangeKind, HostPort, Listener};
use hermes_proto::path;
use hermes_rules::judge::Peers;
use hermes_rules::{Fields, Source, Target};
use http::{HeaderName, HeaderValue, Method, Uri};

/// A port where the scheme says it.
const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// What an exchange asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct SupposedRequest {
    /// Its method.
    pub method: Method,
    /// What a tunnel carries, where that is not told by its method.
    pub protocol: Option<&'static str>,
    /// What it is for.
    pub target: HostPort,
    /// The port, if it was written.
    pub port: Option<u16>,
    /// Without the query; empty for tunnels.
    pub path: String,
}

impl SupposedRequest {
    /// Of the words on the command line: a URL, or a method and a URL, or a kind of tunnel and `host:port`.
    ///
    /// # Errors
    /// In words.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        match words {
            [url] => Self::message(Method::GET, url),
            [word, target] => match word.to_ascii_uppercase().as_str() {
                "CONNECT" => Self::tunnel(None, target),
                "CONNECT-TCP" => Self::tunnel(Some("connect-tcp"), target),
                "CONNECT-UDP" => Self::tunnel(Some("connect-udp"), target),
                method => {
                    let method = Method::from_bytes(method.as_bytes());
                    let method = method.map_err(|_| format!("{word} is no method"))?;
                    Self::message(method, target)
                }
            },
            _ => Err("say what the exchange asks for, such as GET http://VIDEO/one".to_owned()),
        }
    }

    /// What a connection or a datagram asks for that enters at a `tcp` or `udp` listener.
    pub fn of_listener(listener: &Listener) -> Option<Self> {
        let protocol = match (&listener.tcp, &listener.udp) {
            (Some(_), _) => None,
            (_, Some(_)) => Some("connect-udp"),
            _ => return None,
        };

        let target = listener.target.clone()?;
        Some(Self {
            method: Method::CONNECT,
            protocol,
            port: Some(target.port),
            target,
            path: String::new(),
        })
    }

    fn message(method: Method, url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let default = match uri.scheme_str() {
            Some("http") => HTTP,
            Some("https") => HTTPS,
            _ => return Err(format!("{url} is no URL, such as http://VIDEO/one")),
        };

        let path = path::decode(Bytes::copy_from_slice(uri.path().as_bytes()))
            .map_err(|bad| bad.to_string())?;
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16();
        Ok(Self {
            method,
            protocol: None,
            target: HostPort {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: port.unwrap_or(default),
            },
            port,
            path: path.path().to_owned(),
        })
    }

    fn tunnel(protocol: Option<&'static str>, target: &str) -> Result<Self, String> {
        let target: HostPort = target
            .parse()
            .map_err(|error| format!("{target}: {error}"))?;
        Ok(Self {
            method: Method::CONNECT,
            protocol,
            port: Some(target.port),
            target,
            path: String::new(),
        })
    }

    /// What it is for.
    pub fn target(&self) -> Target<'_> {
        Target::Host {
            name: &self.target.host,
            port: self.target.port,
        }
    }

    /// What it carries.
    pub fn kind(&self) -> ExchangeKind {
        match self.protocol {
            Some("connect-udp") => ExchangeKind::ConnectUdp,
            Some(_) => ExchangeKind::ConnectTcp,
            None if self.method == Method::CONNECT => ExchangeKind::Connect,
            None => ExchangeKind::Http,
        }
    }

    /// The authority; tunnels that a template names have that of the proxy, which is not known.
    pub fn authority(&self) -> Option<(&str, Option<u16>)> {
        self.protocol
            .is_none()
            .then_some((self.target.host.as_str(), self.port))
    }

    /// In words.
    pub fn describe(&self) -> String {
        let HostPort { host, port } = &self.target;
        match self.protocol {
            Some(protocol) => format!("{protocol} {host}:{port}"),
            None if self.path.is_empty() => format!("{} {host}:{port}", self.method),
            None => format!("{} {host}:{port}{}", self.method, self.path),
        }
    }
}

/// A field line, `name: value`.
fn field(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is no field, which is `name: value`"))?;
    let known = name
        .trim()
        .parse()
        .map_err(|_| format!("{name} is no name of a field"))?;
    let value = HeaderValue::from_str(value.trim())
        .map_err(|_| format!("{name}: the value holds what no field may hold"))?;
    Ok((known, value))
}

/// The lines as fields.
///
/// # Errors
/// One is none, in words.
pub fn fields(lines: &[String]) -> Result<Fields, String> {
    let mut fields = Fields::new();
    for line in lines {
        let (name, value) = field(line)?;
        fields.append(&name, value);
    }
    Ok(fields)
}

/// The listener of this name; else the only one, or the first for HTTP.
///
/// # Errors
/// There is none, in words.
pub fn listener<'a>(
    document: &'a Document,
    named: Option<&str>,
) -> Result<(&'a str, &'a Listener), String> {
    let mut all = document.listeners.iter();
    let found = match named {
        Some(name) => all.find(|(known, _)| *known == name),
        None => {
            let http = all.clone().find(|(_, listener)| listener.http.is_some());
            http.or_else(|| all.next())
        }
    };

    let (name, listener) = found.ok_or_else(|| {
        let names: Vec<_> = document.listeners.keys().map(String::as_str).collect();
        match named {
            Some(name) => format!(
                "there is no listener {name}; there are: {}",
                names.join(", ")
            ),
            None => "the configuration has no listener".to_owned(),
        }
    })?;

    Ok((name, listener))
}

/// Who hands the exchange over.
///
/// # Errors
/// There is no such peer.
pub fn source<'a>(
    peers: &'a Peers,
    peer: Option<&str>,
    listener: &Listener,
    address: IpAddr,
) -> Result<Source<'a>, String> {
    if let Some(name) = peer {
        return peers
            .named(name)
            .ok_or_else(|| format!("there is no peer {name}"));
    }

    let trusted = listener
        .insecure_trust
        .iter()
        .any(|prefix| prefix.contains(&address));

    Ok(if trusted {
        Source::InsecurePeer
    } else {
        Source::Client
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<SupposedRequest, String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        SupposedRequest::parse(&words)
    }

    #[test]
    fn a_url_alone_is_a_get() {
        let question = parse("http://VIDEO/films/one?hd=1").unwrap();
        assert_eq!(question.describe(), "GET VIDEO:80/films/one");
        assert_eq!(question.authority(), Some(("VIDEO", None)));
    }

    #[test]
    fn tunnels_name_a_host_and_a_port() {
        assert_eq!(
            parse("connect DB:5432").unwrap().describe(),
            "CONNECT DB:5432"
        );
        let udp = parse("CONNECT-UDP [::1]:53").unwrap();
        assert_eq!((udp.protocol, udp.authority()), (Some("connect-udp"), None));
        assert!(parse("CONNECT DB").is_err());
    }

    #[test]
    fn what_is_no_url_says_so() {
        assert_eq!(
            parse("GET VIDEO").unwrap_err(),
            "VIDEO is no URL, such as http://VIDEO/one"
        );
    }
}
