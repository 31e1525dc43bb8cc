//! Which protocols an Upgrade or an extended CONNECT may switch to.
//!
//! Behind an upgrade are bytes that no route looks at. So only those pass that are known to be one
//! exchange's own: WebSocket, the tunnels that Hermes itself speaks, and those that the route names. A protocol of a whole
//! connection, such as `h2c`, would carry requests past the routes (h2c smuggling), and passes nowhere.
//!
//! An HTTP/1.1 client that offers such a protocol goes on without it, as RFC 9110, section 7.8 allows: it never comes here.
//! Others are refused alike in all versions, because an answer that names the protocol and the key helps more than a
//! response that the client did not mean.

use hermes_http::{Kind, RequestHead};
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::upgrade::Protocol;
use hermes_rules::route::Act;
use http::StatusCode;

use crate::next::CompiledRoute;

/// Refuses a protocol that may not pass (501, RFC 9220, section 3).
pub fn check(route: &CompiledRoute, head: &RequestHead) -> Result<(), Refusal> {
    let Some(protocol) = head
        .protocol
        .as_ref()
        .filter(|_| !permits_upgrade(route, head))
    else {
        return Ok(());
    };

    let details = if protocol.is_of_connections() {
        format!(
            "protocol {protocol} would hide the requests of the connection from the proxy; it is refused"
        )
    } else {
        format!("protocol {protocol} passes only where `upgrades` of the route names it")
    };

    Err(Refusal::new(ProxyError::HttpUpgradeFailed, details).status(StatusCode::NOT_IMPLEMENTED))
}

/// Whether exchanges on this route may switch to the protocol that this one asks for, if it asks for any.
pub(crate) fn permits_upgrade(route: &CompiledRoute, head: &RequestHead) -> bool {
    let Some(protocol) = head
        .protocol
        .as_ref()
        .filter(|_| head.kind() == Kind::Upgrade)
    else {
        return true;
    };
    match protocol {
        Protocol::WebSocket => true,
        // On the way to the proxy that it attaches to. An origin that took it would send requests back here.
        Protocol::Ptth if matches!(route.act, Act::Proxy(_)) => true,
        _ if protocol.is_of_connections() => false,
        _ => route
            .config
            .upgrades
            .iter()
            .any(|name| name.as_str() == protocol.as_str()),
    }
}
