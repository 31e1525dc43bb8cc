//! Requests in early data (RFC 8470).

use hermes_http::h3::Link;
use hermes_http::h3::server::serve;
use hermes_http::server::Options;
use hermes_http::{Event, Offered, Processed};
use hermes_net::Drain;
use http::HeaderMap;
use tokio_util::task::TaskTracker;

use super::wire::{Wire, get, headers};
use crate::client::last;
use crate::content::{Content, get as get_head, post, response, upgrade};
use crate::server::{Answer, Server};
use crate::{bounded, quic};

/// Says whether the request said that it came early.
async fn tell(offered: Offered) {
    let early = offered.head.fields.get("early-data").is_some_and(|value| value == "1");
    let _ = offered.refuse(response(if early { 299 } else { 200 }, None), Default::default()).await;
}

/// A client that has been at the server before, and has a ticket.
async fn known(server: &Server) -> hermes_net::quic::ClientConfig {
    let config = quic::client(true);
    let (connection, endpoint) = quic::connect_as(&config, server.address).await;
    assert!(connection.is_confirmed());
    let wire = Wire::new(connection, endpoint);
    assert_eq!(wire.request(&get(&[]), true).await.status().await, 200);
    config
}

#[tokio::test]
async fn a_safe_request_is_served_early_and_says_so_and_another_is_put_off() {
    bounded(async {
        let server = Server::start(tell).await;
        let config = known(&server).await;
        let (connection, endpoint) = quic::connect_as(&config, server.address).await;
        assert!(!connection.is_confirmed());
        let wire = Wire::new(connection, endpoint);
        let mut safe = wire.request(&get(&[]), true).await;
        let lines = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        let mut unsafe_one = wire.request(&headers(&lines), true).await;
        assert_eq!(safe.status().await, 299);
        assert_eq!(unsafe_one.status().await, 425);
        wire.connection.confirmed().await;
        assert_eq!(wire.request(&headers(&lines), true).await.status().await, 200);
    })
    .await;
}

#[tokio::test]
async fn a_link_outlives_early_data_that_the_server_does_not_take() {
    bounded(async {
        let config = known(&Server::start(tell).await).await;
        let (endpoint, drain) = (quic::listen_anew(), Drain::new());
        let (address, watch) = (endpoint.local_addr().unwrap(), drain.watch());
        tokio::spawn(async move {
            let connection = endpoint.accept().await.unwrap().accept().await.unwrap();
            let answer = Answer(async |offered: Offered| {
                let (mut incoming, _outgoing) = offered.accept(HeaderMap::new()).await.unwrap();
                // The client's settings came.
                assert!(incoming.datagrams().is_some());
                while incoming.frame().await.is_some() {}
            });
            serve(connection, &Options::default(), answer, &watch).await;
            drop(endpoint);
        });
        let (connection, _endpoint) = quic::connect_as(&config, address).await;
        assert!(!connection.is_confirmed());
        let link = Link::connect(connection, &TaskTracker::new()).unwrap();
        let refused = match link.open(&get_head(), Some(0)).await {
            Ok((_outgoing, mut pending)) => pending.event(None).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(refused.processed, Processed::No, "{refused}");
        let (mut outgoing, mut pending) = link.open(&upgrade("connect-udp"), None).await.unwrap();
        let Event::Tunnel(_, mut incoming) = pending.event(Some(&mut outgoing)).await.unwrap() else {
            panic!("refused")
        };
        assert!(incoming.datagrams().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_link_sends_only_safe_requests_early() {
    bounded(async {
        let server = Server::start(tell).await;
        let config = known(&server).await;
        let (connection, _endpoint) = quic::connect_as(&config, server.address).await;
        let link = Link::connect(connection.clone(), &TaskTracker::new()).unwrap();
        assert!(!connection.is_confirmed());
        let (mut outgoing, mut pending) = link.open(&post(), None).await.unwrap();
        assert!(connection.is_confirmed());
        outgoing.finish(None).await.unwrap();
        let (head, mut incoming) = last(&mut pending).await.unwrap();
        assert_eq!(head.status, 200);
        Content::receive(&mut incoming).await.unwrap();
        assert_eq!(HeaderMap::new(), post().fields);
    })
    .await;
}
