//! The form that a tunnel of TCP has where it leaves: CONNECT, connect-tcp (draft-ietf-httpbis-connect-tcp) or POST.

use hermes_admit::post;
use hermes_admit::routed::Routed;
use hermes_config::model::{Route, Tunnel, TunnelWord};
use hermes_http::{Duplex, Kind, RequestHead, ResponseHead};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::EXPECT;
use hermes_proto::proxy_status::{self, PROXY_STATUS};
use hermes_proto::upgrade::Protocol;
use hermes_proto::uri_template;
use hermes_upstream::Upstream;
use http::{HeaderValue, StatusCode};

/// Gives a tunnel the form that its route asks for, or leaves it as it came, and the path that the next proxy asks for.
pub(crate) fn depart(
    head: &mut RequestHead,
    route: &Route,
    upstream: &Upstream,
    target: &Target,
) -> Result<(), Refusal> {
    match (head.kind(), route.tunnel.as_ref().and_then(Tunnel::word)) {
        (Kind::ConnectTcp, Some(TunnelWord::Connect | TunnelWord::Post)) => {
            head.protocol = None;
            (head.scheme, head.path) = (None, None);
            head.fields.remove(CAPSULE_PROTOCOL);
            target.write_into(head)?;
        }
        (Kind::Connect, Some(TunnelWord::ConnectTcp)) => {
            head.protocol = Some(Protocol::ConnectTcp);
            head.fields
                .insert(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"));
        }
        _ => {}
    }

    post::depart(head, route)?;
    address(head, upstream, target)
}

/// The path of CONNECT-UDP and connect-tcp is that of the next proxy's template, whatever this one's is.
fn address(head: &mut RequestHead, upstream: &Upstream, target: &Target) -> Result<(), Refusal> {
    let known = match head.kind() {
        Kind::ConnectUdp => &uri_template::UDP,
        Kind::ConnectTcp => &uri_template::TCP,
        Kind::Message | Kind::Connect | Kind::ConnectIp | Kind::Upgrade => return Ok(()),
    };
    match upstream.template(head.kind()) {
        Some(template) => target.write_path(template, head),
        None if known.matches(head.path()).is_ok() => Ok(()),
        None => target.write_path(known, head),
    }
}

/// The bytes of a stream of this form for an opposite one of the `other`. Between two streams of connect-tcp, capsules of every type
/// pass as they are (RFC 9297, 3.2).
pub(crate) fn bytes(form: Kind, other: Kind, streams: Duplex) -> Duplex {
    if form != Kind::ConnectTcp || other == Kind::ConnectTcp {
        return streams;
    }
    Duplex {
        incoming: streams.incoming.unwrapped(),
        outgoing: streams.outgoing.wrapped(),
    }
}

/// Says in the answer to a client whether capsules follow (RFC 9297, 3.4).
pub(crate) fn announce(form: Kind, fields: &mut Fields) {
    if form.is_templated() {
        fields.insert(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"));
    } else if form == Kind::Connect {
        fields.remove(CAPSULE_PROTOCOL);
    }
}

/// The fields of the answer that opens a tunnel of bytes which ends here.
pub(crate) fn opening_fields(routed: &Routed, kind: Kind) -> Fields {
    let mut fields = Fields::new();
    announce(kind, &mut fields);
    if kind == Kind::ConnectTcp {
        fields.insert(
            PROXY_STATUS,
            proxy_status::success(&routed.snapshot.node.name),
        );
    }
    fields
}

/// Tells a client of connect-tcp that waits for it that its request has come (section 4.2 of the draft). A client that is gone
/// is noticed later.
pub(crate) async fn confirm(arrival: &mut Arrival) {
    let Arrival::Offered(offered) = arrival else {
        return;
    };
    if offered.kind() != Kind::ConnectTcp {
        return;
    }

    let expected = offered.head.fields.take(EXPECT);
    if expected.is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        let _ = offered
            .interim(&ResponseHead::new(StatusCode::CONTINUE))
            .await;
    }
}
