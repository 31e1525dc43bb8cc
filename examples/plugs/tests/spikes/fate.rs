//! An ingress that holds clients until their target has answered.

use std::io::ErrorKind;

use hermes_example_plugs::fate::Fate;
use hermes_plug::Plugs;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::node::{Node, hear, say};

/// A node whose next proxy is at this port.
fn node(port: u16) -> Node {
    let yaml = format!(
        "listeners: {{ door: {{ tcp: 127.0.0.1:0, ingress: fate }} }}\n\
         routes: [{{ to: next }}]\n\
         upstreams: {{ next: {{ endpoints: [\"127.0.0.1:{port}\"] }} }}\n"
    );
    Node::start("fate", &yaml, Plugs::new().ingress("fate", Fate))
}

/// A client that has said where it wants to go, and the next proxy's connection, which has heard of it.
async fn waiting(node: &Node, proxy: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = node.connect().await;
    say(&mut client, "ORIGIN:80\nhello").await;
    let (mut next, _) = proxy.accept().await.unwrap();
    let asked = hear(&mut next, "\r\n\r\n").await;
    assert!(asked.starts_with("CONNECT ORIGIN:80 HTTP/1.1\r\n"));
    // Nothing was answered, and none of the client's bytes has left.
    assert!(asked.ends_with("\r\n\r\n"));
    let nothing = client.try_read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    (client, next)
}

#[tokio::test]
async fn a_client_is_answered_once_the_target_has_answered() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node(proxy.local_addr().unwrap().port());
    let (mut client, mut next) = waiting(&node, &proxy).await;
    say(&mut next, "HTTP/1.1 200 OK\r\n\r\nwelcome").await;
    hear(&mut client, "OK\nwelcome").await;
    hear(&mut next, "hello").await;
    drop(client);
    // The end passes.
    assert_eq!(next.read(&mut [0]).await.unwrap(), 0);
    node.end().await;
}

#[tokio::test]
async fn a_client_is_reset_where_the_target_fails() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node(proxy.local_addr().unwrap().port());
    let (mut client, mut next) = waiting(&node, &proxy).await;
    say(
        &mut next,
        "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    let reset = client.read(&mut [0]).await.unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    node.end().await;
}

#[tokio::test]
async fn what_names_no_target_is_reset() {
    let node = node(9);
    let mut client = node.connect().await;
    say(&mut client, "no target\n").await;
    let reset = client.read(&mut [0]).await.unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    node.end().await;
}
