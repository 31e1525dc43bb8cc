//! TCP over POST: a request whose two contents are the two directions of a tunnel.
//!
//! It passes proxies that do not know CONNECT; Envoy calls it `use_post` and `allow_post`. Here it is a CONNECT in
//! another form: it takes that form where it leaves, and is a CONNECT again as soon as a route says so.

use hermes_config::model::{Route, TunnelWord};
use hermes_http::{Event, Kind, RequestHead};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::names::{CONTENT_LENGTH, EXPECT};
use hermes_proto::proxy_status::ProxyError;
use http::Method;
use http::uri::{PathAndQuery, Scheme};

/// Makes a POST the CONNECT that it means, if its route says that it is a tunnel. The path is kept, for a next hop.
/// Says whether it was one.
pub fn arrive(head: &mut RequestHead, route: &Route) -> bool {
    is_asked_for(route) && arrived(head)
}

/// Whether tunnels on this route are POSTs.
fn is_asked_for(route: &Route) -> bool {
    route
        .tunnel
        .as_ref()
        .is_some_and(|tunnel| tunnel.word() == Some(TunnelWord::Post))
}

/// Makes a POST the CONNECT that it means, and says whether it was one.
pub fn arrived(head: &mut RequestHead) -> bool {
    let is_post = head.kind() == Kind::Message && head.method == Method::POST;
    if is_post {
        head.method = Method::CONNECT;
        head.fields.remove(CONTENT_LENGTH);
        // The answer to a tunnel comes before its content anyway.
        head.fields.remove(EXPECT);
    }

    is_post
}

/// Makes a CONNECT leave as the POST that its route asks for.
pub fn depart(head: &mut RequestHead, route: &Route) -> Result<(), Refusal> {
    let leaves = head.kind() == Kind::Connect && is_asked_for(route);
    let Some(tunnel) = route.tunnel.as_ref().filter(|_| leaves) else {
        return Ok(());
    };

    head.method = Method::POST;
    head.scheme = Some(Scheme::HTTP);
    let given = tunnel
        .path()
        .map(PathAndQuery::try_from)
        .transpose()
        .map_err(|error| {
            Refusal::new(
                ProxyError::ProxyConfigurationError,
                format!("the path of the tunnel is bad: {error}"),
            )
        })?;

    head.path = Some(
        given
            .or_else(|| head.path.take())
            .unwrap_or_else(|| PathAndQuery::from_static("/")),
    );

    Ok(())
}

/// Whether a request that leaves is a tunnel in this form; its content then has no known length.
pub fn is_post(head: &RequestHead) -> bool {
    head.kind() == Kind::Message
}

/// The answer to a tunnel in this form: success opens it.
pub fn opened(answer: Event) -> Event {
    match answer {
        Event::Final(head, incoming) if head.status.is_success() => Event::Tunnel(head, incoming),
        other => other,
    }
}
