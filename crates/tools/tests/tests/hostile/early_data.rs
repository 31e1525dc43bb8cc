//! First flights of QUIC from addresses that never answer, at a listener that takes early data.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use hermes_net::quic::{ClientConfig, Endpoint, Record};
use hermes_net::tls::{self, ClientOptions};
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, Pki, curl, runtime};

/// More than the listener takes, and more than one source may have.
const FORGED: usize = 200;

/// Who is said to send them.
const VICTIM: &str = "127.0.0.9";

/// The first packet of this many connections, none of which will go on.
fn first_flights(pki: &Pki, count: usize) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let ca = pki.ca();
    let options = ClientOptions {
        authorities: Some((&ca).into()),
        alpn: &[b"h3"],
        ..ClientOptions::default()
    };
    let tls = tls::client(options).unwrap();
    let config = Arc::new(ClientConfig::new(&tls, false, Record::default()).unwrap());
    let (to, mut room) = (sink.local_addr().unwrap(), [0; 2048]);
    let (mut clients, mut flights) = (Vec::new(), BTreeMap::new());
    while flights.len() < count {
        let config = config.clone();
        clients.push(runtime::handle().spawn(async move {
            let endpoint = Endpoint::client(to).unwrap();
            drop(endpoint.connect(to, "127.0.0.1", &config).await);
        }));
        // Earlier ones are sent again; each connection has an identifier of its own (RFC 9000, 17.2).
        let known = flights.len();
        while flights.len() == known {
            let length = sink.recv(&mut room).unwrap();
            let packet = &room[..length];
            flights
                .entry(packet[6..6 + usize::from(packet[5])].to_vec())
                .or_insert_with(|| packet.to_vec());
        }
    }
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    flights.into_values().collect()
}

/// Packets that have come, of which the first byte shows that they are Retry (RFC 9000, 17.2.5).
fn retries(socket: &UdpSocket) -> usize {
    let (mut count, mut room) = (0, [0; 2048]);
    while let Ok(length) = socket.recv(&mut room) {
        count += usize::from(length > 0 && room[0] & 0xf0 == 0xf0);
    }
    count
}

#[test]
fn forged_first_flights_neither_fill_a_listener_nor_lock_their_source_out() {
    let pki = Pki::new();
    let yaml = format!(
        r#"
        workers: 1
        listeners:
          web:
            http: 127.0.0.1:0
            tls: {{ {}, early_data: true }}
            limits: {{ connections: 150, per_source: 100 }}
        routes: [ {{ respond: {{ status: 204 }} }} ]
        "#,
        pki.issue(&["127.0.0.1"]).yaml()
    );
    let node = Node::start("edge", &yaml);
    let address: SocketAddr = node.address("web");
    let attacker = UdpSocket::bind((VICTIM, 0)).unwrap();
    attacker.connect(address).unwrap();
    attacker
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();

    let mut asked_to_prove = 0;
    for flight in first_flights(&pki, FORGED) {
        attacker.send(&flight).unwrap();
    }
    eventually_true("further ones must prove their address", || {
        asked_to_prove += retries(&attacker);
        asked_to_prove > 50
    });

    let ca = pki.ca();
    let over_tcp = |interface: &str| {
        let ca = ca.to_str().unwrap();
        curl(&[
            "--interface",
            interface,
            "--proxy-cacert",
            ca,
            "-x",
            &format!("https://{address}"),
            "http://a/",
        ])
        .status
    };
    assert_eq!(
        over_tcp(VICTIM),
        204,
        "whose address was used is served over TCP"
    );
    let quic = runtime::block_on(async {
        let options = ClientOptions {
            authorities: Some((&ca).into()),
            alpn: &[b"h3"],
            ..ClientOptions::default()
        };
        let config =
            ClientConfig::new(&tls::client(options).unwrap(), false, Record::default()).unwrap();
        let endpoint = Endpoint::client(address).unwrap();
        let connection = endpoint.connect(address, "127.0.0.1", &config).await;
        connection
            .map(|connection| connection.close(0x100, b""))
            .map_err(|error| error.to_string())
    });
    assert_eq!(quic, Ok(()), "others are served over HTTP/3");
}
