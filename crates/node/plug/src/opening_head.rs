//! The heads of exchanges that begin without one: a CONNECT for a connection, a CONNECT-UDP for datagrams.

use hermes_config::model::HostPort;
use hermes_http::RequestHead;
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::fields::Fields;
use hermes_proto::udp_template;
use hermes_proto::upgrade::Protocol;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Version};

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
