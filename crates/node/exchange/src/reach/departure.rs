//! The request as it leaves: the fields that this hop removes, adds and rewrites.

use std::borrow::Cow;

use hermes_admit::next::{Next, To};
use hermes_admit::routed::Routed;
use hermes_config::model::{Oversize, Route};
use hermes_http::h1::client::Receiver;
use hermes_http::{Kind, RequestHead, ResponseHead};
use hermes_observe::trace;
use hermes_packet::{Asked, CAPTURED_FLOOR};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::names::{FORWARDED, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use hermes_proto::ip::MIN_MTU_V6;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::uri_template::UriTemplate;
use hermes_proto::{datagram_floor, datagram_limit, hop_report, proxy_status};
use hermes_rules::{Values, apply, rewrite_path};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, Method, StatusCode};

use super::form;

/// `Proxy-Authentication-Info` (RFC 9110, 11.7.3).
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");

/// The request that arrived as it leaves for `next`, and the target it is for after rewriting.
///
/// # Errors
/// A rewrite or a field that the route adds cannot be written.
pub(crate) fn depart(
    routed: &Routed,
    mut head: RequestHead,
    next: &Next,
) -> Result<(RequestHead, Target), Refusal> {
    let snapshot = &routed.snapshot;
    let route = &routed.route.config;
    let mut target = routed.target.clone();
    rewrite(route, &mut head, &mut target)?;

    if next.receiver() == Receiver::Origin {
        snapshot
            .rules
            .overlay
            .strip(&mut head.fields, &route.expose);
        if !routed.listener.config.is_gateway()
            && !route
                .expose
                .iter()
                .any(|field| field.matches(FORWARDED.as_str()))
        {
            head.fields.remove(FORWARDED);
        }
        head.fields.remove(hop_report::FIELD);
    }

    let preserves = next
        .upstream()
        .is_some_and(|upstream| upstream.preserves_case());
    if !preserves {
        head.fields.forget_spelling();
    }

    let known = !next.is_target() || next.receiver() == Receiver::Proxy;
    trace::leave(&routed.exchange, &mut head.fields, |name| {
        known || trace::names(&route.expose, name)
    });
    change_fields(routed, route, &mut head, &target)?;
    // RFC 9110, 7.6.3: a proxy MUST add itself to Via; after the route's changes, which cannot drop
    // it.
    snapshot.node.via.append(&mut head.fields, head.version);

    if let To::Upstream {
        upstream,
        receiver: Receiver::Proxy,
    } = &next.to
    {
        form::depart(&mut head, route, upstream, &target)?;
        // The form sent to a proxy names the scheme (RFC 9112, 3.2.2).
        if head.kind() != Kind::Connect && head.scheme.is_none() {
            head.scheme = Some(Scheme::HTTP);
        }
        if let Some(token) = snapshot
            .node
            .credentials
            .token
            .as_ref()
            .filter(|_| upstream.sends_token())
        {
            head.fields.insert(PROXY_AUTHORIZATION, token.clone());
        }
    }
    // The server that answers a TRACE shows it to the client (RFC 9110, 9.3.8).
    if let To::Upstream { upstream, receiver } = &next.to
        && head.method != Method::TRACE
    {
        upstream.add_fields(&mut head.fields, *receiver);
    }

    Ok((head, target))
}

fn rewrite(route: &Route, head: &mut RequestHead, target: &mut Target) -> Result<(), Refusal> {
    let Some(rewrite) = &route.rewrite else {
        return Ok(());
    };
    if let Some(new) = &rewrite.target {
        *target = Target::host_port(new.host.clone(), new.port);
        target.write_into(head)?;
    }

    if let (Some(change), Some(path), Kind::Message | Kind::Upgrade) =
        (&rewrite.path, &head.path, head.kind())
    {
        let rewritten = rewrite_path(path, change).map_err(|error| {
            Refusal::new(
                ProxyError::ProxyConfigurationError,
                format!("the rewritten path is bad: {error}"),
            )
        })?;
        if rewritten.is_some() {
            head.path = rewritten;
        }
    }

    Ok(())
}

fn change_fields(
    routed: &Routed,
    route: &Route,
    head: &mut RequestHead,
    target: &Target,
) -> Result<(), Refusal> {
    let unchanged = route.set.is_empty() && route.append.is_empty() && route.remove.is_empty();
    // The server that answers a TRACE shows it to the client (RFC 9110, 9.3.8), who must not see fields that the operator adds.
    if unchanged || head.method == Method::TRACE {
        return Ok(());
    }

    let asked = head.path.clone();
    let method = head.method.clone();
    let values = Values {
        path: asked.as_ref().map_or("", PathAndQuery::path),
        query: asked.as_ref().and_then(PathAndQuery::query),
        method: method.as_str(),
        ..routed.values(target)
    };

    apply(
        &route.set,
        &route.append,
        &route.remove,
        &mut head.fields,
        &values,
    )
    .map_err(|bad| {
        Refusal::new(
            ProxyError::ProxyInternalError,
            format!("field {}: {}", bad.name, bad.reason),
        )
    })
}

/// A proxy with a template is addressed by its own authority (RFC 9298, 3): that of its template, or else of the endpoint which was chosen.
pub(crate) fn address_proxy<'a>(
    head: &'a RequestHead,
    endpoint: &str,
    next: &Next,
) -> Cow<'a, RequestHead> {
    if !head.kind().is_templated() {
        return Cow::Borrowed(head);
    }
    if let Some((scheme, authority)) = next.template(head.kind()).and_then(UriTemplate::origin) {
        let scheme = Some(scheme.clone());
        let authority = Some(authority.clone());
        return Cow::Owned(RequestHead {
            authority,
            scheme,
            ..head.clone()
        });
    }

    // A Unix socket has no authority; the name says only that it is the proxy itself.
    let authority =
        Authority::try_from(endpoint).unwrap_or_else(|_| Authority::from_static("localhost"));
    let scheme = Some(if next.is_tls() {
        Scheme::HTTPS
    } else {
        Scheme::HTTP
    });

    Cow::Owned(RequestHead {
        authority: Some(authority),
        scheme,
        ..head.clone()
    })
}

/// The challenge of a hop is for this proxy, never for the client (RFC 9110, 11.7.1 and 11.7.3).
pub(crate) fn keep_own_challenge(head: &mut ResponseHead) {
    head.fields.remove(PROXY_AUTHENTICATE);
    head.fields.remove(PROXY_AUTHENTICATION_INFO);
    if head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        head.status = StatusCode::BAD_GATEWAY;
    }
}

/// Why a next proxy that wants other credentials takes nothing. One that says why itself, as Hermes does, needs no words of ours.
pub(crate) fn unaccepted(routed: &Routed, next: &Next, head: &ResponseHead) -> Option<Refusal> {
    let upstream = next
        .upstream()
        .filter(|_| next.receiver() == Receiver::Proxy)?;
    let wanted = upstream.wanted_credentials(
        head.status,
        routed.snapshot.node.credentials.token.is_some(),
    )?;
    if proxy_status::first_error(&head.fields).is_some() {
        return None;
    }

    let details = format!("the next proxy answered {}: {wanted}", head.status);
    let refusal = Refusal::new(ProxyError::DestinationUnavailable, details);
    Some(
        refusal
            .status(StatusCode::BAD_GATEWAY)
            .next_hop(next.name()),
    )
}

/// Adds the fields by which a tunnel of packets asks the next proxy for a session, and for the datagrams that it understands.
pub(crate) fn ask(routed: &Routed, asked: Asked, head: &mut RequestHead) {
    asked.write(&mut head.fields);
    head.fields
        .insert(datagram_limit::FIELD, datagram_limit::understood());
    let floor = floor(routed, head);

    // That of CONNECT-IP is every proxy's.
    if floor > 0 && head.kind() != Kind::ConnectIp {
        head.fields
            .insert(datagram_floor::FIELD, datagram_floor::value(floor));
    }
}

/// Bytes of the UDP payloads that go as capsules where QUIC datagrams are too small for them. A client of plain UDP knows of no tunnel, and
/// cannot find out what fits. A client of CONNECT-UDP can (RFC 9298, 6.1), unless it asks for more.
pub(crate) fn floor(routed: &Routed, head: &RequestHead) -> usize {
    // Every link of IPv6 carries as much (RFC 9484, section 7.1), also one over a narrow path of QUIC.
    if head.kind() == Kind::ConnectIp {
        return MIN_MTU_V6;
    }
    let datagrams = routed.route.config.datagrams.as_ref();
    if routed.listener.config.capture().is_some() {
        // Its clients are told by ICMP how large their datagrams may be.
        let stated = datagrams.and_then(|datagrams| datagrams.oversize);
        return match stated {
            Some(Oversize::Capsule) => datagram_floor::ALL,
            Some(Oversize::Drop) | None => CAPTURED_FLOOR,
        };
    }
    if routed.listener.config.udp().is_none() {
        return datagram_floor::of(&head.fields);
    }
    match routed.listener.oversize(datagrams) {
        Oversize::Capsule => datagram_floor::ALL,
        Oversize::Drop => 0,
    }
}
