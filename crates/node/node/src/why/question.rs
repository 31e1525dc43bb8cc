//! The exchange that is asked about, as a person writes it.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use hermes_admit::filter;
use hermes_admit::snapshot::split_tunnels;
use hermes_config::model::{
    Document, ExchangeKind, HostPort, IpProtocol, Listener, ListenerKind, Tun,
};
use hermes_http::{Kind, RequestHead};
use hermes_plug::opening_head;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::{Forms, Target};
use hermes_proto::fields::Fields;
use hermes_proto::ip_template;
use hermes_proto::path;
use hermes_proto::upgrade::Protocol;
use hermes_proto::uri_template;
use hermes_rules::Source;
use hermes_rules::judge::Peers;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, Uri, Version};
use ipnet::IpNet;

/// The port that a supposed connection comes from.
pub(crate) const CLIENT_PORT: u16 = 50_000;

/// The forms of a question, in words.
const EXAMPLES: &str = "name a request, such as GET http://VIDEO/one, CONNECT DB:5432, \
     CONNECT-IP 10.0.0.0/8 or UPGRADE websocket http://VIDEO/chat";

/// Stands for any target and any protocol of CONNECT-IP.
const ANY: &str = "*";

/// The request of a supposed exchange.
#[derive(Debug, PartialEq, Eq)]
pub struct SupposedRequest {
    /// As it would arrive, without the fields that the question has.
    pub head: RequestHead,
    /// Its target.
    pub target: Target,
}

impl SupposedRequest {
    /// Of the words on the command line: a URL, a method and a URL, a kind of tunnel and its target, or UPGRADE, a protocol and a URL.
    ///
    /// # Errors
    /// In words.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let (first, rest) = words.split_first().ok_or(EXAMPLES)?;
        let verb = first.to_ascii_uppercase();
        let head = match (verb.as_str(), rest) {
            (_, []) if first.contains("://") => message(Method::GET, first)?,
            ("CONNECT", [target]) => tunnel(None, target)?,
            ("CONNECT-TCP", [target]) => tunnel(Some(Protocol::ConnectTcp), target)?,
            ("CONNECT-UDP", [target]) => tunnel(Some(Protocol::ConnectUdp), target)?,
            ("CONNECT-IP", []) => packets(ANY, ANY)?,
            ("CONNECT-IP", [target]) => packets(target, ANY)?,
            ("CONNECT-IP", [target, protocol]) => packets(target, protocol)?,
            ("UPGRADE", [protocol, url]) => upgrade(protocol, url)?,
            (method, [url]) => {
                let method = Method::from_bytes(method.as_bytes());
                message(method.map_err(|_| format!("{first} is not a method"))?, url)?
            }
            _ => return Err(EXAMPLES.to_owned()),
        };
        Self::of_head(head)
    }

    /// The request of a connection, a datagram or a device that enters at a `tcp`, `udp` or `tun` listener.
    pub fn of_listener(listener: &Listener) -> Option<Self> {
        let head = match &listener.kind {
            ListenerKind::Tcp(tcp) => opening_head::connect(tcp.purpose.target.as_ref()?),
            ListenerKind::Udp(udp) => opening_head::connect_udp(udp.purpose.target.as_ref()?)?,
            ListenerKind::Tun(own) => opening_head::connect_ip(None, own.tun.super_packets()),
            ListenerKind::Http(_)
            | ListenerKind::Socks(_)
            | ListenerKind::Attach(_)
            | ListenerKind::Capture(_) => return None,
        };
        Self::of_head(head).ok()
    }

    fn of_head(head: RequestHead) -> Result<Self, String> {
        let forms = Forms {
            udp_templates: &[],
            tcp_templates: &[],
            gateway: false,
        };
        let target = Target::of(&head, &forms, false);
        let target = target.map_err(|refusal: Refusal| refusal.reason())?;
        Ok(Self { head, target })
    }

    /// Its payload.
    pub fn kind(&self) -> ExchangeKind {
        filter::exchange_kind(self.head.kind())
    }

    /// The authority with its port if it was given; tunnels that a template names have that of the proxy, which is not known.
    pub fn authority(&self) -> Option<(&str, Option<u16>)> {
        let authority = self.head.authority.as_ref()?;
        Some((authority.host(), authority.port_u16()))
    }

    /// In words.
    pub fn describe(&self) -> String {
        let target = &self.target;
        let path = self.head.path();
        match (self.head.kind(), &self.head.protocol) {
            (Kind::Message, _) => format!("{} {target}{path}", self.head.method),
            (Kind::Upgrade, Some(protocol)) => {
                format!("upgrade to {} at {target}{path}", protocol.as_str())
            }
            (_, Some(protocol)) => format!("{} {target}", protocol.as_str()),
            (_, None) => format!("{} {target}", self.head.method),
        }
    }
}

fn message(method: Method, url: &str) -> Result<RequestHead, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let parts = uri.into_parts();
    let known = [Scheme::HTTP, Scheme::HTTPS];
    let scheme = parts.scheme.filter(|scheme| known.contains(scheme));
    let (Some(scheme), Some(authority)) = (scheme, parts.authority) else {
        return Err(format!("{url} is not a URL, such as http://VIDEO/one"));
    };

    let path = parts.path_and_query;
    let path = path.map_or_else(|| "/".to_owned(), |path| path.to_string());
    let path = path::decode(Bytes::from(path)).map_err(|bad| bad.to_string())?;
    Ok(RequestHead {
        method,
        scheme: Some(scheme),
        authority: Some(authority),
        path: Some(path),
        protocol: None,
        fields: Fields::new(),
        version: Version::HTTP_11,
        origin_form: false,
    })
}

/// An upgrade is the extended CONNECT that means the same.
fn upgrade(protocol: &str, url: &str) -> Result<RequestHead, String> {
    let parsed = Protocol::parse(protocol.as_bytes());
    let parsed = parsed.map_err(|bad| format!("{protocol}: {bad}"))?;
    if parsed.is_of_connections() {
        return Err(format!("{protocol} is not a protocol that passes a proxy"));
    }
    if Kind::of_protocol(&parsed).is_templated() {
        let word = parsed.as_str().to_ascii_uppercase();
        return Err(format!("write {word} and the target of the tunnel"));
    }

    Ok(RequestHead {
        protocol: Some(parsed),
        ..message(Method::CONNECT, url)?
    })
}

/// A tunnel to a host. One that a template names has the authority of the proxy, which is not known.
fn tunnel(protocol: Option<Protocol>, target: &str) -> Result<RequestHead, String> {
    let known: HostPort = target
        .parse()
        .map_err(|error| format!("{target}: {error}"))?;
    let template = match &protocol {
        Some(Protocol::ConnectUdp) => Some(&uri_template::UDP),
        Some(_) => Some(&uri_template::TCP),
        None => None,
    };
    let path = template.map(|template| template.expand(&known.host, known.port));
    let Some(path) = path else {
        return Ok(opening_head::connect(&known));
    };
    extended(protocol, path)
}

/// A tunnel of IP packets.
fn packets(target: &str, protocol: &str) -> Result<RequestHead, String> {
    let number = match protocol {
        ANY => ANY.to_owned(),
        named => {
            let IpProtocol(number) = named
                .parse()
                .map_err(|error| format!("{protocol}: {error}"))?;
            number.to_string()
        }
    };
    // RFC 9484, section 3: values in a segment are percent-encoded.
    let target = target.replace('/', "%2F").replace(':', "%3A");
    let path = format!("{}{target}/{number}/", ip_template::PREFIX);
    extended(Some(Protocol::ConnectIp), path)
}

fn extended(protocol: Option<Protocol>, path: String) -> Result<RequestHead, String> {
    let path = PathAndQuery::try_from(path).map_err(|error| error.to_string())?;
    Ok(RequestHead {
        method: Method::CONNECT,
        scheme: Some(Scheme::HTTPS),
        authority: None,
        path: Some(path),
        protocol,
        fields: Fields::new(),
        version: Version::HTTP_2,
        origin_form: false,
    })
}

/// A moment as a person writes it, `2026-11-27T18:30:00Z`, in Unix time.
///
/// # Errors
/// It is none, in words.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let time = humantime::parse_rfc3339_weak(text).ok();
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since
        .map(|since| since.as_secs())
        .ok_or_else(|| format!("`{text}` is not a time, such as 2026-11-27T18:30:00Z, of UTC"))
}

/// A field line, `name: value`.
fn field(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is not a field: write `name: value`"))?;
    let known = name
        .trim()
        .parse()
        .map_err(|_| format!("{name} is not the name of a field"))?;
    let value = HeaderValue::from_str(value.trim())
        .map_err(|_| format!("{name}: the value has bytes that a field may not have"))?;
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

/// The listener of this name, or as it is for one of the tunnels of its device, `LISTENER/TUNNEL`; else the only one, or the first for
/// HTTP.
///
/// # Errors
/// There is none, in words.
pub fn listener<'a>(
    document: &'a Document,
    named: Option<&str>,
) -> Result<(&'a str, Cow<'a, Listener>), String> {
    if let Some(found) = named.and_then(|named| tunnel_of_device(document, named)) {
        return Ok(found);
    }

    let mut all = document.listeners.iter();
    let found = match named {
        Some(name) => all.find(|(known, _)| *known == name),
        None => {
            let http = all.clone().find(|(_, listener)| listener.http().is_some());
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

    let tunnels = split_tunnels::listeners(listener).map(|(tunnel, _)| format!("{name}/{tunnel}"));
    let tunnels: Vec<_> = tunnels.collect();
    if !tunnels.is_empty() {
        let tunnels = tunnels.join(", ");
        return Err(format!(
            "the device of {name} has several tunnels; say which: {tunnels}"
        ));
    }
    Ok((name, Cow::Borrowed(listener)))
}

/// A listener as it is for one tunnel of its device.
fn tunnel_of_device<'a>(
    document: &'a Document,
    named: &str,
) -> Option<(&'a str, Cow<'a, Listener>)> {
    let (listener, tunnel) = named.rsplit_once('/')?;
    let (_, name, config) = document.listeners.get_full(listener)?;
    let mut tunnels = split_tunnels::listeners(config);
    let (_, own) = tunnels.find(|(known, _)| *known == tunnel)?;
    Some((name, Cow::Owned(own)))
}

/// Where exchanges come from unless something else is said: the device of a `tun` listener, else this machine.
pub fn own_address(listener: &Listener) -> IpAddr {
    let device = listener.tun().and_then(Tun::details);
    let own = device.and_then(|device| device.addresses.first());
    own.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), IpNet::addr)
}

/// Who hands the exchange over.
///
/// # Errors
/// There is no such peer.
pub fn source<'a>(
    peers: &'a Peers,
    peer: Option<&'a str>,
    listener: &Listener,
    address: IpAddr,
) -> Result<Source<'a>, String> {
    if let Some(name) = peer {
        return peers
            .named(name)
            .ok_or_else(|| format!("there is no peer {name}"));
    }

    let trusted = listener
        .insecure_trust()
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
    fn tunnels_name_what_they_are_for() {
        let described = |words| parse(words).unwrap().describe();
        assert_eq!(described("connect DB:5432"), "CONNECT DB:5432");
        let udp = parse("CONNECT-UDP [::1]:53").unwrap();
        assert_eq!(udp.describe(), "connect-udp [::1]:53");
        // The path is that of the request, for rules that look at it.
        assert_eq!(udp.head.path(), "/.well-known/masque/udp/%3A%3A1/53/");
        assert_eq!(udp.authority(), None);
        assert_eq!(described("CONNECT-IP"), "connect-ip *");
        assert_eq!(
            described("CONNECT-IP 10.0.0.0/8 udp"),
            "connect-ip 10.0.0.0/8 protocol 17"
        );
        assert_eq!(
            described("connect-ip 2001:db8::/32"),
            "connect-ip 2001:db8::/32"
        );
        assert_eq!(
            described("UPGRADE websocket http://VIDEO/chat"),
            "upgrade to websocket at VIDEO:80/chat"
        );
    }

    #[test]
    fn what_can_be_no_exchange_says_so() {
        for (words, said) in [
            ("GET VIDEO", "VIDEO is not a URL, such as http://VIDEO/one"),
            ("CONNECT-IP 10.0.0.1/8", "prefix"),
            ("CONNECT-IP 10.0.0.0/8 voice", "`voice` is not a protocol"),
            (
                "UPGRADE h2c http://VIDEO/",
                "h2c is not a protocol that passes",
            ),
            ("UPGRADE connect-udp http://VIDEO/", "write CONNECT-UDP"),
            ("CONNECT DB", "DB"),
            ("A B C D E", "name a request, such as"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(said), "{words}: {error}");
        }
    }
}
