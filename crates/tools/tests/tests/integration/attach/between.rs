//! Attachments through what stands between a node and the proxy that it attaches to, and several nodes of one name.

use hermes_tests::{Node, Pki, curl, origins};

use super::overlay::{Machine, ROUTES, attached, core, node, reaching};

fn only_a_site(site: std::net::SocketAddr) -> Machine {
    let unused = "127.0.0.1:9".parse().unwrap();
    Machine {
        site,
        db: unused,
        player: unused,
    }
}

#[test]
fn a_proxy_on_the_way_passes_attachments_on_over_each_version() {
    let pki = Pki::new();
    let site = origins::http();
    let speaks = core(&pki, ROUTES).replace(
        "  bob:",
        "  edge: { certificate: edge.overlay, speaks_for: [alice] }\n  bob:",
    );
    let core = Node::start("core", &speaks);
    for version in [1, 2, 3] {
        let (issued, ca) = (
            pki.issue(&["edge.overlay"]).yaml(),
            pki.ca().display().to_string(),
        );
        let edge = Node::start(
            "edge",
            &format!(
                r#"
listeners: {{ overlay: {{ http: 127.0.0.1:0, auth: mtls, tls: {{ {issued}, client_ca_file: {ca} }} }} }}
peers: {{ alice: {{ certificate: alice.overlay, speaks_for: [alice] }} }}
routes: [ {{ match: {{ protocol: ptth }}, to: core }} ]
upstreams:
  core: {{ endpoints: ["{}"], http: {version}, tls: {{ ca_file: {ca}, {issued}, server_name: core.overlay }} }}
"#,
                core.address("overlay")
            ),
        );
        let file = reaching(
            &pki,
            "alice",
            edge.address("overlay"),
            version,
            only_a_site(site.address()),
            "core",
        );
        // She sees the certificate of the proxy that she connected to.
        let file = file.replace("core.overlay", "edge.overlay");
        let alice = Node::start("alice", &file);
        attached(&core, "alice", 2);
        let answer = curl(&["-x", &core.url("web"), "http://alice/"]);
        assert_eq!(answer.status, 200, "HTTP/{version}: {answer:?}");
        assert_eq!(site.last().field("user").as_deref(), Some("server"));
        drop(alice);
        attached(&core, "alice", 0);
    }
}

#[test]
fn a_node_attaches_through_the_connect_of_another_proxy() {
    let pki = Pki::new();
    let (core, site, office) = (
        Node::start("core", &core(&pki, ROUTES)),
        origins::http(),
        Node::forward_proxy(),
    );
    let file = node(&pki, "alice", &core, 2, only_a_site(site.address()));
    let via = "  core:\n    via: office\n";
    let file = file.replace(
        "upstreams:\n  core:\n",
        &format!(
            "upstreams:\n  office: {{ endpoints: [\"{}\"] }}\n{via}",
            office.address("web")
        ),
    );
    let _alice = Node::start("alice", &file);
    attached(&core, "alice", 2);
    assert_eq!(curl(&["-x", &core.url("web"), "http://alice/"]).status, 200);
    assert_eq!(site.last().field("user").as_deref(), Some("server"));
}

#[test]
fn nodes_of_one_name_share_its_exchanges_and_take_over_for_each_other() {
    let pki = Pki::new();
    let core = Node::start("core", &core(&pki, ROUTES));
    let sites = [origins::http(), origins::http()];
    let file = |site: usize| {
        reaching(
            &pki,
            "alice",
            core.address("overlay"),
            2,
            only_a_site(sites[site].address()),
            "{ to: core, connections: 1 }",
        )
    };
    let (_first, mut second) = (
        Node::start("alice", &file(0)),
        Node::start("alice", &file(1)),
    );
    attached(&core, "alice", 2);
    let ask = || assert_eq!(curl(&["-x", &core.url("web"), "http://alice/"]).status, 200);
    // Each comes on a connection of its own, whichever worker that is for; each attachment is on one.
    (0..20).for_each(|_| ask());
    assert!(sites.iter().all(|site| site.seen().len() == 10), "in turn");
    second.kill();
    (0..20).for_each(|_| ask());
    assert_eq!(sites[0].seen().len(), 30);
}
