//! Tunnels whose client is told that they are open before they are: `tunnel: { answer: early }` of the route.
//!
//! It saves the client a round trip of the whole path. What fails later cannot be told any more: the client sees a reset, and the record
//! has the reason.

use hermes_http::{Kind, StreamError};
use hermes_proto::fields::Fields;
use hermes_proto::{resumable, transform};

use super::form;
use crate::arrival::Arrival;
use crate::routed::Routed;

/// Answers the client of a tunnel of bytes.
///
/// # Errors
/// The client is gone.
pub(super) async fn give(routed: &Routed, arrival: Arrival) -> Result<Arrival, StreamError> {
    let kind = arrival.kind();
    let offered = match arrival {
        Arrival::Offered(offered) if matches!(kind, Kind::Connect | Kind::ConnectTcp) => offered,
        other => return Ok(other),
    };

    // What a peer asks for is answered by the end that knows.
    let asks = [resumable::FIELD, transform::FIELD];
    let is_asked = asks
        .iter()
        .any(|field| offered.head.fields.contains_key(field));
    if offered.is_held() || is_asked {
        return Ok(Arrival::Offered(offered));
    }

    routed
        .exchange
        .status(offered.head.opening_status().as_u16());
    let mut fields = Fields::new();
    form::announce(kind, &mut fields);
    offered.accept_early(fields).await.map(Arrival::Offered)
}
