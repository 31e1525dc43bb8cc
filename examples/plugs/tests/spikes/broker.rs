//! A handler that opens an exchange of its own and answers several clients with it.

use std::collections::HashMap;

use hermes_example_plugs::broker::Broker;
use hermes_example_plugs::zones::Zones;
use hermes_plug::Plugs;
use http::uri::Authority;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::node::{Node, hear, say};

/// What the origin begins its answer with.
const BEGIN: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A node whose channels come from this port.
fn node(port: u16) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes:\n  \
         - {{ match: {{ target: CHANNELS }}, handle: relay }}\n  \
         - {{ match: {{ target: FEED }}, terminate: \"127.0.0.1:{port}\" }}\n"
    );
    let broker = Broker::new(Authority::from_static("FEED"));
    Node::start("broker", &yaml, Plugs::new().handler("relay", broker))
}

/// Asks for a channel, and waits for the head of the answer.
async fn subscribe(node: &Node) -> TcpStream {
    let mut client = node.connect().await;
    say(
        &mut client,
        "GET http://CHANNELS/news HTTP/1.1\r\nHost: CHANNELS\r\n\r\n",
    )
    .await;
    let head = hear(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    client
}

#[tokio::test]
async fn one_exchange_answers_many_clients() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node(origin.local_addr().unwrap().port());
    let mut first = subscribe(&node).await;
    let (mut feed, _) = origin.accept().await.unwrap();
    let question = hear(&mut feed, "\r\n\r\n").await;
    assert!(question.starts_with("GET /news HTTP/1.1\r\n"), "{question}");
    let mut second = subscribe(&node).await;
    let mut third = subscribe(&node).await;

    say(&mut feed, &format!("{BEGIN}5\r\nhello\r\n")).await;
    for client in [&mut first, &mut second, &mut third] {
        hear(client, "hello").await;
    }
    drop(third);
    say(&mut feed, "5\r\nworld\r\n0\r\n\r\n").await;
    for client in [&mut first, &mut second] {
        // With the end of the chunks: the channel has ended well.
        hear(client, "world\r\n0\r\n\r\n").await;
    }
    node.end().await;
}

#[tokio::test]
async fn the_exchange_ends_when_no_client_is_left() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node(origin.local_addr().unwrap().port());
    let mut client = subscribe(&node).await;
    let (mut feed, _) = origin.accept().await.unwrap();
    hear(&mut feed, "\r\n\r\n").await;
    say(&mut feed, &format!("{BEGIN}5\r\nhello\r\n")).await;
    hear(&mut client, "hello").await;
    // A reset: that a client of HTTP/1.1 has closed is seen only when something is sent to it.
    client.set_zero_linger().unwrap();
    drop(client);
    let mut rest = Vec::new();
    // An end or a reset: the node reads no more of it.
    let _ = feed.read_to_end(&mut rest).await;
    assert!(rest.is_empty());

    // Who asks now gets a new exchange.
    let mut again = subscribe(&node).await;
    let (mut feed, _) = origin.accept().await.unwrap();
    hear(&mut feed, "\r\n\r\n").await;
    say(&mut feed, &format!("{BEGIN}5\r\nagain\r\n")).await;
    hear(&mut again, "again").await;
    node.end().await;
}

#[tokio::test]
async fn a_broken_channel_is_broken_for_its_clients() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node(origin.local_addr().unwrap().port());
    let mut client = subscribe(&node).await;
    let (mut feed, _) = origin.accept().await.unwrap();
    hear(&mut feed, "\r\n\r\n").await;
    say(&mut feed, &format!("{BEGIN}5\r\nhel")).await;
    drop(feed);
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "it ended as if it were whole"
    );
    node.end().await;
}

#[tokio::test]
async fn a_tunnel_does_not_reach_a_handler() {
    let node = node(9);
    let mut client = node.connect().await;
    say(
        &mut client,
        "CONNECT CHANNELS:80 HTTP/1.1\r\nHost: CHANNELS:80\r\n\r\n",
    )
    .await;
    let answer = hear(&mut client, "takes requests, no tunnels").await;
    assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
    node.end().await;
}

#[tokio::test]
async fn filters_are_asked_about_exchanges_that_a_handler_opens() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = origin.local_addr().unwrap().port();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         authorize: [ {{ name: zones, filter: zones, match: {{ target: FEED }} }} ]\nroutes:\n  \
         - {{ match: {{ target: CHANNELS }}, handle: relay }}\n  \
         - {{ match: {{ target: FEED }}, terminate: \"127.0.0.1:{port}\" }}\n"
    );
    let broker = Broker::new(Authority::from_static("FEED"));
    let plugs = Plugs::new()
        .handler("relay", broker)
        .filter("zones", Zones(HashMap::new()));
    let node = Node::start("broker", &yaml, plugs);

    let mut client = subscribe(&node).await;
    let mut rest = Vec::new();
    tokio::select! {
        _ = origin.accept() => panic!("no filter was asked about the exchange of the handler"),
        // The channel ends without a word.
        _ = client.read_to_end(&mut rest) => assert!(!rest.starts_with(b"HTTP")),
    }
    node.end().await;
}
