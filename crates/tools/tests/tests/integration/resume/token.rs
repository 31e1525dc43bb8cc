//! Where a session ends: who gets it back, with what came meanwhile, and who does not.

use std::net::{SocketAddr, UdpSocket};

use hermes_tests::Node;
use hermes_tests::capsules::{UdpTunnel, path};
use hermes_tests::eventually::{PATIENCE, eventually_true};
use hermes_tests::h2c::Client;
use serde_json::Value;

const FIELD: &str = "hermes-session";

/// A node that believes in the `user` field of its clients, and ends sessions on this machine.
fn end() -> Node {
    end_with("")
}

/// As [`end`], with more keys of its listener.
fn end_with(keys: &str) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, accepts: [user] {keys} }} }}
        routes: [ {{ match: {{ target: "beyond:53" }}, to: next }}, {{ terminate: true, bind: {{ listen: 127.0.0.1 }} }} ]
        upstreams: {{ next: {{ endpoints: ["127.0.0.1:9"] }} }}
        egress: {{ allow: [127.0.0.0/8] }}
        "#
    );
    Node::start("end", &yaml)
}

/// A target that says what the test wants.
struct Target(UdpSocket);

impl Target {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// What comes, and where from.
    fn receive(&self) -> (String, SocketAddr) {
        let mut room = [0; 64];
        let (length, from) = self.0.recv_from(&mut room).unwrap();
        (String::from_utf8_lossy(&room[..length]).into_owned(), from)
    }

    /// Opens a session by this user that asks for `session`, and finds its socket.
    fn session(&self, end: &Node, user: &str, session: &str) -> (UdpTunnel, SocketAddr) {
        // A connection each: the node gives it to a worker of its own choice.
        self.session_on(&Client::connect(end.address("web")), end, user, session)
    }

    fn session_on(
        &self,
        client: &Client,
        end: &Node,
        user: &str,
        session: &str,
    ) -> (UdpTunnel, SocketAddr) {
        let fields = [("user", user), (FIELD, session)];
        let mut tunnel = UdpTunnel::h2(
            client,
            end.address("web"),
            "127.0.0.1",
            self.port(),
            &fields,
        )
        .unwrap();
        tunnel.send("hello");
        let (hello, socket) = self.receive();
        assert_eq!(hello, "hello");
        (tunnel, socket)
    }
}

fn reason(record: &Value) -> &str {
    record["reason"].as_str().unwrap_or_default()
}

#[test]
fn a_session_that_broke_is_taken_over_with_its_socket_and_what_came_meanwhile() {
    let (end, target) = (end(), Target::new());
    let mut client = Client::connect(end.address("web"));
    let (mut tunnel, socket) = target.session_on(&client, &end, "alice", "?1");
    let mut token = tunnel.field(FIELD).unwrap();
    for times in 1..=4 {
        tunnel.reset();
        // What comes behind it was served, so the reset was seen.
        drop(target.session_on(&client, &end, "alice", "?1"));
        for word in ["one", "two"] {
            target.0.send_to(word.as_bytes(), socket).unwrap();
        }
        client = Client::connect(end.address("web"));
        let (next, same) = target.session_on(&client, &end, "alice", &token);
        assert_eq!(same, socket);
        tunnel = next;
        assert_eq!([tunnel.receive(), tunnel.receive()], [b"one", b"two"]);
        token = tunnel.field(FIELD).unwrap();
        eventually_true("the earlier one is recorded", || {
            end.access()
                .iter()
                .filter(|record| reason(record).contains("taken over"))
                .count()
                == times
        });
    }
    tunnel.finish();
    let last = end.record(|record| reason(record) == "done");
    assert_eq!(last["resumed"], 4);
    assert_eq!(last["user"], "alice");
}

#[test]
fn a_session_is_taken_over_from_a_way_that_is_not_known_to_be_dead_yet() {
    let (end, target) = (end(), Target::new());
    let (mut old, socket) = target.session(&end, "alice", "?1");
    let token = old.field(FIELD).unwrap();
    let (mut tunnel, same) = target.session(&end, "alice", &token);
    assert_eq!(same, socket);
    target.0.send_to(b"to the later one", socket).unwrap();
    assert_eq!(tunnel.receive(), b"to the later one");
    assert_eq!(old.rest(), None, "the earlier one is reset");
}

#[test]
fn a_token_that_is_unknown_or_someone_elses_gives_a_fresh_session_and_says_no_more() {
    let (end, target, other) = (end(), Target::new(), Target::new());
    let (mine, socket) = target.session(&end, "alice", "?1");
    let token = mine.field(FIELD).unwrap();
    let foreign = [
        ("bob", token.as_str()),
        ("alice", ":AAAAAAAAAAAAAAAAAAAAAA==:"),
    ];
    for (user, session) in foreign {
        let (tunnel, fresh) = target.session(&end, user, session);
        assert_ne!(fresh, socket);
        let given = tunnel.field(FIELD).unwrap();
        assert!(given != token && given != session, "{given}");
        assert_eq!(given.len(), token.len());
    }
    let (tunnel, _) = other.session(&end, "alice", &token);
    assert_ne!(
        tunnel.field(FIELD).unwrap(),
        token,
        "it leads to another target"
    );
    let (tunnel, fresh) = target.session(&end, "alice", "nonsense");
    assert_eq!(tunnel.field(FIELD), None, "no one asked for a session");
    assert_ne!(fresh, socket);
    // Through all that, the session is still hers.
    let (again, same) = target.session(&end, "alice", &token);
    assert_eq!((again.field(FIELD).unwrap(), same), (token.clone(), socket));
    let said =
        end.log() + &std::fs::read_to_string(end.folder().join("access.json")).unwrap_or_default();
    assert!(
        !said.contains(token.trim_matches(':')),
        "a token stands in no log"
    );
}

#[test]
fn a_session_that_was_ended_cannot_be_taken_over() {
    let (end, target) = (end(), Target::new());
    let (mut tunnel, socket) = target.session(&end, "alice", "?1");
    let token = tunnel.field(FIELD).unwrap();
    tunnel.finish();
    assert!(tunnel.rest().is_some());
    end.record(|record| reason(record) == "done");
    let (tunnel, fresh) = target.session(&end, "alice", &token);
    assert_ne!(fresh, socket);
    assert_ne!(tunnel.field(FIELD).unwrap(), token);
}

#[test]
fn a_token_makes_room_for_its_own_session_and_for_no_other() {
    let end = end_with(", limits: { sessions_per_user: 1 }");
    let (target, other) = (Target::new(), Target::new());
    let (old, socket) = target.session(&end, "alice", "?1");
    let token = old.field(FIELD).unwrap();
    let client = Client::connect(end.address("web"));
    for (host, port, binds) in [
        ("127.0.0.1", other.port(), "?0"),
        ("beyond", 53, "?0"),
        ("*", 0, "?1"),
    ] {
        let path = if host == "*" {
            "/.well-known/masque/udp/%2A/%2A/".to_owned()
        } else {
            path(host, port)
        };
        let uri = format!("http://{}{path}", end.address("web"));
        let fields = [
            ("user", "alice"),
            (FIELD, &token),
            ("connect-udp-bind", binds),
            ("capsule-protocol", "?1"),
        ];
        let refused = client.extended("connect-udp", &uri, &fields).unwrap_err();
        assert_eq!(refused.status, 429, "{host}: {:?}", refused.fields);
    }
    let (_tunnel, same) = target.session(&end, "alice", &token);
    assert_eq!(same, socket);
}

#[test]
fn a_node_that_stops_does_not_wait_for_those_who_may_come_back() {
    let (mut end, target) = (end(), Target::new());
    let client = Client::connect(end.address("web"));
    let (tunnel, _) = target.session_on(&client, &end, "alice", "?1");
    tunnel.reset();
    // What comes behind it was served, so the reset was seen.
    let (mut other, _) = target.session_on(&client, &end, "alice", "?1");
    other.finish();
    end.record(|record| reason(record) == "done");
    assert!(end.stop().success());
    let reasons: Vec<_> = end
        .access()
        .iter()
        .map(|record| reason(record).to_owned())
        .collect();
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("the node stops")),
        "{reasons:?}"
    );
}

#[test]
fn a_session_of_which_the_target_has_seen_nothing_is_not_kept() {
    let (end, target) = (end(), Target::new());
    let client = Client::connect(end.address("web"));
    let fields = [("user", "alice"), (FIELD, "?1")];
    let tunnel = UdpTunnel::h2(
        &client,
        end.address("web"),
        "127.0.0.1",
        target.port(),
        &fields,
    )
    .unwrap();
    let token = tunnel.field(FIELD).unwrap();
    tunnel.reset();
    // What comes behind it was served, so the reset was seen.
    drop(target.session_on(&client, &end, "alice", "?1"));
    let (tunnel, _) = target.session(&end, "alice", &token);
    assert_ne!(tunnel.field(FIELD).unwrap(), token);
}
