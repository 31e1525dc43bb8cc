//! Descriptors that run out: for one user, for all, and never for administration.

use std::net::TcpListener;
use std::process::Command;

use hermes_tests::eventually::eventually_true;
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins, program};

/// What the process may have; a quarter is kept back of so few.
const LIMIT: &str = "--nofile=256:256";

fn node(yaml: &str) -> Node {
    let mut command = Command::new("prlimit");
    command.args([LIMIT, "--"]).arg(program::path());
    Node::start_by(command, "edge", yaml)
}

const PROXY: &str = r#"
    workers: 2
    listeners: { web: { http: 127.0.0.1:0, accepts: [user] } }
    routes: [ { match: { path: /here }, respond: { status: 204 } }, { terminate: true } ]
    egress: { allow: [127.0.0.0/8] }
"#;

fn gauge(node: &Node, name: &str) -> f64 {
    let metrics = node.metrics();
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("{name} in {metrics}"))
        .parse()
        .unwrap()
}

#[test]
fn each_copy_of_a_broadcast_counts_to_its_user() {
    // Connections to it wait to be accepted, and so do the requests on them.
    let silent = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let endpoints: Vec<String> = (1..=16)
        .map(|last| format!("\"127.0.0.{last}:{port}\""))
        .collect();
    let node = node(&format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, user: alice, accepts: [x-hermes-broadcast] }} }}\n\
         routes: [ {{ terminate: shards, broadcast: {{ users: [alice], time: 5m }} }} ]\n\
         upstreams: {{ shards: {{ endpoints: [{}] }} }}\n",
        endpoints.join(", ")
    ));
    let mut asking = Vec::new();
    let refused = loop {
        let mut client = Raw::connect(node.address("web"));
        client.send("GET http://site/ HTTP/1.1\r\nHost: site\r\nX-Hermes-Broadcast: true\r\n\r\n");
        asking.push(client);
        let copies = 16.0 * asking.len() as f64;
        let refused = || {
            node.access()
                .into_iter()
                .find(|record| record["status"] == 429)
        };
        eventually_true("its copies are out, or it is refused", || {
            gauge(&node, "hermes_descriptors_held") >= copies || refused().is_some()
        });
        if let Some(refused) = refused() {
            break refused;
        }
        assert!(asking.len() < 8, "one user takes all");
    };
    let reason = refused["reason"].as_str().unwrap();
    assert!(
        reason.contains("the user holds 96 of 192 descriptors") && reason.contains("needs 16"),
        "{refused}"
    );
    assert_eq!(asking.len(), 7, "a user who is alone has half");
    drop((asking, silent));
    eventually_true("all is given back", || {
        gauge(&node, "hermes_descriptors_held") == 0.0
    });
}

#[test]
fn one_user_holds_as_many_descriptors_as_are_free() {
    let (node, origin) = (node(PROXY), origins::tcp_echo());
    let (client, authority) = (
        Client::connect(node.address("web")),
        origin.address().to_string(),
    );
    let open = |user: &str| client.tunnel(&authority, &[("user", user)]);
    let mut alice = Vec::new();
    let refused = loop {
        match open("alice") {
            Ok(tunnel) => alice.push(tunnel),
            Err(refused) => break refused,
        }
        assert!(alice.len() < 150, "one user takes all");
    };
    assert_eq!(refused.status, 429);
    let status = refused
        .fields
        .get("proxy-status")
        .unwrap()
        .to_str()
        .unwrap();
    assert!(
        status.contains("the user holds") && status.contains("descriptors"),
        "{status}"
    );
    assert!(
        alice.len() > 60,
        "a user who is alone has half: {}",
        alice.len()
    );

    let mut bob: Vec<_> = (0..30).map(|_| open("bob").unwrap()).collect();
    for tunnel in alice.iter_mut().chain(&mut bob) {
        tunnel.send("x");
        assert_eq!(tunnel.exactly(1), b"x");
    }
    eventually_true("the log says who", || {
        node.log().contains("user alice holds most")
    });
    assert_eq!(
        node.log().matches("no descriptor was left").count(),
        1,
        "{}",
        node.log()
    );
    drop((alice, bob));
    eventually_true("there is room again", || open("alice").is_ok());
}

#[test]
fn administration_goes_on_when_all_descriptors_are_taken() {
    let node = node(PROXY);
    let address = node.address("web");
    let mut held: Vec<Raw> = (0..400).filter_map(|_| Raw::try_connect(address)).collect();
    eventually_true("the log says so, and what to do", || {
        node.log().contains("no descriptor was left") && node.log().contains("LimitNOFILE=")
    });
    assert!(node.fds() < 230, "{} descriptors are open", node.fds());
    assert_eq!(node.status()["node"], "edge");
    let more = PROXY.replace("web: {", "other: { http: 127.0.0.1:0 }, web: {");
    let (status, report) = node.reload(&more);
    assert_eq!(status, 200, "{report}");
    assert!(gauge(&node, "process_open_fds") < 230.0);
    assert_eq!(
        (
            gauge(&node, "process_max_fds"),
            gauge(&node, "hermes_descriptors_max")
        ),
        (256.0, 192.0)
    );

    // Those that were accepted are served.
    let first = &mut held[0];
    first.send("GET http://a/here HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(first.head().status(), 204);
    drop(held);
    for listener in ["web", "other"] {
        eventually_true("there is room again", || {
            curl(&["-x", &node.url(listener), "http://a/here"]).status == 204
        });
    }
}
