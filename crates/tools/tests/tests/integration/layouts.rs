//! One configuration in the three layouts of the EPI framework's figure 3, and in chains where plain forwarders of TCP and UDP stand
//! between proxies: the same conversations succeed in all of them.

use std::net::{SocketAddr, UdpSocket};

use hermes_tests::eventually::PATIENCE;
use hermes_tests::origins::{self, Origin, Request, tcp_echo, udp_echo};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl};

/// The node at the far end, over every version.
fn far(pki: &Pki) -> Node {
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let yaml = format!(
        "listeners:\n  clear: {{ http: 127.0.0.1:0 }}\n  web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }}\n\
         routes: [ {{ terminate: true }} ]\negress: {{ allow: [127.0.0.0/8] }}\n"
    );
    Node::start("far", &yaml)
}

/// The node of applications: the same configuration, wherever it runs. `next` is how it reaches the far end.
fn near(voice: SocketAddr, next: &str) -> Node {
    let yaml = format!(
        "listeners:\n  web: {{ http: 127.0.0.1:0 }}\n  voice: {{ udp: 127.0.0.1:0, target: \"{voice}\" }}\n\
         routes: [ {{ to: far }} ]\nupstreams: {{ far: {{ {next} }} }}\n"
    );
    Node::start("near", &yaml)
}

/// A plain forwarder of TCP and UDP to one address: it sees bytes, and knows nothing of HTTP.
fn layer_4(to: SocketAddr) -> Node {
    let yaml = format!(
        "listeners:\n  tcp: {{ tcp: 127.0.0.1:0, target: \"{to}\" }}\n  udp: {{ udp: 127.0.0.1:0, target: \"{to}\" }}\n\
         routes: [ {{ terminate: true }} ]\negress: {{ allow: [127.0.0.0/8] }}\n"
    );
    Node::start("layer-4", &yaml)
}

/// The services of all tests.
struct Services {
    web: Origin<Request>,
    echo: Origin<Vec<u8>>,
    voice: Origin<(SocketAddr, Vec<u8>)>,
}

impl Services {
    fn new() -> Self {
        Self {
            web: origins::http(),
            echo: tcp_echo(),
            voice: udp_echo([127, 0, 0, 1].into()),
        }
    }

    /// A request, a tunnel of bytes and a datagram of one application.
    fn are_reached(&self, web: SocketAddr, voice: SocketAddr) {
        let proxy = format!("http://{web}");
        let got = curl(&["-x", &proxy, &format!("http://{}/a", self.web.address())]);
        assert_eq!(got.status, 200, "{got:?}");

        let target = self.echo.address().to_string();
        let mut tunnel = Raw::tunnel(web, &target, "").unwrap();
        tunnel.send("hello");
        assert_eq!(tunnel.exactly(5), b"hello");

        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"voice", voice).unwrap();
        let mut heard = [0; 16];
        let (length, _) = socket.recv_from(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"voice");
    }

    fn are_reached_by(&self, near: &Node) {
        self.are_reached(near.address("web"), near.address("voice"));
    }
}

#[test]
fn one_configuration_serves_in_each_of_three_layouts() {
    let pki = Pki::new();
    let services = Services::new();
    let far = far(&pki);
    let voice = services.voice.address();
    let next = format!("endpoints: [\"{}\"], http: 2", far.address("clear"));

    // Shared by the applications of a host.
    let shared = near(voice, &next);
    for _ in 0..3 {
        services.are_reached_by(&shared);
    }

    // One for each application.
    let own: Vec<Node> = (0..3).map(|_| near(voice, &next)).collect();
    own.iter().for_each(|node| services.are_reached_by(node));

    // Off the host: on that of the applications, forwarders of layer 4 alone.
    let off_host = near(voice, &next);
    let web = layer_4(off_host.address("web"));
    let datagrams = layer_4(off_host.address("voice"));
    services.are_reached(web.address("tcp"), datagrams.address("udp"));
}

#[test]
fn chains_of_http_and_layer_4_pass_all_traffic_over_every_version() {
    let pki = Pki::new();
    let services = Services::new();
    let far = far(&pki);
    let first = layer_4(far.address("web"));
    let ca = pki.ca();
    for (version, listener) in [(1, "tcp"), (2, "tcp"), (3, "udp")] {
        // HTTP, layer 4, layer 4, HTTP.
        let second = layer_4(first.address(listener));
        let at = second.address(listener);
        let tls = format!("tls: {{ ca_file: {} }}", ca.display());
        let near = near(
            services.voice.address(),
            &format!("endpoints: [\"{at}\"], http: {version}, {tls}"),
        );
        services.are_reached_by(&near);
    }
}
