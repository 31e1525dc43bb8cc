//! A transform without a peer.

use hermes_example_plugs::capitals::Capitals;
use hermes_plug::Plugs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::node::{Node, hear, say};

#[tokio::test]
async fn the_bytes_of_a_tunnel_are_changed_on_their_way() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = origin.local_addr().unwrap();
    let yaml = format!(
        "listeners: {{ door: {{ tcp: 127.0.0.1:0, target: \"DB:1\" }} }}\n\
         routes: [ {{ terminate: \"{address}\", through: [capitals] }} ]\n"
    );
    let plugs = Plugs::new().transform("capitals", Capitals);
    let node = Node::start("capitals", &yaml, plugs);
    let mut client = node.connect().await;
    let (mut target, _) = origin.accept().await.unwrap();
    say(&mut client, "hello").await;
    hear(&mut target, "HELLO").await;
    say(&mut target, "welcome").await;
    hear(&mut client, "welcome").await;

    // The end of one direction passes, and the other goes on.
    client.shutdown().await.unwrap();
    assert_eq!(target.read(&mut [0]).await.unwrap(), 0);
    say(&mut target, "goodbye").await;
    drop(target);
    hear(&mut client, "goodbye").await;
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    node.end().await;
}
