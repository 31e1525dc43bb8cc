//! The end of a server: first kindly, then by force.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_http::{Event, Offered, Processed};
use hermes_net::drain::Ended;
use http::StatusCode;
use tokio::sync::{Notify, Semaphore};

use crate::client::last;
use crate::content::{Content, get, hello, response};
use crate::server::Server;
use crate::{H1, H2, H3, PATIENCE, VERSIONS, bounded, each};

/// A server with handlers that report their start and wait for permission to answer.
async fn gated() -> (Server, Arc<Notify>, Arc<Semaphore>) {
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (tell, wait) = (begun.clone(), gate.clone());
    let answer = move |offered: Offered| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            let _permit = wait.acquire().await;
            hello(offered).await;
        }
    };
    (Server::start(answer).await, begun, gate)
}

#[tokio::test]
async fn idle_connections_close_at_once() {
    each(VERSIONS, async |version| {
        let server = Server::start(hello).await;
        let client = server.client(version).await;
        client.exchange(get(), &Content::none()).await.unwrap();
        assert_eq!(server.drain.drain(PATIENCE).await, Ended::Gracefully);
        match &client.link {
            Some(link) => {
                while link.is_alive() {
                    tokio::task::yield_now().await;
                }
            }
            None => client.kept().unwrap().spoilt().await,
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_has_said_nothing_closes_at_once() {
    bounded(async {
        let server = Server::start(hello).await;
        let mut raw = server.raw().await;
        // The second connection is served only after the first was accepted.
        server
            .client(H1)
            .await
            .exchange(get(), &Content::none())
            .await
            .unwrap();
        server.drain.start();
        assert_eq!(raw.rest().await, "");
    })
    .await;
}

#[tokio::test]
async fn a_busy_connection_finishes_and_says_that_it_closes() {
    bounded(async {
        let (server, begun, gate) = gated().await;
        let mut raw = server.raw().await;
        raw.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        begun.notified().await;
        server.drain.start();
        gate.add_permits(1);
        let head = raw.head().await;
        assert!(head.contains("connection: close\r\n"), "{head}");
        assert_eq!(raw.rest().await, "hello");
        assert_eq!(server.drain.drain(PATIENCE).await, Ended::Gracefully);
    })
    .await;
}

#[tokio::test]
async fn a_busy_link_finishes_its_streams_and_takes_no_more() {
    each(&[H2, H3], async |version| {
        let (server, begun, gate) = gated().await;
        let client = server.client(version).await;
        let mut exchanges = Vec::new();
        for _ in 0..3 {
            exchanges.push(client.open(&get(), Some(0)).await.unwrap());
            begun.notified().await;
        }
        server.drain.start();
        // An exchange that is opened now either races with the GOAWAY and is served, or was not
        // processed.
        loop {
            match client.open(&get(), Some(0)).await {
                Ok((_, pending)) => drop(pending),
                Err(error) => {
                    assert_eq!(error.processed, Processed::No);
                    break;
                }
            }
            tokio::task::yield_now().await;
        }
        gate.add_permits(1000);
        for (_, mut pending) in exchanges {
            let (head, mut incoming) = last(&mut pending).await.unwrap();
            assert_eq!(head.status, StatusCode::OK);
            assert_eq!(
                Content::receive(&mut incoming).await.unwrap().bytes,
                "hello"
            );
        }
        assert_eq!(server.drain.drain(PATIENCE).await, Ended::Gracefully);
        while client.link.as_ref().unwrap().is_alive() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn force_ends_the_streams_of_a_link() {
    each(&[H2, H3], async |version| {
        let answer = async |offered: Offered| {
            let mut outgoing = offered
                .message()
                .2
                .respond(response(200, None), None)
                .await
                .unwrap();
            outgoing.data(Bytes::from("begun"), false).await.unwrap();
            outgoing.broken().await;
        };
        let server = Server::start(answer).await;
        let client = server.client(version).await;
        let (_outgoing, mut pending) = client.open(&get(), Some(0)).await.unwrap();
        let Event::Final(_, mut incoming) = pending.event(None).await.unwrap() else {
            panic!("no final response")
        };
        Content::expect(&mut incoming, "begun").await;
        assert!(matches!(
            server.drain.drain(Duration::from_millis(1)).await,
            Ended::Forced { .. }
        ));
        assert!(incoming.frame().await.unwrap().is_err());
    })
    .await;
}
