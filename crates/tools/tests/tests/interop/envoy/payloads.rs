//! What is sent through an overlay, and what must come out of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use hermes_tests::curl::Output;
use hermes_tests::origins::{GREETING, farewell};
use hermes_tests::raw::{End, Raw};
use hermes_tests::{curl, eventually, udp};

use super::overlay::Origins;

/// More than the buffers of one hop hold at a time.
const BYTES: usize = 300_000;

/// Datagrams of a burst.
const BURST: u16 = 200;

/// GET and POST, whose content comes back. Returns what curl got for the GET.
pub fn messages(proxy: &str, origins: &Origins) -> Output {
    let got = curl(&["-x", proxy, "http://VIDEO/films?of=1936"]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    let seen = origins.video.last();
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("GET", "/films?of=1936")
    );
    assert_eq!(seen.host().as_deref(), Some("VIDEO"));
    let content = "ten bytes ".repeat(BYTES / 10);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &content).unwrap();
    let posted = curl(&[
        "-x",
        proxy,
        "--data-binary",
        &format!("@{}", file.path().display()),
        "http://VIDEO/echo",
    ]);
    assert_eq!(
        (posted.exit, posted.status),
        (0, 200),
        "{} {:?}",
        posted.stderr,
        posted.heads
    );
    assert!(
        posted.body == content.as_bytes(),
        "{} bytes came back",
        posted.body.len()
    );
    got
}

/// CONNECT to an origin under TLS, whose HTTP/2 no proxy sees.
pub fn sealed(proxy: &str, origins: &Origins) {
    let ca = origins.pki.ca();
    let got = curl(&[
        "-x",
        proxy,
        "--cacert",
        ca.to_str().unwrap(),
        "--http2",
        "https://SECURE/vault",
    ]);
    assert_eq!(
        (got.exit, got.connect_status, got.status),
        (0, 200, 200),
        "{got:?}"
    );
    assert_eq!(got.version, "2");
    assert_eq!(origins.secure.last().path, "/vault");
}

/// A TCP server that speaks first; the client ends its direction, and hears the farewell all the same.
pub fn conversation(port: SocketAddr) {
    let mut client = Raw::connect(port);
    talk(&mut client);
    client.finish();
    assert_eq!(client.rest(), (farewell(BYTES).into_bytes(), End::Closed));
}

/// As [`conversation`], but the client closes without waiting for the farewell; the server must have heard everything.
pub fn conversation_without_farewell(port: SocketAddr, origins: &Origins) {
    let mut client = Raw::connect(port);
    talk(&mut client);
    drop(client);
    let heard = eventually("the server hears the end", || origins.db.seen().pop());
    assert_eq!(heard.len(), BYTES);
}

fn talk(client: &mut Raw) {
    assert_eq!(client.exactly(GREETING.len()), GREETING.as_bytes());
    let content: Vec<u8> = (0..BYTES)
        .map(|position| position.to_le_bytes()[1])
        .collect();
    for piece in content.chunks(BYTES / 10) {
        client.send(piece);
        assert!(
            client.exactly(piece.len()) == piece,
            "the bytes came back changed"
        );
    }
}

/// Datagrams of 1, 1,200 and 8,000 bytes, then a burst, of which none may be lost on one machine.
pub fn datagrams(port: SocketAddr) {
    let client = udp::Client::connect(port);
    // The session is open once this comes back; its repetitions may come back later.
    client.ask("open");
    let next = || {
        eventually("a datagram", || {
            client
                .receive_within(WAIT)
                .filter(|datagram| datagram != b"open")
        })
    };
    for size in [1, 1_200, 8_000] {
        let sent = vec![b'd'; size];
        client.send(&sent);
        assert!(
            next() == sent,
            "a datagram of {size} bytes came back changed"
        );
    }
    for number in 0..BURST {
        client.send([&number.to_be_bytes()[..], &[0; 98]].concat());
    }
    let mut back = BTreeSet::new();
    while back.len() < usize::from(BURST) {
        let Some(datagram) = client.receive_within(WAIT) else {
            break;
        };
        back.extend(
            datagram
                .first_chunk()
                .map(|number| u16::from_be_bytes(*number))
                .filter(|_| datagram.len() == 100),
        );
    }
    assert_eq!(
        back.len(),
        usize::from(BURST),
        "datagrams of the burst that came back"
    );
}

/// Silence after which a datagram counts as lost.
const WAIT: Duration = Duration::from_secs(2);
