//! Requests in early data (RFC 8470).

use std::sync::{Arc, Mutex};

use hermes_http::client::QuicLink;
use hermes_http::server::Options;
use hermes_http::server::h3::serve;
use hermes_http::{Cause, Event, Offered};
use hermes_net::Drain;
use hermes_proto::fields::Fields;
use http::{HeaderValue, Method};
use tokio_util::task::TaskTracker;

use super::wire::{Wire, get, headers};
use crate::client::last;
use crate::content::{Content, get as get_head, post, request, response, upgrade};
use crate::server::{Answer, Server};
use crate::{bounded, quic};

/// Says whether the request said that it came early.
async fn tell(offered: Offered) {
    let early = offered
        .head
        .fields
        .get("early-data")
        .is_some_and(|value| value == "1");
    let _ = offered
        .refuse(
            response(if early { 299 } else { 200 }, None),
            Default::default(),
        )
        .await;
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
        let lines = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/"),
        ];
        let mut unsafe_one = wire.request(&headers(&lines), true).await;
        assert_eq!(safe.status().await, 299);
        assert_eq!(unsafe_one.status().await, 425);
        wire.connection.confirmed().await;
        assert_eq!(
            wire.request(&headers(&lines), true).await.status().await,
            200
        );
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
                if offered.head.method == Method::GET {
                    return tell(offered).await;
                }
                let (mut incoming, _outgoing) = offered.accept(Fields::new()).await.unwrap();
                // The client's settings came.
                assert!(incoming.datagrams().is_some());
                while incoming.frame().await.is_some() {}
            });
            serve(connection, &Options::default(), answer, &watch).await;
            drop(endpoint);
        });
        let (connection, _endpoint) = quic::connect_as(&config, address).await;
        assert!(!connection.is_confirmed());
        let link = QuicLink::connect(connection, &TaskTracker::new()).unwrap();
        // Each is sent again, wherever it learnt that it was lost.
        let mut early = Vec::new();
        for _ in 0..3 {
            early.push(link.open(&get_head(), Some(0)).await.unwrap());
        }
        for (_outgoing, mut pending) in early {
            assert_eq!(last(&mut pending).await.unwrap().0.status, 200);
        }
        assert!(link.connection().early_data_was_lost().await);
        let (mut outgoing, mut pending) = link.open(&upgrade("connect-udp"), None).await.unwrap();
        let Event::Tunnel(_, mut incoming) = pending.event(Some(&mut outgoing)).await.unwrap()
        else {
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
        let link = QuicLink::connect(connection.clone(), &TaskTracker::new()).unwrap();
        assert!(!connection.is_confirmed());
        let (mut outgoing, mut pending) = link.open(&post(), None).await.unwrap();
        assert!(connection.is_confirmed());
        outgoing.finish(None).await.unwrap();
        let (head, mut incoming) = last(&mut pending).await.unwrap();
        assert_eq!(head.status, 200);
        Content::receive(&mut incoming).await.unwrap();
        assert_eq!(Fields::new(), post().fields);
    })
    .await;
}

/// A link to a known server, during the handshake.
async fn early_link(server: &Server) -> (QuicLink, hermes_net::quic::Endpoint) {
    let config = known(server).await;
    let (connection, endpoint) = quic::connect_as(&config, server.address).await;
    assert!(!connection.is_confirmed());
    (
        QuicLink::connect(connection, &TaskTracker::new()).unwrap(),
        endpoint,
    )
}

#[tokio::test]
async fn what_is_safe_and_without_content_is_sent_early_and_nothing_else() {
    bounded(async {
        let server = Server::start(tell).await;
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            let (link, _endpoint) = early_link(&server).await;
            let (_outgoing, mut pending) = link.open(&request(method, "/"), Some(0)).await.unwrap();
            assert!(!link.connection().is_confirmed());
            assert_eq!(last(&mut pending).await.unwrap().0.status, 299);
            assert!(!link.connection().early_data_was_lost().await);
        }
        for (method, length) in [
            (Method::GET, None),
            (Method::GET, Some(1)),
            (Method::TRACE, Some(0)),
            (Method::PUT, Some(0)),
        ] {
            let (link, _endpoint) = early_link(&server).await;
            let opened = link
                .open(&request(method.clone(), "/"), length)
                .await
                .unwrap();
            assert!(link.connection().is_confirmed(), "{method} {length:?}");
            drop(opened);
        }
    })
    .await;
}

/// Rejects early requests, and counts them.
async fn too_early(offered: Offered, seen: Arc<Mutex<Vec<bool>>>) {
    let early = offered.head.fields.contains_key("early-data");
    seen.lock().unwrap().push(early);
    let _ = offered
        .refuse(
            response(if early { 425 } else { 200 }, None),
            Default::default(),
        )
        .await;
}

#[tokio::test]
async fn what_comes_too_early_for_the_server_is_sent_once_more() {
    bounded(async {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let counted = seen.clone();
        let server = Server::start(move |offered| too_early(offered, counted.clone())).await;
        let (link, _endpoint) = early_link(&server).await;
        seen.lock().unwrap().clear();
        let (_outgoing, mut pending) = link.open(&get_head(), Some(0)).await.unwrap();
        assert_eq!(last(&mut pending).await.unwrap().0.status, 200);
        assert_eq!(*seen.lock().unwrap(), [true, false]);
        // RFC 8470, 5.2: whether to send it again is up to the one who sent it early first.
        seen.lock().unwrap().clear();
        let (link, _endpoint) = early_link(&server).await;
        seen.lock().unwrap().clear();
        let mut head = get_head();
        head.fields
            .insert("early-data", HeaderValue::from_static("1"));
        let (_outgoing, mut pending) = link.open(&head, Some(0)).await.unwrap();
        assert_eq!(last(&mut pending).await.unwrap().0.status, 425);
        assert_eq!(*seen.lock().unwrap(), [true]);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_goes_away_takes_no_early_request_along_for_ever() {
    bounded(async {
        let server = Server::start(tell).await;
        let config = known(&server).await;
        // Someone who never answers.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (connection, _endpoint) = quic::connect_as(&config, silent.local_addr().unwrap()).await;
        let link = QuicLink::connect(connection, &TaskTracker::new()).unwrap();
        let (_outgoing, mut pending) = link.open(&get_head(), Some(0)).await.unwrap();
        let error = pending.event(None).await.unwrap_err();
        assert!(matches!(error.cause, Cause::Silent(_)), "{error}");
        assert!(!link.is_alive());
    })
    .await;
}
