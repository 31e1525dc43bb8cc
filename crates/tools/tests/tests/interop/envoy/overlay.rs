//! The overlay that the tests share: origins that have names only there, and the nodes at its two ends.

use std::net::SocketAddr;

use hermes_tests::envoy::bootstrap::Http;
use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::{Node, Pki};

/// What a TCP connection becomes an exchange for.
pub const DB: &str = "DB:5432";

/// Where the overlay goes: an HTTP origin (VIDEO), one under TLS (SECURE), a TCP server that speaks first (DB), UDP (ECHO).
pub struct Origins {
    pub pki: Pki,
    pub video: Origin<Request>,
    pub secure: Origin<Request>,
    pub db: Origin<Vec<u8>>,
    pub echo: Origin<(SocketAddr, Vec<u8>)>,
}

impl Origins {
    pub fn start() -> Self {
        let pki = Pki::new();
        let secure = origins::https(&pki, &["secure"]);
        Self {
            video: origins::http(),
            secure,
            db: origins::tcp_speaks_first(),
            echo: origins::udp_echo(origins::V4),
            pki,
        }
    }

    /// A standalone proxy: Hermes ends the overlay at the origins. `web` is a proxy, `gate` a gateway.
    pub fn standalone(&self) -> Node {
        self.standalone_with(
            "sap",
            "  web: { http: 127.0.0.1:0 }\n  gate: { http: 127.0.0.1:0, gateway: true }\n",
        )
    }

    /// As [`Self::standalone`], with these listeners, and what else the file says.
    pub fn standalone_with(&self, name: &str, listeners: &str) -> Node {
        let yaml = format!(
            r#"
routes:
  - match: {{ target: VIDEO }}
    terminate: video
    expose: [user, service]
  - match: {{ target: "SECURE:443" }}
    terminate: secure
  - match: {{ target: "DB:5432" }}
    terminate: db
  - match: {{ target: "ECHO:7000" }}
    terminate: echo
upstreams:
  video: {{ endpoints: ["{}"] }}
  secure: {{ endpoints: ["{}"] }}
  db: {{ endpoints: ["{}"] }}
  echo: {{ endpoints: ["{}"] }}
listeners:
{listeners}
"#,
            self.video.address(),
            self.secure.address(),
            self.db.address(),
            self.echo.address(),
        );
        Node::start(name, &yaml)
    }
}

/// Hermes ends the overlay at `origin`, whatever it is asked for.
pub fn standalone_for(origin: SocketAddr) -> Node {
    let yaml = format!(
        r#"
        listeners:
          web: {{ http: 127.0.0.1:0 }}
        routes:
          - terminate: origin
        upstreams:
          origin: {{ endpoints: ["{origin}"] }}
        "#
    );
    Node::start("sap", &yaml)
}

/// The next hops of a dependent proxy, one for each kind of traffic.
pub struct Hops {
    pub video: SocketAddr,
    pub secure: SocketAddr,
    pub db: SocketAddr,
    pub echo: SocketAddr,
}

impl Hops {
    /// One next hop for everything.
    pub fn all(hop: SocketAddr) -> Self {
        Self {
            video: hop,
            secure: hop,
            db: hop,
            echo: hop,
        }
    }
}

/// A dependent proxy: Hermes takes HTTP (`web`), TCP (`db`) and UDP (`echo`) in and sends everything on. `link` is what else the
/// upstreams say, such as `tls`.
pub fn dependent(hops: &Hops, version: Http, link: &str) -> Node {
    let Hops {
        video,
        secure,
        db,
        echo,
    } = hops;
    let link = format!("http: {}{link}", version.number());
    let yaml = format!(
        r#"
listeners:
  web: {{ http: 127.0.0.1:0 }}
  db: {{ tcp: 127.0.0.1:0, target: "DB:5432" }}
  echo: {{ udp: 127.0.0.1:0, target: "ECHO:7000" }}
routes:
  - match: {{ target: VIDEO }}
    to: video
  - match: {{ target: "SECURE:443" }}
    to: secure
  - match: {{ target: "DB:5432" }}
    to: db
  - match: {{ target: "ECHO:7000" }}
    to: echo
upstreams:
  video: {{ endpoints: ["{video}"], {link} }}
  secure: {{ endpoints: ["{secure}"], {link} }}
  db: {{ endpoints: ["{db}"], {link} }}
  echo: {{ endpoints: ["{echo}"], {link} }}
"#
    );
    Node::start("dp", &yaml)
}
