//! Short exchanges of every kind: those that work, those that are refused, and those that are broken off.

use std::net::SocketAddr;

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::h2c::Client;
use hermes_tests::origins::{Origin, Request};
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, udp};

/// Servers behind the nodes.
pub struct Places {
    pub site: Origin<Request>,
    pub db: Origin<Vec<u8>>,
    pub voice: Origin<(SocketAddr, Vec<u8>)>,
}

impl Places {
    /// So that this process does not grow either.
    pub fn forget(&self) {
        self.site.forget();
        self.db.forget();
        self.voice.forget();
    }
}

/// Where a visitor comes in.
struct Visit {
    web: SocketAddr,
    db: SocketAddr,
    voice: SocketAddr,
}

/// Exchanges that [`all`] makes, about.
pub const KINDS: usize = 40;

/// One visit of every kind, beginning with another one each time.
pub fn all(alice: &Node, number: usize) {
    let [web, db, voice] = ["web", "db", "voice"].map(|listener| alice.address(listener));
    let visit = Visit { web, db, voice };
    let kinds: [fn(&Visit); 8] = [
        Visit::messages,
        Visit::tunnels,
        Visit::datagrams,
        Visit::session,
        Visit::over_http_2,
        Visit::refused,
        Visit::malformed,
        Visit::broken_off,
    ];
    for at in 0..kinds.len() {
        kinds[(number + at) % kinds.len()](&visit);
    }
}

impl Visit {
    /// Several requests on one connection, with content both ways.
    fn messages(&self) {
        let mut raw = Raw::connect(self.web);
        for length in [0, 10, 100_000] {
            raw.send(format!(
                "GET http://SITE/bytes/{length} HTTP/1.1\r\nHost: SITE\r\n\r\n"
            ));
            let (head, content) = raw.response();
            assert_eq!((head.status(), content.len()), (200, length));
        }
        raw.send("POST http://SITE/post HTTP/1.1\r\nHost: SITE\r\nContent-Length: 50000\r\n\r\n");
        raw.send([b'p'; 50_000]);
        assert_eq!(raw.response().0.status(), 200);
        raw.send(
            "GET http://SITE/chunked/5000 HTTP/1.1\r\nHost: SITE\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(raw.rest().1, End::Closed);
    }

    fn tunnels(&self) {
        for length in [1, 40_000] {
            let mut raw = Raw::tunnel(self.web, "DB:1", "").unwrap();
            raw.send(vec![b't'; length]);
            raw.finish();
            assert_eq!(raw.rest(), (vec![b't'; length], End::Closed));
        }
        let mut port = Raw::connect(self.db);
        port.send("port");
        assert_eq!(port.exactly(4), b"port");
    }

    /// CONNECT-UDP, ended and dropped.
    fn datagrams(&self) {
        for finish in [true, false] {
            let mut tunnel = UdpTunnel::h1(self.web, "VOICE", 1, "").unwrap();
            assert_eq!(tunnel.ask("capsule"), b"capsule");
            if finish {
                tunnel.finish();
                tunnel.rest();
            }
        }
    }

    /// A client of the UDP port, which does not say when it has gone.
    fn session(&self) {
        let client = udp::Client::connect(self.voice);
        assert_eq!(client.ask("hello"), b"hello");
    }

    /// A connection with a few streams of each kind, which is then dropped.
    fn over_http_2(&self) {
        let client = Client::connect(self.web);
        let request = http::Request::get("http://SITE/bytes/20000")
            .body(())
            .unwrap();
        assert_eq!(client.send(request, b"").unwrap().body.len(), 20_000);
        let request = http::Request::post("http://SITE/echo").body(()).unwrap();
        assert_eq!(
            client.send(request, &[b'2'; 30_000]).unwrap().body.len(),
            30_000
        );
        let mut tunnel = client.tunnel("DB:1", &[]).unwrap();
        tunnel.send("stream");
        assert_eq!(tunnel.exactly(6), b"stream");
        let mut capsules = UdpTunnel::h2(&client, self.web, "VOICE", 1, &[]).unwrap();
        assert_eq!(capsules.ask("capsule"), b"capsule");
        tunnel.reset();
        for _ in 0..5 {
            client.reset_at_once("http://SITE/hang").unwrap();
        }
    }

    /// No route, no server, no permission.
    fn refused(&self) {
        for (target, status) in [("NOWHERE:1", 404), ("CLOSED:1", 502), ("127.0.0.1:9", 502)] {
            assert_eq!(
                Raw::tunnel(self.web, target, "").unwrap_err().status(),
                status,
                "{target}"
            );
            let mut raw = Raw::connect(self.web);
            raw.send(format!(
                "GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n"
            ));
            assert_eq!(raw.response().0.status(), status, "{target}");
        }
        assert!(UdpTunnel::h1(self.web, "NOWHERE", 1, "").is_err());
    }

    fn malformed(&self) {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"\x16\x03\x01\x00\x05hello",
            b"POST http://SITE/ HTTP/1.1\r\nHost: SITE\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x01\x99\x99\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00",
        ] {
            let mut raw = Raw::connect(self.web);
            raw.send_if_open(bytes);
            raw.finish();
            raw.rest();
        }
    }

    /// Whatever clients leave in the middle.
    fn broken_off(&self) {
        drop(Raw::connect(self.web));
        let mut half = Raw::connect(self.web);
        half.send("GET http://SITE/ HT");
        half.reset();
        let mut content = Raw::connect(self.web);
        content.send(
            "POST http://SITE/echo HTTP/1.1\r\nHost: SITE\r\nContent-Length: 50000\r\n\r\nsome",
        );
        content.reset();
        let mut slow = Raw::connect(self.web);
        slow.send("GET http://SITE/slow HTTP/1.1\r\nHost: SITE\r\n\r\n");
        assert_eq!(slow.head().status(), 200);
        slow.reset();
        let mut large = Raw::connect(self.web);
        large.send("GET http://SITE/bytes/3000000 HTTP/1.1\r\nHost: SITE\r\n\r\n");
        assert_eq!(large.head().status(), 200);
        large.reset();
        let mut tunnel = Raw::tunnel(self.web, "DB:1", "").unwrap();
        tunnel.send([b'r'; 10_000]);
        tunnel.reset();
    }
}
