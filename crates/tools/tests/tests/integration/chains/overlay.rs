//! An entry that leads through chains of standalone proxies, all under TLS.

use std::net::SocketAddr;

use hermes_tests::{Node, Pki};

/// Proxies that there are: as many as a chain may have.
const HOPS: usize = 4;

/// A free port.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// An entry with a listener for each chain, and the proxies that the chains pass, in their order.
pub struct Chains {
    pub entry: Node,
    pub hops: Vec<Node>,
    pub pki: Pki,
}

impl Chains {
    /// For chains whose hops speak these HTTP versions.
    pub fn start(chains: &[&[u8]]) -> Self {
        let pki = Pki::new();
        let tls = pki.issue(&["127.0.0.1", "node.test"]).yaml();
        let hops: Vec<Node> = (0..HOPS)
            .map(|number| Node::start(&format!("hop{number}"), &hop(&tls, ANY)))
            .collect();
        let addresses: Vec<SocketAddr> = hops.iter().map(|hop| hop.address("web")).collect();
        let entry = Node::start("entry", &entry(&pki, &addresses, chains));
        Self { entry, hops, pki }
    }

    /// A further proxy, at this address.
    pub fn hop(&self, address: SocketAddr) -> Node {
        Node::start(
            "further",
            &hop(&self.pki.issue(&["127.0.0.1", "node.test"]).yaml(), address),
        )
    }

    /// Where a client finds a chain.
    pub fn address(&self, chain: &[u8]) -> SocketAddr {
        self.entry.address(&name(chain))
    }
}

/// A chain's listener.
pub fn name(chain: &[u8]) -> String {
    chain.iter().fold("chain".to_owned(), |name, version| {
        format!("{name}{version}")
    })
}

/// A proxy where tunnels end, for programs of this machine.
fn hop(tls: &str, address: SocketAddr) -> String {
    format!(
        r#"
        listeners: {{ web: {{ http: "{address}", tls: {{ {tls} }} }} }}
        routes: [ {{ terminate: true }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#
    )
}

/// The file of the entry.
pub fn entry(pki: &Pki, hops: &[SocketAddr], chains: &[&[u8]]) -> String {
    let (mut listeners, mut routes, mut upstreams) = (String::new(), String::new(), String::new());
    for chain in chains {
        let name = name(chain);
        listeners += &format!("  {name}: {{ http: 127.0.0.1:0 }}\n");
        let passed: Vec<String> = chain
            .iter()
            .enumerate()
            .map(|(number, version)| format!("hop{number}v{version}"))
            .collect();
        routes += &format!(
            "  - {{ match: {{ listener: {name} }}, to: [{}] }}\n",
            passed.join(", ")
        );
    }
    for (number, address) in hops.iter().enumerate() {
        for version in 1..=3 {
            let tls = format!("tls: {{ ca_file: {} }}", pki.ca().display());
            upstreams += &format!(
                "  hop{number}v{version}: {{ endpoints: [\"{address}\"], http: {version}, {tls} }}\n"
            );
        }
    }
    format!("listeners:\n{listeners}routes:\n{routes}upstreams:\n{upstreams}")
}
