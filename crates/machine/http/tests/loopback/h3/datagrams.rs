//! Datagrams of tunnels (RFC 9297), beside their streams.

use bytes::Bytes;
use hermes_http::h3::{DatagramReceiver, DatagramSender, Lost};
use hermes_http::{Incoming, Offered, Outgoing, RequestHead};
use hermes_proto::fields::Fields;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::content::upgrade;
use crate::server::Server;
use crate::{H2, H3, bounded};

/// One end of a tunnel.
pub(super) struct End {
    incoming: Incoming,
    outgoing: Outgoing,
    receive: DatagramReceiver,
    pub(super) send: DatagramSender,
}

impl End {
    fn new(mut incoming: Incoming, outgoing: Outgoing) -> Self {
        let (receive, send) = (incoming.datagrams().unwrap(), outgoing.datagrams().unwrap());
        assert!(incoming.datagrams().is_none(), "there is one receiver");
        Self {
            incoming,
            outgoing,
            receive,
            send,
        }
    }

    pub(super) fn send(&self, text: &str) -> bool {
        self.send.send(&[0], [text.as_bytes()]).sent == 1
    }

    pub(super) async fn receive(&mut self) -> Vec<Bytes> {
        let mut into = Vec::new();
        assert!(self.receive.recv(&mut into, 1000).await);
        into
    }
}

/// A server that hands out its ends of tunnels.
pub(super) async fn serve() -> (Server, mpsc::UnboundedReceiver<End>) {
    let (give, ends) = mpsc::unbounded_channel();
    let answer = move |offered: Offered| {
        let give = give.clone();
        async move {
            let (incoming, outgoing) = offered.accept(Fields::new()).await.unwrap();
            let end = End::new(incoming, outgoing);
            let _ = give.send(end);
        }
    };
    (Server::start(answer).await, ends)
}

fn udp() -> RequestHead {
    upgrade("connect-udp")
}

pub(super) async fn open(client: &Client) -> End {
    let (_, incoming, outgoing) = client.tunnel(&udp()).await;
    End::new(incoming, outgoing)
}

#[tokio::test]
async fn datagrams_reach_the_tunnel_that_they_were_sent_on() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let client = server.client(H3).await;
        let mut tunnels = Vec::new();
        for number in 0..8 {
            let (near, far) = (open(&client).await, ends.recv().await.unwrap());
            assert!(near.send(&format!("up {number}")) && far.send(&format!("down {number}")));
            tunnels.push((near, far));
        }
        for (number, (near, far)) in tunnels.iter_mut().enumerate() {
            assert_eq!(far.receive().await, [format!("\0up {number}")]);
            assert_eq!(near.receive().await, [format!("\0down {number}")]);
        }
    })
    .await;
}

#[tokio::test]
async fn many_go_and_come_at_once() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let client = server.client(H3).await;
        let (near, mut far) = (open(&client).await, ends.recv().await.unwrap());
        let payload = [7; 1000];
        let sent = near
            .send
            .send(&[0], std::iter::repeat_n(&payload[..], 300))
            .sent;
        assert!(sent >= 300, "{sent}");
        let mut seen = 0;
        while seen < sent {
            let came = far.receive().await;
            assert!(came.iter().all(|datagram| datagram.len() == 1001));
            seen += came.len();
        }
        // Passed on unchanged, without decoding and encoding it again.
        assert_eq!(far.send.forward([Bytes::from_static(b"\0back")]).sent, 1);
    })
    .await;
}

#[tokio::test]
async fn one_that_is_too_large_is_dropped_and_counted() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let client = server.client(H3).await;
        let (near, mut far) = (open(&client).await, ends.recv().await.unwrap());
        let largest = near.send.max_payload();
        let (fits, too_large) = (vec![1; largest - 1], vec![2; 2000]);
        let sent = near.send.send(&[0], [&too_large[..], &fits[..]]);
        assert_eq!((sent.sent, sent.too_large, sent.dropped), (1, 1, 0));
        assert_eq!(far.receive().await[0].len(), largest);
    })
    .await;
}

#[tokio::test]
async fn the_oldest_go_when_no_one_takes_them() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let client = server.client(H3).await;
        let (near, mut far) = (open(&client).await, ends.recv().await.unwrap());
        let mut lost = Lost::default();
        while lost.datagrams == 0 {
            near.send
                .send(&[], std::iter::repeat_n(&b"a datagram"[..], 200));
            tokio::task::yield_now().await;
            lost = far.receive.take_lost();
        }
        assert_eq!(lost.bytes, lost.datagrams * 10);
        assert!(far.receive().await.len() > 900);
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_stream_is_the_end_of_its_datagrams() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let client = server.client(H3).await;
        let (mut near, mut far) = (open(&client).await, ends.recv().await.unwrap());
        near.outgoing.finish(None).await.unwrap();
        assert!(!near.send("after the end"));
        assert!(far.incoming.frame().await.is_none());
        assert!(!far.receive.recv(&mut Vec::new(), 10).await);
        // The other direction goes on.
        assert!(far.send("still"));
        assert_eq!(near.receive().await, ["\0still"]);
    })
    .await;
}

#[tokio::test]
async fn there_are_none_over_http2() {
    bounded(async {
        let server = Server::start(async |offered: Offered| {
            let (mut incoming, outgoing) = offered.accept(Fields::new()).await.unwrap();
            assert!(incoming.datagrams().is_none() && outgoing.datagrams().is_none());
        })
        .await;
        let (_, mut incoming, outgoing) = server.client(H2).await.tunnel(&udp()).await;
        assert!(incoming.datagrams().is_none() && outgoing.datagrams().is_none());
    })
    .await;
}

/// Only packet tunnels have datagrams: those of a byte tunnel would wait in a queue that no one
/// reads.
#[tokio::test]
async fn there_are_none_for_a_tunnel_of_bytes() {
    bounded(async {
        let server = Server::start(async |offered: Offered| {
            let (mut incoming, mut outgoing) = offered.accept(Fields::new()).await.unwrap();
            assert!(incoming.datagrams().is_none() && outgoing.datagrams().is_none());
            assert!(incoming.frame().await.is_none());
            outgoing.finish(None).await.unwrap();
        })
        .await;
        let head = upgrade("websocket");
        let (_, mut incoming, mut outgoing) = server.client(H3).await.tunnel(&head).await;
        assert!(incoming.datagrams().is_none() && outgoing.datagrams().is_none());
        outgoing.finish(None).await.unwrap();
        assert!(incoming.frame().await.is_none());
    })
    .await;
}
