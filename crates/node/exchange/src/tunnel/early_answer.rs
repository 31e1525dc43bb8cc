//! Tunnels whose client is told that they are open before they are: `tunnel: { answer: early }` of the route.
//!
//! It saves the client a round trip of the whole path. A later failure can only be a reset: the record
//! has the reason.

use hermes_admit::routed::Routed;
use hermes_http::{Kind, Offered, StreamError};
use hermes_plug::arrival::Arrival;
use hermes_proto::fields::Fields;
use hermes_proto::{functions_field, resumable, transform};

use crate::reach::form;

/// Whether the client of a tunnel may be told before it is known whether the target answers. Not if it shares its target's fate; and what a
/// peer asks for is answered by the end that knows.
pub(crate) fn may_be_given(offered: &Offered) -> bool {
    let asks = [resumable::FIELD, transform::FIELD, functions_field::FIELD];
    let mut asks = asks.iter();
    !offered.is_held() && !asks.any(|field| offered.head.fields.contains_key(field))
}

/// Answers the client of a tunnel of bytes.
///
/// # Errors
/// The client is gone.
pub(crate) async fn give(routed: &Routed, arrival: Arrival) -> Result<Arrival, StreamError> {
    let kind = arrival.kind();
    let offered = match arrival {
        Arrival::Offered(offered) if matches!(kind, Kind::Connect | Kind::ConnectTcp) => offered,
        other => return Ok(other),
    };

    if !may_be_given(&offered) {
        return Ok(Arrival::Offered(offered));
    }

    routed
        .exchange
        .status(offered.head.opening_status().as_u16());
    let mut fields = Fields::new();
    form::announce(kind, &mut fields);
    offered.accept_early(fields).await.map(Arrival::Offered)
}

#[cfg(test)]
mod tests {
    use hermes_http::{HeldClient, Incoming, Outgoing, Replying, RequestHead, ResponseHead};
    use hermes_net::{PeerAddress, StreamInfo};
    use http::{HeaderValue, Method, Version};

    use super::*;

    /// A client that shares the fate of its target.
    #[derive(Debug)]
    struct Sharing;

    impl HeldClient for Sharing {
        fn accept(self: Box<Self>, _: Fields) -> Replying<(Incoming, Outgoing)> {
            Box::pin(std::future::ready(Ok((Incoming::Empty, Outgoing::Ended))))
        }

        fn respond(self: Box<Self>, _: ResponseHead, _: Option<u64>) -> Replying<Outgoing> {
            Box::pin(std::future::ready(Ok(Outgoing::Ended)))
        }
    }

    fn offered() -> Offered {
        let head = RequestHead {
            method: Method::CONNECT,
            scheme: None,
            authority: Some("db:5432".parse().unwrap()),
            path: None,
            protocol: None,
            fields: Fields::new(),
            version: Version::HTTP_11,
            origin_form: false,
        };
        let source = StreamInfo {
            peer: PeerAddress::Ip("192.0.2.1:1".parse().unwrap()),
            local: None,
            tls: None,
            origin: None,
        };
        *Offered::held(head, source.into(), Incoming::Empty, Box::new(Sharing))
    }

    #[tokio::test]
    async fn who_shares_the_fate_of_the_target_is_not_answered_before_it() {
        assert!(!may_be_given(&offered()));

        // Once it was answered, it is as any other.
        let answered = Box::new(offered()).accept_early(Fields::new());
        let mut answered = answered.await.unwrap();
        assert!(may_be_given(&answered));
        let asks = HeaderValue::from_static("?1");
        answered.head.fields.insert(resumable::FIELD, asks);
        assert!(!may_be_given(&answered), "the end that knows answers");
    }
}
