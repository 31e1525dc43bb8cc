//! The heads of exchanges that begin without one: a CONNECT for a connection, a CONNECT-UDP for datagrams, a CONNECT-IP for packets.

use hermes_config::model::HostPort;
use hermes_http::RequestHead;
use hermes_ip::offload::agreement;
use hermes_packet::tun::{DEVICE_FIELD, DevicePart};
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::datagram_limit;
use hermes_proto::fields::Fields;
use hermes_proto::udp_template;
use hermes_proto::upgrade::Protocol;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, Version};

/// Any packets (RFC 9484, section 3).
const ANY_PACKETS: &str = "/.well-known/masque/ip/*/*/";

/// The CONNECT that a connection means.
pub fn connect(target: &HostPort) -> RequestHead {
    RequestHead {
        method: Method::CONNECT,
        scheme: None,
        authority: Authority::try_from(target.to_string()).ok(),
        path: None,
        protocol: None,
        fields: Fields::new(),
        version: Version::HTTP_11,
        origin_form: false,
    }
}

/// The CONNECT-UDP that a client's datagrams mean.
pub fn connect_udp(target: &HostPort) -> Option<RequestHead> {
    let path = udp_template::expand(&target.host, target.port);
    Some(RequestHead {
        method: Method::CONNECT,
        scheme: Some(Scheme::HTTPS),
        authority: Authority::try_from(target.to_string()).ok(),
        path: Some(PathAndQuery::try_from(path).ok()?),
        protocol: Some(Protocol::ConnectUdp),
        fields: Fields::from_iter([(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"))]),
        // It is the extended CONNECT of HTTP/2 until a hop writes it otherwise.
        version: Version::HTTP_2,
        origin_form: false,
    })
}

/// The CONNECT-IP that a device means, or that one of its tunnels does.
pub fn connect_ip(part: Option<&DevicePart>, offers_super_packets: bool) -> RequestHead {
    let fields = [
        (CAPSULE_PROTOCOL, HeaderValue::from_static("?1")),
        (datagram_limit::FIELD, datagram_limit::understood()),
    ];
    let part = part.and_then(|part| HeaderValue::try_from(part.to_string()).ok());
    let part = part.map(|value| (HeaderName::from_static(DEVICE_FIELD), value));
    let offer =
        offers_super_packets.then(|| (agreement::FIELD, agreement::value(agreement::CONTEXT)));
    RequestHead {
        method: Method::CONNECT,
        scheme: Some(Scheme::HTTPS),
        authority: Some(Authority::from_static("localhost")),
        path: Some(PathAndQuery::from_static(ANY_PACKETS)),
        protocol: Some(Protocol::ConnectIp),
        fields: Fields::from_iter(fields.into_iter().chain(part).chain(offer)),
        // It is the extended CONNECT of HTTP/2 until a hop writes it otherwise.
        version: Version::HTTP_2,
        origin_form: false,
    }
}
