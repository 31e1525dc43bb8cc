//! Bytes that a client sends before its tunnel is open: they travel behind the CONNECT, and arrive once.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, runtime};
use tokio::sync::mpsc;

/// What a next proxy does with a CONNECT, once it has heard what came with it.
#[derive(Clone, Copy)]
enum Act {
    /// Accepts it, and sends those bytes back.
    Echo,
    /// Accepts it and ends it.
    End,
    /// Resets the stream with this.
    Reset(Reason),
}

/// A next proxy over HTTP/2 that acts like this, one CONNECT after the other; what it heard with each before it answered. To one that
/// it ends it answers at once.
fn next_proxy(acts: &'static [Act]) -> (SocketAddr, mpsc::UnboundedReceiver<Bytes>) {
    let listener = runtime::block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, hears) = mpsc::unbounded_channel();
    runtime::handle().spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let mut acts = acts.iter();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let (heard, act) = (heard.clone(), *acts.next().unwrap());
            tokio::spawn(async move {
                let mut content = request.into_body();
                if matches!(act, Act::End) {
                    return drop(answer(&mut respond).send_data(Bytes::new(), true));
                }
                let data = content.data().await.unwrap().unwrap();
                heard.send(data.clone()).unwrap();
                match act {
                    Act::Reset(reason) => respond.send_reset(reason),
                    Act::Echo | Act::End => {
                        let mut sender = answer(&mut respond);
                        sender.send_data(data, false).unwrap();
                        while let Some(Ok(_)) = content.data().await {}
                        drop(sender.send_data(Bytes::new(), true));
                    }
                }
            });
        }
    });
    (address, hears)
}

fn answer(respond: &mut SendResponse<Bytes>) -> h2::SendStream<Bytes> {
    respond
        .send_response(http::Response::new(()), false)
        .unwrap()
}

/// A node that makes each connection a CONNECT to `next`; `keys` are further ones of the upstream.
fn node(next: SocketAddr, keys: &str) -> Node {
    Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ db: {{ tcp: 127.0.0.1:0, target: "DB:5432" }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {{ endpoints: ["{next}"], http: 2{keys} }} }}
            workers: 1
            "#
        ),
    )
}

fn hello(node: &Node) -> Raw {
    let mut client = Raw::connect(node.address("db"));
    client.send("hello");
    client
}

#[test]
fn what_a_client_says_first_does_not_wait_for_the_answer() {
    let (next, mut hears) = next_proxy(&[Act::Echo]);
    let node = node(next, "");
    let mut client = hello(&node);
    assert_eq!(client.exactly(5), b"hello");
    assert_eq!(runtime::block_on(hears.recv()).unwrap(), "hello");
    drop(client);
    assert_eq!(node.record(|_| true)["bytes"]["client_to_target"], 5);
}

#[test]
fn it_leaves_again_where_the_first_attempt_certainly_had_no_effect() {
    let (next, mut hears) = next_proxy(&[Act::Reset(Reason::REFUSED_STREAM), Act::Echo]);
    let node = node(next, "");
    let mut client = hello(&node);
    assert_eq!(client.exactly(5), b"hello");
    for _ in 0..2 {
        assert_eq!(runtime::block_on(hears.recv()).unwrap(), "hello");
    }
    drop(client);
    assert_eq!(node.record(|_| true)["bytes"]["client_to_target"], 5);
}

#[test]
fn it_never_leaves_again_where_it_may_have_arrived() {
    // The first tunnel makes the link one that has served: such an attempt is tried again where nothing had been said.
    let (next, mut hears) = next_proxy(&[Act::End, Act::Reset(Reason::CANCEL), Act::Echo]);
    let node = node(next, "");
    assert_eq!(
        Raw::connect(node.address("db")).rest(),
        (Vec::new(), End::Closed)
    );
    assert_eq!(hello(&node).rest(), (Vec::new(), End::Reset));
    assert_eq!(runtime::block_on(hears.recv()).unwrap(), "hello");
    assert_eq!(hello(&node).exactly(5), b"hello");
}

#[test]
fn with_a_retry_policy_nothing_is_said_before_the_answer() {
    let (next, mut hears) = next_proxy(&[Act::End]);
    let node = node(next, ", retry: { on: reset }");
    drop(hello(&node).rest());
    assert!(hears.try_recv().is_err());
}
