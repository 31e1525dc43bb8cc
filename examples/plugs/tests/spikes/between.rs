//! Handlers between requests and their next hop that do what they should not, and clients that leave them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_example_plugs::capitals::Capitals;
use hermes_http::Incoming;
use hermes_plug::{Handler, HandlerRequest, Handling, Plugs, Response};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::node::{Node, hear, say};

const GET: &str = "GET http://SITE/ HTTP/1.1\r\nHost: SITE\r\n\r\n";

/// A node whose requests pass a handler on their way to an origin at this port.
fn node(name: &str, handler: impl Handler + 'static, port: u16) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         routes: [ {{ through: [between], terminate: \"127.0.0.1:{port}\" }} ]\n"
    );
    Node::start(name, &yaml, Plugs::new().handler("between", handler))
}

/// Sends each request on twice, keeps both answers, and gives none.
struct Greedy;

impl Handler for Greedy {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(async move {
            let onward = request.onward.unwrap();
            let again = request.head.clone();
            let (one, other) = tokio::join!(
                onward.send(request.head, request.content.into_incoming()),
                onward.send(again, Incoming::Empty),
            );
            let _answers = (one?, other?);
            std::future::pending().await
        })
    }

    fn stands_between(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn whatever_a_handler_sent_on_ends_with_its_client() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = origin.local_addr().unwrap().port();
    let node = node("greedy", Greedy, port);
    // One pair is answered, the other is not.
    for answer in ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ""] {
        let mut client = node.connect().await;
        say(&mut client, GET).await;
        let mut links = Vec::<TcpStream>::new();
        for _ in 0..2 {
            let (mut link, _) = origin.accept().await.unwrap();
            hear(&mut link, "\r\n\r\n").await;
            say(&mut link, answer).await;
            links.push(link);
        }
        drop(client);
        for mut link in links {
            assert!(!matches!(link.read(&mut [0]).await, Ok(1..)));
        }
    }
    node.end().await;
}

/// Asks for what it is asked for itself.
struct Circle(Arc<AtomicUsize>);

impl Handler for Circle {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let content = request.content.into_incoming();
            let (head, content) = request.opener.open(request.head, content).await?;
            Ok(Response::Stream(head, content))
        })
    }

    fn stands_between(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_handler_that_asks_for_what_it_answers_comes_to_an_end() {
    let asked = Arc::new(AtomicUsize::new(0));
    let node = node("circle", Circle(asked.clone()), 9);
    let mut client = node.connect().await;
    say(&mut client, GET).await;
    let answer = hear(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 508 "), "{answer}");
    assert!(asked.load(Ordering::Relaxed) <= 5);
    node.end().await;
}

#[tokio::test]
async fn a_name_that_a_transform_has_too_means_the_transform() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = origin.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         routes: [ {{ through: [between], terminate: \"127.0.0.1:{port}\" }} ]\n"
    );
    let plugs = Plugs::new()
        .handler("between", Circle(asked.clone()))
        .transform("between", Capitals);
    let node = Node::start("same", &yaml, plugs);
    let mut client = node.connect().await;
    say(&mut client, GET).await;
    let (mut link, _) = origin.accept().await.unwrap();
    hear(&mut link, "\r\n\r\n").await;
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    node.end().await;
}
