//! An end of packets that is neither UDP nor HTTP, on a CONNECT-UDP tunnel through a node.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use hermes_example_plugs::queues::Queues;
use hermes_http::{Incoming, Outgoing, h1};
use hermes_net::{PeerAddress, Stream};
use hermes_observe::{AccessSink, Begin, Exchange, Telemetry};
use hermes_packet::{Bounds, Left, Limits, PacketDirection, PacketEnd, Side, Sink, Source, Stop};
use hermes_plug::Plugs;
use hermes_proto::datagram::DatagramFormat;
use tokio::net::{TcpStream, UdpSocket};

use super::node::{Node, hear, say};

/// The largest packet that the queues take.
const LARGEST: usize = 100;

/// Packets of each queue.
const MOST: usize = 4;

/// Both directions of a tunnel between the queues and a stream of capsules.
async fn carry(queues: Arc<Queues>, stream: TcpStream, exchange: &Exchange, stop: &Stop) {
    let bounds = Bounds {
        bytes: 1000,
        age: Duration::from_secs(5),
    };
    let (read, write) = Stream::from(stream).split();
    let end = PacketEnd::Device(queues, bounds);
    let mut from_queues = Source::end(&end);
    let to_queues = Sink::End(end);
    let mut from_node = Source::stream(
        Incoming::H1(h1::BodyReceiver::bytes(read)),
        DatagramFormat::UDP,
    );
    let to_node = Sink::stream(
        Outgoing::H1(h1::BodySender::bytes(write)),
        DatagramFormat::UDP,
    );

    let mut limits = Limits::new(0);
    limits.lead(Side::Client, &to_queues, false);
    limits.lead(Side::Target, &to_node, false);
    let direction = |from| PacketDirection {
        exchange,
        from,
        stop,
        alone: true,
        limits: &limits,
        pins: None,
    };
    let up = direction(Side::Client);
    let down = direction(Side::Target);
    let (up, down) = tokio::join!(
        up.run(&mut from_queues, &to_node),
        down.run(&mut from_node, &to_queues)
    );
    assert_eq!((up.unwrap(), down.unwrap()), (Left::Stopped, Left::Stopped));
    to_queues.settle(exchange);
}

/// Sends back what comes.
async fn echo(socket: UdpSocket) {
    let mut buffer = [0; 2000];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
        // A word for it that the queues do not take back.
        let answer = match &buffer[..length] {
            b"large" => vec![0; LARGEST + 1],
            other => other.to_vec(),
        };
        socket.send_to(&answer, peer).await.unwrap();
    }
}

#[tokio::test]
async fn packets_of_a_queue_go_both_ways_and_each_drop_is_counted() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let echo = tokio::spawn(echo(socket));
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes:\n  \
         - {{ match: {{ target: ECHO }}, terminate: \"127.0.0.1:{port}\" }}\n"
    );
    let node = Node::start("queues", &yaml, Plugs::new());
    let mut stream = node.connect().await;
    say(
        &mut stream,
        "GET /.well-known/masque/udp/ECHO/7/ HTTP/1.1\r\nHost: ECHO\r\nConnection: Upgrade\r\n\
         Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n",
    )
    .await;
    let head = hear(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");

    let telemetry = Telemetry::new("queues", AccessSink::off());
    let exchange = telemetry.begin(Begin {
        kind: "connect-udp",
        listener: "queues".into(),
        source: PeerAddress::Ip(([127, 0, 0, 1], 7).into()),
        protocol: "h1",
    });
    let format = DatagramFormat::new(0, LARGEST).unwrap();
    let queues = Arc::new(Queues::new(format, MOST));
    // One more than there is room for, before anything is taken.
    for number in 0..=MOST {
        queues.hand_in(Bytes::from(format!("packet {number}")));
    }

    let stop = Stop::default();
    let mut carried = std::pin::pin!(carry(queues.clone(), stream, &exchange, &stop));
    let talk = async {
        for number in 0..MOST {
            assert_eq!(queues.take_out().await, format!("packet {number}"));
        }
        queues.hand_in(Bytes::from_static(b"large"));
        queues.hand_in(Bytes::from_static(b"last"));
        assert_eq!(queues.take_out().await, "last");
    };
    tokio::select! {
        () = &mut carried => panic!("the directions were not stopped"),
        () = talk => {}
    }
    stop.set();
    carried.await;

    let counters = exchange.counters();
    let came = MOST as u64 + 2;
    assert_eq!(counters.datagrams_in.load(Relaxed), came);
    assert_eq!(counters.datagrams_out.load(Relaxed), came - 1);
    assert_eq!(
        counters.dropped.load(Relaxed),
        2,
        "one without room, one too large"
    );
    echo.abort();
    node.end().await;
}
